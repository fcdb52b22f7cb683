"""File systems on drive-managed disks: what each wrote under the same loads, recorded by `scripts/record-file-systems`, and what that costs."""

from itertools import product
from pathlib import Path
from typing import Any

import polars as pl
from smrkit import Outcome
from smrkit.reproduce import SECONDS, Study, falls, seconds, short, with_unit

#: Scale of our recordings to the published measurements: disk, memory, files and transactions.
SCALE = 0.25
CAPACITY = "2TB"
#: About the bytes that a disk of Seagate's kind rewrites at once: 20 tracks.
BAND_BYTES = 32_000_000
#: Numbers of operations in the traces.
WRITE, FLUSH = 1, 2
#: For each load, the recording of each file system.
LOADS = {
    "PostMark": {
        "ext4": "postmark-ext4",
        "ext4, in a folder": "below-ext4",
        "ext4, packed": "postmark-ext4-packed",
        "XFS": "postmark-xfs",
        "btrfs": "postmark-btrfs",
    },
    "unpack": {"ext4": "unpack-ext4", "XFS": "unpack-xfs", "btrfs": "unpack-btrfs"},
    "torrent": {"ext4": "torrent-ext4", "XFS": "torrent-xfs", "btrfs": "torrent-btrfs"},
}
CONVENTIONAL, SEAGATE, NEW = "conventional", "Seagate's kind", "Seagate's kind, new"
WD, USED, DM_ZONED = "Western Digital's kind", "Western Digital's kind, used", "dm-zoned"
DENSE = "a denser cache"
#: The drives of the table. All are full but the new one.
DRIVES: dict[str, dict[str, Any]] = {
    CONVENTIONAL: {"drive": "st8000as0002", "layer": "in-place"},
    SEAGATE: {"drive": "st8000as0002", "layer": "as-sold"},
    # Cleaning has nothing to save in bands that were never written.
    NEW: {"drive": "st8000as0002", "layer": "as-sold", "prefill": "none", "set": {"drive-managed.skip_unwritten": "on"}},
    WD: {"drive": "wd40efax", "layer": "as-sold"},
    USED: {"drive": "wd40efax", "layer": "as-sold"},
    DM_ZONED: {"drive": "hc620", "layer": "dm-zoned"},
}
#: The preset loses half a track between two writes to its cache, as fitted to chunks of 1 MiB with a flush each. This one loses nothing.
VARIANTS = DRIVES | {DENSE: DRIVES[SEAGATE] | {"set": {"drive-managed.gap_bytes": 0}}}


def path(trace: str) -> Path:
    return Path(__file__).with_name(f"{trace}.parquet")


def replays(study: Study, cases: list[tuple[str, str]]) -> dict[tuple[str, str], Outcome]:
    """Replays pairs of drive and trace. A request comes after its host's pause, once no more are outstanding than when it was recorded."""
    used_state = study.file("used", "").with_suffix(".state")
    if any(drive == USED for drive, _ in cases):
        # Writes twice the drive's spare room, so that each band has to be made free before it can be written next.
        wear = {"workload": "random-write:size=256Ki,count=80k", "depth": 32, "save_state": used_state}
        study.run(DRIVES[USED] | {"capacity": CAPACITY, "prefill": "full"} | wear)

    def job(drive: str, trace: str) -> dict[str, Any]:
        full = {"prefill": "full", "capacity": CAPACITY} | VARIANTS[drive]
        # A saved state brings its drive with it.
        disk = {"from_state": used_state, "prefill": None} if drive == USED else full
        return disk | {"trace": path(trace), "arrival": "closed", "depth": 32}

    return study.keyed_runs({case: job(*case) for case in cases})


def busy_shares(run: Outcome) -> str:
    """Where a drive's time went, in words."""
    busy = run.busy_by_cause_ns
    spent = {"the host's requests": busy.host, "cleaning": busy.clean + busy.destage, "copies of the map": busy.map}
    return ", ".join(f"{short(ns / 1e9)} s for {cause}" for cause, ns in spent.items() if ns >= 1e9)


def writes(study: Study) -> None:
    study.section("What they write")
    rows = []
    for load, traces in LOADS.items():
        for file_system, trace in traces.items():
            frame = pl.read_parquet(path(trace)).with_columns(bytes=pl.col("sectors").cast(pl.Int64) * 512)
            written = frame.filter(pl.col("op") == WRITE)
            small = written.filter(pl.col("bytes") <= 64 * 1024)
            amounts = [short(written["bytes"].sum() / 1e9), f"{len(written):,}", f"{len(small):,}"]
            bands = [f"{(some['lba'] * 512 // BAND_BYTES).n_unique():,}" for some in (written, small)]
            flushes = f"{len(frame.filter(pl.col('op') == FLUSH)):,}"
            rows.append([load, file_system, *amounts, *bands, flushes])
    header = ["load", "file system", "GB written", "writes", "of 64 KiB or less", "bands written", "by small writes", "flushes"]
    study.table(header, rows)

    def draw(figure: Any) -> None:
        traces = LOADS["PostMark"]
        for ax, (file_system, trace) in zip(figure.subplots(1, len(traces), sharey=True), traces.items()):
            some = pl.read_parquet(path(trace)).filter(pl.col("op") == WRITE).gather_every(20)
            ax.plot(some["time_ns"] / 1e9, some["lba"] * 512 / 1e12, ".", markersize=2)
            ax.set(title=file_system, xlabel="s")
        figure.supylabel("place on the disk (TB)")

    study.figure("places", draw, size=(12, 5))


def published(study: Study) -> None:
    study.section("PostMark on a drive-managed disk")
    traces = {file_system: LOADS["PostMark"][file_system] for file_system in ("ext4", "XFS", "btrfs")}
    runs = replays(study, list(product((CONVENTIONAL, SEAGATE, NEW, DENSE), traces.values())))
    full_scale = {case: seconds(run) / SCALE for case, run in runs.items()}
    for file_system, trace in traces.items():
        new, dense, conventional = (short(full_scale[drive, trace]) for drive in (NEW, DENSE, CONVENTIONAL))
        why = (
            f"{new} s on a new disk, {dense} s where the cache loses no room between writes, {conventional} s on a conventional disk; "
            f"the replay at a quarter of the scale takes {busy_shares(runs[SEAGATE, trace])}"
        )
        study.row(file_system, full_scale[SEAGATE, trace], why=why)
    for drive, state in ((SEAGATE, "full"), (NEW, "new")):
        ext4, xfs, btrfs = (full_scale[drive, trace] for trace in traces.values())
        is_in_order = falls([ext4, xfs, btrfs])
        study.row(f"order, {state} disk", "ext4, XFS, btrfs" if is_in_order else "another", agrees=is_in_order)
        study.row(f"ext4 / XFS, {state} disk", ext4 / xfs)
        study.row(f"btrfs / XFS, {state} disk", btrfs / xfs)


def observed(study: Study) -> None:
    study.section("Beside attached drives")
    traces = {file_system: LOADS["PostMark"][file_system] for file_system in ("ext4, in a folder", "XFS", "btrfs")}
    runs = replays(study, [(SEAGATE, trace) for trace in traces.values()])
    for file_system, trace in traces.items():
        study.row(file_system, seconds(runs[SEAGATE, trace]))


def which(study: Study) -> None:
    study.section("Which file system on which drive")
    loads, drives = study.pick((list(LOADS), list(DRIVES)), (["PostMark"], [CONVENTIONAL, SEAGATE, WD]))
    traces = [(load, *of_file_system) for load in loads for of_file_system in LOADS[load].items()]
    runs = replays(study, [(drive, trace) for (_, _, trace), drive in product(traces, drives)])
    rows = []
    for (load, file_system, trace), drive in product(traces, drives):
        run = runs[drive, trace]
        slowdown = seconds(run) / seconds(runs[CONVENTIONAL, trace])
        stall = with_unit(run.latency_ns.all.max / 1e9, SECONDS)
        cleaned = run.layer_stats.get("bands_cleaned", 0)
        cells = [with_unit(seconds(run), SECONDS), f"{short(slowdown)} ×", f"{short(run.write_amplification)} ×", stall]
        rows.append([load, file_system, drive, *cells, f"{cleaned:,}" if cleaned else "-"])
    study.table(["load", "file system", "drive", "time", "of conventional", "written", "longest stall", "bands cleaned"], rows)

    def draw(figure: Any) -> None:
        for ax, load in zip(figure.subplots(1, len(loads), squeeze=False).flat, loads):
            for number, drive in enumerate(drives):
                # Bars of one file system stand side by side around its tick.
                places = [at + (number - 2.5) / 8 for at in range(len(LOADS[load]))]
                ax.bar(places, [seconds(runs[drive, trace]) for trace in LOADS[load].values()], 1 / 8, label=drive)
            ax.set_xticks(range(len(LOADS[load])), list(LOADS[load]))
            ax.set(title=load, yscale="log")
        ax.legend()
        figure.supylabel("seconds")

    study.figure("times", draw, size=(12, 5))


def study(study: Study) -> None:
    writes(study)
    published(study)
    observed(study)
    which(study)
