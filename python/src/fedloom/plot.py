"""Curves on matplotlib axes."""

from __future__ import annotations

from typing import Any, Mapping, Sequence, Union

import numpy as np

from . import measured
from ._core import ConfigError, lib, string
from .run import Run
from .study import Comparison, Curve

Drawn = Union[Run, Comparison, Sequence[Run], Mapping[str, Run]]


def _metric(name: str, view: int) -> str:
    """A metric by its name (test_accuracy) or the one it has on the axes of charts (test-accuracy, rounds)."""
    known = measured.metrics()
    if name in known:
        return name
    for label, _, metric in measured.shown(view):
        if label == name:
            return string(metric.name)
    raise ConfigError(f"there is no metric {name!r}; there are {', '.join(known)}")


def _curves(what: Drawn) -> list[Curve]:
    if isinstance(what, Comparison):
        return what.curves()
    if isinstance(what, Run):
        what = [what]
    if isinstance(what, Mapping):
        return [Curve(label, "", 0, run.columns()) for label, run in what.items()]
    return [Curve(run.name, "", k, run.columns()) for k, run in enumerate(what)]


def _bands(curves: list[Curve], x: str, y: str) -> dict[str, tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Per method and setting: x, and mean and deviation of y over seeds, where all of them were measured."""
    groups: dict[str, list[Curve]] = {}
    for c in curves:
        if x in c.columns and y in c.columns:
            groups.setdefault(c.method + (f" ({c.setting})" if c.setting else ""), []).append(c)
    out = {}
    for label, group in groups.items():
        n = min(len(c.columns[y]) for c in group)
        xs = np.mean([c.columns[x][:n] for c in group], axis=0)
        ys = np.array([c.columns[y][:n] for c in group])
        keep = np.isfinite(ys).all(axis=0)
        out[label] = (xs[keep], ys.mean(axis=0)[keep], ys.std(axis=0, ddof=1 if len(ys) > 1 else 0)[keep])
    return out


def _megabytes(metric: str) -> bool:
    return measured.metrics()[metric].unit == lib.FL_UNIT_BYTES


def _in_units(bands: dict, x: str, y: str) -> dict:
    """The same in the units of the axes."""
    to_x, to_y = (1e-6 if _megabytes(metric) else 1.0 for metric in (x, y))
    return {label: (to_x * xs, to_y * mean, to_y * dev) for label, (xs, mean, dev) in bands.items()}


def _title(metric: str) -> str:
    return string(measured.metrics()[metric].title) + (" (MB)" if _megabytes(metric) else "")


def _first_measured(curves: list[Curve]) -> str:
    for _, _, metric in measured.shown(lib.FL_VIEW_CHART):
        if any(string(metric.name) in c.columns for c in curves):
            return string(metric.name)
    raise ConfigError("nothing was measured yet that could be drawn")


def plot(what: Drawn, y: str | None = None, x: str = "round", ax: Any = None, **style: Any) -> Any:
    """Draws the curves of a run, of several runs (a list, or a dict with labels) or of a comparison.

    y    a metric such as "test_accuracy"; None: the most telling one that was measured.
    x    "round", "bytes_up", "seconds", "simulated_seconds" or any other metric. Bytes are drawn as megabytes.
    ax   matplotlib axes to draw on; None: new ones. They come back.

    Of a comparison each line is the mean over seeds, and the band one standard deviation. `style` goes to ax.plot.
    """
    try:
        from matplotlib import pyplot
    except ImportError as e:
        raise ImportError("fedloom.plot draws with matplotlib, which is not installed") from e
    curves = _curves(what)
    y = _metric(y, lib.FL_VIEW_CHART) if y else _first_measured(curves)
    x = _metric(x, lib.FL_VIEW_AXIS)
    bands = _in_units(_bands(curves, x, y), x, y)
    if not bands:
        raise ConfigError(f"no run has measured both {x} and {y}")
    ax = pyplot.subplots()[1] if ax is None else ax
    for label, (xs, mean, deviation) in bands.items():
        line = ax.plot(xs, mean, label=label, **style)[0]
        if deviation.any():
            ax.fill_between(xs, mean - deviation, mean + deviation, color=line.get_color(), alpha=0.2, linewidth=0)
    _dress(ax, x, y, bands)
    return ax


def _dress(ax: Any, x: str, y: str, bands: dict) -> None:
    ax.set_xlabel(_title(x))
    ax.set_ylabel(_title(y))
    values = np.concatenate([mean for _, mean, _ in bands.values()])
    scale = measured.metrics()[y].scale
    wide = scale == lib.FL_SCALE_WIDE and len(values) and values.max() > 1e4 * max(values.min(), 1e-300)
    if len(values) and values.min() > 0 and (scale == lib.FL_SCALE_LOG or wide):
        ax.set_yscale("log")
        if values.max() < 100 * values.min():
            _few_decades(ax.yaxis)
    if len(bands) > 1:
        ax.legend()


def _few_decades(axis: Any) -> None:
    """Powers of ten alone would be too few labels."""
    from matplotlib import ticker

    axis.set_major_locator(ticker.LogLocator(subs=(1.0, 2.0, 5.0)))
    axis.set_major_formatter(ticker.StrMethodFormatter("{x:g}"))
    axis.set_minor_formatter(ticker.NullFormatter())
