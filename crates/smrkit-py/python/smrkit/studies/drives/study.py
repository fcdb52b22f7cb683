"""Measured drives: the validation traces of DiskSim 4.0 on the drives that its descriptions make, and public tests of shingled disks."""

import os
import random
from collections.abc import Iterable
from itertools import accumulate
from pathlib import Path
from statistics import fmean
from typing import Any

import polars as pl
import smrkit
from smrkit import Outcome
from smrkit.reproduce import Study, draw_curves, no_requests, read_mb_per_s, written_mb_per_s

#: The layer of disks of Seagate's kind, with its defaults rather than the drive's own parameters.
MANAGED = "drive-managed"
AS_SOLD = "as-sold"
#: Appended to a drive: every write is on the platters before it completes.
DURABLE = "@mechanical.write_cache_bytes=0"
MIB, GIB = 2**20, 2**30


def iops(run: Outcome) -> float:
    return float(run.requests / run.elapsed_ns * 1e9)


def or_nan(value: float | None) -> float:
    return float("nan") if value is None else float(value)


def writes_until_fall(run: Outcome) -> float:
    return or_nan(run.layer_stats.get("first_cleaning_request"))


def written_rates(run: Outcome) -> list[float]:
    """The bytes per second written in each window of the timeline. The last window is incomplete."""
    window_s = run.timeline.window_ns / 1e9
    return [written / window_s for written in run.timeline.written_bytes]


def on_full(drive: str, layer: str, workload: str, depth: int = 1) -> dict[str, Any]:
    """Arguments of a run on a full disk."""
    return {"drive": drive, "layer": layer, "workload": workload, "depth": depth, "prefill": "full"}


def flushed_writes(drive: str, offsets: Iterable[int], size: int) -> dict[str, Any]:
    """Arguments of a run on a full disk as sold: a write at each offset, and a flush after each write."""
    lbas = [lba for offset in offsets for lba in (offset // 512, 0)]
    count = len(lbas) // 2
    columns = {"op": ["write", "flush"] * count, "lba": lbas, "sectors": [size // 512, 0] * count, "time_ns": [0] * 2 * count}
    return {"drive": drive, "layer": AS_SOLD, "depth": 1, "prefill": "full", "requests": pl.DataFrame(columns)}


def random_chunks(study: Study, mib: int, drive: str = "st8000as0002") -> dict[str, Any]:
    """Arguments of a run that writes 60 GiB in chunks at random places, with a flush after each."""
    dice, size = random.Random(study.seed), mib * MIB
    return flushed_writes(drive, [dice.randrange(8 * 10**12 // size) * size for _ in range(60 * GIB // size)], size)


def described(study: Study) -> None:
    """Drives of the 1990s, from DiskSim's descriptions. These don't come with smrkit; without their folder the section only says so."""
    named = [Path(os.environ["SMRKIT_MEASURED"], "disksim")] if "SMRKIT_MEASURED" in os.environ else []
    folder = next((one for one in [*named, Path("measured/disksim"), Path("../shared/measured/disksim")] if one.is_dir()), None)
    if not folder:
        study.section("{drive}", drive="Response times")
        return study.say("Descriptions and traces are missing: give the folder that holds disksim/ in SMRKIT_MEASURED.")
    disksim_rms, validated = study.numbers["disksim"], study.command("drives", "validate", str(folder), "--json")
    for ours in validated:
        drive, rms = ours["drive"], ours["rms_ms"]
        study.section("{drive}", drive=drive)
        if drive in disksim_rms:
            study.row("rms", rms, value=rms - disksim_rms[drive], paper=disksim_rms[drive])
        study.row("mean", ours["mean_ours_ms"], paper=ours["mean_measured_ms"])
        # The paper's number is DiskSim's share on hp_c2490a.
        words: dict[str, Any] = {}
        if drive != "hp_c2490a":
            has_share = drive not in study.numbers["without_disksim_share"] and drive in disksim_rms
            why = "DiskSim itself is near chance on this drive" if has_share else "we have no share of DiskSim's for this drive"
            words = {"comparable": False, "paper": None, "why": why}
        share = 100 * ours["slow_reads_within_half_ms"] / max(1, ours["slow_reads"])
        study.row("reads over 3 ms within 0.5 ms", share, **words)
    names = [ours["drive"] for ours in validated]
    rms_by_origin = {"DiskSim": map(disksim_rms.get, names), "ours": (ours["rms_ms"] for ours in validated)}
    study.plot(
        "disksim",
        {origin: (names, rms) for origin, rms in rms_by_origin.items()},
        style="o",
        ylabel="rms from the measurement (ms)",
        ylim=(0, None),
    )


def host_managed(study: Study) -> None:
    study.section("The 15 TB host-managed disk")
    random_reads = f"random-read:size=256Ki,count={study.pick(20_000, 4000)}"
    reads, writes = (f"sequential-{op}:size=256Ki,bytes=1Gi" for op in ("read", "write"))
    random, read, written = study.runs(
        on_full("hc620", "in-place", workload, depth) for workload, depth in ((random_reads, 16), (reads, 8), (writes, 8))
    )
    study.row("random read, 16 outstanding", iops(random))
    study.row("random read, 50 %", random.latency_ns.all.p50 / 1e6)
    study.row("random read, 99 %", random.latency_ns.all.p99 / 1e6)
    study.row("sequential read, 8 outstanding", read_mb_per_s(read) * 1e6 / MIB)
    study.row("sequential write, 8 outstanding", written_mb_per_s(written) * 1e6 / MIB)


def chunks(study: Study) -> None:
    study.section("st8000as0002: random chunks")
    measured = {int(mib): row for mib, row in study.numbers["chunks"].items()}

    def curve_of(mib: int) -> pl.DataFrame:
        run = study.run(random_chunks(study, mib) | {"latencies": True})
        ends = pl.DataFrame(run.latencies).filter(pl.col("op") == "flush")["end_ns"]
        # As in the source: the rate of each write by itself, and an exponential mean of these rates.
        rate = mib * 1e9 / ends.diff().fill_null(ends[0])
        written = pl.Series([(at + 1) * mib * MIB / GIB for at in range(len(ends))])
        return pl.DataFrame({"gib": written, "ms": ends / 1e6, "rate": rate, "mean": rate.ewm_mean(alpha=0.05, adjust=False)})

    curves = dict(zip(measured, study.map(curve_of, measured)))
    for mib, curve in curves.items():
        first = curve.filter(pl.col("gib") <= 8)
        # The fall is where the exponential mean is first below half of the rate of the first 8 GiB.
        is_low = curve["mean"] < curve["rate"].head(8 * 1024 // mib).mean() / 2
        fall_gib = curve.filter(is_low & (curve["gib"] > 8))["gib"].min() or float("nan")
        after = curve.filter(pl.col("gib") > fall_gib + 3)
        by_time = (after["gib"][-1] - after["gib"][0]) * 1024 / (after["ms"][-1] - after["ms"][0]) * 1e3
        # The preset was fitted to two rates at first and two falls.
        basis = "fitted" if mib in (1, 16) else None
        rate_before, fall, rate_after = measured[mib]
        study.row("{mib} MiB, at first", first["rate"].mean(), paper=rate_before, basis=basis, mib=mib)
        study.row("{mib} MiB, until the fall", fall_gib, paper=fall, basis=basis, mib=mib)
        why = f"{by_time:.1f} by bytes over time"
        study.row("{mib} MiB, from then on", after["rate"].mean(), paper=rate_after, why=why, mib=mib)

    def draw(figure: Any) -> None:
        for ax, (mib, curve) in zip(figure.subplots(2, 2, sharex=True).flat, curves.items()):
            before, fall, after = measured[mib]
            drawn = curve.gather_every(max(1, len(curve) // 500))
            ax.plot([0, fall, fall, 60], [before, before, after, after], "k--", label="measured")
            ours = {"ours": (drawn["gib"], drawn["mean"])}
            draw_curves(ax, ours, style="-", title=f"{mib} MiB", xlabel="written (GiB)", ylabel="MiB/s", ylim=(0, 130))
            ax.legend()

    study.figure("st8000as0002", draw)


def durable_chunks(study: Study) -> None:
    study.section("st8000as0002: chunks as durable commands")
    durable = {mib: random_chunks(study, mib, "st8000as0002" + DURABLE) for mib in (2, 8, 32, 128, 256, 512, 1024)}
    runs = study.keyed_runs(durable | {"flushed": random_chunks(study, 1024)})
    fall_gib = lambda run: float("nan") if run.verdict.cache_full_at_s is None else run.verdict.before_bytes / GIB
    for mib in durable:
        # The source has no number for chunks of up to 32 MiB.
        is_measured = mib > 64
        paper = "around 32" if is_measured else None
        study.row("{mib} MiB, until the fall", fall_gib(runs[mib]), paper=paper, comparable=is_measured, mib=mib)
    study.row("1024 MiB, a flush after each, until the fall", fall_gib(runs["flushed"]))


def streams(study: Study) -> None:
    study.section("st8000as0002: streams")
    stream = lambda layer: on_full("st8000as0002", layer, "sequential-write:size=1Mi,count=102400")
    flushed_stream = flushed_writes("st8000as0002", range(0, 50 * GIB, MIB), MIB)
    sold, conventional, flushed = study.runs([stream(AS_SOLD), stream("in-place"), flushed_stream])
    study.row("stream", written_mb_per_s(sold) * 1e6 / MIB)
    study.row("stream, compared with a conventional disk", written_mb_per_s(sold) / written_mb_per_s(conventional))
    # By the last fifth the rate has long fallen.
    rates = written_rates(flushed)
    study.row("stream with flushes, last fifth", fmean(rates[len(rates) * 4 // 5 : -1]) / MIB)


def small_writes(study: Study) -> None:
    study.section("Small random writes")
    write = lambda drive, count: on_full(drive, AS_SOLD, f"random-write:size=4Ki,count={count}")
    archive, canvio = study.runs([write("st8000as0002", study.pick(400_000, 300_000)), write("mq04abf100", 150_000)])
    iops_after = lambda run: or_nan(run.verdict.rate_after_bytes_per_s) / 4096
    study.row("st8000as0002, until the fall", writes_until_fall(archive))
    study.row("st8000as0002, from then on", iops_after(archive))
    study.row("Canvio, at first", or_nan(canvio.verdict.rate_before_bytes_per_s) / 4096)
    # The preset has 1 TB, the measured Canvio 3 TB.
    study.row("Canvio, until the fall", 3 * writes_until_fall(canvio))
    study.row("Canvio, from then on", iops_after(canvio))
    study.row("Canvio, longest wait", (canvio.verdict.longest_stall_ns or 0) / 1e9)
    asked = ("--drive", "mq04abf100", "--workload", "random-write:size=4Ki,count=150k", "--depth", "1", "--json", "-")
    study.row("Canvio, rest until it has recovered", 3 * study.command("advise", *asked)["budget"]["rest_s"] / 3600)
    measured = {"st8000as0002": (250e3, [3]), "mq04abf100": (256e3 / 3, [46, 1.5])}

    def draw(figure: Any) -> None:
        for ax, run, (drive, (fall, rates)) in zip(figure.subplots(1, 2), (archive, canvio), measured.items()):
            window_s = run.timeline.window_ns / 1e9
            written = pl.Series(run.timeline.requests).cum_sum()
            ax.plot(written / 1e3, [max(count / window_s, 0.1) for count in run.timeline.requests], label="ours")
            ax.axvline(fall / 1e3, color="k", linestyle=":", label="measured fall")
            for rate in rates:
                ax.axhline(rate, color="k", linestyle="--")
            ax.set(title=drive, xlabel="writes (thousands)", ylabel="writes a second", yscale="log")
            ax.legend()

    study.figure("small-writes", draw)


def burst(study: Study) -> None:
    """Outstanding writes share entries of the log, so that more of them fit before cleaning begins."""
    study.section("The queued burst")
    writes = lambda count, depth: on_full("st5000as0011", MANAGED, f"random-write:size=4Ki,count={count}", depth)
    one, many = map(writes_until_fall, study.runs([writes(24_000, 1), writes(185_000, 31)]))
    study.row("31 outstanding, compared with one", many / one)
    study.row("writes, one outstanding", one)
    study.row("writes, 31 outstanding", many)


def trimmed(study: Study) -> None:
    study.section("wd40ndzw: random writes of a disk that was trimmed")
    job = lambda op, count: on_full("wd40ndzw", AS_SOLD, f"random-{op}:size=4Ki,span=1Gi,count={count}", 32)
    write, read = study.runs([job("write", "100k") | {"prefill": "none"}, job("read", "5k")])
    ours = {"random writes": written_mb_per_s(write), "random reads": read_mb_per_s(read)}
    study.row("random writes", ours["random writes"])
    study.row("random writes, compared with reads", ours["random writes"] / ours["random reads"])
    curves = {"measured": (ours, [12.0, 0.5]), "ours": (ours, ours.values())}
    study.plot("wd40ndzw", curves, style="o", ylabel="MB/s", yscale="log")


def filled_once(study: Study) -> None:
    """Random writes to a full and to a trimmed disk. With ``--quick``, to a quarter of it, with a quarter of the spare room."""
    study.section("wd20spzx: a disk that was filled once")
    capacity = smrkit.drives("wd20spzx")["raw_sectors"] // study.pick(1, 4) * 512
    workload = f"random-write:size=4Ki,count={study.pick(4_000_000, 1_000_000)}"
    job = on_full("wd20spzx", AS_SOLD, workload, 32) | {"capacity": capacity}
    full, empty = study.runs([job, job | {"prefill": "none"}])
    full_rates, empty_rates = ([rate / 1e6 for rate in written_rates(run)[:-1]] for run in (full, empty))
    in_the_end = fmean(full_rates[len(full_rates) // 2 :])
    study.row("full, at first", or_nan(full.verdict.rate_before_bytes_per_s) / 1e6)
    study.row("full, in the end", in_the_end)
    study.row("full, longest wait", full.latency_ns.all.max / 1e9)
    study.row("trimmed, compared with full in the end", written_mb_per_s(empty) / in_the_end)
    written_gb = lambda run: [written / 1e9 for written in accumulate(run.timeline.written_bytes[:-1])]
    study.plot(
        "wd20spzx",
        {"ours, full": (written_gb(full), full_rates), "ours, trimmed": (written_gb(empty), empty_rates)},
        style="-",
        guides={"measured, full, at first: 10": 10, "measured, full, in the end: under 1": 1},
        xlabel="written (GB)",
        ylabel="MB/s",
        yscale="log",
    )


def rebuilds(study: Study) -> None:
    """Fills the second disk of a mirror on a part of the drive. Hours are scaled to the bytes that the source's disk had to take."""
    study.section("Rebuilds")
    ascending, scattered = "disk=1,write=512KiB,window=32", "order=scattered,run=3MB,window=10"
    raidz, mirror = f"disk=1,new=full,record=44KiB,{scattered}", f"disk=1,record=128KiB,{scattered}"
    cases = {
        "ZFS mirror, st5000lm000": ("st5000lm000", AS_SOLD, 526e9, mirror),
        "RAID-Z, wd40efax": ("wd40efax", AS_SOLD, 3e12, raidz),
        "RAID-Z, conventional": ("wd40efax", "in-place", 3e12, raidz),
        "RAID 5 (md), wd40efax": ("wd40efax", AS_SOLD, 4e12, ascending),
        "RAID 5 (md), wd40efax, durable": ("wd40efax" + DURABLE, AS_SOLD, 4e12, ascending),
        "RAID 5 (md), conventional": ("wd40efax", "in-place", 4e12, ascending),
        "RAID 1 of 8 TB, st8000as0002": ("st8000as0002", AS_SOLD, 8e12, ascending),
        "RAID 1 of 8 TB, st8000as0002, durable": ("st8000as0002" + DURABLE, AS_SOLD, 8e12, ascending),
        "RAID 1 of 8 TB, conventional": ("st8000as0002", "in-place", 8e12, ascending),
    }
    jobs = {
        item: {
            "drive": drive,
            "capacity": smrkit.drives(drive)["raw_sectors"] // study.pick(50, 200) * 512,
            "array": f"raid1:member=(layer=in-place),member=(layer={layer})",
            "rebuild": rebuild,
            "requests": no_requests(),
            "arrival": "trace",
            "depth": 32,
            "prefill": "full",
        }
        for item, (drive, layer, _, rebuild) in cases.items()
    }
    runs = study.keyed_runs(jobs)
    ours = {}
    for item, (_, _, size, _) in cases.items():
        rebuild = runs[item].rebuild
        rate = rebuild.bytes / rebuild.elapsed_ns * 1e9
        # The source of the ZFS mirror has a rate, the others hours.
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
