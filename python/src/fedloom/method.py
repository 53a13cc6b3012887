"""A federated method of one's own: four functions on NumPy arrays, and a few names that say what it has."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Callable, Mapping, Sequence, Union

import numpy as np

from . import _core
from ._core import ConfigError, Context, borrow, borrow_const, failing, ffi, lib, no_print
from .own import NULL, Entry, fill, first_line, name_in, register, text, texts

_WORK = {"start": 0, "anchor": 1, "shift": 2, "own": 3}  # scratch for what pose computes


@dataclass(frozen=True)
class Part:
    """How a vector or number is sent, where that is not simply always.

    use      down: "forget" (gone when the turn is over), "keep" (until the round is over) or "keep_each" (also what it
             was in every phase: turn.history); up: "change" (is added to what the server has) or "value" (takes its
             place)
    phases   in which it is sent, or the stages of methods that have `stage`; (): in all
    warm_up  in turns before the first round
    first    with a client's first turn
    """

    use: str = ""
    phases: Sequence[int] = ()
    warm_up: bool = False
    first: bool = False

    def when(self) -> int:
        bits = sum(1 << k for k in self.phases)
        return bits | (lib.FL_IN_WARM_UP if self.warm_up else 0) | (lib.FL_AT_FIRST if self.first else 0)


Parts = Union[Sequence[str], Mapping[str, Union[str, Part]]]


def _parts(given: Parts) -> dict[str, Part]:
    """Names, or names with how they are sent."""
    if isinstance(given, str):
        raise ConfigError(f"names are a tuple: ({given!r},)")
    if not isinstance(given, Mapping):
        return {name: Part() for name in given}
    return {name: part if isinstance(part, Part) else Part(part) for name, part in given.items()}


# ---- what its functions see -------------------------------------------------------------------------------------


class Names:
    """Vectors and numbers of the library by name. Vectors are arrays where they lie; setting one copies into it.

    The table leads from a name to a field of the C struct, a place there, whether it is a number, and whether it may be
    written. Attributes are read late, because a call of a user's function costs a few microseconds in all.
    """

    __slots__ = ("_c", "_table", "_n", "_real")
    _what = ""

    def __init__(self, c: Any, table: Mapping[str, tuple], n: int, real: int) -> None:
        _put(self, "_c", c)
        _put(self, "_table", table)
        _put(self, "_n", n)
        _put(self, "_real", real)

    def __getattr__(self, name: str) -> Any:
        try:
            field, k, number, writable = self._table[name]
        except KeyError:
            raise AttributeError(f"{self._what} has no {name!r}, but {', '.join(self._table)}") from None
        at = getattr(self._c, field)[k]
        if number:
            return at
        return borrow(at, self._n, self._real) if writable else borrow_const(at, self._n, self._real)

    def __setattr__(self, name: str, value: Any) -> None:
        field, k, number, writable = self._table.get(name, ("", 0, False, False))
        if not writable:
            raise AttributeError(f"{self._what} has no {name!r} that could be set")
        if number:
            getattr(self._c, field)[k] = value
            return
        at = getattr(self._c, field)[k]
        # `x += y` has changed the array already, and sets it to itself
        if not (type(value) is np.ndarray and value.shape == (self._n,) and type(value.base) is _buffer
                and ffi.from_buffer(value) == at):  # fmt: skip
            fill(f"{self._what}.{name}", borrow(at, self._n, self._real), value)

    def __dir__(self) -> list[str]:
        return list(self._table) + [name for name in dir(type(self)) if not name.startswith("_")]


_put = object.__setattr__
_buffer = type(ffi.buffer(ffi.new("char[1]")))


class TurnUp(Names):
    """What a client will send, by name."""

    __slots__ = ()
    _what = "turn.up"


class ServerSum(Names):
    """What was added up of the uploads, by name."""

    __slots__ = ()
    _what = "server.sum"


class Turn(Names):
    """A client's turn: what it was sent and keeps, by name; `up` is what it will send."""

    __slots__ = ("_tables",)
    _what = "turn"

    def __init__(self, tables: Tables, t: Any, looks: bool = False) -> None:
        space = t.space
        table = tables.watched if t.watched else tables.turn
        if looks:
            table = tables.sent if t.state == NULL else tables.looked
        super().__init__(t, table, space.n, space.real)
        _put(self, "_tables", tables)

    @property
    def up(self) -> TurnUp:
        return TurnUp(self._c, self._tables.up, self._n, self._real)

    round = property(lambda self: self._c.ask.round, doc="server steps so far")
    steps = property(lambda self: self._c.ask.steps)
    lr = property(lambda self: self._c.ask.lr)
    weight = property(lambda self: self._c.ask.weight, doc="w_i")
    probability = property(lambda self: self._c.ask.probability, doc="how likely it takes part in a round")
    number = property(lambda self: self._c.ask.client, doc="which client it is")
    cohort = property(lambda self: self._c.ask.cohort, doc="how many take part")
    clients = property(lambda self: self._c.clients, doc="how many there are")
    phase = property(lambda self: self._c.ask.phase)
    warm_up = property(lambda self: bool(self._c.ask.warm_up))
    first = property(lambda self: bool(self._c.first), doc="its first turn: what it keeps is zero")
    stage = property(lambda self: self._c.stage, doc="which of the method's stages the phase is")
    watched = property(lambda self: bool(self._c.watched), doc="what the client keeps for the potential is there")
    sent = property(lambda self: bool(self._c.sent), doc="the server's vectors changed since the last turn, and came")

    def history(self, phase: int) -> np.ndarray:
        """The vector that is sent with the use "keep_each", as it was in that phase of the round."""
        return borrow_const(self._c.history[phase], self._n, self._real)

    @property
    def initial(self) -> np.ndarray | None:
        """The start model, in turns in which it is sent (`sends_start`)."""
        return None if self._c.initial == NULL else borrow_const(self._c.initial, self._n, self._real)


class Answer:
    """What a solver answered. (start - z)/(lr * weight) is a mean gradient."""

    __slots__ = ("_a", "_n", "_real")

    def __init__(self, a: Any, n: int, real: int) -> None:
        self._a, self._n, self._real = a, n, real

    weight = property(lambda self: self._a.weight)
    steps = property(lambda self: self._a.steps, doc="spent")
    missed = property(lambda self: bool(self._a.missed))

    @property
    def z(self) -> np.ndarray:
        """The solution."""
        return borrow_const(self._a.z, self._n, self._real)

    @property
    def gradient(self) -> np.ndarray | None:
        """Of f_i at the start over all samples, of solvers that compute it."""
        return None if self._a.gradient == NULL else borrow_const(self._a.gradient, self._n, self._real)

    @property
    def own(self) -> np.ndarray | None:
        """The client's own model after the last step, of the solver "pair"."""
        return None if self._a.pair.own == NULL else borrow_const(self._a.pair.own, self._n, self._real)

    own_mix = property(lambda self: self._a.pair.mix, doc="its share in the client's predictions: given, or chosen")


class Upload(Names):
    """What came up, by name."""

    __slots__ = ()
    _what = "upload"

    weight = property(lambda self: self._c.ask.weight, doc="w_i")
    number = property(lambda self: self._c.ask.client, doc="which client it is of")
    lr = property(lambda self: self._c.ask.lr)
    steps = property(lambda self: self._c.ask.steps)
    probability = property(lambda self: self._c.ask.probability)
    staleness = property(lambda self: self._c.staleness, doc="server steps since the client was given its model")


class Server(Names):
    """The server's side: its vectors and numbers by name; `sum` is zero before the first upload of a round."""

    __slots__ = ("_tables",)
    _what = "server"

    def __init__(self, tables: Tables, s: Any) -> None:
        space = s.space
        super().__init__(s, tables.server, space.n, space.real)
        _put(self, "_tables", tables)

    @property
    def sum(self) -> ServerSum:
        return ServerSum(self._c, self._tables.sum, self._n, self._real)

    clients = property(lambda self: self._c.clients)
    cohort = property(lambda self: self._c.cohort)
    cohort_weight = property(lambda self: self._c.cohort_weight, doc="sum of w_i over the cohort")
    momentum = property(lambda self: self._c.momentum, doc="of the clients' local steps")
    phase = property(lambda self: self._c.phase)
    phases = property(lambda self: self._c.phases)
    stage = property(lambda self: self._c.stage, doc="which of the method's stages the phase is")
    warm_up = property(lambda self: bool(self._c.warm_up))

    @property
    def moves(self) -> np.ndarray:
        """The newest ||x^{k+1} - x^k||^2, newest first, for the potential: as many as it remembers."""
        return np.array([self._c.moves[k] for k in range(self._tables.remembers(self._c.bound))])

    def prox(self, eta: float, x: np.ndarray) -> None:
        """x <- prox of eta times the configuration's regulariser, in place; nothing if there is none."""
        lib.fl_prox(self._c, eta, ffi.from_buffer(x, require_writable=True))

    def weight_of(self, client: int) -> float:
        return lib.fl_weight(self._c, client)


class Tables:
    """Where names lead: to a group of vectors or numbers, a place in it, and whether it may be written."""

    def __init__(self, cls: type[Method]) -> None:
        down, up = _parts(cls.down or cls.server), _parts(cls.up)
        down_numbers, up_numbers = _parts(cls.down_numbers or cls.server_numbers), _parts(cls.up_numbers)
        for name in list(down) + list(down_numbers):
            if name not in tuple(cls.server) + tuple(cls.server_numbers):
                raise ConfigError(f"{cls.__name__} sends {name!r} down, but the server has no such thing")
        self.down, self.down_numbers, self.up_parts, self.up_number_parts = down, down_numbers, up, up_numbers
        self.sums = tuple(up if cls.sums is None else cls.sums)
        self.sum_numbers = tuple(up_numbers if cls.sum_numbers is None else cls.sum_numbers)
        sent = [name if name in down else "" for name in cls.server]
        sent_numbers = [name if name in down_numbers else "" for name in cls.server_numbers]
        comes = ("down", sent, "down_scalars", sent_numbers, False)
        keeps = ("state", (*cls.client, *cls.potential_keeps), "scalars",
                 (*cls.client_numbers, *cls.potential_keeps_numbers))  # fmt: skip
        self.turn = self._table(cls, comes, ("state", cls.client, "scalars", cls.client_numbers, True))
        self.watched = self._table(cls, comes, (*keeps, True))
        self.sent, self.looked = self._table(cls, comes), self._table(cls, comes, (*keeps, False))  # for the potential
        self.remembers = lib.py_potential_remembers if cls.potential_remembers is not None else lambda params: 0
        self.up = self._table(cls, ("up", up, "up_scalars", up_numbers, True))
        self.upload = self._table(cls, ("up", up, "up_scalars", up_numbers, False))
        self.server = self._table(cls, ("vec", cls.server, "scalars", cls.server_numbers, True))
        self.sum = self._table(cls, ("sum", self.sums, "scalar_sum", self.sum_numbers, True))

    @staticmethod
    def _table(cls: type, *groups: tuple) -> dict[str, tuple]:
        table: dict[str, tuple] = {}
        for vectors, names, scalars, numbers, writable in groups:
            found = [(name, (vectors, k, False, writable)) for k, name in enumerate(names)]
            found += [(name, (scalars, k, True, writable)) for k, name in enumerate(numbers)]
            for name, where in found:
                if name in table or name in dir(Turn) + dir(Server):
                    raise ConfigError(f"{cls.__name__} uses the name {name!r} twice, or it has a meaning already")
                if name:
                    table[name] = where
        return table


# ---- what theory sees -------------------------------------------------------------------------------------------


class Facts:
    """What is known of a federation at one client: the fields of fl_facts, such as smoothness, lr, steps, momentum,
    full_batch; NaN where it was not measured."""

    __slots__ = ("_f",)

    def __init__(self, f: Any) -> None:
        self._f = f

    def __getattr__(self, name: str) -> Any:
        return getattr(self._f, name)


_lasting: dict[str, Any] = {}


def _for_ever(value: str | None) -> Any:
    """Texts that the library keeps as they are."""
    if value is None:
        return NULL
    return _lasting.setdefault(value, ffi.new("char[]", value.encode()))


class Theorem:
    """What a theorem asks for at a client, to be filled by `check`."""

    __slots__ = ("_f", "_out")

    def __init__(self, f: Any, out: Any) -> None:
        self._f, self._out = f, out

    def condition(self, name: str, formula: str, have: float, most: float, *, strict: bool = False) -> None:
        """have <= most; `strict`: have < most."""
        call = lib.fl_condition_below if strict else lib.fl_condition
        call(self._out, _for_ever(name), _for_ever(formula), self._f, have, most)

    def requirement(self, name: str, sentence: str, holds: bool) -> None:
        lib.fl_requirement(self._out, _for_ever(name), _for_ever(sentence), self._f, bool(holds))

    def assumption(self, name: str, sentence: str) -> None:
        """What cannot be verified."""
        lib.fl_assumption(self._out, _for_ever(name), _for_ever(sentence))

    def not_covered(self, name: str, sentence: str) -> None:
        """What the theorem says nothing about."""
        lib.fl_not_covered(self._out, _for_ever(name), _for_ever(sentence))


class Fixes:
    """Settings that satisfy conditions, named as in `check` and separated by |, to be filled by `fix`."""

    __slots__ = ("_out",)

    def __init__(self, out: Any) -> None:
        self._out = out

    def most(self, conditions: str, key: str, value: float, why: str | None = None) -> None:
        lib.fl_fix_most(self._out, _for_ever(conditions), _for_ever(key), value, _for_ever(why))

    def least(self, conditions: str, key: str, value: float, why: str | None = None) -> None:
        lib.fl_fix_least(self._out, _for_ever(conditions), _for_ever(key), value, _for_ever(why))

    def shrink(self, conditions: str, key: str, now: float, why: str | None = None) -> None:
        """For sides whose ratio grows with the key."""
        lib.fl_fix_shrink(self._out, _for_ever(conditions), _for_ever(key), now, _for_ever(why))

    def word(self, conditions: str, key: str, value: str, why: str | None = None) -> None:
        lib.fl_fix_word(self._out, _for_ever(conditions), _for_ever(key), _for_ever(value), _for_ever(why))


# ---- the method -------------------------------------------------------------------------------------------------


class _Either:
    """A method of the class and of its instances: which of them it is called on matters."""

    def __init__(self, function: Any) -> None:
        self.function = function

    def __get__(self, instance: Any, owner: type) -> Any:
        return lambda *args: self.function(owner if instance is None else instance, *args)


class Method:
    """A federated method of one's own: algorithm=THE_CLASS, or THE_CLASS(mu=0.5), in a configuration.

        class FedProx(fedloom.Method):
            up = ("dx",)
            params = {"mu": 0.1}

            def pose(self, turn):
                return dict(start=turn.x, anchor=turn.x, rho=self.mu)

            def answer(self, turn, answer):
                turn.up.dx = answer.z - turn.x

            def advance(self, server):
                server.x += server.sum.dx / server.cohort_weight

    What it has are tuples of names. `server`: vectors, of which the first is the model; `client`: vectors that each
    client keeps; `up`: vectors that clients send, a dict where some are values and not changes ({"c_i": "value"});
    `down`: what of the server's is sent, else all of it; `sums`: what `absorb` adds up, else as `up`. The same with
    numbers: server_numbers, client_numbers, ... All start at zero. `params` are keys of the configuration with their
    defaults, (default, least, most) or a tuple of words; its functions find them as attributes of self.

    Arrays are views of the engine's memory, valid only during the call. Every run has its own instance, and so has
    every client that joins a server. Still, keep what the method remembers in its vectors and numbers: checkpoints and
    messages contain these, and nothing of self.
    """

    name: str = ""
    title: str = ""
    citation: str = ""
    server: Sequence[str] = ("x",)
    client: Sequence[str] = ()
    down: Parts = ()
    up: Parts = ()
    sums: Sequence[str] | None = None
    server_numbers: Sequence[str] = ()
    client_numbers: Sequence[str] = ()
    down_numbers: Parts = ()
    up_numbers: Parts = ()
    sum_numbers: Sequence[str] | None = None
    params: Mapping[str, Any] = {}
    #: "sgd", "gradient", "sgd_gradient", "pair", "exact", "accurate", "gram", "diagonal", or one of one's own
    solver: str = ""
    own_model: str = ""  #: which client vector is the client's own model
    sends_start: bool = False  #: the start model goes down with a client's first turn: turn.initial
    warms_up: bool = False  #: everyone takes a turn before the first round
    phases: int = 1  #: exchanges of a round with the same cohort
    buffer: int = 0  #: > 0: asynchronous, a server step after this many uploads
    everyone: bool = False  #: all clients must take part in every round
    uniform: bool = False  #: weighs clients equally
    equal_lr: bool = False  #: wants the same step size at all clients
    plain_sgd: bool = False  #: reads gradients out of displacements
    composite: bool = False  #: minimises f + g, by server.prox
    elementwise: bool = False  #: absorb treats every entry alike: it may be called for slices, on several threads
    remedy: str = ""  #: what to try when the numbers grow without bound, as in "try %s"
    tune: Mapping[str, Sequence[float]] = {}  #: keys that `tune` tries, with the ends of their ranges

    #: What some methods add, as functions of their parameters and of what is given alone; None: they do not. A coin is
    #: uniform in [0, 1), the same for everyone in a round.
    local_steps: Callable[[Any, float], int] | None = None  #: coin -> how many steps everyone takes
    exchanges: Callable[[Any, int, float], bool] | None = None  #: round, coin -> whether it ends with an exchange
    count_phases: Callable[[Any, float], int] | None = None  #: coin -> exchanges of the round
    stage: Callable[[Any, int, int], int] | None = None  #: phase, phases -> what Part.phases and solvers go by
    redraws: Callable[[Any, int, int], bool] | None = None  #: phase, phases -> whether it has a cohort of its own
    pace: Callable[[Any], Any] | None = None  #: uploads per server step, or that and the most steps one may be old
    mix: Callable[[Any, int, Any], float] | None = None  #: client, its numbers or None -> own_model's share
    check: Callable[[Any, Facts, Theorem], None] | None = None  #: what its theorem asks for
    fix: Callable[[Any, Facts, Fixes], None] | None = None  #: settings that satisfy it
    warn: Callable[[Any, Facts], str | None] | None = None  #: what a person should know before a run

    potential: str = ""  #: the name of what its theorem shows to fall from round to round; "": there is none
    potential_after: int = 0  #: it is promised to fall after this many rounds,
    potential_falls: Callable[[Any, Facts, Theorem], None] | None = None  #: where this holds at every client
    #: Vectors and numbers that clients keep for it, in runs that measure it: where turn.watched is true
    potential_keeps: Sequence[str] = ()
    potential_keeps_numbers: Sequence[str] = ()
    potential_remembers: Callable[[Any], int] | None = None  #: how many squared steps of the model: server.moves
    _section = "algorithm"
    _tables: Tables
    _exact: str
    _instances: dict[_Life, Method]
    _failed: BaseException | None = None  # what one of the functions of parameters raised, where it could not say so

    # ---- what it does

    def start(self, server: Server) -> None:
        """Once, before anything else."""

    def pose(self, turn: Turn) -> Mapping[str, Any]:
        """The problem that a client is to solve: start, and if wanted anchor with rho, shift, lr, steps."""
        return {"start": getattr(turn, self.server[0])}

    def answer(self, turn: Turn, answer: Answer) -> None:
        """Fills turn.up, and changes what the client keeps."""
        raise NotImplementedError

    def absorb(self, server: Server, upload: Upload) -> None:
        """Adds an upload to server.sum: as it stands here, everything times the client's weight w_i."""
        w = upload.weight
        for name in self._tables.sum:
            if name in self._tables.upload:
                setattr(server.sum, name, getattr(server.sum, name) + w * getattr(upload, name))

    def advance(self, server: Server) -> None:
        """The server's step, when all uploads of the round are in."""
        raise NotImplementedError

    def potential_point(self, turn: Turn) -> Any:
        """Where f_i and its gradient are wanted for the potential, of a turn that is not taken: what the client keeps
        can be read, and is no attribute of turn before its first one."""
        return getattr(turn, self.server[0])

    def potential_client(self, turn: Turn, f: float, gradient: np.ndarray) -> Sequence[float]:
        """What a client contributes to it: up to two numbers."""
        return (f,)

    def potential_server(self, server: Server, sums: Sequence[float], g: float) -> float:
        """It, given the sums of those, weighted by w_i, and the regulariser at the model."""
        return sums[0] + g

    # ---- its life

    def __init__(self, **params: Any) -> None:
        for key in params:
            if key not in self.params:
                raise ConfigError(f"{self.name} has no parameter {key!r}, but {', '.join(self.params) or 'none'}")
        self._given = params
        for key, default in self.params.items():
            setattr(self, key, params.get(key, default[0] if isinstance(default, tuple) else default))

    def __init_subclass__(cls, **rest: Any) -> None:
        super().__init_subclass__(**rest)
        cls.name = cls.__dict__.get("name") or cls.__name__
        cls._tables = Tables(cls)
        entry = Entry(cls._section, cls.name, cls)
        keep: list = []
        m = _struct(cls, entry, keep)
        cls._instances = {}
        cls._exact = register(entry, lambda ctx: lib.fl_method_register(ctx, m))

    @_Either
    def _fedloom_setting(it: Any, exact: bool = True) -> Any:
        if isinstance(it, Method):
            return {"kind": name_in(type(it), exact), **it._given}
        return name_in(it, exact)


class _Life:
    """C's handle of the instance that a run has. The instance's class keeps it alive, and not this: an instance may
    refer to the run, and the garbage collector must see such a cycle."""

    def __init__(self, entry: Entry) -> None:
        self.entry = entry
        self.handle = ffi.new_handle(self)


_lives: dict[int, _Life] = {}  # by the addresses of their handles


def _value(default: Any, number: float) -> Any:
    """A parameter as the method knows it."""
    if isinstance(default, tuple):
        if isinstance(default[0], str):
            return default[int(number)]
        default = default[0]
    return type(default)(number)


def _keys(cls: type[Method], keep: list) -> Any:
    keys = ffi.new("fl_key[]", len(cls.params) + 1)
    for k, (name, default) in zip(keys, cls.params.items()):
        bounds = default if isinstance(default, tuple) else (default,)
        k.name, k.help = text(name, keep), text("a parameter of the method", keep)
        if isinstance(bounds[0], str):
            k.type, k.choices = lib.FL_KEY_CHOICE, text("|".join(bounds), keep)
        else:
            kinds = {bool: lib.FL_KEY_BOOL, int: lib.FL_KEY_INT, float: lib.FL_KEY_REAL}
            if type(bounds[0]) not in kinds or len(bounds) not in (1, 3):
                raise ConfigError(
                    f"{cls.__name__}: the parameter {name} is {default!r}, but must be a default, "
                    "(default, least, most) or a tuple of words"
                )
            k.type = kinds[type(bounds[0])]
            k.min, k.max = bounds[1:] if len(bounds) == 3 else (0, 0)
        word = str(bounds[0]).lower() if isinstance(bounds[0], bool) else str(bounds[0])
        setattr(k, "def", text(word, keep))
    keep.append(keys)
    return keys


def _part_table(rows: list, uses: Mapping[str, int], keep: list) -> Any:
    table = ffi.new("fl_part[]", len(rows) + 1)
    for p, (name, what, at, part) in zip(table, rows):
        if part.use not in uses:
            raise ConfigError(f"the part {name} has the use {part.use!r}, but must have one of {', '.join(uses)}")
        p.name, p.what, p.at, p.use, p.when = text(name, keep), what, at, uses[part.use], part.when()
    keep.append(table)
    return table


def _struct(cls: type[Method], entry: Entry, keep: list) -> Any:
    tables = cls._tables
    down = [(name, lib.FL_PART_VECTOR, list(cls.server).index(name), part) for name, part in tables.down.items()]
    down += [(name, lib.FL_PART_NUMBER, list(cls.server_numbers).index(name), part)
             for name, part in tables.down_numbers.items()]  # fmt: skip
    if cls.sends_start:
        down.append(("start", lib.FL_PART_START, 0, Part(first=True)))
    up = [(name, lib.FL_PART_VECTOR, k, part) for k, (name, part) in enumerate(tables.up_parts.items())]
    up += [(name, lib.FL_PART_NUMBER, k, part) for k, (name, part) in enumerate(tables.up_number_parts.items())]
    down_uses = {"": lib.FL_PART_FORGET, "forget": lib.FL_PART_FORGET, "keep": lib.FL_PART_KEEP,
                 "keep_each": lib.FL_PART_KEEP_EACH}  # fmt: skip
    up_uses = {"": lib.FL_PART_CHANGE, "change": lib.FL_PART_CHANGE, "value": lib.FL_PART_VALUE}
    m = ffi.new("fl_method *", {
        "size": ffi.sizeof("fl_method"), "arg": entry.handle, "traits": _traits(cls),
        "server_scalars": len(cls.server_numbers), "client_scalars": len(cls.client_numbers),
        "scalar_sums": len(tables.sum_numbers), "work": len(_WORK), "warms_up": cls.warms_up, "phases": cls.phases,
        "buffer": cls.buffer, "pose": lib.py_pose, "answer": lib.py_answer, "absorb": lib.py_absorb,
        "advance": lib.py_advance, "begin": lib.py_begin, "end": lib.py_end,
    })  # fmt: skip
    m.name, m.title, m.citation = (text(v, keep) for v in (cls.name, cls.title or first_line(cls), cls.citation))
    m.server, m.client, m.sums = (texts(v, keep) for v in (cls.server, cls.client, tables.sums))
    m.keys = _keys(cls, keep) if cls.params else NULL
    m.down, m.up = _part_table(down, down_uses, keep), _part_table(up, up_uses, keep)
    m.solver = text(cls.solver, keep) if cls.solver else NULL
    m.own_model = text(cls.own_model, keep) if cls.own_model else NULL
    m.start = lib.py_method_start if cls.start is not Method.start else NULL
    _add_groups(cls, m, keep)
    return m


_GROUPS = {
    "local_steps": ("rounds", "steps"), "exchanges": ("rounds", "exchanges"), "count_phases": ("rounds", "phases"),
    "stage": ("rounds", "stage"), "redraws": ("rounds", "redraws"), "pace": ("async", "pace"),
    "mix": ("personal", "mix"), "check": ("theory", "check"), "fix": ("theory", "fix"), "warn": ("theory", "warn"),
    "potential_falls": ("theory.potential", "falls"), "potential_remembers": ("theory.potential", "remembers"),
}  # fmt: skip


def _add_groups(cls: type[Method], m: Any, keep: list) -> None:
    m.remedy = text(cls.remedy, keep) if cls.remedy else NULL
    if cls.tune:
        m.tune = ranges = ffi.new("fl_tune_range[]", len(cls.tune) + 1)
        for row, (key, (low, high)) in zip(ranges, cls.tune.items()):
            row.key, row.log = text(key, keep), low > 0
            setattr(row, "from", low)
            row.to = high
        keep.append(ranges)
    for name, (group, slot) in _GROUPS.items():
        if getattr(cls, name) is not None:
            setattr(attrgetter(group)(m), slot, getattr(lib, "py_" + name))
    if cls.potential:
        p = m.theory.potential
        p.name, p.after = text(cls.potential, keep), cls.potential_after
        p.vectors, p.scalars = len(cls.potential_keeps), len(cls.potential_keeps_numbers)
        p.point, p.client, p.server = lib.py_potential_point, lib.py_potential_client, lib.py_potential_server


def _traits(cls: type[Method]) -> int:
    named = {"everyone": lib.FL_METHOD_EVERYONE, "uniform": lib.FL_METHOD_UNIFORM, "equal_lr": lib.FL_METHOD_EQUAL_LR,
             "plain_sgd": lib.FL_METHOD_PLAIN_SGD, "composite": lib.FL_METHOD_COMPOSITE}  # fmt: skip
    whole = 0 if cls.elementwise else lib.FL_METHOD_WHOLE
    return lib.FL_METHOD_TOUCHES | whole | sum(bit for name, bit in named.items() if getattr(cls, name))


# ---- calls from C -----------------------------------------------------------------------------------------------


def _self(it: Any) -> Method:
    life = ffi.from_handle(it.arg)
    return life.entry.owner()._instances[life]


def _parameters(cls: type[Method], params: Any) -> dict[str, Any]:
    return {k: _value(d, params[i]) for i, (k, d) in enumerate(cls.params.items())}


@ffi.def_extern(name="py_begin", error=NULL, onerror=no_print)
def _py_begin(arg: Any, params: Any, failure: Any) -> Any:
    try:
        entry = ffi.from_handle(arg)
        cls = entry.owner()
        life = _Life(entry)
        cls._instances[life] = cls(**_parameters(cls, params))
        _lives[_core.address(life.handle)] = life
        return life.handle
    except BaseException as e:
        failing(failure, e, arg)
        return NULL


@ffi.def_extern(name="py_end", onerror=no_print)
def _py_end(begun: Any) -> None:
    life = _lives.pop(_core.address(begun))
    cls = life.entry.find()
    if cls is not None:
        del cls._instances[life]


def _place(t: Any, name: str, value: Any, n: int, real: int) -> Any:
    """Where a vector of the problem lies: as it is if it is the engine's, else in scratch that lasts for the turn."""
    if value is None:
        return NULL
    value = np.asarray(value)
    if type(value.base) is _buffer and value.shape == (n,) and value.dtype.itemsize == real:
        return ffi.from_buffer(value)
    scratch = t.work[_WORK[name]]
    fill(f"{name} of the problem", borrow(scratch, n, real), value)
    return scratch


@ffi.def_extern(name="py_pose", error=1, onerror=no_print)
def _py_pose(t: Any, p: Any) -> int:
    try:
        it = _self(t)
        if type(it)._failed is not None:
            raise type(it)._failed
        turn = Turn(it._tables, t)
        posed = it.pose(turn)
        if not isinstance(posed, Mapping):
            raise ConfigError(f"pose of {it.name} must return a dict with start, and returned {type(posed).__name__}")
        for key, value in posed.items():
            if key in ("start", "anchor", "shift"):
                setattr(p, key, _place(t, key, value, turn._n, turn._real))
            elif key in ("rho", "lr", "steps"):
                setattr(p, key, value)
            elif key in ("accuracy", "relative", "modulus", "most_steps"):
                setattr(p.stop, key, value)
            elif key == "own":
                p.pair.start = _place(t, key, value, turn._n, turn._real)
            elif key in ("own_lr", "own_mix"):
                setattr(p.pair, key[4:], value)
            else:
                raise ConfigError(
                    f"pose of {it.name} returned {key!r}, but a problem has start, anchor, rho, shift, lr, steps, "
                    "accuracy, relative, modulus, most_steps, own, own_lr and own_mix"
                )
        return 0
    except BaseException as e:
        return failing(t.failure, e, t.arg)


@ffi.def_extern(name="py_answer", error=1, onerror=no_print)
def _py_answer(t: Any, a: Any) -> int:
    try:
        it = _self(t)
        turn = Turn(it._tables, t)
        it.answer(turn, Answer(a, turn._n, turn._real))
        return 0
    except BaseException as e:
        return failing(t.failure, e, t.arg)


@ffi.def_extern(name="py_absorb", error=1, onerror=no_print)
def _py_absorb(s: Any, u: Any) -> int:
    try:
        it = _self(s)
        server = Server(it._tables, s)
        it.absorb(server, Upload(u, it._tables.upload, server._n, server._real))
        return 0
    except BaseException as e:
        return failing(s.failure, e, s.arg)


@ffi.def_extern(name="py_advance", error=1, onerror=no_print)
def _py_advance(s: Any) -> int:
    try:
        it = _self(s)
        it.advance(Server(it._tables, s))
        return 0
    except BaseException as e:
        return failing(s.failure, e, s.arg)


@ffi.def_extern(name="py_method_start", error=1, onerror=no_print)
def _py_method_start(s: Any) -> int:
    try:
        it = _self(s)
        it.start(Server(it._tables, s))
        return 0
    except BaseException as e:
        return failing(s.failure, e, s.arg)


_point = threading.local()  # what lasts until the next call on its thread


@ffi.def_extern(name="py_potential_point", error=NULL, onerror=no_print)
def _py_potential_point(t: Any) -> Any:
    try:
        it = _self(t)
        turn = Turn(it._tables, t, looks=True)
        at = np.ascontiguousarray(it.potential_point(turn), dtype=_core.REALS[turn._real])
        if at.shape != (turn._n,):
            raise ConfigError(f"potential_point of {it.name} has the shape {at.shape}, but must have ({turn._n},)")
        _point.array = at
        return ffi.from_buffer(at)
    except BaseException as e:
        failing(t.failure, e, t.arg)
        return NULL


@ffi.def_extern(name="py_potential_client", onerror=no_print)
def _py_potential_client(t: Any, f: float, gradient: Any, out: Any) -> None:
    try:
        it = _self(t)
        turn = Turn(it._tables, t, looks=True)
        for k, term in enumerate(it.potential_client(turn, f, borrow(gradient, turn._n, turn._real))):
            if k == lib.FL_POTENTIAL_TERMS:
                raise ConfigError(f"potential_client of {it.name} has more than {k} numbers")
            out[k] = term
    except BaseException as e:
        failing(t.failure, e, t.arg)


@ffi.def_extern(name="py_potential_server", error=0.0, onerror=no_print)
def _py_potential_server(s: Any, sums: Any, g: float) -> float:
    try:
        it = _self(s)
        return float(it.potential_server(Server(it._tables, s), [sums[k] for k in range(lib.FL_POTENTIAL_TERMS)], g))
    except BaseException as e:
        failing(s.failure, e, s.arg)
        return 0.0


# Functions of the parameters alone. C has no place for what they raise: the run's next turn raises it.


def _of(params: Any) -> Method:
    """The run's instance; before there is one, one of its own."""
    found = ffi.from_handle(lib.fl_begun(params))
    if isinstance(found, _Life):
        return found.entry.owner()._instances[found]
    cls = found.owner()
    return cls(**_parameters(cls, ffi.cast("const double *", params)))


def _asked(name: str, otherwise: Any, give: Callable[..., Any]) -> None:
    def call(params: Any, *rest: Any) -> Any:
        try:
            it = _of(params)
        except BaseException:
            return otherwise
        try:
            return give(it, *rest)
        except BaseException as e:
            type(it)._failed = e
            return otherwise

    ffi.def_extern(name="py_" + name, error=otherwise, onerror=no_print)(call)


def _pace(it: Method) -> Any:
    pace = it.pace()
    buffer, tau = pace if isinstance(pace, Sequence) else (pace, 0)
    return ffi.new("fl_pace *", {"buffer": buffer, "tau": tau})[0]


def _mix(it: Method, client: int, numbers: Any) -> float:
    return it.mix(client, None if numbers == NULL else [numbers[k] for k in range(len(it.client_numbers))])


_asked("local_steps", 1, lambda it, coin: int(it.local_steps(coin)))
_asked("exchanges", 1, lambda it, round, coin: bool(it.exchanges(round, coin)))
_asked("count_phases", 1, lambda it, coin: int(it.count_phases(coin)))
_asked("stage", 0, lambda it, phase, phases: int(it.stage(phase, phases)))
_asked("redraws", 0, lambda it, phase, phases: bool(it.redraws(phase, phases)))
_asked("pace", ffi.new("fl_pace *", {"buffer": 1})[0], _pace)
_asked("mix", 1.0, _mix)
_asked("potential_falls", None, lambda it, f, out: it.potential_falls(Facts(f), Theorem(f, out)))
_asked("potential_remembers", 0, lambda it: int(it.potential_remembers()))
_asked("check", None, lambda it, f, out: it.check(Facts(f), Theorem(f, out)))
_asked("fix", None, lambda it, f, out: it.fix(Facts(f), Fixes(out)))
_asked("warn", None, lambda it, f, out: lib.fl_text_add(out, (it.warn(Facts(f)) or "").encode()))


def conform(method: Any, **settings: Any) -> str:
    """Checks what the engine promises of every method: the same bits on any number of threads, through messages that
    are bytes, after a checkpoint, and while another run of the method takes rounds between its uploads; and that
    nothing is read that was not sent. Returns a line per check, and raises fedloom.Error if one of them fails."""
    from .config import yaml

    name = method if isinstance(method, str) else method._exact
    setting = None if isinstance(method, str) else method._fedloom_setting()
    given = {**({"algorithm": setting} if isinstance(setting, Mapping) else {}), **settings}
    body = "\n".join(f"{k}: {yaml(v)}" for k, v in given.items()).encode() if given else NULL
    ctx = Context()
    lines: list[str] = []
    handle = ffi.new_handle(lines)
    status = _core.wait_for(lambda: lib.fl_conform(ctx.ptr, name.encode(), body, lib.py_text, handle), lambda: None)
    ctx.check(status, lambda text: text.replace(name, name.partition("@")[0]))
    return "".join(lines)
