"""Many runs into a store."""

import json
import os
from collections.abc import Mapping
from hashlib import file_digest
from pathlib import PurePath
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, Unpack

from smrkit import _native
from smrkit._errors import UsageError
from smrkit._executor import distribute
from smrkit._layer import hash_again
from smrkit._arguments import Path
from smrkit._options import SweepOptions, text
from smrkit._outcome import Outcomes
from smrkit._run import Progress, bar
from smrkit.trace import write


class Swept(NamedTuple):
    """The result of a sweep."""

    #: Runs that were computed.
    computed: int
    #: Runs that the store had.
    found: int


def sweep(
    file: Path | None = None,
    *,
    store: Path,
    name: str | None = None,
    repeat: int | None = None,
    requests: Any = None,
    executor: Any = "threads",
    progress: Progress = False,
    **options: Unpack[SweepOptions],
) -> Swept:
    """Runs every combination of lists of options, and keeps each comparison in a store; what is there is not computed again.

    Parameters
    ----------
    file
        A sweep's file, as ``smrkit sweep`` takes it; or give the options here.
    store
        The folder of results; several sweeps may share it.
    name
        What the sweep is called in the store: ``sweep``, or as its file.
    repeat
        How many seeds to run.
    requests
        A table of requests as :func:`smrkit.run` takes it, or a list of tables. They are kept in the store, as traces for workers to
        read, in a folder of their own.
    executor
        What computes: ``"threads"`` of this process, ``"processes"``, a client of Dask or the address of its scheduler, or any
        executor of ``concurrent.futures`` whose workers see the same files and have this version of smrkit. A worker that dies loses
        nothing but what it was at.
    **options
        The options of :func:`smrkit.run` (:class:`smrkit.SweepOptions`), each a value or a list; layers and the values of ``set`` are compared with each other, every
        other list multiplies the comparisons.

    Examples
    --------
    >>> import smrkit
    >>> options = {"drive": "tiny", "layer": ["drive-managed", "vguard"], "workload": "mix:count=200", "depth": [1, 8], "repeat": 2}
    >>> smrkit.sweep(store="results", **options)
    Swept(computed=8, found=0)
    >>> smrkit.sweep(store="results", **options)
    Swept(computed=0, found=8)
    >>> len(smrkit.results("results"))
    8
    """
    asked = None
    if file is None:
        given = {"repeat": repeat, "trace": options.get("trace")}
        if requests is not None:
            if given["trace"] is not None:
                raise UsageError("requests and trace both say what is replayed: leave one out, or write the requests into a trace")
            given["trace"] = [_kept(table, store) for table in (requests if isinstance(requests, list | tuple) else [requests])]
        asked = json.dumps(_plain({**options, **given}))
    elif options or repeat is not None or requests is not None:
        raise UsageError("a sweep is a file or options: write them into the file")
    path = None if file is None else os.fspath(file)
    hash_again()
    name = name or ("sweep" if path is None else PurePath(path).stem)
    with bar(progress) as on_progress:
        if executor in (None, "threads"):
            return Swept(*_native.sweep(name, asked, path, os.fspath(store), on_progress))
        plan = _native.SweepPlan(name, asked, path, os.fspath(store))
        missing = plan.missing()
        if missing:
            # Workers may stand in another folder.
            distribute(missing, os.path.abspath(store), executor, on_progress)
        plan.end()
        computed = sum(runs for _, runs in missing)
        return Swept(computed, plan.runs() - computed)


def _kept(requests: Any, store: Path) -> str:
    """The path of the trace in a store that has these requests, by the hash of what it holds."""
    folder = os.path.join(os.path.abspath(store), "requests")
    os.makedirs(folder, exist_ok=True)
    with TemporaryDirectory(dir=folder) as own:
        written = os.path.join(own, "written.parquet")
        write(requests, written)
        with open(written, "rb") as file:
            path = os.path.join(folder, f"{file_digest(file, 'sha256').hexdigest()[:16]}.parquet")
        os.replace(written, path)
    return path


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items() if each is not None}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return value if isinstance(value, bool | int | float) else text(value)


class Results(Outcomes):
    """Outcomes of sweeps, whose text and page are tables of all runs."""

    def __init__(self, native: _native.Outcomes, name: str) -> None:
        super().__init__(native)
        self._name = name

    def __str__(self) -> str:
        return _native.sweep_text(self._native)

    def _page(self) -> str:
        return _native.sweep_page(self._name, self._native)


def results(store: Path, sweep: str | None = None) -> Results:
    """The outcomes in a store, of all its sweeps or of one."""
    return Results(_native.results(os.fspath(store), sweep), sweep or PurePath(store).stem)
