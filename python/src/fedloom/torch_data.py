"""Samples of a PyTorch federation: where they lie, and as batches on the device. Part of fedloom.torch."""

from __future__ import annotations

import zlib
from typing import Any, Callable, Iterable, Sequence

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, Subset, TensorDataset

from ._core import ConfigError

_END = 16384  # numbers of a tensor that a fingerprint looks at, from either end
_SHARE = 0.5  # of a device's free memory that samples may take


def move(value: Any, device: torch.device) -> Any:
    """A batch, or what it is made of, on the device."""
    if isinstance(value, torch.Tensor):
        return value.to(device, non_blocking=True)
    if isinstance(value, dict):
        return {k: move(v, device) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return tuple(move(v, device) for v in value)
    return value


def fingerprint(tensors: Iterable[torch.Tensor], crc: int = 0) -> int:
    """A checksum of tensors: their shapes and both ends."""
    for t in tensors:
        crc = zlib.crc32(f"{t.dtype} {tuple(t.shape)}".encode(), crc)
        flat = t.detach().reshape(-1)
        for end in (flat[:_END], flat[-_END:]):
            crc = zlib.crc32(end.contiguous().cpu().numpy().tobytes(), crc)
    return crc


class Pairs:
    """Samples that are rows of two tensors, all of them or those of `rows`."""

    def __init__(self, x: torch.Tensor, y: torch.Tensor, rows: torch.Tensor | None = None) -> None:
        self.x, self.y, self.rows = x, y, rows

    def __len__(self) -> int:
        return len(self.x if self.rows is None else self.rows)

    def batch(self, index: np.ndarray, device: torch.device) -> tuple[Any, Any]:
        rows = torch.from_numpy(index)
        if self.rows is not None:
            rows = self.rows[rows]
        rows = rows.to(self.x.device)
        return move((self.x.index_select(0, rows), self.y.index_select(0, rows)), device)


class Items:
    """Samples that a data set gives one by one."""

    def __init__(self, dataset: Any, collate: Callable) -> None:
        self.dataset, self.collate = dataset, collate

    def __len__(self) -> int:
        return len(self.dataset)

    def batch(self, index: np.ndarray, device: torch.device) -> tuple[Any, Any]:
        made = self.collate([self.dataset[i] for i in index.tolist()])
        if not isinstance(made, (list, tuple)) or len(made) != 2:
            raise ConfigError(f"a batch of the data set is a {type(made).__name__}, but must be a pair (input, target)")
        return move(made[0], device), move(made[1], device)


def _pair(what: str, x: Any, y: Any, rows: torch.Tensor | None = None) -> Pairs:
    x, y = (v if isinstance(v, torch.Tensor) else torch.as_tensor(v) for v in (x, y))
    if not x.dim() or not y.dim() or len(x) != len(y):
        raise ConfigError(f"{what} has inputs of the shape {tuple(x.shape)} and targets of the shape {tuple(y.shape)}, "
                          "but needs a target for every input")  # fmt: skip
    x, y = (v.detach() if v.requires_grad else v for v in (x, y))
    return Pairs(x, y, rows)


def _is_pair(given: Any) -> bool:
    arrays = (torch.Tensor, np.ndarray)
    return isinstance(given, (list, tuple)) and len(given) == 2 and all(isinstance(v, arrays) for v in given)


def samples(what: str, given: Any, collate: Callable | None) -> Pairs | Items:
    """What a user gave for a client, or for the test set."""
    if _is_pair(given):
        made: Pairs | Items = _pair(what, *given)
    elif isinstance(given, IterableDataset):
        raise ConfigError(f"{what} is an IterableDataset, but samples must have numbers: a map-style data set")
    elif isinstance(given, DataLoader):
        raise ConfigError(f"{what} is a DataLoader, but fedloom draws mini-batches itself: give its data set")
    elif not isinstance(given, Dataset) and not (hasattr(given, "__getitem__") and hasattr(given, "__len__")):
        raise ConfigError(f"{what} is a {type(given).__name__}, but must be a data set or a pair of tensors (x, y)")
    else:
        made = _unwrapped(what, given, collate)
    if not len(made):
        raise ConfigError(f"{what} has no samples")
    return made


def _unwrapped(what: str, given: Any, collate: Callable | None) -> Pairs | Items:
    """Tensors behind a data set, or behind parts of one, are taken as they are."""
    inner, rows = given, None
    while type(inner) is Subset:
        index = torch.as_tensor(inner.indices, dtype=torch.int64)
        rows = index if rows is None else index[rows]
        inner = inner.dataset
    if type(inner) is TensorDataset and len(inner.tensors) == 2 and collate is None:
        return _pair(what, *inner.tensors, rows)
    return Items(given, collate or torch.utils.data.default_collate)


class Clients:
    """All clients' samples and the test set. Samples have numbers: client i has start[i] to start[i + 1] - 1."""

    def __init__(self, datasets: Sequence, test: Any, collate: Callable | None, device: torch.device) -> None:
        if isinstance(datasets, (str, bytes, dict)) or not hasattr(datasets, "__len__") or _is_pair(datasets):
            raise ConfigError("datasets must be a list: a data set or a pair of tensors (x, y) for every client")
        if not len(datasets):
            raise ConfigError("datasets is empty: there are no clients")
        self.device = device
        self.train = [samples(f"client {i}", datasets[i], collate) for i in range(len(datasets))]
        self.test = None if test is None else samples("the test set", test, collate)
        self.start = np.concatenate([[0], np.cumsum([len(s) for s in self.train])])
        self._settle()

    def _settle(self) -> None:
        """Tensors go to the device once, if they leave room there; tensors that clients share stay shared."""
        every = [s for s in [*self.train, self.test] if isinstance(s, Pairs)]
        tensors = {id(t): t for s in every for t in (s.x, s.y) if t.device != self.device}
        if self.device.type == "cuda" and tensors:
            need = sum(t.numel() * t.element_size() for t in tensors.values())
            if need > _SHARE * torch.cuda.mem_get_info(self.device)[0]:
                return
        moved = {k: t.to(self.device) for k, t in tensors.items()}
        for s in every:
            s.x, s.y = moved.get(id(s.x), s.x), moved.get(id(s.y), s.y)
            s.rows = None if s.rows is None else s.rows.to(self.device)

    def __len__(self) -> int:
        return len(self.train)

    @property
    def sizes(self) -> np.ndarray:
        return np.diff(self.start)

    def fingerprint(self, crc: int) -> int:
        """A checksum that tells federations apart: of tensors as above, of data sets the sizes."""
        for s in [*self.train, self.test]:
            crc = zlib.crc32(repr(None if s is None else len(s)).encode(), crc)
            if isinstance(s, Pairs):
                crc = fingerprint([s.x, s.y] + ([] if s.rows is None else [s.rows]), crc)
        return crc

    def owner(self, numbers: np.ndarray) -> int:
        """Whose they are: samples of one batch are of one client."""
        return int(np.searchsorted(self.start, numbers[0], side="right")) - 1

    def batch(self, numbers: np.ndarray, test: bool = False) -> tuple[Any, Any]:
        """(input, target) of samples by their numbers."""
        index = numbers.astype(np.int64)
        if test:
            assert self.test is not None
            return self.test.batch(index, self.device)
        client = self.owner(index)
        return self.train[client].batch(index - self.start[client], self.device)
