"""Fleets: how long the repair of a drive takes, and how often data is lost."""

from typing import Any, Unpack

from smrkit import _native
from smrkit._arguments import FleetOptions
from smrkit._executor import gather, opened
from smrkit._options import pairs
from smrkit._record import Answer, Record
from smrkit._run import Progress, bar


class Fleet(Answer[_native.Fleet]):
    """The answer of :func:`fleet`: a mapping with the keys of the command's ``--json``, which are attributes too.

    ``print`` shows its sentences and its table; ``docs/how-to/fleet.md`` has the assumptions.
    """

    schema: int
    text: str
    fleets: list[Record]

    def __repr__(self) -> str:
        return f"<Fleet of {self.fleets[0].fleet.disks} drives: {self.text.splitlines()[0]}>"


def fleet(*, executor: Any = "threads", progress: Progress = False, **options: Unpack[FleetOptions]) -> Fleet:
    """Simulates the repair of a drive among many, and how often the fleet loses data.

    Parameters
    ----------
    executor
        Where drives are run and their failures simulated, as for :func:`smrkit.sweep`. The answer does not depend on it.
    progress
        As for :func:`smrkit.run`.
    **options
        The options of ``smrkit fleet``, by their names (:class:`smrkit.FleetOptions`).

    Returns
    -------
    Fleet
        A mapping with the keys of the command's ``--json``.

    Raises
    ------
    UsageError, InputError, ImpossibleError
        Each message states the remedy. Ctrl-C ends it.

    Examples
    --------
    >>> import smrkit
    >>> raid5 = smrkit.fleet(disks=5, code="4+1", groups=1, repair_rate="100MB/s")
    >>> raid5.fleets[0].losses.in_a_year.value < 0.01
    True
    >>> print(raid5)  # doctest: +ELLIPSIS
    Loss: any data is lost with a probability of ...
    """
    asked = pairs(options)
    with bar(progress) as on_progress:
        if executor in (None, "threads"):
            return Fleet(_native.fleet(asked, on_progress))
        with opened(executor) as (pool, _):
            return Fleet(_native.fleet_by(asked, lambda work, what: gather(pool, _native.fleet_work, work, what, on_progress)))
