"""He & Du, "Novel Address Mappings for Shingled Write Disks", HotStorage 2014: static track maps."""

import math
import re
from dataclasses import dataclass
from typing import Any

import polars as pl
import smrkit
from smrkit.reproduce import SHORT_SEEKS, Study, listed

SCHEMES = ("1234", "R(4123)", "124R(3)", "14R(23)")
FILLS = (25, 50, 75, 100)
#: Tracks of a band, and the head's width in tracks.
N, W = 4, 2
#: Sectors of a track: the mean of st5000as0011, so that whole requests of 4 KiB fit (assumption).
TRACK = 2640
QUICK_REQUESTS = 4000


def drive(study: Study, bands: int, random_tracks: int = 0, track_sectors: int = TRACK) -> Any:
    tracks = random_tracks + bands * (N + W - 1)
    return study.small_drive(f"he-du-{tracks}", tracks=tracks, track_sectors=track_sectors, switch_ms=1.2, seek=SHORT_SEEKS)


def groups(scheme: str) -> list[list[int]]:
    """The order of tracks: digits are used band by band, each in R(…) across all bands before the next."""
    found: list[list[int]] = []
    for in_turn, in_order in re.findall(r"R\((\d+)\)|(\d+)", scheme):
        tracks = [int(digit) - 1 for digit in in_turn or in_order]
        found += [[track] for track in tracks] if in_turn else [tracks]
    return found


def requests(occupied: set[int], track: int, width: int) -> int:
    """Requests for a write to a track: it takes the occupied tracks within the head's width after it along, and those after them."""
    taken, last = 0, track
    for other in sorted(one for one in occupied if one > track):
        if other - last < width:
            taken, last = taken + 1, other
    return 1 + 2 * taken


def update_war(order: list[list[int]], width: int, fill: float) -> float:
    """The mean WAR of updates over all used LBAs, in very many bands."""
    occupied, left = set[int](), fill * sum(map(len, order))
    for group in order:
        # The last group in use has reached a part of the bands; the others have only what was used before.
        share, before, occupied = min(1.0, left / len(group)), occupied, occupied | set(group)
        left -= len(group)
        if left <= 1e-12:
            break
    kinds = ((occupied, share), (before, 1 - share))
    tracks = sum(part * len(used) for used, part in kinds)
    return sum(part * requests(used, track, width) for used, part in kinds for track in used) / tracks


def equations(study: Study) -> None:
    study.section("Equations 1 and 2, figure 1: space gain and WAR")
    gain = lambda n, w: w * n / (n + w - 1)
    study.row("space gain, N = 4, W = 2", gain(N, W))
    study.row("space gain, N = 5, W = 3", gain(5, 3))
    is_n = all(update_war([list(range(n))], w, 1.0) == n for w in range(2, 6) for n in range(1, 33))
    study.row("WAR of full bands, N to 32, W 2 to 5", "N" if is_n else "not always N", agrees=is_n)
    # Figure 1's disk: 100 tracks of the random access zone, bands, tracks of 100 sectors; LBAs count from 1.
    random_tracks, sectors = 100, 100
    where = {"op": ["write"] * 2, "lba": [400, 499], "sectors": [1] * 2, "time_ns": [0, 0]}
    scheme = {"track-map.scheme": "1234", "track-map.random_tracks": random_tracks}
    disk = {"drive": drive(study, 2000, random_tracks, sectors), "layer": "track-map", "set": scheme}
    run = study.run(disk | {"requests": where, "accesses": True})
    track = [pba // sectors - random_tracks + 1 for pba in pl.DataFrame(run.accesses).filter(pl.col("op") == "write")["pba"]]
    study.row("bands", run.capacity.host_sectors // (N * sectors))
    study.row("tracks of the random access zone in use", run.capacity.spare_sectors // sectors)
    study.row("physical track of LBA 401, by 1234", track[0])
    study.row("physical track of LBA 500, by 1234", track[-1])
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
    # Each fill ends a band of each group, so that no band is half used.
    bands, jobs = 24, []
    for scheme in SCHEMES:
        for fill in FILLS:
            tracks = bands * N * fill // 100
            places = {
                "op": ["write"] * tracks,
                "lba": [track * TRACK + TRACK // 2 for track in range(tracks)],
                "sectors": [8] * tracks,
            }
            jobs.append(
                on_scheme(scheme, fill)
                | {"drive": drive(study, bands), "requests": places | {"time_ns": [0] * tracks}, "prefill": "sequential"}
            )
    runs = iter(study.runs(jobs))
    same = lambda ours, paper: abs(ours - paper) < 1e-9
    for scheme in SCHEMES:
        for fill, paper in zip(FILLS, study.numbers["wars"][scheme]):
            ours, closed = next(runs).layer_stats.war_mean, update_war(groups(scheme), W, fill / 100)
            agrees = same(ours, paper) and same(closed, paper)
            study.row("WAR of {scheme}, {fill} % full", ours, paper=paper, agrees=agrees, scheme=scheme, fill=fill, closed=closed)
    for scheme in SCHEMES:
        order = [track for group in groups(scheme) for track in group]
        first = [requests(set(order[:at]), track, W) for at, track in enumerate(order)]
        is_single = all(count == 1 for count in first[:3])
        study.row("requests for first writes by {scheme}, by quarters", listed(first, 2), agrees=is_single, scheme=scheme)

    def draw(figure: Any) -> None:
        ax, steps = figure.subplots(), [at / 200 for at in range(1, 201)]
        for scheme, style in zip(SCHEMES, ("-", "-", "-", "--")):
            ax.plot([100 * fill for fill in steps], [update_war(groups(scheme), W, fill) for fill in steps], style, label=scheme)
            ax.plot(FILLS, study.numbers["wars"][scheme], "o", color="grey")
        ax.set(xlabel="Space used (%)", ylabel="WAR", title="Mean WAR of updates; dots: the paper's text")
        ax.legend()

    study.figure("figure-2", draw)


def on_scheme(scheme: str, fill: int) -> dict[str, Any]:
    return {
        "layer": "track-map",
        "set": {"track-map.scheme": scheme, "track-map.fill_percent": fill, "track-map.random_tracks": 0},
    }


@dataclass
class Load:
    """Requests that are replayed at several fills, and what came out by fill: the plain disk first, then the schemes."""

    name: str
    fills: tuple[int, ...]
    jobs: list[list[dict[str, Any]]]
    runs: list[list[Any]]

    def response(self, of: int) -> list[float]:
        return [at_fill[of].latency_ns.all.mean / 1e6 for at_fill in self.runs]

    def service(self, of: int) -> list[float]:
        return [at_fill[of].service_ns / 1e6 / at_fill[of].requests for at_fill in self.runs]

    def war(self, of: int) -> list[float]:
        return [at_fill[of].layer_stats.war_mean for at_fill in self.runs]


def slower(ours: list[float], than: list[float]) -> list[float]:
    return [100 * (one / other - 1) for one, other in zip(ours, than)]


def loads(study: Study) -> list[Load]:
    """The traces of Table 1, with its rows, or what stands for them."""
    found, stands = [], []
    for trace in study.numbers["trace"]:
        path = study.trace(trace["file"])
        table = smrkit.trace.read(path) if path else smrkit.trace.generate(trace["workload"], capacity=2**49, seed=study.seed)
        frame = pl.DataFrame(table).sort("time_ns", maintain_order=True).cast({"lba": pl.Int64, "sectors": pl.Int64})
        frame = frame.head(QUICK_REQUESTS) if study.quick else frame
        found.append((f"{trace['file'] if path else 'a stand-in'} for {trace['paper']}", trace, frame))
        stands.append(
            f"{trace['paper']} (not at hand): {trace['file'] if path else 'generated, for its substitute is not at hand either'}"
        )
    study.section("Table 1: traces", stands="; ".join(stands))
    made = []
    for name, trace, frame in found:
        writes = frame.filter(pl.col("op") == "write")["sectors"]
        gap = frame["time_ns"][-1] / max(1, len(frame) - 1) / 1e9
        gap_text = f"{gap:.3g} s" if gap >= 1 else f"{1e3 * gap:.3g} ms"
        written = f"{100 * len(writes) / len(frame):.1f} % writes of {writes.sum() * 0.512 / max(1, len(writes)):.1f} kB"
        study.row(
            "{name}",
            f"{len(frame):,} requests {gap_text} apart, × {trace['stretched']}; {written}",
            name=name,
            role=trace["role"],
        )
        # A quarter of the space ends with a band of each scheme's groups.
        bands = 12 * math.ceil((frame["lba"] + frame["sectors"]).max() / (N * TRACK) / 12)
        common = {"drive": drive(study, bands), "arrival": "trace", "time_scale": trace["stretched"]}
        jobs = []
        for fill in FILLS:
            span = bands * N * TRACK * fill // 100
            sectors = pl.col("sectors").clip(upper_bound=span)
            requests = frame.select(
                "time_ns", "op", pl.min_horizontal(pl.col("lba") % span, span - sectors).alias("lba"), sectors
            )
            schemes = [common | on_scheme(scheme, fill) | {"requests": requests, "prefill": "sequential"} for scheme in SCHEMES]
            jobs.append([common | {"layer": "in-place", "requests": requests}, *schemes])
        made.append(Load(name, FILLS, jobs, []))
    return made


def figure3(study: Study) -> None:
    every, bands, syn_jobs = loads(study), study.pick(48, 12), []
    for fill in (75, 100):
        count = bands * N * TRACK * fill // 100 // 8
        workload = f"sequential-write:size=4Ki,count={count},interval=50ms,arrivals=normal:10ms"
        common = {"drive": drive(study, bands), "workload": workload, "arrival": "trace"}
        syn_jobs.append([common | {"layer": "in-place"}, *(common | on_scheme(scheme, fill) for scheme in SCHEMES)])
    syn = Load("SYN", (75, 100), syn_jobs, [])
    jobs = [job for load in [*every, syn] for at_fill in load.jobs for job in at_fill]
    runs = iter(study.runs(jobs))
    for load in [*every, syn]:
        load.runs = [[next(runs) for _ in at_fill] for at_fill in load.jobs]
    study.section("Figure 3: response time and WAR", runs=len(jobs))
    for load in every:
        trace_rows(study, load)
    syn_rows(study, syn)

    def draw(figure: Any) -> None:
        for axes, load in zip(figure.subplots(len(every) + 1, 2), [*every, syn]):
            axes[0].plot(load.fills, load.response(0), "--", color="grey", label="plain disk")
            for of, scheme in enumerate(SCHEMES, 1):
                axes[0].plot(load.fills, load.response(of), "o-", label=scheme)
                axes[1].plot(load.fills, load.war(of), "o-", label=scheme)
            for ax, ylabel in zip(axes, ("Mean response (ms)", "Mean WAR")):
                ax.set(yscale="log", xlabel="Space used (%)", ylabel=ylabel, title=load.name)
        axes[0].legend()

    study.figure("figure-3", draw, size=(10, 16))


def trace_rows(study: Study, load: Load) -> None:
    name = load.name
    for of, scheme in enumerate(SCHEMES, 1):
        # The text prints two decimals.
        paper = [round(war, 2) for war in study.numbers["wars"][scheme]]
        worst = max(abs(off) for off in slower(load.war(of), paper))
        updates = load.runs[-1][of].layer_stats.track_updates
        shares = listed(100 * count / max(1, sum(updates)) for count in updates)
        study.row(
            "{name}: WAR of {scheme}",
            listed(load.war(of), 2),
            value=worst,
            paper=listed(paper, 2),
            name=name,
            scheme=scheme,
            worst=worst,
            shares=shares,
        )
    plain, first = load.response(0)[:3], load.response(1)[:3]
    for of, scheme in list(enumerate(SCHEMES, 1))[1:]:
        ours = load.response(of)[:3]
        words = {"name": name, "scheme": scheme}
        outperforms = all(one < other for one, other in zip(ours, first))
        study.row(
            "{name}: response of {scheme} at 25, 50, 75 % full",
            listed(ours, 2),
            agrees=outperforms,
            other=listed(first, 2),
            **words,
        )
        service = listed(slower(load.service(of)[:3], load.service(0)), 2)
        item = "{name}: {scheme} against the plain disk at 25, 50, 75 % full"
        study.row(
            item, listed(slower(ours, plain), 2), value=max(slower(ours, plain)), plain=listed(plain, 2), service=service, **words
        )
    second, third, fourth = (load.response(of)[:2] for of in (2, 3, 4))
    ahead = all(one < other for of in (second, fourth) for one, other in zip(of, third))
    both = f"{listed(second, 2)} and {listed(fourth, 2)}"
    study.row("{name}: R(4123) and 14R(23) at 25, 50 % full", both, agrees=ahead, name=name, other=listed(third, 2))
    full = [load.response(of)[3] for of in range(1, 5)]
    study.row("{name}: best scheme, 100 % full", SCHEMES[full.index(min(full))], name=name, full=listed(full, 2))


def syn_rows(study: Study, load: Load) -> None:
    """The cold sequential write: its WARs follow from the schemes alone."""
    early, full = ([load.war(of)[at] for of in range(1, 5)] for at in (0, 1))
    last = [(whole - 0.75 * part) / 0.25 for part, whole in zip(early, full)]
    same = lambda ours, paper: all(abs(one - other) < 1e-9 for one, other in zip(ours, paper))
    for item, ours, paper in (
        ("75 % full", early, [1.0, 1.0, 1.0, 1.0]),
        ("100 % full", full, [4.0, 4.0, 4.0, 4.0]),
        ("whole run", full, [1.0, 1.5, 1.5, 1.5]),
        ("last quarter", last, [1.0, 3.0, 3.0, 3.0]),
    ):
        study.row(f"SYN: WAR by scheme, {item}", listed(ours, 2), agrees=same(ours, paper))
    by_fill = [[100 * (load.response(of)[at] / load.response(1)[at] - 1) for of in range(2, 5)] for at in (0, 1)]
    first, plain = load.response(1), load.response(0)
    against = "SYN: R(4123), 124R(3), 14R(23) against 1234"
    study.row(f"{against}, 75 % full", listed(by_fill[0], 2), value=max(map(abs, by_fill[0])), first=first[0])
    study.row(f"{against}, 100 % full", listed(by_fill[1], 2), value=min(by_fill[1]), first=first[1], plain=plain[1])


def study(study: Study) -> None:
    for part in (equations, figure2, figure3):
        part(study)
