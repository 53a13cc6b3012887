"""Several methods, settings and seeds on one problem; papers' experiments; tuning; what theory says of settings."""

from __future__ import annotations

import csv
import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Mapping, Sequence

import numpy as np

from . import _core, display
from ._core import ConfigError, Error, FileError, ffi, lib, string
from .config import Config, Settings
from .model import Model, load
from .own import plain_names


@dataclass
class Curve:
    """The metrics of one run of a comparison."""

    method: str
    setting: str
    seed: int
    columns: dict[str, np.ndarray]
    folder: Path | None = None  # None: it is in memory


class Comparison:
    """A comparison, as fedloom.compare() returns it. Its runs, table and page are in the folder `output`."""

    def __init__(self, cfg: Config, options: Any, keep: list) -> None:
        self._ctx, self._cfg = cfg.ctx, cfg
        self._asked = (options, keep)
        self._study = self._new()
        self.failed: list[tuple[str, str]] = []
        self._kept: dict[str, Any] = {}

    def _new(self) -> Any:
        cfg, (options, keep) = self._cfg, self._asked
        new = lambda out: lib.fl_study_new(cfg.ptr, options, out)  # noqa: E731
        made = _core.make(cfg.check, new, "fl_study **", lib.fl_study_free)
        return _core.users.own(made, lib.fl_study_free, cfg.keep, cfg.ptr, keep)

    def _go(self, wanted: display.Wanted) -> None:
        study = self._study

        def stop() -> None:
            lib.fl_study_stop(study)
            shown.stopping()

        with display.progress(wanted, "", 0) as shown:
            status = _core.wait_for(lambda: lib.fl_study_go(study, lib.py_study, shown.handle), stop, shown.paint)
        self.failed = shown.ended
        self._cfg.check(status)
        self._say_failures()
        self._cfg.check(lib.fl_study_write(study))
        # One that has run keeps its folder locked. One that has not finds everything there, and lets others in.
        self._study = self._new()

    def _say_failures(self) -> None:
        if self.failed and not self.runs[0]:
            name, sentence = self.failed[0]
            raise _core.raised_in(sentence) or Error(f"all runs failed; {name}: {sentence}")
        for name, sentence in self.failed:
            _core.warn(f"{name} failed: {sentence}")

    @property
    def output(self) -> str:
        """The folder with all of it."""
        return string(lib.fl_study_output(self._study))

    @property
    def report(self) -> str:
        """The page with curves and tables, for a browser: the name of its file."""
        return str(Path(self.output) / "report.html")

    @property
    def html(self) -> str:
        """The same page: its text."""
        return Path(self.report).read_text()

    @property
    def runs(self) -> tuple[int, int]:
        """How many are done, of how many."""
        done = ffi.new("size_t *")
        total = lib.fl_study_runs(self._study, done)
        return done[0], total

    @property
    def text(self) -> str:
        """The table as the program prints it: means and deviations over seeds, rounds and bytes to each target."""
        return self._ctx.text(lambda fn, arg: lib.fl_study_table(self._study, fn, arg))

    @property
    def paper(self) -> str:
        """Ours beside the paper's, for experiments that have a `paper` part."""
        return self._ctx.text(lambda fn, arg: lib.fl_study_paper(self._study, fn, arg))

    def columns(self) -> dict[str, np.ndarray]:
        """results.csv as arrays, a number per method and setting; only what was measured."""
        if "columns" not in self._kept:
            with open(Path(self.output) / "results.csv", newline="") as f:
                head, *rows = csv.reader(f)
            columns = {name: [row[k] for row in rows] for k, name in enumerate(head)}
            self._kept["columns"] = {k: _array(v) for k, v in columns.items() if any(v)}
        return self._kept["columns"]

    @property
    def table(self) -> Any:
        """A line per method and setting: a pandas.DataFrame, or a dict of arrays where there is no pandas."""
        return display.frame(self.columns())

    def curves(self) -> list[Curve]:
        """The metrics of every finished run, methods in the order of the table."""
        if "curves" not in self._kept:
            folder = Path(self.output) / "runs"
            found = [_curve(folder, p.parent) for p in sorted(folder.glob("**/seed-*/result.json"))]
            order = list(self.columns()["method"])
            self._kept["curves"] = sorted(
                found, key=lambda c: order.index(c.method) if c.method in order else len(order)
            )
        return self._kept["curves"]

    def model(self, method: str, setting: str = "", seed: int | None = None) -> Model:
        """What one of the runs has trained; None: with the first seed."""
        curves = self.curves()
        for c in curves:
            if c.folder and c.method == method and c.setting == setting and seed in (None, c.seed):
                return load(c.folder)
        there = ", ".join(f"{c.method} {c.setting} seed {c.seed}".replace("  ", " ") for c in curves)
        raise ConfigError(f"there is no run of {method} {setting} with seed {seed}; there are: {there}")

    def quantities(self, axis: str = "y") -> list[str]:
        """What was measured and can be drawn, on the axis "y" or "x"."""
        number = {"x": 0, "y": 1}[axis]
        return [string(q) for q in _core.listed(lambda k: lib.fl_study_quantity(self._study, number, k))]

    def svg(self, y: str | None = None, x: str = "rounds") -> str:
        """One chart as fedloom draws it: a stand-alone SVG document."""
        y = y or self.quantities()[0]
        return self._ctx.text(lambda fn, arg: lib.fl_study_plot(self._study, x.encode(), y.encode(), fn, arg))

    def __repr__(self) -> str:
        return f"<fedloom.Comparison: {self.runs[0]} of {self.runs[1]} runs, in {self.output}>\n{self.text}"

    def _repr_html_(self) -> str:
        head, _, *rows = [
            [c.strip().replace("\\*", "*") for c in line.strip("| \n").split("|")]
            for line in (Path(self.output) / "results.md").read_text().splitlines()
            if line.startswith("|")
        ]
        chart = re.sub(r"^.*?(?=<svg)", "", self.svg(), flags=re.S) if self.quantities() else ""
        return display.html_table(head, rows) + chart


def _array(texts: Sequence[str]) -> np.ndarray:
    try:
        return np.array([float(t) if t else np.nan for t in texts])
    except ValueError:
        return np.array(texts)


def _curve(folder: Path, run: Path) -> Curve:
    with open(run / "metrics.csv", newline="") as f:
        head, *rows = csv.reader(f)
    columns = {name: _array([row[k] for row in rows]) for k, name in enumerate(head) if any(row[k] for row in rows)}
    parts = run.relative_to(folder).parts
    name = json.loads((run / "result.json").read_text())["name"]
    return Curve(name, "/".join(parts[1:-1]), int(parts[-1][len("seed-") :]), columns, run)


def _options(struct: str, given: Mapping[str, Any]) -> tuple[Any, list]:
    """Options of a comparison, and the texts that they point to."""
    options = ffi.new(struct)
    options.size = ffi.sizeof(options[0])
    keep: list = []
    for key, value in given.items():
        if isinstance(value, (str, os.PathLike)):
            keep.append(ffi.new("char[]", os.fsencode(value)))
            value = keep[-1]
        if value is not None:
            setattr(options, key, value)
    return options, keep + [options]


def _method(m: Any) -> Any:
    """Methods may be given by name, or as classes of one's own."""
    if isinstance(m, Mapping):
        return m
    if isinstance(m, str):
        return {"label": m, "algorithm": m}
    if hasattr(m, "_fedloom_setting"):
        return {"label": m.title or m.name, "algorithm": m}
    raise ConfigError(f"a method is a {type(m).__name__}, but must be a name, a fedloom.Method or a dict")


def compare(
    config: Settings = None,
    *,
    methods: Sequence[Any] | None = None,
    seeds: int | None = None,
    jobs: int | None = None,
    quick: bool = False,
    data_dir: str | os.PathLike | None = None,
    output: str | os.PathLike | None = None,
    tensorboard: str | os.PathLike | None = None,
    force: bool = False,
    progress: display.Wanted = None,
    **settings: Any,
) -> Comparison:
    """Runs several methods, settings and seeds on one problem, and compares them.

    config    as for fedloom.run, with `methods`, `grid` and `seeds` if it is an experiment.
    methods   names, fedloom.Method classes, or dicts {"label": ..., "algorithm": ...}.
    jobs      runs at the same time; None: one per processor.
    quick     apply the file's `quick` part.
    data_dir  what ${data} stands for in the file; None: the environment's FEDLOOM_DATA.
    output    the folder for it all; None: the configuration's, else results/NAME. What is there already counts.
    force     finished runs with other settings may be replaced.
    """
    if methods is not None:
        settings["methods"] = [_method(m) for m in methods]
    given = {"seeds": seeds, "jobs": jobs, "quick": quick, "data": data_dir, "output": output,
             "tensorboard": tensorboard, "force": force}  # fmt: skip
    options, keep = _options("fl_study_options *", given)
    made = Comparison(Config(config, settings), options, keep)
    made._go(progress)
    return made


# ---- papers -----------------------------------------------------------------------------------------------------


def _experiments() -> Path:
    """Where papers' experiments are: where the environment says, else with the package."""
    return Path(os.environ.get("FEDLOOM_EXPERIMENTS") or Path(__file__).parent / "share" / "experiments")


def experiments() -> Any:
    """Papers' tables and figures that fedloom.reproduce knows: name, paper, what they need, how long they take."""
    rows = []
    for path in sorted(_experiments().glob("*.yaml")):
        cfg = Config(path)
        rows.append((path.stem, cfg.get("paper.source"), cfg.get("needs.what") or "nothing", cfg.get("paper.time")))
    columns = ["name", "paper", "needs", "time"]
    return display.frame({name: np.array([row[k] for row in rows]) for k, name in enumerate(columns)})


def reproduce(name: str | os.PathLike, *, data: str | os.PathLike | None = None, **options: Any) -> Comparison:
    """Runs a paper's experiment, by name or from a file. `data` is the folder with the data sets (else FEDLOOM_DATA).

    Options are those of fedloom.compare; quick=True shows in about a minute that it works. `paper` of what comes back
    has our figures beside the paper's.
    """
    path = Path(name)
    if "/" not in str(name):
        path = _experiments() / f"{name}.yaml"
    if not path.exists():
        raise FileError(f"there is no experiment {name} (looked for {path}); fedloom.experiments() lists what there is")
    return compare(path, data_dir=data, **options)


# ---- theory -----------------------------------------------------------------------------------------------------


@dataclass
class Condition:
    """A condition of a method's theorem. `holds` is None where it is assumed without being measured.

    It is None, too, for what counts for nothing: a paper's own form of a condition whose proof needs another (`verdict`
    "printed"), and what the theorem does not cover ("left out").
    """

    name: str
    formula: str
    holds: bool | None
    verdict: str = "assumed"
    note: str = ""


class Check:
    """What theory says of settings: `text` for people, `conditions` one by one, `fixed` settings that satisfy them."""

    def __init__(self, text: str, fixed: str | None) -> None:
        self.text, self.fixed = text, fixed
        self.conditions: list[Condition] = []
        for line in text.splitlines():
            verdict = re.match(r"(holds|FAILS|assumed|printed|left out) +(.{14}) (.*)", line)
            if verdict:
                word, name, formula = verdict.groups()
                holds = {"holds": True, "FAILS": False}.get(word)
                self.conditions.append(Condition(name.strip(), formula.strip(), holds, word.lower()))
            elif line.startswith("         ") and self.conditions:
                self.conditions[-1].note = line.strip()

    @property
    def holds(self) -> bool:
        """Whether there are conditions, and none of them fails."""
        return bool(self.conditions) and all(c.holds is not False for c in self.conditions)

    def __repr__(self) -> str:
        return self.text


def check(config: Settings = None, *, fix: bool = False, data_dir: str | os.PathLike | None = None,
          **settings: Any) -> Check:  # fmt: skip
    """Measures the clients' smoothness and says which step-size conditions of the method's theorem hold.

    With fix=True, settings are changed until the conditions hold that settings can satisfy. `fixed` of what comes back
    is that configuration as YAML; `conditions` and `holds` are its own.
    """
    cfg = Config(config, settings)
    if not fix:
        return Check(_said_of(cfg, data_dir, None), None)
    pieces: list[str] = []
    changes = _said_of(cfg, data_dir, pieces)
    fixed = plain_names("".join(pieces))
    again = Config(fixed, {} if cfg.data is None else {"data": cfg.data})
    return Check(f"{changes}\n{_said_of(again, data_dir, None)}", fixed)


def _said_of(cfg: Config, data_dir: str | os.PathLike | None, fixed: list[str] | None) -> str:
    """What theory says of settings. `fixed`, if it is to be done, receives the changed ones."""
    left = ffi.new("size_t *")
    file = ffi.NULL if fixed is None else ffi.new_handle(fixed)
    file_fn = ffi.NULL if fixed is None else lib.py_text
    if lib.fl_config_is_experiment(cfg.ptr):
        options, keep = _options("fl_study_options *", {"data": data_dir})
        return cfg.text(lambda fn, arg: lib.fl_study_check(cfg.ptr, options, fn, arg, file_fn, file, left))
    if fixed is None:
        return cfg.text(lambda fn, arg: lib.fl_check(cfg.ptr, fn, arg))
    return cfg.text(lambda fn, arg: lib.fl_check_fix(cfg.ptr, fn, arg, file_fn, file, left))


def describe(
    config: Settings = None, *, clients: int = 20, data_dir: str | os.PathLike | None = None, **settings: Any
) -> str:
    """The data set and who holds what: sizes and a label histogram per client, as text.

    data_dir  what ${data} stands for in an experiment; None: the environment's FEDLOOM_DATA.
    """
    cfg = Config(config, settings)
    data = ffi.NULL if data_dir is None else ffi.new("char[]", os.fsencode(data_dir))
    return cfg.text(lambda fn, arg: lib.fl_data_describe(cfg.ptr, data, clients, ffi.NULL, fn, arg))


# ---- tuning -----------------------------------------------------------------------------------------------------


class Tuning:
    """What fedloom.tune() found: `text` for people, `winners` an experiment with every method at its best."""

    def __init__(self, text: str, output: str, winners: str) -> None:
        self.text, self.output, self.winners = text, output, winners

    def __repr__(self) -> str:
        return self.text


def tune(
    config: Settings = None,
    *,
    methods: Sequence[Any] | None = None,
    budget: int | None = None,
    seeds: int | None = None,
    jobs: int | None = None,
    output: str | os.PathLike | None = None,
    data_dir: str | os.PathLike | None = None,
    progress: display.Wanted = None,
    **settings: Any,
) -> Tuning:
    """Looks for every method's best settings within the same budget (full-length runs with one seed, per method).

    `fedloom.compare(found.winners)` compares the methods at their best.
    """
    if methods is not None:
        settings["methods"] = [_method(m) for m in methods]
    cfg = Config(config, settings)
    study, more = _options("fl_study_options *", {"seeds": seeds, "jobs": jobs, "output": output, "data": data_dir})
    options, keep = _options("fl_tune_options *", {"budget": budget, "study": study})
    new = lambda out: lib.fl_tune_new(cfg.ptr, options, out)  # noqa: E731
    made = _core.make(cfg.check, new, "fl_tune **", lib.fl_tune_free)
    made = _core.users.own(made, lib.fl_tune_free, cfg.keep, cfg.ptr, keep, more)

    def stop() -> None:
        lib.fl_tune_stop(made)
        shown.stopping()

    with display.progress(progress, "", 0) as shown:
        status = _core.wait_for(lambda: lib.fl_tune_go(made, lib.py_study, shown.handle), stop, shown.paint)
    cfg.check(status)
    if not lib.fl_tune_done(made):
        raise ConfigError("the tuning was stopped before it was done; the same call goes on")
    cfg.check(lib.fl_tune_write(made))
    text = cfg.text(lambda fn, arg: lib.fl_tune_table(made, fn, arg))
    where = string(lib.fl_tune_output(made))
    best = Path(where) / "best.yaml"
    best.write_text(plain_names(best.read_text()))
    return Tuning(text, where, str(best))
