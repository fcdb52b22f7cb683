"""Cassuto et al., "Indirection Systems for Shingled-Recording Disk Drives", MSST 2010, section V: S-blocks."""

from dataclasses import dataclass
from datetime import timedelta
from statistics import correlation, fmean
from typing import Any

import polars as pl
from smrkit import Outcome
from smrkit.reproduce import (
    Study, falls, latency_cdf, listed, on_layer, read_mb_per_s, requests_by_window, with_sector_cost, written_mb_per_s,
)

#: A cost of a sector with which figure 13's 50 ms are nearer (derived: they need about 2.5 to 5 µs).
FASTER_US = 2.5


def on_sblocks(workload: str = "random-write:count=100M", **parameters: Any) -> dict[str, Any]:
    """Arguments of a run of s-block on cassuto-random."""
    return {"drive": "cassuto-random", "workload": workload} | on_layer("s-block", **parameters)


def until(end_s: int) -> dict[str, Any]:
    """Arguments that end a run after ``end_s``, with a timeline in windows of 1 s."""
    return {"until": timedelta(seconds=end_s), "window": timedelta(seconds=1)}


def longest_ms(run: Outcome) -> float:
    return float(run.latency_ns.write.max / 1e6)


@dataclass
class IopsCurve:
    """Requests in each second of a run; the drop is the first second in which a write waits for cleaning."""

    iops: list[int]
    drop: int

    @classmethod
    def of_run(cls, run: Outcome, end_s: int) -> "IopsCurve":
        drop = run.verdict.cache_full_at_s
        return cls(requests_by_window(run, end_s), min(end_s, end_s if drop is None else int(drop)))

    @property
    def after(self) -> list[int]:
        """The whole seconds after the drop."""
        return self.iops[self.drop + 1 :]

    def means(self, length_s: int, step_s: int | None = None) -> list[float]:
        """Means over stretches after the drop: one stretch behind the other, unless they begin every ``step_s``."""
        begins = range(0, len(self.after) - length_s + 1, step_s or length_s)
        return [fmean(self.after[begin : begin + length_s]) for begin in begins]

    def smoothed(self, length_s: int, step_s: int | None = None) -> tuple[list[int], list[float]]:
        """The means of :meth:`means`, after the second in the middle of each stretch."""
        means = self.means(length_s, step_s)
        return [self.drop + 1 + length_s // 2 + (step_s or length_s) * at for at in range(len(means))], means

    def last(self, length_s: int) -> float:
        return fmean(self.after[-length_s:])

    def silent(self) -> int:
        """Seconds after the drop in which no request completed."""
        return self.after.count(0)


def figure12(study: Study) -> None:
    end_s = study.pick(1200, 1000)
    study.section("Figures 12 and 13: random writes, closest to the tail", end=end_s)
    faster = study.file("cassuto-random-faster.toml", with_sector_cost("cassuto-random", FASTER_US))
    run, faster_run = study.runs([on_sblocks() | until(end_s), on_sblocks() | until(end_s) | {"drive": faster}])
    curve, faster_curve = IopsCurve.of_run(run, end_s), IopsCurve.of_run(faster_run, end_s)
    before = curve.iops[: curve.drop]
    level, means = fmean(before), curve.means(40)
    off = max(100 * abs(iops / level - 1) for iops in before)
    # Spearman's rank correlation: equal windows share their rank.
    ranks = pl.Series(curve.after).rank("average").to_list()
    rank_correlation = correlation(range(len(ranks)), ranks)
    study.row("IOPS before the drop", level, value=off, off=off)
    study.row("time until the drop", curve.drop)
    study.row("IOPS after the drop, first 40 s", means[0])
    study.row("IOPS from the drop on: rank correlation with time", rank_correlation, means=listed(means))
    study.row("windows of 0 IOPS after the drop", curve.silent())
    study.row("plateau, the last 40 s", curve.last(40))
    study.row("plateau at 2.5 µs a sector", faster_curve.last(40))
    study.row("figure 13: longest write", longest_ms(run))
    study.row("figure 13: longest write at 2.5 µs a sector", longest_ms(faster_run))
    study.row("memory of the maps", run.map_bytes)

    def draw(figure: Any) -> None:
        for ax, begin, title in zip(figure.subplots(2), (0, curve.drop + 1), ("The whole run", "After the drop")):
            ax.step(range(begin, end_s), curve.iops[begin:], label="ours")
            ax.set(xlabel="Time (s)", ylabel="IOPS", title=title)
        for paper in (50, 80):
            ax.axhline(paper, color="grey", linestyle=":", label=f"paper: around {paper}")
        ax.legend()

    study.figure("figure-12", draw)


def policies(study: Study) -> None:
    # Long enough to use up the spare S-blocks.
    end_s, chosen = study.pick(
        (1600, ["closest-to-tail", "largest", "cache-tail", "weighted"]), (1200, ["closest-to-tail", "largest"])
    )
    # Long enough for a write that finds few invalid slots ahead of the tail, and has to move hundreds of S-blocks.
    literal_s = 4500
    study.section("Figures 13 and 14: destage policies", end=end_s, literal=literal_s)
    jobs = {policy: on_sblocks(policy=policy) | until(end_s) for policy in chosen}
    for policy in ("closest-to-tail", "largest"):
        jobs[f"{policy}, moves=literal"] = on_sblocks(policy=policy, moves="literal") | until(literal_s)
    runs = study.keyed_runs(jobs)
    closest_literal, largest_literal = runs["closest-to-tail, moves=literal"], runs["largest, moves=literal"]
    moved = {
        name: f"{run.layer_stats.sblocks_moved:,} S-blocks moved for {run.layer_stats.destages:,} destages"
        for name, run in runs.items()
    }
    closest, largest = longest_ms(runs["closest-to-tail"]), longest_ms(runs["largest"])
    by_far = 20 * closest <= largest
    longest_ns = list(largest_literal.timeline.longest_ns)
    longest_by = {f"by_{end}": max(longest_ns[:end]) / 1e9 for end in (1000, 1200, 2000, 3000)}
    study.row("figure 14, moves=literal: longest write of largest", longest_ms(largest_literal) / 1e3, **longest_by)
    study.row("figure 13, moves=literal: longest write of closest-to-tail", longest_ms(closest_literal))
    study.row("largest: longest write", largest / 1e3, moved=moved["largest"])
    study.row("longest write, largest to closest-to-tail", largest / closest)
    item, ours = "which policy has the shorter longest write", "closest-to-tail, by far" if by_far else "not by far"
    study.row(item, ours, agrees=by_far, moved=moved["closest-to-tail"])
    for policy in chosen:
        last = IopsCurve.of_run(runs[policy], end_s).last(200)
        words = {"policy": policy, "longest": longest_ms(runs[policy]), "moved": moved[policy]}
        study.row("{policy}: IOPS in the last 200 s", last, **words)

    def draw(figure: Any) -> None:
        ax = figure.subplots()
        for name, run in runs.items():
            latencies_s, shares = latency_cdf(run.latency_histogram.write)
            ax.step([1e3 * latency_s for latency_s in latencies_s], [1 - share for share in shares], label=name)
        ax.set(xscale="log", yscale="log", xlabel="Time of a write (ms)", ylabel="Writes that took longer")
        ax.legend()

    study.figure("figures-13-and-14", draw)


def literal(study: Study) -> None:
    """Destages only when no slot is invalid, as algorithm V.2 has it."""
    end_s, section_counts = study.pick((1600, [1, 10, 100, 1000]), (1200, [1, 100]))
    study.section("Algorithm V.2 to the letter", end=end_s)
    jobs = {
        f"{count:,} section{'s' if count > 1 else ''}": on_sblocks(sections=count, rule="literal") | until(end_s)
        for count in section_counts
    }
    *runs, entries = study.runs([*jobs.values(), on_sblocks(sections=1, copy="entries") | until(end_s)])
    curves = {sections: IopsCurve.of_run(run, end_s) for sections, run in zip(jobs, runs)}
    for (sections, curve), run in zip(curves.items(), runs):
        means, last = curve.means(100), curve.last(100)
        # The paper's curve has no silent window, does not fall after the drop, and ends at about 80.
        holds = curve.silent() == 0 and last >= means[0] and last > 60
        words = {"sections": sections, "silent": curve.silent(), "least": min(means), "longest": longest_ms(run) / 1e3}
        study.row("literal rule, {sections}: plateau of about 80 without windows of 0", last, agrees=holds, **words)
    study.row("entries copied one by one", fmean(IopsCurve.of_run(entries, end_s).after))
    study.plot(
        "literal-rule",
        {sections: curve.smoothed(10) for sections, curve in curves.items()},
        style="-",
        guides={"paper: around 80": 80},
        ylim=(0, 150),
        xlabel="Time (s)",
        ylabel="IOPS, means of 10 s",
    )


def destage_ahead(study: Study) -> None:
    end_s, counts = 1000, (1, 2, 4, 8)
    study.section("Destaging ahead")
    runs = study.runs(on_sblocks(destage_at_once=count) | until(end_s) for count in counts)
    curves = [IopsCurve.of_run(run, end_s) for run in runs]
    means_of_5_s = [curve.means(5, step_s=1) for curve in curves]
    rises = [next((second for second, iops in enumerate(means) if iops >= 72), float("inf")) for means in means_of_5_s]
    lowest = [min(means) for means in means_of_5_s]
    study.row("seconds until 72 IOPS", listed(rises), agrees=falls(rises))
    study.row("lowest 5 s", listed(lowest), agrees=falls(lowest))
    study.plot(
        "destaging-ahead",
        {f"{count} at once": curve.smoothed(5, step_s=1) for count, curve in zip(counts, curves)},
        style="-",
        xlabel="Time (s)",
        ylabel="IOPS, means of 5 s",
    )


def figure9(study: Study) -> None:
    span, percents = study.pick((300, [0, 20, 40, 60, 80, 100]), (30, [0, 20, 100]))
    study.section("Figure 9's test: sequential reads", span=span)
    read = f"sequential-read:size=512Ki,bytes={span}000000000"
    jobs = []
    # The second number is of the writes that fill the cache buffer of 6,000,000 sectors.
    for fill, full in (("random-write:size=4Ki", 750_000), ("sequential-write:size=512Ki", 750_000 * 8 // 1024)):
        for writes in (full * percent // 100 for percent in percents):
            jobs.append(on_sblocks(f"{fill},count={writes};{read}" if writes else read) | {"warmup": writes})
    plain, *runs = map(read_mb_per_s, study.runs([{"drive": "cassuto-random", "layer": "in-place", "workload": read}, *jobs]))
    at_random, in_order = runs[: len(percents)], runs[len(percents) :]
    loss_percent = lambda rate: 100 * (1 - rate / plain)
    worst = max(map(loss_percent, in_order))
    words = {"fills": ", ".join(map(str, percents)), "plain": plain}
    study.row("rate at fills of {fills} %, at random", listed(at_random, 1), agrees=falls(at_random), **words)
    study.row("rate at fills of {fills} %, in order", listed(in_order, 1), value=worst, worst=worst, **words)
    study.row("loss with an empty cache buffer", loss_percent(at_random[0]))
    study.plot(
        "figure-9",
        {"filled at random": (percents, at_random), "filled in order": (percents, in_order)},
        guides={"plain drive": plain},
        xlabel="Cache buffer filled before (%)",
        ylabel="Sequential read (MB/s)",
    )


def sections(study: Study) -> None:
    study.section("Sections, and writes of whole S-blocks")
    # The first of 100 sections has 2.9 GB.
    fill_first = "random-write:span=2900M,count=12k"
    to_first, to_others = "random-write:span=2900M,count=3k", "random-write:start=10G,span=280G,count=3k"
    whole = "sequential-write:size=1024000,count=2k"
    runs = study.runs(
        [
            on_sblocks(to_others, sections=100),
            on_sblocks(f"{fill_first};{to_others}", sections=100) | {"warmup": 12_000},
            on_sblocks(f"{fill_first};{to_first}", sections=100) | {"warmup": 12_000},
            {"drive": "cassuto-random", "workload": whole} | on_layer("in-place"),
            on_sblocks(whole),
            on_sblocks(whole, bypass="off"),
        ]
    )
    fresh, others, full = (run.requests / (run.elapsed_ns / 1e9) for run in runs[:3])
    plain, bypass, cached = map(written_mb_per_s, runs[3:])
    off, below = 100 * (others / fresh - 1), 100 * (1 - bypass / plain)
    study.row("other sections while one is full", others, value=off, off=off, fresh=fresh)
    study.row("the full section itself", full, value=full / fresh)
    study.row("whole S-blocks in order", bypass, value=below, below=below, plain=plain, cached=cached)


def sizes(study: Study) -> None:
    study.section("The size of S-blocks")
    runs = study.runs(on_sblocks(sblock_sectors=sectors) | until(1200) for sectors in (500, 1000, 2000, 4000))
    last = [IopsCurve.of_run(run, 1200).last(200) for run in runs]
    memory = [run.map_bytes / 1e6 for run in runs]
    study.row("IOPS in the last 200 s", listed(last), agrees=falls(last))
    study.row("memory of the maps", listed(memory), agrees=falls(memory))
    study.row("longest write", listed(map(longest_ms, runs)))


def skewed(study: Study) -> None:
    study.section("Skewed writes")
    jobs: dict[Any, dict[str, Any]] = {"uniform": on_sblocks() | until(1600)}
    for hot in (10, 2):
        workload = f"hot-cold:write_share=1,hot_share={hot}%,hot_access_share=90%,count=100M"
        for policy in ("closest-to-tail", "largest", "weighted"):
            jobs[hot, policy] = on_sblocks(workload, policy=policy) | until(1600)
    runs = study.keyed_runs(jobs)
    last = lambda run: IopsCurve.of_run(run, 1600).last(200)
    for hot in (10, 2):
        of_policies = [runs[hot, policy] for policy in ("closest-to-tail", "largest", "weighted")]
        item = "{hot} % hot, closest-to-tail, largest, weighted: IOPS in the last 200 s"
        words = {"hot": hot, "uniform": last(runs["uniform"]), "longest": listed(map(longest_ms, of_policies))}
        study.row(item, listed(map(last, of_policies)), **words)


def study(study: Study) -> None:
    for part in (figure12, policies, literal, destage_ahead, figure9, sections, sizes, skewed):
        part(study)
