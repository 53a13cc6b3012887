"""A run: from settings to metrics, model and what clients keep, in one call or round by round."""

from __future__ import annotations

import contextlib
import os
import tempfile
import threading
from typing import Any, Callable, Iterator, TypeVar

import numpy as np

from . import _core, display
from ._core import ConfigError, Error, ffi, lib, string
from .config import Config, Settings
from .measured import metrics, row_dict, table
from .model import Model

Self = TypeVar("Self", bound="Run")

_STOPPED = {
    lib.FL_STOP_NONE: "",
    lib.FL_STOP_ROUNDS: "rounds",
    lib.FL_STOP_TARGET: "target",
    lib.FL_STOP_GRADIENT: "gradient",
    lib.FL_STOP_TIME: "time",
    lib.FL_STOP_ASKED: "asked",
}


class Run:
    """A federation at work. fedloom.run() returns one that has finished; this one can be taken round by round:

        with fedloom.Run("first.yaml", rounds=50) as run:
            for row in run:
                print(row["round"], row.get("test_accuracy"))

    At the end of the `with` block the result is saved, if the configuration names an `output`.
    """

    def __init__(
        self, config: Settings = None, *, progress: display.Wanted = None, force: bool = False, **settings: Any
    ) -> None:
        self._open(Config(config, settings), lib.fl_run_new, progress, force)

    def _open(self, cfg: Config, new: Callable[[Any, Any], int], progress: display.Wanted, force: bool) -> None:
        cfg.keep_named()
        made = _core.make(cfg.check, lambda out: new(cfg.ptr, out), "fl_run **", lib.fl_run_free)
        self._hold(cfg, _core.users.own(made, lib.fl_run_free, cfg.keep), progress, force)

    def _hold(self, cfg: Config, run: Any, progress: display.Wanted = None, force: bool = False,
              lent: bool = False) -> None:  # fmt: skip
        self._ctx, self._lent = cfg.ctx, lent
        self._data, self._things = cfg.data, cfg.things
        self._ptr: Any = run  # None: it is closed
        self._process = os.getpid()
        self._turn = threading.Lock()
        self._progress = progress
        self._force = force
        self._prepared = self._saved = False
        self._tables: dict[str, Any] = {}

    @property
    def _run(self) -> Any:
        if self._ptr is None:
            raise Error("this run is closed: it could be used only during the call that it was given to")
        return self._ptr

    @contextlib.contextmanager
    def _alone(self, forward: bool = False) -> Iterator[Any]:
        """The run, locked for this thread. `forward`: to advance it or write its files, which only the process that
        made it may do."""
        run = self._run
        if forward and self._process != os.getpid():
            raise Error(f"{self.name} belongs to the process that made it: after a fork it can be read, not continued")
        if not self._turn.acquire(timeout=0.2):  # a thread that only looks is done by then
            raise Error(f"{self.name} is at work on another thread, or in a call of its own: a run belongs to one "
                        "thread at a time")  # fmt: skip
        try:
            yield run
        finally:
            self._turn.release()

    # ---- going

    def _prepare(self) -> None:
        if self.output and not self._prepared:
            self._ctx.check(lib.fl_run_prepare_save(self._run, self._force))
            self._prepared = True
        self._tables.clear()

    def step(self) -> bool:
        """One round. Returns whether there is another."""
        more = ffi.new("int *")
        with self._alone(forward=True) as run:
            self._prepare()
            self._ctx.check(lib.fl_run_step(run, more))
        return bool(more[0])

    def __iter__(self) -> Iterator[dict[str, float]]:
        """Goes on to the end, a round at a time: the number of each, and its metrics where they were measured."""
        more = not self.stopped_by
        while more:
            more = self.step()
            row = self.row
            yield row if row.get("round") == self.round else {"round": self.round}

    def go(self) -> Run:
        """Goes on to the end. Ctrl-C ends it after the round under way, and what was done so far can be read."""

        def stop() -> None:
            lib.fl_run_stop(run)
            shown.stopping()

        with self._alone(forward=True) as run:
            self._prepare()
            with display.progress(self._progress, self.name, self.planned) as shown:
                status = _core.wait_for(lambda: lib.fl_run_go(run, lib.py_round, shown.handle), stop, shown.paint)
            self._ctx.check(status)
        return self

    def stop(self) -> None:
        """Ends the run after the round under way; from any thread."""
        lib.fl_run_stop(self._run)

    def save(self, folder: str | os.PathLike | None = None, force: bool = False) -> str:
        """Writes the result folder: all of it, or nothing. Returns its name.

        None: the one that `output` names. `force` allows to replace an earlier result.
        """
        with self._alone(forward=True) as run:
            if folder is not None:
                self._ctx.check(lib.fl_run_set_output(run, os.fsencode(os.path.expanduser(folder))))
                self._prepared = False
            if not self.output:
                raise ConfigError("there is no folder to save to: give one here, or as `output`")
            self._force = self._force or force
            self._prepare()
            self._ctx.check(lib.fl_run_save(run))
            self._prepared, self._saved = False, True
            return self.output

    def checkpoint(self) -> None:
        """Writes a checkpoint now; fedloom.resume(output) continues from there."""
        with self._alone(forward=True) as run:
            self._ctx.check(lib.fl_run_checkpoint(run))

    def start_at(self, x: Any) -> None:
        """Another start model, before the first round: all parameters as one vector, or named arrays as in `model`."""
        if isinstance(x, dict):
            x = self._flat(x)
        x = _core.numbers("the start model", x).reshape(-1)
        with self._alone() as run:
            self._ctx.check(lib.fl_run_start(run, _core.pointer("double", x), len(x)))

    def _flat(self, named: dict[str, Any]) -> np.ndarray:
        own_model = self.model
        if named.keys() != own_model.keys():
            raise ConfigError(f"the model has the arrays {', '.join(own_model)}, and not {', '.join(named)}")
        for name, v in own_model.items():
            if np.shape(named[name]) != v.shape:
                raise ConfigError(f"{name} has the shape {np.shape(named[name])}, but must have {v.shape}")
        return np.concatenate([_core.numbers(name, named[name]).reshape(-1) for name in own_model])

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        if kind is None and self.output and not self._saved and self.round:
            self.save()

    # ---- what it is

    @property
    def name(self) -> str:
        return string(lib.fl_run_name(self._run))

    @property
    def output(self) -> str:
        """The result folder; "": none."""
        return string(lib.fl_run_output(self._run))

    @property
    def algorithm(self) -> str:
        return string(lib.fl_run_algorithm(self._run))

    @property
    def round(self) -> int:
        """Rounds finished."""
        return lib.fl_run_round(self._run)

    rounds = round

    @property
    def planned(self) -> int:
        """Rounds planned."""
        return lib.fl_run_rounds(self._run)

    @property
    def clients(self) -> int:
        return lib.fl_run_clients(self._run)

    @property
    def parameters(self) -> int:
        """The length of the model vector."""
        return lib.fl_run_parameters(self._run)

    @property
    def stopped_by(self) -> str:
        """Why it ended: "rounds", "target", "gradient", "time", "asked"; "" if it has not."""
        return _STOPPED[lib.fl_run_stopped_by(self._run)]

    # ---- what came of it

    def _rows(self) -> np.ndarray:
        rows = ffi.new("const fl_row **")
        with self._alone() as run:
            n = lib.fl_run_rows(run, rows)
            if not n:
                return np.empty((0, lib.FL_METRICS_MAX))
            return np.frombuffer(bytes(ffi.buffer(rows[0], n * ffi.sizeof("fl_row")))).reshape(n, lib.FL_METRICS_MAX)

    def columns(self) -> dict[str, np.ndarray]:
        """Metrics as arrays, a number for every measurement; only those that were measured."""
        if "columns" not in self._tables:
            self._tables["columns"] = table(self._rows())
        return self._tables["columns"]

    @property
    def metrics(self) -> Any:
        """All measurements, one per line: a pandas.DataFrame, or a dict of arrays where there is no pandas."""
        if "frame" not in self._tables:
            self._tables["frame"] = display.frame(self.columns())
        return self._tables["frame"]

    @property
    def row(self) -> dict[str, float]:
        """The newest measurement."""
        with self._alone() as run:
            row = lib.fl_run_row(run)
            return {} if row == ffi.NULL else row_dict(np.frombuffer(ffi.buffer(row.value)))

    def __getattr__(self, name: str) -> float:
        """A metric of the newest measurement: result.test_accuracy."""
        if not name.startswith("_") and name in metrics():
            with self._alone() as run:
                row = lib.fl_run_row(run)
                return float("nan") if row == ffi.NULL else lib.fl_row_get(row, name.encode())
        raise AttributeError(f"a run has no {name!r}, and there is no metric of that name")

    @property
    def accuracy(self) -> float:
        """The newest test accuracy."""
        return self.test_accuracy

    @property
    def loss(self) -> float:
        """The newest training loss."""
        return self.train_loss

    @property
    def targets(self) -> dict[float, int | None]:
        """Per target accuracy the first measured round that reached it; None: none has."""
        accuracy, round_ = ffi.new("double *"), ffi.new("size_t *")
        out: dict[float, int | None] = {}
        k = 0
        while lib.fl_run_target(self._run, k, accuracy, round_):
            out[accuracy[0]] = None if round_[0] == 2 ** (8 * ffi.sizeof("size_t")) - 1 else round_[0]
            k += 1
        return out

    @property
    def vectors(self) -> dict[str, np.ndarray]:
        """The server's vectors by name, where they lie; the first is the model. The next round changes them."""
        out: dict[str, np.ndarray] = {}
        v = ffi.new("fl_vector *")
        while lib.fl_run_vector(self._run, len(out), v):
            seen = _core.view(v.data, v.n, v.real, self._run)
            out[string(v.name)] = seen.copy() if self._lent else seen
        return out

    @property
    def model(self) -> dict[str, np.ndarray]:
        """The model as named arrays, where they lie: the next round changes them."""
        x = next(iter(self.vectors.values()))
        return _core.tensors(x, lambda k, out: lib.fl_run_tensor(self._run, k, out))

    def client(self, i: int) -> dict[str, Any]:
        """Copies of what client i keeps between its turns, by name; its scalars as "scalars". {}: nothing yet."""
        if not 0 <= i < self.clients:
            raise ConfigError(f"there is no client {i}: there are {self.clients}, from 0 on")
        out: dict[str, Any] = {}
        v = ffi.new("fl_vector *")
        k = 0
        with self._alone() as run:
            while found := lib.fl_run_client_vector(run, i, k, v):
                if found < 0:
                    self._ctx.check(lib.FL_ESYSTEM)
                k += 1
                if v.data != ffi.NULL:
                    out[string(v.name)] = _core.borrow(v.data, v.n, v.real).copy()
            n = lib.fl_run_client_scalars(run, i, ffi.NULL, 0)
            if n:
                scalars = np.empty(n)
                lib.fl_run_client_scalars(run, i, _core.pointer("double", scalars), n)
                out["scalars"] = scalars
        return out

    def as_model(self) -> Model:
        """The model as fedloom.load would give it: it stays as it is now, and predicts."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "model.safetensors")
            with self._alone() as run:
                self._ctx.check(lib.fl_run_save_model(run, path.encode()))
            return Model(path)

    def predict(self, x: Any) -> np.ndarray:
        """Class probabilities (n x classes) or the values of a regression (n), for samples as they are in the data."""
        return self.as_model().predict(x)

    def classify(self, x: Any) -> np.ndarray:
        """The likeliest class of each sample: its number, or what the data called it."""
        likeliest = self.as_model()._likeliest(x)
        names = self._data.class_names if self._data is not None else None
        return likeliest if names is None else names[likeliest]

    # ---- how it looks

    @property
    def html(self) -> str:
        """A page about the run, for a browser: its text."""
        return display.page(self.name, display.run_html(self))

    def __repr__(self) -> str:
        return display.run_text(self)

    def _repr_html_(self) -> str:
        return display.run_html(self)


def run(config: Settings = None, *, progress: display.Wanted = None, force: bool = False, **settings: Any) -> Run:
    """Runs a federation to its end.

    config    a dict, a YAML file or its text; further keywords are laid over it: rounds=10, local={"lr": 0.1}, and
              "local.lr" in a dict. `data` may be a fedloom.Data, or a tuple (x, y).
    progress  how it goes: True, False, or None for a line where somebody sees it.
    force     an existing result folder may be replaced.

    Where the configuration names an `output`, the result is saved there.
    """
    with Run(config, progress=progress, force=force, **settings) as made:
        made.go()
    return made


def resume(folder: str | os.PathLike, *, progress: display.Wanted = None, **settings: Any) -> Run:
    """Continues a run with checkpoints to the bits it would have ended with."""
    cfg = Config()
    cfg.check(lib.fl_config_resume(cfg.ptr, os.fsencode(folder)))
    cfg._lay(settings)
    made = Run.__new__(Run)
    made._open(cfg, lib.fl_run_resume, progress, True)
    made._prepared = True  # the place is its own already
    with made:
        made.go()
    return made
