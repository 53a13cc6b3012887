"""Samples in memory: NumPy arrays and SciPy's sparse matrices, without copies where their layout allows it; tables and
data sets of other libraries (foreign.py)."""

from __future__ import annotations

from typing import Any, Sequence

import numpy as np

from . import foreign
from ._core import ConfigError, ffi, log, numbers, pointer, whole

# What features of other types become: the smallest type that has all their values.
_EXACT = {
    "bool": np.float32, "int8": np.float32, "int16": np.float32, "uint16": np.float32, "float16": np.float32,
    "int32": np.float64, "uint32": np.float64, "int64": np.float64, "uint64": np.float64,
}  # fmt: skip
_NOBODY = 0xFFFFFFFF
_TASKS = ("auto", "classification", "regression")
_FEW, _EACH, _MANY = 20, 10, 1000  # what looks like values to predict, see check_labels


class Data:
    """Samples for a federation, and who holds them.

    x        features, one sample per row: uint8 (pixels), float32 or float64, or a scipy.sparse matrix; of shape
             (n, dim), (n, height, width) or (n, channels, height, width). A list of arrays: one per client. A pandas
             DataFrame or a pyarrow Table, whose columns y, target and clients may name; the others are features. A
             PyTorch data set of pairs (input, target), which has y, too. Lists of these: one per client.
             None: samples are known by their numbers alone (n=...), for an objective of one's own.
    y        integers, texts or anything else that names classes; floating-point numbers are targets of a regression.
    target   targets, whatever their type.
    clients  who holds what: for each sample the number or name of its client (-1: nobody), or a list with an array of
             sample numbers per client. sizes: client i holds the next sizes[i] samples. Neither: as `partition` says.
    test     (x, y) of a separate test set, or a table or data set as x is one; where samples are known by their
             numbers, how many it has.
    classes  how many there are; else as many as the labels show.
    task     "regression": y has values to predict, whatever their type; "classification": it has classes, however many;
             "auto": by their type, and labels that look like values to predict (many different ones) are refused where
             a run would take them. A client (halves.Client) takes any: its server says what the classes are.
    weights  of the clients, up to a factor.
    copy     False: raise where a conversion would be needed. `conversions` says what was converted.

    Further keywords are keys of the configuration's `data` section (normalize, test_fraction, ...).
    """

    def __init__(
        self,
        x: Any,
        y: Any = None,
        *,
        target: Any = None,
        clients: Any = None,
        sizes: Any = None,
        test: Any = None,
        classes: int | None = None,
        task: str = "auto",
        weights: Any = None,
        shape: Sequence[int] | None = None,
        n: int | None = None,
        copy: bool = True,
        **settings: Any,
    ) -> None:
        self.conversions: list[str] = []
        self.settings = settings
        self.class_names: np.ndarray | None = None
        self._copy = copy
        if task not in _TASKS:
            raise ConfigError(f"task is {task!r}, but must be one of: {', '.join(_TASKS)}")
        if task == "classification" and target is not None:
            raise ConfigError("task is classification, but there are targets; labels are y")
        self._task = task
        x, y, target, clients, test, names = foreign.arrays(self._converted, x, y, target, clients, test)
        if isinstance(x, (list, tuple)) and len(x) and _is_array(x[0]) and np.ndim(x[0]) >= 1:
            x, y, target, sizes = self._joined(x, y, target, clients, sizes)
        self.train = self._samples("x", x, y, target, shape, n)
        if isinstance(test, (int, np.integer)):
            self.test: dict | None = self._samples("test x", None, None, None, shape, int(test))
        else:
            self.test = None if test is None else self._samples("test x", test[0], test[1], None, shape, None)
        self._sure = task == "classification" or classes is not None or names is not None
        self._name_classes(classes if classes is not None or names is None else len(names))
        if names is not None and self.class_names is None and len(names) == self.classes:
            self.class_names = np.array(names)
        self._holding = self._held(clients, sizes, weights)

    # ---- conversions

    def _converted(self, what: str, how: str) -> None:
        if not self._copy:
            raise ConfigError(f"{what} would have to be {how}, and copy=False forbids it")
        self.conversions.append(f"{what}: {how}")
        log.info("%s was %s", what, how)

    def _array(self, what: str, value: Any) -> np.ndarray:
        array = whole(what, value)
        if isinstance(value, np.ndarray) and not value.dtype.isnative:
            self._converted(what, f"converted from {value.dtype.str} to this machine's byte order")
        return array

    def _contiguous(self, what: str, a: np.ndarray) -> np.ndarray:
        if a.flags.c_contiguous:
            return a
        self._converted(what, "copied row by row: it was not contiguous")
        return np.ascontiguousarray(a)

    def _cast(self, what: str, a: np.ndarray, dtype: Any) -> np.ndarray:
        if a.dtype == dtype:
            return a
        self._converted(what, f"converted from {a.dtype} to {np.dtype(dtype)}")
        return a.astype(dtype)

    # ---- samples

    def _joined(self, x: Any, y: Any, target: Any, clients: Any, sizes: Any) -> tuple:
        if clients is not None or sizes is not None:
            raise ConfigError("x is a list of the clients' samples already: clients and sizes have no place")
        sizes = [len(part) for part in x]
        for name, parts in (("y", y), ("target", target)):
            if parts is not None and [len(p) for p in parts] != sizes:
                raise ConfigError(f"x has the samples of {len(sizes)} clients, and {name} not as many of each")
        self._converted("x", "joined: the clients' samples were separate arrays")

        def join(name: str, parts: Any) -> np.ndarray | None:
            return None if parts is None else np.concatenate([whole(f"{name}[{i}]", p) for i, p in enumerate(parts)])

        return join("x", x), join("y", y), join("target", target), sizes

    def _samples(self, what: str, x: Any, y: Any, target: Any, shape: Any, n: int | None) -> dict:
        s: dict[str, Any] = {"what": what}
        if x is None:
            s["n"], s["dim"] = int(n if n is not None else len(y if y is not None else target)), 0
        elif hasattr(x, "tocsr"):
            self._sparse(s, what, x)
        else:
            self._dense(s, what, x, shape)
        if y is not None and target is not None:
            raise ConfigError(f"{what} has both y and target, and needs one of them")
        label_name = what.replace("x", "y")
        if y is not None and self._task == "classification":
            y = self._whole_labels(label_name, y)
        elif y is not None and (self._task == "regression" or _kind(y) == "f"):
            y, target = None, y
        if y is not None:
            s["y"] = self._vector(label_name, y, s["n"])
        if target is not None:
            t = self._vector(label_name, target, s["n"])
            if t.dtype.kind not in "fiub":
                raise ConfigError(f"{label_name} is of type {t.dtype}, but targets are numbers")
            s["target"] = self._cast(label_name, t, np.float64)
        return s

    def _vector(self, what: str, v: Any, n: int) -> np.ndarray:
        v = self._array(what, v)
        if v.ndim == 2 and v.shape[1] == 1:
            v = v[:, 0]
        if v.shape != (n,):
            raise ConfigError(f"{what} has the shape {v.shape}, but there are {n} samples")
        return self._contiguous(what, v)

    def _dense(self, s: dict, what: str, x: Any, shape: Any) -> None:
        x = self._array(what, x)
        if x.ndim == 1 or x.ndim > 4:
            raise ConfigError(f"{what} has the shape {x.shape}, but samples have 1 to 3 dimensions, after the first")
        if x.ndim == 0 or x.shape[0] == 0 or x.size == 0:
            raise ConfigError(f"{what} has the shape {x.shape}: there are no samples in it")
        if x.ndim == 4 and x.shape[3] in (1, 3) and x.shape[1] not in (1, 3):
            raise ConfigError(f"{what} has the shape {x.shape}, but channels come first: {what}.transpose(0, 3, 1, 2)")
        if x.dtype not in (np.uint8, np.float32, np.float64):
            if x.dtype.name not in _EXACT:
                raise ConfigError(f"{what} is of type {x.dtype}, but features are numbers (uint8, float32, float64)")
            x = self._cast(what, x, _EXACT[x.dtype.name])
        x = self._contiguous(what, x)
        s["x"], s["n"], s["dim"] = x, x.shape[0], int(np.prod(x.shape[1:]))
        s["shape"] = _image_shape(what, x.shape[1:], shape, s["dim"])

    def _sparse(self, s: dict, what: str, x: Any) -> None:
        _check_sparse(what, x)  # first: SciPy may crash the process on a broken one
        if x.format != "csr":
            self._converted(what, f"converted from sparse {x.format} to csr")
            x = x.tocsr()
        if not x.has_canonical_format:
            self._converted(what, "put into order: features of a row were not ascending, or given twice")
            x = x.copy()
            x.sum_duplicates()
        values = self._array(what, x.data)
        if values.dtype not in (np.float32, np.float64):
            if values.dtype != np.uint8 and values.dtype.name not in _EXACT:
                raise ConfigError(f"{what} is of type {values.dtype}, but features are numbers")
            values = self._cast(what, values, _EXACT.get(values.dtype.name, np.float32))
        s["x"], s["n"], s["dim"] = values, x.shape[0], x.shape[1]
        if not s["n"]:
            raise ConfigError(f"{what} has the shape {x.shape}: there are no samples in it")
        s["row"] = x.indptr.astype(np.uintp)
        s["col"] = x.indices.view(np.uint32) if x.indices.dtype == np.int32 else x.indices.astype(np.uint32)

    # ---- labels

    def _name_classes(self, classes: int | None) -> None:
        """Labels as 0, 1, ...: integers from 0 on as they are, anything else by the order of its values."""
        parts = [s for s in (self.train, self.test) if s is not None and "y" in s]
        self.classes = 0
        if not parts:
            if classes:
                raise ConfigError(f"there are {classes} classes, but no labels")
            return
        plain = all(s["y"].dtype.kind in "iub" and s["y"].min() >= 0 for s in parts)
        if plain:
            self.classes = int(classes or 1 + max(int(s["y"].max()) for s in parts))
            for s in parts:
                s["label"] = self._plain_labels(s)
            return
        names = np.unique(np.concatenate([np.asarray(s["y"], dtype=parts[0]["y"].dtype) for s in parts]))
        if classes is not None and classes != len(names):
            raise ConfigError(f"classes is {classes}, but the labels have {len(names)} values")
        self.class_names, self.classes = names, len(names)
        for s in parts:
            s["label"] = np.searchsorted(names, s["y"]).astype(np.int32)
        self.conversions.append(f"y: {len(names)} classes named by their values")

    def _whole_labels(self, what: str, y: Any) -> Any:
        """Numbers with a point as integers; anything else as it is."""
        if _kind(y) != "f":
            return y
        values = whole(what, y)
        broken = values[~(np.isfinite(values) & (values == np.floor(values)))]
        if len(broken):
            raise ConfigError(f"{what} has {broken[0]}, which is not a whole number, as classes are")
        return self._cast(what, values, np.int64)

    def _plain_labels(self, s: dict) -> np.ndarray:
        if int(s["y"].max()) >= self.classes:
            raise ConfigError(
                f"a label is {int(s['y'].max())}, but there are {self.classes} classes: 0 to {self.classes - 1}"
            )
        return s["y"] if s["y"].dtype == np.int32 else s["y"].astype(np.int32)

    def check_labels(self) -> None:
        """Raises where labels look like values to predict and nothing says that they are classes: the rule for files
        (src/data/label_names.c)."""
        n, most = self.train["n"], self.classes
        if self._sure or "y" not in self.train or most <= _FEW:
            return
        y = self.train["y"]
        values, first = np.unique(y, return_index=True)
        many = len(values)
        number = y.dtype.kind in "iub"
        if number and many > _FEW and (many > n // _EACH or many > _MANY):
            noun, way_out = "numbers", ' (with model="least_squares")'
        elif many > _MANY and many > n // 2:
            noun, way_out = "ones", ""
        else:
            return
        raise ConfigError(
            f"y: sample {first.max()}: label {y[first.max()]} is the last of {many} different {noun} in {n} samples, "
            f'too many for classes; for values to predict, say fedloom.Data(..., task="regression"){way_out}, for '
            'classes task="classification"'
        )

    # ---- who holds what

    def _held(self, clients: Any, sizes: Any, weights: Any) -> dict | None:
        n = self.train["n"]
        if clients is not None and sizes is not None:
            raise ConfigError("clients and sizes both say who holds what: one of them is enough")
        if clients is None and sizes is None:
            if weights is not None:
                raise ConfigError("weights belong to clients, and clients are not given")
            return None
        if sizes is not None:
            held = _by_sizes(sizes, n)
        elif isinstance(clients, (list, tuple)) and len(clients) and _is_array(clients[0]):
            held = _by_lists(clients, n)
        else:
            held = _by_owner(clients, n)
        if weights is not None:
            held["weight"] = numbers("weights", weights)
            if held["weight"].shape != (held["clients"],):
                raise ConfigError(
                    f"weights has the shape {held['weight'].shape}, but there are {held['clients']} clients"
                )
        return held

    # ---- for the library

    def _structs(self) -> tuple:
        """(train, test, who) as structs, and what they point to."""
        keep: list = []
        train = _samples_struct(self.train, self.classes, keep)
        test = ffi.NULL if self.test is None else _samples_struct(self.test, self.classes, keep)
        if self.class_names is not None:
            names = [ffi.new("char[]", str(name).encode()) for name in self.class_names]
            keep += names
            keep.append(ffi.new("char *[]", names))
            train.class_name = keep[-1]
        who = ffi.NULL
        if self._holding:
            h = self._holding
            who = ffi.new("fl_holding *", {"size": ffi.sizeof("fl_holding"), "clients": h["clients"]})
            for key, ctype in (("start", "size_t"), ("owner", "uint32_t"), ("weight", "double")):
                if key in h:
                    setattr(who, key, _kept(ctype, h[key], keep))
        keep += [train, test, who]
        return train, test, who, keep

    def __repr__(self) -> str:
        who = f", {self._holding['clients']} clients" if self._holding else ""
        kind = f"{self.classes} classes" if self.classes else "targets" if "target" in self.train else "no labels"
        return f"<fedloom.Data: {self.train['n']} samples of {self.train['dim']} features, {kind}{who}>"


def _check_sparse(what: str, x: Any) -> None:
    """Refuses a matrix whose index arrays do not fit its shape."""
    if x.format in ("csr", "csc"):
        rows, dim = x.shape if x.format == "csr" else x.shape[::-1]
        row, col = np.asarray(x.indptr), np.asarray(x.indices)
        good = row.shape == (rows + 1,) and row[0] == 0 and bool((row[1:] >= row[:-1]).all())
        good = good and row[-1] <= min(len(col), len(x.data)) and _within(col[: row[-1]], dim)
    elif x.format == "coo":
        good = len(x.row) == len(x.col) == len(x.data) and _within(x.row, x.shape[0]) and _within(x.col, x.shape[1])
    else:
        return
    if not good:
        raise ConfigError(f"{what} is a broken {x.format} matrix: its index arrays do not fit its shape {x.shape}")


def _within(places: np.ndarray, n: int) -> bool:
    return not len(places) or bool(places.min() >= 0 and places.max() < n)


def _is_array(v: Any) -> bool:
    return isinstance(v, (np.ndarray, list, tuple, range)) or hasattr(v, "__array__")


def _kind(y: Any) -> str:
    return np.asarray(y).dtype.kind


def _image_shape(what: str, own: tuple, shape: Any, dim: int) -> tuple:
    """Channels, height, width; zeros: no images."""
    if shape is not None:
        shape = tuple(int(v) for v in shape)
        shape = (1,) + shape if len(shape) == 2 else shape
        if len(shape) != 3 or int(np.prod(shape)) != dim:
            raise ConfigError(f"{what} has {dim} features, which are no images of the shape {shape}")
        return shape
    if len(own) == 1:
        return (0, 0, 0)
    return (1,) + tuple(own) if len(own) == 2 else tuple(own)


def _by_sizes(sizes: Any, n: int) -> dict:
    sizes = whole("sizes", sizes)
    if sizes.ndim != 1 or sizes.dtype.kind not in "iu" or not len(sizes) or sizes.min() < 0 or int(sizes.sum()) != n:
        raise ConfigError(f"sizes must be whole numbers with the sum {n}, which is how many samples there are")
    start = np.zeros(len(sizes) + 1, np.uintp)
    np.cumsum(sizes, out=start[1:], dtype=np.uintp)
    return {"clients": len(sizes), "start": start}


def _by_lists(lists: Sequence, n: int) -> dict:
    owner = np.full(n, _NOBODY, np.uint32)
    for i, samples in enumerate(lists):
        samples = whole(f"clients[{i}]", samples)
        if not len(samples):
            raise ConfigError(f"client {i} has no samples")
        if samples.ndim != 1 or samples.dtype.kind not in "iu" or samples.min() < 0 or samples.max() >= n:
            raise ConfigError(f"client {i} has samples that do not exist: they have the numbers 0 to {n - 1}")
        taken = samples[owner[samples] != _NOBODY]
        if len(taken) or len(np.unique(samples)) != len(samples):
            raise ConfigError(f"client {i} has a sample that was given already")
        owner[samples] = i
    return {"clients": len(lists), "owner": owner}


def _by_owner(clients: Any, n: int) -> dict:
    owner = whole("clients", clients)
    if owner.shape != (n,):
        raise ConfigError(f"clients has the shape {owner.shape}, but there are {n} samples, and each has a client")
    if owner.dtype.kind not in "iu":
        names, owner = np.unique(owner, return_inverse=True)
        return {"clients": len(names), "owner": owner.astype(np.uint32), "names": names}
    if owner.min() < -1:
        raise ConfigError(f"clients has the number {owner.min()}, but clients have numbers from 0 on (-1: nobody's)")
    count = int(owner.max()) + 1
    return {"clients": count, "owner": np.ascontiguousarray(owner.astype(np.int64).astype(np.uint32))}


def _kept(ctype: str, array: np.ndarray, keep: list) -> Any:
    p = pointer(ctype, np.ascontiguousarray(array))
    keep.append(p)
    return p


def _samples_struct(s: dict, classes: int, keep: list) -> Any:
    out = ffi.new("fl_samples *", {"size": ffi.sizeof("fl_samples"), "n": s["n"], "dim": s["dim"]})
    if "x" in s:
        field, ctype = {"u": ("u8", "uint8_t"), "f4": ("f32", "float"), "f8": ("f64", "double")}[
            "u" if s["x"].dtype == np.uint8 else "f" + str(s["x"].dtype.itemsize)
        ]
        setattr(out, field, _kept(ctype, s["x"], keep))
    for key, ctype in (("row", "size_t"), ("col", "uint32_t"), ("label", "int32_t"), ("target", "double")):
        if key in s:
            setattr(out, key, _kept(ctype, s[key], keep))
    out.classes = classes if "label" in s else 0
    if "shape" in s:
        out.shape[0:3] = s["shape"]
    return out


def as_data(value: Any) -> Data | None:
    """What stands for samples where a configuration may stand: a Data, a pair (x, y), a data set. None: it does not."""
    if isinstance(value, Data):
        return value
    if isinstance(value, tuple) and len(value) == 2:
        return Data(*value)
    return Data(value) if foreign.is_dataset(value) else None


def features(x: Any, dim: int) -> tuple:
    """Samples without labels, for predictions: (struct, how many, what it points to)."""
    data = Data(x)
    if data.train["dim"] != dim:
        raise ConfigError(f"x has {data.train['dim']} features per sample, but the model has {dim}")
    keep: list = []
    return _samples_struct(data.train, 0, keep), data.train["n"], keep
