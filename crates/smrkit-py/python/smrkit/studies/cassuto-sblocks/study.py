"""Cassuto et al., "Indirection Systems for Shingled-Recording Disk Drives", MSST 2010, section V: S-blocks."""

import re
from dataclasses import dataclass
from datetime import timedelta
from statistics import correlation, fmean
from typing import Any

import polars as pl
import smrkit
from smrkit import Outcome
from smrkit.reproduce import Study, falls, listed

#: A cost of a sector at which figure 13's 50 ms come nearer (derived: they need about 2.5 to 5 µs).
FASTER_US = 2.5


def on_sblocks(workload: str = "random-write:count=100M", **set_: Any) -> dict[str, Any]:
    """A run of the layer on cassuto-random."""
    return {
        "drive": "cassuto-random",
        "layer": "s-block",
        "workload": workload,
        "set": {f"s-block.{key}": value for key, value in set_.items()},
    }


def until(end_s: int) -> dict[str, Any]:
    return {"until": timedelta(seconds=end_s), "window": timedelta(seconds=1)}


def longest_ms(run: Outcome) -> float:
    return float(run.latency_ns.write.max / 1e6)


@dataclass
class Course:
    """Requests in each second of a run; the drop is the first second in which a write waits for cleaning."""

    iops: list[float]
    drop: int

    @classmethod
    def of(cls, run: Outcome, end_s: int) -> "Course":
        iops = (list(run.timeline.requests) + [0] * end_s)[:end_s]
        drop = run.verdict.cache_full_at_s
        return cls(iops, min(end_s, end_s if drop is None else int(drop)))

    @property
    def after(self) -> list[float]:
        """The whole seconds after the drop."""
        return self.iops[self.drop + 1 :]

    def means(self, length_s: int) -> list[float]:
        """Means of whole stretches after the drop."""
        return [fmean(self.after[at : at + length_s]) for at in range(0, len(self.after) - length_s + 1, length_s)]

    def sliding(self, length_s: int) -> list[float]:
        """Means of every stretch after the drop."""
        return [fmean(self.after[at : at + length_s]) for at in range(len(self.after) - length_s + 1)]

    def last(self, length_s: int) -> float:
        return fmean(self.after[-length_s:])

    def silent(self) -> int:
        return self.after.count(0)


def figure12(study: Study) -> None:
    end_s = study.pick(1200, 1000)
    study.section("Figures 12 and 13: random writes, closest to the tail", end=end_s)
    text = re.sub("sector_us = { value = [0-9.]+", f"sector_us = {{ value = {FASTER_US}", smrkit.drive_file("cassuto-random"))
    faster = study.file("cassuto-random-faster.toml", text)
    runs = study.runs([on_sblocks() | until(end_s), on_sblocks() | until(end_s) | {"drive": faster}])
    course, quick = (Course.of(run, end_s) for run in runs)
    before = course.iops[: course.drop]
    level, means = fmean(before), course.means(40)
    off = max(100 * abs(iops / level - 1) for iops in before)
    # Spearman's rank correlation: windows alike share their rank.
    ranks = pl.Series(course.after).rank("average").to_list()
    rank = correlation(range(len(ranks)), ranks)
    study.row("IOPS before the drop", level, value=off, off=off)
    study.row("moment of the drop", course.drop)
    study.row("IOPS after the drop, first 40 s", means[0])
    study.row("IOPS from the drop on: rank correlation with time", rank, means=listed(means))
    study.row("windows of 0 IOPS after the drop", course.silent())
    study.row("plateau, the last 40 s", course.last(40))
    study.row("plateau at 2.5 µs a sector", quick.last(40))
    study.row("figure 13: longest write", longest_ms(runs[0]))
    study.row("figure 13: longest write at 2.5 µs a sector", longest_ms(runs[1]))
    study.row("memory of the maps", runs[0].map_bytes)

    def draw(figure: Any) -> None:
        for ax, begin, title in zip(figure.subplots(2), (0, course.drop + 1), ("The whole run", "After the drop")):
            ax.step(range(begin, end_s), course.iops[begin:], label="ours")
            ax.set(xlabel="Time (s)", ylabel="IOPS", title=title)
        for paper in (50, 80):
            ax.axhline(paper, color="grey", linestyle=":", label=f"paper: around {paper}")
        ax.legend()

    study.figure("figure-12", draw)


def policies(study: Study) -> None:
    # Long enough to use up the spare S-blocks.
    end_s, shown = study.pick(
        (1600, ["closest-to-tail", "largest", "cache-tail", "weighted"]), (1200, ["closest-to-tail", "largest"])
    )
    # By then a write has found few invalid slots ahead of the tail, and moved hundreds of S-blocks.
    literal_s = 4500
    study.section("Figures 13 and 14: destage policies", end=end_s, literal=literal_s)
    jobs = [on_sblocks(policy=policy) | until(end_s) for policy in shown]
    jobs += [on_sblocks(policy=policy, moves="literal") | until(literal_s) for policy in shown[:2]]
    *runs, closest_literal, largest_literal = study.runs(jobs)
    moved = [f"{run.layer_stats.sblocks_moved:,} S-blocks moved for {run.layer_stats.destages:,} destages" for run in runs]
    closest, largest = longest_ms(runs[0]), longest_ms(runs[1])
    by_far = 20 * closest <= largest
    longest = list(largest_literal.timeline.longest_ns)
    course = {f"by_{end}": max(longest[:end]) / 1e9 for end in (1000, 1200, 2000, 3000)}
    study.row("figure 14, moves=literal: longest write of largest", longest_ms(largest_literal) / 1e3, **course)
    study.row("figure 13, moves=literal: longest write of closest-to-tail", longest_ms(closest_literal))
    study.row("largest: longest write", largest / 1e3, moved=moved[1])
    study.row("longest write, largest to closest-to-tail", largest / closest)
    study.row(
        "which policy has the shorter longest write",
        "closest-to-tail, by far" if by_far else "not by far",
        agrees=by_far,
        moved=moved[0],
    )
    for policy, run, of_run in zip(shown, runs, moved):
        last = Course.of(run, end_s).last(200)
        study.row("{policy}: IOPS in the last 200 s", last, policy=policy, longest=longest_ms(run), moved=of_run)

    def draw(figure: Any) -> None:
        ax = figure.subplots()
        literal_curves = [("closest-to-tail, moves=literal", closest_literal), ("largest, moves=literal", largest_literal)]
        for label, run in [*zip(shown, runs), *literal_curves]:
            counts = pl.DataFrame(run.latency_histogram.write, schema=["ns", "writes"], orient="row").sort("ns")
            slower = 1 - counts["writes"].cum_sum() / counts["writes"].sum()
            ax.step(counts["ns"] / 1e6, slower, label=label)
        ax.set(xscale="log", yscale="log", xlabel="Time of a write (ms)", ylabel="Writes that took longer")
        ax.legend()

    study.figure("figures-13-and-14", draw)


def literal(study: Study) -> None:
    end_s, sections = study.pick((1600, [1, 10, 100, 1000]), (1200, [1, 100]))
    study.section("Algorithm V.2 to the letter", end=end_s)
    jobs = [on_sblocks(sections=count, rule="literal") | until(end_s) for count in sections]
    runs = study.runs([*jobs, on_sblocks(sections=1, copy="entries") | until(end_s)])
    courses = {"1 section" if count == 1 else f"{count:,} sections": Course.of(run, end_s) for count, run in zip(sections, runs)}
    for (named, course), run in zip(courses.items(), runs):
        means, last = course.means(100), course.last(100)
        holds = course.silent() == 0 and last >= means[0] and last > 60
        words = {"sections": named, "silent": course.silent(), "least": min(means), "longest": longest_ms(run) / 1e3}
        study.row("literal rule, {sections}: plateau of about 80 without windows of 0", last, agrees=holds, **words)
    study.row("entries copied one by one", fmean(Course.of(runs[-1], end_s).after))

    def draw(figure: Any) -> None:
        ax = figure.subplots()
        for named, course in courses.items():
            tens = [(at + 5, fmean(course.iops[at : at + 10])) for at in range(course.drop + 1, end_s - 9, 10)]
            ax.plot(*zip(*tens), label=named)
        ax.axhline(80, color="grey", linestyle=":", label="paper: around 80")
        ax.set(ylim=(0, 150), xlabel="Time (s)", ylabel="IOPS, means of 10 s")
        ax.legend()

    study.figure("literal-rule", draw)


def ahead(study: Study) -> None:
    end_s, at_once = 1000, (1, 2, 4, 8)
    study.section("Destaging ahead")
    runs = study.runs(on_sblocks(destage_at_once=count) | until(end_s) for count in at_once)
    courses = [Course.of(run, end_s) for run in runs]
    smooth = [course.sliding(5) for course in courses]
    rises = [next((at for at, iops in enumerate(means) if iops >= 72), float("inf")) for means in smooth]
    depths = [min(means) for means in smooth]
    study.row("seconds until 72 IOPS", listed(rises), agrees=falls(rises))
    study.row("lowest 5 s", listed(depths), agrees=falls(depths))

    def draw(figure: Any) -> None:
        ax = figure.subplots()
        for count, course, means in zip(at_once, courses, smooth):
            ax.plot([course.drop + 3 + at for at in range(len(means))], means, label=f"{count} at once")
        ax.set(xlabel="Time (s)", ylabel="IOPS, means of 5 s")
        ax.legend()

    study.figure("destaging-ahead", draw)


def figure9(study: Study) -> None:
    span, percents = study.pick((300, [0, 20, 40, 60, 80, 100]), (30, [0, 20, 100]))
    study.section("Figure 9's test: sequential reads", span=span)
    read, jobs = f"sequential-read:size=512Ki,bytes={span}000000000", []
    # As many of either as fill the cache buffer of 6,000,000 sectors.
    for before, most in (("random-write:size=4Ki", 750_000), ("sequential-write:size=512Ki", 750_000 * 8 // 1024)):
        for writes in (most * percent // 100 for percent in percents):
            jobs.append(on_sblocks(f"{before},count={writes};{read}" if writes else read) | {"warmup": writes})
    plain, *runs = study.runs([{"drive": "cassuto-random", "layer": "in-place", "workload": read}, *jobs])
    rate = lambda run: run.host_read_sectors * 512 * 1e3 / run.elapsed_ns
    below = lambda run: 100 * (1 - rate(run) / rate(plain))
    at_random, in_order = runs[: len(percents)], runs[len(percents) :]
    rates, worst = [rate(run) for run in at_random], max(map(below, in_order))
    words = {"fills": ", ".join(map(str, percents)), "plain": rate(plain)}
    study.row("rate at fills of {fills} %, at random", listed(rates, 1), agrees=falls(rates), **words)
    study.row("rate at fills of {fills} %, in order", listed(map(rate, in_order), 1), value=worst, worst=worst, **words)
    study.row("loss with an empty cache buffer", below(at_random[0]))

    def draw(figure: Any) -> None:
        ax = figure.subplots()
        ax.plot(percents, rates, "o-", label="filled at random")
        ax.plot(percents, [rate(run) for run in in_order], "s-", label="filled in order")
        ax.axhline(rate(plain), color="grey", linestyle=":", label="plain drive")
        ax.set(xlabel="Cache buffer filled before (%)", ylabel="Sequential read (MB/s)")
        ax.legend()

    study.figure("figure-9", draw)


def sections(study: Study) -> None:
    study.section("Sections, and writes of whole S-blocks")
    inside, there, elsewhere = (
        "random-write:span=2900M,count=12k",
        "random-write:span=2900M,count=3k",
        "random-write:start=10G,span=280G,count=3k",
    )
    whole = "sequential-write:size=1024000,count=2k"
    runs = study.runs(
        [
            on_sblocks(elsewhere, sections=100),
            on_sblocks(f"{inside};{elsewhere}", sections=100) | {"warmup": 12_000},
            on_sblocks(f"{inside};{there}", sections=100) | {"warmup": 12_000},
            {"drive": "cassuto-random", "layer": "in-place", "workload": whole},
            on_sblocks(whole),
            on_sblocks(whole, bypass="off"),
        ]
    )
    fresh, others, full = (run.requests / (run.elapsed_ns / 1e9) for run in runs[:3])
    plain, bypass, cached = (run.host_written_sectors * 512 * 1e3 / run.elapsed_ns for run in runs[3:])
    off, below = 100 * (others / fresh - 1), 100 * (1 - bypass / plain)
    study.row("other sections while one is full", others, value=off, off=off, fresh=fresh)
    study.row("the full section itself", full, value=full / fresh)
    study.row("whole S-blocks in order", bypass, value=below, below=below, plain=plain, cached=cached)


def sizes(study: Study) -> None:
    study.section("The size of S-blocks")
    runs = study.runs(on_sblocks(sblock_sectors=sectors) | until(1200) for sectors in (500, 1000, 2000, 4000))
    last = [Course.of(run, 1200).last(200) for run in runs]
    memory = [run.map_bytes / 1e6 for run in runs]
    study.row("IOPS in the last 200 s", listed(last), agrees=falls(last))
    study.row("memory of the maps", listed(memory), agrees=falls(memory))
    study.row("longest write", listed(map(longest_ms, runs)))


def skewed(study: Study) -> None:
    study.section("Skewed writes")
    chosen, jobs = ("closest-to-tail", "largest", "weighted"), [on_sblocks() | until(1600)]
    for hot in (10, 2):
        workload = f"hot-cold:write_share=1,hot_share={hot}%,hot_access_share=90%,count=100M"
        jobs += [on_sblocks(workload, policy=policy) | until(1600) for policy in chosen]
    uniform, *runs = study.runs(jobs)
    last = lambda run: Course.of(run, 1600).last(200)
    for hot, of in ((10, runs[:3]), (2, runs[3:])):
        item = "{hot} % hot, closest-to-tail, largest, weighted: IOPS in the last 200 s"
        study.row(item, listed(map(last, of)), hot=hot, uniform=last(uniform), longest=listed(map(longest_ms, of)))


def study(study: Study) -> None:
    for part in (figure12, policies, literal, ahead, figure9, sections, sizes, skewed):
        part(study)
