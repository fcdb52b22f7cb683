"""Advice: how a drive or an array serves a load, and which changes would help."""

import os
from typing import Any, Unpack

from smrkit import _native
from smrkit._arguments import AdviseOptions
from smrkit._options import pairs
from smrkit._record import Answer, Record
from smrkit._run import Progress, bar


class Advice(Answer[_native.Advice]):
    """The answer of :func:`advise`: a mapping with the keys of the command's ``--json``, which are attributes too.

    ``print`` shows its sentences and tables; ``docs/reference/advise.md`` explains every key.
    """

    schema: int
    answer: str
    verdict: str
    text: str
    actions: list[Record]
    use: str | None
    note: str | None
    need: Record
    problems: Record
    range: Record | None
    budget: Record | None
    present: list[Record]
    hardest: int
    ends: list[Record]
    remedies: list[Record]
    complete: bool
    system: Record
    demand: Record
    rebuild: str | None
    whole_disk_bytes: int | None
    whole_bytes: float | None
    engine: Record
    state: Record
    scaled: Record | None
    seed: int
    version: str
    commit: str | None

    def __repr__(self) -> str:
        system = self.system
        return f"<Advice on {system.layer} on {system.array or system.drive}: {len(self.remedies)} changes tried>"

    def report(self, path: str | os.PathLike[str]) -> None:
        """Writes the page that ``smrkit advise --report`` writes."""
        with open(path, "w", encoding="utf-8") as file:
            file.write(self._native.page())


def advise(*, requests: Any = None, progress: Progress = False, **options: Unpack[AdviseOptions]) -> Advice:
    """Says whether a drive or an array will do for a load and why, and tries by a run each change that could help.

    Parameters
    ----------
    requests, progress
        As for :func:`smrkit.run`.
    **options
        The options of ``smrkit advise``, by their names (:class:`smrkit.AdviseOptions`). ``use`` is its ``--for``. There is one drive
        or array, and one layer (by default, as the drive is sold).

    Returns
    -------
    Advice
        A mapping with the keys of the command's ``--json``.

    Raises
    ------
    UsageError, InputError, ImpossibleError, FaultError
        Each message states the remedy. Ctrl-C ends it.

    Examples
    --------
    >>> import smrkit
    >>> advice = smrkit.advise(drive="tiny", workload="random-write:count=2k", depth=4)
    >>> advice.problems.slow
    True
    >>> [remedy.change for remedy in advice.remedies if remedy.effect == "fixes"][0]
    'CMR disks'
    >>> print(advice)  # doctest: +ELLIPSIS
    No: this load takes ...
    """
    table = None if requests is None else _native.Requests(requests)
    with bar(progress) as on_progress:
        return Advice(_native.advise(pairs(options), table, on_progress))
