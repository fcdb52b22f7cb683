"""Sweeps on threads, processes and Dask: the same results whatever computes them, and nothing lost with a worker."""

import json
import os
import random
import signal
import tempfile
import threading
import time
import unittest
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib.util import find_spec

import smrkit

OPTIONS = {
    "drive": "tiny",
    "layer": ["drive-managed", "vguard"],
    "workload": ["mix:count=300", "random-write:count=300"],
    "depth": [1, 4],
    "repeat": 2,
}
RUNS = 2 * 2 * 2 * 2


def names(store):
    return sorted(name for name in os.listdir(store) if name.endswith(".parquet"))


class Executors(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.threads = self.store("threads")
        self.assertEqual(smrkit.sweep(store=self.threads, **OPTIONS), (RUNS, 0))

    def store(self, name):
        return os.path.join(self.folder, name)

    def equals_threads(self, store):
        self.assertEqual(names(store), names(self.threads))
        self.assertEqual(smrkit.results(store).json(), smrkit.results(self.threads).json())

    def test_processes_and_other_executors_give_the_same_results(self):
        said = []
        store = self.store("processes")
        self.assertEqual(smrkit.sweep(store=store, executor="processes", progress=lambda *at: said.append(at), **OPTIONS), (RUNS, 0))
        self.equals_threads(store)
        self.assertEqual(said[-1], (1.0, "sweeping"))
        self.assertEqual(smrkit.sweep(store=store, executor="processes", **OPTIONS), (0, RUNS))
        with ThreadPoolExecutor(2) as pool:
            self.assertEqual(smrkit.sweep(store=self.store("pool"), executor=pool, **OPTIONS), (RUNS, 0))
        self.equals_threads(self.store("pool"))

    def test_a_sweep_is_a_page_of_its_own(self):
        page = self.store("sweep.html")
        smrkit.results(self.threads).report(page)
        with open(page, encoding="utf-8") as file:
            self.assertIn("the best of those that had the same requests", file.read())
        with self.assertRaisesRegex(smrkit.UsageError, "no sweep is called other"):
            smrkit.results(self.threads, "other")

    def test_hundreds_of_runs_are_shown_in_a_notebook_as_one_table(self):
        store = self.store("many")
        options = {"drive": "tiny", "layer": ["drive-managed", "vguard"], "workload": "mix:count=20", "depth": list(range(1, 181))}
        smrkit.sweep(store=store, **options)
        shown = smrkit.results(store)._repr_mimebundle_()
        self.assertIn("<table", shown["text/html"])
        self.assertLess(max(map(len, shown.values())), 200_000)

    def test_errors_come_through_and_executors_are_checked(self):
        with self.assertRaisesRegex(smrkit.UsageError, "threads, processes, a client of Dask"):
            smrkit.sweep(store=self.store("x"), executor=5, **OPTIONS)
        with self.assertRaisesRegex(smrkit.UsageError, "tcp://scheduler:8786"):
            smrkit.sweep(store=self.store("x"), executor="thread", **OPTIONS)
        with self.assertRaisesRegex(smrkit.UsageError, "write them into the file"):
            smrkit.sweep("caches.toml", store=self.store("x"), depth=2)
        with ThreadPoolExecutor(2) as pool, self.assertRaisesRegex(smrkit.InputError, "nowhere.csv"):
            smrkit.sweep(store=self.store("x"), executor=pool, drive="tiny", layer="vguard", trace="nowhere.csv")

    def test_a_task_that_the_store_has_is_not_computed_again(self):
        store = self.store("twice")
        plan = smrkit._native.SweepPlan("sweep", json.dumps({**OPTIONS, "depth": 1, "repeat": 1}), None, store)
        (task, _), *_ = plan.missing()
        inodes = []
        for _ in range(2):
            smrkit._native.compute(task, store)
            (name,) = names(store)
            inodes.append(os.stat(os.path.join(store, name)).st_ino)
        self.assertEqual(inodes[0], inodes[1])

    def test_tables_of_requests_are_swept(self):
        def table(stride):
            return {"op": ["write"] * 200, "lba": [at * stride % 1000 * 8 for at in range(200)], "sectors": [8] * 200, "time_us": list(range(200))}

        options, store = {"drive": "tiny", "layer": ["drive-managed", "vguard"]}, self.store("tables")
        tables = [table(37), table(1)]
        self.assertEqual(smrkit.sweep(store=store, requests=tables, executor="processes", **options), (4, 0))
        self.assertEqual(smrkit.sweep(store=store, requests=tables[1], **options), (0, 2))
        kept = [run.latency_ns for run in smrkit.results(store)]
        self.assertEqual(kept, [run.latency_ns for run in smrkit.compare(requests=tables[1], **options)])
        with self.assertRaisesRegex(smrkit.UsageError, "leave one out"):
            smrkit.sweep(store=store, requests=tables, trace="two.csv", **options)

    def test_volumes_are_swept_and_merged(self):
        rows = [f"{volume},W,{at * 37 % 8000 * 512},4096,{at}" for at in range(20) for volume in range(6)]
        trace = self.store("cloud.csv")
        with open(trace, "w") as file:
            file.write("\n".join(rows))
        options = {"drive": "tiny", "layer": "vguard", "trace": trace, "volume": list(range(6))}
        self.assertEqual(smrkit.sweep(store=self.store("volumes"), **options), (6, 0))
        volumes = smrkit.results(self.store("volumes"))
        merged = smrkit.merge(volumes)
        self.assertEqual((merged.merged_runs, merged.requests), (6, 120))
        self.assertEqual(merged.latency_ns.all.max, max(one.latency_ns.all.max for one in volumes))


@unittest.skipUnless(find_spec("distributed"), "there is no dask.distributed: pip install dask[distributed]")
class Dask(Executors):
    @contextmanager
    def two_workers(self):
        """A client of a scheduler with two workers of one thread."""
        from distributed import LocalCluster

        asked = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
        with LocalCluster(**asked, local_directory=self.store("dask")) as cluster, cluster.get_client() as client:
            yield client

    # Those of the other executors need not run twice.
    test_processes_and_other_executors_give_the_same_results = None
    test_errors_come_through_and_executors_are_checked = None
    test_a_sweep_is_a_page_of_its_own = None
    test_a_task_that_the_store_has_is_not_computed_again = None
    test_tables_of_requests_are_swept = None
    test_volumes_are_swept_and_merged = None

    def test_a_client_and_an_address_give_the_same_results(self):
        with self.two_workers() as client:
            self.assertEqual(smrkit.sweep(store=self.store("client"), executor=client, **OPTIONS), (RUNS, 0))
            address = client.scheduler.address
            self.assertEqual(smrkit.sweep(store=self.store("address"), executor=address, **OPTIONS), (RUNS, 0))
        self.equals_threads(self.store("client"))
        self.equals_threads(self.store("address"))

    def note_begun(self, client, path, hold, most):
        """Lets workers, also those to come, write the key of each task that they begin to compute into a file, a line each. While
        the file `hold` is there, they begin none once the store has `most` results."""
        from distributed import WorkerPlugin

        class Noting(WorkerPlugin):
            def setup(self, worker):
                compute = smrkit._native.compute

                def noted(task, store):
                    while os.path.exists(hold) and len(names(store)) >= most:
                        time.sleep(0.01)
                    key = json.loads(task)["key"]
                    if not os.path.exists(os.path.join(store, f"{key}.parquet")):
                        with open(path, "a") as file:
                            file.write(f"{key}\n")
                    compute(task, store)

                smrkit._native.compute = noted

        client.register_plugin(Noting())

    def test_nothing_is_lost_with_a_killed_worker(self):
        options = {**OPTIONS, "workload": "random-write:count=30k", "repeat": 12}
        smrkit.sweep(store=self.store("whole"), **options)
        for seed in range(3):
            with self.subTest(seed=seed), self.two_workers() as client:
                self.sweep_while_a_worker_dies(seed, client, options)

    def sweep_while_a_worker_dies(self, seed, client, options):
        """Kills a worker of the seed's choice once the store has as many results as the seed says."""
        draw, runs = random.Random(seed), 2 * 2 * 12
        store, results = self.store(f"killed-{seed}"), draw.randint(1, runs // 3)
        begun, hold, killed = self.store(f"begun-{seed}"), self.store(f"hold-{seed}"), []
        open(hold, "x").close()
        self.note_begun(client, begun, hold, runs // 2 - 4)
        victim = draw.choice(sorted(client.run(os.getpid).values()))

        def kill():
            while not os.path.isdir(store) or len(names(store)) < results:
                time.sleep(0.01)
            os.kill(victim, signal.SIGKILL)
            killed.append(len(names(store)))
            os.remove(hold)

        killer = threading.Thread(target=kill)
        killer.start()
        swept = smrkit.sweep(store=store, executor=client, **options)
        killer.join()
        self.assertLess(killed[0], runs // 2, "comparisons were left when it died")
        with open(begun) as file:
            keys = file.read().split()
        self.assertEqual(len(set(keys)), runs // 2)
        # What it had completed of its group is in the store.
        self.assertLessEqual(len(keys), len(set(keys)) + 1)
        self.assertEqual(swept, (runs, 0))
        self.assertEqual(smrkit.results(store).json(), smrkit.results(self.store("whole")).json())
        self.assertEqual([name for name in os.listdir(store) if "partial" in name or ".of-" in name], [])
        self.assertEqual(smrkit.sweep(store=store, executor=client, **options), (0, runs))
