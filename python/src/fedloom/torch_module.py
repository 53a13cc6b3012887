"""A module as a function of one vector. Part of fedloom.torch."""

from __future__ import annotations

import contextlib
import copy
import os
import threading
from typing import Any, Callable, Iterator

import numpy as np
import torch
from torch import nn
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.parameter import is_lazy

from ._core import ConfigError
from .torch_data import Clients

_REALS = {torch.float32: "f32", torch.float64: "f64"}


def trained(module: nn.Module) -> dict[str, nn.Parameter]:
    """The parameters that are trained, by name, each once; or what is wrong with them."""
    found = {name: p for name, p in module.named_parameters()}
    what = type(module).__name__
    for name, p in found.items():
        if is_lazy(p):
            raise ConfigError(f"parameter {name} of {what} has no shape yet: call the module on a batch first")
    found = {name: p for name, p in found.items() if p.requires_grad and p.numel()}
    if not found:
        raise ConfigError(f"{what} has no parameters to train")
    kinds = {p.dtype: name for name, p in found.items()}
    for dtype, name in kinds.items():
        if dtype not in _REALS:
            raise ConfigError(f"parameter {name} of {what} is of type {dtype}, but models are trained in torch.float32 "
                              "or torch.float64")  # fmt: skip
    if len(kinds) > 1:
        raise ConfigError(f"parameters of {what} are of different types: " +
                          ", ".join(f"{name} is {dtype}" for dtype, name in kinds.items()))  # fmt: skip
    return found


def precision(parameters: dict[str, nn.Parameter]) -> str:
    return _REALS[next(iter(parameters.values())).dtype]


def vector(parameters: Any) -> np.ndarray:
    """Parameters as one vector, in their order."""
    with torch.no_grad():
        return torch.cat([p.detach().reshape(-1) for p in parameters]).cpu().numpy()


def statistics_of(module: nn.Module) -> list[Any]:
    """Layers with running statistics (PyTorch's types do not know that these have them)."""
    return [m for m in module.modules() if isinstance(m, _NormBase) and m.running_mean is not None]


class Flat:
    """A copy of a module whose trained parameters, and their gradients, are views of one vector each."""

    def __init__(self, module: nn.Module, device: torch.device, frozen: bool) -> None:
        self.module = copy.deepcopy(module).to(device)
        self.parameters = list(trained(self.module).values())
        n, dtype = sum(p.numel() for p in self.parameters), self.parameters[0].dtype
        self.x, self.g, self.spare = (torch.zeros(n, dtype=dtype, device=device) for _ in range(3))
        at = 0
        for p in self.parameters:
            p.data = self.x[at : at + p.numel()].view(p.shape)
            p.grad = self.g[at : at + p.numel()].view(p.shape)
            at += p.numel()
        self.norms = statistics_of(self.module)
        self.frozen = frozen
        self._buffers = [(m, k, b.clone()) for m in self.module.modules() for k, b in m._buffers.items()
                         if b is not None]  # fmt: skip
        pinned = device.type == "cuda"
        self._host = torch.empty(n, dtype=dtype, pin_memory=pinned) if device.type != "cpu" else None

    # ---- vectors: arrays of NumPy, whatever the device

    def put(self, tensor: torch.Tensor, array: np.ndarray) -> torch.Tensor:
        host = tensor if self._host is None else self._host
        np.copyto(host.numpy(), array)
        return tensor if host is tensor else tensor.copy_(host)

    def get(self, tensor: torch.Tensor) -> np.ndarray:
        """A copy: it is read when this module may be somebody else's already."""
        return (tensor if self._host is None else self._host.copy_(tensor)).numpy().copy()

    def views(self, tensor: torch.Tensor) -> list[torch.Tensor]:
        """A vector as tensors of the parameters' shapes."""
        parts = tensor.split([p.numel() for p in self.parameters])
        return [v.view(p.shape) for v, p in zip(parts, self.parameters)]

    # ---- modes

    def training(self) -> None:
        """As clients train: their batches' statistics, or those of the buffers where these are frozen."""
        self._reset()
        if not self.module.training or self.frozen:
            self.module.train()
        if self.frozen:
            for m in self.norms:
                m.eval()

    def evaluating(self, statistics: list | None) -> None:
        self._reset()
        self.module.eval()
        if statistics is not None:
            put_statistics(self.norms, statistics)

    def _reset(self) -> None:
        """What an earlier use did to buffers has no effect on a later one."""
        for m, k, saved in self._buffers:
            now = m._buffers[k]
            if now is None or now.shape != saved.shape:
                m._buffers[k] = saved.clone()
            else:
                now.copy_(saved)

    # ---- computing

    def outputs(self, inputs: Any) -> Any:
        if isinstance(inputs, tuple):
            return self.module(*inputs)
        return self.module(**inputs) if isinstance(inputs, dict) else self.module(inputs)


def put_statistics(norms: list[Any], statistics: list) -> None:
    for m, (mean, var) in zip(norms, statistics):
        m.running_mean.copy_(mean)
        m.running_var.copy_(var)


class Statistics:
    """Running statistics of a model, made afresh: the means of those of the clients' batches, over all their samples.

    They depend on the model alone, not on how it was trained, so any method and any order of turns may use them.
    Models that were asked for lately are remembered.
    """

    BATCH = 256

    def __init__(self, clients: Clients) -> None:
        self._clients = clients
        self._known: list[tuple[np.ndarray, list]] = []
        self._lock = threading.Lock()

    def of(self, x: np.ndarray, flat: Flat) -> list | None:
        """At x; None: the module has none. `flat` is there to be used."""
        if not flat.norms or flat.frozen:
            return None
        with self._lock:
            for k, (known, found) in enumerate(self._known):
                if np.array_equal(known, x):
                    self._known.append(self._known.pop(k))
                    return found
            found = self._measured(x, flat)
            self._known = self._known[-2 - (os.cpu_count() or 1) :] + [(x.copy(), found)]
            return found

    def _batches(self) -> Iterator[np.ndarray]:
        for at, n in zip(self._clients.start, self._clients.sizes):
            if n > 1:  # one sample has no variance
                yield from np.array_split(np.arange(at, at + n), -(-n // self.BATCH))

    def _measured(self, x: np.ndarray, flat: Flat) -> list:
        flat.put(flat.x, x)
        flat.evaluating(None)
        momenta = [m.momentum for m in flat.norms]
        try:
            for m in flat.norms:
                m.reset_running_stats()
                m.momentum = None  # the plain mean
                m.train()
            with torch.no_grad():
                for numbers in self._batches():
                    flat.outputs(self._clients.batch(numbers)[0])
        finally:
            for m, momentum in zip(flat.norms, momenta):
                m.momentum = momentum
        return [(m.running_mean.clone(), m.running_var.clone()) for m in flat.norms]


class Pool:
    """Copies of the module, as many as are at work at the same time."""

    def __init__(self, make: Callable[[], Flat]) -> None:
        self._make = make
        self._free: list[Flat] = []

    @contextlib.contextmanager
    def one(self) -> Iterator[Flat]:
        try:
            flat = self._free.pop()
        except IndexError:
            flat = self._make()
        try:
            yield flat
        finally:
            self._free.append(flat)
