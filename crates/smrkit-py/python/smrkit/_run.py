"""Runs and comparisons."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import timedelta
from importlib import import_module
from os import PathLike
from typing import Any, TypeAlias, Unpack

from smrkit import _native
from smrkit._options import Options, pairs
from smrkit._outcome import Outcome, Outcomes
from smrkit._table import Table

#: Called with the share that is done (0 to 1) and what is being done; ``True`` shows a bar where tqdm is installed.
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
        Whether to run a conventional disk too. Without it the run takes less time, and what it is compared by is ``None``.
    until
        The drive's time at which the run ends, if its requests don't end before.
    window
        The length of the timeline's windows; unless given, it doubles as the run grows.
    used_sectors
        How many sectors of each member of the array are used at most.
    save_state
        A file for the state of drive and layer at the end, which ``from_state`` begins another run with.
    progress
        A function that is called with the share done and what is being done, or ``True`` for a bar.
    **options
        The options of the command, by their names (:class:`smrkit.Options`); ``set`` is a dict of parameters.

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
    native, *kept = _compare(
        requests,
        progress,
        options,
        single=True,
        latencies=latencies,
        accesses=accesses,
        baseline=baseline,
        until=until,
        window=window,
        used_sectors=used_sectors,
        save_state=save_state,
    )
    tables = [None if rows is None else Table(rows) for rows in kept]
    return Outcome(native, 0, *tables)


def compare(*, requests: Any = None, progress: Progress = False, **options: Unpack[Options]) -> Outcomes:
    """Replays the same requests on several layers or with several values of their parameters.

    Parameters
    ----------
    requests, progress, **options
        As for :func:`run`; ``layer`` is a list (unless given, ``in-place`` and ``as-sold``, the layer of the drive's file, or all
        layers on a drive that is not sold), and lists in ``set`` multiply into runs.

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
    return Outcomes(_compare(requests, progress, options)[0])


def nanoseconds(time: timedelta | None) -> int | None:
    """A time in the simulator's unit."""
    return None if time is None else time // timedelta(microseconds=1) * 1000


def _compare(
    requests: Any,
    progress: Progress,
    options: Mapping[str, Any],
    *,
    single: bool = False,
    latencies: bool = False,
    accesses: bool = False,
    baseline: bool = True,
    until: timedelta | None = None,
    window: timedelta | None = None,
    used_sectors: Sequence[int] | None = None,
    save_state: str | PathLike[str] | None = None,
) -> tuple[_native.Outcomes, _native.Rows | None, _native.Rows | None]:
    table = None if requests is None else _native.Requests(requests)
    with bar(progress) as said:
        times = nanoseconds(until), nanoseconds(window)
        return _native.compare(pairs(options), table, single, latencies, accesses, baseline, *times, used_sectors, save_state, said)


def bar(progress: Progress) -> AbstractContextManager[Callable[[float, str], object] | None]:
    """A context with the function that is called with the progress of a run."""
    if progress is True:
        return _Bar()
    return nullcontext(progress or None)


class _Bar:
    """A context with a bar of tqdm, or ``None`` if that is not installed."""

    _bar: Any = None

    def __enter__(self) -> Callable[[float, str], object] | None:
        try:
            self._bar = import_module("tqdm.auto").tqdm(total=1.0, bar_format="{desc} {bar} {percentage:3.0f} % {elapsed}")
        except ImportError:
            return None
        return self._say

    def _say(self, share: float, what: str) -> None:
        self._bar.set_description_str(what, refresh=False)
        self._bar.update(share - self._bar.n)

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.close()
