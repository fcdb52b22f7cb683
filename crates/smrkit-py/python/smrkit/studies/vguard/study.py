"""Shafaei & Desnoyers, "Virtual Guard: A Track-Based Translation Layer for Shingled Disks", HotStorage 2017."""

import math
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

import polars as pl
import smrkit
from smrkit import Outcome
from smrkit.reproduce import Spread, Study

DRIVE = "st5000as0011"
LAYERS = ("vguard", "drive-managed")
#: What makes the second layer the paper's.
VARIANT = {"drive-managed.variant": "vguard-2017"}
COLUMNS = ("95 %", "99 %", "99.5 %", "99.9 %", "maximum")
P99_9 = 3
#: Traces that the paper did not run: their part in it, and whether --quick runs them.
FURTHER = {
    "msr_web_3": ("msr", True),
    "msr_hm_0_cut7016": ("part", True),
    "msr_hm_0_first1000": ("part", True),
    "msr_mds_0_writes_first1000": ("part", True),
    "msr_proj_0_writes_first1000": ("part", True),
    "cloudphysics_sample": ("cloudphysics", True),
    "hp_hplajw_1week_1992": ("other", False),
    "flashsim_jpeg_copy": ("other", False),
    "bench_iozone_disksim": ("other", False),
    "biotracer_mobile_booting": ("other", False),
    "biotracer_mobile_movie": ("other", False),
    "blktrace_hadoop_hdd_apress": ("other", False),
    "blktrace_java_btrfs": ("other", False),
    "blktrace_java_ext4": ("other", False),
    "msps_devtools_release": ("other", False),
    "spc_financial1_first10k": ("other", False),
    "systor17_head": ("other", False),
    "tencent_cbs_sample": ("other", False),
}
SPANS = {"500 GB": "500G", "1 TB": "1T", "2 TB": "2T", "4 TB": "4T"}
WRITES = 100_000


@dataclass
class Trace:
    """A trace at hand: its part in the paper, and its runs on both layers, where the drive holds it."""

    name: str
    part: str
    path: Path
    info: Any
    end: int
    vguard: Any = None
    managed: Any = None

    def ratio(self) -> float:
        """The drive-managed disk's 99.9 % latency as a multiple of Vguard's."""
        return percentiles(self.managed)[P99_9] / percentiles(self.vguard)[P99_9]

    def write_percent(self) -> float:
        return float(100 * self.vguard.commands.host_write / self.vguard.requests)


def ms(ns: int) -> float:
    return ns / 1e6


def percentiles(run: Outcome) -> list[float]:
    return [ms(run.latency_ns.all[key]) for key in ("p95", "p99", "p99_5", "p99_9", "max")]


def cdf(run: Outcome) -> tuple[list[float], list[float]]:
    """Latencies in seconds, and the share of requests that took no longer."""
    counts = sorted(map(tuple, run.latency_histogram.read + run.latency_histogram.write))
    below, shares = 0, []
    for _, requests in counts:
        below += requests
        shares.append(below / sum(requests for _, requests in counts))
    return [latency / 1e9 for latency, _ in counts], shares


def draw_cdfs(study: Study, name: str, panels: dict[str, tuple[Outcome, Outcome]]) -> None:
    def draw(figure: Any) -> None:
        for ax, (title, pair) in zip(figure.subplots(len(panels), sharex=True, squeeze=False)[:, 0], panels.items()):
            for layer, run in zip(LAYERS, pair):
                ax.step(*cdf(run), where="post", label=layer)
            ax.set(xscale="log", xlabel="Latency (s)", ylabel="Requests no slower", title=title)
            ax.legend()

    if panels:
        study.figure(name, draw, size=(8, 2.6 * len(panels)))


def draw_bars(study: Study, name: str, xlabel: str, bars: dict[str, float], paper: dict[str, float]) -> None:
    def draw(figure: Any) -> None:
        ax = figure.subplots()
        for of, label, colour in ((bars, "ours", "C0"), (paper, "paper", "grey")):
            ax.bar_label(ax.barh(list(of), list(of.values()), color=colour, label=label), fmt="{:,.4g}", padding=3)
        ax.invert_yaxis()
        ax.set_xlabel(xlabel)
        ax.legend()

    if bars:
        study.figure(name, draw, size=(8, 1.5 + 0.3 * len(bars | paper)))


def never_cleans(study: Study, item: str, trace: Trace) -> None:
    """No band is cleaned; a trace of fewer writes than the thresholds can't make it, which is no evidence."""
    writes = trace.vguard.commands.host_write
    few = writes < study.numbers["alpha"]
    why = f"{writes} writes are fewer than α" if few else ""
    study.row(item, trace.vguard.layer_stats.get("bands_cleaned", 0), trace=trace.name, basis="fitted" if few else None, why=why)


def simulated_drives(study: Study) -> int:
    """Table 1; the sectors that both layers offer."""
    study.section("Table 1: the simulated drives")
    drive = smrkit.drives(DRIVE)
    setting = {one["key"]: one["value"] for one in drive["settings"]}
    lengths = [zone["track_sectors"] * 512 / 1e6 for zone in drive["recording_zones"]]
    study.row("rotation", 60e9 / round(60e9 / float(setting["mechanical.rpm"])))
    study.row("longest track", max(lengths))
    study.row("shortest track", min(lengths))
    study.row("tracks", float(drive["tracks"]))
    fill = {"drive": DRIVE, "workload": "random-write:count=23000"}
    alpha = study.numbers["alpha"]
    vguard, told, managed = study.runs(
        [
            fill | {"layer": "vguard"},
            fill | {"layer": "vguard", "set": {"vguard.alpha": alpha, "vguard.beta": alpha}},
            fill | {"layer": "drive-managed", "set": VARIANT},
        ]
    )
    outer = drive["recording_zones"][0]["track_sectors"]
    for layer, run in zip(LAYERS, (vguard, managed)):
        study.row("{layer}: size", run.capacity.host_sectors * 512 / 1e12, layer=layer)
        study.row("{layer}: band", run.parameters.band_tracks, layer=layer)
        study.row("{layer}: cache", run.capacity.cache_sectors // outer, layer=layer)
        study.row("{layer}: cache, in bytes", run.capacity.cache_sectors * 512 / 1e9, layer=layer)
    # Equation (1): an entry names a track of the disk and one of the cache.
    entry_bits = lambda base: math.log(4e6, base) + math.log(study.numbers["cache_tracks"], base)
    map_kb = {base: alpha * entry_bits(base) / 8e3 for base in (2, math.e)}
    study.row("vguard: map by equation (1), natural logarithm", map_kb[math.e], base_2=map_kb[2])
    alike = vguard.elapsed_ns == told.elapsed_ns and vguard.layer_stats == told.layer_stats
    study.row("vguard: α and β", "the same" if alike else "others", agrees=alike)
    study.row("drive-managed: α and β", managed.layer_stats.first_cleaning_request - 1)
    for layer, run in zip(LAYERS, (vguard, managed)):
        study.row(f"{layer}: memory of its map", max(run.timeline.gauges["map_bytes"]) / 1e3)
    return int(min(vguard.capacity.host_sectors, managed.capacity.host_sectors))


def end(path: Path) -> int:
    """After the last sector that a trace reaches, its volumes laid end to end."""
    requests = pl.DataFrame(smrkit.trace.read(path))
    return int((requests["lba"].cast(pl.Int64) + requests["sectors"].cast(pl.Int64)).max())


def traces(study: Study, room: int) -> list[Trace]:
    """The traces at hand, those of Table 2 first, with their runs."""
    wanted = {f"msr_{name}": name for name in study.numbers["table2"]} | {
        name: part for name, (part, quick) in FURTHER.items() if quick or not study.quick
    }
    paths = {name: study.trace(name) or study.trace(name.removeprefix("msr_")) for name in wanted}
    found = [Trace(name, wanted[name], path, smrkit.trace.info(path), end(path)) for name, path in paths.items() if path]
    fitting = [trace for trace in found if trace.end <= room]
    common = [{"drive": DRIVE, "trace": trace.path} for trace in fitting]
    of_vguard = study.runs(one | {"layer": "vguard"} for one in common)
    of_managed = study.runs(one | {"layer": "drive-managed", "set": VARIANT} for one in common)
    for trace, vguard, managed in zip(fitting, of_vguard, of_managed):
        trace.vguard, trace.managed = vguard, managed
    return found


def table2(study: Study, found: dict[str, Trace]) -> None:
    paper = study.numbers["table2"]
    study.section("Table 2: latency percentiles of MSR traces", at_hand=len(found))
    for name, by_layer in paper.items():
        ratio = by_layer[1][P99_9] / by_layer[0][P99_9]
        quotient = "{trace}: drive-managed / vguard, 99.9 %"
        if name not in found:
            study.row(
                quotient,
                None,
                paper=ratio,
                comparable=False,
                trace=name,
                why="the trace is not at hand; the figure has all its percentiles",
            )
            continue
        trace, tuned = found[name], name == "wdev_1"
        copies = trace.vguard.layer_stats.get("guard_copies", 0)
        for layer, run, latencies in zip(LAYERS, (trace.vguard, trace.managed), by_layer):
            for column, theirs, ours in zip(COLUMNS, latencies, percentiles(run)):
                item = "{trace}: {layer}, {column}"
                if tuned:
                    item = f"wdev_1: vguard, {column}" if layer == "vguard" else "wdev_1: drive-managed, {column}"
                # The 6th largest of 1,055 requests is 99.5 %: it may copy a guard on tracks of several lengths.
                hangs = tuned and layer == "vguard" and column == "99.5 %" and copies > 5
                why = f"hangs on one request: the 6th largest is a guard copy where {copies} requests copy one" if hangs else ""
                study.row(item, ours, paper=theirs, comparable=not hangs, trace=name, layer=layer, column=column, why=why)
        study.row(quotient, trace.ratio(), paper=ratio, trace=name, basis="fitted" if tuned else None)
        if tuned:
            study.row("wdev_1: requests that copy a guard", copies)
        never_cleans(study, "{trace}: bands that vguard cleans", replace(trace, name=name))
    ratios = {name: managed[P99_9] / vguard[P99_9] for name, (vguard, managed) in paper.items()}
    ours = {f"{name}, ours": trace.ratio() for name, trace in found.items()}
    draw_bars(study, "table-2", "drive-managed / vguard at 99.9 %", ours or {"none at hand": 0.0}, ratios)


def further(study: Study, all_of: list[Trace], room: int) -> None:
    study.section("Further traces: latency percentiles")
    ratios = {}
    for trace in (one for one in all_of if one.vguard):
        for layer, run in zip(LAYERS, (trace.vguard, trace.managed)):
            study.row(
                "{trace}: {layer}",
                "  ".join(f"{value:.2f}" for value in percentiles(run)),
                trace=trace.name,
                layer=layer,
                requests=run.requests,
            )
        ratios[trace.name], writes = trace.ratio(), trace.write_percent()
        claimed: dict[str, Any] = (
            {} if writes > 24 else {"comparable": False, "paper": None, "basis": "paper", "why": "no claim for 24 % or less"}
        )
        study.row("{trace}: drive-managed / vguard, 99.9 %", trace.ratio(), trace=trace.name, writes=writes, **claimed)
    for trace in (one for one in all_of if not one.vguard):
        study.row("{trace}: latency", None, trace=trace.name, end=trace.end, room=room)
    draw_bars(study, "further-traces", "drive-managed / vguard at 99.9 %", ratios, {})


def figure2(study: Study, chosen: list[Trace]) -> None:
    study.section("Figure 2: latency of MSR traces")
    rotation_ms = 60e3 / 5980
    for trace in chosen:
        ours = percentiles(trace.vguard)[0]
        turns, reads = ours / rotation_ms, 100 - trace.write_percent()
        is_part = trace.part == "part"
        why = "a part of a trace: first writes to tracks, which copy, weigh more" if is_part else ""
        study.row(
            "{trace}: vguard, 95 %",
            ours,
            value=turns,
            comparable=not is_part,
            trace=trace.name,
            turns=turns,
            reads=reads,
            why=why,
        )

    def tenth(run: Outcome) -> float:
        return next(latency for latency, share in zip(*cdf(run)) if share >= 0.1)

    cases = [trace.name for trace in chosen if trace.vguard.latency_ns.all.p99 / 1e9 < tenth(trace.managed)]
    if chosen:
        study.row("vguard at 99 % below drive-managed at 10 %", ", ".join(cases) or "none", agrees=bool(cases), count=len(chosen))
    draw_cdfs(study, "figure-2", {trace.name: (trace.vguard, trace.managed) for trace in chosen})


def cache_use(study: Study, run: list[Trace]) -> None:
    study.section("Figure 3: how much of Vguard's cache is used")
    uses = {}
    for trace in run:
        stats = trace.vguard.layer_stats
        copies, tracks, log = (stats.get(key, 0) for key in ("guard_copies", "cache_tracks_active_max", "log_length_max"))
        active = uses[trace.name] = 100 * tracks / study.numbers["cache_tracks"]
        of_beta = 100 * log / study.numbers["alpha"]
        if trace.part == "other":
            ours = f"{active:.2f} %, {of_beta:.2f} %, {stats.get('bands_cleaned', 0)}"
            study.row("{trace}: tracks in use, log against β, bands cleaned", ours, trace=trace.name, copies=copies)
            continue
        study.row("{trace}: tracks of the cache in use", active, trace=trace.name, tracks=tracks, copies=copies)
        study.row("{trace}: log against β", of_beta, trace=trace.name, tracks=log, copies=copies)
        never_cleans(study, "{trace}: bands cleaned", trace)
    draw_bars(study, "figure-3", "Most tracks of the cache in use (%)", uses, {"the paper's highest": 13.0})


def cloudphysics(study: Study, found: list[Trace]) -> None:
    """Table 3 and figures 4 and 5."""
    of_set = [trace for trace in found if trace.part == "cloudphysics"]
    study.section("Table 3: the CloudPhysics traces")
    for at in range(1, 5):
        study.row(f"trace {at} of 4: writes, drive", None)
    for trace in of_set:
        ours = f"{trace.info.writes:,} writes, {trace.info.highest_end_sectors * 512 / 1e9:.1f} GB"
        study.row("{trace}: writes, reach", ours, trace=trace.name)
    study.section("Figure 4: latency of CloudPhysics traces")
    run = [trace for trace in of_set if trace.vguard]
    for trace in run:
        never_cleans(study, "{trace}: bands that vguard cleans", trace)
    draw_cdfs(study, "figure-4", {trace.name: (trace.vguard, trace.managed) for trace in run})
    study.section("Figure 5: tracks that traces write")
    written = {trace.name: trace.info.written_tracks for trace in found}
    for trace in found:
        other: dict[str, Any] = {} if trace in of_set else {"comparable": False, "paper": None, "why": "not of CloudPhysics"}
        study.row("{trace}: distinct tracks written", written[trace.name], trace=trace.name, **other)
    draw_bars(study, "figure-5", "Distinct tracks written (1 MiB each)", written, {"cleaning begins": study.numbers["alpha"]})


def random_writes(study: Study) -> None:
    seeds = study.seeds(3, 1)
    on = lambda layer, span, seed, **set_: {
        "drive": DRIVE,
        "layer": layer,
        "workload": f"random-write:span={SPANS[span]},count={WRITES}",
        "seed": seed,
        "set": {f"{layer}.{key}": value for key, value in set_.items()},
    }
    jobs = {}
    for seed in seeds:
        for span in SPANS:
            jobs[span, "vguard", seed] = on("vguard", span, seed)
            jobs[span, "drive-managed", seed] = on("drive-managed", span, seed, variant="vguard-2017")
        for partial in ("off", "on"):
            jobs["steady", partial, seed] = on("vguard", "1 TB", seed, partial=partial) | {"warmup": WRITES // 2}
    for spread in ("band", "episode"):
        jobs["spread", spread, study.seed] = on("vguard", "4 TB", study.seed, spread=spread)
    runs = dict(zip(jobs, study.runs(jobs.values())))
    study.section("Figure 6: random writes", partial=runs["1 TB", "vguard", study.seed].parameters.partial)
    of = lambda span, layer: [runs[span, layer, seed] for seed in seeds]
    first = lambda run: run.layer_stats.first_cleaning_request
    for span in SPANS:
        both = [of(span, layer) for layer in LAYERS]
        for layer, of_layer in zip(LAYERS, both):
            study.row(f"{{span}}: first cleaning, {layer}", Spread.of(map(first, of_layer)), span=span)
        latencies = lambda key: [fmean(ms(run.latency_ns.all[key]) for run in of_layer) for of_layer in both]
        for what, key in (("mean", "mean"), ("median", "p50"), ("90 %", "p90")):
            vguard, managed = latencies(key)
            item = "{span}: {what}, vguard against drive-managed"
            words: dict[str, Any] = {
                "off": 100 * (vguard / managed - 1),
                "value": 100 * (vguard / managed - 1),
                "span": span,
                "what": what,
            }
            if key == "p90":
                item = f"{'500 GB' if span == '500 GB' else '{span}'}: 90 %, vguard against drive-managed"
            elif span == "500 GB":
                words |= {"comparable": False, "paper": None, "why": "the text names its larger address spaces only"}
            study.row(item, f"{vguard:.0f} against {managed:.0f}", **words)
        for what, key in (("99 %", "p99"), ("maximum", "max")):
            vguard, managed = latencies(key)
            against = f"{vguard:.0f} against {managed:.0f} ms"
            study.row("{span}: {what}, vguard below drive-managed", against, agrees=vguard < managed, span=span, what=what)
            study.row("{span}: {what}, how far below", 100 * (1 - vguard / managed), span=span, what=what, both=against)
        if span in ("2 TB", "4 TB"):
            a_write = [
                fmean(run.layer_stats.bands_cleaned / (run.requests - first(run)) for run in of_layer) for of_layer in both
            ]
            item = "{span}: bands cleaned per write after the first cleaning, vguard and drive-managed"
            study.row(item, f"{a_write[0]:.2f} and {a_write[1]:.2f}", value=min(a_write), span=span)
    for partial in ("off", "on"):
        a_write = [run.layer_stats.bands_cleaned / run.requests for run in of("steady", partial)]
        study.row(f"1 TB: bands cleaned per write, second half, partial={partial}", Spread.of(a_write))
    spreads = {"phase": runs["4 TB", "vguard", study.seed]} | {
        spread: runs["spread", spread, study.seed] for spread in ("band", "episode")
    }
    for what, key in (("mean", "mean"), ("median", "p50"), ("90 %", "p90")):
        managed = ms(runs["4 TB", "drive-managed", study.seed].latency_ns.all[key])
        each = {spread: ms(run.latency_ns.all[key]) for spread, run in spreads.items()}
        nearest = min(each, key=lambda spread: abs(each[spread] - managed))
        ours = ", ".join(f"{spread} {value:.0f}" for spread, value in each.items())
        study.row("4 TB: {what} by the spread of an episode over commands", ours, what=what, managed=managed, nearest=nearest)
    draw_cdfs(study, "figure-6", {span: (of(span, "vguard")[0], of(span, "drive-managed")[0]) for span in SPANS})


def study(study: Study) -> None:
    room = simulated_drives(study)
    found = traces(study, room)
    run = [trace for trace in found if trace.vguard]
    of_table = study.numbers["table2"]
    table2(study, {trace.part: trace for trace in run if trace.part in of_table})
    further(study, [trace for trace in found if trace.part not in of_table], room)
    figure2(study, [trace for trace in run if trace.part in of_table or trace.part in ("msr", "part")])
    cache_use(study, run)
    cloudphysics(study, found)
    random_writes(study)
