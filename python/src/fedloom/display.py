"""How things look: progress in terminals and notebooks, tables and small charts in notebooks."""

from __future__ import annotations

import html
import math
import shutil
import sys
import time
from typing import Any, Mapping, Sequence, Union

import numpy as np

from . import measured
from ._core import ffi, lib, no_print, string

Wanted = Union[None, bool]

# ---- tables -----------------------------------------------------------------------------------------------------


def frame(columns: Mapping[str, Any]) -> Any:
    """A pandas.DataFrame, or the columns themselves where there is no pandas."""
    try:
        import pandas
    except ImportError:
        return dict(columns)
    return pandas.DataFrame(dict(columns))


def html_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    cell = lambda tag, v: f"<{tag}>{html.escape(str(v))}</{tag}>"  # noqa: E731
    body = "".join("<tr>" + "".join(cell("td", v) for v in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{''.join(cell('th', h) for h in head)}</tr></thead><tbody>{body}</tbody></table>"


def sparkline(values: Sequence[float], title: str, width: int = 180, height: int = 40) -> str:
    """A curve without axes, as SVG."""
    v = np.asarray(values, dtype=float)
    v = v[np.isfinite(v)]
    if len(v) < 2:
        return ""
    low, high = float(v.min()), float(v.max())
    span = high - low or 1.0
    points = " ".join(
        f"{2 + i * (width - 4) / (len(v) - 1):.1f},{2 + (height - 4) * (high - y) / span:.1f}" for i, y in enumerate(v)
    )
    return (
        f'<svg width="{width}" height="{height}" viewBox="0 0 {width} {height}" role="img">'
        f"<title>{html.escape(title)}</title>"
        f'<polyline points="{points}" fill="none" stroke="currentColor" stroke-width="1.5"/></svg>'
    )


def page(title: str, body: str) -> str:
    return (
        f"<!doctype html><html><head><meta charset='utf-8'><title>{html.escape(title)}</title><style>"
        "body{font-family:sans-serif;margin:2em}table{border-collapse:collapse}"
        "td,th{padding:.2em .8em;text-align:right}"
        f"</style></head><body>{body}</body></html>"
    )


# ---- runs -------------------------------------------------------------------------------------------------------


def _headline(run: Any) -> str:
    what = f"{run.algorithm}, {run.clients} clients, {run.parameters} parameters"
    state = {"": "not finished", "rounds": "all rounds done", "asked": "stopped"}.get(
        run.stopped_by, f"ended by {run.stopped_by}"
    )
    return f"{what}: {run.round} of {run.planned} rounds, {state}"


def run_text(run: Any) -> str:
    pairs = measured.in_table(lib.fl_run_row(run._run))
    return f"<fedloom: {_headline(run)}" + "".join(f"; {label} {value}" for label, value in pairs) + ">"


def run_html(run: Any) -> str:
    pairs = measured.in_table(lib.fl_run_row(run._run))
    columns = run.columns()
    curves = [
        f"<figure style='display:inline-block;margin:.5em'>{sparkline(columns[name], title)}"
        f"<figcaption>{html.escape(title)}</figcaption></figure>"
        for name, title in (
            ("test_accuracy", "test accuracy"),
            ("train_loss", "train loss"),
            ("gradient_norm", "gradient norm"),
        )
        if name in columns and len(columns[name]) > 1
    ]
    head = f"<p><b>{html.escape(run.name)}</b>: {html.escape(_headline(run))}</p>"
    return head + html_table([p[0] for p in pairs], [[p[1] for p in pairs]]) + "".join(curves)


# ---- progress ---------------------------------------------------------------------------------------------------


def in_notebook() -> bool:
    """Whether what is displayed goes to a notebook."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    return shell is not None and hasattr(shell, "kernel")


class _Line:
    """A line that is rewritten in place: in a notebook an output of its own, else on stderr."""

    def __init__(self) -> None:
        self.display: Any = None
        self.used = False

    def write(self, text: str) -> None:
        self.used = True
        if in_notebook():
            from IPython.display import HTML, display

            made = HTML(f"<pre style='font-family:monospace'>{html.escape(text)}</pre>" if text else "")
            if self.display is None:
                self.display = display(made, display_id=True)
            else:
                self.display.update(made)
            return
        columns = shutil.get_terminal_size().columns
        sys.stderr.write("\r" + text[: columns - 1] + "\x1b[K")
        sys.stderr.flush()

    def clear(self) -> None:
        if self.used:
            self.write("")


def _left(seconds: float) -> str:
    if not math.isfinite(seconds) or seconds > 3.6e8:
        return ""
    s = int(seconds + 0.5)
    return f"  {s // 3600}:{s // 60 % 60:02d}:{s % 60:02d} left" if s >= 3600 else f"  {s // 60}:{s % 60:02d} left"


class progress:
    """What a run or a comparison tells of itself. The library writes, on its thread; the waiting thread paints."""

    def __init__(self, wanted: Wanted, name: str, rounds: int) -> None:
        self.handle = ffi.new_handle(self)
        self.name, self.rounds = name, rounds
        self.round = self.first = -1
        self.row = ffi.new("fl_row *")
        self.measured = False
        self.ended: list[tuple[str, str]] = []  # runs of a comparison that failed: name, sentence
        self.text = ""
        self._begun = time.monotonic()
        self._line = _Line()
        self._paints = (in_notebook() or sys.stderr.isatty()) if wanted is None else wanted
        self._stopping = ""

    def __enter__(self) -> progress:
        return self

    def __exit__(self, *ignored: Any) -> None:
        self._line.clear()

    def stopping(self) -> None:
        self._stopping = "  (stopping after the round under way)"
        if self._paints:
            self._line.write(self._say() + self._stopping)

    def paint(self) -> None:
        if self._paints and (self.round >= 0 or self.text):
            self._line.write(self._say() + self._stopping)

    def _say(self) -> str:
        if self.text:
            return self.text
        line = f"{self.name}  {max(self.round, 0)}/{self.rounds}"
        if self.measured:
            line += "".join(f"  {label} {value}" for label, value in measured.telling(self.row))
        done = self.round - self.first
        if done > 0:
            line += _left((time.monotonic() - self._begun) * (self.rounds - self.round) / done)
        return line


@ffi.def_extern(name="py_round", onerror=no_print)
def _py_round(arg: Any, run: Any, row: Any, fresh: int) -> None:
    p = ffi.from_handle(arg)
    p.round = lib.fl_run_round(run)
    if p.first < 0:
        p.first = p.round
    if fresh:
        ffi.memmove(p.row, row, ffi.sizeof("fl_row"))
        p.measured = True


@ffi.def_extern(name="py_study", onerror=no_print)
def _py_study(arg: Any, s: Any) -> None:
    p = ffi.from_handle(arg)
    if s.label == ffi.NULL:
        return
    setting = string(s.setting)
    name = string(s.label) + (f" ({setting})" if setting else "") + f", seed {s.seed}"
    if s.ended and s.error != ffi.NULL:
        p.ended.append((name, string(s.error)))
    line = f"{s.done} of {s.total} runs  {100 * s.fraction:3.0f}%  {name}  {s.round}/{s.rounds}"
    if s.row != ffi.NULL:
        line += "".join(f"  {label} {value}" for label, value in measured.telling(s.row)[:1])
    if s.fraction > 0.001:
        line += _left(s.seconds * (1 - s.fraction) / s.fraction)
    p.text = line
