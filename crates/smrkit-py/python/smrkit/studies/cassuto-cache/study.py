"""Cassuto et al., "Indirection Systems for Shingled-Recording Disk Drives", MSST 2010, section IV: the set-associative disk cache."""

import math
import re
from datetime import timedelta
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Any

import polars as pl
import smrkit
from smrkit.reproduce import Spread, Study, falls, listed

REGION = 50_000
#: Cache regions of 1 % of the drive.
CACHES = 120
WINDOW_S = 10
#: Half of the requests write (assumption: "more write intensive"); 89 periods of the stand-in's places fit beside a cache of 10 %.
FIGURE_5 = "cassuto-pc:write_share=0.5,span=273408M"


def seconds(run: Any) -> float:
    return float(run.elapsed_ns / 1e9)


def costs(drive: str) -> tuple[float, float]:
    """The constant cost of a command in ms, and of a sector in µs."""
    value = {setting["key"]: setting["value"] for setting in smrkit.drives(drive)["settings"]}
    return float(value["constant.command_ms"]), float(value["constant.sector_us"])


def random_drive(study: Study, sector_us: float) -> Path:
    """cassuto-random with another cost of a sector."""
    text = re.sub("sector_us = { value = [0-9.]+", f"sector_us = {{ value = {sector_us}", smrkit.drive_file("cassuto-random"))
    return study.file(f"cassuto-random-{sector_us}.toml", text)


def accounting(study: Study) -> None:
    study.section("Table I: its own accounting")
    plain, cached, decoded = (study.numbers[key] for key in ("plain", "cached", "decoded"))
    command_ms, sector_us = costs("cassuto-table1")
    took = {}
    for name, of in (("plain", plain), ("cached", cached)):
        commands, sectors = of["reads"][0] + of["writes"][0], of["reads"][1] + of["writes"][1]
        took[name] = commands * command_ms / 1e3 + sectors * sector_us / 1e6
    adjusted = lambda sectors: sectors // 1000 + 1
    rewrites, collections = decoded["rewrites"], decoded["collections"]
    overloading = (cached["writes"][2] + cached["reads"][2] - plain["reads"][2]) / plain["writes"][2]
    # All read-backs but one fall a little short of a region: the next write did not fit.
    read_backs = adjusted(REGION) + (collections - 1) * adjusted(REGION - 1)
    study.row("adjusted commands of a region", adjusted(REGION))
    study.row("write overloading", overloading)
    study.row("slowdown", took["cached"] / took["plain"])
    study.row("total time, non-shingled", took["plain"])
    study.row("total time, set-associative", took["cached"])
    study.row("extra adjusted writes", rewrites * adjusted(REGION) + decoded["write_splits"])
    study.row("extra write commands", rewrites + decoded["write_splits"])
    study.row("extra adjusted reads", rewrites * adjusted(REGION) + read_backs + decoded["read_splits"])
    study.row("extra read commands", rewrites + collections + decoded["read_splits"])
    study.row("extra block reads", float((rewrites + collections) * REGION))
    study.row("extra block writes", float(rewrites * REGION))


def table1(study: Study) -> None:
    study.section("Table I: simulated")
    seeds = study.seeds(5, 2)
    pairs = [
        {"drive": "cassuto-table1", "layer": layer, "workload": "cassuto-pc", "seed": seed}
        for layer, seed in product(("in-place", "set-assoc"), seeds)
    ]
    runs = study.runs(pairs)
    plain, cached = runs[: len(seeds)], runs[len(seeds) :]
    columns = {
        "reads": lambda run: run.commands.physical_read,
        "writes": lambda run: run.commands.physical_write,
        "block reads": lambda run: run.physical_read_sectors.total,
        "block writes": lambda run: run.physical_written_sectors.total,
        "adjusted reads": lambda run: run.adjusted.physical_read,
        "adjusted writes": lambda run: run.adjusted.physical_write,
        "total time": seconds,
    }
    for name, of_layer in (("non-shingled", plain), ("set-associative", cached)):
        for what, value in columns.items():
            study.row(f"{what}, {name}", Spread.of(map(value, of_layer)))
    study.row("write overloading", Spread.of(run.write_overloading for run in cached))
    study.row("slowdown", Spread.of(seconds(slow) / seconds(fast) for fast, slow in zip(plain, cached)))
    study.row("regions rewritten", Spread.of(run.layer_stats.bands_cleaned for run in cached))
    study.row("collections", Spread.of(run.layer_stats.collections for run in cached))


def rewrite(study: Study) -> None:
    study.section("Pure read-modify-write")
    random = f"random-write:count={study.pick(10_000, 1000)}"
    table1 = {"drive": "cassuto-table1"}
    region = {"rmw.portion": "region", "rmw.region_sectors": REGION}
    rmw = table1 | {"layer": "rmw", "prefill": "sequential", "set": region}
    plain, slow, plain_pc, slow_pc, cached_pc = study.runs(
        [
            table1 | {"layer": "in-place", "workload": random},
            rmw | {"workload": random},
            table1 | {"layer": "in-place", "workload": "cassuto-pc"},
            rmw | {"workload": "cassuto-pc"},
            table1 | {"layer": "set-assoc", "workload": "cassuto-pc", "set": {"set-assoc.region_sectors": REGION}},
        ]
    )
    moved = lambda run: run.physical_read_sectors.total + run.physical_written_sectors.total
    command_ms, sector_us = costs("cassuto-table1")
    cost = lambda sectors: command_ms + sectors * sector_us / 1e3
    pc_time = seconds(slow_pc) / seconds(plain_pc)
    factors = {
        "4 KB writes, in sectors moved": moved(slow) / slow.host_written_sectors,
        "4 KB writes, in time": seconds(slow) / seconds(plain),
        "cassuto-pc, in sectors moved": (moved(slow_pc) - slow_pc.host_read_sectors) / slow_pc.host_written_sectors,
        "cassuto-pc, in time": pc_time,
        "cassuto-pc, write overloading": slow_pc.write_overloading,
    }
    for item, factor in factors.items():
        study.row(item, factor, value=math.log10(factor), orders=math.log10(factor), closed=2 * cost(REGION) / cost(8))
    cached = seconds(cached_pc) / seconds(plain_pc)
    study.row("cassuto-pc, slowdown without the cache to slowdown with it", pc_time / cached, without=pc_time, cached=cached)


def figure5(study: Study) -> None:
    seeds, percents = study.seeds(5, 2), study.pick(list(range(1, 11)), [1, 4, 7, 10])
    study.section("Figure 5: the cache's size", seeds=len(seeds))
    common = {"drive": "cassuto-table1", "workload": FIGURE_5}
    plain = study.runs(common | {"layer": "in-place", "seed": seed} for seed in seeds)
    sized = [
        common | {"layer": "set-assoc", "seed": seed, "set": {"set-assoc.cache_percent": size}}
        for size, seed in product(percents, seeds)
    ]
    runs = study.runs(sized)
    each = [runs[at : at + len(seeds)] for at in range(0, len(runs), len(seeds))]
    overloading = [fmean(run.write_overloading for run in of) for of in each]
    slowdown = [fmean(seconds(slow) / seconds(fast) for fast, slow in zip(plain, of)) for of in each]
    for name, curve in (("write overloading", overloading), ("slowdown", slowdown)):
        study.row(f"{name} as the cache grows", listed(curve, 2), agrees=all(b <= a for a, b in zip(curve, curve[1:])))
        bend = min(a - 2 * b + c for a, b, c in zip(curve, curve[1:], curve[2:])) / (max(curve) - min(curve))
        study.row(f"{name}: convex", f"{100 * bend:+.1f} %", value=bend)
    below = all(over < slow for over, slow in zip(overloading, slowdown))
    study.row("which curve lies below", "write overloading" if below else "not one throughout", agrees=below)
    study.row("write overloading at the least cache", overloading[0])
    study.row("slowdown at the least cache", slowdown[0])

    def draw(figure: Any) -> None:
        ax = figure.subplots()
        ax.plot(percents, overloading, "o-", label="write overloading")
        ax.plot(percents, slowdown, "s-", label="slowdown")
        ax.axhline(1, color="grey", linestyle=":", label="plain drive")
        ax.set(xlabel="Cache (% of the disk)", ylabel="Factor", title="Write overloading and slowdown against the cache's size")
        ax.legend()

    study.figure("figure-5", draw)


def first_collection(study: Study) -> None:
    study.section("Random writes: the first collection")
    seeds = study.seeds(5, 1)
    common = {"drive": "cassuto-random", "layer": "set-assoc", "workload": "random-write:count=750k"}
    for region in (50_000, 10_000):
        runs = study.runs(common | {"seed": seed, "set": {"set-assoc.region_sectors": region}} for seed in seeds)
        writes = Spread.of(run.layer_stats.first_cleaning_request for run in runs)
        off = 100 * (writes.mean / 750_000 - 1)
        study.row(f"writes before it, regions of {region:,}", writes, value=off, off=off)
        if region == 50_000:
            moment = Spread.of(run.verdict.cache_full_at_s for run in runs)
            study.row("moment of it", moment)
            study.row("IOPS until then", writes.mean / moment.mean)


def figures6to8(study: Study) -> None:
    end_s = study.pick(20_000, 12_000)
    study.section("Figures 6 to 8: random writes over time", end=end_s)
    drives = {"7.46": "cassuto-table1"} | {f"{us:g}": random_drive(study, us) for us in study.pick([4.9, 4.0, 3.0], [4.0])}
    common = {
        "layer": "set-assoc",
        "workload": "random-write:count=100M",
        "until": timedelta(seconds=end_s),
        "window": timedelta(seconds=WINDOW_S),
    }
    cases = list(product(drives, (50_000, 10_000)))
    runs = study.runs(common | {"drive": drives[cost], "set": {"set-assoc.region_sectors": region}} for cost, region in cases)
    windows, after, longest = {}, {}, {}
    for case, run in zip(cases, runs):
        requests = run.timeline.requests[: end_s // WINDOW_S]
        windows[case] = [count / WINDOW_S for count in requests] + [0.0] * (end_s // WINDOW_S - len(requests))
        after[case] = windows[case][math.ceil((run.verdict.cache_full_at_s or end_s) / WINDOW_S) :]
        longest[case] = run.latency_ns.all.max / 1e9
    share = lambda values, of: 100 * sum(map(of, values)) / len(values)
    for cost in drives:
        large, small = (cost, 50_000), (cost, 10_000)
        first, means = windows[large][0], [fmean(windows[small]), fmean(windows[large])]
        better = 100 * (means[0] / means[1] - 1)
        study.row(
            "{cost} µs: windows of 0 IOPS, regions of 50,000",
            share(after[large], lambda iops: iops == 0),
            cost=cost,
            longest=longest[large],
        )
        study.row("{cost} µs: windows under 50 IOPS, regions of 50,000", share(after[large], lambda iops: iops < 50), cost=cost)
        study.row(
            "{cost} µs: fastest window after the drop", max(after[large]), value=max(after[large]) / first, cost=cost, first=first
        )
        study.row(
            "{cost} µs: windows of 0 IOPS, regions of 10,000",
            share(after[small], lambda iops: iops == 0),
            cost=cost,
            longest=longest[small],
        )
        against = f"{means[0]:.0f} against {means[1]:.0f}"
        study.row("{cost} µs: mean IOPS, 10,000 against 50,000", against, value=better, cost=cost, better=better)

    def draw(figure: Any) -> None:
        # The cost of a sector that fits figures 6, 7 and 8 alike.
        of = {region: windows["4", region] for region in (50_000, 10_000)}
        times = [(at + 0.5) * WINDOW_S for at in range(end_s // WINDOW_S)]
        whole, *low = figure.subplots(3, sharex=True)
        whole.step(times, of[50_000], label="ours, 4 µs a sector")
        whole.plot([0, 780], [750_000 / 780] * 2, label="paper, derived from 780 s and the cache's size")
        whole.set(ylabel="IOPS", title="Figure 6: regions of 50,000 sectors")
        whole.legend()
        for ax, region, name in zip(low, of, ("Figure 7: the same, low IOPS", "Figure 8: regions of 10,000 sectors, low IOPS")):
            ax.plot(times, of[region], ".", markersize=2)
            ax.set(ylim=(-2, 300), ylabel="IOPS", title=name)
        low[0].axhline(50, color="grey", linestyle=":")
        low[1].set_xlabel("Time (s)")

    study.figure("figures-6-to-8", draw, size=(9, 9))


def filled_at_random(percent: int, capacity: int, seed: int, reads: pl.DataFrame) -> pl.DataFrame:
    """Random writes until each cache region has its share, without those for one that has, and then the reads."""
    room = REGION * percent // 100 // 8
    writes = pl.DataFrame(
        smrkit.trace.generate(f"random-write:count={max(1, CACHES * room * 3 // 2)}", capacity=capacity, seed=seed)
    )
    # Native region i is cached in region i mod M (section IV.A).
    taken = pl.int_range(pl.len()).over(pl.col("lba") // REGION % CACHES) < room
    writes = writes.filter(taken)
    assert len(writes) == CACHES * room
    return pl.concat([writes, reads]).drop("time_ns", "volume")


def figure9(study: Study) -> None:
    span, percents = study.pick((300, [0, 20, 40, 60, 80, 100]), (30, [0, 20, 100]))
    study.section("Figure 9: sequential reads", span=span)
    read = f"sequential-read:size=512Ki,bytes={span}000000000"
    common = {"drive": "cassuto-table1", "layer": "set-assoc", "set": {"set-assoc.region_sectors": REGION}}
    [plain] = study.runs([{"drive": "cassuto-table1", "layer": "in-place", "workload": read}])
    [empty] = study.runs([common | {"workload": "random-write:count=1"}])
    capacity = empty.capacity.host_sectors * 512
    reads = pl.DataFrame(smrkit.trace.generate(read, capacity=capacity))
    random = [
        common
        | {"requests": filled_at_random(percent, capacity, study.seed, reads), "warmup": CACHES * (REGION * percent // 100 // 8)}
        for percent in percents
    ]
    in_order = []
    for percent in percents:
        writes = CACHES * REGION * percent // 100 // 1024
        before = f"sequential-write:size=512Ki,count={writes};" if writes else ""
        in_order.append(common | {"workload": before + read, "warmup": writes})
    runs = study.runs(random + in_order)
    rate = lambda run: run.host_read_sectors * 512 * 1e3 / run.elapsed_ns
    at_random, ordered = ([rate(run) for run in of] for of in (runs[: len(percents)], runs[len(percents) :]))
    below = lambda value: 100 * (1 - value / rate(plain))
    words = {"fills": ", ".join(map(str, percents)), "plain": rate(plain)}
    is_quiet = all(run.layer_stats.collections == 0 for run in runs)
    worst = max(map(below, ordered))
    study.row("rate at fills of {fills} %, at random", listed(at_random, 1), agrees=falls(at_random) and is_quiet, **words)
    study.row("loss at {low} %, the lowest fill run, at random", below(at_random[1]), low=percents[1])
    study.row("loss with a full cache, at random", below(at_random[-1]))
    study.row("rate at fills of {fills} %, in order", listed(ordered, 1), value=worst, worst=worst, **words)

    def draw(figure: Any) -> None:
        ax = figure.subplots()
        ax.plot(percents, at_random, "o-", label="filled at random")
        ax.plot(percents, ordered, "s-", label="filled in order")
        ax.axhline(rate(plain), color="grey", linestyle=":", label="plain drive")
        ax.set(
            xlabel="Cache filled before (%)", ylabel="Sequential read (MB/s)", title="Sequential read against the cache's fill"
        )
        ax.legend()

    study.figure("figure-9", draw)


def study(study: Study) -> None:
    for part in (accounting, table1, rewrite, figure5, first_collection, figures6to8, figure9):
        part(study)
