"""Sweeps, whose results are kept in a store."""

import json
import os
from collections.abc import Mapping
from hashlib import file_digest
from pathlib import PurePath
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, Unpack

from smrkit import _native
from smrkit._arguments import Path, SweepOptions
from smrkit._errors import UsageError
from smrkit._executor import distribute
from smrkit._layer import hash_again
from smrkit._options import text
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
    """Runs every combination of lists of options, and keeps the results in a store. Runs that the store has are not computed again.

    Parameters
    ----------
    file
        A sweep's file, as for ``smrkit sweep``. Without it, the options are given here.
    store
        The folder of results. Several sweeps may share it.
    name
        The sweep's name in the store. By default it is the name of its file, or ``sweep``.
    repeat
        The number of seeds.
    requests
        A table of requests as :func:`smrkit.run` takes it, or a list of tables. They are written into the store as traces, so that workers
        can read them.
    executor
        Where runs are computed: ``"threads"`` of this process, ``"processes"``, a client of Dask or the address of its scheduler, or any
        executor of ``concurrent.futures``. Its workers must see the same files and have this version of smrkit. A worker that dies loses
        only the runs that it was computing.
    **options
        The options of :func:`smrkit.run` (:class:`smrkit.SweepOptions`), each a value or a list. Layers and the values of ``set`` are compared
        with each other; every other list multiplies the number of comparisons.

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
            given["trace"] = [_stored_trace(table, store) for table in (requests if isinstance(requests, list | tuple) else [requests])]
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
            # Workers may have another working directory.
            distribute(missing, os.path.abspath(store), executor, on_progress)
        plan.end()
        computed = sum(runs for _, runs in missing)
        return Swept(computed, plan.runs() - computed)


def _stored_trace(requests: Any, store: Path) -> str:
    """Writes requests as a trace into a store, named by the hash of its contents, and returns its path."""
    folder = os.path.join(os.path.abspath(store), "requests")
    os.makedirs(folder, exist_ok=True)
    # Written aside first, because other sweeps may share the store.
    with TemporaryDirectory(dir=folder) as aside:
        written = os.path.join(aside, "written.parquet")
        write(requests, written)
        with open(written, "rb") as file:
            path = os.path.join(folder, f"{file_digest(file, 'sha256').hexdigest()[:16]}.parquet")
        os.replace(written, path)
    return path


def _plain(value: Any) -> Any:
    """Converts a value to what JSON has."""
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
    """Reads the outcomes in a store, of one of its sweeps or of all."""
    return Results(_native.results(os.fspath(store), sweep), sweep or PurePath(store).stem)
