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
    """The drive's name, a model string, or a drive file; for an array of different disks several, joined by +, of which the last is used for all remaining disks. See smrkit drives [default: st8000dm004]"""
    layer: str | Sequence[str]
    """Layers to compare, separated by commas; as-sold is the layer that the drive is sold with. See smrkit layers [default: in-place,as-sold; with --check as-sold alone; all layers if neither a drive nor a trace or workload is named, or if the drive is not sold]"""
    array: str
    """An array: LEVEL:key=value,…. What it leaves out of a member (layer, drive, capacity) is that of this run. Levels: span, raid0, raid1, raid10, raid4, raid5, raid6, raidz3, dedicated, mirror, raidz, raidz1, raidz2"""
    rebuild: str
    """Rebuild or scrub an array while requests come: rebuild, resilver, scrub or key=value,…. A scrub reads all members of the array"""
    trace: Path | Sequence[Path]
    """A trace file; - is standard input. May be repeated, and in any format that trace info recognises"""
    workload: str | Sequence[str]
    """A workload: name:key=value,…. May be repeated [default: desktop]"""
    span: Amount
    """Disk size that a workload assumes [default: the smallest capacity that a compared layer offers]"""
    interleave: str
    """How several traces and workloads are merged. In bursts of N requests, each from a source drawn at random; by their times; or one after another"""
    sources: str
    """Addresses of merged sources: one source after the other, or each from LBA 0 [default: end-to-end]"""
    set: Mapping[str, Any]
    """Set a parameter of a layer; if several values or several parameters are given, every combination is run"""
    depth: Amount
    """Commands outstanding at once; when a served drive's log is replayed, as many as were recorded, of which the drive sees at most N [default: 1; for a log 32]"""
    think: Time
    """Pause between a completion and the next request"""
    arrival: Literal["flat-out", "trace", "closed"]
    """When requests arrive: as soon as one before completes (flat-out), at the times of the trace (trace), or after the think times of the trace (closed) [default: flat-out; for the log of a served drive closed]"""
    time_scale: float | str
    """Factor by which the trace's times are multiplied"""
    queue: Literal["fcfs", "elevator", "sptf", "drive"]
    """Order in which waiting commands are served [default: drive; with --like as recorded]"""
    prefill: str
    """What the disk contains before the run [default: full]. Full: every LBA was written once, the cache is empty; random: SHARE of the persistent cache (of the disk, if it has none) is in use"""
    warmup: Amount
    """Requests served before counting begins: N, or until cleaning has settled"""
    volume: Amount
    """Volume of the trace to replay, by number or name; with all, the volumes are laid end to end"""
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


class Options(Arguments, total=False):
    """Arguments of :func:`smrkit.run`, :func:`smrkit.compare` and sweeps; ``docs/reference/command-line.md`` explains each.

    Sizes and counts are numbers or texts such as ``"64KiB"`` and ``"10k"``, times ``timedelta`` or texts such as ``"5ms"``.
    """

    from_state: Path
    """Begin with the state that --save-state wrote. Without options that name a system, the state's own runs"""
    like: Path
    """Simulate the drive that recorded this log, with its order of commands and the state that it began with; without another trace or workload, the log is also the trace. If another drive or layer is named, the simulated drive is as large as the recorded one, or larger if the recording needs it"""
    edit: str
    """Change the requests before they are served, by key=value,…: take the first ones or a stretch of time, pack or split writes"""
    check: bool
    """Verify every read, and that no data of the host is damaged"""
    power_cut: Amount
    """Cut the power at this physical write. Tells what is lost; turns on --check"""
    movement: bool
    """Count head movements and bands moved"""


class SweepOptions(TypedDict, total=False):
    """Arguments of :func:`smrkit.sweep`: those of :class:`Options`, each a value or a list of values."""

    drive: Path | Sequence[Path]
    """The drive's name, a model string, or a drive file; for an array of different disks several, joined by +, of which the last is used for all remaining disks. See smrkit drives [default: st8000dm004]"""
    layer: str | Sequence[str]
    """Layers to compare, separated by commas; as-sold is the layer that the drive is sold with. See smrkit layers [default: in-place,as-sold; with --check as-sold alone; all layers if neither a drive nor a trace or workload is named, or if the drive is not sold]"""
    array: str | Sequence[str]
    """An array: LEVEL:key=value,…. What it leaves out of a member (layer, drive, capacity) is that of this run. Levels: span, raid0, raid1, raid10, raid4, raid5, raid6, raidz3, dedicated, mirror, raidz, raidz1, raidz2"""
    rebuild: str | Sequence[str]
    """Rebuild or scrub an array while requests come: rebuild, resilver, scrub or key=value,…. A scrub reads all members of the array"""
    from_state: Path | Sequence[Path]
    """Begin with the state that --save-state wrote. Without options that name a system, the state's own runs"""
    like: Path | Sequence[Path]
    """Simulate the drive that recorded this log, with its order of commands and the state that it began with; without another trace or workload, the log is also the trace. If another drive or layer is named, the simulated drive is as large as the recorded one, or larger if the recording needs it"""
    trace: Path | Sequence[Path] | Sequence[Path | Sequence[Path]]
    """A trace file; - is standard input. May be repeated, and in any format that trace info recognises"""
    workload: str | Sequence[str] | Sequence[str | Sequence[str]]
    """A workload: name:key=value,…. May be repeated [default: desktop]"""
    span: Amount | Sequence[Amount]
    """Disk size that a workload assumes [default: the smallest capacity that a compared layer offers]"""
    interleave: str | Sequence[str]
    """How several traces and workloads are merged. In bursts of N requests, each from a source drawn at random; by their times; or one after another"""
    sources: str | Sequence[str]
    """Addresses of merged sources: one source after the other, or each from LBA 0 [default: end-to-end]"""
    edit: str | Sequence[str]
    """Change the requests before they are served, by key=value,…: take the first ones or a stretch of time, pack or split writes"""
    set: Mapping[str, Any]
    """Set a parameter of a layer; if several values or several parameters are given, every combination is run"""
    depth: Amount | Sequence[Amount]
    """Commands outstanding at once; when a served drive's log is replayed, as many as were recorded, of which the drive sees at most N [default: 1; for a log 32]"""
    think: Time | Sequence[Time]
    """Pause between a completion and the next request"""
    arrival: Literal["flat-out", "trace", "closed"] | Sequence[Literal["flat-out", "trace", "closed"]]
    """When requests arrive: as soon as one before completes (flat-out), at the times of the trace (trace), or after the think times of the trace (closed) [default: flat-out; for the log of a served drive closed]"""
    time_scale: float | str | Sequence[float | str]
    """Factor by which the trace's times are multiplied"""
    queue: Literal["fcfs", "elevator", "sptf", "drive"] | Sequence[Literal["fcfs", "elevator", "sptf", "drive"]]
    """Order in which waiting commands are served [default: drive; with --like as recorded]"""
    prefill: str | Sequence[str]
    """What the disk contains before the run [default: full]. Full: every LBA was written once, the cache is empty; random: SHARE of the persistent cache (of the disk, if it has none) is in use"""
    warmup: Amount | Sequence[Amount]
    """Requests served before counting begins: N, or until cleaning has settled"""
    volume: Amount | Sequence[Amount]
    """Volume of the trace to replay, by number or name; with all, the volumes are laid end to end"""
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
    """Verify every read, and that no data of the host is damaged"""
    power_cut: Amount | Sequence[Amount]
    """Cut the power at this physical write. Tells what is lost; turns on --check"""
    movement: bool | Sequence[bool]
    """Count head movements and bands moved"""


class FleetOptions(TypedDict, total=False):
    """Arguments of :func:`smrkit.fleet`, as those of :class:`Options`; ``docs/how-to/fleet.md`` explains the answer."""

    drive: Path | Sequence[Path]
    """The drive's name, a model string, or a drive file; each of several, separated by commas, makes a fleet of its own. See smrkit drives"""
    layer: str
    """The layer [default: the one that the drive is sold with; for a host-managed drive zone-log, which appends to zones]"""
    set: Mapping[str, Any]
    """Set a parameter of the layer"""
    disks: Amount
    """Number of drives in the fleet"""
    code: str
    """The erasure code, as data+parity, or a number of copies"""
    groups: Amount
    """Number of placement groups that have a chunk on a drive; their other chunks are spread over all other drives. 1 makes arrays of drives of their own"""
    fill: float | str
    """Share of each drive that is in use"""
    object: Amount
    """Size of a coded object; its piece on a drive is read or written at once"""
    load: Amount
    """Requests a second from users to each drive while it is repaired"""
    workload: str
    """Workload that describes these requests from users"""
    throttle: float | str
    """Maximum rate at which a drive reads or writes for repairs, in bytes a second"""
    delay: Time
    """Time from a failure until its repair begins"""
    afr: float | str
    """Share of the drives that fail in a year"""
    shape: float | str
    """Shape of the Weibull distribution of ages at failure: 1 for a constant rate, more for wear"""
    years: float | str
    """Number of years to simulate, beginning with new drives"""
    head_loss: float | str
    """Share of failures in which only one head is lost: the drive keeps its other surfaces, and only the zones of the lost one are rebuilt"""
    racks: Amount
    """Number of racks, over which each group is spread"""
    rack_loss: float | str
    """Chance in a year that a rack loses several drives at once, such as 0.1%"""
    rack_share: float | str
    """Share of its drives that a rack loses at once"""
    latent: float | str
    """Share of the drives that get an unreadable sector in a year"""
    scrub: Time
    """Time that a scrub takes to read all sectors and find the unreadable ones"""
    repair_rate: float | str
    """Rate at which a chunk is rebuilt, in bytes a second, instead of the rate that a run of the drive gives"""
    exponential: bool
    """Draw repair times from exponential distributions, as Markov models do"""
    precision: float | str
    """Precision to reach: half the width of the confidence interval, as a share of the estimate"""
    seed: Amount
    """The seed of everything random"""


class AdviseOptions(Arguments, total=False):
    """Arguments of :func:`smrkit.advise`, as those of :class:`Options`; ``docs/reference/advise.md`` explains the answer."""

    use: str | Sequence[str]
    """What the disks are for: NAME or NAME:key=value,…, such as surveillance:cameras=8,rate=4Mbit. May be repeated, for several at once. Names: restic, borg, duplicati, copy, timemachine, proxmox-backup, zfs-receive, zfs-pool, surveillance, torrent, plex, photos, postgres, bitcoin, chia, storj, ceph-osd, file-server, format, badblocks, replace, scrub, reshape"""
    within: Time
    """Time in which all of the work has to be done"""
    every: Time
    """Interval at which the work recurs; within it the work has to be done, and its data cleaned"""
    keep: Time
    """Time in which 99 of 100 requests have to be answered"""
