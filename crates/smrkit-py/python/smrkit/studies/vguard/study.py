"""Shafaei & Desnoyers, "Virtual Guard: A Track-Based Translation Layer for Shingled Disks", HotStorage 2017."""

import math
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Any

import polars as pl
import smrkit
from smrkit import Outcome
from smrkit.reproduce import Spread, Study, latency_cdf, on_layer

DRIVE = "st5000as0011"
LAYERS = ("vguard", "drive-managed")
#: The paper's drive-managed disk.
PAPERS_DISK = on_layer("drive-managed", variant="vguard-2017")
#: Columns of Table 2, and the key of each percentile.
COLUMNS = {"95 %": "p95", "99 %": "p99", "99.5 %": "p99_5", "99.9 %": "p99_9", "maximum": "max"}
#: The place of 99.9 % among the columns.
P99_9 = 3
#: Traces that the paper did not run, by the set that they are of: MSR's, parts of these, CloudPhysics', or none of the paper's.
FURTHER = {
    "msr_web_3": "msr",
    "msr_hm_0_cut7016": "part",
    "msr_hm_0_first1000": "part",
    "msr_mds_0_writes_first1000": "part",
    "msr_proj_0_writes_first1000": "part",
    "cloudphysics_sample": "cloudphysics",
    "hp_hplajw_1week_1992": "other",
    "flashsim_jpeg_copy": "other",
    "bench_iozone_disksim": "other",
    "biotracer_mobile_booting": "other",
    "biotracer_mobile_movie": "other",
    "blktrace_hadoop_hdd_apress": "other",
    "blktrace_java_btrfs": "other",
    "blktrace_java_ext4": "other",
    "msps_devtools_release": "other",
    "spc_financial1_first10k": "other",
    "systor17_head": "other",
    "tencent_cbs_sample": "other",
}
SPANS = {"500 GB": "500G", "1 TB": "1T", "2 TB": "2T", "4 TB": "4T"}
WRITES = 100_000


@dataclass
class Trace:
    """A trace, and its runs on both layers if the drive holds it."""

    name: str
    #: Its name in Table 2, or else its set, as in ``FURTHER``.
    set: str
    path: Path
    info: Any
    #: The sector after the last one that the trace reaches.
    end: int
    vguard: Any = None
    managed: Any = None

    def by_layer(self) -> "zip[tuple[str, Any]]":
        return zip(LAYERS, (self.vguard, self.managed))

    def ratio(self) -> float:
        """The drive-managed disk's 99.9 % latency as a multiple of Vguard's."""
        return percentiles(self.managed)[P99_9] / percentiles(self.vguard)[P99_9]

    def write_percent(self) -> float:
        return float(100 * self.vguard.commands.host_write / self.vguard.requests)


def ms(ns: int) -> float:
    return ns / 1e6


def percentiles(run: Outcome) -> list[float]:
    """The latencies in ms that Table 2 has."""
    return [ms(run.latency_ns.all[key]) for key in COLUMNS.values()]


def cdf(run: Outcome) -> tuple[list[float], list[float]]:
    return latency_cdf(run.latency_histogram.read, run.latency_histogram.write)


def draw_cdfs(study: Study, name: str, panels: dict[str, tuple[Outcome, Outcome]]) -> None:
    """Draws a panel for each pair of runs, of vguard and of drive-managed."""

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
        for values, label, colour in ((bars, "ours", "C0"), (paper, "paper", "grey")):
            ax.bar_label(ax.barh(list(values), list(values.values()), color=colour, label=label), fmt="{:,.4g}", padding=3)
        ax.invert_yaxis()
        ax.set_xlabel(xlabel)
        ax.legend()

    if bars:
        study.figure(name, draw, size=(8, 1.5 + 0.3 * len(bars | paper)))


def never_cleans(study: Study, item: str, trace: Trace, name: str) -> None:
    """Adds a row that no band is cleaned. A trace with fewer writes than α can't cause cleaning, so there it is no evidence."""
    writes = trace.vguard.commands.host_write
    is_short = writes < study.numbers["alpha"]
    why, basis = (f"{writes} writes are fewer than α", "fitted") if is_short else ("", None)
    study.row(item, trace.vguard.layer_stats.get("bands_cleaned", 0), trace=name, basis=basis, why=why)


def simulated_drives(study: Study) -> int:
    """Adds the rows of Table 1. Returns the sectors that both layers offer, so that both can be given the same traces."""
    study.section("Table 1: the simulated drives")
    drive = smrkit.drives(DRIVE)
    setting = {one["key"]: one["value"] for one in drive["settings"]}
    track_mb = [zone["track_sectors"] * 512 / 1e6 for zone in drive["recording_zones"]]
    # The simulator rounds a revolution to whole nanoseconds; the row shows the speed that results.
    revolution_ns = round(60e9 / float(setting["mechanical.rpm"]))
    study.row("rotation", 60e9 / revolution_ns)
    study.row("longest track", max(track_mb))
    study.row("shortest track", min(track_mb))
    study.row("tracks", float(drive["tracks"]))
    fill = {"drive": DRIVE, "workload": "random-write:count=23000"}
    alpha = study.numbers["alpha"]
    layers = [on_layer("vguard"), on_layer("vguard", alpha=alpha, beta=alpha), PAPERS_DISK]
    vguard, with_alpha, managed = study.runs(fill | layer for layer in layers)
    outer_track = drive["recording_zones"][0]["track_sectors"]
    for layer, run in zip(LAYERS, (vguard, managed)):
        study.row("{layer}: size", run.capacity.host_sectors * 512 / 1e12, layer=layer)
        study.row("{layer}: band", run.parameters.band_tracks, layer=layer)
        study.row("{layer}: cache", run.capacity.cache_sectors // outer_track, layer=layer)
        study.row("{layer}: cache, in bytes", run.capacity.cache_sectors * 512 / 1e9, layer=layer)
    # Equation (1): an entry names a track of the disk and one of the cache.
    entry_bits = lambda base: math.log(4e6, base) + math.log(study.numbers["cache_tracks"], base)
    map_kb = lambda base: alpha * entry_bits(base) / 8e3
    study.row("vguard: map by equation (1), natural logarithm", map_kb(math.e), base_2=map_kb(2))
    is_same = vguard.elapsed_ns == with_alpha.elapsed_ns and vguard.layer_stats == with_alpha.layer_stats
    study.row("vguard: α and β", "the paper's" if is_same else "not the paper's", agrees=is_same)
    study.row("drive-managed: α and β", managed.layer_stats.first_cleaning_request - 1)
    for layer, run in zip(LAYERS, (vguard, managed)):
        study.row(f"{layer}: memory of its map", max(run.timeline.gauges["map_bytes"]) / 1e3)
    return int(min(vguard.capacity.host_sectors, managed.capacity.host_sectors))


def end_of(path: Path) -> int:
    """The sector after the last one that a trace reaches, with its volumes laid end to end."""
    requests = pl.DataFrame(smrkit.trace.read(path))
    return int((requests["lba"].cast(pl.Int64) + requests["sectors"].cast(pl.Int64)).max())


def traces(study: Study, room: int) -> list[Trace]:
    """The available traces, those of Table 2 first. Those of up to ``room`` sectors are run on both layers."""
    sets = {f"msr_{name}": name for name in study.numbers["table2"]}
    sets |= {name: own_set for name, own_set in FURTHER.items() if own_set != "other" or not study.quick}
    paths = {name: study.trace(name) or study.trace(name.removeprefix("msr_")) for name in sets}
    found = [Trace(name, sets[name], path, smrkit.trace.info(path), end_of(path)) for name, path in paths.items() if path]
    fitting = [trace for trace in found if trace.end <= room]
    on_traces = lambda layer: study.runs({"drive": DRIVE, "trace": trace.path} | layer for trace in fitting)
    for trace, vguard, managed in zip(fitting, on_traces(on_layer("vguard")), on_traces(PAPERS_DISK)):
        trace.vguard, trace.managed = vguard, managed
    return found


def table2(study: Study, found: dict[str, Trace]) -> None:
    paper = study.numbers["table2"]
    study.section("Table 2: latency percentiles of MSR traces", at_hand=len(found))
    for name, (paper_vguard, paper_managed) in paper.items():
        paper_ratio, ratio_item = paper_managed[P99_9] / paper_vguard[P99_9], "{trace}: drive-managed / vguard, 99.9 %"
        if name not in found:
            why = "the trace is not available; the figure has all its percentiles"
            study.row(ratio_item, None, paper=paper_ratio, comparable=False, trace=name, why=why)
            continue
        trace, is_fitted = found[name], name == "wdev_1"
        copies = trace.vguard.layer_stats.get("guard_copies", 0)
        for (layer, run), paper_latencies in zip(trace.by_layer(), (paper_vguard, paper_managed)):
            for column, theirs, ours in zip(COLUMNS, paper_latencies, percentiles(run)):
                words = {"trace": name, "layer": layer, "column": column}
                if not is_fitted:
                    study.row("{trace}: {layer}, {column}", ours, paper=theirs, **words)
                elif layer == "drive-managed":
                    study.row("wdev_1: drive-managed, {column}", ours, paper=theirs, **words)
                else:
                    # 99.5 % is the 6th largest of 1,055 requests, which may be a guard copy where tracks have several lengths.
                    is_copy = column == "99.5 %" and copies > 5
                    why = f"one request decides: the 6th largest is a guard copy, as {copies} requests copy one" if is_copy else ""
                    study.row(f"wdev_1: vguard, {column}", ours, paper=theirs, comparable=not is_copy, why=why, **words)
        study.row(ratio_item, trace.ratio(), paper=paper_ratio, trace=name, basis="fitted" if is_fitted else None)
        if is_fitted:
            study.row("wdev_1: requests that copy a guard", copies)
        never_cleans(study, "{trace}: bands that vguard cleans", trace, name)
    ratios = {name: managed[P99_9] / vguard[P99_9] for name, (vguard, managed) in paper.items()}
    our_ratios = {f"{name}, ours": trace.ratio() for name, trace in found.items()}
    draw_bars(study, "table-2", "drive-managed / vguard at 99.9 %", our_ratios or {"no trace available": 0.0}, ratios)


def further(study: Study, found: list[Trace], room: int) -> None:
    study.section("Further traces: latency percentiles")
    ratios = {}
    for trace in (one for one in found if one.vguard):
        for layer, run in trace.by_layer():
            latencies = "  ".join(f"{value:.2f}" for value in percentiles(run))
            study.row("{trace}: {layer}", latencies, trace=trace.name, layer=layer, requests=run.requests)
        ratios[trace.name], writes = trace.ratio(), trace.write_percent()
        words: dict[str, Any] = {}
        if writes <= 24:
            words = {"comparable": False, "paper": None, "basis": "paper", "why": "no claim for 24 % or less"}
        study.row("{trace}: drive-managed / vguard, 99.9 %", trace.ratio(), trace=trace.name, writes=writes, **words)
    for trace in (one for one in found if not one.vguard):
        study.row("{trace}: latency", None, trace=trace.name, end=trace.end, room=room)
    draw_bars(study, "further-traces", "drive-managed / vguard at 99.9 %", ratios, {})


def figure2(study: Study, found: list[Trace]) -> None:
    study.section("Figure 2: latency of MSR traces")
    rotation_ms = 60e3 / 5980
    for trace in found:
        p95_ms = percentiles(trace.vguard)[0]
        is_part = trace.set == "part"
        why = "a part of a trace: first writes to tracks, which copy, weigh more" if is_part else ""
        words = {"trace": trace.name, "turns": p95_ms / rotation_ms, "reads": 100 - trace.write_percent(), "why": why}
        study.row("{trace}: vguard, 95 %", p95_ms, value=p95_ms / rotation_ms, comparable=not is_part, **words)

    def p10_s(run: Outcome) -> float:
        return next(latency for latency, share in zip(*cdf(run)) if share >= 0.1)

    cases = [trace.name for trace in found if trace.vguard.latency_ns.all.p99 / 1e9 < p10_s(trace.managed)]
    if found:
        study.row("vguard at 99 % below drive-managed at 10 %", ", ".join(cases) or "none", agrees=bool(cases), count=len(found))
    draw_cdfs(study, "figure-2", {trace.name: (trace.vguard, trace.managed) for trace in found})


def cache_use(study: Study, found: list[Trace]) -> None:
    study.section("Figure 3: how much of Vguard's cache is used")
    in_use = {}
    for trace in found:
        stats = trace.vguard.layer_stats
        copies, tracks, log = (stats.get(key, 0) for key in ("guard_copies", "cache_tracks_active_max", "log_length_max"))
        in_use[trace.name] = 100 * tracks / study.numbers["cache_tracks"]
        log_percent = 100 * log / study.numbers["alpha"]
        if trace.set == "other":
            ours = f"{in_use[trace.name]:.2f} %, {log_percent:.2f} %, {stats.get('bands_cleaned', 0)}"
            study.row("{trace}: tracks in use, log against β, bands cleaned", ours, trace=trace.name, copies=copies)
            continue
        study.row("{trace}: tracks of the cache in use", in_use[trace.name], trace=trace.name, tracks=tracks, copies=copies)
        study.row("{trace}: log against β", log_percent, trace=trace.name, tracks=log, copies=copies)
        never_cleans(study, "{trace}: bands cleaned", trace, trace.name)
    draw_bars(study, "figure-3", "Most tracks of the cache in use (%)", in_use, {"the paper's highest": 13.0})


def cloudphysics(study: Study, found: list[Trace]) -> None:
    """Table 3 and figures 4 and 5."""
    of_set = [trace for trace in found if trace.set == "cloudphysics"]
    study.section("Table 3: the CloudPhysics traces")
    for number in range(1, 5):
        study.row(f"trace {number} of 4: writes, drive", None)
    for trace in of_set:
        ours = f"{trace.info.writes:,} writes, {trace.info.highest_end_sectors * 512 / 1e9:.1f} GB"
        study.row("{trace}: writes, reach", ours, trace=trace.name)
    study.section("Figure 4: latency of CloudPhysics traces")
    run = [trace for trace in of_set if trace.vguard]
    for trace in run:
        never_cleans(study, "{trace}: bands that vguard cleans", trace, trace.name)
    draw_cdfs(study, "figure-4", {trace.name: (trace.vguard, trace.managed) for trace in run})
    study.section("Figure 5: tracks that traces write")
    for trace in found:
        words: dict[str, Any] = {} if trace in of_set else {"comparable": False, "paper": None, "why": "not of CloudPhysics"}
        study.row("{trace}: distinct tracks written", trace.info.written_tracks, trace=trace.name, **words)
    written = {trace.name: trace.info.written_tracks for trace in found}
    draw_bars(study, "figure-5", "Distinct tracks written (1 MiB each)", written, {"cleaning begins": study.numbers["alpha"]})


def random_writes(study: Study) -> None:
    seeds = study.seeds(3, 1)
    workload = lambda span: f"random-write:span={SPANS[span]},count={WRITES}"
    on = lambda layer, span, seed, **parameters: (
        {"drive": DRIVE, "workload": workload(span), "seed": seed} | on_layer(layer, **parameters)
    )
    jobs: dict[Any, dict[str, Any]] = {}
    for span, seed in product(SPANS, seeds):
        jobs[span, "vguard", seed] = on("vguard", span, seed)
        jobs[span, "drive-managed", seed] = on("drive-managed", span, seed, variant="vguard-2017")
    for partial, seed in product(("off", "on"), seeds):
        jobs["second half", partial, seed] = on("vguard", "1 TB", seed, partial=partial) | {"warmup": WRITES // 2}
    for spread in ("band", "episode"):
        jobs[spread] = on("vguard", "4 TB", study.seed, spread=spread)
    runs = study.keyed_runs(jobs)
    study.section("Figure 6: random writes", partial=runs["1 TB", "vguard", study.seed].parameters.partial)
    by_seed = lambda span, layer: [runs[span, layer, seed] for seed in seeds]
    for span in SPANS:
        random_writes_within(study, span, by_seed(span, "vguard"), by_seed(span, "drive-managed"))
    for partial in ("off", "on"):
        bands_per_write = [run.layer_stats.bands_cleaned / run.requests for run in by_seed("second half", partial)]
        study.row(f"1 TB: bands cleaned per write, second half, partial={partial}", Spread.of(bands_per_write))
    spreads = {"phase": runs["4 TB", "vguard", study.seed], "band": runs["band"], "episode": runs["episode"]}
    for what, key in (("mean", "mean"), ("median", "p50"), ("90 %", "p90")):
        managed = ms(runs["4 TB", "drive-managed", study.seed].latency_ns.all[key])
        latencies = {spread: ms(run.latency_ns.all[key]) for spread, run in spreads.items()}
        nearest = min(latencies, key=lambda spread: abs(latencies[spread] - managed))
        ours = ", ".join(f"{spread} {latency:.0f}" for spread, latency in latencies.items())
        study.row("4 TB: {what} by the spread of an episode over commands", ours, what=what, managed=managed, nearest=nearest)
    draw_cdfs(study, "figure-6", {span: (by_seed(span, "vguard")[0], by_seed(span, "drive-managed")[0]) for span in SPANS})


def random_writes_within(study: Study, span: str, vguard: list[Outcome], managed: list[Outcome]) -> None:
    """Adds the rows of figure 6 for one span, from the runs of all seeds."""
    first_cleaning = lambda run: run.layer_stats.first_cleaning_request
    for layer, runs in zip(LAYERS, (vguard, managed)):
        study.row(f"{{span}}: first cleaning, {layer}", Spread.of(map(first_cleaning, runs)), span=span)
    latency_ms = lambda runs, key: fmean(ms(run.latency_ns.all[key]) for run in runs)
    for what, key in (("mean", "mean"), ("median", "p50"), ("90 %", "p90")):
        ours, theirs = latency_ms(vguard, key), latency_ms(managed, key)
        off = 100 * (ours / theirs - 1)
        words: dict[str, Any] = {"value": off, "off": off, "span": span, "what": what}
        item = "{span}: {what}, vguard against drive-managed"
        if key == "p90":
            # In `numbers.toml` the paper's claim for 500 GB is a row of its own.
            item = ("500 GB" if span == "500 GB" else "{span}") + ": 90 %, vguard against drive-managed"
        elif span == "500 GB":
            words |= {"comparable": False, "paper": None, "why": "the text names its larger address spaces only"}
        study.row(item, f"{ours:.0f} against {theirs:.0f}", **words)
    for what, key in (("99 %", "p99"), ("maximum", "max")):
        ours, theirs = latency_ms(vguard, key), latency_ms(managed, key)
        against = f"{ours:.0f} against {theirs:.0f} ms"
        study.row("{span}: {what}, vguard below drive-managed", against, agrees=ours < theirs, span=span, what=what)
        study.row("{span}: {what}, how far below", 100 * (1 - ours / theirs), span=span, what=what, both=against)
    if span in ("2 TB", "4 TB"):
        per_write = lambda run: run.layer_stats.bands_cleaned / (run.requests - first_cleaning(run))
        ours, theirs = (fmean(map(per_write, runs)) for runs in (vguard, managed))
        item = "{span}: bands cleaned per write after the first cleaning, vguard and drive-managed"
        study.row(item, f"{ours:.2f} and {theirs:.2f}", value=min(ours, theirs), span=span)


def study(study: Study) -> None:
    room = simulated_drives(study)
    found = traces(study, room)
    run = [trace for trace in found if trace.vguard]
    in_table2 = study.numbers["table2"]
    table2(study, {trace.set: trace for trace in run if trace.set in in_table2})
    further(study, [trace for trace in found if trace.set not in in_table2], room)
    figure2(study, [trace for trace in run if trace.set in in_table2 or trace.set in ("msr", "part")])
    cache_use(study, run)
    cloudphysics(study, found)
    random_writes(study)
