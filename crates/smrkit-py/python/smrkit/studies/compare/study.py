"""Every layer on one full disk, with the same share of it lost, under the same demands; what each costs, and what a power cut takes."""

import math
from dataclasses import dataclass
from itertools import cycle, product
from statistics import geometric_mean
from typing import Any

import polars as pl
import smrkit
from smrkit import Outcome
from smrkit.reproduce import BYTES, SECONDS, SHORT_SEEKS, Study, draw_curves, folded, on_layer, short, with_unit

#: Tracks of 1 MiB (assumption: large enough for hundreds of bands, small enough to reach steady states). There are fewer where the power is
#: cut, because every LBA is read afterwards.
TRACKS, CUT_TRACKS = 4096, 512
TRACK_SECTORS = 2048
#: The most requests before the counted ones.
WARMUP_MAX = 260_000
#: An operation, an LBA and a number of sectors.
Request = tuple[str, int, int]


@dataclass
class Scheme:
    """A layer with its parameters, and the capacity that it makes of the disk."""

    layer: str
    parameters: dict[str, Any]
    capacity: Any

    def lost_percent(self) -> float:
        return 100 * (1 - self.capacity.host_sectors / self.capacity.raw_sectors)


def disk(study: Study, tracks: int, reach: int = 2) -> Any:
    name = f"compared-{tracks}-{reach}"
    return study.small_drive(name, tracks=tracks, track_sectors=TRACK_SECTORS, switch_ms=1.2, seek=SHORT_SEEKS, reach=reach)


def all_schemes(study: Study, drive: Any) -> list[Scheme]:
    """The conventional disk, and each shingled scheme fitted to lose the wanted share of the disk."""

    def scheme(layer: str, parameters: dict[str, Any]) -> Scheme:
        job = on_layer(layer, **parameters) | {"drive": drive, "workload": "random-write:count=1"}
        return Scheme(layer, parameters, study.run(job).capacity)

    def fit(given: dict[str, Any]) -> Scheme:
        """Finds by bisection the value of the scheme's deciding parameter."""
        wanted, decides = study.numbers["lost_percent"], given["decides"]
        least, most = decides["range"]

        def with_steps(steps: int) -> Scheme | None:
            value = f"{least + steps * decides['step']:.2f}".rstrip("0").rstrip(".")
            try:
                return scheme(given["layer"], given.get("set", {}) | {decides["key"]: value})
            except smrkit.Error:
                # Nothing is left of the disk for the host.
                return None

        low, high = 0, int((most - least) / decides["step"])
        while high - low > 1:
            middle = (low + high) // 2
            tried = with_steps(middle)
            loses_too_much = tried is None or tried.lost_percent() > wanted
            low, high = (low, middle) if loses_too_much == decides["loses"] else (middle, high)
        return min(filter(None, map(with_steps, (low, high))), key=lambda scheme: abs(scheme.lost_percent() - wanted))

    return [scheme("in-place", {}), *study.map(fit, study.numbers["scheme"])]


def repeated(once: list[Request], counted: int, sectors: int) -> list[Request]:
    """The end of a demand that is repeated for ever: its last ``counted`` requests, and before them so many that they write ``sectors``.

    There are at most ``WARMUP_MAX`` requests before the counted ones, and one repetition if the demand never writes.
    """
    written, backwards = 0, list[Request]()
    for op, lba, length in cycle(reversed(once)):
        warmup = len(backwards) - counted
        never_writes = warmup >= len(once) and written == 0
        if warmup >= 0 and (written >= sectors or warmup >= WARMUP_MAX or never_writes):
            break
        if warmup >= 0 and op == "write":
            written += length
        backwards.append((op, lba, length))
    return backwards[::-1]


def available_demands(study: Study, span: int, spare: int) -> dict[str, dict[str, Any]]:
    """The available demands as arguments of a run, within ``span`` sectors. The schemes keep ``spare`` sectors from the host."""
    generate = lambda text: smrkit.trace.generate(text, capacity=span * 512, seed=study.seed)
    tables = {name: generate(text) for name, text in study.numbers["workloads"].items()}
    paths = {name: study.trace(file) for name, file in study.numbers["traces"].items()}
    tables |= {name: smrkit.trace.read(path) for name, path in paths.items() if path}
    found = {}
    for name, table in tables.items():
        frame = pl.DataFrame(table).filter(pl.col("op").is_in(["read", "write"]))
        frame = frame.cast({"op": pl.String, "lba": pl.Int64, "sectors": pl.Int64})
        once = folded(frame, span).select("op", "lba", "sectors").rows()
        counted = min(len(once), study.pick(20_000, 2000))
        requests = repeated(once, counted, spare * study.pick(2, 0))
        # A light load in bursts of 200 requests, and pauses of 10 minutes in which a disk can clean up after a burst (assumptions). Runs
        # without idle time ignore these times.
        times = [(at * 200 + at // 200 * 600_000) * 1_000_000 for at in range(len(requests))]
        columns = pl.DataFrame(requests, schema=["op", "lba", "sectors"], orient="row").with_columns(time_ns=pl.Series(times))
        found[name] = {"requests": columns, "warmup": len(requests) - counted}
    return found


def lost_to_cuts(study: Study) -> list[str]:
    """For each scheme in words: the most that one power cut took, and how many cuts took anything."""
    cuts = study.pick([1, 40, 160, 321, 500, 800, 1200, 1500], [81, 641])
    common = {"workload": "random-write:count=6000", "prefill": "full", "warmup": 4000}
    schemes = all_schemes(study, disk(study, CUT_TRACKS))
    jobs = {}
    for scheme, cut in product(schemes, cuts):
        # On a conventional disk, a write reaches no other track.
        drive = disk(study, CUT_TRACKS, reach=1 if scheme.layer == "in-place" else 2)
        jobs[scheme.layer, cut] = common | on_layer(scheme.layer, **scheme.parameters) | {"drive": drive, "power_cut": cut}
    runs = study.keyed_runs(jobs)
    losses = []
    for scheme in schemes:
        of_scheme = [runs[scheme.layer, cut] for cut in cuts]
        lost = [run.power_cut.lost_sectors for run in of_scheme if run.get("power_cut")]
        harmful = sum(sectors > 0 for sectors in lost)
        if not lost:
            losses.append("no cut was reached")
        elif harmful:
            losses.append(f"{math.ceil(max(lost) / 2)} kB at most, in {harmful} of {len(lost)} cuts")
        else:
            losses.append("nothing")
    return losses


def study(study: Study) -> None:
    drive = disk(study, TRACKS)
    schemes = all_schemes(study, drive)
    span, raw = min(scheme.capacity.host_sectors for scheme in schemes), schemes[0].capacity.raw_sectors
    gb = lambda sectors: sectors * 512 / 1e9
    study.section("All schemes under all demands", disk=gb(raw), spare=gb(raw - span), span=gb(span))
    missing = [name for name, file in study.numbers["traces"].items() if not study.trace(file)]
    if missing:
        study.say(f"Not available, and left out: {', '.join(missing)} (name a folder of traces).")
    demands = available_demands(study, span, raw - span)
    jobs = {}
    for scheme, (demand, requests), is_idle in product(schemes, demands.items(), (False, True)):
        can_clean_idle = any(one["key"] == "idle_clean" for one in smrkit.layers(scheme.layer)["parameters"])
        parameters = scheme.parameters | ({"idle_clean": is_idle} if can_clean_idle else {})
        arrival = {"arrival": "trace"} if is_idle else {}
        common = {"drive": drive, "prefill": "full"}
        jobs[scheme.layer, demand, is_idle] = on_layer(scheme.layer, **parameters) | requests | arrival | common
    runs = study.keyed_runs(jobs)
    summary_rows(study, schemes, list(demands), runs)
    study.section("By demand")
    rows = []
    for demand, scheme in product(demands, schemes):
        cells = []
        for is_idle in (False, True):
            run = runs[scheme.layer, demand, is_idle]
            cells += [with_interval(run, key) for key in ("mean", "p99_9")] + [short(run.latency_ns.all.max / 1e6)]
            cells.append("-" if run.write_amplification is None else short(run.write_amplification))
        rows.append([demand, scheme.layer, *cells])
    heads = ["mean", "99.9 %", "longest", "written"]
    study.table(["demand", "scheme", *heads, *(f"{head}, idle" for head in heads)], rows)


def with_interval(run: Outcome, key: str) -> str:
    """A latency in milliseconds with the 95 % confidence interval by the run's own requests, or why there is none."""
    interval = run.confidence.all[key]
    ends = [short(interval[end] / 1e6) for end in ("low", "high") if interval[end] is not None]
    return f"{short(run.latency_ns.all[key] / 1e6)} ({' to '.join(ends) or interval.unknown.replace('-', ' ')})"


def summary_rows(study: Study, schemes: list[Scheme], demands: list[str], runs: dict[tuple[str, str, bool], Outcome]) -> None:
    """Adds the table and the figure of all schemes. Runs are by layer, demand, and whether there was idle time."""

    def slowdown(layer: str, demand: str, is_idle: bool, key: str) -> float:
        """A latency as a multiple of the conventional disk's."""
        ours, conventional = (runs[of, demand, is_idle].latency_ns.all[key] for of in (layer, "in-place"))
        return float(ours / max(1, conventional))

    rows = []
    for scheme, lost in zip(schemes, lost_to_cuts(study)):
        layer, cells = scheme.layer, []
        by_idle = {is_idle: [runs[layer, demand, is_idle] for demand in demands] for is_idle in (False, True)}
        # In the order of `header`, each value without idle time and then with it.
        for key, is_idle in product(("mean", "p99_9"), by_idle):
            multiple = geometric_mean(slowdown(layer, demand, is_idle, key) for demand in demands)
            cells.append(f"{short(multiple)} ×")
        for of_scheme in by_idle.values():
            cells.append(with_unit(max(run.latency_ns.all.max for run in of_scheme) / 1e9, SECONDS))
        for of_scheme in by_idle.values():
            amplifications = [run.write_amplification for run in of_scheme if run.write_amplification is not None]
            cells.append(f"{short(geometric_mean(amplifications))} ×")
        map_bytes = max(run.map_bytes for of_scheme in by_idle.values() for run in of_scheme)
        rows.append([layer, *cells, f"{scheme.lost_percent():.1f} %", with_unit(map_bytes, BYTES), lost])
    header = ["scheme", "mean", "idle", "99.9 %", "idle", "longest", "idle", "written", "idle", "lost", "maps", "power cut takes"]
    study.table(header, rows)

    def draw(figure: Any) -> None:
        for ax, (key, is_idle) in zip(figure.subplots(2, 2, sharex=True).flat, product(("mean", "p99_9"), (False, True))):
            values = lambda layer: [slowdown(layer, demand, is_idle, key) for demand in demands]
            curves = {scheme.layer: (demands, values(scheme.layer)) for scheme in schemes[1:]}
            title = f"{'Mean' if key == 'mean' else '99.9 %'}, {'with idle time' if is_idle else 'flat out'}"
            draw_curves(ax, curves, guides={"conventional": 1}, yscale="log", ylabel="× the conventional disk", title=title)
            ax.tick_params(axis="x", rotation=45)
        ax.legend()

    study.figure("schemes", draw, size=(12, 9))
