"""Measured drives: the validation traces of DiskSim 4.0 on the drives that its descriptions make, and public tests of shingled disks."""

import os
import random
from pathlib import Path
from typing import Any

import polars as pl
import smrkit
from smrkit import Outcome
from smrkit.reproduce import Study

#: The layer of disks of Seagate's kind, where the drive's own is not meant.
MANAGED = "drive-managed"
AS_SOLD = "as-sold"
#: Every write is on the platters before it completes.
DURABLE = "@mechanical.write_cache_bytes=0"
GIB = 2**30


def iops(run: Outcome) -> float:
    return float(run.requests / run.elapsed_ns * 1e9)


def mb_per_s(run: Outcome) -> float:
    return float((run.host_read_sectors + run.host_written_sectors) * 512 / 1e6 / run.elapsed_ns * 1e9)


def mib_per_s(run: Outcome) -> float:
    return mb_per_s(run) * 1e6 / 2**20


def rates(run: Outcome, unit: float) -> list[float]:
    """What was written in each window of the timeline, in so many bytes a second."""
    window = run.timeline.window_ns / 1e9
    return [float(written) / window / unit for written in run.timeline.written_bytes]


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


def flushed(offsets: list[int], size: int) -> pl.DataFrame:
    """Writes at these offsets, with a flush after each."""
    lba = [at for offset in offsets for at in (offset // 512, 0)]
    count = len(offsets)
    return pl.DataFrame({"op": ["write", "flush"] * count, "lba": lba, "sectors": [size // 512, 0] * count, "time_ns": [0] * 2 * count})


def chunks_of(study: Study, mib: int, drive: str = "st8000as0002") -> dict[str, Any]:
    """60 GiB in chunks at random, with a flush after each."""
    drawn, size = random.Random(study.seed), mib * 2**20
    offsets = [drawn.randrange(8 * 10**12 // size) * size for _ in range(60 * GIB // size)]
    return full(drive, AS_SOLD, "") | {"workload": None, "requests": flushed(offsets, size)}


def chunks(study: Study) -> None:
    study.section("st8000as0002: random chunks")
    measured = {int(mib): row for mib, row in study.numbers["chunks"].items()}

    def write(mib: int) -> pl.DataFrame:
        size = mib * 2**20
        run = study.run(chunks_of(study, mib) | {"latencies": True})
        ends = pl.DataFrame(run.latencies).filter(pl.col("op") == "flush")["end_ns"]
        # As the source has it: the rate of each write by itself, and an exponential mean.
        rate = mib * 1e9 / ends.diff().fill_null(ends[0])
        gib = pl.Series([(at + 1) * size / GIB for at in range(len(ends))])
        return pl.DataFrame({"gib": gib, "ms": ends / 1e6, "rate": rate, "mean": rate.ewm_mean(alpha=0.05, adjust=False)})

    curves = dict(zip(measured, study.map(write, measured)))
    for mib, curve in curves.items():
        first, low = curve.filter(pl.col("gib") <= 8), curve["mean"] < curve["rate"].head(8 * 1024 // mib).mean() / 2
        fall = curve.filter(low & (curve["gib"] > 8))["gib"].min() or float("nan")
        then = curve.filter(pl.col("gib") > fall + 3)
        by_time = (then["gib"][-1] - then["gib"][0]) * 1024 / (then["ms"][-1] - then["ms"][0]) * 1e3
        ours = (first["rate"].mean(), fall, then["rate"].mean())
        fitted = ("fitted", "fitted", None) if mib in (1, 16) else (None, None, None)
        notes = ("", "", f"{by_time:.1f} by bytes over time")
        items = ("at first", "until the fall", "from then on")
        for item, value, paper, basis, why in zip(items, ours, measured[mib], fitted, notes):
            study.row(f"{{mib}} MiB, {item}", value, paper=paper, basis=basis, why=why, mib=mib)

    def draw(figure: Any) -> None:
        for ax, (mib, curve) in zip(figure.subplots(2, 2, sharex=True).flat, curves.items()):
            before, fall, after = measured[mib]
            drawn = curve.gather_every(max(1, len(curve) // 500))
            ax.plot(drawn["gib"], drawn["mean"], label="ours")
            ax.plot([0, fall, fall, 60], [before, before, after, after], "k--", label="measured")
            ax.set(title=f"{mib} MiB", xlabel="written (GiB)", ylabel="MiB/s", ylim=(0, 130))
            ax.legend()

    study.figure("st8000as0002", draw)


def durable_chunks(study: Study) -> None:
    study.section("st8000as0002: chunks as durable commands")
    sizes = (2, 8, 32, 128, 256, 512, 1024)
    *durable, flushed_after = study.runs([*(chunks_of(study, mib, "st8000as0002" + DURABLE) for mib in sizes), chunks_of(study, 1024)])
    fall = lambda run: float("nan") if run.verdict.cache_full_at_s is None else run.verdict.before_bytes / GIB
    for mib, run in zip(sizes, durable):
        told = mib > 64
        study.row("{mib} MiB, until the fall", fall(run), paper="around 32" if told else None, comparable=told, mib=mib)
    study.row("1024 MiB, a flush after each, until the fall", fall(flushed_after))


def streams(study: Study) -> None:
    study.section("st8000as0002: streams")
    stream = lambda layer: full("st8000as0002", layer, "sequential-write:size=1Mi,count=102400")
    synced = {"workload": None, "requests": flushed([at * 2**20 for at in range(50 * 1024)], 2**20)}
    sold, conventional, durable = study.runs([stream(AS_SOLD), stream("in-place"), full("st8000as0002", AS_SOLD, "") | synced])
    study.row("stream", mib_per_s(sold))
    study.row("stream, compared with a conventional disk", mib_per_s(sold) / mib_per_s(conventional))
    last = rates(durable, 2**20)[len(durable.timeline.written_bytes) * 4 // 5 : -1]
    study.row("stream with flushes, from the fall on", sum(last) / len(last))


def small_writes(study: Study) -> None:
    study.section("Small random writes")
    write = lambda drive, count: full(drive, AS_SOLD, f"random-write:size=4Ki,count={count}")
    archive, canvio = study.runs([write("st8000as0002", study.pick(400_000, 300_000)), write("mq04abf100", 150_000)])
    before = lambda run: float(run.layer_stats.get("first_cleaning_request", "nan"))
    after = lambda run: (run.verdict.rate_after_bytes_per_s or float("nan")) / 4096
    study.row("st8000as0002, until the fall", before(archive))
    study.row("st8000as0002, from then on", after(archive))
    study.row("Canvio, at first", (canvio.verdict.rate_before_bytes_per_s or float("nan")) / 4096)
    study.row("Canvio, until the fall", 3 * before(canvio))
    study.row("Canvio, from then on", after(canvio))
    study.row("Canvio, longest wait", (canvio.verdict.longest_stall_ns or 0) / 1e9)
    asked = ("--drive", "mq04abf100", "--workload", "random-write:size=4Ki,count=150k", "--depth", "1", "--json", "-")
    study.row("Canvio, rest until it has recovered", 3 * study.command("advise", *asked)["budget"]["rest_s"] / 3600)

    def draw(figure: Any) -> None:
        for ax, run, drive, (fall, first, then) in zip(
            figure.subplots(1, 2), (archive, canvio), ("st8000as0002", "mq04abf100"), ((250e3, None, 3), (256e3 / 3, 46, 1.5))
        ):
            window = run.timeline.window_ns / 1e9
            done = pl.Series(run.timeline.requests).cum_sum()
            ax.plot(done / 1e3, [max(count / window, 0.1) for count in run.timeline.requests], label="ours")
            ax.axvline(fall / 1e3, color="k", linestyle=":", label="measured fall")
            for rate in filter(None, (first, then)):
                ax.axhline(rate, color="k", linestyle="--")
            ax.set(title=drive, xlabel="writes (thousands)", ylabel="writes a second", yscale="log")
            ax.legend()

    study.figure("small-writes", draw)


def burst(study: Study) -> None:
    """Writes that come together share an entry of the log, so that more of them fit before cleaning begins."""
    study.section("The queued burst")
    writes = lambda count, depth: full("st5000as0011", MANAGED, f"random-write:size=4Ki,count={count}", depth)
    runs = study.runs([writes(24_000, 1), writes(185_000, 31)])
    one, many = (float(run.layer_stats.get("first_cleaning_request", "nan")) for run in runs)
    study.row("31 outstanding, compared with one", many / one)
    study.row("writes, one outstanding", one)
    study.row("writes, 31 outstanding", many)


def trimmed(study: Study) -> None:
    study.section("wd40ndzw: random writes of a disk that was trimmed")
    do = lambda what, count: full("wd40ndzw", AS_SOLD, f"random-{what}:size=4Ki,span=1Gi,count={count}", 32)
    write, read = study.runs([do("write", "100k") | {"prefill": "none"}, do("read", "5k")])
    ours = {"random writes": mb_per_s(write), "random reads": mb_per_s(read)}
    study.row("random writes", ours["random writes"])
    study.row("random writes, compared with reads", ours["random writes"] / ours["random reads"])

    def draw(figure: Any) -> None:
        ax, measured = figure.subplots(), {"random writes": 12.0, "random reads": 0.5}
        ax.plot(list(measured), list(measured.values()), "o", color="k", label="measured")
        ax.plot(list(ours), list(ours.values()), "s", label="ours")
        ax.set(ylabel="MB/s", yscale="log")
        ax.legend()

    study.figure("wd40ndzw", draw)


def filled_once(study: Study) -> None:
    """With ``--quick`` a quarter of the disk, which has a quarter of the spare room."""
    study.section("wd20spzx: a disk that was filled once")
    part = smrkit.drives("wd20spzx")["raw_sectors"] // study.pick(1, 4) * 512
    do = full("wd20spzx", AS_SOLD, f"random-write:size=4Ki,count={study.pick(4_000_000, 1_000_000)}", 32) | {"capacity": part}
    filled, empty = study.runs([do, do | {"prefill": "none"}])
    curves = {"full": rates(filled, 1e6)[:-1], "trimmed": rates(empty, 1e6)[:-1]}
    end = curves["full"][len(curves["full"]) // 2 :]
    last = sum(end) / len(end)
    study.row("full, at first", (filled.verdict.rate_before_bytes_per_s or float("nan")) / 1e6)
    study.row("full, in the end", last)
    study.row("full, longest wait", filled.latency_ns.all.max / 1e9)
    study.row("trimmed, compared with full in the end", mb_per_s(empty) / last)

    def draw(figure: Any) -> None:
        ax = figure.subplots()
        for run, (name, curve) in zip((filled, empty), curves.items()):
            written = pl.Series(run.timeline.written_bytes).cum_sum() / 1e9
            ax.plot(written[:-1], curve, label=f"ours, {name}")
        for rate in (10, 1):
            ax.axhline(rate, color="k", linestyle="--", label="measured, full: from 10 to under 1" if rate == 10 else None)
        ax.set(xlabel="written (GB)", ylabel="MB/s", yscale="log")
        ax.legend()

    study.figure("wd20spzx", draw)


def rebuilds(study: Study) -> None:
    """A mirror whose second disk is new, scaled from a part of the drive."""
    study.section("Rebuilds")
    none = pl.DataFrame(schema={"op": pl.String, "lba": pl.Int64, "sectors": pl.Int64, "time_ns": pl.Int64})
    ascending, scattered = "disk=1,write=512KiB,window=32", "order=scattered,run=3MB,window=10"
    zfs, mirror = f"disk=1,new=full,record=44KiB,{scattered}", f"disk=1,record=128KiB,{scattered}"
    cases = (
        ("ZFS mirror, st5000lm000", "st5000lm000", AS_SOLD, 526e9, mirror),
        ("RAID-Z, wd40efax", "wd40efax", AS_SOLD, 3e12, zfs),
        ("RAID-Z, conventional", "wd40efax", "in-place", 3e12, zfs),
        ("RAID 5 (md), wd40efax", "wd40efax", AS_SOLD, 4e12, ascending),
        ("RAID 5 (md), wd40efax, durable", "wd40efax" + DURABLE, AS_SOLD, 4e12, ascending),
        ("RAID 5 (md), conventional", "wd40efax", "in-place", 4e12, ascending),
        ("RAID 1 of 8 TB, st8000as0002", "st8000as0002", AS_SOLD, 8e12, ascending),
        ("RAID 1 of 8 TB, st8000as0002, durable", "st8000as0002" + DURABLE, AS_SOLD, 8e12, ascending),
        ("RAID 1 of 8 TB, conventional", "st8000as0002", "in-place", 8e12, ascending),
    )

    def run(case: tuple[str, str, str, float, str]) -> Outcome:
        _, drive, layer, _, rebuild = case
        array = f"raid1:member=(layer=in-place),member=(layer={layer})"
        part = smrkit.drives(drive)["raw_sectors"] // study.pick(50, 200) * 512
        own = {"capacity": part, "array": array, "rebuild": rebuild, "requests": none}
        return study.run({"drive": drive, "arrival": "trace", "depth": 32, "prefill": "full"} | own)

    ours = {}
    for (item, _, _, size, _), outcome in zip(cases, study.map(run, cases)):
        rate = outcome.rebuild.bytes / outcome.rebuild.elapsed_ns * 1e9
        ours[item] = rate / 1e6 if item.startswith("ZFS") else round(size / rate / 3600, 1)
        study.row(item, ours[item])

    def draw(figure: Any) -> None:
        ax, hours = figure.subplots(), {item: value for item, value in ours.items() if not item.startswith("ZFS")}
        [section] = [one for one in study.numbers["section"] if one["heading"] == "Rebuilds"]
        papers = {row["item"]: row["paper"] for row in section["rows"]}
        ax.barh(list(hours), list(hours.values()), label="ours")
        ax.plot([papers[item] for item in hours], list(hours), "o", color="k", label="measured")
        ax.set(xlabel="hours")
        ax.legend()

    study.figure("rebuilds", draw)


def zoned_xfs(study: Study) -> None:
    study.section("XFS on zones")
    study.row("gain", comparable=False)


def study(study: Study) -> None:
    for part in (described, host_managed, chunks, durable_chunks, streams, small_writes, burst, trimmed, filled_once, rebuilds, zoned_xfs):
        part(study)
