"""The two halves of a federation, for programs that carry the messages between them.

    client = Client((x, y))             server = Server(config)
    card = client.card()         ->     server.join(0, card); ...; server.begin()
    client.accept(terms)         <-     terms = server.terms(0)
    answer = client.work(ask)   <->     for i, ask in server: ...; server.answer(i, answer)

Nothing but bytes passes between the two, and what comes out is what :func:`fedloom.run` gives, bit by bit.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from . import _core
from ._core import ConfigError, Error, ffi, lib
from .config import Config, Settings
from .data import Data, as_data
from .own import live_owners
from .run import Run

__all__ = ["Client", "Server"]


def _taken(out: Any) -> bytes:
    """The library's bytes as Python's."""
    made = bytes(ffi.buffer(out.data, out.n)) if out.n else b""
    lib.fl_bytes_free(out)
    return made


def _message(what: str, given: Any) -> bytes:
    if not isinstance(given, bytes):
        raise ConfigError(f"{what} is a {type(given).__name__}, but must be bytes")
    return given


class Client:
    """One client: turns asks into answers.

    `data`: its samples, a :class:`fedloom.Data`, arrays (x, y), or a configuration whose data section has them. All of
    them are this client's. Everything else comes with the server's terms, except `local={"solver": MySolver}`: a
    :class:`fedloom.Solver` of this process that takes the place of SGD here, which the server need not know of.
    """

    def __init__(self, data: Data | tuple | Settings = None, **settings: Any) -> None:
        samples = as_data(data)
        if samples is not None:
            self._cfg = Config(None, {"data": samples, **settings}, client=True)
        else:
            self._cfg = Config(data, settings, client=True)
        out = ffi.new("fl_client **")
        self._check(lib.fl_client_new(self._cfg.ptr, out))
        self._ptr = _core.users.own(out[0], lib.fl_client_free, self._cfg.keep, self._cfg.ptr)

    def _check(self, status: int) -> None:
        self._cfg.check(status)

    def check_labels(self, classes: int, names: Sequence[str] | None = None) -> None:
        """Raises :class:`fedloom.Error`, which names the label, if one of this client's labels is not a class of the
        federation: 0, 1, ..., or `names`. Call it before joining: a client that has joined holds a place."""
        texts = [ffi.new("char[]", name.encode()) for name in names or ()]
        given = ffi.new("const char *[]", texts) if texts else ffi.NULL
        self._check(lib.fl_client_labels(self._ptr, classes, given))

    def card(self, digest: bool = False) -> bytes:
        """What the server must know of it. `digest`: of the samples, too, which takes a pass over them."""
        out = ffi.new("fl_bytes *")
        self._check(lib.fl_client_card(self._ptr, digest, out))
        return _taken(out)

    def accept(self, terms: bytes) -> None:
        """Makes model and method from the server's terms. Objectives, solvers and methods of your own that they name
        must exist, and stay from now on."""
        self._cfg.things += live_owners()
        self._check(lib.fl_client_accept(self._ptr, _message("the terms", terms), len(terms)))

    def work(self, ask: bytes) -> bytes:
        """An answer to an ask. If the turn fails, the answer says so. The same ask again gives the same answer.

        :class:`fedloom.Refused`: it is beyond the limits, or was stopped; then there is no answer, and nothing has
        changed.
        """
        out = ffi.new("fl_bytes *")
        self._check(lib.fl_client_work(self._ptr, _message("the ask", ask), len(ask), out))
        return _taken(out)

    def state(self) -> bytes:
        """All that the client keeps between asks."""
        out = ffi.new("fl_bytes *")
        self._check(lib.fl_client_state(self._ptr, out))
        return _taken(out)

    def restore(self, state: bytes) -> None:
        """Takes back a state, after :meth:`accept` of the same terms."""
        self._check(lib.fl_client_restore(self._ptr, _message("the state", state), len(state)))

    def limit(
        self,
        *,
        bytes: int = 0,
        memory: int = 0,
        steps: int = 0,
        samples: int = 0,
        seconds: float = 0,
        methods: Sequence[str] = (),
        models: Sequence[str] = (),
    ) -> None:
        """What this client lets a server ask for, from now on; 0 and (): anything. What is beyond is refused by
        :meth:`accept` and :meth:`work` with :class:`fedloom.Refused`.

        `bytes` of the terms and of an ask; `memory` that model, method and solver take; `steps`, `samples` (passed
        over, counted once per pass) and `seconds` of a turn; `methods` and `models`: these alone.
        """
        keep: list = []
        made = ffi.new("fl_client_limits *", {"size": ffi.sizeof("fl_client_limits")})
        made.bytes, made.memory, made.steps, made.samples, made.seconds = bytes, memory, steps, samples, seconds
        made.methods, made.models = _names(methods, keep), _names(models, keep)
        self._check(lib.fl_client_limit(self._ptr, made))  # copies all of it

    @property
    def ask_bytes(self) -> int:
        """The most bytes that an ask may have, by the terms and the limits; 0 before :meth:`accept`."""
        return lib.fl_client_ask_bytes(self._ptr)

    def stop(self) -> None:
        """Ends the turn under way, or else the next one: :meth:`work` raises :class:`fedloom.Refused`. From any
        thread."""
        lib.fl_client_stop(self._ptr)

    def describe(self, message: bytes) -> str:
        """A card, terms, an ask or an answer in words: what is in it, row by row with sizes and norms."""
        out = ffi.new("fl_bytes *")
        self._check(lib.fl_client_describe(self._ptr, _message("the message", message), len(message), out))
        return _taken(out).decode()


def _names(names: Sequence[str], keep: list) -> Any:
    """Names up to a NULL; NULL where there are none."""
    if isinstance(names, str):
        raise ConfigError("methods and models are lists of names")
    if not names:
        return ffi.NULL
    keep += [ffi.new("char[]", name.encode()) for name in names]
    keep.append(ffi.new("char *[]", [*keep[-len(names) :], ffi.NULL]))
    return keep[-1]


class _Observer:
    """What a server's run calls after every round."""

    def __init__(self, cfg: Config, fn: Callable[[Run, bool], Any]) -> None:
        self.cfg, self.fn = cfg, fn
        self.error: BaseException | None = None
        # C must not keep it alive: what `fn` and `error` lead to may be the server itself.
        self.handle = ffi.new_handle(weakref.ref(self))


@ffi.def_extern(name="py_observe", onerror=_core.no_print)
def _py_observe(arg: Any, run: Any, row: Any, measured: int) -> None:
    observer = ffi.from_handle(arg)()
    if observer is None or observer.error is not None:
        return
    seen = _borrowed(observer.cfg, ffi.cast("fl_run *", run), True)
    try:
        observer.fn(seen, bool(measured))
    except BaseException as error:  # raised again by Server.next
        observer.error = error
        lib.fl_run_stop(ffi.cast("fl_run *", run))
    finally:
        seen._ptr = None


def _borrowed(cfg: Config, run: Any, lent: bool = False) -> Run:
    """A run that belongs to a server. `lent`: only during a callback, so its vectors are copied."""
    made = Run.__new__(Run)
    made._hold(cfg, run, lent=lent)
    return made


class Server:
    """The server: gives out asks and takes answers, which may come in any order and from any place.

    The configuration is as for :func:`fedloom.run`, but has no samples: ``data: {kind: joined, shape: [20],
    classes: 3}`` says what the clients' samples look like, ``partition: {clients: 4}`` how many clients there are.
    `test`: samples that the server tests the model on, a :class:`fedloom.Data` or (x, y).

    `on_round(run, measured)` is called after every round, and once before the first, on a thread of the library's; the
    run is for the time of the call. What it raises ends the run and is raised by :meth:`next`. All functions but
    :meth:`close` may be called from any thread at any time.
    """

    def __init__(
        self,
        config: Settings = None,
        *,
        test: Data | tuple | None = None,
        on_round: Callable[[Run, bool], Any] | None = None,
        **settings: Any,
    ) -> None:
        self._cfg = Config(config, settings)
        if test is not None:
            self._hand_over(test)
        out = ffi.new("fl_server **")
        self._cfg.keep_named().check(lib.fl_server_new(self._cfg.ptr, out))
        self._observer = _Observer(self._cfg, on_round) if on_round else None
        handle = self._observer.handle if self._observer else None
        self._held = _core.users.own(out[0], lib.fl_server_free, self._cfg.keep, self._cfg.ptr, handle)
        self._process = os.getpid()
        if handle:
            lib.fl_server_observe(self._ptr, lib.py_observe, handle)
        self.done = False  # whether next() has found the run to be over
        self._run: Run | None = None

    def _hand_over(self, test: Data | tuple) -> None:
        data = as_data(test)
        if data is None:
            raise ConfigError(f"test is a {type(test).__name__}, but must be a fedloom.Data, (x, y) or a data set")
        samples, _, _, arrays = data._structs()
        self._cfg.keep.append(arrays)
        none = ffi.new("fl_samples *", {"size": ffi.sizeof("fl_samples")})
        self._cfg.check(lib.fl_config_data(self._cfg.ptr, none, samples, ffi.NULL))

    @property
    def _ptr(self) -> Any:
        if self._held is None:
            raise Error("this server is closed")
        if self._process != os.getpid():
            raise Error("this server belongs to the process that made it: after a fork it cannot go on here")
        return self._held

    def _check(self, status: int) -> None:
        """As always, but with the sentence of this thread's call: there may be others."""
        self._cfg.ctx.check(status, lambda text: _core.string(lib.fl_server_error(self._ptr)) or text)

    @property
    def missing(self) -> int:
        """How many clients have not joined."""
        return lib.fl_server_missing(self._ptr)

    def join(self, client: int, card: bytes) -> None:
        """Lets client number `client` join, by its card."""
        self._check(lib.fl_server_join(self._ptr, client, _message("the card", card), len(card)))

    def begin(self) -> None:
        """Starts the run, after all clients have joined."""
        self._check(lib.fl_server_begin(self._ptr))

    def terms(self, client: int) -> bytes:
        """What a client must know, after :meth:`begin`."""
        out = ffi.new("fl_bytes *")
        self._check(lib.fl_server_terms(self._ptr, client, out))
        return _taken(out)

    def next(self, timeout: float = 1.0) -> tuple[int, bytes] | None:
        """The next ask and to whom; None if there was none for `timeout` seconds, or the run is over (`done`)."""
        client, out = ffi.new("uint32_t *"), ffi.new("fl_bytes *")
        status = lib.fl_server_next(self._ptr, timeout, client, out)
        if status not in (lib.FL_OK, lib.FL_EDONE):
            self._check(status)
        if self._observer and self._observer.error is not None:
            raise self._observer.error
        self.done = status == lib.FL_EDONE
        return (client[0], _taken(out)) if out.n else None

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        """Pairs of a client's number and an ask, until the run is over. The caller has each ask answered."""
        while not self.done:
            ask = self.next()
            if ask:
                yield ask

    def answer(self, client: int, answer: bytes) -> None:
        """A client's answer. One that belongs to no ask, or cannot be, is refused and changes nothing.

        :class:`fedloom.Refused`: it is beyond what the `server` section lets in, and its client is dropped.
        """
        self._check(lib.fl_server_answer(self._ptr, client, _message("the answer", answer), len(answer)))

    @property
    def answer_bytes(self) -> int:
        """The most bytes that an answer may have; 0 before :meth:`begin`."""
        return lib.fl_server_answer_bytes(self._ptr)

    @property
    def awaited(self) -> list[int]:
        """The clients whose answers are awaited now."""
        most = lib.fl_server_awaited(self._ptr, ffi.NULL, 0) + 16  # there may be more in a moment
        clients = ffi.new("uint32_t[]", most)
        return list(clients[0 : min(most, lib.fl_server_awaited(self._ptr, clients, most))])

    def drop(self, client: int, why: str) -> None:
        """The round goes on without this client's answer, as if it had not been invited.

        :class:`fedloom.Refused`: what is under way needs every client; nothing has changed.
        """
        self._check(lib.fl_server_drop(self._ptr, client, why.encode()))

    def lost(self, client: int, why: str) -> None:
        """A client will not answer: the run ends, and :meth:`next` raises an error with this sentence."""
        self._check(lib.fl_server_lost(self._ptr, client, why.encode()))

    def stop(self) -> None:
        """Ends the run after the round under way."""
        lib.fl_server_stop(self._ptr)

    @property
    def run(self) -> Run:
        """The finished run, with its metrics and model."""
        if self._run is None:
            run = lib.fl_server_run(self._ptr)
            if run == ffi.NULL:
                raise Error("the run is not over yet")
            self._run = _borrowed(self._cfg, _core.own(run, lambda p: None, self._ptr))
        return self._run

    def close(self) -> None:
        """Ends a run under way and frees its memory. A finished run stays as long as you hold it."""
        self._held = self._run = None
