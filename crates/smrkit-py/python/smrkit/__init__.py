"""Simulate and check shingled (SMR) disks.

:func:`run` replays a trace, a workload or a table of requests on one translation layer, :func:`compare` on several.
:func:`advise` says whether a drive will do and what would help, and :func:`fleet` how often many drives lose data.
Options have the names of the command's. Outcomes are mappings with the keys of its ``outcome.json``.
"""

from smrkit import trace
from smrkit._advice import Advice, advise
from smrkit._arguments import AdviseOptions, FleetOptions, Options, SweepOptions
from smrkit._catalogue import drive_file, drives, layers
from smrkit._drive import Drive, drive
from smrkit._errors import Error, FaultError, ImpossibleError, InputError, UsageError
from smrkit._fleet import Fleet, fleet
from smrkit._layer import Disk, Layer, register
from smrkit._native import __version__
from smrkit._outcome import Outcome, Outcomes, merge, read
from smrkit._record import Record
from smrkit._run import Progress, compare, run
from smrkit._sweep import Results, Swept, results, sweep
from smrkit._table import Table

__all__ = [
    "Advice",
    "AdviseOptions",
    "Disk",
    "Drive",
    "Error",
    "FaultError",
    "Fleet",
    "FleetOptions",
    "ImpossibleError",
    "InputError",
    "Layer",
    "Options",
    "Outcome",
    "Outcomes",
    "Progress",
    "Record",
    "Results",
    "SweepOptions",
    "Swept",
    "Table",
    "UsageError",
    "__version__",
    "advise",
    "compare",
    "drive",
    "drive_file",
    "drives",
    "fleet",
    "layers",
    "merge",
    "read",
    "register",
    "results",
    "run",
    "sweep",
    "trace",
]
