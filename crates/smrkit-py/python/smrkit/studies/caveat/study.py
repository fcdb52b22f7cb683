"""Kadekodi, Pimpale & Gibson, "Caveat-Scriptor: Write Anywhere Shingled Disks", HotStorage 2015, by ``smrkit age``."""

import math
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from smrkit import Error
from smrkit.reproduce import SECONDS, Study, short, with_unit

MODELS = {"strict-append": "strict-append", "Caveat-Scriptor": "caveat"}
DISK = 100_000_000_000
#: An image whose bands and distances are a part of the paper's, or too few bands would lie on it (assumptions).
IMAGE, BAND, DISTANCE = 1 << 30, "8MiB", "256KiB"


class Disk:
    """The paper's rule, LBA by LBA: which are live, and when each was last written."""

    def __init__(self, did: int, dpid: int, lbas: int = 200) -> None:
        self.did, self.dpid, self.lbas = did, dpid, lbas
        self.live, self.written, self.clock = set[int](), [0] * lbas, 0

    def label(self, lba: int) -> str:
        """R, NW, WO or W."""
        if lba in self.live:
            return "R"
        before = [one for one in range(max(0, lba - self.dpid), lba) if one in self.live]
        destroys = any(one in self.live for one in range(lba + 1, min(self.lbas, lba + self.did + 1)))
        # A second write would damage what was written before the first.
        if destroys or any(self.written[lba] > self.written[one] for one in before):
            return "NW"
        return "WO" if before else "W"

    def write(self, at: int, count: int = 20) -> bool:
        """Writes in ascending order, if the rule allows it; what it rewrites itself may be destroyed."""
        own = range(at, at + count)
        after = [lba for lba in range(at + count, min(self.lbas, at + count + self.did)) if lba in self.live]
        if after or any(self.label(lba) == "NW" for lba in own):
            return False
        for lba in own:
            self.clock += 1
            self.written[lba] = self.clock
        self.live |= set(own)
        return True

    def delete(self, at: int, count: int = 20) -> None:
        self.live -= set(range(at, at + count))

    def counts(self) -> str:
        labels = [self.label(lba) for lba in range(self.lbas)]
        return ", ".join(f"{one} {labels.count(one)}" for one in ("R", "NW", "WO"))

    def writable(self) -> int:
        return sum(self.label(lba) == "W" for lba in range(self.lbas))


def row_by_row(study: Study) -> None:
    study.section("Figures 2 and 3: row by row")
    disk = Disk(8, 5)
    study.row("figure 2, row 1: an empty disk", disk.counts())
    disk.write(30)
    study.row("figure 2, row 2: an extent is written", disk.counts())
    disk.write(50)
    study.row("figure 2, row 3: more behind it", disk.counts())
    disk.delete(50)
    study.row("figure 2, row 4: that is deleted", disk.counts())
    nearest = next(at for at in range(50, disk.lbas) if disk.write(at))
    study.row("figure 2, row 5: LBAs left free by the nearest write", nearest - 50)
    study.row("figure 2, row 5: an extent as close as possible", disk.counts())
    disk = Disk(5, 5)
    for nth in range(3):
        disk.write(30 + 30 * nth)
    before = disk.writable()
    study.row("figure 3, row 11: three runs", disk.counts())
    disk.delete(60)
    study.row("figure 3, rows 12 and 13: the middle one deleted", disk.counts())
    study.row("figure 3: LBAs gained", disk.writable() - before)


def distributions(study: Study) -> None:
    study.section("Figures 4 (b) and (c): sizes and ages")

    def mean(curve: list[list[float]]) -> float:
        pairs = sum(
            (end - start) / 100 * (high - low) / math.log(high / low) for (low, start), (high, end) in zip(curve, curve[1:])
        )
        return curve[0][0] * curve[0][1] / 100 + pairs

    study.row("mean size", mean(study.numbers["sizes_mb"]))
    study.row("mean age", mean(study.numbers["ages_days"]))

    def draw(figure: Any) -> None:
        for ax, curve, xlabel in zip(figure.subplots(1, 2), ("sizes_mb", "ages_days"), ("size (MB)", "age (days)")):
            ax.plot(*zip(*study.numbers[curve]), "o-", label="reconstruction")
            ax.set(xscale="log", xlabel=xlabel, ylabel="not larger (%)")

    study.figure("figures-4-b-and-c", draw)


def age(study: Study, words: list[str]) -> dict[str, Any]:
    return dict(study.command("age", *words, "--quiet", "--json", "-"))


def simulated(model: str, seed: int, *more: str, disk: int = DISK) -> list[str]:
    return ["--simulate", MODELS[model], "--size", f"{disk}B", "--sample", f"{disk // 100}B", "--seed", str(seed), *more]


def hours(sample: dict[str, Any]) -> float:
    return float(sample["time_ns"] / 3.6e12)


def ended(course: dict[str, Any]) -> tuple[str, str]:
    """When a disk without a defragmenter ran out, in words, and what that says."""
    written = f"{course['last']['written_bytes'] / 1e12:.2f} TB written"
    if course["end"] != "full":
        return "never", f"up to the end, {written}"
    when = "after B" if course["benchmarks_end"] else "between A and B" if course["benchmarks_begin"] else "before A"
    return f"{hours(course['last']):.2f} h", f"no room for a block, {when}, {written}"


def courses(study: Study) -> None:
    """Figures 4 and 5: both models, the first seed to the end, and further ones up to B; with --quick one, up to B."""
    seeds, jobs = study.seeds(3, 1), []
    for nth, seed in enumerate(seeds):
        to_the_end = [] if study.quick or nth else ["--until", f"{14 * DISK}B"]
        jobs += [simulated(model, seed, "--benchmarks", *to_the_end) for model in MODELS]
    made = study.map(lambda words: age(study, words), jobs)
    pairs = {seed: (made[2 * nth], made[2 * nth + 1]) for nth, seed in enumerate(seeds)}
    study.section("Figure 4: space over time", seed=study.seed)
    for seed, (strict, caveat) in pairs.items():
        a, b, first = strict["benchmarks_begin"], strict["benchmarks_end"], strict["first_cleaning"]
        moment = lambda sample: f"{hours(sample):.2f} h" if sample else "never"
        early = bool(first and first["written_bytes"] < a["written_bytes"])
        study.row("seed {seed}: strict-append's first cleaning", moment(first), agrees=early, seed=seed, a=moment(a))
        stalls = [sample["cleaned"]["stalls"] for sample in (a, b, strict["last"])]
        parts = [stalls[0], stalls[1] - stalls[0], stalls[2] - stalls[1]]
        only = parts[1] > 0 and parts[0] == parts[2] == 0
        item = "seed {seed}: strict-append's writes that wait for cleaning, up to A, to B, after B"
        study.row(item, " ".join(map(str, parts)), agrees=only, seed=seed)
        reached = bool(caveat["benchmarks_end"])
        item = "seed {seed}: Caveat-Scriptor needs cleaning up to B"
        study.row(item, "no" if reached else "yes", agrees=reached, seed=seed, end=ended(caveat)[1])
        if reached:
            at_a, at_b = (caveat[at]["not_writable_bytes"] / 1e9 for at in ("benchmarks_begin", "benchmarks_end"))
            study.row("seed {seed}: NW at B", at_b, value=at_b / at_a, seed=seed, at_a=at_a)
    figure4(study, *pairs[study.seed])
    study.section("Figure 5: latency and throughput")
    for seed, (strict, caveat) in pairs.items():
        for name in ("filebench", "postmark"):
            runs = [[run for run in course["benchmarks"] if run["name"] == name] for course in (strict, caveat)]
            for nth, (before, after) in enumerate(zip(*runs), 1):
                words = {"seed": seed, "run": nth}
                if name == "filebench":
                    longest = [run["latency_ns"]["all"]["max_ns"] / 1e9 for run in (before, after)]
                    moved = [run["moved_bytes"] / 1e9 for run in (before, after)]
                    item = "seed {seed}: Filebench run {run}: longest event, Caveat-Scriptor to strict-append"
                    study.row(
                        item,
                        longest[1] / longest[0],
                        before=longest[0],
                        after=longest[1],
                        moved=moved[0],
                        moved_too=moved[1],
                        **words,
                    )
                    continue
                for kind, key in (("read", "reading_ns"), ("write", "writing_ns")):
                    rates = [run[f"{'read' if kind == 'read' else 'written'}_bytes"] * 1e3 / run[key] for run in (before, after)]
                    item = "seed {seed}: Postmark run {run}: {kind}, Caveat-Scriptor to strict-append"
                    study.row(item, rates[1] / rates[0], kind=kind, before=rates[0], after=rates[1], **words)


def figure4(study: Study, strict: dict[str, Any], caveat: dict[str, Any]) -> None:
    """Rows on the paper's one run, and its figure."""
    a, b, last = caveat["benchmarks_begin"], caveat["benchmarks_end"], caveat["last"]
    if b:
        study.row("user data at A", 100 * a["live_bytes"] / DISK)
        study.row("user data that the benchmarks leave at B", sum(run["kept_bytes"] for run in caveat["benchmarks"]) / 1e9)
        study.row("user data at B less that at A", (b["live_bytes"] - a["live_bytes"]) / 1e9)
    study.row("strict-append: least writable space", 100 * min(sample["writable_bytes"] for sample in strict["samples"]) / DISK)
    out, end = ended(caveat)
    # A quick run ends at B, before which C may not be.
    study.row(
        "C",
        out,
        value=hours(last) if caveat["end"] == "full" and b else math.inf,
        comparable=not (caveat["end"] == "done" and b == last),
        end=end,
    )
    alike = [sample for sample in strict["samples"] if sample["written_bytes"] <= last["written_bytes"]]
    study.row(
        "strict-append: time for the same user data", hours(alike[-1]), value=hours(alike[-1]) / hours(last), caveat=hours(last)
    )

    def draw(figure: Any) -> None:
        ax = figure.subplots()
        for label, samples, used in (
            ("strict-append: all but W", alike, lambda one: DISK - one["writable_bytes"]),
            ("Caveat-Scriptor: R + NW + WO", caveat["samples"], lambda one: DISK - one["writable_bytes"]),
            ("Caveat-Scriptor: R + NW", caveat["samples"], lambda one: one["readable_bytes"] + one["not_writable_bytes"]),
            ("user data, on both", caveat["samples"], lambda one: one["live_bytes"]),
        ):
            ax.plot([one["written_bytes"] / 1e12 for one in samples], [used(one) / 1e9 for one in samples], label=label)
        for name, sample in (("A", a), ("B", b), ("C", last if caveat["end"] == "full" else None)):
            if sample:
                ax.axvline(sample["written_bytes"] / 1e12, color="grey", linestyle="--")
                ax.text(sample["written_bytes"] / 1e12, 2, name)
        ax.axhline(70, color="grey", linestyle=":")
        ax.set(xlabel="user data written (TB)", ylabel="space (GB)", ylim=(0, DISK / 1e9))
        ax.legend()

    study.figure("figure-4", draw)


def on_a_mount(study: Study, model: str, words: list[str]) -> tuple[int, dict[str, Any]]:
    """The course on an image in a temporary directory, mounted, and the image's bytes of data; nothing is left behind."""
    smrkit = os.environ.get("SMRKIT", "smrkit")
    with tempfile.TemporaryDirectory() as folder:
        image, place = Path(folder, "image"), Path(folder, "place")
        place.mkdir()
        size = ["--size", f"{IMAGE}B", "--did", DISTANCE, "--dpid", DISTANCE, "--band", BAND]
        made = study.command("mkfs", str(image), "--model", MODELS[model], *size, "--json")
        ran = subprocess.run([smrkit, "mount", str(image), str(place)], capture_output=True, text=True)
        if ran.returncode:
            raise Error(ran.stderr.strip().splitlines()[-1])
        try:
            return made["raw_bytes"], age(study, [str(place), *words])
        finally:
            subprocess.run([smrkit, "umount", str(place)], capture_output=True)


def mounted(study: Study) -> None:
    study.section("A small real mount next to the simulation")
    if study.quick:
        return study.say("Left out of a quick run.")
    study.say(
        "An image of 1 GiB in a temporary directory, DID and DPID 256 KiB, bands of 8 MiB, aged by 2 GiB, with the benchmarks' part "
        "for its size: mounted by FUSE, with the defaults of `smrkit mount`, and simulated with the paper's settings. The mount commits "
        "every 5 s of real time, which is another moment of the course than in simulation."
    )
    study.say("The left number is the simulation's: the paper has none at this scale.")
    for model in MODELS:
        amounts = {"--fill": IMAGE // 10 * 7, "--bytes": 2 * IMAGE, "--sample": IMAGE // 50}
        words = [word for option, amount in amounts.items() for word in (option, f"{amount}B")]
        words += ["--benchmarks", "--seed", str(study.seed)]
        try:
            disk, ours = on_a_mount(study, model, words)
        except Error as error:
            study.row("{model}: mounted", "not run", model=model, why=str(error))
            continue
        distances = ["--did", DISTANCE, "--dpid", DISTANCE, "--band", BAND]
        of_disk = ["--simulate", MODELS[model], "--size", f"{disk}B", "--granule", "4KiB", *distances]
        theirs = age(study, [*of_disk, *words])
        gb, percent = lambda size: size / 1e9, lambda one, other: 100 * (one - other) / IMAGE
        if model == "strict-append":
            began = [course["first_cleaning"] and course["first_cleaning"]["written_bytes"] for course in (theirs, ours)]
            near = None not in began and abs(percent(*began)) <= 5
            told = [f"after {gb(at):.2f} GB" if at else "never" for at in began]
            study.row("strict-append: first cleaning", told[1], paper=told[0], agrees=near)
        # A commit makes NW of R where no write is allowed in between.
        what, keys = (
            ("R + NW", ("readable_bytes", "not_writable_bytes")) if model == "strict-append" else ("NW", ("not_writable_bytes",))
        )
        for at, key in (("A", "benchmarks_begin"), ("B", "benchmarks_end")):
            simulation, mount = theirs[key], ours[key]
            if not (simulation and mount):
                continue
            for item, of in (("user data", ("live_bytes",)), (None, ("readable_bytes",)), (what, keys)):
                if item is None:
                    study.row("{model}: R at {at}", gb(mount["readable_bytes"]), model=model, at=at)
                    continue
                paper, own = (sum(sample[one] for one in of) for sample in (simulation, mount))
                name = "{model}: user data at {at}" if item == "user data" else "{model}: {what} at {at}"
                off = percent(own, paper)
                study.row(name, gb(own), value=off, paper=gb(paper), model=model, at=at, what=what, off=off)
        if model == "Caveat-Scriptor":
            at_a, at_b = (gb(ours[key]["not_writable_bytes"]) for key in ("benchmarks_begin", "benchmarks_end"))
            study.row("Caveat-Scriptor: NW at B, mounted", at_b, value=at_b / at_a, at_a=at_a)


def running_out(study: Study) -> None:
    """When Caveat-Scriptor has no room for a block: by placement, distances, sizes and interleaving."""
    study.section("When Caveat-Scriptor runs out of space")
    cases = [("next-fit", did, sizes, turns) for sizes in (1, 0.15, 0.06) for did in (1, 3) for turns in ("1", "8", "64", "file")]
    # Between files that never run out and files that run out before B lies a window, which the paper's sizes must have hit.
    cases += [("next-fit", 3, sizes, turns) for sizes in (0.2, 0.18) for turns in ("64", "128", "file")]
    placements = ("adjacent", "first-fit", "best-fit", "reservation")
    cases += [(placement, 3, sizes, "8") for sizes in (1, 0.15) for placement in placements]
    if study.quick:
        return study.say(f"{len(cases)} more courses, which a quick run leaves out.")
    study.say(
        "The same course without a defragmenter until no run is left that a block fits into: by placement, DID/DPID, factor of the "
        "ager's sizes (1 has a mean of 168 MB), and how finely benchmark and ager interleave. The paper's one run ends at 5.5 h; "
        "which of these it was, it does not say."
    )

    def course(case: tuple[str, int, float, str]) -> dict[str, Any]:
        placement, did, sizes, turns = case
        until = 14 * DISK if placement == "next-fit" else 30 * DISK
        more = [
            "--benchmarks",
            "--until",
            f"{until}B",
            "--placement",
            placement,
            "--did",
            f"{did}MiB",
            "--size-factor",
            str(sizes),
            "--interleave",
            turns,
        ]
        return age(study, simulated("Caveat-Scriptor", study.seed, *more))

    made = dict(zip(cases, study.map(course, cases)))
    lasted = {case: one["last"]["written_bytes"] / 1e12 if one["end"] == "full" else math.inf for case, one in made.items()}
    for (placement, did, sizes, turns), one in made.items():
        b, (out, end) = one["benchmarks_end"], ended(one)
        nw = f"NW {b['not_writable_bytes'] / 1e9:.1f} GB at B" if b else "B was not reached"
        named = "whole file" if turns == "file" else "1 block" if turns == "1" else f"{turns} blocks"
        item = "{placement}, {did}/{dpid} MiB, sizes × {sizes}, {turns}"
        study.row(item, out, placement=placement, did=did, dpid=1, sizes=sizes, turns=named, end=end, nw=nw)
    worst = lambda turns: min(of for case, of in lasted.items() if case[0] == "next-fit" and case[3] == turns)
    told = lambda bytes_: "no end" if bytes_ == math.inf else bytes_
    whole, single = worst("file"), worst("1")
    study.row(
        "whole files last at least as long as single blocks interleaved", told(whole), agrees=whole >= single, single=told(single)
    )
    for sizes in (1, 0.15):
        alike = {case[0]: of for case, of in lasted.items() if case[1:] == (3, sizes, "8")}
        last = ", ".join(placement for placement, of in alike.items() if of == math.inf) or "none"
        out = ", ".join(f"{placement} ends at {short(of)} TB" for placement, of in alike.items() if of < math.inf)
        study.row("placements that last, 3/1 MiB, sizes × {sizes}, 8 blocks", last, sizes=sizes, out=out)


def idle(study: Study) -> None:
    """The paper's closing question: how much of the cleaning idle time hides, on either model."""
    study.section("Idle time: how much cleaning delays, by the share of it")
    shares, disk = study.pick(list(range(0, 100, 10)), [0, 50, 90]), DISK // 5
    more = ["--did", "3MiB", "--size-factor", "0.06", "--bytes", f"{6 * disk}B", "--record-from", f"{3 * disk}B", "--defragment"]
    keys = [(model, share) for share in shares for model in MODELS]
    jobs = [simulated(model, study.seed, *more, "--idle", str(share), disk=disk) for model, share in keys]
    made = dict(zip(keys, study.map(lambda words: age(study, words), jobs)))

    def delay(model: str, share: int) -> float:
        course = made[model, share]
        alone = course["alone"]
        return math.nan if course["end"] == "full" else 100 * alone["cleaning_delay_ns"] / alone["busy_ns"]

    rows = []
    for share in shares:
        cells = []
        for model in MODELS:
            course, alone = made[model, share], made[model, share]["alone"]
            if course["end"] == "full":
                cells += ["no room", "-", "-", "-"]
                continue
            longest = with_unit(alone["cleaning_delay_ns_max"] / 1e9, SECONDS)
            delayed = 100 * alone["events_delayed"] / max(1, alone["latency_ns"]["count"])
            cells += [
                f"{short(delay(model, share))} %",
                longest,
                f"{short(delayed)} %",
                f"{short(course['last']['cleaned']['moved_bytes'] / 1e9)} GB",
            ]
        rows.append([f"{share} %", *cells])
    study.table(
        ["idle", *(f"{model}: {what}" for model in MODELS for what in ("delay", "longest", "events delayed", "moved"))], rows
    )

    def least(model: str, most: float) -> int | None:
        """The share from which on the delay is at most that, at every larger one as well."""
        met = None
        for share in reversed(shares):
            if not delay(model, share) <= most:
                break
            met = share
        return met

    strict, caveat = (least(model, 1.0) for model in MODELS)
    costs = {model: delay(model, 0) for model in MODELS}
    much = least("strict-append", 0.5 * costs["strict-append"])
    told = lambda share: "at none" if share is None else f"from {share} % idle on"
    hides = caveat is not None and caveat <= shares[1]
    study.row("Caveat-Scriptor hides all cleaning", told(caveat), agrees=hides, first=shares[1], costs=costs["Caveat-Scriptor"])
    study.row("strict-append hides much cleaning", told(much), agrees=much is None or much >= 75, costs=costs["strict-append"])
    none = 100
    earlier = (none if caveat is None else caveat) < (none if strict is None else strict)
    better = (
        "Caveat-Scriptor" if earlier else "neither" if strict is None else "both alike" if strict == caveat else "strict-append"
    )
    study.row("which model hides all cleaning with less idle time", better, agrees=earlier, strict=told(strict))

    def draw(figure: Any) -> None:
        ax = figure.subplots()
        for model in MODELS:
            ax.plot(shares, [delay(model, share) for share in shares], "o-", label=model)
        ax.set(xlabel="idle time (% of all time)", ylabel="time that cleaning delays (% of the programs')")
        ax.legend()

    study.figure("idle", draw)


def study(study: Study) -> None:
    for part in (row_by_row, distributions, courses, mounted, running_out, idle):
        part(study)
