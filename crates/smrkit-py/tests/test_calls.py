"""How a call behaves: errors, interrupts, progress, other threads, cost."""

import html
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import smrkit

LONG = {"drive": "tiny", "layer": "vguard", "workload": "random-write:count=500M"}


class Calls(unittest.TestCase):
    def test_errors_are_typed_and_speak_of_arguments(self):
        wrong = [
            ({"layer": "rwm"}, smrkit.UsageError, "rmw"),
            ({"queue": "sptf"}, smrkit.UsageError, "add depth 32, or use queue fcfs"),
            ({"think": "5"}, smrkit.UsageError, "think '5'"),
            ({"colour": 1}, smrkit.UsageError, "there is no option colour"),
            ({"rebuild": "disk=0"}, smrkit.UsageError, "array is missing"),
            ({"layer": None}, smrkit.UsageError, "name one layer, or call compare"),
            ({"workload": ["mix", "zipf"]}, smrkit.UsageError, "add interleave burst:N"),
            ({"capacity": "1MB"}, smrkit.ImpossibleError, ""),
            ({"workload": None, "trace": "nowhere.csv"}, smrkit.InputError, "nowhere.csv.*check the path"),
            ({"layer": "in-place", "check": True}, smrkit.FaultError, "check has caught it"),
        ]
        for change, kind, message in wrong:
            options = {"drive": "tiny", "layer": "vguard", "workload": "random-write:count=200", **change}
            with self.subTest(change), self.assertRaisesRegex(kind, message) as raised:
                smrkit.run(**options)
            self.assertNotIn("--", str(raised.exception).replace("`smrkit trace convert --sort`", ""))
            self.assertIsInstance(raised.exception, smrkit.Error)

    def test_advice_is_refused_in_words_of_arguments(self):
        wrong = [
            ({"layer": ["rmw", "vguard"]}, smrkit.UsageError, "name one"),
            ({"set": {"drive-managed.partial": ["on", "off"]}}, smrkit.UsageError, "^the values of set make 2 systems"),
            ({"queue": "sptf", "depth": 1}, smrkit.UsageError, "add depth 32"),
            ({"fold": "yes"}, smrkit.UsageError, "fold is on or off, not yes"),
            ({"check": True}, smrkit.UsageError, "there is no option check"),
            ({"warmup": 200}, smrkit.UsageError, "lower warmup"),
            ({"capacity": "100kB"}, smrkit.ImpossibleError, "larger drive"),
        ]
        for change, kind, message in wrong:
            with self.subTest(change), self.assertRaisesRegex(kind, message) as raised:
                smrkit.advise(**{"drive": "tiny", "workload": "random-write:count=200", **change})
            self.assertNotIn("--", str(raised.exception))

    def test_advice_takes_tables_tells_its_progress_and_is_shown(self):
        said, writes = [], [at * 37 % 8000 * 8 for at in range(2000)]
        table = {"op": ["write"] * 2000, "lba": writes, "sectors": [8] * 2000, "time_us": list(range(2000))}
        advice = smrkit.advise(requests=table, drive="tiny", depth=4, progress=lambda *at: said.append(at))
        self.assertEqual((advice.demand.requests, advice.present[0].depth), (2000, 4))
        self.assertEqual(said[-1][0], 1.0)
        self.assertEqual(advice._repr_mimebundle_()["text/plain"], str(advice))
        self.assertEqual(set(smrkit.Advice.__annotations__), set(advice))
        with tempfile.TemporaryDirectory() as folder:
            page = pathlib.Path(folder, "advice.html")
            advice.report(page)
            self.assertIn("What was tried", page.read_text(encoding="utf-8"))

    def interrupted(self, asked, **options):
        """Seconds from a Ctrl-C to its exception. Advice is given within a second: it is interrupted at once."""
        sent = []

        def interrupt():
            sent.append(time.monotonic())
            os.kill(os.getpid(), signal.SIGINT)

        # A background job of a shell begins with interrupts ignored.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        timer = threading.Timer(0.1 if asked is smrkit.advise else 0.5, interrupt)
        timer.start()
        try:
            with self.assertRaises(KeyboardInterrupt):
                asked(**{**LONG, **options})
            return time.monotonic() - sent[0]
        finally:
            timer.cancel()

    def test_an_interrupt_ends_runs_and_prefills_at_once(self):
        # 0.2 s on an idle machine; tests share theirs, which may keep one waiting.
        layers, large = {"layer": ["drive-managed", "vguard"]}, {"drive": "st5000as0011", "prefill": "sequential"}
        for asked, options in (smrkit.compare, {}), (smrkit.compare, layers), (smrkit.compare, large), (smrkit.advise, {}):
            with self.subTest(asked=asked.__name__, **options):
                self.assertTrue(any(self.interrupted(asked, **options) < 1.0 for _ in range(5)))

    def test_progress_is_told_and_can_end_a_run(self):
        said = []
        smrkit.run(drive="tiny", layer="vguard", workload="random-write:count=1k", progress=lambda *at: said.append(at))
        self.assertEqual(said[-1], (1.0, "replaying"))

        def refuse(share, what):
            raise ZeroDivisionError

        with self.assertRaises(ZeroDivisionError):
            smrkit.run(**LONG, progress=refuse)

    def test_other_threads_go_on_meanwhile(self):
        counted, done = [0], threading.Event()

        def count():
            while not done.is_set():
                counted[0] += 1

        thread = threading.Thread(target=count)
        thread.start()
        try:
            smrkit.run(drive="tiny", layer="vguard", workload="random-write:count=200k")
        finally:
            done.set()
            thread.join()
        self.assertGreater(counted[0], 1000)

    def test_the_import_takes_no_library_of_data_frames_along(self):
        count = "import sys; import smrkit; print([n for n in ('numpy', 'pyarrow', 'pandas', 'polars') if n in sys.modules])"
        told = subprocess.run([sys.executable, "-c", count], capture_output=True, text=True, check=True)
        self.assertEqual(told.stdout, "[]\n")

    def test_keys_are_typed_attributes(self):
        outcome = smrkit.run(drive="wd20spzx", layer="vguard", workload="mix:count=100")
        typed = set(smrkit.Outcome.__annotations__) - {"latencies", "accesses"}
        of_merges, of_runs = {"merged_runs"}, {"confidence"}
        of_arrays_and_sources = {"members", "rebuild", "movement", "interleave", "sources", "by_source"}
        others = of_arrays_and_sources | {"garbage_collection", "edit"}
        self.assertEqual(typed - of_merges - others, set(outcome))
        self.assertEqual(typed - of_runs - others, set(smrkit.merge([outcome, outcome])))
        self.assertEqual(outcome.latency_ns["all"].count, outcome["latency_ns"]["all"]["count"])
        with self.assertRaisesRegex(AttributeError, "no key latency: there are layer"):
            outcome.latency

    def test_one_outcome_has_a_page_too(self):
        outcome = smrkit.run(drive="tiny", layer="vguard", workload="mix:count=100")
        with tempfile.TemporaryDirectory() as folder:
            page = pathlib.Path(folder, "one.html")
            outcome.report(page)
            self.assertIn("vguard", page.read_text(encoding="utf-8"))

    def test_keys_are_completed(self):
        outcome = smrkit.run(drive="tiny", layer="vguard", workload="mix:count=100")
        self.assertLessEqual({"latency_ns", "plot", "requests"}, set(dir(outcome)))
        self.assertLessEqual({"max", "p99"}, set(dir(outcome.latency_ns.all)))
        self.assertIn("latency_ns", outcome._ipython_key_completions_())

    def test_a_notebook_shows_the_page_of_outcomes(self):
        both = smrkit.compare(drive="tiny", layer=["drive-managed", "vguard"], workload="mix:count=300")
        for shown in (both, both[0]):
            drawn = shown._repr_mimebundle_()
            self.assertEqual(drawn["text/plain"], str(shown))
            with tempfile.TemporaryDirectory() as folder:
                page = pathlib.Path(folder, "page.html")
                shown.report(page)
                written = page.read_text(encoding="utf-8")
            framed = drawn["text/html"].split("srcdoc='")[1].split("'")[0]
            self.assertEqual(html.unescape(framed), written)
            self.assertLess(len(drawn["text/html"]), 200_000)
        self.assertIn("vguard", both._repr_mimebundle_()["text/html"])
        self.assertNotIn("vguard", both[0]._repr_mimebundle_()["text/html"])

    def test_hundreds_of_outcomes_are_shown_in_a_notebook_as_one_table(self):
        sizes = {"rmw.region_sectors": [256 + 3 * at for at in range(360)]}
        shown = smrkit.compare(drive="tiny", layer="rmw", set=sizes, workload="random-write:count=20")._repr_mimebundle_()
        self.assertIn("<table", shown["text/html"])
        self.assertLess(max(map(len, shown.values())), 200_000)

    def test_every_public_name_is_in_the_reference(self):
        script = pathlib.Path(os.environ["SMRKIT_TESTDATA"]).parent / "scripts/reference"
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([sys.executable, script, pathlib.Path(folder, "python.md")], check=True)
