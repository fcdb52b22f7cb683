"""Papers reproduced: ``python -m smrkit.reproduce NAME`` puts a paper's numbers next to ours.

A study is a folder: one of ``smrkit/studies``, or a path to your own. Its ``numbers.toml`` has the paper's numbers, and the measures by which ours
agree with them. Its ``study.py`` has a function ``study`` that runs the experiments, hands each result to :meth:`Study.row`, and draws figures.
"""

import argparse
import html
import io
import json
import math
import operator
import os
import re
import runpy
import signal
import statistics
import sys
import textwrap
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from importlib import import_module
from itertools import accumulate
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import Any, NamedTuple, TypeVar

import smrkit
from smrkit import Error, ImpossibleError, InputError, Outcome, UsageError
from smrkit._command import output

STUDIES = Path(__file__).parent / "studies"
WIDTH = 118
#: The drive whose rotation, overhead and interference small drives have.
LIKE = "st5000as0011"
#: Seek times in ms of a drive of a few gigabytes, by the share of its stroke. They are the shortest seeks of a large drive (assumption).
SHORT_SEEKS = ((0.0, 0.8), (0.1, 1.2), (0.333, 2.0), (0.5, 2.5), (1.0, 4.0))
#: Endings of the files of traces.
ENDINGS = ("csv.zst", "csv.gz", "csv", "parquet", "tsv.zst")
#: Keys of a row of ``numbers.toml`` that say how to judge it, beside ``item``, ``paper``, ``unit``, ``reason``, ``source`` and ``basis``. A row
#: has one of them, or both a lower and an upper bound.
MEASURES = ("equal", "digits", "within", "off", "least", "most", "above", "below", "measure")

#: For each measure that is a bound, the word for it, and its comparison with our number.
BOUNDS = {
    "least": ("at least", operator.ge),
    "above": ("over", operator.gt),
    "most": ("at most", operator.le),
    "below": ("under", operator.lt),
}

K = TypeVar("K")
T = TypeVar("T")
R = TypeVar("R")


def names() -> list[str]:
    """The names of all studies."""
    return sorted(folder.name for folder in STUDIES.iterdir() if (folder / "numbers.toml").is_file())


def folder_of(name: str) -> Path:
    """The folder of a study, by its name or path."""
    folder = STUDIES / name if name in names() else Path(name).resolve()
    if not all((folder / file).is_file() for file in ("study.py", "numbers.toml")):
        known = ", ".join(names())
        raise UsageError(f"{name} is no study, nor a folder with study.py and numbers.toml: name one of {known}, or all")
    return folder


class Spread(NamedTuple):
    """The mean over seeds, and their range in words."""

    mean: float
    range: str

    @classmethod
    def of(cls, values: Iterable[float]) -> "Spread":
        """The spread of a number, one value for each seed."""
        by_seed = list(values)
        low, high = short(min(by_seed)), short(max(by_seed))
        several = f"{len(by_seed)} seeds alike" if low == high else f"{len(by_seed)} seeds: {low} to {high}"
        return cls(statistics.fmean(by_seed), "one seed" if len(by_seed) == 1 else several)


def short(value: float) -> str:
    """A number with about three digits: ``0.0123``, ``3.49``, ``5,980``, ``1.2 M``."""
    size = abs(value)
    if size == 0 or not math.isfinite(value):
        return "0" if size == 0 else "-"
    # From 999.5 of a unit on, rounding to three digits gives 1 of the next.
    for threshold, scale, prefix in ((999.5e6, 1e9, " G"), (999.5e3, 1e6, " M")):
        if size >= threshold:
            return short(value / scale) + prefix
    digits = max(0, min(8, 2 - math.floor(math.log10(size))))
    text = f"{value:,.{0 if size >= 999.5 else digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def with_unit(value: float, units: Sequence[tuple[float, str]]) -> str:
    """A number in the largest unit that it reaches, of :data:`SECONDS` or :data:`BYTES`."""
    reached = ((scale, unit) for scale, unit in reversed(units) if abs(value) >= 0.9995 * scale or value == 0 and scale == 1)
    scale, unit = next(reached, units[0])
    return f"{short(value / scale)} {unit}"


SECONDS = ((1e-9, "ns"), (1e-6, "µs"), (1e-3, "ms"), (1.0, "s"))
BYTES = ((1.0, "B"), (1e3, "kB"), (1e6, "MB"), (1e9, "GB"))


def listed(values: Iterable[float], decimals: int = 0) -> str:
    """Numbers in a text, separated by spaces."""
    return " ".join(f"{value:,.{decimals}f}" for value in values)


def falls(values: Sequence[float]) -> bool:
    """True if each value is less than the one before."""
    return all(after < before for before, after in zip(values, values[1:]))


def seconds(run: Outcome) -> float:
    """The time that a run took."""
    return float(run.elapsed_ns / 1e9)


def read_mb_per_s(run: Outcome) -> float:
    """What the host read, in MB per second of the run."""
    return float(run.host_read_sectors * 512 * 1e3 / run.elapsed_ns)


def written_mb_per_s(run: Outcome) -> float:
    """What the host wrote, in MB per second of the run."""
    return float(run.host_written_sectors * 512 * 1e3 / run.elapsed_ns)


def on_layer(layer: str, **parameters: Any) -> dict[str, Any]:
    """Arguments of a run on a layer with these parameters."""
    return {"layer": layer, "set": {f"{layer}.{key}": value for key, value in parameters.items()}}


def no_requests() -> Any:
    """A demand without requests, for a rebuild that has the disks to itself."""
    pl = import_module("polars")
    return pl.DataFrame(schema={"op": pl.String, "lba": pl.Int64, "sectors": pl.Int64, "time_ns": pl.Int64})


def requests_by_window(run: Outcome, windows: int) -> list[int]:
    """The requests completed in each of the first ``windows`` windows of a run."""
    # A timeline ends with the last completion. A collection may still be running then, so the windows after it have no request.
    return (list(run.timeline.requests) + [0] * windows)[:windows]


def latency_cdf(*histograms: Iterable[tuple[int, int]]) -> tuple[list[float], list[float]]:
    """Latencies in seconds in ascending order, and for each the share of requests that took no longer."""
    counts = sorted((ns, requests) for histogram in histograms for ns, requests in histogram)
    up_to = list(accumulate(requests for _, requests in counts))
    return [ns / 1e9 for ns, _ in counts], [requests / up_to[-1] for requests in up_to]


def draw_curves(
    ax: Any,
    curves: Mapping[str, tuple[Iterable[Any], Iterable[float]]],
    style: str = "o-",
    guides: Mapping[str, float] | None = None,
    **properties: Any,
) -> None:
    """Draws a curve (values of x and of y) for each label, and a grey line at the value of each of ``guides``.

    ``properties`` are those of the axes, such as ``xlabel`` and ``yscale``.
    """
    for nth, (label, (x, y)) in enumerate(curves.items()):
        [line] = ax.plot(list(x), list(y), style, label=label)
        # Matplotlib's ten colours repeat from here on.
        if nth >= 10:
            line.set(linestyle="--", marker="s")
    for label, value in (guides or {}).items():
        ax.axhline(value, color="grey", linestyle=":", label=label)
    ax.set(**properties)


def with_sector_cost(drive: str, sector_us: float) -> str:
    """The file of a drive with the constant clock, with another cost of a sector."""
    return re.sub("sector_us = { value = [0-9.]+", f"sector_us = {{ value = {sector_us}", smrkit.drive_file(drive))


def folded(frame: Any, span: int) -> Any:
    """The requests of a polars frame, with addresses folded into the first ``span`` sectors."""
    pl = import_module("polars")
    sectors = pl.col("sectors").clip(upper_bound=span)
    return frame.with_columns(pl.min_horizontal(pl.col("lba") % span, span - sectors).alias("lba"), sectors)


def shown(value: Any) -> str:
    """A value for people, with its significant digits."""
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return "-"
    if isinstance(value, float):
        text = f"{value:,.2f}" if abs(value) >= 100 else f"{value:.3f}"
        return text.rstrip("0").rstrip(".")
    return f"{value:,}" if isinstance(value, int) else str(value)


def judged(number: Mapping[str, Any], paper: Any, ours: Any) -> tuple[bool, str]:
    """Returns whether our number agrees by the measure of its row in ``numbers.toml``, and the measure in words."""
    unit = f" {number['unit']}".rstrip()
    if "equal" in number:
        return ours == paper, ""
    if "digits" in number:
        # Papers cut digits off as often as they round.
        scale = 10 ** number["digits"]
        return any(abs(printed - paper * scale) < 1e-6 for printed in (round(ours * scale), math.trunc(ours * scale))), ""
    if "within" in number:
        off, most = 100 * (ours / paper - 1), number["within"]
        agrees = abs(off) <= most
        words = f"{off:+.{3 if most < 0.1 else 1}f} %, {'within' if agrees else 'more than'} {most} %"
        return agrees, "equal" if ours == paper else words
    if "off" in number:
        off, most = ours - paper, number["off"]
        return abs(off) <= most, f"{off:+.3f}{unit}, {'within' if abs(off) <= most else 'more than'} {most}{unit}"
    bounds = [(word, compare, number[key]) for key, (word, compare) in BOUNDS.items() if key in number]
    agrees = all(compare(ours, bound) for _, compare, bound in bounds)
    return agrees, "must be " + " and ".join(f"{word} {bound:,}" for word, _, bound in bounds)


@dataclass
class Study:
    """One run of a study: its options and its results."""

    name: str
    quick: bool = False
    seed: int = 1
    traces: Path | None = None
    draws: bool = False
    numbers: dict[str, Any] = field(init=False)
    rows: list[dict[str, Any]] = field(default_factory=list)
    tables: list[dict[str, Any]] = field(default_factory=list)
    #: The text of each section, by its heading.
    sections: dict[str, list[str]] = field(default_factory=dict)
    #: Figures of matplotlib, by section and name.
    figures: list[tuple[str, str, Any]] = field(default_factory=list)
    interrupted: bool = False

    def __post_init__(self) -> None:
        self._source = folder_of(self.name)
        self.name = self._source.name
        self.numbers = tomllib.loads((self._source / "numbers.toml").read_text(encoding="utf-8"))
        self._section: dict[str, Any] = {}
        self._heading = ""
        self._is_stopped = False
        self._folder: TemporaryDirectory[str] | None = None
        self._file_lock = Lock()

    def file(self, name: str, text: str) -> Path:
        """Makes a file for a run, such as a drive file. It is removed after the study."""
        # Threads of `map` call this at the same time. Without the lock two could make a folder each, and one folder would be deleted with its files.
        with self._file_lock:
            self._folder = self._folder or TemporaryDirectory(prefix="smrkit-")
            path = Path(self._folder.name, name)
            # Not written again, because runs on other threads may be reading it.
            if not path.exists():
                path.write_text(text, encoding="utf-8")
        assert path.read_text(encoding="utf-8") == text, f"another file is called {name}"
        return path

    def small_drive(
        self,
        name: str,
        *,
        tracks: int,
        track_sectors: int,
        switch_ms: float,
        seek: Sequence[Sequence[float]],
        reach: int = 2,
        skew_ms: float | None = None,
    ) -> Path:
        """Makes a drive file: one surface, tracks of one length, and the rotation and interference of st5000as0011.

        A write affects ``reach`` tracks towards the inner edge, including its own: with 1 it damages no other track.
        """
        skew = "" if skew_ms is None else f'skew_ms = {{ value = {skew_ms}, source = "{LIKE}" }}'
        return self.file(
            f"{name}.toml",
            f"""
name = "{name}"
summary = "As small as a study needs, with the mechanics of {LIKE}"
[geometry]
zones = {{ value = [{{ tracks = {tracks}, track_sectors = {track_sectors} }}], source = "assumption" }}
[interference]
inner_tracks = {{ value = {reach}, source = "{LIKE}" }}
outer_tracks = {{ value = 1, source = "{LIKE}" }}
cw_degrees = {{ value = 1.0, source = "{LIKE}" }}
ccw_degrees = {{ value = 1.0, source = "{LIKE}" }}
[mechanical]
rpm = {{ value = 5980, source = "{LIKE}" }}
seek = {{ value = {[list(map(float, point)) for point in seek]}, source = "{LIKE}, or short ones: assumption" }}
switch_ms = {{ value = {switch_ms}, source = "assumption" }}
{skew}
overhead_ms = {{ value = 0.03, source = "{LIKE}" }}
""",
        )

    def pick(self, full: T, quick: T) -> T:
        """One of two values: the second with ``--quick``."""
        return quick if self.quick else full

    def seeds(self, full: int, quick: int) -> list[int]:
        """Consecutive seeds from the first one on: ``full`` of them, or ``quick`` with ``--quick``."""
        return list(range(self.seed, self.seed + self.pick(full, quick)))

    def trace(self, name: str) -> Path | None:
        """The file of a real trace, if it is available."""
        files = [self.traces / f"{name}.{ending}" for ending in ENDINGS] if self.traces else []
        return next((file for file in files if file.is_file()), None)

    def map(self, work: Callable[[T], R], items: Iterable[T]) -> list[R]:
        """The results of ``work`` for each item, on as many threads as there are processors."""
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            futures = [pool.submit(work, item) for item in items]
            try:
                wait(futures, return_when=FIRST_EXCEPTION)
                for failed in (future for future in futures if future.done()):
                    failed.result()
                return [future.result() for future in futures]
            except BaseException:
                self._is_stopped = True
                pool.shutdown(wait=False, cancel_futures=True)
                raise

    def runs(self, runs: Iterable[Mapping[str, Any]]) -> list[Outcome]:
        """The outcomes of several runs, as :meth:`run` gives that of one."""
        return self.map(self.run, runs)

    def keyed_runs(self, jobs: Mapping[K, Mapping[str, Any]]) -> dict[K, Outcome]:
        """The outcomes of several runs, each under the key of its arguments in ``jobs``."""
        return dict(zip(jobs, self.runs(jobs.values())))

    def run(self, arguments: Mapping[str, Any]) -> Outcome:
        """The outcome of a run by arguments of :func:`smrkit.run`, by default on an empty disk and without a baseline."""
        default: dict[str, Any] = {"seed": self.seed, "prefill": "none", "baseline": False, "progress": self._watch}
        return smrkit.run(**(default | dict(arguments)))

    def command(self, *words: str) -> Any:
        """The JSON output of the command ``smrkit`` with these arguments, for functions that the package lacks."""
        return json.loads(output(*words))

    def _watch(self, share: float, what: str) -> None:
        # Only the main thread receives Ctrl-C. Raising here ends a run on another thread.
        if self._is_stopped:
            raise KeyboardInterrupt

    def section(self, heading: str, **words: Any) -> None:
        """Begins the section of a figure or table of the paper; ``words`` go into its heading and text."""
        self._section = next(one for one in self.numbers["section"] if one["heading"] == heading)
        self._heading, text = heading.format(**words), self._section.get("text", [])
        self.sections[self._heading] = [line.format(**words) for line in ([text] if isinstance(text, str) else text)]

    def say(self, text: str) -> None:
        """Adds to the text of the section."""
        self.sections[self._heading].append(text)

    def row(
        self,
        item: str,
        ours: Any = None,
        *,
        agrees: bool | None = None,
        value: float | None = None,
        comparable: bool = True,
        paper: Any = ...,
        basis: str | None = None,
        why: str = "",
        **words: Any,
    ) -> bool:
        """Compares a result with a row of ``numbers.toml``, and returns whether it agrees.

        Parameters
        ----------
        item
            The row's ``item``, as ``numbers.toml`` has it: with its placeholders.
        ours
            The result.
        agrees
            The verdict, if the row's ``measure`` is in words. Otherwise the row's measure decides.
        value
            What the measure judges, if that is not ``ours``.
        comparable
            False if the paper's claim is not about what was run.
        paper, basis
            These take the place of the row's own.
        why
            An additional reason.
        **words
            Values of the placeholders in the row's item, reason and measure.
        """
        number = {"unit": "", "basis": "paper"} | self._section
        number |= next(row for row in self._section["rows"] if row["item"] == item)
        paper = number.get("paper") if paper is ... else paper
        reasons = [number.get("reason", "").format(**words), why]
        if isinstance(ours, Spread):
            ours, reasons = ours.mean, [*reasons, ours.range]
        has_measure = comparable and any(measure in number for measure in MEASURES)
        assert not comparable or (agrees is None) == ("measure" not in number), item
        verdict, basis = "not-comparable", basis or number["basis"]
        if agrees is None and has_measure:
            agrees, measure = judged(number, paper, ours if value is None else value)
            reasons.insert(0, measure)
        elif agrees is not None:
            reasons.insert(0, number["measure"].format(**words))
        if agrees is not None:
            verdict = "agree" if agrees else "differs"
        # Only agreement can be by construction. Otherwise the basis is the paper's own number.
        basis = "paper" if basis == "fitted" and verdict != "agree" else basis
        reasons.append({"fitted": "by construction", "derived": "derived here, not in the paper"}.get(str(basis), ""))
        self.rows.append(
            {
                "reproduction": self.name,
                "item": f"{self._heading} / {item.format(**words)}",
                "paper": paper,
                "ours": None if isinstance(ours, float) and not math.isfinite(ours) else ours,
                "unit": number["unit"],
                "verdict": verdict,
                "reason": "; ".join(filter(None, reasons)),
                "basis": basis,
                "by_construction": basis == "fitted",
            }
        )
        return verdict == "agree"

    def table(self, header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
        """Adds a table of results for which the paper has no numbers."""
        cells = [list(row) for row in rows]
        self.tables.append({"reproduction": self.name, "heading": self._heading, "header": list(header), "rows": cells})

    def figure(self, name: str, draw: Callable[[Any], None], size: tuple[float, float] = (9, 6)) -> None:
        """Adds a figure that ``draw`` fills, if figures are asked for."""
        if not self.draws:
            return
        # Names within an SVG would be random. The same runs have to draw the same bytes.
        import_module("matplotlib").rcParams["svg.hashsalt"] = "smrkit"
        figure = import_module("matplotlib.figure").Figure(figsize=size, layout="constrained")
        draw(figure)
        self.figures.append((self._heading, f"{self.name}-{name}", figure))

    def plot(self, name: str, curves: Mapping[str, tuple[Iterable[Any], Iterable[float]]], **properties: Any) -> None:
        """Adds a figure of one pair of axes, by :func:`draw_curves`, with a legend."""

        def draw(figure: Any) -> None:
            ax = figure.subplots()
            draw_curves(ax, curves, **properties)
            ax.legend()

        self.figure(name, draw)

    def make(self) -> None:
        """Runs the study. After Ctrl-C, the results so far are kept."""
        try:
            runpy.run_path(str(self._source / "study.py"))["study"](self)
        except KeyboardInterrupt:
            self.interrupted = True
        finally:
            if self._folder:
                self._folder.cleanup()


def summary(studies: Sequence[Study]) -> list[str]:
    """The results in a few lines."""
    rows = [row for study in studies for row in study.rows]

    def count(**wanted: str) -> int:
        return sum(all(row[key] == value for key, value in wanted.items()) for row in rows)

    fitted, derived = (count(verdict="agree", basis=basis) for basis in ("fitted", "derived"))
    lines = []
    if rows:
        lines.append(
            f"{len(rows)} comparisons: {count(verdict='agree')} agree ({fitted} of them by construction), "
            f"{count(verdict='differs')} differ, {count(verdict='not-comparable')} are not comparable."
        )
    if fitted:
        lines.append(
            "By construction: the input was solved from, or fitted to, the paper's number, so agreement is no evidence."
        )
    if derived:
        with_paper = count(verdict="agree", basis="paper")
        lines.append(f"{derived} more agree with numbers derived here, which the paper does not print; {with_paper} agree with its own.")
    if any(study.interrupted for study in studies):
        lines.append("Interrupted: the results so far follow.")
    if studies[0].quick:
        lines.append("Quick: fewer seeds and shorter runs than in full, so verdicts are rougher.")
    return [*lines, f"Seed {studies[0].seed}, smrkit {smrkit.__version__}."]


def grids(study: Study, heading: str) -> list[tuple[list[str], list[list[str]]]]:
    """The tables of a section, each with its header: findings, and then the comparisons."""
    found = [(table["header"], table["rows"]) for table in study.tables if table["heading"] == heading]
    comparisons = []
    for row in study.rows:
        if row["item"].startswith(f"{heading} / "):
            item = row["item"].removeprefix(f"{heading} / ")
            comparisons.append([item, shown(row["paper"]), shown(row["ours"]), row["unit"], row["verdict"], row["reason"]])
    if comparisons:
        found.append((["item", "paper", "ours", "unit", "verdict", "by which measure, and why"], comparisons))
    return found


def text(studies: Sequence[Study]) -> str:
    """The result for people."""
    lines = summary(studies)
    for study in studies:
        paper = study.numbers["paper"]
        lines += ["", paper, "═" * len(paper), study.numbers["before"]]
        for heading, paragraphs in study.sections.items():
            lines += ["", heading]
            lines += [line for paragraph in paragraphs for line in textwrap.wrap(paragraph, WIDTH)]
            for header, rows in grids(study, heading):
                lines += ["", *_aligned(header, rows)]
        lines += ["", "What the paper leaves open, or contradicts"]
        lines += [line for question in study.numbers["open"] for line in textwrap.wrap(f"- {question}", WIDTH, subsequent_indent="  ")]
    return "\n".join(lines) + "\n"


def _aligned(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[at]) for row in [header, *rows]) for at in range(len(header))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in [header, *rows]]
    return [lines[0], "─" * min(WIDTH, sum(widths) + 2 * len(widths) - 2), *lines[1:]]


def record(studies: Sequence[Study]) -> dict[str, Any]:
    """The result as ``--json`` gives it. Each ``item`` is unique in its study."""
    return {
        "schema": 1,
        "version": smrkit.__version__,
        "seed": studies[0].seed,
        "quick": studies[0].quick,
        "interrupted": any(study.interrupted for study in studies),
        "rows": [row for study in studies for row in study.rows],
        "tables": [table for study in studies for table in study.tables],
    }


def page(studies: Sequence[Study]) -> str:
    """The result as a page that opens offline."""

    def paragraphs(lines: Iterable[str]) -> str:
        return "".join(f"<p>{html.escape(line)}</p>" for line in lines)

    def cells(kind: str, row: Iterable[str]) -> str:
        return "<tr>" + "".join(f"<{kind}>{html.escape(cell)}</{kind}>" for cell in row) + "</tr>"

    parts = [paragraphs(summary(studies))]
    for study in studies:
        parts.append(f"<h1>{html.escape(study.numbers['paper'])}</h1>" + paragraphs([study.numbers["before"]]))
        for heading, lines in study.sections.items():
            parts.append(f"<h2>{html.escape(heading)}</h2>" + paragraphs(lines))
            for header, rows in grids(study, heading):
                parts.append("<table>" + cells("th", header) + "".join(cells("td", row) for row in rows) + "</table>")
            for figure in (figure for of, _, figure in study.figures if of == heading):
                drawn = io.StringIO()
                figure.savefig(drawn, format="svg")
                # Without the XML declaration, which HTML does not allow.
                parts.append(drawn.getvalue()[drawn.getvalue().index("<svg") :])
        questions = "".join(f"<li>{html.escape(line)}</li>" for line in study.numbers["open"])
        parts.append(f"<h2>What the paper leaves open, or contradicts</h2><ul>{questions}</ul>")
    style = "body{font:15px/1.45 sans-serif;max-width:75em;margin:2em auto}td,th{text-align:left;padding:.2em .8em;vertical-align:top}svg{max-width:100%}"
    return f'<!doctype html><html lang="en"><meta charset="utf-8"><title>Reproduced</title><style>{style}</style>{"".join(parts)}</html>\n'


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="smrkit reproduce",
        description="Runs a paper's experiments and puts its numbers next to ours.",
        epilog="The exit code is 0 also where numbers differ from the paper's: the rows say why.",
    )
    parser.add_argument(
        "name",
        metavar="NAME|FOLDER",
        help=f"{', '.join(names())}, all papers with all, or a folder with study.py and numbers.toml",
    )
    parser.add_argument("--quick", action="store_true", help="shorter runs, fewer seeds, rougher verdicts")
    parser.add_argument("--json", metavar="FILE", help="the rows as JSON; - is standard output, in place of the tables")
    parser.add_argument("--report", type=Path, metavar="FILE", help="a page with tables and figures that opens offline")
    parser.add_argument("--figures", type=Path, metavar="DIR", help="a folder for the figures")
    parser.add_argument("--figure-format", choices=("svg", "png"), default="svg", help="format of the figures")
    parser.add_argument("--traces", type=Path, metavar="DIR", help="real traces, which don't come with smrkit ($SMRKIT_TRACES)")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="the first seed, if there are several")
    return parser


def _traces_folder(named: Path | None) -> Path | None:
    """The folder of real traces: the named one, else the first of the usual places that exists."""
    if named and not named.is_dir():
        raise InputError(f"{named} is no folder of traces: name one, or leave out --traces")
    usual = [Path(os.environ["SMRKIT_TRACES"])] if "SMRKIT_TRACES" in os.environ else []
    return named or next((folder for folder in [*usual, Path("traces"), Path("../shared/traces")] if folder.is_dir()), None)


def reproduce(name: str, **asked: Any) -> list[Study]:
    """Runs a study by its name or folder, or the studies of all papers with ``all``. ``asked`` are fields of :class:`Study`."""
    # `compare` compares layers with each other, and nothing with a paper.
    chosen = [name for name in names() if name != "compare"] if name == "all" else [name]
    studies: list[Study] = []
    for study_name in chosen:
        studies.append(Study(study_name, **asked))
        studies[-1].make()
        if studies[-1].interrupted:
            break
    return studies


def main(arguments: Sequence[str] | None = None) -> int:
    """Executes the command; returns the exit code."""
    asked = _parser().parse_args(arguments)
    for path in filter(None, (asked.json, asked.report)):
        if Path(path).is_file() and str(path).endswith(ENDINGS):
            _parser().error(f"{path} is there, and may be a trace: write to another file")
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    codes: dict[type[Exception], int] = {UsageError: 2, InputError: 3, ImpossibleError: 4}
    try:
        draws = bool(asked.figures or asked.report)
        studies = reproduce(asked.name, quick=asked.quick, seed=asked.seed, traces=_traces_folder(asked.traces), draws=draws)
        if asked.json != "-":
            print(text(studies), end="")
        if asked.json:
            result = json.dumps(record(studies), indent=1, ensure_ascii=False) + "\n"
            print(result, end="") if asked.json == "-" else Path(asked.json).write_text(result, encoding="utf-8")
        if asked.figures:
            asked.figures.mkdir(parents=True, exist_ok=True)
            for _, name, figure in (figure for study in studies for figure in study.figures):
                figure.savefig(asked.figures / f"{name}.{asked.figure_format}")
        if asked.report:
            asked.report.write_text(page(studies), encoding="utf-8")
    except (Error, OSError) as error:
        print(f"smrkit: {error}", file=sys.stderr)
        return codes.get(type(error), 1)
    return 130 if studies[-1].interrupted else 0


if __name__ == "__main__":
    # Studies import this module as smrkit.reproduce. Run as `__main__`, its classes would be others than theirs.
    sys.exit(import_module("smrkit.reproduce").main())
