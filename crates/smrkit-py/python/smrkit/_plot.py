"""Draws the course of runs with matplotlib, if that is installed."""

from collections.abc import Iterable
from importlib import import_module
from typing import Any

from smrkit._errors import UsageError

#: Keys of ``timeline``: the axis, and what a window's value is multiplied by; rates are per second.
_COURSES = {
    "longest_ns": ("longest latency, ms", 1e-6),
    "requests": ("requests/s", None),
    "read_bytes": ("read, MB/s", 1e-6),
    "written_bytes": ("written, MB/s", 1e-6),
    "cache_fill": ("cache in use, %", 100.0),
}


def courses(outcomes: Iterable[Any], key: str, ax: Any) -> Any:
    """Draws a key of the timelines, one line a run."""
    if key not in _COURSES:
        raise UsageError(f"no course of {key}: there are {', '.join(_COURSES)}")
    label, factor = _COURSES[key]
    if ax is None:
        try:
            ax = import_module("matplotlib.pyplot").subplots()[1]
        except ImportError as error:
            raise UsageError("plot takes matplotlib: pip install matplotlib; the page of report() needs no library") from error
    for outcome in outcomes:
        seconds = outcome.timeline.window_ns / 1e9
        by = (factor or 1.0) / (seconds if label.endswith("/s") else 1.0)
        values = outcome.timeline[key]
        ax.plot([at * seconds for at in range(len(values))], [value * by for value in values], label=outcome.layer)
    ax.set_xlabel("s")
    ax.set_ylabel(label)
    if key == "longest_ns":
        ax.set_yscale("log")
    ax.legend()
    return ax
