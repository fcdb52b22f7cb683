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
    """The drive's name, a model string, or a drive file. See smrkit drives [default: st8000dm004]"""
    layer: str | Sequence[str]
    """Layers, with commas between; as-sold is the drive's own. See smrkit layers [default: in-place,as-sold; with --check as-sold; without a drive and a demand, or on a drive that is not sold, all]"""
    array: str
    """An array: LEVEL:key=value,…. What it leaves out of a member (layer, drive, capacity) is that of this run. Levels: span, raid0, raid1, raid10, raid4, raid5, raid6, raidz3, dedicated, mirror, raidz, raidz1, raidz2"""
    rebuild: str
    """A rebuild while requests come: rebuild, resilver, scrub or key=value,…. A scrub reads all members of the array"""
    trace: Path | Sequence[Path]
    """A trace file; - is standard input. May be repeated, and in any format that trace info recognises"""
    workload: str | Sequence[str]
    """A workload: name:key=value,…. May be repeated [default: desktop]"""
    span: Amount
    """Size that a workload takes for the disk's [default: the least that a layer offers]"""
    interleave: str
    """Merging of several traces and workloads. In bursts of N requests, each from a source drawn at random, by their times, or one after another"""
    sources: str
    """Placement of their addresses, one behind the other or all from 0 [default: end-to-end]"""
    set: Mapping[str, Any]
    """A parameter; several values, and several of these options, multiply into runs"""
    depth: Amount
    """Commands outstanding; of a served drive's log, as many as there were, of which the drive sees N [default: 1; of a log 32]"""
    think: Time
    """Pause between a completion and the next request"""
    arrival: Literal["flat-out", "trace", "closed"]
    """Ignore the trace's times, or keep them [default: flat-out; of the log of a served drive closed]"""
    time_scale: float | str
    """Factor on the trace's times"""
    queue: Literal["fcfs", "elevator", "sptf", "drive"]
    """Order of waiting commands [default: drive; with --like as served]"""
    prefill: str
    """State of the disk before [default: full]. Full: every LBA was written once, the cache is empty; random: SHARE of the persistent cache (of the disk, where there is none) is in use"""
    warmup: Amount
    """Requests served before counting begins: N, or until cleaning has settled"""
    volume: Amount
    """Volume of the trace by its number or name, or all laid end to end"""
    capacity: Amount
    """Size of the drive, or of each member. Auto: its own, or more of the same platters where the trace needs them [default: auto]"""
    fold: bool
    """Take addresses modulo the capacity"""
    format: str
    """The trace's format, if not recognised"""
    skip_bad_rows: bool
    """Count and report malformed rows instead of stopping"""
    seed: Amount
    """The seed of everything random"""


class RunArguments(Arguments, total=False):
    """Options of a run."""

    from_state: Path
    """Begin with the state that --save-state wrote. Without options that name a system, the state's own runs"""
    like: Path
    """The drive of a served drive's log, and its state and order of commands; the log is the trace if none is named. Options that name a drive or a layer change that; the drive is then as large as that of the log, or larger by what the recording needs"""
    edit: str
    """Edits of the requests before they are served: key=value,…, with the first of them, a stretch of time, and writes packed or split"""
    check: bool
    """Verify every read, and that nothing of the host's is damaged"""
    power_cut: Amount
    """Cut the power at this physical write. Tells what is lost; turns on --check"""
    movement: bool
    """Count head movements and bands moved"""


class SweepArguments(TypedDict, total=False):
    """Options of a run, each of them a value or a list."""

    drive: Path | Sequence[Path]
    """The drive's name, a model string, or a drive file. See smrkit drives [default: st8000dm004]"""
    layer: str | Sequence[str]
    """Layers, with commas between; as-sold is the drive's own. See smrkit layers [default: in-place,as-sold; with --check as-sold; without a drive and a demand, or on a drive that is not sold, all]"""
    array: str | Sequence[str]
    """An array: LEVEL:key=value,…. What it leaves out of a member (layer, drive, capacity) is that of this run. Levels: span, raid0, raid1, raid10, raid4, raid5, raid6, raidz3, dedicated, mirror, raidz, raidz1, raidz2"""
    rebuild: str | Sequence[str]
    """A rebuild while requests come: rebuild, resilver, scrub or key=value,…. A scrub reads all members of the array"""
    from_state: Path | Sequence[Path]
    """Begin with the state that --save-state wrote. Without options that name a system, the state's own runs"""
    like: Path | Sequence[Path]
    """The drive of a served drive's log, and its state and order of commands; the log is the trace if none is named. Options that name a drive or a layer change that; the drive is then as large as that of the log, or larger by what the recording needs"""
    trace: Path | Sequence[Path] | Sequence[Path | Sequence[Path]]
    """A trace file; - is standard input. May be repeated, and in any format that trace info recognises"""
    workload: str | Sequence[str] | Sequence[str | Sequence[str]]
    """A workload: name:key=value,…. May be repeated [default: desktop]"""
    span: Amount | Sequence[Amount]
    """Size that a workload takes for the disk's [default: the least that a layer offers]"""
    interleave: str | Sequence[str]
    """Merging of several traces and workloads. In bursts of N requests, each from a source drawn at random, by their times, or one after another"""
    sources: str | Sequence[str]
    """Placement of their addresses, one behind the other or all from 0 [default: end-to-end]"""
    edit: str | Sequence[str]
    """Edits of the requests before they are served: key=value,…, with the first of them, a stretch of time, and writes packed or split"""
    set: Mapping[str, Any]
    """A parameter; several values, and several of these options, multiply into runs"""
    depth: Amount | Sequence[Amount]
    """Commands outstanding; of a served drive's log, as many as there were, of which the drive sees N [default: 1; of a log 32]"""
    think: Time | Sequence[Time]
    """Pause between a completion and the next request"""
    arrival: Literal["flat-out", "trace", "closed"] | Sequence[Literal["flat-out", "trace", "closed"]]
    """Ignore the trace's times, or keep them [default: flat-out; of the log of a served drive closed]"""
    time_scale: float | str | Sequence[float | str]
    """Factor on the trace's times"""
    queue: Literal["fcfs", "elevator", "sptf", "drive"] | Sequence[Literal["fcfs", "elevator", "sptf", "drive"]]
    """Order of waiting commands [default: drive; with --like as served]"""
    prefill: str | Sequence[str]
    """State of the disk before [default: full]. Full: every LBA was written once, the cache is empty; random: SHARE of the persistent cache (of the disk, where there is none) is in use"""
    warmup: Amount | Sequence[Amount]
    """Requests served before counting begins: N, or until cleaning has settled"""
    volume: Amount | Sequence[Amount]
    """Volume of the trace by its number or name, or all laid end to end"""
    capacity: Amount | Sequence[Amount]
    """Size of the drive, or of each member. Auto: its own, or more of the same platters where the trace needs them [default: auto]"""
    fold: bool | Sequence[bool]
    """Take addresses modulo the capacity"""
    format: str | Sequence[str]
    """The trace's format, if not recognised"""
    skip_bad_rows: bool | Sequence[bool]
    """Count and report malformed rows instead of stopping"""
    seed: Amount | Sequence[Amount]
    """The seed of everything random"""
    check: bool | Sequence[bool]
    """Verify every read, and that nothing of the host's is damaged"""
    power_cut: Amount | Sequence[Amount]
    """Cut the power at this physical write. Tells what is lost; turns on --check"""
    movement: bool | Sequence[bool]
    """Count head movements and bands moved"""


class FleetArguments(TypedDict, total=False):
    """Options of a fleet."""

    drive: Path | Sequence[Path]
    """The drive's name, a model string, or a drive file; of several with commas between, each makes a fleet of its own. See smrkit drives"""
    layer: str
    """The layer [default: that of the drive as it is sold; of a host-managed drive zone-log, which appends to zones]"""
    set: Mapping[str, Any]
    """A parameter"""
    disks: Amount
    """Drives of the fleet"""
    code: str
    """The erasure code, as data+parity, or a number of copies"""
    groups: Amount
    """Placement groups that have a chunk on each drive, spread over all the others. 1 makes arrays of drives of their own"""
    fill: float | str
    """Share of each drive that is in use"""
    object: Amount
    """Size of the objects that are coded: each drive has a piece of one, which is read and written at once"""
    load: Amount
    """Requests a second that users have for each drive while it is repaired"""
    workload: str
    """What those requests are, as a workload"""
    throttle: float | str
    """Bytes a second that a drive reads or writes for repairs at most"""
    delay: Time
    """Time from a failure until its repair begins"""
    afr: float | str
    """Share of the drives that fail in a year"""
    shape: float | str
    """Shape of the Weibull distribution of ages at failure: 1 for a constant rate, more for wear"""
    years: float | str
    """Years that are looked at, from new drives on"""
    head_loss: float | str
    """Share of the failures that are the loss of one head: the drive keeps its other surfaces, and only that one's zones are rebuilt"""
    racks: Amount
    """Racks, over which each group is spread"""
    rack_loss: float | str
    """How often a year each rack loses drives at once, such as 0.1%"""
    rack_share: float | str
    """The share of its drives that a rack loses then"""
    latent: float | str
    """Share of the drives that get a sector which can't be read in a year"""
    scrub: Time
    """Time in which all sectors are read, so that those are found"""
    repair_rate: float | str
    """Bytes a second at which a chunk is rebuilt, instead of the drive's own by a run"""
    exponential: bool
    """Draw repair times from exponential distributions, as Markov models do"""
    precision: float | str
    """Half the width of an interval, as a share of the estimate, at which it is narrow enough"""
    seed: Amount
    """The seed of everything random"""


class AdviceArguments(Arguments, total=False):
    """Options of advice."""

    use: str | Sequence[str]
    """What the disks are for: NAME or NAME:key=value,…, such as surveillance:cameras=8,rate=4Mbit. May be repeated, for several at once. Names: restic, borg, duplicati, copy, timemachine, proxmox-backup, proxmox-gc, restic-prune, zfs-receive, surveillance, torrent, plex, photos, postgres, bitcoin, chia, chia-plot, storj, ceph-osd, file-server, format, badblocks, replace, scrub, reshape"""
    within: Time
    """All of it has to be done in this time"""
    every: Time
    """It comes again after this time, and has to be done and cleaned by then"""
    keep: Time
    """Ninety-nine requests of a hundred have to be answered in this time"""
