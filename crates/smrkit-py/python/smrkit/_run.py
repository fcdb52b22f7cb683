"""Runs and comparisons."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from importlib import import_module
from os import PathLike
from typing import Any, TypeAlias, Unpack

from smrkit import _native
from smrkit._arguments import Options
from smrkit._options import pairs
from smrkit._outcome import Outcome, Outcomes
from smrkit._table import Table

#: A function that is called with the share done (0 to 1) and what is being done. ``True`` shows a bar if tqdm is installed.
Progress: TypeAlias = Callable[[float, str], object] | bool


def run(
    *,
    requests: Any = None,
    latencies: bool = False,
    accesses: bool = False,
    baseline: bool = True,
    until: timedelta | None = None,
    window: timedelta | None = None,
    used_sectors: Sequence[int] | None = None,
    save_state: str | PathLike[str] | None = None,
    progress: Progress = False,
    **options: Unpack[Options],
) -> Outcome:
    """Replays a trace, a workload or a table of requests on one layer, and compares it with a conventional disk.

    Parameters
    ----------
    requests
        A table with the columns ``op``, ``lba``, ``sectors`` and a time such as ``time_us`` (``docs/reference/trace-parquet.md``):
        a data frame of polars, pandas or pyarrow, anything else with ``__arrow_c_stream__``, or a dict of numpy arrays or
        lists. Its requests are copied, 24 bytes each.
    latencies, accesses
        Whether to keep a row for each request, or each physical access.
    baseline
        Whether to run a conventional disk too. Without it the run takes less time, and ``slowdown`` is ``None``.
    until
        The drive's time at which the run ends, unless its requests end earlier.
    window
        The length of the timeline's windows. By default it doubles as the run grows.
    used_sectors
        The most sectors that are used of each member of the array.
    save_state
        A file for the final state of drive and layer. Another run can begin with it by ``from_state``.
    progress
        A function that is called with the share done and what is being done, or ``True`` for a bar.
    **options
        The options of ``smrkit run``, by their names (:class:`smrkit.Options`); ``set`` is a dict of parameters.

    Returns
    -------
    Outcome
        A mapping with the keys of ``outcome.json``.

    Raises
    ------
    UsageError, InputError, ImpossibleError, FaultError
        Each message states the remedy. Ctrl-C ends the run.

    Examples
    --------
    >>> import smrkit
    >>> outcome = smrkit.run(drive="tiny", layer="vguard", set={"vguard.band_tracks": 8},
    ...                      workload="random-write:count=2k", latencies=True)
    >>> outcome.parameters.band_tracks
    8
    >>> len(outcome.latencies)
    2000
    """
    table = None if requests is None else _native.Requests(requests)
    with bar(progress) as on_progress:
        native, *rows = _native.compare(
            pairs(options),
            table,
            on_progress,
            single=True,
            latencies=latencies,
            accesses=accesses,
            baseline=baseline,
            until_ns=nanoseconds(until),
            window_ns=nanoseconds(window),
            used_sectors=used_sectors,
            save_state=save_state,
        )
    return Outcome(native, 0, *(None if each is None else Table(each) for each in rows))


def compare(*, requests: Any = None, progress: Progress = False, **options: Unpack[Options]) -> Outcomes:
    """Replays the same requests on several layers or with several values of their parameters.

    Parameters
    ----------
    requests, progress, **options
        As for :func:`run`. ``layer`` is a list; by default ``in-place`` and ``as-sold``, the layer of the drive's file, or all layers
        on a drive that is not sold. Lists in ``set`` are run in all combinations.

    Returns
    -------
    Outcomes
        The outcomes, in the order of the layers.

    Examples
    --------
    >>> import smrkit
    >>> runs = smrkit.compare(drive="tiny", layer=["rmw", "vguard"], set={"rmw.region_sectors": [256, 512]},
    ...                       workload="random-write:count=1k")
    >>> [(run.layer, run.parameters.get("region_sectors")) for run in runs]
    [('rmw', 256), ('rmw', 512), ('vguard', None)]
    """
    table = None if requests is None else _native.Requests(requests)
    with bar(progress) as on_progress:
        return Outcomes(_native.compare(pairs(options), table, on_progress)[0])


def nanoseconds(time: timedelta | None) -> int | None:
    """A time in nanoseconds, the simulator's unit."""
    return None if time is None else time // timedelta(microseconds=1) * 1000


@contextmanager
def bar(progress: Progress) -> Iterator[Callable[[float, str], object] | None]:
    """A context with the function that is called with the progress of a run, or ``None`` if none is to be called."""
    if progress is not True:
        yield progress or None
        return
    try:
        shown = import_module("tqdm.auto").tqdm(total=1.0, bar_format="{desc} {bar} {percentage:3.0f} % {elapsed}")
    except ImportError:
        shown = None
    if shown is None:
        yield None
        return

    def update(share: float, what: str) -> None:
        shown.set_description_str(what, refresh=False)
        shown.update(share - shown.n)

    with shown:
        yield update
