"""Outcomes of runs: mappings with the keys of ``outcome.json``, alone and side by side."""

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, overload

from smrkit import _native
from smrkit._plot import draw_timelines
from smrkit._record import Record, Recorded
from smrkit._table import Table, library


#: The most outcomes for which a notebook shows charts.
_MOST_CHARTED = 12


class _Presented:
    """Texts, pages and tables, which one outcome and several have in common."""

    @property
    def _presented(self) -> _native.Outcomes:
        """The native outcomes to present."""
        raise NotImplementedError

    def __str__(self) -> str:
        return self._presented.text()

    def _page(self) -> str:
        return self._presented.page()

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        """The tables; in a notebook the page with its charts. The page has a script and a style, so it is in a frame of its own."""
        text, page = self._notebook()
        # The attribute is in single quotes, because pages have many double quotes, which would make a notebook a quarter larger if escaped.
        page = page.replace("&", "&amp;").replace("'", "&#39;")
        return {"text/plain": text, "text/html": f"<iframe srcdoc='{page}' width='100%' height='700'></iframe>"}

    def _notebook(self) -> tuple[str, str]:
        """The text and the page that a notebook shows."""
        return str(self), self._page()

    def json(self, *, detail: str = "full") -> str:
        """The result file, as ``smrkit run --json`` writes it; ``detail`` is ``full`` or ``summary``."""
        return self._presented.json(detail == "summary")

    def report(self, path: str | os.PathLike[str]) -> None:
        """Writes the page that ``smrkit run --report`` writes."""
        with open(path, "w", encoding="utf-8") as file:
            file.write(self._page())

    def rows(self) -> list[dict[str, Any]]:
        """One flat row for each run."""
        raise NotImplementedError

    def to_polars(self) -> Any:
        """A ``polars.DataFrame`` with one row for each run."""
        return library("polars").DataFrame(self.rows(), infer_schema_length=None)

    def to_pandas(self) -> Any:
        """A ``pandas.DataFrame`` with one row for each run."""
        return library("pandas").DataFrame(self.rows())

    def to_arrow(self) -> Any:
        """A ``pyarrow.Table`` with one row for each run."""
        # A key that only some rows have is null in the others.
        keys = dict.fromkeys(key for row in self.rows() for key in row)
        return library("pyarrow").Table.from_pylist([{key: row.get(key) for key in keys} for row in self.rows()])


class Outcome(_Presented, Recorded):
    """The result of a run: a mapping with the keys of ``outcome.json``, which are attributes too.

    ``docs/reference/outcome.md`` explains every key.

    Examples
    --------
    >>> import smrkit
    >>> outcome = smrkit.run(drive="tiny", layer="vguard", workload="random-write:count=1k")
    >>> outcome.requests == outcome["requests"] == 1000
    True
    >>> outcome.latency_ns.all.p99 >= outcome.latency_ns.all.p50
    True
    >>> sorted(outcome.physical_written_sectors)
    ['clean', 'destage', 'host', 'map', 'total']
    """

    # Generated from the table of columns.
    #: The layer's name.
    layer: str
    #: The drive's name; `mixed` if the members of an array differ, as for `layer`.
    drive: str
    #: Path of the drive file; null for a drive that comes with smrkit.
    drive_file: str | None
    #: Canonical text of the [array](arrays.md#descriptions); null for a single drive.
    array: str | None
    #: Every parameter of the layer, including defaults; a parameter that was `auto` has the value that was chosen.
    #: Empty for an array whose members differ.
    parameters: Record
    #: Parameters that were `auto` and are a number in `parameters`.
    asked: Record
    #: Enlargement of the drive to more platters than its own, because the trace needs them ([`--capacity
    #: auto`](model.md#sizes)); null if there was none.
    scaled: Record | None
    #: [Arrivals and order](engine.md) of requests.
    engine: Record
    #: State of the disk when counting began.
    state: Record
    #: The seed of everything random.
    seed: int
    #: Further values that `smrkit run --repeat` needs to repeat the run.
    run: Record
    #: smrkit's version.
    version: str
    #: The commit from which smrkit was built, with `-changed` if the simulator's sources differed; null if unknown.
    commit: str | None
    #: The trace's path as given; null for a workload.
    trace: str | None
    #: The SHA-256 of the trace file as stored, compressed or not; of several CPUs' blktrace files, of their merged
    #: records.
    trace_sha256: str | None
    #: The trace's format, as recognised or forced ([formats](trace-formats.md)).
    trace_format: str | None
    #: How the trace was read; null for a workload.
    trace_reading: Record | None
    #: The workload's [canonical text](workloads.md); null for a trace.
    workload: str | None
    #: Disk size that the workload assumed: the smallest capacity that a compared layer offers, or `--span`; null for a
    #: trace.
    workload_sectors: int | None
    #: The merged sources in the order of their numbers, traces first; absent for a single source.
    sources: list[Record]
    #: How the sources were [merged](workloads.md#several-sources); absent for a single source.
    interleave: str
    #: [Edits](command-line.md#edits) of the requests; absent if there were none.
    edit: str
    #: Rows of the trace that needed attention.
    trace_notes: Record
    #: Number of runs that were merged into this record; absent for a single run.
    merged_runs: int
    #: True if a signal ended the run.
    interrupted: bool
    #: Requests completed and counted.
    requests: int
    #: Sectors read by the host.
    host_read_sectors: int
    #: Sectors written by the host.
    host_written_sectors: int
    #: Sectors read from the platters, by cause.
    physical_read_sectors: Record
    #: Sectors written to the platters, by cause.
    physical_written_sectors: Record
    #: The time that the drive was busy, by cause.
    busy_by_cause_ns: Record
    #: Number of commands of any length. For an array, host commands are those to the array, and physical commands those
    #: of its drives.
    commands: Record
    #: Commands as Cassuto 2010 counts them: one of n sectors counts floor(n / 1000) + 1.
    adjusted: Record
    #: Cassuto's definition 4: (physical writes + physical reads − host reads) / host writes, counting commands as in
    #: `adjusted`.
    write_overloading: float | None
    #: Physical / host sectors written; null after a rebuild, because its writes are not the host's.
    write_amplification: float | None
    #: Elapsed time / elapsed time of `in-place` on the same requests. If `in-place` was not asked for, it is run
    #: without being listed. If the numbers of requests differ, times per request are compared.
    slowdown: float | None
    #: Bytes read and written by the host per second of `elapsed_ns`.
    host_bytes_per_s: float | None
    #: How certain the run's own values are ([confidence intervals](#confidence-intervals)); absent for a member of an
    #: array, for merged runs and in a summary.
    confidence: Record
    #: Latency from arrival to completion.
    latency_ns: Record
    #: Sum of the times that requests waited, including waits for cleaning; written as text from 2^64 on.
    wait_ns: int
    #: Sum of service times; `wait_ns` + `service_ns` is the sum of latencies.
    service_ns: int
    #: Total time of accesses to the platters. An access that a write cache began before the last completion counts in
    #: full.
    busy_ns: int
    #: Time, in addition to `busy_ns`, in which the drive wrote from its own buffer while no access was made; absent if
    #: the drive has no such buffer.
    buffer_write_ns: int
    #: Time from the beginning of counting (the start, or the end of prefill and warm-up) to the last completion.
    elapsed_ns: int
    #: Time from the beginning of counting to the last arrival.
    arrivals_ns: int
    #: Memory that the layer's maps take at the end.
    map_bytes: int
    #: Uninterrupted stretches of destaging and cleaning.
    cleaning: Record
    #: How the platters' sectors are used; the last four keys add up to `raw_sectors`. For an array, `host_sectors` is
    #: what the array offers, so copies, parity and unused remainders are missing from the sum.
    capacity: Record
    #: Values over time, in equal windows from the beginning of counting.
    timeline: Record
    #: Sectors written to each slice of the PBA range, by cause (the disk in slices of equal size); empty for an array.
    surface: Record
    #: Distribution of latencies in steps of at most 3 %.
    latency_histogram: Record
    #: Distribution of latencies in the fine buckets from which percentiles are computed, for merges; empty in a
    #: summary.
    latency_buckets: Record
    #: Counts of each merged source, in the order of `sources`; absent for a single source.
    by_source: list[Record]
    #: Movement of the head, with `--movement` and for arrays; else absent.
    movement: Record
    #: Garbage collection of a file system on zones ([`zone-log`](layers/zone-log.md)); absent for other layers.
    garbage_collection: Record
    #: The layer's own counters ([its page](layers.md)).
    layer_stats: Record
    #: The power cut, and what was found after it; null without a power cut, or if the run ended before it.
    power_cut: Record | None
    #: The verdict that a run prints first, and the values behind it.
    verdict: Record
    #: For an array, the same record for each drive; absent for a single drive. There the host is the array: `requests`
    #: are the commands that it sent to the drive, and `latency_ns` and `verdict` are about these commands. Keys that
    #: only a comparison sets are null.
    members: list[Record]
    #: The [rebuild, resilver or scrub](arrays.md#rebuild-resilver-scrub) of an array; absent without one, or if the run
    #: ended before it was complete.
    rebuild: Record
    # End of the columns.

    #: Latency and times of each request, with ``latencies=True``.
    latencies: Table | None
    #: Each physical access, with ``accesses=True``.
    accesses: Table | None

    def __init__(
        self, native: _native.Outcomes, at: int = 0, latencies: Table | None = None, accesses: Table | None = None
    ) -> None:
        self._native = native
        self._at = at
        self.latencies = latencies
        self.accesses = accesses

    def _json(self) -> str:
        return self._native.record(self._at)

    def __repr__(self) -> str:
        return f"<Outcome of {self.layer} on {self.array or self.drive}: {self.requests} requests>"

    @property
    def _presented(self) -> _native.Outcomes:
        return self._native.only(self._at)

    def plot(self, key: str = "longest_ns", ax: Any = None) -> Any:
        """Draws a key of ``timeline`` over time with matplotlib. Returns the axes."""
        return draw_timelines([self], key, ax)

    def row(self) -> dict[str, Any]:
        """The outcome as one flat row: numbers and texts by dotted keys, without lists and distributions."""
        return dict(_flat(json.loads(self._json()), ""))

    def rows(self) -> list[dict[str, Any]]:
        """A list of the one row, as :meth:`Outcomes.rows` has one for each run."""
        return [self.row()]


def _flat(record: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for key, value in record.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.")
        elif not isinstance(value, list):
            yield prefix + key, value


class Outcomes(_Presented, Sequence[Outcome]):
    """The outcomes of several runs, such as those of a comparison.

    Examples
    --------
    >>> import smrkit
    >>> both = smrkit.compare(drive="tiny", layer=["drive-managed", "vguard"], workload="random-write:count=1k")
    >>> [outcome.layer for outcome in both]
    ['drive-managed', 'vguard']
    >>> [len(row) > 50 for row in both.rows()]
    [True, True]
    """

    #: The title of a page.
    _name = "runs"

    def __init__(self, native: _native.Outcomes) -> None:
        self._native = native
        # Outcomes that were asked for, by their index.
        self._outcomes: dict[int, Outcome] = {}

    def __len__(self) -> int:
        return len(self._native)

    @overload
    def __getitem__(self, at: int) -> Outcome: ...
    @overload
    def __getitem__(self, at: slice) -> list[Outcome]: ...
    def __getitem__(self, at: int | slice) -> Outcome | list[Outcome]:
        if isinstance(at, slice):
            return [self[index] for index in range(*at.indices(len(self)))]
        at = at + len(self) if at < 0 else at
        if not 0 <= at < len(self):
            raise IndexError(f"there are {len(self)} outcomes")
        return self._outcomes.setdefault(at, Outcome(self._native, at))

    def __repr__(self) -> str:
        return f"<{len(self)} outcomes: {', '.join(dict.fromkeys(outcome.layer for outcome in self))}>"

    @property
    def _presented(self) -> _native.Outcomes:
        return self._native

    def _notebook(self) -> tuple[str, str]:
        # Charts of hundreds of runs can't be read, and make a notebook megabytes large. A sweep's table shows them all.
        if len(self) <= _MOST_CHARTED:
            return super()._notebook()
        return _native.sweep_text(self._native), _native.sweep_page(self._name, self._native)

    def plot(self, key: str = "longest_ns", ax: Any = None) -> Any:
        """Draws a key of ``timeline`` over time with matplotlib, with one line for each run. Returns the axes."""
        return draw_timelines(self, key, ax)

    def rows(self) -> list[dict[str, Any]]:
        """One flat row for each run (:meth:`Outcome.row`)."""
        return [outcome.row() for outcome in self]

    def intervals(self, *keys: str) -> list[dict[str, Any]]:
        """One row for runs that differ in their seed alone: their number ``n``, and of each key the mean and the ends of its 95 % confidence
        interval. It is that over the seeds; of one run, such as a replay, that of its own requests (``confidence``). Without keys, those that
        a table of a sweep shows.

        Examples
        --------
        >>> import smrkit
        >>> load = {"drive": "tiny", "layer": ["drive-managed", "vguard"], "workload": "mix:count=200"}
        >>> _ = smrkit.sweep(store="seeds", repeat=3, **load)
        >>> [(row["layer"], row["n"], row["slowdown.low"] < row["slowdown.high"]) for row in smrkit.results("seeds").intervals("slowdown")]
        [('drive-managed', 3, True), ('vguard', 3, True)]
        """
        return self._statistics(keys, None)

    def paired(self, key: str, first: str | float, second: str | float, *keys: str) -> list[dict[str, Any]]:
        """Compares runs whose ``key`` is ``second`` with runs whose ``key`` is ``first``, in pairs of the same requests and the same seed.
        A row has the number of pairs ``n``, the geometric mean of ``ratio`` (second / first), the mean ``difference``, and the ends of the
        95 % confidence interval of each. A single pair has no intervals. A replay has a single pair, because it does not depend on a seed.

        Examples
        --------
        >>> import smrkit
        >>> load = {"drive": "tiny", "layer": ["drive-managed", "vguard"], "workload": "mix:count=200"}
        >>> _ = smrkit.sweep(store="seeds", repeat=3, **load)
        >>> (row,) = smrkit.results("seeds").paired("layer", "drive-managed", "vguard", "slowdown")
        >>> row["n"], row["ratio.low"] < row["ratio"] < row["ratio.high"]
        (3, True)
        """
        return self._statistics(keys, (key, f"{first},{second}"))

    def _statistics(self, keys: Sequence[str], compare: tuple[str, str] | None) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = json.loads(_native.statistics(self._native, keys, compare))
        return rows


def read(path: str | os.PathLike[str]) -> Outcomes:
    """Reads the result file that ``smrkit run --json`` or :meth:`Outcomes.json` wrote.

    Examples
    --------
    >>> import pathlib, smrkit
    >>> outcome = smrkit.run(drive="tiny", layer="vguard", workload="random-write:count=100")
    >>> _ = pathlib.Path("outcome.json").write_text(outcome.json())
    >>> smrkit.read("outcome.json")[0] == outcome
    True
    """
    with open(path, encoding="utf-8") as file:
        return Outcomes(_native.Outcomes.parse(file.read(), os.fspath(path)))


def merge(outcomes: Iterable[Outcome]) -> Outcome:
    """Merges outcomes of runs with the same system and settings, as if one run had served all their requests.

    Percentiles, counts, sums and maxima are exact. Values that can't be merged are null.

    Examples
    --------
    >>> import smrkit
    >>> seeds = [smrkit.run(drive="tiny", layer="vguard", workload="random-write:count=100", seed=s) for s in range(3)]
    >>> smrkit.merge(seeds).requests
    300
    """
    parts = [outcome._native.only(outcome._at) for outcome in outcomes]
    return Outcome(_native.Outcomes.joined(parts).merged())
