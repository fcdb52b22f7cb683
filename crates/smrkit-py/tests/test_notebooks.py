"""The notebooks run to their end: as notebooks where Jupyter is, within a minute together."""

import os
import tempfile
import time
import unittest
from importlib.util import find_spec

import smrkit

FOLDER = os.path.join(os.path.dirname(__file__), "..", "notebooks")
NEEDED = ["jupytext", "nbclient", "ipykernel", "matplotlib", "numpy", "pandas", "pyarrow"]
MISSING = [name for name in NEEDED if not find_spec(name)]
# An idle machine takes a third of it; tests share theirs.
SECONDS = 180


@unittest.skipIf(MISSING, f"notebooks take {', '.join(MISSING)}: pip install {' '.join(MISSING)}")
class Notebooks(unittest.TestCase):
    def test_notebooks_run_to_their_end_and_draw(self):
        import jupytext
        from nbclient import NotebookClient

        begun, drawn = time.monotonic(), 0
        names = sorted(name for name in os.listdir(FOLDER) if name.endswith(".py"))
        self.assertEqual(names, ["own_layer.py", "own_trace.py", "sweep.py"])
        for name in names:
            with self.subTest(name), tempfile.TemporaryDirectory() as folder:
                notebook = jupytext.read(os.path.join(FOLDER, name))
                client = NotebookClient(notebook, timeout=SECONDS, kernel_name="python3", resources={"metadata": {"path": folder}})
                client.execute()
                outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
                drawn += sum("image/png" in output.get("data", {}) or "<iframe" in output.get("data", {}).get("text/html", "") for output in outputs)
        self.assertGreaterEqual(drawn, 4, "figures of matplotlib and of outcomes themselves")
        self.assertLess(time.monotonic() - begun, SECONDS)


class Plots(unittest.TestCase):
    def test_a_course_is_drawn_or_says_what_it_takes(self):
        both = smrkit.compare(drive="tiny", layer=["drive-managed", "vguard"], workload="mix:count=500")
        with self.assertRaisesRegex(smrkit.UsageError, "there are longest_ns, requests"):
            both.plot("colour", ax=object())
        if not find_spec("matplotlib"):
            with self.assertRaisesRegex(smrkit.UsageError, "pip install matplotlib"):
                both.plot()
            return
        import matplotlib

        matplotlib.use("agg")
        for key in ["longest_ns", "requests", "written_bytes", "cache_fill"]:
            axes = both.plot(key)
            self.assertEqual(len(axes.lines), 2)
            line = axes.lines[1].get_ydata()
            self.assertEqual(len(line), len(both[1].timeline[key]))
            matplotlib.pyplot.close(axes.figure)
        amplification = both[0].plot("write_amplification").lines[0].get_ydata()
        timeline = both[0].timeline
        for ratio, physical, written in zip(amplification, timeline.physical_written_bytes, timeline.written_bytes, strict=True):
            self.assertTrue(ratio == physical / written if written else ratio != ratio)
        self.assertAlmostEqual(max(both[1].plot().lines[0].get_ydata()) * 1e6, both[1].latency_ns.all.max, delta=1)
