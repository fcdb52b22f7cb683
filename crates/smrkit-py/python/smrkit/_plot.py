"""Draws timelines of runs with matplotlib, if that is installed."""

from collections.abc import Iterable
from importlib import import_module
from typing import Any

from smrkit._errors import UsageError

#: Keys of ``timeline`` with the label of the axis and a factor. Values whose label ends in /s are also divided by the window's length.
_KEYS = {
    "longest_ns": ("longest latency, ms", 1e-6),
    "requests": ("requests/s", 1.0),
    "read_bytes": ("read, MB/s", 1e-6),
    "written_bytes": ("written, MB/s", 1e-6),
    "physical_written_bytes": ("written to the platters, MB/s", 1e-6),
    "write_amplification": ("write amplification", 1.0),
    "cache_fill": ("cache in use, %", 100.0),
}


def draw_timelines(outcomes: Iterable[Any], key: str, ax: Any) -> Any:
    """Draws a key of the timelines, one line for each run, on ``ax`` or on new axes. Returns the axes."""
    if key not in _KEYS:
        raise UsageError(f"no course of {key}: there are {', '.join(_KEYS)}")
    label, factor = _KEYS[key]
    if ax is None:
        try:
            ax = import_module("matplotlib.pyplot").subplots()[1]
        except ImportError as error:
            raise UsageError("plot takes matplotlib: pip install matplotlib; the page of report() needs no library") from error
    for outcome in outcomes:
        window_s = outcome.timeline.window_ns / 1e9
        scale = factor / (window_s if label.endswith("/s") else 1.0)
        values = _amplification(outcome.timeline) if key == "write_amplification" else outcome.timeline[key]
        ax.plot([at * window_s for at in range(len(values))], [value * scale for value in values], label=outcome.layer)
    ax.set_xlabel("s")
    ax.set_ylabel(label)
    if key == "longest_ns":
        ax.set_yscale("log")
    ax.legend()
    return ax


def _amplification(timeline: Any) -> list[float]:
    """The write amplification in each window; a gap where the host wrote nothing."""
    windows = zip(timeline.physical_written_bytes, timeline.written_bytes, strict=True)
    return [physical / written if written else float("nan") for physical, written in windows]
