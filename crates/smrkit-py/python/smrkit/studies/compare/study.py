"""Every layer on one full disk, with the same share of it lost, under the same demands; what each costs, and what a power cut takes."""

import math
from dataclasses import dataclass
from itertools import cycle
from statistics import geometric_mean
from typing import Any

import polars as pl
import smrkit
from smrkit.reproduce import BYTES, SECONDS, SHORT_SEEKS, Study, short, with_unit

#: Tracks of 1 MiB (assumption: large enough for hundreds of bands, small enough to reach steady states); fewer where the power is cut,
#: after which every LBA is looked at.
TRACKS, CUT_TRACKS = 4096, 512
TRACK_SECTORS = 2048
WARMUP_MAX = 260_000


@dataclass
class Scheme:
    """A layer with what is set of it, and the capacity that it makes of the disk."""

    layer: str
    set: dict[str, Any]
    capacity: Any

    def lost_percent(self) -> float:
        return 100 * (1 - self.capacity.host_sectors / self.capacity.raw_sectors)

    def arguments(self) -> dict[str, Any]:
        return {"layer": self.layer, "set": {f"{self.layer}.{key}": value for key, value in self.set.items()}}


def disk(study: Study, tracks: int, reach: int = 2) -> Any:
    name = f"compared-{tracks}-{reach}"
    return study.small_drive(name, tracks=tracks, track_sectors=TRACK_SECTORS, switch_ms=1.2, seek=SHORT_SEEKS, reach=reach)


def fitted(study: Study, drive: Any) -> list[Scheme]:
    """The conventional disk, and every shingled scheme with the share of the disk lost that comes nearest to the one wanted."""
    wanted = study.numbers["lost_percent"]

    def made(layer: str, **set_: Any) -> Scheme:
        scheme = Scheme(layer, set_, None)
        scheme.capacity = study.run(scheme.arguments() | {"drive": drive, "workload": "random-write:count=1"}).capacity
        return scheme

    def fit(of: dict[str, Any]) -> Scheme:
        decides = of["decides"]
        least, most = decides["range"]

        def with_(steps: int) -> Scheme | None:
            value = f"{least + steps * decides['step']:.2f}".rstrip("0").rstrip(".")
            try:
                return made(of["layer"], **(of.get("set", {}) | {decides["key"]: value}))
            except smrkit.Error:
                # Nothing is left of the disk: it loses too much.
                return None

        low, high = 0, int((most - least) / decides["step"])
        while high - low > 1:
            middle = (low + high) // 2
            scheme = with_(middle)
            loses_more = scheme is None or scheme.lost_percent() > wanted
            low, high = (low, middle) if loses_more == decides["loses"] else (middle, high)
        return min(filter(None, map(with_, (low, high))), key=lambda scheme: abs(scheme.lost_percent() - wanted))

    return [made("in-place"), *study.map(fit, study.numbers["scheme"])]


def repeated(once: list[tuple[str, int, int]], counted: int, sectors: int) -> list[tuple[str, int, int]]:
    """A demand, repeated until ``sectors`` are written before its last ``counted`` requests, or it is too long; of a long one the end."""
    written, backwards = 0, list[tuple[str, int, int]]()
    for request in cycle(reversed(once)):
        before = len(backwards) - counted
        never_writes = before >= len(once) and written == 0
        if before >= 0 and (written >= sectors or before >= WARMUP_MAX or never_writes):
            break
        if before >= 0 and request[0] == "write":
            written += request[2]
        backwards.append(request)
    return backwards[::-1]


def demands(study: Study, span: int, spare: int) -> dict[str, dict[str, Any]]:
    """The demands that are at hand on ``span`` sectors, of which the schemes keep ``spare``, as arguments of a run."""
    generate = lambda text: smrkit.trace.generate(text, capacity=span * 512, seed=study.seed)
    tables = {name: generate(text) for name, text in study.numbers["workloads"].items()}
    paths = {name: study.trace(file) for name, file in study.numbers["traces"].items()}
    tables |= {name: smrkit.trace.read(path) for name, path in paths.items() if path}
    made = {}
    for name, table in tables.items():
        frame = (
            pl.DataFrame(table)
            .filter(pl.col("op").is_in(["read", "write"]))
            .cast({"op": pl.String, "lba": pl.Int64, "sectors": pl.Int64})
        )
        sectors = pl.col("sectors").clip(upper_bound=span)
        once = frame.select("op", pl.min_horizontal(pl.col("lba") % span, span - sectors), sectors).rows()
        counted = min(len(once), study.pick(20_000, 2000))
        requests = repeated(once, counted, spare * study.pick(2, 0))
        # Bursts of a light load, and pauses in which a disk can clean up what a burst left (assumptions). Flat out, nobody looks at times.
        times = [(at * 200 + at // 200 * 600_000) * 1_000_000 for at in range(len(requests))]
        columns = pl.DataFrame(requests, schema=["op", "lba", "sectors"], orient="row").with_columns(time_ns=pl.Series(times))
        made[name] = {"requests": columns, "warmup": len(requests) - counted}
    return made


def lost_to_cuts(study: Study) -> list[str]:
    """The most that one cut took of each scheme, and how many took anything."""
    cuts = study.pick([1, 40, 160, 321, 500, 800, 1200, 1500], [81, 641])
    common = {"workload": "random-write:count=6000", "prefill": "full", "warmup": 4000}
    schemes, jobs = fitted(study, disk(study, CUT_TRACKS)), []
    for scheme in schemes:
        # Nothing damages a conventional disk.
        drive = disk(study, CUT_TRACKS, reach=1 if scheme.layer == "in-place" else 2)
        jobs += [common | scheme.arguments() | {"drive": drive, "power_cut": cut} for cut in cuts]
    runs, said = study.runs(jobs), []
    for at in range(len(schemes)):
        lost = [run.power_cut.lost_sectors for run in runs[at * len(cuts) : (at + 1) * len(cuts)] if run.get("power_cut")]
        some = sum(sectors > 0 for sectors in lost)
        said.append(
            f"{math.ceil(max(lost) / 2)} kB at most, in {some} of {len(lost)} cuts"
            if some
            else "nothing"
            if lost
            else "no cut was reached"
        )
    return said


def study(study: Study) -> None:
    drive = disk(study, TRACKS)
    schemes = fitted(study, drive)
    span, raw = min(scheme.capacity.host_sectors for scheme in schemes), schemes[0].capacity.raw_sectors
    gb = lambda sectors: sectors * 512 / 1e9
    study.section("All schemes under all demands", disk=gb(raw), spare=gb(raw - span), span=gb(span))
    missing = [name for name, file in study.numbers["traces"].items() if not study.trace(file)]
    if missing:
        study.say(f"Not at hand, and left out: {', '.join(missing)} (name a folder of traces).")
    asked = demands(study, span, raw - span)
    jobs = {}
    for scheme in schemes:
        can_idle = any(one["key"] == "idle_clean" for one in smrkit.layers(scheme.layer)["parameters"])
        for demand, of in asked.items():
            for idle in (False, True):
                on = {"idle_clean": idle} if can_idle else {}
                arguments = Scheme(scheme.layer, scheme.set | on, None).arguments()
                arrival = {"arrival": "trace"} if idle else {}
                jobs[scheme.layer, demand, idle] = arguments | of | arrival | {"drive": drive, "prefill": "full"}
    runs = dict(zip(jobs, study.runs(jobs.values())))

    def times(layer: str, demand: str, idle: bool, key: str) -> float:
        """A latency as a multiple of the conventional disk's."""
        return float(runs[layer, demand, idle].latency_ns.all[key] / max(1, runs["in-place", demand, idle].latency_ns.all[key]))

    lines = []
    for scheme, cut in zip(schemes, lost_to_cuts(study)):
        layer, cells = scheme.layer, []
        own = {idle: [runs[layer, demand, idle] for demand in asked] for idle in (False, True)}
        for key in ("mean", "p99_9"):
            cells += [f"{short(geometric_mean(times(layer, demand, idle, key) for demand in asked))} ×" for idle in own]
        cells += [with_unit(max(run.latency_ns.all.max for run in of) / 1e9, SECONDS) for of in own.values()]
        cells += [
            f"{short(geometric_mean(run.write_amplification for run in of if run.write_amplification is not None))} ×"
            for of in own.values()
        ]
        maps = max(run.map_bytes for of in own.values() for run in of)
        lines.append([layer, *cells, f"{scheme.lost_percent():.1f} %", with_unit(maps, BYTES), cut])
    study.table(
        ["scheme", "mean", "idle", "99.9 %", "idle", "longest", "idle", "written", "idle", "lost", "maps", "power cut takes"],
        lines,
    )

    def draw(figure: Any) -> None:
        panels = [(key, idle) for key in ("mean", "p99_9") for idle in (False, True)]
        for ax, (key, idle) in zip(figure.subplots(2, 2, sharex=True).flat, panels):
            for scheme in schemes[1:]:
                ax.plot(list(asked), [times(scheme.layer, demand, idle, key) for demand in asked], "o-", label=scheme.layer)
            ax.axhline(1, color="grey", linestyle=":")
            title = f"{'Mean' if key == 'mean' else '99.9 %'}, {'with idle time' if idle else 'flat out'}"
            ax.set(yscale="log", ylabel="× the conventional disk", title=title)
            ax.tick_params(axis="x", rotation=45)
        ax.legend()

    study.figure("schemes", draw, size=(12, 9))
    study.section("By demand")
    rows = []
    for demand in asked:
        for scheme in schemes:
            cells = []
            for idle in (False, True):
                run = runs[scheme.layer, demand, idle]
                cells += [short(run.latency_ns.all[key] / 1e6) for key in ("mean", "p99_9", "max")]
                cells.append("-" if run.write_amplification is None else short(run.write_amplification))
            rows.append([demand, scheme.layer, *cells])
    heads = ["mean", "99.9 %", "longest", "written"]
    study.table(["demand", "scheme", *heads, *(f"{head}, idle" for head in heads)], rows)
