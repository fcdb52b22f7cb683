"""Measured drives: the validation traces of DiskSim 4.0 on the drives that its descriptions make, and public tests of shingled disks."""

import os
from pathlib import Path
from typing import Any

import polars as pl
import smrkit
from smrkit import Outcome
from smrkit.reproduce import Study

MANAGED = "drive-managed"


def iops(run: Outcome) -> float:
    return float(run.requests / run.elapsed_ns * 1e9)


def mib_per_s(run: Outcome) -> float:
    return float((run.host_read_sectors + run.host_written_sectors) * 512 / 2**20 / run.elapsed_ns * 1e9)


def full(drive: str, layer: str, workload: str, depth: int = 1) -> dict[str, Any]:
    return {"drive": drive, "layer": layer, "workload": workload, "depth": depth, "prefill": "full"}


def described(study: Study) -> None:
    """Drives of the 1990s by their descriptions; they don't come with smrkit: a folder holds them, or they are missed."""
    named = [Path(os.environ["SMRKIT_MEASURED"], "disksim")] if "SMRKIT_MEASURED" in os.environ else []
    folder = next((one for one in [*named, Path("measured/disksim"), Path("../shared/measured/disksim")] if one.is_dir()), None)
    if not folder:
        study.section("{drive}", drive="Response times")
        return study.say("Descriptions and traces are missed: give the folder that holds disksim/ in SMRKIT_MEASURED.")
    theirs, measured = study.numbers["disksim"], study.command("drives", "validate", str(folder), "--json")
    for of in measured:
        drive, rms = of["drive"], of["rms_ms"]
        study.section("{drive}", drive=drive)
        if drive in theirs:
            study.row("rms", rms, value=rms - theirs[drive], paper=theirs[drive])
        study.row("mean", of["mean_ours_ms"], paper=of["mean_measured_ms"])
        share = 100 * of["slow_reads_within_half_ms"] / max(1, of["slow_reads"])
        why = (
            "DiskSim itself is near chance on this drive"
            if drive in list(theirs)[:7]
            else "no share of DiskSim's is at hand for this drive"
        )
        other: dict[str, Any] = {} if drive == "hp_c2490a" else {"comparable": False, "paper": None, "why": why}
        study.row("reads over 3 ms within 0.5 ms", share, **other)

    def draw(figure: Any) -> None:
        ax, names = figure.subplots(), [of["drive"] for of in measured]
        ax.plot(names, [theirs.get(name) for name in names], "o", color="grey", label="DiskSim")
        ax.plot(names, [of["rms_ms"] for of in measured], "s", label="ours")
        ax.set(ylabel="rms from the measurement (ms)", ylim=(0, None))
        ax.legend()

    study.figure("disksim", draw)


def host_managed(study: Study) -> None:
    study.section("The 15 TB host-managed disk")
    reads = f"random-read:size=256Ki,count={study.pick(20_000, 4000)}"
    streams = [f"sequential-{op}:size=256Ki,bytes=1Gi" for op in ("read", "write")]
    random, read, write = study.runs(
        [full("hc620", "in-place", reads, 16), *(full("hc620", "in-place", stream, 8) for stream in streams)]
    )
    study.row("random read, 16 outstanding", iops(random))
    study.row("random read, 50 %", random.latency_ns.all.p50 / 1e6)
    study.row("random read, 99 %", random.latency_ns.all.p99 / 1e6)
    study.row("sequential read, 8 outstanding", mib_per_s(read))
    study.row("sequential write, 8 outstanding", mib_per_s(write))


def burst(study: Study) -> None:
    """Writes that come together share an entry of the log, so that more of them fit before cleaning begins."""
    study.section("The queued burst")
    writes = lambda count, depth: full("st5000as0011", MANAGED, f"random-write:size=4Ki,count={count}", depth)
    runs = study.runs([writes(24_000, 1), writes(185_000, 31)])
    one, many = (float(run.layer_stats.get("first_cleaning_request", "nan")) for run in runs)
    study.row("31 outstanding, compared with one", many / one)
    study.row("writes, one outstanding", one)
    study.row("writes, 31 outstanding", many)


def backups(study: Study) -> None:
    study.section("Backup streams")
    workloads = ("sequential-write:size=512Ki,bytes=100Gi", "random-write:size=4999680,bytes=60Gi")
    stream, borg = (run.verdict for run in study.runs(full("st8000as0002", MANAGED, workload) for workload in workloads))
    mb = lambda rate: float("nan") if rate is None else rate / 1e6
    never = stream.rate_after_bytes_per_s is None
    then = stream.rate_before_bytes_per_s if never else stream.rate_after_bytes_per_s
    study.row("stream, at first", mb(stream.rate_before_bytes_per_s))
    study.row("stream, then", mb(then), why="it never slows down: streams bypass the cache (assumption)" if never else "")
    study.row("Borg, at first", mb(borg.rate_before_bytes_per_s))
    study.row("Borg, until it slows down", mb(borg.rate_before_bytes_per_s) * (borg.cache_full_at_s or float("nan")) / 1e3)
    study.row("Borg, then", mb(borg.rate_after_bytes_per_s))


def random_writes(study: Study) -> None:
    study.section("Random writes once cleaning")
    [run] = study.runs([full("st8000as0002", MANAGED, f"random-write:size=4Ki,count={study.pick(400_000, 300_000)}")])
    study.row("writes", (run.verdict.rate_after_bytes_per_s or float("nan")) / 4096)


def rebuilds(study: Study) -> None:
    """A mirror whose second disk is new, scaled from a part of the drive."""
    study.section("Rebuilds")
    none = pl.DataFrame(schema={"op": pl.String, "lba": pl.Int64, "sectors": pl.Int64, "time_ns": pl.Int64})
    cases = {}
    for what, drive, size, rebuild in (
        ("RAID 1, 8 TB", "st8000as0002", 8e12, "disk=1,write=512KiB,window=32"),
        ("RAID-Z, 4 TB", "wd40efax", 4e12, "disk=1,order=scattered,record=44KiB,run=3MB,window=10"),
    ):
        part = smrkit.drives(drive)["raw_sectors"] // study.pick(100, 400) * 512
        for kind, layer in (("drive-managed", "as-sold"), ("conventional", "in-place")):
            array = study.file(
                f"{layer}.toml", f'level = "raid1"\n[[member]]\nlayer = "in-place"\n[[member]]\nlayer = "{layer}"\n'
            )
            run = {"drive": drive, "capacity": part, "array": array, "rebuild": rebuild, "requests": none}
            cases[f"{what}, {kind}"] = (size, run | {"arrival": "trace", "depth": 32, "prefill": "full"})
    for (item, (size, _)), run in zip(cases.items(), study.runs(run for _, run in cases.values())):
        study.row(item, round(run.rebuild.elapsed_ns / 3.6e12 * size / run.rebuild.bytes, 1))


def study(study: Study) -> None:
    for part in (described, host_managed, burst, backups, random_writes, rebuilds):
        part(study)
