"""Many runs into a store."""

import json
import os
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any, NamedTuple

from smrkit import _native
from smrkit._errors import UsageError
from smrkit._executor import distribute
from smrkit._arguments import Path
from smrkit._options import text
from smrkit._outcome import Outcomes
from smrkit._run import Progress, bar


class Swept(NamedTuple):
    """What a sweep took."""

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
    executor: Any = "threads",
    progress: Progress = False,
    **options: Any,
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
    executor
        What computes: ``"threads"`` of this process, ``"processes"``, a client of Dask or the address of its scheduler, or any
        executor of ``concurrent.futures`` whose workers see the same files and have this version of smrkit. A worker that dies loses
        nothing but what it was at.
    **options
        The options of :func:`smrkit.run`, each a value or a list; layers and the values of ``set`` are compared with each other, every
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
        asked = json.dumps(_plain(options) | ({} if repeat is None else {"repeat": repeat}))
    elif options or repeat is not None:
        raise UsageError("a sweep is a file or options: write them into the file")
    path = None if file is None else os.fspath(file)
    name = name or ("sweep" if path is None else PurePath(path).stem)
    with bar(progress) as said:
        if executor in (None, "threads"):
            return Swept(*_native.sweep(name, asked, path, os.fspath(store), said))
        plan = _native.SweepPlan(name, asked, path, os.fspath(store))
        missing = plan.missing()
        if missing:
            # Workers may stand in another folder.
            distribute(missing, os.path.abspath(store), executor, said)
        plan.end()
        computed = sum(runs for _, runs in missing)
        return Swept(computed, plan.runs() - computed)


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
