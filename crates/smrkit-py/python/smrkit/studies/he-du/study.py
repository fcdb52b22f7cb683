"""He & Du, "Novel Address Mappings for Shingled Write Disks", HotStorage 2014: static track maps."""

import math
import re
from dataclasses import dataclass
from itertools import product
from typing import Any

import polars as pl
import smrkit
from smrkit.reproduce import SHORT_SEEKS, Study, draw_curves, folded, listed, on_layer

SCHEMES = ("1234", "R(4123)", "124R(3)", "14R(23)")
FILLS = (25, 50, 75, 100)
#: Tracks of a band, and the head's width in tracks.
N, W = 4, 2
#: Sectors of a track: the mean of st5000as0011, rounded so that whole requests of 4 KiB fit (assumption).
TRACK = 2640
QUICK_REQUESTS = 4000


def drive(study: Study, bands: int, random_tracks: int = 0, track_sectors: int = TRACK) -> Any:
    tracks = random_tracks + bands * (N + W - 1)
    return study.small_drive(f"he-du-{tracks}", tracks=tracks, track_sectors=track_sectors, switch_ms=1.2, seek=SHORT_SEEKS)


def on_scheme(scheme: str, fill: int) -> dict[str, Any]:
    return on_layer("track-map", scheme=scheme, fill_percent=fill, random_tracks=0)


def track_groups(scheme: str) -> list[list[int]]:
    """The groups of tracks in the order in which they are filled.

    Digits outside R(…) are one group, which is filled band by band. Each digit in R(…) is a group of its own, filled across all bands.
    """
    found: list[list[int]] = []
    for single, together in re.findall(r"R\((\d+)\)|(\d+)", scheme):
        tracks = [int(digit) - 1 for digit in single or together]
        found += [[track] for track in tracks] if single else [tracks]
    return found


def requests(occupied: set[int], track: int, width: int) -> int:
    """The number of disk requests for a write to a track of a band.

    An occupied track within the head's width is read first and rewritten afterwards. Rewriting it may reach the next occupied track.
    """
    rewritten, last = 0, track
    for other in sorted(one for one in occupied if one > track):
        if other - last < width:
            rewritten, last = rewritten + 1, other
    return 1 + 2 * rewritten


def update_war(groups: list[list[int]], width: int, fill: float) -> float:
    """The mean WAR of updates over all used LBAs, for very many bands of which the share ``fill`` is used."""
    occupied, left = set[int](), fill * sum(map(len, groups))
    for group in groups:
        # The last group in use is filled in a share of the bands; the other bands have only the groups before it.
        share, before, occupied = min(1.0, left / len(group)), occupied, occupied | set(group)
        left -= len(group)
        if left <= 1e-12:
            break
    bands = ((occupied, share), (before, 1 - share))
    tracks = sum(part * len(used) for used, part in bands)
    return sum(part * requests(used, track, width) for used, part in bands for track in used) / tracks


def equations(study: Study) -> None:
    study.section("Equations 1 and 2, figure 1: space gain and WAR")
    gain = lambda n, w: w * n / (n + w - 1)
    study.row("space gain, N = 4, W = 2", gain(N, W))
    study.row("space gain, N = 5, W = 3", gain(5, 3))
    is_n = all(update_war([list(range(n))], w, 1.0) == n for w in range(2, 6) for n in range(1, 33))
    study.row("WAR of full bands, N to 32, W 2 to 5", "N" if is_n else "not always N", agrees=is_n)
    # Figure 1's disk: 100 tracks of the random access zone, then 2,000 bands, with tracks of 100 sectors. Its LBAs count from 1.
    random_tracks, sectors = 100, 100
    two_writes = {"op": ["write"] * 2, "lba": [400, 499], "sectors": [1] * 2, "time_ns": [0, 0]}
    run = study.run(
        on_layer("track-map", scheme="1234", random_tracks=random_tracks)
        | {"drive": drive(study, 2000, random_tracks, sectors), "requests": two_writes, "accesses": True}
    )
    written = pl.DataFrame(run.accesses).filter(pl.col("op") == "write")["pba"]
    shingled_tracks = [pba // sectors - random_tracks + 1 for pba in written]
    study.row("bands", run.capacity.host_sectors // (N * sectors))
    study.row("tracks of the random access zone in use", run.capacity.spare_sectors // sectors)
    study.row("physical track of LBA 401, by 1234", shingled_tracks[0])
    study.row("physical track of LBA 500, by 1234", shingled_tracks[-1])
    study.row("space efficiency", run.capacity.host_sectors / (run.capacity.raw_sectors - random_tracks * sectors))

    def draw(figure: Any) -> None:
        tracks = list(range(1, 33))
        gains, wars = figure.subplots(1, 2)
        for width in range(2, 6):
            gains.plot(tracks, [gain(n, width) for n in tracks], label=f"W = {width}")
        wars.plot(tracks, [update_war([list(range(n))], W, 1.0) for n in tracks], label="any W above 1")
        for ax, value, title in ((gains, 1.6, "Space gain"), (wars, 4, "WAR of full bands")):
            ax.plot(N, value, "o", color="grey", label="paper's text")
            ax.set(xlabel="Tracks of a band, N", title=title)
            ax.legend()

    study.figure("equations", draw)


def figure2(study: Study) -> None:
    study.section("Figure 2: updates against the fill")
    # With 24 bands, no fill leaves a group half used in a band.
    bands, jobs = 24, {}
    for scheme, fill in product(SCHEMES, FILLS):
        tracks = bands * N * fill // 100
        updates = {
            "op": ["write"] * tracks,
            "lba": [track * TRACK + TRACK // 2 for track in range(tracks)],
            "sectors": [8] * tracks,
            "time_ns": [0] * tracks,
        }
        disk = {"drive": drive(study, bands), "prefill": "sequential"}
        jobs[scheme, fill] = on_scheme(scheme, fill) | disk | {"requests": updates}
    runs = study.keyed_runs(jobs)
    same = lambda ours, paper: abs(ours - paper) < 1e-9
    for scheme in SCHEMES:
        for fill, paper in zip(FILLS, study.numbers["wars"][scheme]):
            ours, closed = runs[scheme, fill].layer_stats.war_mean, update_war(track_groups(scheme), W, fill / 100)
            agrees = same(ours, paper) and same(closed, paper)
            study.row("WAR of {scheme}, {fill} % full", ours, paper=paper, agrees=agrees, scheme=scheme, fill=fill, closed=closed)
    for scheme in SCHEMES:
        order = [track for group in track_groups(scheme) for track in group]
        first_writes = [requests(set(order[:at]), track, W) for at, track in enumerate(order)]
        is_single = all(count == 1 for count in first_writes[:3])
        item = "requests for first writes by {scheme}, by quarters"
        study.row(item, listed(first_writes, 2), agrees=is_single, scheme=scheme)

    def draw(figure: Any) -> None:
        ax, fills = figure.subplots(), [at / 2 for at in range(1, 201)]
        wars = {scheme: (fills, [update_war(track_groups(scheme), W, fill / 100) for fill in fills]) for scheme in SCHEMES}
        title = "Mean WAR of updates; dots: the paper's text"
        draw_curves(ax, wars, style="-", xlabel="Space used (%)", ylabel="WAR", title=title)
        for paper in study.numbers["wars"].values():
            ax.plot(FILLS, paper, "o", color="grey")
        ax.legend()

    study.figure("figure-2", draw)


PLAIN = "plain disk"


@dataclass
class Load:
    """The same requests at several fills: arguments of the runs by disk (the plain one or a scheme) and fill, and their outcomes."""

    name: str
    fills: tuple[int, ...]
    jobs: dict[tuple[str, int], dict[str, Any]]
    runs: dict[tuple[str, int], Any]

    def response_ms(self, disk: str) -> list[float]:
        return [self.runs[disk, fill].latency_ns.all.mean / 1e6 for fill in self.fills]

    def service_ms(self, disk: str) -> list[float]:
        return [self.runs[disk, fill].service_ns / 1e6 / self.runs[disk, fill].requests for fill in self.fills]

    def war(self, scheme: str) -> list[float]:
        return [self.runs[scheme, fill].layer_stats.war_mean for fill in self.fills]


def percent_over(ours: list[float], others: list[float]) -> list[float]:
    return [100 * (one / other - 1) for one, other in zip(ours, others)]


def trace_loads(study: Study) -> list[Load]:
    """The loads of the traces of Table 1, or of what stands in for them. Adds Table 1's rows."""
    frames, substitutes = {}, []
    for trace in study.numbers["trace"]:
        path = study.trace(trace["file"])
        table = smrkit.trace.read(path) if path else smrkit.trace.generate(trace["workload"], capacity=2**49, seed=study.seed)
        frame = pl.DataFrame(table).sort("time_ns", maintain_order=True).cast({"lba": pl.Int64, "sectors": pl.Int64})
        name = f"{trace['file'] if path else 'a stand-in'} for {trace['paper']}"
        frames[name] = trace, frame.head(QUICK_REQUESTS) if study.quick else frame
        substitute = trace["file"] if path else "a generated workload, because its substitute is not available either"
        substitutes.append(f"{trace['paper']} (not available): {substitute}")
    study.section("Table 1: traces", stands="; ".join(substitutes))
    loads = []
    for name, (trace, frame) in frames.items():
        writes = frame.filter(pl.col("op") == "write")["sectors"]
        interval_s = frame["time_ns"][-1] / max(1, len(frame) - 1) / 1e9
        interval = f"{interval_s:.3g} s" if interval_s >= 1 else f"{1e3 * interval_s:.3g} ms"
        written = f"{100 * len(writes) / len(frame):.1f} % writes of {writes.sum() * 0.512 / max(1, len(writes)):.1f} kB"
        ours = f"{len(frame):,} requests {interval} apart, × {trace['stretched']}; {written}"
        study.row("{name}", ours, name=name, role=trace["role"])
        # With a multiple of 12 bands, no fill leaves a group half used in a band.
        bands = 12 * math.ceil((frame["lba"] + frame["sectors"]).max() / (N * TRACK) / 12)
        common = {"drive": drive(study, bands), "arrival": "trace", "time_scale": trace["stretched"]}
        jobs: dict[tuple[str, int], dict[str, Any]] = {}
        for fill in FILLS:
            requests = folded(frame, bands * N * TRACK * fill // 100).select("time_ns", "op", "lba", "sectors")
            jobs[PLAIN, fill] = common | {"layer": "in-place", "requests": requests}
            for scheme in SCHEMES:
                jobs[scheme, fill] = common | on_scheme(scheme, fill) | {"requests": requests, "prefill": "sequential"}
        loads.append(Load(name, FILLS, jobs, {}))
    return loads


def syn_load(study: Study) -> Load:
    """SYN: writes of 4 KiB in order on an empty disk, up to the fill."""
    bands, fills = study.pick(48, 12), (75, 100)
    jobs: dict[tuple[str, int], dict[str, Any]] = {}
    for fill in fills:
        count = bands * N * TRACK * fill // 100 // 8
        workload = f"sequential-write:size=4Ki,count={count},interval=50ms,arrivals=normal:10ms"
        common = {"drive": drive(study, bands), "workload": workload, "arrival": "trace"}
        jobs[PLAIN, fill] = common | {"layer": "in-place"}
        for scheme in SCHEMES:
            jobs[scheme, fill] = common | on_scheme(scheme, fill)
    return Load("SYN", fills, jobs, {})


def figure3(study: Study) -> None:
    traces, syn = trace_loads(study), syn_load(study)
    runs = study.keyed_runs({(load.name, *case): job for load in [*traces, syn] for case, job in load.jobs.items()})
    for load in [*traces, syn]:
        load.runs = {case: runs[load.name, *case] for case in load.jobs}
    study.section("Figure 3: response time and WAR", runs=len(runs))
    for load in traces:
        trace_rows(study, load)
    syn_rows(study, syn)

    def draw(figure: Any) -> None:
        for (responses, wars), load in zip(figure.subplots(len(traces) + 1, 2), [*traces, syn]):
            responses.plot(load.fills, load.response_ms(PLAIN), "--", color="grey", label=PLAIN)
            for ax, ylabel, values in ((responses, "Mean response (ms)", load.response_ms), (wars, "Mean WAR", load.war)):
                curves = {scheme: (load.fills, values(scheme)) for scheme in SCHEMES}
                draw_curves(ax, curves, yscale="log", xlabel="Space used (%)", ylabel=ylabel, title=load.name)
        responses.legend()

    study.figure("figure-3", draw, size=(10, 16))


def trace_rows(study: Study, load: Load) -> None:
    name = load.name
    for scheme in SCHEMES:
        # The paper's text prints two decimals.
        paper = [round(war, 2) for war in study.numbers["wars"][scheme]]
        worst = max(abs(off) for off in percent_over(load.war(scheme), paper))
        updates = load.runs[scheme, 100].layer_stats.track_updates
        shares = listed(100 * count / max(1, sum(updates)) for count in updates)
        words = {"name": name, "scheme": scheme, "worst": worst, "shares": shares}
        study.row("{name}: WAR of {scheme}", listed(load.war(scheme), 2), value=worst, paper=listed(paper, 2), **words)
    # The paper compares response times of disks that are not quite full.
    response = {disk: load.response_ms(disk)[:3] for disk in (PLAIN, *SCHEMES)}
    for scheme in SCHEMES[1:]:
        ours, words = response[scheme], {"name": name, "scheme": scheme}
        outperforms = all(one < other for one, other in zip(ours, response["1234"]))
        item = "{name}: response of {scheme} at 25, 50, 75 % full"
        study.row(item, listed(ours, 2), agrees=outperforms, other=listed(response["1234"], 2), **words)
        slower = percent_over(ours, response[PLAIN])
        words |= {"plain": listed(response[PLAIN], 2)}
        words |= {"service": listed(percent_over(load.service_ms(scheme)[:3], load.service_ms(PLAIN)), 2)}
        item = "{name}: {scheme} against the plain disk at 25, 50, 75 % full"
        study.row(item, listed(slower, 2), value=max(slower), **words)
    r4123, third, r23 = (response[scheme][:2] for scheme in SCHEMES[1:])
    are_ahead = all(one < other for ours in (r4123, r23) for one, other in zip(ours, third))
    both = f"{listed(r4123, 2)} and {listed(r23, 2)}"
    study.row("{name}: R(4123) and 14R(23) at 25, 50 % full", both, agrees=are_ahead, name=name, other=listed(third, 2))
    full = {scheme: load.response_ms(scheme)[3] for scheme in SCHEMES}
    study.row("{name}: best scheme, 100 % full", min(full, key=full.__getitem__), name=name, full=listed(full.values(), 2))


def syn_rows(study: Study, load: Load) -> None:
    """Rows of the cold sequential write, whose WARs follow from the schemes alone."""
    at_75, at_100 = ([load.war(scheme)[at] for scheme in SCHEMES] for at in (0, 1))
    last_quarter = [(whole - 0.75 * part) / 0.25 for part, whole in zip(at_75, at_100)]
    same = lambda ours, paper: all(abs(one - other) < 1e-9 for one, other in zip(ours, paper))
    for item, ours, paper in (
        ("75 % full", at_75, [1.0, 1.0, 1.0, 1.0]),
        ("100 % full", at_100, [4.0, 4.0, 4.0, 4.0]),
        ("whole run", at_100, [1.0, 1.5, 1.5, 1.5]),
        ("last quarter", last_quarter, [1.0, 3.0, 3.0, 3.0]),
    ):
        study.row(f"SYN: WAR by scheme, {item}", listed(ours, 2), agrees=same(ours, paper))
    (first_75, first_100), (_, plain_100) = load.response_ms("1234"), load.response_ms(PLAIN)
    slower = [percent_over(load.response_ms(scheme), load.response_ms("1234")) for scheme in SCHEMES[1:]]
    slower_75, slower_100 = ([of_scheme[at] for of_scheme in slower] for at in (0, 1))
    against = "SYN: R(4123), 124R(3), 14R(23) against 1234"
    study.row(f"{against}, 75 % full", listed(slower_75, 2), value=max(map(abs, slower_75)), first=first_75)
    study.row(f"{against}, 100 % full", listed(slower_100, 2), value=min(slower_100), first=first_100, plain=plain_100)


def study(study: Study) -> None:
    for part in (equations, figure2, figure3):
        part(study)
