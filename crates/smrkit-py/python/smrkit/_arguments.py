"""The command's options as arguments: ``UPDATE=1`` and a run of ``test_command.py`` write them anew from its parser."""

import os
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, Literal, TypeAlias, TypedDict

Path: TypeAlias = str | os.PathLike[str]
Amount: TypeAlias = str | int
Time: TypeAlias = str | timedelta


class Arguments(TypedDict, total=False):
    """Options of runs and of advice."""

    drive: Path
    layer: str | Sequence[str]
    array: Path
    rebuild: str
    trace: Path | Sequence[Path]
    workload: str | Sequence[str]
    span: Amount
    interleave: str
    sources: str
    set: Mapping[str, Any]
    depth: Amount
    think: Time
    arrival: str
    time_scale: float | str
    queue: str
    prefill: str
    warmup: Amount
    volume: Amount
    capacity: Amount
    fold: bool
    format: str
    skip_bad_rows: bool
    seed: Amount


class RunArguments(Arguments, total=False):
    """Options of a run."""

    from_state: Path
    like: Path
    check: bool
    power_cut: Amount
    movement: bool


class AdviceArguments(Arguments, total=False):
    """Options of advice."""

    use: str
    within: Time
    every: Time
    keep: Time
