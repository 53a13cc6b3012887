"""Parts of one's own: what is common to them, objectives and local solvers. Methods are in method.py.

Each is registered under its name when it is defined, and can be chosen by that name, or as the object itself, in any
configuration from then on. A name means the one that was defined last under it, as notebooks need; an object means
itself, even if others have its name. The library forgets it when its Python object is gone and no run is left that
might use it.
"""

from __future__ import annotations

import re
import weakref
from typing import Any, Callable, Mapping, Sequence

import numpy as np

from . import _core
from ._core import ConfigError, Context, borrow, borrow_const, failing, ffi, lib, no_print, users

NULL = ffi.NULL

# ---- what is registered -----------------------------------------------------------------------------------------


class Entry:
    """What C's callbacks are given, to find the Python object (the owner) whose functions they call.

    `find` leads to the owner without keeping it alive. All entries of a name stay until the last owner is gone, since
    the library forgets by name. The library knows entry k of a name, counted from 1, as NAME@k.
    """

    def __init__(self, section: str, name: str, owner: Any) -> None:
        self.key = (section, name)
        self.find: Callable[[], Any] = weakref.ref(owner)
        self.handle = ffi.new_handle(self)
        weakref.finalize(owner, _owner_gone, self.key).atexit = False

    def owner(self) -> Any:
        found = self.find()
        if found is None:
            raise ConfigError(f"{self.key[1]} is gone: its Python object was deleted while a run used its name")
        return found


_entries: dict[tuple[str, str], list[Entry]] = {}


def register(entry: Entry, call: Callable[[Any], int]) -> str:
    """Registers by call(ctx), and keeps the entry from then on. Returns the name that leads to this entry alone."""
    with users.lock:
        entries = _entries.setdefault(entry.key, [])
        entries.append(entry)  # before: the name is not forgotten meanwhile
        try:
            ctx = Context()
            ctx.check(call(ctx.ptr))
        except BaseException:
            entries.remove(entry)
            raise
        return f"{entry.key[1]}@{len(entries)}"


def _owner_gone(key: tuple[str, str]) -> None:
    users.when_idle(lambda: _forget(key))


def _forget(key: tuple[str, str]) -> None:  # under the lock
    if any(entry.find() is not None for entry in _entries.get(key, ())):
        return
    if _entries.pop(key, None):
        ctx = Context()
        lib.fl_forget(ctx.ptr, key[0].encode(), key[1].encode())


def live_owner(section: str, name: str) -> Any:
    """The object behind a name, to be kept by a run that uses it; None: there is none."""
    name, _, number = name.partition("@")
    entries = _entries.get((section, name), [])
    k = int(number) if number.isdigit() else len(entries)
    return entries[k - 1].find() if 0 < k <= len(entries) else None


def live_owners() -> list:
    """Every object that a name means now: for a client, which learns only later which names its server uses."""
    return [entries[-1].find() for entries in list(_entries.values()) if entries]


def name_in(thing: Any, exact: bool) -> str:
    """What a configuration calls an object: NAME@k, which no other has; unless `exact` its plain NAME, as long as that
    means the same object."""
    return thing.name if not exact and live_owner(thing._section, thing.name) is thing else thing._exact


def plain_names(text: str) -> str:
    """A file's text with plain NAMEs in place of NAME@k, wherever they mean the same object."""

    def plain(found: re.Match) -> str:
        of_name = [entries for (_, name), entries in _entries.items() if name == found[1]]
        return found[1] if any(len(entries) == int(found[2]) for entries in of_name) else found[0]

    return re.sub(r"\b([A-Za-z][\w-]*)@(\d+)\b", plain, text)


def texts(names: Sequence[str], keep: list) -> Any:
    """A NULL-terminated array of C strings."""
    items = [ffi.new("char[]", name.encode()) for name in names]
    array = ffi.new("char *[]", items + [NULL])
    keep += [items, array]
    return array


def text(value: str, keep: list) -> Any:
    keep.append(ffi.new("char[]", value.encode()))
    return keep[-1]


def fill(what: str, out: np.ndarray, value: Any) -> None:
    """Copies a vector that a user's function gave into the library's."""
    given = np.shape(value)
    if given != out.shape:
        raise ConfigError(f"{what} has the shape {given}, but must have {out.shape}")
    if np.ma.is_masked(value):
        raise ConfigError(f"{what} has masked entries, but must have numbers everywhere")
    np.copyto(out, value, casting="same_kind")


# ---- an objective -----------------------------------------------------------------------------------------------


class Batch:
    """Some samples of one client, or of the test set. Its arrays last as long as the call."""

    __slots__ = ("_b", "gradient")

    def __init__(self, b: Any, gradient: bool) -> None:
        self._b = b
        self.gradient = gradient  #: False: the loss alone is needed, and the gradient may be None

    @property
    def n(self) -> int:
        return self._b.n

    @property
    def x(self) -> np.ndarray:
        """n x dim features, normalised."""
        b = self._b
        if not b.dim:
            raise ConfigError("these samples have no features: they are known by their numbers (batch.sample)")
        return borrow_const(b.x, b.n * b.dim, b.real).reshape(b.n, b.dim)

    @property
    def y(self) -> np.ndarray | None:
        """Labels (int32) or targets; None: none."""
        b = self._b
        if b.label != NULL:
            return np.frombuffer(ffi.buffer(b.label, 4 * b.n), np.int32)
        return None if b.target == NULL else borrow_const(b.target, b.n, b.real)

    @property
    def sample(self) -> np.ndarray:
        """Their numbers in the data; test samples have numbers of their own."""
        return np.frombuffer(ffi.buffer(self._b.sample, 4 * self._b.n), np.uint32)

    @property
    def test(self) -> bool:
        return bool(self._b.test)


class Objective:
    """What @fedloom.objective makes of a function."""

    _section = "model"

    def __init__(self, function: Callable, name: str, parameters: int, tensors: Mapping[str, Sequence[int]] | None,
                 by_client: bool, traits: int) -> None:  # fmt: skip
        self.name, self.title, self.parameters = name, name, parameters
        self.tensors = {k: tuple(shape) for k, shape in (tensors or {}).items()}
        self._function = function
        self._by_client, self._traits = by_client, traits
        self._product: Callable | None = None
        self._start: Callable | None = None
        self._measure: Callable | None = None
        self._metrics: tuple[str, ...] = ()
        self.__doc__ = function.__doc__
        self._register()

    def __call__(self, x: Any, batch: Any) -> Any:
        return self._function(x, batch)

    def start(self, function: Callable[[np.random.Generator], Any]) -> Callable:
        """Decorates f(rng) -> x: the start model, else zeros."""
        self._start = function
        self._register()
        return function

    def product(self, function: Callable) -> Callable:
        """Decorates f(x, batch, v) -> the Hessian of the mean loss over the batch at x, times v."""
        self._product = function
        self._register()
        return function

    def metrics(self, *names: str) -> Callable[[Callable], Callable]:
        """Decorates f(x) -> a number per name, taken whenever metrics are."""

        def decorate(function: Callable) -> Callable:
            self._metrics, self._measure = names, function
            self._register()
            return function

        return decorate

    def unpack(self, x: np.ndarray) -> dict[str, np.ndarray]:
        """A parameter vector as its named tensors: views of it."""
        out, at = {}, 0
        for name, shape in self.tensors.items():
            n = int(np.prod(shape, dtype=np.int64))
            out[name] = x[at : at + n].reshape(shape)
            at += n
        return out or {"x": x}

    def _register(self) -> None:
        keep: list = []
        entry = Entry(self._section, self.name, self)
        o = ffi.new("fl_objective *", {"size": ffi.sizeof("fl_objective"), "arg": entry.handle})
        o.name, o.title = text(self.name, keep), text(self.title, keep)
        o.traits, o.parameters = self._traits, self.parameters
        if self.tensors:
            o.tensors, o.tensor_count = self._tensor_table(keep), len(self.tensors)
        if self._by_client:
            o.client = lib.py_client
        else:
            o.batch = lib.py_batch
        o.product = lib.py_product if self._product else NULL
        o.start = lib.py_start if self._start else NULL
        if self._measure:
            o.metrics, o.measure = texts(self._metrics, keep), lib.py_measure
        self._exact = register(entry, lambda ctx: lib.fl_objective_register(ctx, o))

    def _tensor_table(self, keep: list) -> Any:
        table = ffi.new("fl_tensor[]", len(self.tensors))
        at = 0
        for t, (name, shape) in zip(table, self.tensors.items()):
            if len(shape) > 4:
                raise ConfigError(f"tensor {name} has {len(shape)} dimensions, but may have at most 4")
            t.name, t.offset, t.dims = text(name, keep), at, len(shape)
            for i, side in enumerate(shape):
                t.shape[i] = side
            at += int(np.prod(shape, dtype=np.int64))
        keep.append(table)
        return table

    def _fedloom_setting(self, exact: bool = True) -> str:
        return name_in(self, exact)

    def __repr__(self) -> str:
        return f"<fedloom objective {self.name}, {self.parameters} parameters>"


def objective(
    function: Callable | None = None,
    *,
    parameters: int | None = None,
    tensors: Mapping[str, Sequence[int]] | None = None,
    name: str | None = None,
    convex: bool = False,
    classifier: bool = False,
    by_client: bool = False,
) -> Any:
    """Makes a function an objective to train: model=THE_FUNCTION in a configuration.

        @fedloom.objective(parameters=20)
        def ridge(x, batch):
            r = batch.x @ x - batch.y
            return 0.5 * r @ r / batch.n, batch.x.T @ r / batch.n

    f(x, batch) returns the mean loss over the batch and its gradient; a `classifier` returns also how many samples it
    got right. With by_client=True it is f(x, client) -> (f_i(x), its gradient), for clients that are known by their
    numbers alone. Weight decay is the engine's business. x and the batch's arrays may only be read, and last as long as
    the call. The function is called from several threads, so it changes nothing outside itself.

    tensors   names and shapes of the parts of x, in order, for saving; they say how many parameters there are.
    """
    if function is None:
        return lambda f: objective(f, parameters=parameters, tensors=tensors, name=name, convex=convex,
                                   classifier=classifier, by_client=by_client)  # fmt: skip
    count = sum(int(np.prod(shape, dtype=np.int64)) for shape in tensors.values()) if tensors else parameters
    if not count or count < 1 or (parameters is not None and parameters != count):
        raise ConfigError(f"an objective needs the number of its parameters, as `parameters` or by `tensors`: {count}")
    traits = (lib.FL_OBJECTIVE_CONVEX if convex else 0) | (lib.FL_OBJECTIVE_CLASSIFIER if classifier else 0)
    return Objective(function, name or function.__name__, int(count), tensors, by_client, traits)


def _loss_and_gradient(o: Objective, out: Any, g: Any, real: int, loss: Any) -> None:
    try:
        value, gradient = out[0], out[1]
    except (TypeError, IndexError, KeyError):
        raise ConfigError(
            f"objective {o.name} must return (loss, gradient), and returned {type(out).__name__}"
        ) from None
    loss[0] = value
    if g != NULL:
        fill(f"the gradient of {o.name}", borrow(g, o.parameters, real), gradient)


@ffi.def_extern(name="py_batch", error=1, onerror=no_print)
def _py_batch(arg: Any, b: Any, x: Any, g: Any, loss: Any, correct: Any, failure: Any) -> int:
    try:
        o = ffi.from_handle(arg).owner()
        out = o._function(borrow_const(x, o.parameters, b.real), Batch(b, g != NULL))
        _loss_and_gradient(o, out, g, b.real, loss)
        if o._traits & lib.FL_OBJECTIVE_CLASSIFIER and correct != NULL:
            if len(out) < 3:
                raise ConfigError(f"objective {o.name} is a classifier: it must return (loss, gradient, correct)")
            correct[0] = int(out[2])
        return 0
    except BaseException as e:
        return failing(failure, e, arg)


@ffi.def_extern(name="py_client", error=1, onerror=no_print)
def _py_client(arg: Any, client: int, real: int, x: Any, g: Any, loss: Any, failure: Any) -> int:
    try:
        o = ffi.from_handle(arg).owner()
        _loss_and_gradient(o, o._function(borrow_const(x, o.parameters, real), client), g, real, loss)
        return 0
    except BaseException as e:
        return failing(failure, e, arg)


@ffi.def_extern(name="py_product", error=1, onerror=no_print)
def _py_product(arg: Any, b: Any, x: Any, v: Any, out: Any, failure: Any) -> int:
    try:
        o = ffi.from_handle(arg).owner()
        n, real = o.parameters, b.real
        value = o._product(borrow_const(x, n, real), Batch(b, False), borrow_const(v, n, real))
        fill(f"the product of {o.name}", borrow(out, n, real), value)
        return 0
    except BaseException as e:
        return failing(failure, e, arg)


@ffi.def_extern(name="py_start", error=1, onerror=no_print)
def _py_start(arg: Any, seed: int, x: Any, failure: Any) -> int:
    try:
        o = ffi.from_handle(arg).owner()
        fill(f"the start of {o.name}", borrow(x, o.parameters, 8), o._start(np.random.default_rng(seed)))
        return 0
    except BaseException as e:
        return failing(failure, e, arg)


@ffi.def_extern(name="py_measure", error=1, onerror=no_print)
def _py_measure(arg: Any, real: int, x: Any, out: Any, failure: Any) -> int:
    try:
        o = ffi.from_handle(arg).owner()
        values = np.atleast_1d(o._measure(borrow_const(x, o.parameters, real)))
        fill(f"what {o.name} measures", borrow(out, len(o._metrics), 8), values)
        return 0
    except BaseException as e:
        return failing(failure, e, arg)


# ---- a local solver ---------------------------------------------------------------------------------------------


class Problem:
    """minimise f_i(z) + <shift, z> + rho/2 ||z - anchor||^2 from `start`, by `steps` steps of size `lr`."""

    __slots__ = ("start", "anchor", "rho", "shift", "lr", "steps")

    def __init__(self, p: Any, n: int, real: int) -> None:
        self.start = borrow_const(p.start, n, real)
        self.anchor = None if p.anchor == NULL else borrow_const(p.anchor, n, real)  #: None: no proximal term
        self.shift = None if p.shift == NULL else borrow_const(p.shift, n, real)  #: None: no linear term
        self.rho, self.lr, self.steps = p.rho, p.lr, p.steps

    def gradient(self, z: np.ndarray, g: np.ndarray) -> np.ndarray:
        """Adds to g, the gradient of f_i at z, those of the other two terms."""
        if self.shift is not None:
            g += self.shift
        if self.anchor is not None and self.rho:
            g += self.rho * (z - self.anchor)
        return g


class Local:
    """Who is to solve a problem, and with what."""

    __slots__ = ("_l", "_solution", "_full_gradient", "n", "_real")

    def __init__(self, l: Any, solution: Any, full_gradient: bool) -> None:  # noqa: E741
        self._l, self._solution, self._full_gradient = l, solution, full_gradient
        self.n, self._real = l.space.n, l.space.real

    client = property(lambda self: self._l.client, doc="the client's number")
    round = property(lambda self: self._l.round)
    seed = property(lambda self: self._l.seed, doc="differs for every run, round and client")
    samples = property(lambda self: self._l.samples, doc="how many the client has")
    batch_size = property(lambda self: self._l.batch)
    momentum = property(lambda self: self._l.momentum)
    decay = property(lambda self: self._l.decay, doc="weight decay, part of f_i")

    def _at(self, call: Callable, x: Any, out: np.ndarray | None) -> tuple[float, np.ndarray]:
        x = np.ascontiguousarray(x, dtype=_core.REALS[self._real])
        if x.shape != (self.n,):
            raise ConfigError(f"x has the shape {x.shape}, but must have ({self.n},)")
        g = np.empty(self.n, x.dtype) if out is None else out
        loss = ffi.new("double *")
        if call(self._l, ffi.from_buffer(x), ffi.from_buffer(g, require_writable=True), loss):
            raise Known()
        return loss[0], g

    def loss(self, x: Any, out: np.ndarray | None = None) -> tuple[float, np.ndarray]:
        """f_i with weight decay and its gradient at x, over all of the client's samples. `out` receives the
        gradient."""
        return self._at(lib.fl_local_loss, x, out)

    def batch(self, x: Any, out: np.ndarray | None = None) -> tuple[float, np.ndarray]:
        """The same over the mini-batch that fedloom's own SGD would take next: every call goes one further."""
        return self._at(lib.fl_local_batch, x, out)

    def next(self) -> tuple[np.ndarray, float]:
        """The samples of that mini-batch by their numbers, for a solver that computes gradients itself, and the weight
        decay of this step: every call goes one further. The numbers last until the next one."""
        sample, decay = ffi.new("uint32_t **"), ffi.new("double *")
        n = lib.fl_local_next(self._l, sample, decay)
        return np.frombuffer(ffi.buffer(sample[0], 4 * n), np.uint32), decay[0]

    def spent(self, steps: int | None = None, weight: float | None = None, missed: bool = False, *,
              momentum: float | None = None, gradient: Any = None) -> None:  # fmt: skip
        """States what steps a solver took.

        steps     how many mini-batch gradients it computed, if not `problem.steps`.
        weight    the weight that each gradient has in (start - z)/lr, summed over the steps. SCAFFOLD and others divide
                  by it, and warn about a solver that does not state it.
        momentum  instead of weight: computes it for SGD with this momentum, whose buffer starts at zero; for 0 it is
                  the number of steps.
        missed    True if the solution is less accurate than was asked for.
        gradient  of f_i at the start over all samples, of solvers with full_gradient: methods find it in their answer.
        """
        if gradient is not None:
            if not self._full_gradient:
                raise ConfigError("a gradient is answered by a solver with full_gradient = True")
            at = lib.fl_local_vector(self._l, 0)
            fill("gradient", borrow(at, self.n, self._real), gradient)
            self._solution.gradient = at
        if steps is not None:
            self._solution.steps = steps
        if momentum is not None:
            if weight is not None or not 0 <= momentum < 1:
                raise ConfigError(f"momentum is {momentum} and weight {weight}: give one; momentum is below 1")
            q, g = float(self._solution.steps), float(momentum)
            weight = q / (1 - g) - g * (1 - g**q) / ((1 - g) * (1 - g))
        if weight is not None:
            self._solution.weight, self._solution.weighed = weight, 1
        self._solution.missed = missed


class Known(Exception):
    """The library knows already what went wrong."""


class Solver:
    """A local solver of one's own: local={"solver": THE_CLASS}, in methods that pose problems for SGD.

        class Descent(fedloom.Solver):
            def solve(self, local, problem):
                z = problem.start.copy()
                for _ in range(problem.steps):
                    loss, g = local.batch(z)
                    z -= problem.lr * problem.gradient(z, g)
                return z

    It is registered under the class's name, or its attribute `name`. Arrays last as long as the call.
    """

    name: str = ""
    title: str = ""
    full_gradient: bool = False  #: a turn computes a gradient over all samples: it costs an epoch more
    _section = "solver"
    _exact: str

    def solve(self, local: Local, problem: Problem) -> Any:
        """Returns the solution z."""
        raise NotImplementedError

    def __init_subclass__(cls, **rest: Any) -> None:
        super().__init_subclass__(**rest)
        cls.name = cls.__dict__.get("name") or cls.__name__
        keep: list = []
        entry = Entry(cls._section, cls.name, cls)
        s = ffi.new("fl_solver *", {"size": ffi.sizeof("fl_solver"), "arg": entry.handle, "solve": lib.py_solve})
        s.name, s.title = text(cls.name, keep), text(cls.title or first_line(cls), keep)
        s.traits, s.vectors = (lib.FL_SOLVER_FULL_GRADIENT, 1) if cls.full_gradient else (0, 0)
        cls._exact = register(entry, lambda ctx: lib.fl_solver_register(ctx, s))

    @classmethod
    def _fedloom_setting(cls, exact: bool = True) -> str:
        return name_in(cls, exact)


def first_line(cls: type) -> str:
    """What a class says of itself, for lists."""
    return (cls.__doc__ or cls.__name__).strip().splitlines()[0].rstrip(".")


@ffi.def_extern(name="py_solve", error=1, onerror=no_print)
def _py_solve(arg: Any, l: Any, p: Any, z: Any, solution: Any, failure: Any) -> int:  # noqa: E741
    try:
        cls = ffi.from_handle(arg).owner()
        local = Local(l, solution, cls.full_gradient)
        n, real = local.n, local._real
        found = cls().solve(local, Problem(p, n, real))
        fill(f"what {cls.name} solved", borrow(z, n, real), found)
        return 0
    except Known:
        return 1
    except BaseException as e:
        return failing(failure, e, arg)
