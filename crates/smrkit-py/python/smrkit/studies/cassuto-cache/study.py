"""Cassuto et al., "Indirection Systems for Shingled-Recording Disk Drives", MSST 2010, section IV: the set-associative disk cache."""

import math
from datetime import timedelta
from itertools import product
from statistics import fmean
from typing import Any

import polars as pl
import smrkit
from smrkit.reproduce import Spread, Study, falls, listed, on_layer, read_mb_per_s, requests_by_window, seconds, with_sector_cost

#: Sectors of a region in Table I.
REGION = 50_000
TABLE_1 = {"drive": "cassuto-table1"}
#: The drive of Table I with its cache.
CACHED = TABLE_1 | on_layer("set-assoc", region_sectors=REGION)
#: Regions of a cache of 1 % of the drive.
CACHE_REGIONS = 120
WINDOW_S = 10
#: Half of the requests write (assumption: the paper says "more write intensive"). The span is 89 periods of cassuto-pc's addresses, the
#: most that fit beside a cache of 10 %.
FIGURE_5 = "cassuto-pc:write_share=0.5,span=273408M"
#: Places of the three counts in Table I, as numbers.toml has it.
COMMANDS, SECTORS, ADJUSTED = range(3)


def clock_costs(drive: str) -> tuple[float, float]:
    """The constant cost of a command in ms, and of a sector in µs."""
    value = {setting["key"]: setting["value"] for setting in smrkit.drives(drive)["settings"]}
    return float(value["constant.command_ms"]), float(value["constant.sector_us"])


def adjusted_commands(sectors: int) -> int:
    """Adjusted commands (section III.B) for a command of this length."""
    return sectors // 1000 + 1


def accounting(study: Study) -> None:
    """Recomputes Table I's factors, times and extra commands from its own counts."""
    study.section("Table I: its own accounting")
    plain, cached, decoded = (study.numbers[key] for key in ("plain", "cached", "decoded"))
    command_ms, sector_us = clock_costs("cassuto-table1")

    def total_s(counts: dict[str, Any]) -> float:
        commands, sectors = (counts["reads"][count] + counts["writes"][count] for count in (COMMANDS, SECTORS))
        return commands * command_ms / 1e3 + sectors * sector_us / 1e6

    extra_adjusted = cached["writes"][ADJUSTED] + cached["reads"][ADJUSTED] - plain["reads"][ADJUSTED]
    rewrites, collections = decoded["rewrites"], decoded["collections"]
    # All read-backs but one fall a little short of a region, because the next write did not fit into the cache region.
    read_backs = adjusted_commands(REGION) + (collections - 1) * adjusted_commands(REGION - 1)
    study.row("adjusted commands of a region", adjusted_commands(REGION))
    study.row("write overloading", extra_adjusted / plain["writes"][ADJUSTED])
    study.row("slowdown", total_s(cached) / total_s(plain))
    study.row("total time, non-shingled", total_s(plain))
    study.row("total time, set-associative", total_s(cached))
    study.row("extra adjusted writes", rewrites * adjusted_commands(REGION) + decoded["write_splits"])
    study.row("extra write commands", rewrites + decoded["write_splits"])
    study.row("extra adjusted reads", rewrites * adjusted_commands(REGION) + read_backs + decoded["read_splits"])
    study.row("extra read commands", rewrites + collections + decoded["read_splits"])
    study.row("extra block reads", float((rewrites + collections) * REGION))
    study.row("extra block writes", float(rewrites * REGION))


def table1(study: Study) -> None:
    study.section("Table I: simulated")
    seeds = study.seeds(5, 2)
    runs = study.keyed_runs(
        {
            (layer, seed): TABLE_1 | {"layer": layer, "workload": "cassuto-pc", "seed": seed}
            for layer, seed in product(("in-place", "set-assoc"), seeds)
        }
    )
    plain, cached = ([runs[layer, seed] for seed in seeds] for layer in ("in-place", "set-assoc"))
    columns = {
        "reads": lambda run: run.commands.physical_read,
        "writes": lambda run: run.commands.physical_write,
        "block reads": lambda run: run.physical_read_sectors.total,
        "block writes": lambda run: run.physical_written_sectors.total,
        "adjusted reads": lambda run: run.adjusted.physical_read,
        "adjusted writes": lambda run: run.adjusted.physical_write,
        "total time": seconds,
    }
    for disk, of_disk in (("non-shingled", plain), ("set-associative", cached)):
        for column, value in columns.items():
            study.row(f"{column}, {disk}", Spread.of(map(value, of_disk)))
    study.row("write overloading", Spread.of(run.write_overloading for run in cached))
    study.row("slowdown", Spread.of(seconds(slow) / seconds(fast) for fast, slow in zip(plain, cached)))
    study.row("regions rewritten", Spread.of(run.layer_stats.bands_cleaned for run in cached))
    study.row("collections", Spread.of(run.layer_stats.collections for run in cached))


def rewrite(study: Study) -> None:
    study.section("Pure read-modify-write")
    random = f"random-write:count={study.pick(10_000, 1000)}"
    plain = TABLE_1 | on_layer("in-place")
    rmw = TABLE_1 | on_layer("rmw", portion="region", region_sectors=REGION) | {"prefill": "sequential"}
    jobs = [(plain, random), (rmw, random), (plain, "cassuto-pc"), (rmw, "cassuto-pc"), (CACHED, "cassuto-pc")]
    plain_random, rmw_random, plain_pc, rmw_pc, cached_pc = study.runs(disk | {"workload": workload} for disk, workload in jobs)
    moved = lambda run: run.physical_read_sectors.total + run.physical_written_sectors.total
    rmw_slowdown, cached_slowdown = (seconds(run) / seconds(plain_pc) for run in (rmw_pc, cached_pc))
    factors = {
        "4 KB writes, in sectors moved": moved(rmw_random) / rmw_random.host_written_sectors,
        "4 KB writes, in time": seconds(rmw_random) / seconds(plain_random),
        "cassuto-pc, in sectors moved": (moved(rmw_pc) - rmw_pc.host_read_sectors) / rmw_pc.host_written_sectors,
        "cassuto-pc, in time": rmw_slowdown,
        "cassuto-pc, write overloading": rmw_pc.write_overloading,
    }
    command_ms, sector_us = clock_costs("cassuto-table1")
    command_time = lambda sectors: command_ms + sectors * sector_us / 1e3
    closed_form = 2 * command_time(REGION) / command_time(8)
    for item, factor in factors.items():
        study.row(item, factor, value=math.log10(factor), orders=math.log10(factor), closed=closed_form)
    item = "cassuto-pc, slowdown without the cache to slowdown with it"
    study.row(item, rmw_slowdown / cached_slowdown, without=rmw_slowdown, cached=cached_slowdown)


def figure5(study: Study) -> None:
    seeds, percents = study.seeds(5, 2), study.pick(list(range(1, 11)), [1, 4, 7, 10])
    study.section("Figure 5: the cache's size", seeds=len(seeds))
    common = TABLE_1 | {"workload": FIGURE_5}
    plain = study.keyed_runs({seed: common | on_layer("in-place") | {"seed": seed} for seed in seeds})
    with_cache = lambda percent, seed: common | on_layer("set-assoc", cache_percent=percent) | {"seed": seed}
    cached = study.keyed_runs({case: with_cache(*case) for case in product(percents, seeds)})
    overloading = [fmean(cached[percent, seed].write_overloading for seed in seeds) for percent in percents]
    slowdown = [fmean(seconds(cached[percent, seed]) / seconds(plain[seed]) for seed in seeds) for percent in percents]
    for name, curve in (("write overloading", overloading), ("slowdown", slowdown)):
        study.row(f"{name} as the cache grows", listed(curve, 2), agrees=all(b <= a for a, b in zip(curve, curve[1:])))
        # A curve is convex if no second difference is negative. Dividing by the curve's range makes both curves comparable.
        least_bend = min(a - 2 * b + c for a, b, c in zip(curve, curve[1:], curve[2:])) / (max(curve) - min(curve))
        study.row(f"{name}: convex", f"{100 * least_bend:+.1f} %", value=least_bend)
    is_below = all(over < slow for over, slow in zip(overloading, slowdown))
    study.row("lower curve", "write overloading" if is_below else "they cross", agrees=is_below)
    study.row("write overloading at the least cache", overloading[0])
    study.row("slowdown at the least cache", slowdown[0])
    study.plot(
        "figure-5",
        {"write overloading": (percents, overloading), "slowdown": (percents, slowdown)},
        guides={"plain drive": 1},
        xlabel="Cache (% of the disk)",
        ylabel="Factor",
        title="Write overloading and slowdown against the cache's size",
    )


def first_collection(study: Study) -> None:
    study.section("Random writes: the first collection")
    seeds = study.seeds(5, 1)
    for region in (50_000, 10_000):
        writes_750k = {"drive": "cassuto-random", "workload": "random-write:count=750k"} | on_layer("set-assoc", region_sectors=region)
        runs = study.runs(writes_750k | {"seed": seed} for seed in seeds)
        writes = Spread.of(run.layer_stats.first_cleaning_request for run in runs)
        off = 100 * (writes.mean / 750_000 - 1)
        study.row(f"writes before it, regions of {region:,}", writes, value=off, off=off)
        if region == 50_000:
            first_wait_s = Spread.of(run.verdict.cache_full_at_s for run in runs)
            study.row("time until it", first_wait_s)
            study.row("IOPS until then", writes.mean / first_wait_s.mean)


def figures6to8(study: Study) -> None:
    """Random writes over time, for several costs of a sector (as row names have them) and two region sizes."""
    end_s = study.pick(20_000, 12_000)
    study.section("Figures 6 to 8: random writes over time", end=end_s)
    drives: dict[str, Any] = {"7.46": "cassuto-table1"}
    for sector_us in study.pick([4.9, 4.0, 3.0], [4.0]):
        name, text = f"cassuto-random-{sector_us}.toml", with_sector_cost("cassuto-random", sector_us)
        drives[f"{sector_us:g}"] = study.file(name, text)
    common = {"workload": "random-write:count=100M", "until": timedelta(seconds=end_s), "window": timedelta(seconds=WINDOW_S)}
    job = lambda cost, region: common | {"drive": drives[cost]} | on_layer("set-assoc", region_sectors=region)
    runs = study.keyed_runs({case: job(*case) for case in product(drives, (50_000, 10_000))})
    windows = end_s // WINDOW_S
    iops, iops_after_drop = {}, {}
    for case, run in runs.items():
        iops[case] = [count / WINDOW_S for count in requests_by_window(run, windows)]
        iops_after_drop[case] = iops[case][math.ceil((run.verdict.cache_full_at_s or end_s) / WINDOW_S) :]
    percent_of = lambda values, holds: 100 * sum(map(holds, values)) / len(values)
    longest_s = lambda case: runs[case].latency_ns.all.max / 1e9
    for cost in drives:
        large, small = (cost, 50_000), (cost, 10_000)
        for case, region in ((large, "50,000"), (small, "10,000")):
            silent = percent_of(iops_after_drop[case], lambda rate: rate == 0)
            study.row(f"{{cost}} µs: windows of 0 IOPS, regions of {region}", silent, cost=cost, longest=longest_s(case))
        slow = percent_of(iops_after_drop[large], lambda rate: rate < 50)
        study.row("{cost} µs: windows under 50 IOPS, regions of 50,000", slow, cost=cost)
        fastest, first = max(iops_after_drop[large]), iops[large][0]
        study.row("{cost} µs: fastest window after the drop", fastest, value=fastest / first, cost=cost, first=first)
        small_mean, large_mean = fmean(iops[small]), fmean(iops[large])
        better, against = 100 * (small_mean / large_mean - 1), f"{small_mean:.0f} against {large_mean:.0f}"
        study.row("{cost} µs: mean IOPS, 10,000 against 50,000", against, value=better, cost=cost, better=better)

    def draw(figure: Any) -> None:
        # 4 µs a sector is the cost with which figures 6, 7 and 8 all hold.
        large, small = iops["4", 50_000], iops["4", 10_000]
        times = [(at + 0.5) * WINDOW_S for at in range(windows)]
        whole, *low = figure.subplots(3, sharex=True)
        whole.step(times, large, label="ours, 4 µs a sector")
        whole.plot([0, 780], [750_000 / 780] * 2, label="paper, derived from 780 s and the cache's size")
        whole.set(ylabel="IOPS", title="Figure 6: regions of 50,000 sectors")
        whole.legend()
        titles = ("Figure 7: the same, low IOPS", "Figure 8: regions of 10,000 sectors, low IOPS")
        for ax, curve, title in zip(low, (large, small), titles):
            ax.plot(times, curve, ".", markersize=2)
            ax.set(ylim=(-2, 300), ylabel="IOPS", title=title)
        low[0].axhline(50, color="grey", linestyle=":")
        low[1].set_xlabel("Time (s)")

    study.figure("figures-6-to-8", draw, size=(9, 9))


def filled_at_random(percent: int, capacity: int, seed: int, reads: pl.DataFrame) -> tuple[pl.DataFrame, int]:
    """Random 4 KB writes that fill each cache region to the same percentage, then the reads. Returns them, and the number of writes."""
    writes_per_region = REGION * percent // 100 // 8
    # Half as many again as are needed, so that every region gets its share.
    generated = max(1, CACHE_REGIONS * writes_per_region * 3 // 2)
    writes = pl.DataFrame(smrkit.trace.generate(f"random-write:count={generated}", capacity=capacity, seed=seed))
    # Native region i is cached in region i mod M (section IV.A). Writes beyond a cache region's share are left out.
    earlier_in_region = pl.int_range(pl.len()).over(pl.col("lba") // REGION % CACHE_REGIONS)
    writes = writes.filter(earlier_in_region < writes_per_region)
    assert len(writes) == CACHE_REGIONS * writes_per_region
    return pl.concat([writes, reads]).drop("time_ns", "volume"), len(writes)


def figure9(study: Study) -> None:
    span, percents = study.pick((300, [0, 20, 40, 60, 80, 100]), (30, [0, 20, 100]))
    study.section("Figure 9: sequential reads", span=span)
    read = f"sequential-read:size=512Ki,bytes={span}000000000"
    plain, empty = study.runs([TABLE_1 | on_layer("in-place") | {"workload": read}, CACHED | {"workload": "random-write:count=1"}])
    capacity = empty.capacity.host_sectors * 512
    reads = pl.DataFrame(smrkit.trace.generate(read, capacity=capacity))
    jobs: dict[tuple[str, int], dict[str, Any]] = {}
    for percent in percents:
        requests, writes = filled_at_random(percent, capacity, study.seed, reads)
        jobs["at random", percent] = CACHED | {"requests": requests, "warmup": writes}
        writes = CACHE_REGIONS * REGION * percent // 100 // 1024
        fill = f"sequential-write:size=512Ki,count={writes};" if writes else ""
        jobs["in order", percent] = CACHED | {"workload": fill + read, "warmup": writes}
    runs = study.keyed_runs(jobs)
    at_random, in_order = ([read_mb_per_s(runs[fill, percent]) for percent in percents] for fill in ("at random", "in order"))
    loss_percent = lambda rate: 100 * (1 - rate / read_mb_per_s(plain))
    words = {"fills": ", ".join(map(str, percents)), "plain": read_mb_per_s(plain)}
    # A collection while the reads are measured would be another reason for a loss.
    is_quiet = all(run.layer_stats.collections == 0 for run in runs.values())
    study.row("rate at fills of {fills} %, at random", listed(at_random, 1), agrees=falls(at_random) and is_quiet, **words)
    study.row("loss at {low} %, the lowest fill that was run, at random", loss_percent(at_random[1]), low=percents[1])
    study.row("loss with a full cache, at random", loss_percent(at_random[-1]))
    worst = max(map(loss_percent, in_order))
    study.row("rate at fills of {fills} %, in order", listed(in_order, 1), value=worst, worst=worst, **words)
    study.plot(
        "figure-9",
        {"filled at random": (percents, at_random), "filled in order": (percents, in_order)},
        guides={"plain drive": read_mb_per_s(plain)},
        xlabel="Cache filled before (%)",
        ylabel="Sequential read (MB/s)",
        title="Sequential read against the cache's fill",
    )


def study(study: Study) -> None:
    for part in (accounting, table1, rewrite, figure5, first_collection, figures6to8, figure9):
        part(study)
