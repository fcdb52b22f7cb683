"""Outcomes of runs: mappings with the keys of ``outcome.json``, alone and side by side."""

import html
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any, overload

from smrkit import _native
from smrkit._plot import courses
from smrkit._record import Record, Recorded
from smrkit._table import Table


class _Shown:
    """What one outcome and several have in common: how they are shown and handed on."""

    @property
    def _shown(self) -> _native.Outcomes:
        """What is shown."""
        raise NotImplementedError

    def __str__(self) -> str:
        return self._shown.text()

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        """The tables and the page's figures, without a library for plots."""
        text = self._shown.text()
        figures = "".join(f"<div>{svg}</div>" for svg in self.figures().values())
        return {"text/plain": text, "text/html": f"<pre>{html.escape(text)}</pre>{figures}"}

    def json(self, *, detail: str = "full") -> str:
        """The result file, as ``smrkit run --json`` writes it; ``detail`` is ``full`` or ``summary``."""
        return self._shown.json(detail == "summary")

    def report(self, path: str | os.PathLike[str]) -> None:
        """Writes the page that ``smrkit run --report`` writes."""
        with open(path, "w", encoding="utf-8") as file:
            file.write(self._shown.page())

    def figures(self) -> dict[str, str]:
        """The figures as SVG, by their names."""
        return dict(self._shown.figures())

    def rows(self) -> list[dict[str, Any]]:
        """One flat row a run."""
        raise NotImplementedError

    def to_polars(self) -> Any:
        """One row a run, as a ``polars.DataFrame``."""
        return import_module("polars").DataFrame(self.rows(), infer_schema_length=None)

    def to_pandas(self) -> Any:
        """One row a run, as a ``pandas.DataFrame``."""
        return import_module("pandas").DataFrame(self.rows())

    def to_arrow(self) -> Any:
        """One row a run, as a ``pyarrow.Table``."""
        keys = dict.fromkeys(key for row in self.rows() for key in row)
        return import_module("pyarrow").Table.from_pylist([{key: row.get(key) for key in keys} for row in self.rows()])


class Outcome(_Shown, Recorded):
    """What a run gave: a mapping with the keys of ``outcome.json``, which are attributes too.

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

    layer: str
    drive: str
    drive_file: str | None
    array: str | None
    parameters: Record
    asked: Record
    scaled: Record | None
    engine: Record
    state: Record
    seed: int
    run: Record
    version: str
    commit: str | None
    trace: str | None
    trace_sha256: str | None
    trace_format: str | None
    trace_reading: Record | None
    workload: str | None
    workload_sectors: int | None
    trace_notes: Record
    #: Of a merge alone.
    merged_runs: int
    #: Of a merge alone.
    merged_verdicts: Record
    interrupted: bool
    requests: int
    host_read_sectors: int
    host_written_sectors: int
    physical_read_sectors: Record
    physical_written_sectors: Record
    busy_by_cause_ns: Record
    commands: Record
    adjusted: Record
    write_overloading: float | None
    write_amplification: float | None
    slowdown: float | None
    latency_ns: Record
    wait_ns: int
    service_ns: int
    busy_ns: int
    #: Of drives with a buffer alone.
    buffer_write_ns: int
    elapsed_ns: int
    arrivals_ns: int
    map_bytes: int
    cleaning: Record
    capacity: Record
    timeline: Record
    surface: Record
    latency_histogram: Record
    latency_buckets: Record
    layer_stats: Record
    power_cut: Record | None
    verdict: Record

    #: Latency and times of each request, where ``latencies=True`` asked for them.
    latencies: Table | None
    #: Each physical access, where ``accesses=True`` asked for them.
    accesses: Table | None

    def __init__(
        self, native: _native.Outcomes, at: int = 0, latencies: Table | None = None, accesses: Table | None = None
    ) -> None:
        self._native = native
        self._at = at
        self.latencies = latencies
        self.accesses = accesses

    def _written(self) -> str:
        return self._native.record(self._at)

    def __repr__(self) -> str:
        return f"<Outcome of {self.layer} on {self.array or self.drive}: {self.requests} requests>"

    @property
    def _shown(self) -> _native.Outcomes:
        return self._native.only(self._at)

    def plot(self, key: str = "longest_ns", ax: Any = None) -> Any:
        """Draws the course of the run with matplotlib: a key of ``timeline``; the axes are returned."""
        return courses([self], key, ax)

    def row(self) -> dict[str, Any]:
        """The outcome as one flat row: numbers and texts by their dotted keys; lists and distributions are left out."""
        return dict(_flat(json.loads(self._written()), ""))

    def rows(self) -> list[dict[str, Any]]:
        """The row alone, as :meth:`Outcomes.rows` has one a run."""
        return [self.row()]


def _flat(record: Mapping[str, Any], before: str) -> Iterator[tuple[str, Any]]:
    for key, value in record.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{before}{key}.")
        elif not isinstance(value, list):
            yield before + key, value


class Outcomes(_Shown, Sequence[Outcome]):
    """Outcomes side by side, as a comparison gives them.

    Examples
    --------
    >>> import smrkit
    >>> both = smrkit.compare(drive="tiny", layer=["drive-managed", "vguard"], workload="random-write:count=1k")
    >>> [outcome.layer for outcome in both]
    ['drive-managed', 'vguard']
    >>> [len(row) > 50 for row in both.rows()]
    [True, True]
    """

    def __init__(self, native: _native.Outcomes) -> None:
        self._native = native
        self._each: dict[int, Outcome] = {}

    def __len__(self) -> int:
        return len(self._native)

    @overload
    def __getitem__(self, at: int) -> Outcome: ...
    @overload
    def __getitem__(self, at: slice) -> list[Outcome]: ...
    def __getitem__(self, at: int | slice) -> Outcome | list[Outcome]:
        if isinstance(at, slice):
            return [self[one] for one in range(*at.indices(len(self)))]
        at = at + len(self) if at < 0 else at
        if not 0 <= at < len(self):
            raise IndexError(f"there are {len(self)} outcomes")
        return self._each.setdefault(at, Outcome(self._native, at))

    def __repr__(self) -> str:
        return f"<{len(self)} outcomes: {', '.join(outcome.layer for outcome in self)}>"

    @property
    def _shown(self) -> _native.Outcomes:
        return self._native

    def plot(self, key: str = "longest_ns", ax: Any = None) -> Any:
        """Draws the courses of the runs with matplotlib, one line each: a key of ``timeline``; the axes are returned."""
        return courses(self, key, ax)

    def rows(self) -> list[dict[str, Any]]:
        """One flat row a run (:meth:`Outcome.row`)."""
        return [outcome.row() for outcome in self]


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
    """Merges outcomes of runs with the same system and settings into what one run over all requests would have given.

    Percentiles, counts, sums and maxima are exact; what can't be summed is null.

    Examples
    --------
    >>> import smrkit
    >>> seeds = [smrkit.run(drive="tiny", layer="vguard", workload="random-write:count=100", seed=s) for s in range(3)]
    >>> smrkit.merge(seeds).requests
    300
    """
    parts = [outcome._native.only(outcome._at) for outcome in outcomes]
    return Outcome(_native.Outcomes.joined(parts).merged())
