"""The bridge to the library: loading it, statuses as exceptions, the lives of C objects, arrays, waiting.

Nothing here knows what a federation is. Every other module goes through this one.
"""

from __future__ import annotations

import atexit
import logging
import os
import sys
import threading
import warnings
from typing import Any, Callable, Iterable, TypeVar

import numpy as np

from ._fedloom import ffi, lib

log = logging.getLogger("fedloom")
T = TypeVar("T")

# ---- what goes wrong --------------------------------------------------------------------------------------------


class Error(Exception):
    """Something failed; the text says what, in a sentence. `status` is the library's name for it."""

    status = "FL_ESYSTEM"


class ConfigError(Error, ValueError):
    """Settings or arrays that cannot be."""

    status = "FL_ECONFIG"


class FileError(Error, OSError):
    """A file that could not be read or written, or is not what it should be."""

    status = "FL_EIO"


class Diverged(Error, ArithmeticError):
    """The run diverged."""

    status = "FL_EDIVERGED"


class OutOfMemory(Error, MemoryError):
    """There is not enough memory for it."""

    status = "FL_ENOMEM"


class Busy(Error):
    """Another process is at work there."""

    status = "FL_EBUSY"


class Refused(Error):
    """A limit of one's own, a rule of the server's, or a server that does not want this client: trying again is of no
    use."""

    status = "FL_EREFUSED"


class FedloomWarning(UserWarning):
    """What a person should know although it is no error."""


for _class in (Error, ConfigError, FileError, Diverged, OutOfMemory, Busy, Refused, FedloomWarning):
    _class.__module__ = "fedloom"  # where people find them

_classes = {
    lib.FL_ENOMEM: OutOfMemory,
    lib.FL_ECONFIG: ConfigError,
    lib.FL_EIO: FileError,
    lib.FL_EFORMAT: FileError,
    lib.FL_EDIVERGED: Diverged,
    lib.FL_EBUSY: Busy,
    lib.FL_EREFUSED: Refused,
}

# Exceptions of callbacks on their way through C: by the sentence that the library was given, with whose they are. A
# callback does not know which run called it, but the sentence comes back with the run that failed.
_raised: dict[str, tuple[Any, BaseException]] = {}
_RAISED_MOST = 64


def note_raised(error: BaseException, whose: Any = None) -> bytes:
    """Keeps an exception until its sentence comes back; returns the sentence."""
    sentence = f"{type(error).__name__}: {error}".replace("\n", " ").strip()
    text = sentence.encode("utf-8", "replace")[:400]
    while len(_raised) >= _RAISED_MOST:
        _raised.pop(next(iter(_raised)))
    _raised[text.decode("utf-8", "ignore")] = (whose, error)
    return text


def raised_in(sentences: str) -> BaseException | None:
    """The exception behind a sentence of the library, if a callback of ours raised it.

    Others of the same thing, from other threads, go too: they hold on to what was running.
    """
    for text in [t for t in _raised if t in sentences]:
        whose, error = _raised.pop(text)
        for other in [t for t, (owner, _) in list(_raised.items()) if owner == whose]:
            _raised.pop(other, None)
        return error
    return None


def failing(failure: Any, error: BaseException, whose: Any) -> int:
    """What a callback returns when it could not: never anything printed, the exception goes on later."""
    lib.fl_failed(failure, note_raised(error, whose))
    return 1


def no_print(exception: Any, value: Any, traceback: Any) -> int:
    """Last resort for callbacks: what they do not catch themselves is still not printed."""
    note_raised(value)
    return 1


def warn(sentence: str) -> None:
    """Warns of something at the place outside this package that led to it."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back and frame.f_globals.get("__name__", "").split(".")[0] == "fedloom":
        level, frame = level + 1, frame.f_back
    warnings.warn(sentence, FedloomWarning, stacklevel=level)


def string(text: Any) -> str:
    return "" if text == ffi.NULL else ffi.string(text).decode("utf-8", "replace")


def status_name(status: int) -> str:
    return ffi.string(ffi.cast("fl_status", status))


# ---- objects of the library -------------------------------------------------------------------------------------


# What C objects need, by their addresses, and how they are freed. It is kept here and not by the objects, because the
# garbage collector takes cycles apart in any order: a run must not lose its context before it is freed.
# Nothing in it may lead back to the objects: nobody would ever find that they are not needed any more.
_needs: dict[int, tuple] = {}

# Empty as soon as the interpreter ends. From then on nothing is freed: modules are taken apart in any order, callbacks
# may be gone already, and the system takes memory and locks back anyway.
_running: list[bool] = [True]
atexit.register(_running.clear)


def address(pointer: Any) -> int:
    return int(ffi.cast("uintptr_t", pointer))


def own(pointer: Any, free: Callable[[Any], Any], *keep: Any) -> Any:
    """A C object that is freed when Python has no more use for it, and `keep` not before."""
    _needs[address(pointer)] = (free, keep, os.getpid())
    return ffi.gc(pointer, _release)


def _release(pointer: Any, running: list[bool] = _running) -> None:  # a default outlives the module's names
    if not running:
        return
    free, keep, process = _needs.pop(address(pointer))  # first: the address may be another's as soon as it is free
    if process == os.getpid():  # after a fork its threads, for which freeing it would wait, are in the other process
        free(pointer)
    del keep


def make(check: Callable[[int], None], new: Callable[[Any], int], ctype: str, free: Callable[[Any], Any]) -> Any:
    """What new(cell) puts into a cell such as "fl_run **", still to be owned. It is freed if Ctrl-C comes meanwhile."""
    cell = ffi.gc(ffi.new(ctype), lambda c: free(c[0]))
    check(new(cell))
    made = cell[0]
    cell[0] = ffi.NULL
    return made


class Users:
    """Runs, comparisons and tunings that are alive, and what is to be done when there are none."""

    def __init__(self) -> None:
        self._later: list[Callable[[], None]] = []
        self._begin()
        os.register_at_fork(after_in_child=self._begin)

    def _begin(self) -> None:
        self._alive = 0
        self.lock = threading.RLock()  # also of what is registered

    def own(self, pointer: Any, free: Callable[[Any], Any], *keep: Any) -> Any:
        """As own(), for what may be using things that were registered."""
        with self.lock:
            self._alive += 1

        def free_one(p: Any) -> None:
            free(p)
            self._one_less()

        return own(pointer, free_one, keep)

    def _one_less(self) -> None:
        with self.lock:
            self._alive -= 1
        self.when_idle()

    def when_idle(self, call: Callable[[], None] | None = None) -> None:
        """Calls it once nothing is alive that could mind: now or later."""
        with self.lock:
            if call:
                self._later.append(call)
            while not self._alive and self._later:
                self._later.pop()()


users = Users()


class Context:
    """An fl_ctx: what it logs goes to the logger "fedloom" and, warnings, to `warnings`."""

    def __init__(self) -> None:
        self._warnings: list[str] = []
        self._handle = ffi.new_handle(self._warnings)
        ptr = lib.fl_ctx_new()
        if ptr == ffi.NULL:
            raise OutOfMemory("out of memory")
        self.ptr = own(ptr, lib.fl_ctx_free, self._handle, self._warnings)
        lib.fl_ctx_on_log(self.ptr, lib.py_log, self._handle)

    def check(self, status: int, clean: Callable[[str], str] | None = None) -> None:
        """Returns if all is well, else raises what the status stands for."""
        self.warn()
        if status == lib.FL_OK:
            return
        text = string(lib.fl_ctx_error(self.ptr)) or string(lib.fl_status_text(status))
        error = raised_in(text)
        if error is not None:
            raise error
        made = _classes.get(status, Error)(clean(text) if clean else text)
        made.status = status_name(status)
        raise made

    def warn(self) -> None:
        """Hands over the warnings that came in, on the caller's thread, where a filter may turn them into errors."""
        while self._warnings:
            warn(self._warnings.pop(0))

    def text(self, call: Callable[[Any, Any], int], clean: Callable[[str], str] | None = None) -> str:
        """What a function of the library says piece by piece: call(fn, arg)."""
        pieces: list[str] = []
        handle = ffi.new_handle(pieces)
        self.check(call(lib.py_text, handle), clean)
        return "".join(pieces)


@ffi.def_extern(name="py_log", onerror=no_print)
def _py_log(arg: Any, level: int, line: Any) -> None:
    if level == lib.FL_LOG_WARNING:
        ffi.from_handle(arg).append(string(line))
    else:
        log.info("%s", string(line))


@ffi.def_extern(name="py_text", onerror=no_print)
def _py_text(arg: Any, text: Any) -> None:
    ffi.from_handle(arg).append(string(text))


# ---- arrays -----------------------------------------------------------------------------------------------------

REALS: dict[int, Any] = {4: np.dtype(np.float32), 8: np.dtype(np.float64)}


def whole(what: str, value: Any) -> np.ndarray:
    """As an array in this machine's byte order. Raises for masked entries, which have no values."""
    if np.ma.is_masked(value):
        raise ConfigError(f"{what} has {np.ma.count_masked(value)} masked entries: fill or drop them first")
    array = np.asarray(value)
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


def numbers(what: str, value: Any) -> np.ndarray:
    """As an array of doubles."""
    array = whole(what, value)
    if array.dtype.kind not in "fiub":
        raise ConfigError(f"{what} is of type {array.dtype}, but must be real numbers")
    return np.ascontiguousarray(array, dtype=np.float64)


def pointer(ctype: str, array: np.ndarray) -> Any:
    """The array where it lies; it lives as long as the pointer."""
    return ffi.from_buffer(ctype + "[]", array)


class _Lent:
    """Memory of the library's, for NumPy; the array keeps this, and this keeps its owner."""

    def __init__(self, data: Any, n: int, real: int, owner: Any) -> None:
        self.owner = owner
        self.__array_interface__ = {
            "data": (address(data), True), "shape": (n,), "typestr": REALS[real].str, "version": 3
        }  # fmt: skip


def view(data: Any, n: int, real: int, owner: Any) -> np.ndarray:
    """n reals of the library as an array, without a copy and only to be read. The array keeps `owner` alive."""
    return np.asarray(_Lent(data, n, real, owner))


def borrow(data: Any, n: int, real: int) -> np.ndarray:
    """The same for the time of a callback, at the least cost: whoever keeps the array longer must copy it."""
    return np.frombuffer(ffi.buffer(data, n * real), REALS[real])


def borrow_const(data: Any, n: int, real: int) -> np.ndarray:
    """The same, only to be read."""
    array = np.frombuffer(ffi.buffer(data, n * real), REALS[real])
    array.flags.writeable = False
    return array


def tensors(vector: np.ndarray, tensor_at: Callable[[int, Any], int]) -> dict[str, np.ndarray]:
    """A model vector as named tensors, which are views of it."""
    t = ffi.new("fl_tensor *")
    out: dict[str, np.ndarray] = {}
    while tensor_at(len(out), t):
        shape = [t.shape[i] for i in range(t.dims)]
        n = int(np.prod(shape, dtype=np.int64))
        out[string(t.name)] = vector[t.offset : t.offset + n].reshape(shape)
    return out


# ---- waiting ----------------------------------------------------------------------------------------------------


def wait_for(call: Callable[[], T], stop: Callable[[], Any], tick: Callable[[], Any] | None = None) -> T:
    """Returns call(), which works without Python's lock and may take long.

    On the main thread the call goes to a thread of its own, and this one stays awake for signals: with Ctrl-C it asks
    for the end (`stop`), waits for the round under way and raises KeyboardInterrupt. `tick` is called now and then.
    """
    if threading.current_thread() is not threading.main_thread():
        return call()
    done = threading.Event()
    box: dict[str, Any] = {}

    def work() -> None:
        try:
            box["value"] = call()
        except BaseException as e:  # handed to the thread that waits
            box["error"] = e
        finally:
            done.set()

    worker = threading.Thread(target=work, name="fedloom")
    interrupted: BaseException | None = None
    while not done.is_set():
        try:
            if worker.ident is None:
                worker.start()
            done.wait(0.1)
            if tick and not interrupted:
                tick()
        except BaseException as e:  # KeyboardInterrupt, or what a signal handler or a tick raises
            stop()
            interrupted = interrupted or e
            if worker.ident is None:
                raise
    worker.join()
    if interrupted is not None:
        raise interrupted
    if "error" in box:
        raise box["error"]
    return box["value"]


def listed(call: Callable[[int], Any]) -> Iterable[Any]:
    """What call(0), call(1), ... give until NULL."""
    k = 0
    while (item := call(k)) != ffi.NULL:
        yield item
        k += 1


# ---- which library it is ----------------------------------------------------------------------------------------


def version() -> str:
    return ffi.string(lib.FL_VERSION).decode()


def kernels() -> str:
    """The kind of processor that the kernels in use are made for, such as "x86-64-v3". FEDLOOM_KERNELS chooses."""
    ctx = Context()
    name = ffi.new("const char **")
    ctx.check(lib.fl_kernels(ctx.ptr, name))
    return string(name[0])
