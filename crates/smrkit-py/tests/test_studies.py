"""Each study with ``--quick``: the rows are those that are kept in ``tests/studies``, and its page shows what it prints.

``UPDATE=1`` writes the kept rows anew; a row that moves is a result that changes. Studies that take minutes run with ``SMRKIT_LONG=1``.
"""

import contextlib
import io
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
from importlib.util import find_spec
from unittest import mock

from smrkit import reproduce

TESTDATA = pathlib.Path(os.environ.get("SMRKIT_TESTDATA", ""))
KEPT = pathlib.Path(__file__).parent / "studies"
LONG = {"arrays", "cassuto-sblocks", "caveat", "compare"}
MISSING = [name for name in ("polars", "matplotlib") if not find_spec(name)]


def examples(page):
    """The commands of a page that reproduce something, with the lines that it shows of each."""
    for block in re.findall(r"```console\n\$ (smrkit reproduce .*?)```", page.read_text(encoding="utf-8"), re.DOTALL):
        command, *shown = block.splitlines()
        yield shlex.split(command)[2:], [line for line in shown if line]


def printed(arguments):
    """What the command prints; it must end well."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = reproduce.main(arguments)
    assert code == 0, f"{code}: {err.getvalue()}"
    return out.getvalue()


def kept(result):
    """A result in lines: rows, then tables; of a fraction the digits that no processor rounds otherwise."""
    value = lambda one: f"{one:.5e}" if isinstance(one, float) else str(one)
    for row in result["rows"]:
        item, paper, ours, unit, verdict, reason = (
            value(row[key]) for key in ("item", "paper", "ours", "unit", "verdict", "reason")
        )
        yield f"{item}: {ours} {unit}, paper {paper}: {verdict}; {reason}"
    for table in result["tables"]:
        yield from ["", table["heading"], *(" | ".join(cells) for cells in [table["header"], *table["rows"]])]


def numbers(study):
    return reproduce.Study(study).numbers


@unittest.skipIf(MISSING, f"studies take {', '.join(MISSING)}: scripts/need frames")
@unittest.skipUnless(TESTDATA.name, "SMRKIT_TESTDATA names no folder")
class Studies(unittest.TestCase):
    def compare(self, name):
        [page] = [page for page in (TESTDATA.parent / "docs/papers").glob("*.md") if page.stem == name]
        [[arguments, shown]] = examples(page)
        self.assertEqual(arguments[:2], [name, "--quick"])
        # Traces and measured drives that happen to be at hand would add rows.
        own = {key: value for key, value in os.environ.items() if key not in ("SMRKIT_TRACES", "SMRKIT_MEASURED")}
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder), mock.patch.dict(os.environ, own, clear=True):
            shutil.copytree(TESTDATA / "traces", ".", dirs_exist_ok=True)
            text = printed([*arguments, "--json", "study.json"])
            result = json.loads(pathlib.Path("study.json").read_text(encoding="utf-8"))
            drawn = [figure.stat().st_size for figure in pathlib.Path(".").glob("figures/*")]
        lines = iter(text.splitlines())
        for line in filter(lambda line: line != "…", shown):
            told = re.compile(".*".join(map(re.escape, line.split("…"))))
            self.assertTrue(any(told.match(one) for one in lines), f"{page.name} shows {line!r}, and the command prints\n{text}")
        self.assertTrue("--figures" not in arguments or min(drawn) > 5000, drawn)
        path = KEPT / f"{name}.txt"
        made = "\n".join(kept(result)) + "\n"
        if os.environ.get("UPDATE"):
            path.write_text(made, encoding="utf-8")
        self.assertEqual(path.read_text(encoding="utf-8").splitlines(), made.splitlines())
        items = [row["item"] for row in result["rows"]]
        self.assertEqual(len(items), len(set(items)), "an item is the only one of its name")

    def test_every_row_has_its_source_and_one_measure_at_most(self):
        for name in reproduce.names():
            for section in numbers(name)["section"]:
                for row in section.get("rows", []):
                    with self.subTest(name=name, heading=section["heading"], item=row["item"]):
                        self.assertTrue(row.get("source") or section["source"])
                        self.assertLessEqual(len([key for key in reproduce.MEASURES if key in row]), 2)
                        other = set(row) - {"item", "paper", "unit", "reason", "source", "basis", *reproduce.MEASURES}
                        self.assertEqual(other, set())

    def test_an_unknown_name_lists_what_there_is(self):
        with contextlib.redirect_stderr(io.StringIO()) as said:
            self.assertEqual(reproduce.main(["vguard-2"]), 2)
        self.assertIn("cassuto-cache", said.getvalue())

    def test_a_copied_folder_runs_as_it_was_changed(self):
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            shutil.copytree(reproduce.STUDIES / "he-du", "mine")
            study = pathlib.Path("mine/study.py")
            study.write_text(study.read_text(encoding="utf-8") + "\n\ndef study(study):\n    equations(study)\n")
            result = json.loads(printed(["mine", "--quick", "--json", "-"]))
        rows = {(row["reproduction"], row["item"].split(":")[0].split(" /")[0]) for row in result["rows"]}
        self.assertEqual(rows, {("mine", "Equations 1 and 2, figure 1")})

    def test_an_artifact_is_drawn_the_same_twice_and_of_the_same_traces_alone(self):
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            shutil.copytree(reproduce.STUDIES / "he-du", "mine")
            study = pathlib.Path("mine/study.py")
            study.write_text(study.read_text(encoding="utf-8") + "\n\ndef study(study):\n    equations(study)\n")
            trace = pathlib.Path("traces/a.csv")
            trace.parent.mkdir()
            trace.write_text("1,hm,0,Write,0,512,0\n")
            here = {"SMRKIT_PYTHON": sys.executable, "SMRKIT_QUICK": "1", "SMRKIT_STUDIES": f"{folder}/mine", "SMRKIT_TRACES": f"{folder}/traces"}

            def draw():
                command = [TESTDATA.parent / "scripts/artifact", "draw", "artifact"]
                return subprocess.run(command, env=os.environ | here, capture_output=True, text=True)

            for _ in range(2):
                drawn = draw()
                self.assertIn("Written: artifact, with 1 figure", drawn.stdout, drawn.stderr)
            trace.write_text("1,hm,0,Write,512,512,0\n")
            self.assertIn("are not those of traces.sha256", draw().stderr)
            trace.write_text("1,hm,0,Write,0,512,0\n")
            pathlib.Path("artifact/drawn.sha256").write_text("0" * 64 + "  mine.json\n")
            self.assertIn("is not what drawn.sha256 is of", draw().stderr)


def of_study(name):
    def test(self):
        self.compare(name)

    long = name in LONG and not os.environ.get("SMRKIT_LONG")
    return unittest.skipIf(long, "it takes minutes: SMRKIT_LONG=1 runs it")(test)


for name in reproduce.names():
    setattr(Studies, f"test_{name.replace('-', '_')}_is_what_it_was", of_study(name))


class Measures(unittest.TestCase):
    def agrees(self, number, ours, paper=None):
        return reproduce.judged({"unit": ""} | number, number.get("paper", paper), ours)[0]

    def test_a_wrong_result_fails_its_measure(self):
        cases = [
            ({"paper": 7, "equal": True}, [7], [6, 8]),
            ({"paper": 100.0, "within": 5}, [95.1, 104.9, 100.0], [94.9, 105.1, float("nan")]),
            ({"paper": 10.08, "off": 0.03}, [10.05, 10.11], [10.04, 10.12]),
            ({"least": 20, "most": 40}, [20, 40], [19.9, 40.1, float("nan")]),
            ({"above": 0, "below": 7}, [0.1, 6.9], [0, 7]),
            # Papers cut the last digit as often as they round it.
            ({"paper": 3.48, "digits": 2}, [3.486, 3.478], [3.474, 3.491]),
        ]
        for number, right, wrong in cases:
            with self.subTest(number=number):
                self.assertEqual([True] * len(right), [self.agrees(number, ours) for ours in right])
                self.assertEqual([False] * len(wrong), [self.agrees(number, ours) for ours in wrong])

    def test_a_measure_says_how_far_off_a_number_is(self):
        said = lambda paper, ours, within: reproduce.judged({"unit": "s", "within": within}, paper, ours)[1]
        self.assertEqual(said(100.0, 100.0, 5), "equal")
        self.assertEqual(said(64, 80.0, 25), "+25.0 %, within 25 %")
        self.assertEqual(said(200.0, 180.0, 5), "-10.0 %, more than 5 %")
        self.assertEqual(said(1000.0, 1000.5, 0.06), "+0.050 %, within 0.06 %")

    def test_numbers_keep_the_digits_that_count(self):
        shown = [
            reproduce.shown(value) for value in (623.24, 2172.81, 3.486, 0.5, 12_500.0, -150.25, 1234, "x", None, float("nan"))
        ]
        self.assertEqual(shown, ["623.24", "2,172.81", "3.486", "0.5", "12,500", "-150.25", "1,234", "x", "-", "-"])

    def test_seeds_are_told_by_their_ends(self):
        of = lambda *values: tuple(reproduce.Spread.of(values))
        self.assertEqual(
            [of(3.0), of(3.0, 3.0), of(5.0, 1.0, 3.0)], [(3.0, "one seed"), (3.0, "2 seeds alike"), (3.0, "3 seeds: 1 to 5")]
        )


class Interrupts(unittest.TestCase):
    def test_an_interrupt_ends_the_runs_and_keeps_what_was_found(self):
        study = reproduce.Study("cassuto-cache")
        long = {"drive": "tiny", "layer": "vguard", "workload": "random-write:count=1G"}

        def interrupted(_):
            raise KeyboardInterrupt

        with self.assertRaises(KeyboardInterrupt):
            study.map(lambda work: work(None), [lambda _: study.run(long), interrupted])


class Files(unittest.TestCase):
    def test_threads_that_ask_at_once_share_a_folder(self):
        def slow(**named):
            time.sleep(0.1)
            return tempfile.TemporaryDirectory(**named)

        study = reproduce.Study("drives")
        with mock.patch.object(reproduce, "TemporaryDirectory", slow):
            files = study.map(lambda name: study.file(f"{name}.toml", ""), range(8))
        self.assertTrue(all(file.is_file() for file in files))
        study._folder.cleanup()


if __name__ == "__main__":
    unittest.main()
