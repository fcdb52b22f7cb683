"""Traces and workloads: their requests as tables, and statistics."""

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
    with bar(progress) as on_progress:
        text = _native.trace_info(os.fspath(path), format, skip_bad_rows, on_progress)
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
    """Reads the requests of a trace, at the LBAs where a run would issue them: all volumes laid end to end, or one volume.

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
    with bar(progress) as on_progress:
        return Table(_native.trace_read(pairs(options), on_progress))


def write(requests: Any, path: str | os.PathLike[str]) -> None:
    """Writes a table of requests as a Parquet trace, which runs, sweeps and the command can read.

    Parameters
    ----------
    requests
        A table as :func:`smrkit.run` takes it.
    path
        The file, whose name ends in ``.parquet``.

    Examples
    --------
    >>> import smrkit
    >>> smrkit.trace.write({"op": ["write", "read"], "lba": [0, 8], "sectors": [8, 8], "time_ms": [0, 1]}, "two.parquet")
    >>> smrkit.trace.read("two.parquet")
    <2 rows: time_ns, op, lba, sectors, volume>
    """
    _native.trace_write(_native.Requests(requests), os.fspath(path))


def generate(workload: str, *, capacity: int, seed: int = 1) -> Table:
    """Generates the requests of a workload for a disk of ``capacity`` bytes, as a table like that of :func:`read`.

    Examples
    --------
    >>> import smrkit
    >>> smrkit.trace.generate("random-write:count=1k", capacity=10**9)
    <1000 rows: time_ns, op, lba, sectors, volume>
    """
    return Table(_native.trace_generate(workload, capacity, seed))
