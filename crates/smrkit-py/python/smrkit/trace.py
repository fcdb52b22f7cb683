"""Traces: their requests as a table, and their statistics."""

import json
import os
from typing import Any

from smrkit import _native
from smrkit._options import pairs
from smrkit._record import Record
from smrkit._run import Progress, bar
from smrkit._table import Table

__all__ = ["generate", "info", "read", "write"]


def info(
    path: str | os.PathLike[str], *, format: str | None = None, skip_bad_rows: bool = False, progress: Progress = False
) -> Record:
    """Statistics of a trace, with the keys of ``smrkit trace info --json``.

    Examples
    --------
    >>> import pathlib, smrkit
    >>> _ = pathlib.Path("two.csv").write_text("0,Write,0,4096\\n1000,Read,8192,4096\\n")
    >>> smrkit.trace.info("two.csv", format="csv:time=0:us,op=1,offset=2:bytes,size=3:bytes").requests
    2
    """
    with bar(progress) as said:
        text = _native.trace_info(os.fspath(path), format, skip_bad_rows, said)
    record: Record = json.loads(text, object_hook=Record)
    return record


def read(
    path: str | os.PathLike[str],
    *,
    volume: int | str = "all",
    format: str | None = None,
    skip_bad_rows: bool = False,
    progress: Progress = False,
) -> Table:
    """The requests of a trace as a run would see them: its volumes laid end to end, or one of them.

    Returns
    -------
    Table
        The columns ``time_ns``, ``op``, ``lba``, ``sectors`` and ``volume``; :func:`smrkit.run` takes it as ``requests``.

    Examples
    --------
    >>> import pathlib, smrkit
    >>> _ = pathlib.Path("two.csv").write_text("0,Write,0,4096\\n1000,Read,8192,4096\\n")
    >>> table = smrkit.trace.read("two.csv", format="csv:time=0:us,op=1,offset=2:bytes,size=3:bytes")
    >>> table
    <2 rows: time_ns, op, lba, sectors, volume>
    >>> smrkit.run(requests=table, drive="tiny", layer="vguard").requests
    2
    """
    options: dict[str, Any] = {"trace": path, "volume": volume, "format": format, "skip_bad_rows": skip_bad_rows}
    with bar(progress) as said:
        return Table(_native.trace_read(pairs(options), said))


def write(requests: Any, path: str | os.PathLike[str]) -> None:
    """Writes a table of requests as a trace in Parquet, which runs, sweeps and the command read.

    Parameters
    ----------
    requests
        A table as :func:`smrkit.run` takes it; its times become nanoseconds, its operations numbers.
    path
        The file, which ends in ``.parquet``.

    Examples
    --------
    >>> import smrkit
    >>> smrkit.trace.write({"op": ["write", "read"], "lba": [0, 8], "sectors": [8, 8], "time_ms": [0, 1]}, "two.parquet")
    >>> smrkit.trace.read("two.parquet")
    <2 rows: time_ns, op, lba, sectors, volume>
    """
    _native.trace_write(_native.Requests(requests), os.fspath(path))


def generate(workload: str, *, capacity: int, seed: int = 1) -> Table:
    """The requests that a workload offers to a disk of ``capacity`` bytes, as :func:`read` gives those of a trace.

    Examples
    --------
    >>> import smrkit
    >>> smrkit.trace.generate("random-write:count=1k", capacity=10**9)
    <1000 rows: time_ns, op, lba, sectors, volume>
    """
    return Table(_native.trace_generate(workload, capacity, seed))
