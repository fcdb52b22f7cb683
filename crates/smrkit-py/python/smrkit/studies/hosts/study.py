"""File systems on zones overwrite whole files: what the order of free zones gains, and what garbage collection costs each of them."""

import random
from itertools import product
from typing import Any

import polars as pl
from smrkit.reproduce import BYTES, Study, draw_curves, on_layer, short, with_unit, written_mb_per_s

#: Sectors of a MiB, the longest request.
MIB = 2048
#: The lengths of the shortest and the longest file in MiB.
SIZES = {"128 MiB": (128, 128), "8 MiB": (8, 8), "2 MiB": (2, 2), "2 to 8 MiB": (2, 8)}
#: Parameters of `zone-log` for each file system. XFS would open 127 zones, which are one in 430 of a large disk but an eighth of ours; 8 are
#: one in a hundred.
HOSTS = {
    "XFS": {"host": "xfs", "open_zones": 8},
    "XFS, round robin": {"host": "xfs", "open_zones": 8, "free_zones": "round-robin"},
    "btrfs": {"host": "btrfs"},
    # The share that mkfs.f2fs leaves free. With less, it would reserve more (100 / ratio + 7 sections).
    "f2fs": {"host": "f2fs", "spare_percent": 7},
}
#: Bars of the figure of where on the disk is written.
BARS = 25
#: Passes before the one that is counted, where it is not the first.
LATER = 3


class Overwrites:
    """A run in which files fill a share of a disk end to end, are written once in order, and then again in a random order.

    In one pass as many sectors are overwritten as all files have. The pass after ``uncounted`` others is counted.
    """

    def __init__(self, study: Study, host: str, size: str, percent: int, uncounted: int):
        self.study, self.host, self.size, self.percent, self.uncounted = study, host, size, percent, uncounted
        parameters = {"spare_percent": 0.1} | HOSTS[host]
        self.common = {"drive": "hc620", "capacity": study.pick("268GB", "64GB")} | on_layer("zone-log", **parameters)
        self.outcome: Any = None

    def run(self) -> "Overwrites":
        capacity = self.study.run(self.common | {"workload": "random-write:count=1"}).capacity
        room, dice = capacity.host_sectors * self.percent // 100, random.Random(self.study.seed)
        files, filled = list[tuple[int, int]](), 0
        shortest, longest = SIZES[self.size]
        while (sectors := dice.randint(shortest, longest) * MIB) <= room - filled:
            files.append((filled, sectors))
            filled += sectors
        written, left = files.copy(), filled * (self.uncounted + 1)
        while left > 0:
            file = files[dice.randrange(len(files))]
            written.append(file)
            left -= file[1]
        frame = pl.DataFrame(written, schema=["first", "sectors"], orient="row")
        frame = frame.with_columns(lba=pl.int_ranges("first", pl.col("first") + pl.col("sectors"), MIB)).explode("lba")
        requests = frame.select(
            pl.lit("write").alias("op"), "lba", pl.lit(MIB, dtype=pl.Int64).alias("sectors"), pl.lit(0).alias("time_ns")
        )
        self.outcome = self.study.run(self.common | {"requests": requests, "warmup": len(requests) - filled // MIB})
        return self

    def mb_per_s(self) -> float:
        return written_mb_per_s(self.outcome)

    def place_percent(self) -> float:
        """The mean place of the host's writes, in percent of the disk from its outer edge."""
        sectors_at = self.outcome.surface.host
        return 100 * sum(at * sectors for at, sectors in enumerate(sectors_at)) / sum(sectors_at) / len(sectors_at)

    def cleaning_percent(self) -> float:
        """The share of the time that garbage collection took."""
        busy = self.outcome.busy_by_cause_ns
        return 100 * float(busy.clean / busy.total)

    def cells(self) -> list[str]:
        collected = self.outcome.garbage_collection
        garbage_bytes = collected.enospc_garbage_sectors * 512 / max(1, collected.enospc)
        enospc = f"{collected.enospc:,} with {with_unit(garbage_bytes, BYTES)}" if collected.enospc else "-"
        moved = with_unit(collected.moved_sectors * 512, BYTES)
        amplification = f"{short(self.outcome.write_amplification)} ×"
        return [short(self.mb_per_s()), amplification, moved, f"{collected.writers_slept:,}", enospc]


def order_of_zones(study: Study) -> None:
    study.section("Order of free zones")
    passes = {"the first pass": 0, "later passes": LATER}
    cases = list(product([("128 MiB", 50), ("2 to 8 MiB", 67)], passes))
    runs = study.map(
        Overwrites.run,
        [
            Overwrites(study, host, size, percent, passes[counted])
            for (size, percent), counted in cases
            for host in ("XFS", "XFS, round robin")
        ],
    )
    pairs = list(zip(runs[::2], runs[1::2]))
    for ((size, percent), counted), (lowest, robin) in zip(cases, pairs):
        why = (
            f"{short(lowest.mb_per_s())} and {short(robin.mb_per_s())} MB/s; "
            f"writes go to {lowest.place_percent():.0f} and {robin.place_percent():.0f} % of the disk on average, from its outer edge; "
            f"cleaning takes {lowest.cleaning_percent():.0f} and {robin.cleaning_percent():.0f} % of the time"
        )
        gain = 100 * (lowest.mb_per_s() / robin.mb_per_s() - 1)
        study.row(f"{size} files, {percent} % full, {counted}: gain", gain, why=why)

    def draw(figure: Any) -> None:
        for ax, ((size, percent), counted), pair in zip(figure.subplots(len(cases), sharex=True), cases, pairs):
            for run, label in zip(pair, ("the lowest free zone first", "round robin")):
                sectors_at = run.outcome.surface.host
                edges = [len(sectors_at) * at // BARS for at in range(BARS + 1)]
                bars = [sum(sectors_at[begin:end]) * 512 / 1e9 for begin, end in zip(edges, edges[1:])]
                ax.stairs(bars, [100 * at / BARS for at in range(BARS + 1)], label=label)
            which = counted if counted == "the first pass" else "a later pass"
            ax.set(ylabel="GB written", title=f"{size} files, {percent} % full, {which}")
        ax.set(xlabel="place on the disk, % from its outer edge")
        ax.legend()

    study.figure("places", draw, size=(9, 10))


def file_systems(study: Study) -> None:
    study.section("File systems")
    sizes, percents = study.pick(["128 MiB", "8 MiB", "2 MiB"], ["8 MiB"]), study.pick([50, 67, 90, 99], [50, 90])
    cases = list(product(sizes, percents, HOSTS))
    done = study.map(Overwrites.run, [Overwrites(study, host, size, percent, LATER) for size, percent, host in cases])
    runs = dict(zip(cases, done))
    rows = [[size, f"{percent} %", host, *runs[size, percent, host].cells()] for size, percent, host in cases]
    study.table(["files", "full", "file system", "MB/s", "written", "moved", "writers put to sleep", "ENOSPC, garbage left"], rows)

    def draw(figure: Any) -> None:
        for ax, size in zip(figure.subplots(1, len(sizes), sharey=True, squeeze=False).flat, sizes):
            curves = {host: (percents, [runs[size, percent, host].mb_per_s() for percent in percents]) for host in HOSTS}
            draw_curves(ax, curves, title=f"files of {size}", xlabel="% full", ylim=(0, None))
        ax.legend()
        figure.supylabel("MB/s of overwritten files")

    study.figure("rates", draw)


def study(study: Study) -> None:
    order_of_zones(study)
    file_systems(study)
