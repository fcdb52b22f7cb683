"""Le, Holliday & Amer, "The Peril and Promise of Shingled Disk Arrays": movement of heads when sources are merged; and rebuilds."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl
import smrkit
from smrkit import Outcome
from smrkit.reproduce import LIKE, SECONDS, Spread, Study, judged, short, with_unit

DISKS, BLOCKS, BLOCK = 4, 65_536, 8
TRACK, BAND_TRACKS = 512, 20
PURE, FIRST, DEDICATED, UNMERGED = "pure", "striped, bursts of 1", "dedicated", "striped, not interleaved"
STRIPED = [f"striped, bursts of {burst}" for burst in (1, 10, 50, 250, 500, 1000)]
LEVELS = {"striped": "raid0", "pure": "span", "spanning": "span", "dedicated": "dedicated"}
COUNTED = ("track distance", "track count", "bands moved")
#: A claim in words, the configuration that it is about, and the most that may be left of the rise at burst 1.
CLAIMS = (
    ("up to 40", FIRST),
    ("quickly dropping", STRIPED[2]),
    ("quickly dropping", STRIPED[3]),
    ("approaches pure", STRIPED[5]),
    ("25 % below pure", DEDICATED),
)


@dataclass
class Sources:
    """Four sources, the sectors of each, and where they lie: end to end, or all from LBA 0."""

    arguments: dict[str, Any]
    sizes: list[int]
    placement: str = "end-to-end"
    text: str = ""

    @classmethod
    def generated(cls, workload: str, placement: str = "end-to-end") -> "Sources":
        sectors = BLOCKS * BLOCK
        return cls({"workload": [workload] * DISKS, "span": sectors * 512}, [sectors] * DISKS, placement, workload)


def in_runs(shortest: int, longest: int, count: int, placement: str = "end-to-end") -> Sources:
    return Sources.generated(f"runs:sources=1,blocks={BLOCKS},run_min={shortest},run_max={longest},count={count}", placement)


def member(layer: str, set_: dict[str, Any], drive: Any) -> str:
    settings = ",".join(f"{key}={value}" for key, value in set_.items())
    return f',member=(layer={layer},drive="{drive}",set=({settings}))'


def array(study: Study, scheme: str, configuration: str, of: Sources, seed: int) -> dict[str, Any]:
    """A run of four disks under a scheme, of which footprints fill 80 %; sources are merged in bursts, or one after another."""
    level = LEVELS[configuration.split(",")[0]]
    quarter = math.ceil(sum(of.sizes) / DISKS / BLOCK) * BLOCK
    used = of.sizes if level == "dedicated" else [quarter] * DISKS
    chosen, members, seek = study.numbers["schemes"][scheme], "", smrkit.drives(LIKE)["seek_curve"]
    for sectors in used:
        # A log needs five bands beyond its data: an open one, three to clean with, and one for its spare.
        bands = max(math.ceil(sectors / 0.8 / (BAND_TRACKS * TRACK)), math.ceil(sectors / (BAND_TRACKS * TRACK)) + 5)
        name = f"arrays-{bands}"
        drive = study.small_drive(
            name, tracks=bands * (BAND_TRACKS + 1), track_sectors=TRACK, switch_ms=0.0, skew_ms=0.0, seek=seek
        )
        members += member(chosen["layer"], chosen["set"], drive)
    chunk = ",chunk=4KiB" if level == "raid0" else ""
    burst = configuration.partition("bursts of ")[2]
    merged = {"interleave": f"burst:{burst}" if burst else "none"} | ({} if level == "dedicated" else {"sources": of.placement})
    return of.arguments | merged | {"array": f"{level}:disks={DISKS}{chunk}{members}", "used_sectors": used, "prefill": "sequential", "movement": True, "seed": seed}


@dataclass
class Measured:
    """Runs by scheme, configuration and seed."""

    runs: dict[tuple[str, str, int], Outcome] = field(default_factory=dict)

    @classmethod
    def of(cls, study: Study, keys: Iterable[tuple[str, str, int]], sources: Sources) -> "Measured":
        keys = list(keys)
        return cls(
            dict(
                zip(keys, study.runs(array(study, scheme, configuration, sources, seed) for scheme, configuration, seed in keys))
            )
        )

    @staticmethod
    def value(run: Outcome, measure: str) -> float:
        """Movement by all causes, summed over the disks; strokes are shares of each disk's tracks."""
        keys = {
            "track distance": "track_distance",
            "track count": "track_count",
            "bands moved": "bands_moved",
            "strokes": "stroke_share",
        }
        return float(run.elapsed_ns if measure == "time" else run.movement[keys[measure]].total)

    def ratio(self, measure: str, of: tuple[str, str], to: tuple[str, str]) -> Spread:
        """A measure against that of another scheme or configuration, over the seeds that both have."""
        values = []
        for (scheme, configuration, seed), run in self.runs.items():
            if (scheme, configuration) == of and (*to, seed) in self.runs:
                base = self.value(self.runs[*to, seed], measure)
                values.append(self.value(run, measure) / base if base else math.nan)
        return Spread.of(values) if values else Spread(math.nan, "no run")

    def times_pure(self, scheme: str, measure: str, configuration: str) -> Spread:
        return self.ratio(measure, (scheme, configuration), (scheme, PURE))

    def counts(self, scheme: str, measure: str) -> bool:
        """True if anything of the kind was counted at all."""
        return any(
            self.value(run, measure) > 0
            for (of, configuration, _), run in self.runs.items()
            if (of, configuration) == (scheme, PURE)
        )


def claim(
    study: Study, measured: Measured, scheme: str, measure: str, configuration: str
) -> tuple[Spread, bool | None, dict[str, Any]]:
    """Our number, whether the claim holds by its row (``None``: nothing rose that could drop), and what the row takes."""
    ours, first = (measured.times_pure(scheme, measure, of) for of in (configuration, FIRST))
    section = next(one for one in study.numbers["section"] if one["heading"] == "Figure 2 on {of}: log")
    number = next(row for row in section["rows"] if row["item"] == f"{{measure}}: {configuration}")
    words: dict[str, Any] = {"value": ours.mean, "share": ours.mean / first.mean}
    if configuration in STRIPED[2:4]:
        words["value"] = words["share"]
    if configuration in STRIPED[2:] and not first.mean >= 5:
        why = f"at burst 1 it is {first.mean:.2f} × pure: nothing is there to drop"
        return ours, None, words | {"comparable": False, "why": why}
    return ours, judged({"unit": ""} | number, number["paper"], words["value"])[0], words


def claims_table(study: Study, measured: Measured) -> None:
    study.section("What holds under which scheme")
    schemes, rows = list(study.numbers["schemes"]), []
    for paper, configuration in CLAIMS:
        cells = []
        for scheme in schemes:
            claims = [
                (measure, *claim(study, measured, scheme, measure, configuration)[:2])
                for measure in COUNTED
                if measured.counts(scheme, measure)
            ]
            told = [
                (measure.split()[-1] if measure != "bands moved" else "bands", holds)
                for measure, ours, holds in claims
                if holds is not None and math.isfinite(ours.mean)
            ]
            cells.append((", ".join(name for name, holds in told if holds) or "no") if told else "-")
        rows.append([f"{paper}: {configuration}", *cells])
    for measure in (*COUNTED, "time"):
        cells = [
            short(measured.times_pure(scheme, measure, FIRST).mean) if measured.counts(scheme, measure) else "-"
            for scheme in schemes
        ]
        rows.append([f"{measure}, {FIRST} (× pure)", *cells])
    study.table(["claim", *schemes], rows)


def movement(study: Study, of: str, sources: Sources, seeds: tuple[list[int], list[int]], name: str) -> None:
    """One set: every configuration under every scheme, and the paper's claims, which are about the log."""
    is_main, schemes = of == "`runs`, end to end", list(study.numbers["schemes"])
    every = [PURE, *STRIPED, UNMERGED, DEDICATED]
    # Sets beside the main one have the bursts that the text names.
    rare = {STRIPED[1]: 1, STRIPED[4]: 1, UNMERGED: 2}
    needs = lambda scheme, configuration: (
        configuration not in rare or is_main and (scheme != schemes[1] or configuration == UNMERGED)
    )
    keys = [
        (scheme, configuration, seed)
        for seed in seeds[0]
        for scheme in schemes
        if scheme == "log" or seed in seeds[1]
        for configuration in every
        if needs(scheme, configuration)
    ]
    measured = Measured.of(study, keys, sources)
    if is_main:
        claims_table(study, measured)
    study.section("Figure 2 on {of}: log", of=of)
    sizes = ", ".join(f"{trace} ({sectors / 2048:.0f} MiB)" for trace, sectors in zip(study.numbers["traces"], sources.sizes))
    for line in study.numbers["texts"][of]:
        study.say(line.format(workload=sources.text, sizes=sizes))
    if is_main:
        for scheme, chosen in study.numbers["schemes"].items():
            settings = ", ".join(f"{key}={value}" for key, value in chosen["set"].items())
            study.say(f"{scheme}: layer {chosen['layer']}" + (f" with {settings}." if settings else ". No bands are moved."))
    rows = []
    for scheme in schemes:
        for measure in (*COUNTED, "time") if is_main else (*COUNTED[:2], "time"):
            if measured.counts(scheme, measure):
                rows.append(
                    [f"{scheme}, {measure}", *(short(measured.times_pure(scheme, measure, one).mean) for one in every[1:])]
                )
    study.table(["scheme, measure (× pure)", *(one.removeprefix("striped, ") for one in every[1:])], rows)
    own = "workload" not in sources.arguments
    for measure in COUNTED if is_main else COUNTED[:1]:
        for _, configuration in CLAIMS if measured.counts("log", measure) else ():
            ours, _, words = claim(study, measured, "log", measure, configuration)
            if own and configuration == DEDICATED:
                words |= {
                    "comparable": False,
                    "why": "dedicated disks have the size of their own source, so that tracks crossed tell sizes: see strokes",
                }
            study.row(f"{{measure}}: {configuration}", ours, measure=measure, **words)
    if own:
        study.row("{measure}: dedicated", measured.times_pure("log", "strokes", DEDICATED), measure="strokes")
    if is_main:
        host = []
        for seed in seeds[0]:
            first, pure = (measured.runs["log", one, seed].movement.track_distance for one in (FIRST, PURE))
            host.append(100 * (first.host - pure.host) / (first.total - pure.total))
        study.row("host's share of the distance added: striped, bursts of 1", Spread.of(host).mean)
        distance = measured.times_pure("log", "track distance", FIRST).mean
        study.row("time: striped, bursts of 1", measured.times_pure("log", "time", FIRST), distance=distance)
        separated = measured.ratio("track distance", (schemes[1], FIRST), ("log", FIRST))
        study.row("track distance, log, bands by source to one log: striped, bursts of 1", separated)

    def draw(figure: Any) -> None:
        for axes, measure in zip(figure.subplots(2, len(schemes), sharex=True, sharey="row"), COUNTED[:2]):
            for ax, scheme in zip(axes, schemes):
                bursts = {int(one.split()[-1]): measured.times_pure(scheme, measure, one).mean for one in STRIPED}
                ax.plot(*zip(*((burst, ours) for burst, ours in bursts.items() if math.isfinite(ours))), "o-", label="striped")
                for one, style in ((UNMERGED, "--"), (DEDICATED, "-."), (PURE, ":")):
                    ax.axhline(measured.times_pure(scheme, measure, one).mean, color="grey", linestyle=style, label=one)
                ax.set(xscale="log", yscale="log", xlabel="Operations of a burst", title=scheme)
            axes[0].set_ylabel(f"{measure} (× pure)")
        axes[-1].legend()

    study.figure(name, draw, size=(15, 7))


def squeezed(study: Study, name: str) -> tuple[Any, int]:
    """A trace whose distinct blocks lie one after another in the order of their addresses, as a file, and its sectors."""
    path = study.trace(name)
    frame = pl.DataFrame(smrkit.trace.read(path)).cast({"lba": pl.Int64, "sectors": pl.Int64})
    spans = frame.select(first=pl.col("lba") // BLOCK, end=(pl.col("lba") + pl.col("sectors") + BLOCK - 1) // BLOCK).sort(
        "first", "end"
    )
    reach = spans["end"].cum_max().shift(1, fill_value=-1)
    stretches = (
        spans.with_columns(nth=(spans["first"] > reach).cum_sum())
        .group_by("nth")
        .agg(pl.col("first").min(), pl.col("end").max())
        .sort("nth")
    )
    stretches = stretches.select(
        "first", lower=pl.col("first") - (pl.col("end") - pl.col("first")).cum_sum().shift(1, fill_value=0), end="end"
    )
    moved = (
        frame.with_row_index()
        .with_columns(first=pl.col("lba") // BLOCK)
        .sort("first")
        .join_asof(stretches, on="first")
        .sort("index")
    )
    requests = moved.select(
        pl.col("time_ns").cast(pl.Int64),
        "op",
        (pl.col("lba") - pl.col("lower") * BLOCK).cast(pl.UInt64).alias("lba"),
        pl.col("sectors").cast(pl.UInt32),
    )
    file = study.file(f"{name}.parquet", "")
    requests.with_columns(pl.col("op").cast(pl.String)).write_parquet(file)
    # Traces that are merged end at multiples of 1 MiB.
    sectors = (stretches["end"] - stretches["first"]).sum() * BLOCK
    return file, math.ceil(sectors / 2048) * 2048


def figure2(study: Study) -> None:
    one = ([study.seed], [study.seed])
    count, few = study.pick((400_000, 100_000), (40_000, 10_000))
    movement(study, "`runs`, end to end", in_runs(16, 111, count), (study.seeds(5, 1), study.seeds(2, 1)), "runs")
    movement(study, "`runs`, all from LBA 0", in_runs(16, 111, few, "zero"), one, "runs-from-0")
    hot = Sources.generated(f"hot-cold:size=4Ki,hot_share=25%,hot_access_share=1,count={few}")
    movement(study, "random accesses in hot regions", hot, one, "hot")
    missing = [name for name in study.numbers["traces"] if not study.trace(name)]
    if missing:
        study.section("Figure 2 on {of}: log", of="real traces, end to end")
        study.row("movement of the real set", None, missing=", ".join(missing))
        return
    files = [squeezed(study, name) for name in study.numbers["traces"]]
    paths, sizes = [path for path, _ in files], [sectors for _, sectors in files]
    for of, placement, name in (
        ("real traces, end to end", "end-to-end", "real"),
        ("real traces, all from LBA 0", "zero", "real-from-0"),
    ):
        movement(study, of, Sources({"trace": paths}, sizes, placement), one, name)


def lengths(study: Study) -> None:
    study.section("What interleaving costs, by the length of runs")
    by_length = {}
    for length in (4, 8, 16, 32, 64, 128):
        sources = in_runs(length // 4, length // 4 * 7, study.pick(200_000, 20_000))
        by_length[length] = Measured.of(study, [("log", one, study.seed) for one in (PURE, FIRST)], sources)
    times = {
        measure: [of.times_pure("log", measure, FIRST).mean for of in by_length.values()] for measure in (*COUNTED[:2], "time")
    }
    header = ["mean length of runs (blocks)", "track distance (× pure)", "track count", "time"]
    study.table(header, [[str(length), *map(short, row)] for length, row in zip(by_length, zip(*times.values()))])

    def draw(figure: Any) -> None:
        ax = figure.subplots()
        for measure in COUNTED[:2]:
            ax.plot(list(by_length), times[measure], "o-", label=measure)
        ax.set(xscale="log", yscale="log", xlabel="Mean length of a run (blocks)", ylabel="A log, burst 1 (× pure)")
        ax.legend()

    study.figure("run-length", draw)


def exact(study: Study) -> None:
    """Sources as large as disks, and uniform random writes: what must come out the same, or nearly."""
    study.section("Sources as large as disks, laid end to end")
    same = ["spanning, bursts of 1", "spanning, bursts of 50", DEDICATED, "dedicated, bursts of 1", "dedicated, bursts of 1000"]
    schemes = list(study.numbers["schemes"])
    measured = Measured.of(
        study, [(scheme, one, study.seed) for scheme in schemes for one in (PURE, *same)], in_runs(16, 111, 20_000)
    )
    keys = ("movement", "physical_read_sectors", "physical_written_sectors", "commands", "layer_stats")
    did = lambda disk: [disk[key] for key in keys] + [disk.cleaning.sectors]
    disks = lambda scheme, one: list(map(did, measured.runs[scheme, one, study.seed].members))
    study.table(
        ["scheme", *same],
        [
            [scheme, *("the same" if disks(scheme, one) == disks(scheme, PURE) else "not the same" for one in same)]
            for scheme in schemes
        ],
    )
    study.row("track distance: dedicated", measured.times_pure("log", "track distance", DEDICATED))
    workload = f"random-write:size=4Ki,count={study.pick(262_144, 65_536)}"
    measured = Measured.of(study, [("log", one, study.seed) for one in (PURE, *STRIPED[:4])], Sources.generated(workload))
    writes = {one: run.physical_written_sectors.total / run.host_written_sectors for (_, one, _), run in measured.runs.items()}
    off = max(abs(amplification / writes[PURE] - 1) for amplification in writes.values())
    study.section("Uniform random writes on a log", workload=workload, off=100 * off)
    study.table(
        ["configuration", "write amplification"], [[one, f"{amplification:.3f}"] for one, amplification in writes.items()]
    )


#: Orders in which a new member is filled, with the piece in KiB whose windows are compared; and the pieces that are under way at most.
ORDERS, MANY = {"in order": 512, "scattered singly": 128, "in runs of 3 MB": 44}, 32
WAYS = [(order, kib, window) for order, kib in ORDERS.items() for window in (1, 10, MANY)]
WAYS += [(order, kib, MANY) for order, sizes in zip(ORDERS, ((32, 128), (512,), (128, 512))) for kib in sizes]
CACHED, MANAGED = "conventional, write cache", "drive-managed, write cache"


def rounded(value: float) -> float:
    """Four digits are more than the model knows."""
    return round(value, 3 - math.floor(math.log10(abs(value)))) if value and math.isfinite(value) else value


def rebuilds(study: Study) -> None:
    """A mirror whose survivor is conventional and reads ahead; the other disk is new, of one of several kinds, and is filled in several ways."""
    kinds, text, sectors = study.numbers["members"], smrkit.drive_file(LIKE), smrkit.drives(LIKE)["raw_sectors"]
    part = {"in order": study.pick(40, 800), "scattered singly": study.pick(40, 800), "in runs of 3 MB": study.pick(60, 800)}
    with_buffer = lambda key, size: text.replace(
        "[mechanical]", f'[mechanical]\n{key} = {{ value = {size}, source = "assumption" }}'
    )
    survivor = study.file("survivor.toml", with_buffer("read_ahead_bytes", 32 << 20))
    drives = {False: study.file("new.toml", text), True: study.file("buffered.toml", with_buffer("write_cache_bytes", 64 << 20))}
    none = pl.DataFrame(schema={"op": pl.String, "lba": pl.Int64, "sectors": pl.Int64, "time_ns": pl.Int64})
    light = " + ".join(f"random-{op}:size=4Ki,rate=1,count=1G" for op in ("write", "read"))

    def mirror(kind: str, way: tuple[str, int, int], beside: bool) -> dict[str, Any]:
        order, kib, window = way
        new = kinds[kind]
        members = member("in-place", {}, survivor) + member(new["layer"], new["set"], drives[new.get("buffered", False)])
        pieces = {
            "in order": f"write={kib}KiB",
            "scattered singly": f"order=scattered,record={kib}KiB",
            "in runs of 3 MB": f"order=scattered,record={kib}KiB,run=3MB",
        }
        demand: dict[str, Any] = {"workload": light} if beside else {"requests": none}
        rebuild = f"disk=1,{pieces[order]},window={window}"
        return demand | {"array": f"raid1:disks=2{members}", "capacity": sectors // part[order] * 512, "rebuild": rebuild, "arrival": "trace"}

    every = [kind for kind, of in kinds.items() if not of.get("beside")]
    main = {order: (order, kib, MANY) for order, kib in ORDERS.items()}
    keys = [(kind, way, False) for way in WAYS for kind in every]
    keys += [
        (kind, main[order], True)
        for order in ("in order", "in runs of 3 MB")
        for kind in (CACHED, MANAGED, f"{MANAGED}, bypass by run", "vguard, write cache")
    ]
    keys += [(f"{MANAGED}, cleans when idle", way, False) for way in main.values()]
    runs = dict(zip(keys, study.runs(mirror(*key) for key in keys)))
    scaled = lambda ns, rebuild: ns / 3.6e12 * 5e12 / max(1, rebuild.bytes)
    hours = lambda kind, way, beside=False: scaled(runs[kind, way, beside].rebuild.elapsed_ns, runs[kind, way, beside].rebuild)
    named = lambda way: f"{way[0]}, {way[1]} KiB, window {way[2]}"

    def by_way(ways: Sequence[tuple[str, int, int]], chosen: Sequence[str], cell: Any) -> None:
        study.table(["way", *chosen], [[named(way), *(cell(kind, way) for kind in chosen)] for way in ways])

    study.section("Rebuilding a member of 5 TB: hours", part=part["in order"], part_in_runs=part["in runs of 3 MB"])
    by_way(WAYS, every, lambda kind, way: short(rounded(hours(kind, way))))

    def longest(kind: str, way: tuple[str, int, int]) -> str:
        rebuild = runs[kind, way, False].rebuild
        dropped = ", dropped at 30 s" if rebuild.dropped_30s else ", dropped at 7 s" if rebuild.dropped_7s else ""
        return f"{short(rounded((rebuild.longest_new_ns or 0) / 1e9))} s{dropped}"

    def cleaned(kind: str, way: tuple[str, int, int]) -> str:
        run = runs[kind, way, False]
        bands, busy = run.members[-1].layer_stats.get("bands_cleaned", 0), run.rebuild.members[-1].busy_ns
        each = (busy.clean_read + busy.clean_write + busy.destage_read) / 1e9
        return f"{short(rounded(bands / max(1, run.rebuild.pieces)))}, {short(each / bands)} s each" if bands else "none"

    def draw(figure: Any) -> None:
        for axes, order in zip(figure.subplots(3, 2), ORDERS):
            for kind in every:
                sizes = sorted(way for way in WAYS if way[0] == order and way[2] == MANY)
                axes[0].plot([kib for _, kib, _ in sizes], [hours(kind, way) for way in sizes], "o-", label=kind)
                windows = sorted(way for way in WAYS if way[:2] == (order, ORDERS[order]))
                axes[1].plot(
                    [window for *_, window in windows],
                    [(runs[kind, way, False].rebuild.longest_new_ns or 0) / 1e9 for way in windows],
                    "o-",
                    label=kind,
                )
            axes[0].set(xscale="log", yscale="log", xlabel="Size of a piece (KiB)", ylabel="Hours for 5 TB", title=order)
            axes[1].set(
                xscale="log",
                yscale="log",
                xlabel="Pieces under way",
                ylabel="Longest command (s)",
                title=f"{order}, {ORDERS[order]} KiB",
            )
            for timeout in (7, 30):
                axes[1].axhline(timeout, color="grey", linestyle=":")
        axes[1].legend()

    study.figure("rebuild", draw, size=(11, 13))
    study.section("Rebuilding a member: the longest command, and timeouts")
    by_way([way for way in WAYS if way[1] == ORDERS[way[0]]], every, longest)
    study.section("Rebuilding a member: bands cleaned for each write")
    by_way([way for way in WAYS if way[2] == MANY], [kind for kind in every if kinds[kind]["layer"] != "in-place"], cleaned)
    study.section("Rebuilding a member during a light foreground")
    rows = []
    for kind, way, _ in (key for key in keys if key[2]):
        rebuild = runs[kind, way, True].rebuild
        served = [with_unit(rebuild.foreground_ns[op].p99 / 1e9, SECONDS) for op in ("read", "write")]
        alone, with_light = (short(rounded(hours(kind, way, beside))) for beside in (False, True))
        dropped = "yes" if rebuild.dropped_7s else "no"
        rows.append(
            [
                f"{named(way)}: {kind}",
                with_light,
                alone,
                *served,
                with_unit((rebuild.longest_new_ns or 0) / 1e9, SECONDS),
                dropped,
            ]
        )
    study.table(["rebuild", "hours", "alone", "reads, 99 %", "writes, 99 %", "longest command", "dropped at 7 s"], rows)
    study.section("Rebuilding a member: until the caches are clean")
    rows = []
    for kind, way, beside in keys:
        if not beside and way in main.values() and kind in (CACHED, MANAGED, f"{MANAGED}, cleans when idle"):
            rebuild = runs[kind, way, False].rebuild
            clean = "never" if rebuild.clean_ns is None else short(rounded(scaled(rebuild.clean_ns, rebuild)))
            rows.append([f"{named(way)}: {kind}", short(rounded(hours(kind, way))), clean])
    study.table(["rebuild", "redundant after (h)", "clean after (h)"], rows)
    study.section("Rebuilding a member: public tests of another maker's drive")
    resilver = main["in runs of 3 MB"]
    conventional, managed = hours(CACHED, resilver), hours(MANAGED, resilver)
    study.row("a resilver on conventional disks", rounded(conventional))
    study.row("a resilver on the drive-managed disk", rounded(managed))
    study.row("the one by the other", rounded(managed / conventional))
    study.row("the same with records scattered singly (128 KiB)", rounded(hours(MANAGED, main["scattered singly"])))
    study.row("the same with write cache off", rounded(hours("drive-managed", resilver)))
    study.row("the same with in order (512 KiB)", rounded(hours(MANAGED, main["in order"])))
    for kind in (f"{MANAGED}, bypass by command", f"{MANAGED}, bypass by run", MANAGED, "drive-managed"):
        small, large = (hours(kind, ("in order", kib, MANY)) for kib in (32, 512))
        why = (
            "assumed: commands of 512 KiB bypass the persistent cache, shorter ones don't" if kind.endswith("by command") else ""
        )
        study.row(
            "32 KiB by 512 KiB in order: {member}",
            rounded(small / large),
            member=kind,
            small=short(small),
            large=short(large),
            why=why,
        )


def study(study: Study) -> None:
    for part in (figure2, lengths, exact, rebuilds):
        part(study)
