"""File systems on zones overwrite whole files: what the order of free zones gains, and what each one's garbage collection does."""

import random
from itertools import product
from typing import Any

import polars as pl
from smrkit.reproduce import BYTES, Study, short, with_unit

#: Sectors of a MiB, which is also the longest request.
MIB = 2048
#: The files by their lengths in MiB: the shortest and the longest.
SIZES = {"128 MiB": (128, 128), "8 MiB": (8, 8), "2 MiB": (2, 2), "2 to 8 MiB": (2, 8)}
#: What is set of `zone-log` for each file system. A zone in a hundred may be open: of a large disk with 127 of them it is one in 430.
HOSTS = {
    "XFS": {"host": "xfs", "open_zones": 8},
    "XFS, round robin": {"host": "xfs", "open_zones": 8, "free_zones": "round-robin"},
    "btrfs": {"host": "btrfs"},
    "f2fs": {"host": "f2fs"},
}
#: Parts of the disk of which a figure shows what was written to them.
PARTS = 25
#: Passes before the one that is counted, where it is a later one.
LATER = 3


class Overwrites:
    """Files that lie end to end on a share of a disk: written once in order, then each again and again, in a random order.

    A pass overwrites as much as there is of them. One is counted, after some.
    """

    def __init__(self, study: Study, host: str, size: str, full: int, after: int):
        self.study, self.what, self.after = study, (host, size, full), after
        settings = {f"zone-log.{key}": value for key, value in ({"spare_percent": 0.1} | HOSTS[host]).items()}
        if host == "f2fs":
            # What a file system of this kind must leave free: with less, mkfs reserves more (100 / ratio + 7 sections).
            settings["zone-log.spare_percent"] = 7
        self.common = {"drive": "hc620", "capacity": study.pick("268GB", "64GB"), "layer": "zone-log", "set": settings}
        self.run: Any = None

    def serve(self) -> "Overwrites":
        host, size, full = self.what
        room = self.study.run(self.common | {"workload": "random-write:count=1"}).capacity.host_sectors * full // 100
        chance, files, at = random.Random(self.study.seed), list[tuple[int, int]](), 0
        shortest, longest = SIZES[size]
        while (sectors := chance.randint(shortest, longest) * MIB) <= room - at:
            files.append((at, sectors))
            at += sectors
        order, left = list(range(len(files))), at * (self.after + 1)
        while left > 0:
            order.append(chance.randrange(len(files)))
            left -= files[order[-1]][1]
        frame = pl.DataFrame([files[file] for file in order], schema=["first", "sectors"], orient="row")
        frame = frame.with_columns(lba=pl.int_ranges("first", pl.col("first") + pl.col("sectors"), MIB)).explode("lba")
        requests = frame.select(pl.lit("write").alias("op"), "lba", pl.lit(MIB, dtype=pl.Int64).alias("sectors"), pl.lit(0).alias("time_ns"))
        self.run = self.study.run(self.common | {"requests": requests, "warmup": len(requests) - at // MIB})
        return self

    @property
    def mb_s(self) -> float:
        return float(self.run.host_written_sectors * 512e3 / self.run.elapsed_ns)

    @property
    def place(self) -> float:
        """Where the host's writes went in the mean, in percent of the disk from its outer edge."""
        host = self.run.surface.host
        return 100 * sum(at * sectors for at, sectors in enumerate(host)) / sum(host) / len(host)

    @property
    def cleaning(self) -> float:
        """Share of the time that garbage collection took, in percent."""
        return 100 * float(self.run.busy_by_cause_ns.clean / self.run.busy_by_cause_ns.total)

    def cells(self) -> list[str]:
        counted = self.run.garbage_collection
        garbage = counted.enospc_garbage_sectors * 512 / max(1, counted.enospc)
        told = f"{counted.enospc:,} with {with_unit(garbage, BYTES)}" if counted.enospc else "-"
        moved = with_unit(counted.moved_sectors * 512, BYTES)
        return [short(self.mb_s), f"{short(self.run.write_amplification)} ×", moved, f"{counted.writers_slept:,}", told]


def order_of_zones(study: Study) -> None:
    study.section("Order of free zones")
    asked = [("128 MiB", 50), ("2 to 8 MiB", 67)]
    orders = ("XFS", "XFS, round robin")
    passes = {"the first pass": 0, "later passes": LATER}
    jobs = [Overwrites(study, host, *of, after) for of in asked for after in passes.values() for host in orders]
    runs = study.map(Overwrites.serve, jobs)
    for ((size, full), words), lowest, turns in zip(product(asked, passes), runs[::2], runs[1::2]):
        why = (
            f"{short(lowest.mb_s)} and {short(turns.mb_s)} MB/s; in the mean {lowest.place:.0f} and {turns.place:.0f} % of the disk from "
            f"its outer edge; {lowest.cleaning:.0f} and {turns.cleaning:.0f} % of the time goes into cleaning"
        )
        study.row(f"{size} files, {full} % full, {words}: gain", 100 * (lowest.mb_s / turns.mb_s - 1), why=why)

    def draw(figure: Any) -> None:
        for axes, of in zip(figure.subplots(len(jobs) // 2, sharex=True), zip(runs[::2], runs[1::2])):
            for one, words in zip(of, ("the lowest free zone first", "round robin")):
                host = one.run.surface.host
                parts = [sum(host[len(host) * at // PARTS : len(host) * (at + 1) // PARTS]) for at in range(PARTS)]
                axes.stairs([sectors * 512 / 1e9 for sectors in parts], [100 * at / PARTS for at in range(PARTS + 1)], label=words)
            pass_ = "the first pass" if of[0].after == 0 else "a later pass"
            axes.set(ylabel="GB written", title=f"{of[0].what[1]} files, {of[0].what[2]} % full, {pass_}")
        axes.set(xlabel="place on the disk, % from its outer edge")
        axes.legend()

    study.figure("places", draw, size=(9, 10))


def file_systems(study: Study) -> None:
    study.section("File systems")
    sizes, shares = study.pick(["128 MiB", "8 MiB", "2 MiB"], ["8 MiB"]), study.pick([50, 67, 90, 99], [50, 90])
    jobs = [Overwrites(study, *of, LATER) for of in product(HOSTS, sizes, shares)]
    runs = {one.what: one for one in study.map(Overwrites.serve, jobs)}
    rows = [[size, f"{full} %", host, *runs[host, size, full].cells()] for size, full, host in product(sizes, shares, HOSTS)]
    study.table(["files", "full", "file system", "MB/s", "written", "moved", "writers put to sleep", "ENOSPC, garbage left"], rows)

    def draw(figure: Any) -> None:
        for ax, size in zip(figure.subplots(1, len(sizes), sharey=True, squeeze=False).flat, sizes):
            for host in HOSTS:
                ax.plot(shares, [runs[host, size, full].mb_s for full in shares], "o-", label=host)
            ax.set(title=f"files of {size}", xlabel="% full", ylim=(0, None))
        ax.legend()
        figure.supylabel("MB/s of overwritten files")

    study.figure("rates", draw)


def study(study: Study) -> None:
    order_of_zones(study)
    file_systems(study)
