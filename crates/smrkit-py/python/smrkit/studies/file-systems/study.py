"""File systems on drive-managed disks: what each wrote under the same loads, recorded by `scripts/record-file-systems`, and what that costs."""

from itertools import product
from pathlib import Path
from typing import Any

import polars as pl
from smrkit import Outcome
from smrkit.reproduce import SECONDS, Study, falls, short, with_unit

#: The traces were recorded at this share of the disk, the memory and the files of the published measurements.
SCALE = 0.25
CAPACITY = "2TB"
#: Bytes that a disk of Seagate's kind rewrites at once, about: 20 tracks.
BAND = 32_000_000
LOADS = {
    "PostMark": {"ext4": "postmark-ext4", "ext4, in a folder": "below-ext4", "ext4, packed": "postmark-ext4-packed", "XFS": "postmark-xfs", "btrfs": "postmark-btrfs"},
    "unpack": {"ext4": "unpack-ext4", "XFS": "unpack-xfs", "btrfs": "unpack-btrfs"},
    "torrent": {"ext4": "torrent-ext4", "XFS": "torrent-xfs", "btrfs": "torrent-btrfs"},
}
CONVENTIONAL, SEAGATE, NEW, WD, USED, DM_ZONED = "conventional", "Seagate's kind", "the same, new", "Western Digital's kind", "the same, used", "dm-zoned"
#: The preset loses half a track between two writes to its cache, which was fitted to chunks of 1 MiB with a flush each.
DENSE = "a denser cache"
DRIVES: dict[str, dict[str, Any]] = {
    CONVENTIONAL: {"drive": "st8000as0002", "layer": "in-place"},
    SEAGATE: {"drive": "st8000as0002", "layer": "as-sold"},
    # Bands that nothing was ever written to have nothing to save.
    NEW: {"drive": "st8000as0002", "layer": "as-sold", "prefill": "none", "set": {"drive-managed.skip_unwritten": "on"}},
    WD: {"drive": "wd40efax", "layer": "as-sold"},
    USED: {"drive": "wd40efax", "layer": "as-sold"},
    DM_ZONED: {"drive": "hc620", "layer": "dm-zoned"},
}
VARIANTS = DRIVES | {DENSE: DRIVES[SEAGATE] | {"set": {"drive-managed.gap_bytes": 0}}}


def path(trace: str) -> Path:
    return Path(__file__).with_name(f"{trace}.parquet")


def replays(study: Study, asked: list[tuple[str, str]]) -> list[Outcome]:
    """Each trace on each drive, which is full: a request comes once as many are outstanding as there were, after the pause that its host made."""
    used = study.file("used", "").with_suffix(".state")
    if any(drive == USED for drive, _ in asked):
        # Twice its spare room, so that every band that is written next has to be made free.
        many = {"workload": "random-write:size=256Ki,count=80k", "depth": 32, "save_state": used}
        study.run(DRIVES[USED] | {"capacity": CAPACITY, "prefill": "full"} | many)

    def replay(one: tuple[str, str]) -> Outcome:
        drive, trace = one
        begun = {"from_state": used, "prefill": None} if drive == USED else {"prefill": "full", "capacity": CAPACITY} | VARIANTS[drive]
        return study.run(begun | {"trace": path(trace), "arrival": "closed", "depth": 32})

    return study.map(replay, asked)


def seconds(run: Outcome) -> float:
    return float(run.elapsed_ns / 1e9)


def why(run: Outcome) -> str:
    """Where a drive's time went."""
    busy = run.busy_by_cause_ns
    spent = {"the host's requests": busy.host, "cleaning": busy.clean + busy.destage, "copies of the map": busy.map}
    return ", ".join(f"{short(time / 1e9)} s for {what}" for what, time in spent.items() if time >= 1e9)


def writes(study: Study) -> None:
    study.section("What they write")
    rows = []
    for load, traces in LOADS.items():
        for kind, trace in traces.items():
            frame = pl.read_parquet(path(trace)).with_columns(bytes=pl.col("sectors").cast(pl.Int64) * 512)
            written = frame.filter(pl.col("op") == 1)
            small = written.filter(pl.col("bytes") <= 64 * 1024)
            cells = [short(written["bytes"].sum() / 1e9), f"{len(written):,}", f"{len(small):,}"]
            bands = [f"{(some['lba'] * 512 // BAND).n_unique():,}" for some in (written, small)]
            rows.append([load, kind, *cells, *bands, f"{len(frame.filter(pl.col('op') == 2)):,}"])
    study.table(["load", "file system", "GB written", "writes", "of 64 KiB or less", "bands written", "by those", "flushes"], rows)

    def draw(figure: Any) -> None:
        traces = [(kind, trace) for kind, trace in LOADS["PostMark"].items()]
        for ax, (kind, trace) in zip(figure.subplots(1, len(traces), sharey=True), traces):
            some = pl.read_parquet(path(trace)).filter(pl.col("op") == 1).gather_every(20)
            ax.plot(some["time_ns"] / 1e9, some["lba"] * 512 / 1e12, ".", markersize=2)
            ax.set(title=kind, xlabel="s")
        figure.supylabel("place on the disk (TB)")

    study.figure("places", draw, size=(12, 5))


def published(study: Study) -> None:
    study.section("PostMark on a drive-managed disk")
    kinds = {kind: LOADS["PostMark"][kind] for kind in ("ext4", "XFS", "btrfs")}
    drives = (CONVENTIONAL, SEAGATE, NEW, DENSE)
    runs = dict(zip(product(drives, kinds), replays(study, list(product(drives, kinds.values())))))
    at = {of: seconds(run) / SCALE for of, run in runs.items()}
    for kind in kinds:
        told = (
            f"{short(at[NEW, kind])} s on a new disk, {short(at[DENSE, kind])} s where no room of the cache is lost between writes, "
            f"{short(at[CONVENTIONAL, kind])} s on a conventional one; of a quarter {why(runs[SEAGATE, kind])}"
        )
        study.row(kind, at[SEAGATE, kind], why=told)
    for drive, words in ((SEAGATE, "full"), (NEW, "new")):
        ext4, xfs, btrfs = (at[drive, kind] for kind in kinds)
        study.row(f"order, {words} disk", "ext4, XFS, btrfs" if falls([ext4, xfs, btrfs]) else "another", agrees=falls([ext4, xfs, btrfs]))
        study.row(f"ext4 / XFS, {words} disk", ext4 / xfs)
        study.row(f"btrfs / XFS, {words} disk", btrfs / xfs)


def observed(study: Study) -> None:
    study.section("Beside attached drives")
    kinds = ("ext4, in a folder", "XFS", "btrfs")
    for kind, run in zip(kinds, replays(study, [(SEAGATE, LOADS["PostMark"][kind]) for kind in kinds])):
        study.row(kind, seconds(run))


def which(study: Study) -> None:
    study.section("Which file system on which drive")
    loads, drives = study.pick((list(LOADS), list(DRIVES)), (["PostMark"], [CONVENTIONAL, SEAGATE, WD]))
    asked = [(load, kind, trace) for load in loads for kind, trace in LOADS[load].items()]
    runs = dict(zip(product(asked, drives), replays(study, [(drive, trace) for (_, _, trace), drive in product(asked, drives)])))
    rows = []
    for one, drive in product(asked, drives):
        run, twin = runs[one, drive], runs[one, CONVENTIONAL]
        times = [with_unit(seconds(run), SECONDS), f"{short(seconds(run) / seconds(twin))} ×"]
        cleaned = run.layer_stats.get("bands_cleaned", 0)
        stall = with_unit(run.latency_ns.all.max / 1e9, SECONDS)
        rows.append([*one[:2], drive, *times, f"{short(run.write_amplification)} ×", stall, f"{cleaned:,}" if cleaned else "-"])
    study.table(["load", "file system", "drive", "time", "of conventional", "written", "longest stall", "bands cleaned"], rows)

    def draw(figure: Any) -> None:
        for ax, load in zip(figure.subplots(1, len(loads), squeeze=False).flat, loads):
            kinds = [one for one in asked if one[0] == load]
            for number, drive in enumerate(drives):
                places = [at + (number - 2.5) / 8 for at in range(len(kinds))]
                ax.bar(places, [seconds(runs[one, drive]) for one in kinds], 1 / 8, label=drive)
            ax.set_xticks(range(len(kinds)), [one[1] for one in kinds])
            ax.set(title=load, yscale="log")
        ax.legend()
        figure.supylabel("seconds")

    study.figure("times", draw, size=(12, 5))


def study(study: Study) -> None:
    writes(study)
    published(study)
    observed(study)
    which(study)
