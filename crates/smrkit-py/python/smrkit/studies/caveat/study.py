"""Kadekodi, Pimpale & Gibson, "Caveat-Scriptor: Write Anywhere Shingled Disks", HotStorage 2015, by ``smrkit age``."""

import math
import os
import subprocess
import tempfile
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from smrkit import Error
from smrkit.reproduce import SECONDS, Study, short, with_unit

#: The models by the paper's names.
MODELS = {"strict-append": "strict-append", "Caveat-Scriptor": "caveat"}
DISK = 100_000_000_000
#: The image of the real mount. It is a hundredth of the paper's disk, so bands and distances are smaller too (assumptions): otherwise it
#: would have too few bands.
IMAGE, BAND, DISTANCE = 1 << 30, "8MiB", "256KiB"
#: The result of ``smrkit age --json``.
Ageing = dict[str, Any]


class CaveatDisk:
    """The paper's rule, LBA by LBA: which LBAs are live, and when each was last written."""

    def __init__(self, did: int, dpid: int, lbas: int = 200) -> None:
        self.did, self.dpid, self.lbas = did, dpid, lbas
        self.live, self.written_at, self.clock = set[int](), [0] * lbas, 0

    def label(self, lba: int) -> str:
        """R (live), NW (must not be written), WO (may be written once) or W (may be written)."""
        if lba in self.live:
            return "R"
        live_upstream = [one for one in range(max(0, lba - self.dpid), lba) if one in self.live]
        destroys_live = any(one in self.live for one in range(lba + 1, min(self.lbas, lba + self.did + 1)))
        # An LBA that was written after a live one upstream (at a lower LBA) must not be written again, because this damages the live one.
        if destroys_live or any(self.written_at[lba] > self.written_at[one] for one in live_upstream):
            return "NW"
        return "WO" if live_upstream else "W"

    def write(self, first: int, count: int = 20) -> bool:
        """Writes an extent in ascending order, if the rule allows it. It may destroy LBAs of its own, which it writes right afterwards."""
        extent = range(first, first + count)
        # A live LBA has the label R even if writing it again would destroy live data behind the extent, so this is checked by itself.
        destroys_live = any(lba in self.live for lba in range(extent.stop, min(self.lbas, extent.stop + self.did)))
        if destroys_live or any(self.label(lba) == "NW" for lba in extent):
            return False
        for lba in extent:
            self.clock += 1
            self.written_at[lba] = self.clock
        self.live |= set(extent)
        return True

    def delete(self, first: int, count: int = 20) -> None:
        self.live -= set(range(first, first + count))

    def counts(self) -> str:
        labels = [self.label(lba) for lba in range(self.lbas)]
        return ", ".join(f"{label} {labels.count(label)}" for label in ("R", "NW", "WO"))

    def writable(self) -> int:
        return sum(self.label(lba) == "W" for lba in range(self.lbas))


def row_by_row(study: Study) -> None:
    study.section("Figures 2 and 3: row by row")
    disk = CaveatDisk(did=8, dpid=5)
    study.row("figure 2, row 1: an empty disk", disk.counts())
    disk.write(30)
    study.row("figure 2, row 2: an extent is written", disk.counts())
    disk.write(50)
    study.row("figure 2, row 3: a second extent behind it", disk.counts())
    disk.delete(50)
    study.row("figure 2, row 4: the second extent is deleted", disk.counts())
    nearest = next(lba for lba in range(50, disk.lbas) if disk.write(lba))
    study.row("figure 2, row 5: LBAs left free by the nearest write", nearest - 50)
    study.row("figure 2, row 5: an extent as close as possible", disk.counts())
    disk = CaveatDisk(did=5, dpid=5)
    for first in (30, 60, 90):
        disk.write(first)
    before = disk.writable()
    study.row("figure 3, row 11: three runs", disk.counts())
    disk.delete(60)
    study.row("figure 3, rows 12 and 13: the middle one deleted", disk.counts())
    study.row("figure 3: LBAs gained", disk.writable() - before)


def distributions(study: Study) -> None:
    study.section("Figures 4 (b) and (c): sizes and ages")

    def mean_of_cdf(points: list[list[float]]) -> float:
        """The mean of a distribution given by points (value, percent that are not larger)."""
        # Values that are not larger than the first point's count as its value.
        first_value, first_percent = points[0]
        mean = first_value * first_percent / 100
        # Between two points the logarithm of the value is uniform. The mean of such values is (high - low) / ln(high / low).
        for (low, low_percent), (high, high_percent) in zip(points, points[1:]):
            mean += (high_percent - low_percent) / 100 * (high - low) / math.log(high / low)
        return mean

    study.row("mean size", mean_of_cdf(study.numbers["sizes_mb"]))
    study.row("mean age", mean_of_cdf(study.numbers["ages_days"]))

    def draw(figure: Any) -> None:
        for ax, curve, xlabel in zip(figure.subplots(1, 2), ("sizes_mb", "ages_days"), ("size (MB)", "age (days)")):
            ax.plot(*zip(*study.numbers[curve]), "o-", label="reconstruction")
            ax.set(xscale="log", xlabel=xlabel, ylabel="not larger (%)")

    study.figure("figures-4-b-and-c", draw)


def age(study: Study, options: list[str]) -> Ageing:
    return dict(study.command("age", *options, "--quiet", "--json", "-"))


def simulated(model: str, seed: int, *more: str, disk: int = DISK) -> list[str]:
    """Options of a simulated ageing."""
    return ["--simulate", MODELS[model], "--size", f"{disk}B", "--sample", f"{disk // 100}B", "--seed", str(seed), *more]


def hours(sample: dict[str, Any]) -> float:
    return float(sample["time_ns"] / 3.6e12)


def describe_end(ageing: Ageing) -> tuple[str, str]:
    """When a disk without a defragmenter ran out of room, and the circumstances, both in words."""
    written = f"{ageing['last']['written_bytes'] / 1e12:.2f} TB written"
    if ageing["end"] != "full":
        return "never", f"room up to the end, {written}"
    when = "after B" if ageing["benchmarks_end"] else "between A and B" if ageing["benchmarks_begin"] else "before A"
    return f"{hours(ageing['last']):.2f} h", f"no room for a block, {when}, {written}"


def figures4and5(study: Study) -> None:
    """Both models with several seeds. Only the first seed runs to the end, and not with ``--quick``; the others end at B."""
    seeds = study.seeds(3, 1)
    jobs = {}
    for model, seed in product(MODELS, seeds):
        to_the_end = [] if study.quick or seed != seeds[0] else ["--until", f"{14 * DISK}B"]
        jobs[model, seed] = simulated(model, seed, "--benchmarks", *to_the_end)
    ageings = dict(zip(jobs, study.map(lambda options: age(study, options), jobs.values())))
    pairs = {seed: (ageings["strict-append", seed], ageings["Caveat-Scriptor", seed]) for seed in seeds}
    study.section("Figure 4: space over time", seed=study.seed)
    for seed, (strict, caveat) in pairs.items():
        figure4_of_seed(study, seed, strict, caveat)
    figure4(study, *pairs[study.seed])
    study.section("Figure 5: latency and throughput")
    for seed, (strict, caveat) in pairs.items():
        for benchmark, add_row in (("filebench", filebench_row), ("postmark", postmark_rows)):
            of_strict, of_caveat = ([run for run in one["benchmarks"] if run["name"] == benchmark] for one in (strict, caveat))
            for number, runs in enumerate(zip(of_strict, of_caveat), 1):
                add_row(study, *runs, {"seed": seed, "run": number})


def figure4_of_seed(study: Study, seed: int, strict: Ageing, caveat: Ageing) -> None:
    a, b, first_cleaning = strict["benchmarks_begin"], strict["benchmarks_end"], strict["first_cleaning"]
    hours_of = lambda sample: f"{hours(sample):.2f} h" if sample else "never"
    is_before_a = bool(first_cleaning and first_cleaning["written_bytes"] < a["written_bytes"])
    item = "seed {seed}: strict-append's first cleaning"
    study.row(item, hours_of(first_cleaning), agrees=is_before_a, seed=seed, a=hours_of(a))
    by_a, by_b, by_end = (sample["cleaned"]["stalls"] for sample in (a, b, strict["last"]))
    stalls = [by_a, by_b - by_a, by_end - by_b]
    only_in_benchmarks = stalls[1] > 0 and stalls[0] == stalls[2] == 0
    item = "seed {seed}: strict-append's writes that wait for cleaning, up to A, to B, after B"
    study.row(item, " ".join(map(str, stalls)), agrees=only_in_benchmarks, seed=seed)
    reached_b = bool(caveat["benchmarks_end"])
    item = "seed {seed}: Caveat-Scriptor needs cleaning up to B"
    study.row(item, "no" if reached_b else "yes", agrees=reached_b, seed=seed, end=describe_end(caveat)[1])
    if reached_b:
        at_a, at_b = (caveat[at]["not_writable_bytes"] / 1e9 for at in ("benchmarks_begin", "benchmarks_end"))
        study.row("seed {seed}: NW at B", at_b, value=at_b / at_a, seed=seed, at_a=at_a)


def figure4(study: Study, strict: Ageing, caveat: Ageing) -> None:
    """Adds the rows on the paper's one run, and its figure."""
    a, b, last = caveat["benchmarks_begin"], caveat["benchmarks_end"], caveat["last"]
    if b:
        study.row("user data at A", 100 * a["live_bytes"] / DISK)
        study.row("user data that the benchmarks leave at B", sum(run["kept_bytes"] for run in caveat["benchmarks"]) / 1e9)
        study.row("user data at B less that at A", (b["live_bytes"] - a["live_bytes"]) / 1e9)
    study.row("strict-append: least writable space", 100 * min(sample["writable_bytes"] for sample in strict["samples"]) / DISK)
    time, circumstances = describe_end(caveat)
    ran_out_after_b = caveat["end"] == "full" and b
    # A quick run ends at B, and C can only come later.
    ended_at_b = caveat["end"] == "done" and b == last
    value = hours(last) if ran_out_after_b else math.inf
    study.row("C", time, value=value, comparable=not ended_at_b, end=circumstances)
    strict_until_c = [sample for sample in strict["samples"] if sample["written_bytes"] <= last["written_bytes"]]
    strict_hours = hours(strict_until_c[-1])
    item = "strict-append: time for the same user data"
    study.row(item, strict_hours, value=strict_hours / hours(last), caveat=hours(last))

    def draw(figure: Any) -> None:
        ax = figure.subplots()
        not_w = lambda sample: DISK - sample["writable_bytes"]
        for label, samples, used in (
            ("strict-append: all but W", strict_until_c, not_w),
            ("Caveat-Scriptor: R + NW + WO", caveat["samples"], not_w),
            ("Caveat-Scriptor: R + NW", caveat["samples"], lambda one: one["readable_bytes"] + one["not_writable_bytes"]),
            ("user data, on both", caveat["samples"], lambda one: one["live_bytes"]),
        ):
            ax.plot([one["written_bytes"] / 1e12 for one in samples], [used(one) / 1e9 for one in samples], label=label)
        for name, sample in (("A", a), ("B", b), ("C", last if caveat["end"] == "full" else None)):
            if sample:
                ax.axvline(sample["written_bytes"] / 1e12, color="grey", linestyle="--")
                ax.text(sample["written_bytes"] / 1e12, 2, name)
        # The share of the disk that the ager fills, in GB.
        ax.axhline(0.7 * DISK / 1e9, color="grey", linestyle=":")
        ax.set(xlabel="user data written (TB)", ylabel="space (GB)", ylim=(0, DISK / 1e9))
        ax.legend()

    study.figure("figure-4", draw)


def filebench_row(study: Study, strict: dict[str, Any], caveat: dict[str, Any], words: dict[str, Any]) -> None:
    before, after = (run["latency_ns"]["all"]["max_ns"] / 1e9 for run in (strict, caveat))
    moved = {"moved": strict["moved_bytes"] / 1e9, "moved_too": caveat["moved_bytes"] / 1e9}
    item = "seed {seed}: Filebench run {run}: longest event, Caveat-Scriptor to strict-append"
    study.row(item, after / before, before=before, after=after, **moved, **words)


def postmark_rows(study: Study, strict: dict[str, Any], caveat: dict[str, Any], words: dict[str, Any]) -> None:
    for kind, bytes_key, time_key in (("read", "read_bytes", "reading_ns"), ("write", "written_bytes", "writing_ns")):
        before, after = (run[bytes_key] * 1e3 / run[time_key] for run in (strict, caveat))
        item = "seed {seed}: Postmark run {run}: {kind}, Caveat-Scriptor to strict-append"
        study.row(item, after / before, kind=kind, before=before, after=after, **words)


def age_on_a_mount(study: Study, model: str, options: list[str]) -> tuple[int, Ageing]:
    """Ages SMRfs on a mounted temporary image. Returns the image's raw capacity in bytes, and the result."""
    smrkit = os.environ.get("SMRKIT", "smrkit")
    with tempfile.TemporaryDirectory() as folder:
        image, place = Path(folder, "image"), Path(folder, "place")
        place.mkdir()
        size = ["--size", f"{IMAGE}B", "--did", DISTANCE, "--dpid", DISTANCE, "--band", BAND]
        made = study.command("mkfs", str(image), "--model", MODELS[model], *size, "--json")
        mounted = subprocess.run([smrkit, "mount", str(image), str(place)], capture_output=True, text=True)
        if mounted.returncode:
            raise Error(mounted.stderr.strip().splitlines()[-1])
        try:
            return made["raw_bytes"], age(study, [str(place), *options])
        finally:
            subprocess.run([smrkit, "umount", str(place)], capture_output=True)


def mounted(study: Study) -> None:
    study.section("A small real mount next to the simulation")
    if study.quick:
        return study.say("Left out of a quick run.")
    study.say(
        "An image of 1 GiB in a temporary directory, DID and DPID 256 KiB, bands of 8 MiB, aged by 2 GiB, with benchmarks scaled to its "
        "size: mounted by FUSE with the defaults of `smrkit mount`, and simulated with the paper's settings. The mount commits every 5 s "
        "of real time, which is at other events than in the simulation."
    )
    study.say("The left number is the simulation's, because the paper has none at this scale.")
    amounts = {"--fill": IMAGE // 10 * 7, "--bytes": 2 * IMAGE, "--sample": IMAGE // 50}
    options = [word for option, amount in amounts.items() for word in (option, f"{amount}B")]
    options += ["--benchmarks", "--seed", str(study.seed)]
    for model in MODELS:
        try:
            capacity, on_mount = age_on_a_mount(study, model, options)
        except Error as error:
            study.row("{model}: mounted", "not run", model=model, why=str(error))
            continue
        disk = ["--simulate", MODELS[model], "--size", f"{capacity}B", "--granule", "4KiB"]
        simulation = age(study, [*disk, "--did", DISTANCE, "--dpid", DISTANCE, "--band", BAND, *options])
        mounted_rows(study, model, simulation, on_mount)


def mounted_rows(study: Study, model: str, simulation: Ageing, on_mount: Ageing) -> None:
    gb = lambda size: size / 1e9
    percent_off = lambda ours, expected: 100 * (ours - expected) / IMAGE
    if model == "strict-append":
        expected, ours = (one["first_cleaning"] and one["first_cleaning"]["written_bytes"] for one in (simulation, on_mount))
        is_near = None not in (expected, ours) and abs(percent_off(ours, expected)) <= 5
        after = lambda written: f"after {gb(written):.2f} GB" if written else "never"
        study.row("strict-append: first cleaning", after(ours), paper=after(expected), agrees=is_near)
    # With strict-append a commit turns deleted R into NW, so the sum of both does not depend on when commits happen.
    what, keys = ("R + NW", ["readable_bytes", "not_writable_bytes"]) if model == "strict-append" else ("NW", ["not_writable_bytes"])
    for at, key in (("A", "benchmarks_begin"), ("B", "benchmarks_end")):
        expected, ours = simulation[key], on_mount[key]
        if not (expected and ours):
            continue
        words = {"model": model, "at": at}
        off = percent_off(ours["live_bytes"], expected["live_bytes"])
        item, paper = "{model}: user data at {at}", gb(expected["live_bytes"])
        study.row(item, gb(ours["live_bytes"]), value=off, off=off, paper=paper, **words)
        study.row("{model}: R at {at}", gb(ours["readable_bytes"]), **words)
        expected_sum, our_sum = (sum(sample[one] for one in keys) for sample in (expected, ours))
        off = percent_off(our_sum, expected_sum)
        study.row("{model}: {what} at {at}", gb(our_sum), value=off, off=off, paper=gb(expected_sum), what=what, **words)
    if model == "Caveat-Scriptor":
        at_a, at_b = (gb(on_mount[key]["not_writable_bytes"]) for key in ("benchmarks_begin", "benchmarks_end"))
        study.row("Caveat-Scriptor: NW at B, mounted", at_b, value=at_b / at_a, at_a=at_a)


class Case(NamedTuple):
    """Settings of an ageing: the placement, DID in MiB, a factor of the ager's sizes, and the blocks of a turn of ager and benchmark."""

    placement: str
    did: int
    factor: float
    turn: str


def running_out(study: Study) -> None:
    """When Caveat-Scriptor has no room for a block: by placement, distances, sizes and interleaving."""
    study.section("When Caveat-Scriptor runs out of space")
    cases = [Case("next-fit", *rest) for rest in product((1, 3), (1, 0.15, 0.06), ("1", "8", "64", "file"))]
    # The paper's run ended after B, so its sizes must be between those that never run out and those that run out before B.
    cases += [Case("next-fit", 3, *rest) for rest in product((0.2, 0.18), ("64", "128", "file"))]
    placements = ("adjacent", "first-fit", "best-fit", "reservation")
    cases += [Case(placement, 3, factor, "8") for factor, placement in product((1, 0.15), placements)]
    if study.quick:
        return study.say(f"{len(cases)} more ageings, which a quick run leaves out.")
    study.say(
        "Ageing without a defragmenter until there is no room for a block: by placement, DID/DPID, factor of the ager's sizes (1 has a "
        "mean of 168 MB), and how finely benchmark and ager interleave. The paper's one run ends at 5.5 h; it does not say which of these "
        "settings it had."
    )

    def age_case(case: Case) -> Ageing:
        placement, did, factor, turn = case
        until = 14 * DISK if placement == "next-fit" else 30 * DISK
        options = f"--benchmarks --until {until}B --placement {placement} --did {did}MiB --size-factor {factor} --interleave {turn}"
        return age(study, simulated("Caveat-Scriptor", study.seed, *options.split()))

    ageings = dict(zip(cases, study.map(age_case, cases)))
    lasted_tb = {
        case: ageing["last"]["written_bytes"] / 1e12 if ageing["end"] == "full" else math.inf for case, ageing in ageings.items()
    }
    for (placement, did, factor, turn), ageing in ageings.items():
        b, (time, circumstances) = ageing["benchmarks_end"], describe_end(ageing)
        nw = f"NW {b['not_writable_bytes'] / 1e9:.1f} GB at B" if b else "B was not reached"
        turns = "whole file" if turn == "file" else "1 block" if turn == "1" else f"{turn} blocks"
        words = {"placement": placement, "did": did, "dpid": 1, "sizes": factor, "turns": turns}
        study.row("{placement}, {did}/{dpid} MiB, sizes × {sizes}, {turns}", time, end=circumstances, nw=nw, **words)
    worst = lambda turn: min(tb for case, tb in lasted_tb.items() if case.placement == "next-fit" and case.turn == turn)
    or_no_end = lambda tb: "no end" if tb == math.inf else tb
    whole, single = worst("file"), worst("1")
    item = "whole files last at least as long as single blocks interleaved"
    study.row(item, or_no_end(whole), agrees=whole >= single, single=or_no_end(single))
    for factor in (1, 0.15):
        by_placement = {case.placement: tb for case, tb in lasted_tb.items() if case == Case(case.placement, 3, factor, "8")}
        lasting = ", ".join(placement for placement, tb in by_placement.items() if tb == math.inf) or "none"
        out = ", ".join(f"{placement} ends at {short(tb)} TB" for placement, tb in by_placement.items() if tb < math.inf)
        study.row("placements that last, 3/1 MiB, sizes × {sizes}, 8 blocks", lasting, sizes=factor, out=out)


def idle(study: Study) -> None:
    """The paper's closing question: how much of the cleaning idle time hides, on either model."""
    study.section("Idle time: how much cleaning delays, by the share of it")
    shares, disk = study.pick(list(range(0, 100, 10)), [0, 50, 90]), DISK // 5
    more = ["--did", "3MiB", "--size-factor", "0.06", "--bytes", f"{6 * disk}B", "--record-from", f"{3 * disk}B", "--defragment"]
    cases = list(product(shares, MODELS))
    jobs = [simulated(model, study.seed, *more, "--idle", str(share), disk=disk) for share, model in cases]
    ageings = dict(zip(cases, study.map(lambda options: age(study, options), jobs)))

    def delay_percent(model: str, share: int) -> float:
        ageing = ageings[share, model]
        return math.nan if ageing["end"] == "full" else 100 * ageing["alone"]["cleaning_delay_ns"] / ageing["alone"]["busy_ns"]

    def cells(model: str, share: int) -> list[str]:
        ageing, alone = ageings[share, model], ageings[share, model]["alone"]
        if ageing["end"] == "full":
            return ["no room", "-", "-", "-"]
        longest = with_unit(alone["cleaning_delay_ns_max"] / 1e9, SECONDS)
        events_percent = 100 * alone["events_delayed"] / max(1, alone["latency_ns"]["count"])
        moved_gb = ageing["last"]["cleaned"]["moved_bytes"] / 1e9
        return [f"{short(delay_percent(model, share))} %", longest, f"{short(events_percent)} %", f"{short(moved_gb)} GB"]

    heads = [f"{model}: {what}" for model, what in product(MODELS, ("delay", "longest", "events delayed", "moved"))]
    study.table(["idle", *heads], [[f"{share} %", *(cell for model in MODELS for cell in cells(model, share))] for share in shares])

    def least_share(model: str, most_percent: float) -> int | None:
        """The share of idle time from which on the delay is at most ``most_percent``."""
        least = None
        for share in reversed(shares):
            if not delay_percent(model, share) <= most_percent:
                break
            least = share
        return least

    strict, caveat = (least_share(model, 1.0) for model in MODELS)
    strict_cost, caveat_cost = (delay_percent(model, 0) for model in MODELS)
    strict_half = least_share("strict-append", 0.5 * strict_cost)
    from_on = lambda share: "at none" if share is None else f"from {share} % idle on"
    # The paper: "if the duty cycle is not 100 %", so any idle time must do, such as the smallest share above 0.
    hides_all = caveat is not None and caveat <= shares[1]
    study.row("Caveat-Scriptor hides all cleaning", from_on(caveat), agrees=hides_all, first=shares[1], costs=caveat_cost)
    # The paper: "a very small duty cycle", taken as at most 25 %, which is idle time of 75 % or more.
    needs_much = strict_half is None or strict_half >= 75
    study.row("strict-append hides much cleaning", from_on(strict_half), agrees=needs_much, costs=strict_cost)
    # A model that never hides all cleaning compares as if it needed 100 %.
    strict_least, caveat_least = (100 if share is None else share for share in (strict, caveat))
    if caveat_least < strict_least:
        better = "Caveat-Scriptor"
    elif strict is None:
        better = "neither"
    else:
        better = "both alike" if strict == caveat else "strict-append"
    item = "which model hides all cleaning with less idle time"
    study.row(item, better, agrees=caveat_least < strict_least, strict=from_on(strict))
    study.plot(
        "idle",
        {model: (shares, [delay_percent(model, share) for share in shares]) for model in MODELS},
        xlabel="idle time (% of all time)",
        ylabel="time that cleaning delays (% of the programs')",
    )


def study(study: Study) -> None:
    for part in (row_by_row, distributions, figures4and5, mounted, running_out, idle):
        part(study)
