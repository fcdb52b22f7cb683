"""Le, Holliday & Amer, "The Peril and Promise of Shingled Disk Arrays": movement of heads when sources are merged; and rebuilds."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl
import smrkit
from smrkit import Outcome
from smrkit.reproduce import LIKE, SECONDS, Spread, Study, draw_curves, judged, no_requests, short, with_unit

#: Disks of an array, blocks of a source, and sectors of a block.
DISKS, BLOCKS, BLOCK = 4, 65_536, 8
TRACK, BAND_TRACKS = 512, 20
PURE, DEDICATED, NOT_MERGED = "pure", "dedicated", "striped, not interleaved"
#: Striped configurations by the operations of a burst.
STRIPED = {burst: f"striped, bursts of {burst}" for burst in (1, 10, 50, 250, 500, 1000)}
#: The configurations of figure 2 that are compared with pure.
COMPARED = [*STRIPED.values(), NOT_MERGED, DEDICATED]
#: The level of an array for each configuration, by its first word.
LEVELS = {"striped": "raid0", "pure": "span", "spanning": "span", "dedicated": "dedicated"}
#: What may be meant by a movement: columns of an outcome's movement. Strokes are shares of each disk's tracks.
MOVEMENTS = {"track distance": "track_distance", "track count": "track_count", "bands moved": "bands_moved"}
#: The paper's claims, and the configurations that they are about.
CLAIMS = {
    STRIPED[1]: "up to 40",
    STRIPED[50]: "quickly dropping",
    STRIPED[250]: "quickly dropping",
    STRIPED[1000]: "approaches pure",
    DEDICATED: "25 % below pure",
}
#: A scheme, a configuration and a seed.
Case = tuple[str, str, int]


@dataclass
class Sources:
    """Sources that an array serves, the sectors of each, and their placement: end to end, or all from LBA 0."""

    arguments: dict[str, Any]
    sizes: list[int]
    placement: str = "end-to-end"
    workload: str = ""

    @classmethod
    def generated(cls, workload: str, placement: str = "end-to-end") -> "Sources":
        sectors = BLOCKS * BLOCK
        return cls({"workload": [workload] * DISKS, "span": sectors * 512}, [sectors] * DISKS, placement, workload)


def sequential_runs(shortest: int, longest: int, count: int, placement: str = "end-to-end") -> Sources:
    return Sources.generated(f"runs:sources=1,blocks={BLOCKS},run_min={shortest},run_max={longest},count={count}", placement)


def member(layer: str, parameters: dict[str, Any], drive: Any) -> str:
    """A member of an array, as its description has it."""
    settings = ",".join(f"{key}={value}" for key, value in parameters.items())
    return f',member=(layer={layer},drive="{drive}",set=({settings}))'


def array(study: Study, scheme: str, configuration: str, seed: int, sources: Sources) -> dict[str, Any]:
    """Arguments of a run of four disks, of which the sources fill 80 %."""
    level = LEVELS[configuration.split(",")[0]]
    quarter = math.ceil(sum(sources.sizes) / DISKS / BLOCK) * BLOCK
    used = sources.sizes if level == "dedicated" else [quarter] * DISKS
    chosen, members, seek = study.numbers["schemes"][scheme], "", smrkit.drives(LIKE)["seek_curve"]
    for sectors in used:
        # A log needs five bands beyond its data: an open one, three to clean with, and one for its spare.
        bands = max(math.ceil(sectors / 0.8 / (BAND_TRACKS * TRACK)), math.ceil(sectors / (BAND_TRACKS * TRACK)) + 5)
        tracks = bands * (BAND_TRACKS + 1)
        drive = study.small_drive(f"arrays-{bands}", tracks=tracks, track_sectors=TRACK, switch_ms=0.0, skew_ms=0.0, seek=seek)
        members += member(chosen["layer"], chosen["set"], drive)
    chunk = ",chunk=4KiB" if level == "raid0" else ""
    burst = configuration.partition("bursts of ")[2]
    return sources.arguments | {
        "array": f"{level}:disks={DISKS}{chunk}{members}",
        "interleave": f"burst:{burst}" if burst else "none",
        "sources": None if level == "dedicated" else sources.placement,
        "used_sectors": used,
        "prefill": "sequential",
        "movement": True,
        "seed": seed,
    }


@dataclass
class Runs:
    """Outcomes by scheme, configuration and seed."""

    outcomes: dict[Case, Outcome]

    @classmethod
    def run(cls, study: Study, cases: Iterable[Case], sources: Sources) -> "Runs":
        jobs = {case: array(study, *case, sources) for case in cases}
        return cls(study.keyed_runs(jobs))

    @staticmethod
    def value(run: Outcome, measure: str) -> float:
        """The time, or a movement by all causes, summed over the disks. ``strokes`` are a movement that the paper does not have."""
        column = MOVEMENTS.get(measure, "stroke_share")
        return float(run.elapsed_ns if measure == "time" else run.movement[column].total)

    def ratio(self, measure: str, ours: tuple[str, str], base: tuple[str, str]) -> Spread:
        """A measure divided by that of ``base``, over the seeds that both have. Both are a scheme and a configuration."""
        values = []
        for (scheme, configuration, seed), run in self.outcomes.items():
            if (scheme, configuration) == ours and (*base, seed) in self.outcomes:
                base_value = self.value(self.outcomes[*base, seed], measure)
                values.append(self.value(run, measure) / base_value if base_value else math.nan)
        return Spread.of(values) if values else Spread(math.nan, "no run")

    def times_pure(self, scheme: str, measure: str, configuration: str) -> Spread:
        return self.ratio(measure, (scheme, configuration), (scheme, PURE))

    def has(self, scheme: str, measure: str) -> bool:
        """True if the measure is above 0 in the scheme's pure configuration. A conventional disk moves no bands."""
        outcomes = self.outcomes.items()
        return any(self.value(run, measure) > 0 for (own, configuration, _), run in outcomes if (own, configuration) == (scheme, PURE))


def check_claim(study: Study, runs: Runs, scheme: str, measure: str, configuration: str) -> tuple[Spread, bool | None, dict[str, Any]]:
    """Returns our number, whether the claim holds (``None`` if it can't be judged), and the words of its row."""
    ours, at_burst_1 = (runs.times_pure(scheme, measure, one) for one in (configuration, STRIPED[1]))
    words: dict[str, Any] = {"value": ours.mean, "share": ours.mean / at_burst_1.mean}
    if CLAIMS[configuration] == "quickly dropping":
        words["value"] = words["share"]
    # Claims of a drop need a rise first (assumption: to five times pure).
    if CLAIMS[configuration] in ("quickly dropping", "approaches pure") and not at_burst_1.mean >= 5:
        why = f"at burst 1 it is {at_burst_1.mean:.2f} × pure, so there is nothing to drop"
        return ours, None, words | {"comparable": False, "why": why}
    section = next(one for one in study.numbers["section"] if one["heading"] == "Figure 2 on {of}: log")
    number = next(row for row in section["rows"] if row["item"] == f"{{measure}}: {configuration}")
    return ours, judged({"unit": ""} | number, number["paper"], words["value"])[0], words


def claims_table(study: Study, runs: Runs) -> None:
    study.section("What holds under which scheme")
    schemes, rows = list(study.numbers["schemes"]), []
    for configuration, claim in CLAIMS.items():
        cells = []
        for scheme in schemes:
            verdicts = {}
            for measure, word in zip(MOVEMENTS, ("distance", "count", "bands")):
                if runs.has(scheme, measure):
                    ours, holds, _ = check_claim(study, runs, scheme, measure, configuration)
                    if holds is not None and math.isfinite(ours.mean):
                        verdicts[word] = holds
            holding = ", ".join(word for word, holds in verdicts.items() if holds)
            cells.append((holding or "no") if verdicts else "-")
        rows.append([f"{claim}: {configuration}", *cells])
    for measure in (*MOVEMENTS, "time"):
        cells = [
            short(runs.times_pure(scheme, measure, STRIPED[1]).mean) if runs.has(scheme, measure) else "-" for scheme in schemes
        ]
        rows.append([f"{measure}, {STRIPED[1]} (× pure)", *cells])
    study.table(["claim", *schemes], rows)


def movement(study: Study, set_name: str, sources: Sources, seeds: tuple[list[int], list[int]], figure_name: str) -> None:
    """Runs a set of sources in every configuration under every scheme, and adds the paper's claims, which are about the log.

    ``seeds`` are those of the log and those of the other schemes.
    """
    is_main, is_real = set_name == "`runs`, end to end", "workload" not in sources.arguments
    log_seeds, other_seeds = seeds
    schemes = list(study.numbers["schemes"])
    log, by_source = schemes[:2]

    def is_run(scheme: str, configuration: str) -> bool:
        # The paper's text does not name these bursts, so they are run on the main set only, and not with bands by source.
        if configuration in (STRIPED[10], STRIPED[500]):
            return is_main and scheme != by_source
        return configuration != NOT_MERGED or is_main

    cases = [
        (scheme, configuration, seed)
        for seed, scheme, configuration in product(log_seeds, schemes, [PURE, *COMPARED])
        if is_run(scheme, configuration) and (scheme == log or seed in other_seeds)
    ]
    runs = Runs.run(study, cases, sources)
    if is_main:
        claims_table(study, runs)
    study.section("Figure 2 on {of}: log", of=set_name)
    sizes = ", ".join(f"{trace} ({sectors / 2048:.0f} MiB)" for trace, sectors in zip(study.numbers["traces"], sources.sizes))
    for line in study.numbers["texts"][set_name]:
        study.say(line.format(workload=sources.workload, sizes=sizes))
    if is_main:
        describe_schemes(study)
    measures = list(MOVEMENTS) if is_main else ["track distance", "track count"]
    rows = []
    for scheme, measure in product(schemes, [*measures, "time"]):
        if runs.has(scheme, measure):
            cells = [short(runs.times_pure(scheme, measure, configuration).mean) for configuration in COMPARED]
            rows.append([f"{scheme}, {measure}", *cells])
    study.table(["scheme, measure (× pure)", *(configuration.removeprefix("striped, ") for configuration in COMPARED)], rows)
    for measure, configuration in product(MOVEMENTS if is_main else ["track distance"], CLAIMS):
        if runs.has(log, measure):
            ours, _, words = check_claim(study, runs, log, measure, configuration)
            if is_real and configuration == DEDICATED:
                why = "each dedicated disk has the size of its own source, so tracks crossed depend on the sizes: see strokes"
                words |= {"comparable": False, "why": why}
            study.row(f"{{measure}}: {configuration}", ours, measure=measure, **words)
    if is_real:
        study.row("{measure}: dedicated", runs.times_pure(log, "strokes", DEDICATED), measure="strokes")
    if is_main:
        main_rows(study, runs, log_seeds, log, by_source)

    study.figure(figure_name, lambda figure: draw_movement(figure, runs, schemes), size=(15, 7))


def describe_schemes(study: Study) -> None:
    for scheme, chosen in study.numbers["schemes"].items():
        settings = ", ".join(f"{key}={value}" for key, value in chosen["set"].items())
        study.say(f"{scheme}: layer {chosen['layer']}" + (f" with {settings}." if settings else ". No bands are moved."))


def draw_movement(figure: Any, runs: Runs, schemes: list[str]) -> None:
    for axes, measure in zip(figure.subplots(2, len(schemes), sharex=True, sharey="row"), MOVEMENTS):
        for ax, scheme in zip(axes, schemes):
            ratios = {burst: runs.times_pure(scheme, measure, one).mean for burst, one in STRIPED.items()}
            run = {burst: ratio for burst, ratio in ratios.items() if math.isfinite(ratio)}
            for one, style in ((NOT_MERGED, "--"), (DEDICATED, "-."), (PURE, ":")):
                ax.axhline(runs.times_pure(scheme, measure, one).mean, color="grey", linestyle=style, label=one)
            properties = {"xscale": "log", "yscale": "log", "xlabel": "Operations of a burst", "title": scheme}
            draw_curves(ax, {"striped": (run, run.values())}, **properties)
        axes[0].set_ylabel(f"{measure} (× pure)")
    axes[-1].legend()


def main_rows(study: Study, runs: Runs, seeds: list[int], log: str, by_source: str) -> None:
    """Adds the rows that only the main set has."""
    host_percent = []
    for seed in seeds:
        burst_1, pure = (runs.outcomes[log, one, seed].movement.track_distance for one in (STRIPED[1], PURE))
        host_percent.append(100 * (burst_1.host - pure.host) / (burst_1.total - pure.total))
    study.row("host's share of the distance added: striped, bursts of 1", Spread.of(host_percent).mean)
    distance = runs.times_pure(log, "track distance", STRIPED[1]).mean
    study.row("time: striped, bursts of 1", runs.times_pure(log, "time", STRIPED[1]), distance=distance)
    separated = runs.ratio("track distance", (by_source, STRIPED[1]), (log, STRIPED[1]))
    study.row("track distance, log, bands by source to one log: striped, bursts of 1", separated)


def squeezed(study: Study, name: str) -> tuple[Path, int]:
    """Writes a trace without the blocks that it never touches: the others move together, in the order of their addresses.

    Returns its file and its sectors.
    """
    frame = pl.DataFrame(smrkit.trace.read(study.trace(name))).cast({"lba": pl.Int64, "sectors": pl.Int64})
    end_block = (pl.col("lba") + pl.col("sectors") + BLOCK - 1) // BLOCK
    requests = frame.select(first=pl.col("lba") // BLOCK, end=end_block).sort("first", "end")
    # Requests that overlap or touch form a stretch. The next stretch begins where a request begins behind all ends so far.
    end_so_far = requests["end"].cum_max().shift(1, fill_value=-1)
    stretches = (
        requests.with_columns(stretch=(requests["first"] > end_so_far).cum_sum())
        .group_by("stretch")
        .agg(pl.col("first").min(), pl.col("end").max())
        .sort("stretch")
    )
    blocks = pl.col("end") - pl.col("first")
    untouched_before = pl.col("first") - blocks.cum_sum().shift(1, fill_value=0)
    offsets = stretches.select("first", offset=untouched_before)
    moved = frame.with_row_index().with_columns(first=pl.col("lba") // BLOCK).sort("first").join_asof(offsets, on="first").sort("index")
    file = study.file(f"{name}.parquet", "")
    moved.select(
        pl.col("time_ns").cast(pl.Int64),
        pl.col("op").cast(pl.String),
        (pl.col("lba") - pl.col("offset") * BLOCK).cast(pl.UInt64).alias("lba"),
        pl.col("sectors").cast(pl.UInt32),
    ).write_parquet(file)
    # Traces that are merged end at multiples of 1 MiB.
    sectors = stretches.select(blocks.sum()).item() * BLOCK
    return file, math.ceil(sectors / 2048) * 2048


def figure2(study: Study) -> None:
    one_seed = ([study.seed], [study.seed])
    count, fewer = study.pick((400_000, 100_000), (40_000, 10_000))
    movement(study, "`runs`, end to end", sequential_runs(16, 111, count), (study.seeds(5, 1), study.seeds(2, 1)), "runs")
    movement(study, "`runs`, all from LBA 0", sequential_runs(16, 111, fewer, "zero"), one_seed, "runs-from-0")
    hot = Sources.generated(f"hot-cold:size=4Ki,hot_share=25%,hot_access_share=1,count={fewer}")
    movement(study, "random accesses in hot regions", hot, one_seed, "hot")
    missing = [name for name in study.numbers["traces"] if not study.trace(name)]
    if missing:
        study.section("Figure 2 on {of}: log", of="real traces, end to end")
        study.row("movement of the real set", None, missing=", ".join(missing))
        return
    paths, sizes = map(list, zip(*(squeezed(study, name) for name in study.numbers["traces"])))
    movement(study, "real traces, end to end", Sources({"trace": paths}, sizes), one_seed, "real")
    movement(study, "real traces, all from LBA 0", Sources({"trace": paths}, sizes, "zero"), one_seed, "real-from-0")


def run_lengths(study: Study) -> None:
    study.section("What interleaving costs, by the length of runs")
    lengths, measures = (4, 8, 16, 32, 64, 128), ("track distance", "track count", "time")
    ratios: dict[str, list[float]] = {measure: [] for measure in measures}
    for length in lengths:
        sources = sequential_runs(length // 4, length // 4 * 7, study.pick(200_000, 20_000))
        runs = Runs.run(study, [("log", one, study.seed) for one in (PURE, STRIPED[1])], sources)
        for measure in measures:
            ratios[measure].append(runs.times_pure("log", measure, STRIPED[1]).mean)
    header = ["mean length of runs (blocks)", "track distance (× pure)", "track count", "time"]
    study.table(header, [[str(length), *map(short, row)] for length, *row in zip(lengths, *ratios.values())])
    study.plot(
        "run-length",
        {measure: (lengths, ratios[measure]) for measure in ("track distance", "track count")},
        xscale="log",
        yscale="log",
        xlabel="Mean length of a run (blocks)",
        ylabel="A log, burst 1 (× pure)",
    )


def same_as_pure(study: Study) -> None:
    """Configurations that must come out the same as pure, and a workload that must nearly do."""
    study.section("Sources as large as disks, laid end to end")
    same = ["spanning, bursts of 1", "spanning, bursts of 50", DEDICATED, "dedicated, bursts of 1", "dedicated, bursts of 1000"]
    schemes = list(study.numbers["schemes"])
    runs = Runs.run(study, [(*case, study.seed) for case in product(schemes, [PURE, *same])], sequential_runs(16, 111, 20_000))
    keys = ("movement", "physical_read_sectors", "physical_written_sectors", "commands", "layer_stats")
    counters = lambda disk: [disk[key] for key in keys] + [disk.cleaning.sectors]
    disks = lambda scheme, one: list(map(counters, runs.outcomes[scheme, one, study.seed].members))
    rows = []
    for scheme in schemes:
        pure = disks(scheme, PURE)
        rows.append([scheme, *("the same" if disks(scheme, one) == pure else "not the same" for one in same)])
    study.table(["scheme", *same], rows)
    study.row("track distance: dedicated", runs.times_pure("log", "track distance", DEDICATED))
    workload = f"random-write:size=4Ki,count={study.pick(262_144, 65_536)}"
    configurations = [PURE, *(STRIPED[burst] for burst in (1, 10, 50, 250))]
    runs = Runs.run(study, [("log", one, study.seed) for one in configurations], Sources.generated(workload))
    amplification = {
        configuration: run.physical_written_sectors.total / run.host_written_sectors
        for (_, configuration, _), run in runs.outcomes.items()
    }
    most_off = max(abs(value / amplification[PURE] - 1) for value in amplification.values())
    study.section("Uniform random writes on a log", workload=workload, off=100 * most_off)
    study.table(["configuration", "write amplification"], [[one, f"{value:.3f}"] for one, value in amplification.items()])


class Fill(NamedTuple):
    """How a new member is filled: the order of the pieces, their size, and how many are under way at a time."""

    order: str
    kib: int
    window: int

    def __str__(self) -> str:
        return f"{self.order}, {self.kib} KiB, window {self.window}"

    def pieces(self) -> str:
        """The words for it in the description of a rebuild."""
        if self.order == "in order":
            return f"write={self.kib}KiB,window={self.window}"
        run = ",run=3MB" if self.order == "in runs of 3 MB" else ""
        return f"order=scattered,record={self.kib}KiB{run},window={self.window}"


IN_ORDER, SCATTERED, IN_RUNS = "in order", "scattered singly", "in runs of 3 MB"
#: The orders, with the size in KiB at which windows are compared.
ORDERS = {IN_ORDER: 512, SCATTERED: 128, IN_RUNS: 44}
#: The largest window.
MANY = 32
#: Each order at its own size, with the largest window.
MAIN_FILLS = {order: Fill(order, kib, MANY) for order, kib in ORDERS.items()}
FILLS = [Fill(order, kib, window) for order, kib in ORDERS.items() for window in (1, 10, MANY)]
FILLS += [Fill(IN_ORDER, 32, MANY), Fill(IN_ORDER, 128, MANY), Fill(SCATTERED, 512, MANY), Fill(IN_RUNS, 128, MANY), Fill(IN_RUNS, 512, MANY)]
CACHED, MANAGED = "conventional, write cache", "drive-managed, write cache"
IDLE_CLEANING = f"{MANAGED}, cleans when idle"


def rounded(value: float) -> float:
    """Rounds to four digits; the model knows no more."""
    return round(value, 3 - math.floor(math.log10(abs(value)))) if value and math.isfinite(value) else value


@dataclass
class Rebuilds:
    """Rebuilds by the kind of the new member, the fill, and whether there was foreground load."""

    outcomes: dict[tuple[str, Fill, bool], Outcome]

    def rebuild(self, kind: str, fill: Fill, has_foreground: bool = False) -> Any:
        return self.outcomes[kind, fill, has_foreground].rebuild

    def hours(self, kind: str, fill: Fill, has_foreground: bool = False) -> float:
        rebuild = self.rebuild(kind, fill, has_foreground)
        return scaled_hours(rebuild.elapsed_ns, rebuild)

    def longest_s(self, kind: str, fill: Fill, has_foreground: bool = False) -> float:
        """The longest command of the new member."""
        return (self.rebuild(kind, fill, has_foreground).longest_new_ns or 0) / 1e9


def scaled_hours(ns: int, rebuild: Any) -> float:
    """A time of a rebuild, in hours for a whole member of 5 TB."""
    return float(ns / 3.6e12 * 5e12 / max(1, rebuild.bytes))


def rebuilds(study: Study) -> None:
    """Fills a new disk of a mirror whose survivor is conventional and reads ahead. New disks are of several kinds, and filled in several ways."""
    kinds, drive_text, sectors = study.numbers["members"], smrkit.drive_file(LIKE), smrkit.drives(LIKE)["raw_sectors"]
    # Only a part of the disk is rebuilt.
    part = {IN_ORDER: study.pick(40, 800), SCATTERED: study.pick(40, 800), IN_RUNS: study.pick(60, 800)}
    with_buffer = lambda key, size: drive_text.replace(
        "[mechanical]", f'[mechanical]\n{key} = {{ value = {size}, source = "assumption" }}'
    )
    survivor = study.file("survivor.toml", with_buffer("read_ahead_bytes", 32 << 20))
    plain = study.file("new.toml", drive_text)
    buffered = study.file("buffered.toml", with_buffer("write_cache_bytes", 64 << 20))
    light_load = " + ".join(f"random-{op}:size=4Ki,rate=1,count=1G" for op in ("write", "read"))

    def mirror(kind: str, fill: Fill, has_foreground: bool) -> dict[str, Any]:
        new = kinds[kind]
        members = member("in-place", {}, survivor) + member(new["layer"], new["set"], buffered if new.get("buffered") else plain)
        demand: dict[str, Any] = {"workload": light_load} if has_foreground else {"requests": no_requests()}
        return demand | {
            "array": f"raid1:disks=2{members}",
            "capacity": sectors // part[fill.order] * 512,
            "rebuild": f"disk=1,{fill.pieces()}",
            "arrival": "trace",
        }

    compared = [kind for kind, entry in kinds.items() if not entry.get("beside")]
    loaded = (CACHED, MANAGED, f"{MANAGED}, bypass by run", "vguard, write cache")
    with_foreground = [(kind, MAIN_FILLS[order]) for order, kind in product((IN_ORDER, IN_RUNS), loaded)]
    cases = [(kind, fill, False) for fill, kind in product(FILLS, compared)]
    cases += [(kind, fill, True) for kind, fill in with_foreground]
    cases += [(IDLE_CLEANING, fill, False) for fill in MAIN_FILLS.values()]
    runs = Rebuilds(study.keyed_runs({case: mirror(*case) for case in cases}))
    study.section("Rebuilding a member of 5 TB: hours", part=part[IN_ORDER], part_in_runs=part[IN_RUNS])
    table_by_fill(study, FILLS, compared, lambda kind, fill: short(rounded(runs.hours(kind, fill))))
    study.figure("rebuild", lambda figure: draw_rebuilds(figure, runs, compared), size=(11, 13))

    def longest(kind: str, fill: Fill) -> str:
        rebuild = runs.rebuild(kind, fill)
        dropped = ", dropped at 30 s" if rebuild.dropped_30s else ", dropped at 7 s" if rebuild.dropped_7s else ""
        return f"{short(rounded(runs.longest_s(kind, fill)))} s{dropped}"

    def cleaned(kind: str, fill: Fill) -> str:
        """Bands cleaned for each piece, and the time of one."""
        run = runs.outcomes[kind, fill, False]
        bands, busy = run.members[-1].layer_stats.get("bands_cleaned", 0), run.rebuild.members[-1].busy_ns
        cleaning_s = (busy.clean_read + busy.clean_write + busy.destage_read) / 1e9
        return f"{short(rounded(bands / max(1, run.rebuild.pieces)))}, {short(cleaning_s / bands)} s each" if bands else "none"

    study.section("Rebuilding a member: the longest command, and timeouts")
    table_by_fill(study, [fill for fill in FILLS if fill.kib == ORDERS[fill.order]], compared, longest)
    study.section("Rebuilding a member: bands cleaned for each write")
    shingled = [kind for kind in compared if kinds[kind]["layer"] != "in-place"]
    table_by_fill(study, [fill for fill in FILLS if fill.window == MANY], shingled, cleaned)
    study.section("Rebuilding a member during a light foreground")
    rows = []
    for kind, fill in with_foreground:
        rebuild = runs.rebuild(kind, fill, True)
        p99 = [with_unit(rebuild.foreground_ns[op].p99 / 1e9, SECONDS) for op in ("read", "write")]
        alone, beside_load = (short(rounded(runs.hours(kind, fill, has_foreground))) for has_foreground in (False, True))
        command = with_unit(runs.longest_s(kind, fill, True), SECONDS)
        rows.append([f"{fill}: {kind}", beside_load, alone, *p99, command, "yes" if rebuild.dropped_7s else "no"])
    study.table(["rebuild", "hours", "alone", "reads, 99 %", "writes, 99 %", "longest command", "dropped at 7 s"], rows)
    study.section("Rebuilding a member: until the caches are clean")
    rows = []
    for kind, fill, has_foreground in cases:
        if not has_foreground and fill in MAIN_FILLS.values() and kind in (CACHED, MANAGED, IDLE_CLEANING):
            rebuild = runs.rebuild(kind, fill)
            clean = "never" if rebuild.clean_ns is None else short(rounded(scaled_hours(rebuild.clean_ns, rebuild)))
            rows.append([f"{fill}: {kind}", short(rounded(runs.hours(kind, fill))), clean])
    study.table(["rebuild", "redundant after (h)", "clean after (h)"], rows)
    public_tests(study, runs)


def table_by_fill(study: Study, fills: Sequence[Fill], kinds: Sequence[str], cell: Callable[[str, Fill], str]) -> None:
    study.table(["way", *kinds], [[str(fill), *(cell(kind, fill) for kind in kinds)] for fill in fills])


def draw_rebuilds(figure: Any, runs: Rebuilds, kinds: Sequence[str]) -> None:
    logarithmic = {"xscale": "log", "yscale": "log"}
    for (hours, commands), order in zip(figure.subplots(3, 2), ORDERS):
        by_size = sorted(fill for fill in FILLS if fill.order == order and fill.window == MANY)
        by_window = sorted(fill for fill in FILLS if fill.order == order and fill.kib == ORDERS[order])
        curves = {kind: ([fill.kib for fill in by_size], [runs.hours(kind, fill) for fill in by_size]) for kind in kinds}
        draw_curves(hours, curves, xlabel="Size of a piece (KiB)", ylabel="Hours for 5 TB", title=order, **logarithmic)
        curves = {kind: ([fill.window for fill in by_window], [runs.longest_s(kind, fill) for fill in by_window]) for kind in kinds}
        properties = logarithmic | {"xlabel": "Pieces under way", "title": f"{order}, {ORDERS[order]} KiB"}
        draw_curves(commands, curves, guides={"7 s": 7, "30 s": 30}, ylabel="Longest command (s)", **properties)
    commands.legend()


def public_tests(study: Study, runs: Rebuilds) -> None:
    study.section("Rebuilding a member: public tests of another maker's drive")
    resilver = MAIN_FILLS[IN_RUNS]
    conventional, managed = runs.hours(CACHED, resilver), runs.hours(MANAGED, resilver)
    study.row("a resilver on conventional disks", rounded(conventional))
    study.row("a resilver on the drive-managed disk", rounded(managed))
    study.row("drive-managed / conventional", rounded(managed / conventional))
    study.row("drive-managed, records scattered singly (128 KiB)", rounded(runs.hours(MANAGED, MAIN_FILLS[SCATTERED])))
    study.row("drive-managed, write cache off", rounded(runs.hours("drive-managed", resilver)))
    study.row("drive-managed, in order (512 KiB)", rounded(runs.hours(MANAGED, MAIN_FILLS[IN_ORDER])))
    for kind in (f"{MANAGED}, bypass by command", f"{MANAGED}, bypass by run", MANAGED, "drive-managed"):
        small, large = (runs.hours(kind, Fill(IN_ORDER, kib, MANY)) for kib in (32, 512))
        is_by_command = kind.endswith("by command")
        why = "assumed: commands of 512 KiB bypass the persistent cache, shorter ones don't" if is_by_command else ""
        words = {"member": kind, "small": short(small), "large": short(large), "why": why}
        study.row("32 KiB / 512 KiB in order: {member}", rounded(small / large), **words)


def study(study: Study) -> None:
    for part in (figure2, run_lengths, same_as_pure, rebuilds):
        part(study)
