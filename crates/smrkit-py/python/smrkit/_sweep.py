"""Many runs into a store."""

import json
import os
from collections.abc import Mapping
from typing import Any, NamedTuple

from smrkit import _native
from smrkit._options import Path, text
from smrkit._outcome import Outcomes
from smrkit._run import Progress, bar


class Swept(NamedTuple):
    """What a sweep took."""

    #: Runs that were computed.
    computed: int
    #: Runs that the store had.
    found: int


def sweep(
    file: Path | None = None, *, store: Path, name: str = "sweep", repeat: int | None = None, progress: Progress = False, **options: Any
) -> Swept:
    """Runs every combination of lists of options, and keeps each comparison in a store; what is there is not computed again.

    Parameters
    ----------
    file
        A sweep's file, as ``smrkit sweep`` takes it; or give the options here.
    store
        The folder of results; several sweeps may share it.
    name
        What the sweep is called in the store.
    repeat
        How many seeds to run.
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
    with bar(progress) as said:
        return Swept(*_native.sweep(name, asked, None if file is None else os.fspath(file), os.fspath(store), said))


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items() if each is not None}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return value if isinstance(value, bool | int | float) else text(value)


def results(store: Path, sweep: str | None = None) -> Outcomes:
    """The outcomes in a store, of all its sweeps or of one."""
    return Outcomes(_native.results(os.fspath(store), sweep))
