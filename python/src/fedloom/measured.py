"""Metrics: their names and rows, and values as text."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from ._core import ffi, lib, listed, string


def metrics() -> dict[str, Any]:
    """All metrics by name, in the order of a row."""
    return {string(m.name): m for m in listed(lib.fl_metric_at)}


@functools.lru_cache(maxsize=None)
def shown(view: int) -> tuple:
    """The metrics of a view, in its order: (label, order, metric)."""
    return tuple(
        (string(m.shown[view].label), m.shown[view].order, m) for m in listed(lambda k: lib.fl_metric_shown(view, k))
    )


def table(rows: np.ndarray) -> dict[str, np.ndarray]:
    """Rows as columns: those with at least one number."""
    out = {}
    for k, name in enumerate(metrics()):
        column = rows[:, k]
        if not np.isnan(column).all():
            out[name] = column.astype(np.int64) if name == "round" else column.copy()
    return out


def row_dict(values: np.ndarray) -> dict[str, float]:
    """One row: what was measured, by name."""
    out = {name: float(values[k]) for k, name in enumerate(metrics()) if not math.isnan(values[k])}
    if "round" in out:
        out["round"] = int(out["round"])
    return out


def value_text(metric: Any, v: float) -> str:
    """A value as the program's tables have it."""
    if math.isnan(v):
        return ""
    if metric.unit in (lib.FL_UNIT_SHARE, lib.FL_UNIT_SCORE):
        return f"{v:.4f}"
    if metric.unit == lib.FL_UNIT_COUNT:
        return f"{v:.0f}"
    if metric.unit == lib.FL_UNIT_BYTES:
        return f"{v / 1e6:.1f}"
    if metric.unit == lib.FL_UNIT_SECONDS:
        return f"{v:.{metric.digits or (1 if v >= 9.95 else 4)}f}"
    return f"{v:.{metric.digits or 5}g}"


def telling(row: Any) -> list[tuple[str, str]]:
    """What is worth a word of a row in progress: (label, value), one metric for each ten of the view's order."""
    out = []
    filled = 0
    for label, order, metric in shown(lib.FL_VIEW_PROGRESS):
        v = lib.fl_row_value(row, metric)
        if not math.isnan(v) and order // 10 != filled:
            out.append((label, value_text(metric, v)))
            filled = order // 10
    return out


def in_table(row: Any) -> list[tuple[str, str]]:
    """The program's table of a run: (label, value)."""
    if row == ffi.NULL:
        return []
    pairs = [(label, metric, lib.fl_row_value(row, metric)) for label, _, metric in shown(lib.FL_VIEW_RUN)]
    return [(label, value_text(metric, v)) for label, metric, v in pairs if not math.isnan(v)]
