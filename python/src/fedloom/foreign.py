"""Samples of other libraries as arrays: pandas DataFrames, pyarrow Tables and PyTorch data sets. None of these is
imported here: whoever hands over such a thing has done it."""

from __future__ import annotations

import difflib
import sys
from typing import Any, Callable

import numpy as np

from ._core import ConfigError


def _instance(value: Any, module: str, *names: str) -> bool:
    """Whether it is of one of a module's classes, which it cannot be before the module is imported."""
    classes = [getattr(sys.modules[module], n) for n in names] if module in sys.modules else []
    return isinstance(value, tuple(classes))


# ---- tables


def is_table(value: Any) -> bool:
    return _instance(value, "pandas", "DataFrame") or _instance(value, "pyarrow", "Table")


def is_name(value: Any) -> bool:
    """Whether it names a column, instead of being one."""
    return isinstance(value, (str, int, np.integer))


def _pandas_column(column: Any) -> tuple[np.ndarray, int]:
    missing = int(column.isna().sum())
    numpy_type = getattr(column.dtype, "numpy_dtype", None)  # of a nullable type
    if not missing and numpy_type is not None:
        column = column.astype(numpy_type)
    return column.to_numpy(), missing


def _arrow_column(column: Any) -> tuple[np.ndarray, int]:
    if hasattr(column.type, "value_type") and hasattr(column.type, "index_type"):  # a dictionary: words as numbers
        column = column.cast(column.type.value_type)
    values = column.to_numpy()
    missing = column.null_count
    if values.dtype.kind == "f":
        missing = int(np.isnan(values).sum())
    return values, missing


class Table:
    """A table by its columns. `what` is what it is called in messages."""

    def __init__(self, what: str, table: Any) -> None:
        self.what, self._table = what, table
        arrow = _instance(table, "pyarrow", "Table")
        self.kind = "Table" if arrow else "DataFrame"
        self.names: list = list(table.column_names if arrow else table.columns)
        self._read: Callable[[Any], tuple] = _arrow_column if arrow else _pandas_column
        twice = {n for n in self.names if self.names.count(n) > 1}
        if twice:
            raise ConfigError(f"{what} has more than one column {sorted(twice, key=str)[0]!r}")

    def __len__(self) -> int:
        return len(self._table)

    def column(self, name: Any) -> np.ndarray:
        if name not in self.names:
            near = difflib.get_close_matches(str(name), [str(n) for n in self.names], 1)
            has = f"did you mean {near[0]!r}?" if near else "it has " + _few(self.names)
            raise ConfigError(f"{self.what} has no column {name!r}; {has}")
        values, missing = self._read(self._table[name])
        if missing:
            raise ConfigError(f"column {name!r} of {self.what} has {missing} missing values: fill or drop them first")
        return values

    def features(self, names: list) -> np.ndarray:
        """These columns, one sample per row, in the smallest type for all of them."""
        if not names:
            raise ConfigError(f"{self.what} has no column that could be a feature")
        columns = [self.column(n) for n in names]
        for name, values in zip(names, columns):
            if values.dtype.kind not in "fiub":
                raise ConfigError(
                    f"column {name!r} of {self.what} is of type {values.dtype}, but features are numbers: "
                    "drop it, or make numbers of it"
                )
        return np.stack([c.astype(np.result_type(*columns), copy=False) for c in columns], axis=1)


def _few(names: list) -> str:
    return ", ".join(repr(n) for n in names[:8]) + (", ..." if len(names) > 8 else "")


# ---- data sets


def is_dataset(value: Any) -> bool:
    return _instance(value, "torch.utils.data", "Dataset", "DataLoader")


def _sample(value: Any) -> np.ndarray:
    if hasattr(value, "getbands"):  # Pillow's images have their channels last
        pixels = np.asarray(value)
        return pixels if pixels.ndim == 2 else pixels.transpose(2, 0, 1)
    return np.asarray(value)


def _pair(what: str, dataset: Any, i: int) -> tuple:
    item = dataset[i]
    if not isinstance(item, (list, tuple)) or len(item) != 2:
        raise ConfigError(f"item {i} of {what} is a {type(item).__name__}, but must be a pair (input, target)")
    return item


def _from_items(what: str, dataset: Any) -> tuple[np.ndarray, np.ndarray]:
    n = len(dataset)
    if not n:
        raise ConfigError(f"{what} has no samples")
    x, targets = np.empty(0), []
    for i in range(n):
        sample, target = _pair(what, dataset, i)
        sample = _sample(sample)
        if not i:
            x = np.empty((n, *sample.shape), sample.dtype)
        if sample.shape != x.shape[1:] or sample.dtype != x.dtype:
            raise ConfigError(
                f"item {i} of {what} is of the shape {sample.shape} and type {sample.dtype}, "
                f"but item 0 of {x.shape[1:]} and {x.dtype}"
            )
        x[i] = sample
        targets.append(np.asarray(target))
    return x, np.stack(targets)


def dataset_arrays(what: str, dataset: Any) -> tuple[np.ndarray, np.ndarray, list | None, bool]:
    """(x, y, names of the classes if the data set has them, whether all was copied)."""
    data = sys.modules["torch.utils.data"]
    if isinstance(dataset, data.IterableDataset):
        raise ConfigError(f"{what} is an IterableDataset, but samples must have numbers: a map-style data set")
    if isinstance(dataset, data.DataLoader):
        raise ConfigError(f"{what} is a DataLoader, but fedloom draws mini-batches itself: give its data set")
    inner = dataset
    while isinstance(inner, data.Subset):
        inner = inner.dataset
    names = getattr(inner, "classes", None)
    if not isinstance(names, (list, tuple)) or not all(isinstance(n, str) for n in names):
        names = None
    if type(dataset) is data.TensorDataset and len(dataset.tensors) == 2:
        x, y = (t.detach().cpu().numpy() for t in dataset.tensors)
        return x, y, names, False
    return (*_from_items(what, dataset), names, True)


# ---- for fedloom.Data

Note = Callable[[str, str], None]


def _from_table(note: Note, what: str, table: Any, features: list | None, *wanted: Any) -> tuple:
    """(names of the features, their values, what else is wanted): a name becomes its column, the rest stays."""
    t = Table(what, table)
    names = [v for v in wanted if is_name(v)]
    others = [t.column(v) if is_name(v) else v for v in wanted]  # a misspelt name is said before all else
    if features is None:
        features = [n for n in t.names if n not in names]
    note(what, f"put into rows: it was columns of a {t.kind}")
    return features, t.features(features), *others


def _from_tables(note: Note, tables: list, *wanted: Any) -> tuple:
    """The same for a table per client."""
    made: list = []
    for i, table in enumerate(tables):
        made.append(_from_table(note, f"x[{i}]", table, made[0][0] if made else None, *wanted))
    columns = ([m[2 + k] for m in made] if is_name(v) else v for k, v in enumerate(wanted))
    return made[0][0], [m[1] for m in made], *columns


def _from_dataset(note: Note, what: str, dataset: Any) -> tuple:
    x, y, names, copied = dataset_arrays(what, dataset)
    if copied:
        note(what, f"put into one array: it was {len(x)} items of a data set")
    return x, y, names


def _test_arrays(note: Note, test: Any, features: list | None, y: Any, target: Any) -> Any:
    """A test set as (x, y), or as it was."""
    if is_dataset(test):
        return _from_dataset(note, "test x", test)[:2]
    wanted = target if y is None else y
    if is_table(test):
        if not is_name(wanted):
            raise ConfigError("test is a table, and y names none of its columns: give test=(x, y)")
    elif isinstance(test, (list, tuple)) and len(test) == 2 and is_table(test[0]):
        test, wanted = test
    else:
        return test
    _, x, found = _from_table(note, "test x", test, features, wanted)
    return x, found if y is not None else np.asarray(found, np.float64)


def arrays(note: Note, x: Any, y: Any, target: Any, clients: Any, test: Any) -> tuple:
    """(x, y, target, clients, test, names of the classes or None), of arrays where they were tables or data sets.
    `note` is told what had to be copied."""
    many = isinstance(x, (list, tuple)) and len(x) > 0
    parts = list(x) if many else [x]
    features, class_names, wanted = None, None, (y, target)
    if all(map(is_table, parts)):
        take = _from_tables if many else _from_table
        given = (parts,) if many else ("x", x, None)
        features, x, y, target, clients = take(note, *given, y, target, clients)
    elif all(map(is_dataset, parts)):
        if y is not None or target is not None:
            raise ConfigError("x is a data set, which has its targets: y and target have no place")
        made = [_from_dataset(note, f"x[{i}]" if many else "x", p) for i, p in enumerate(parts)]
        x, y = ([m[0] for m in made], [m[1] for m in made]) if many else made[0][:2]
        class_names, wanted = made[0][2], (y, None)
    elif any(isinstance(v, str) for v in (y, target, clients)):
        raise ConfigError("y, target and clients are names of columns only where x is a table")
    return x, y, target, clients, _test_arrays(note, test, features, *wanted), class_names
