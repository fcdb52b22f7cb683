"""Sweeps on threads, processes and Dask: the same results whatever computes them, and nothing lost with a worker."""

import os
import random
import signal
import tempfile
import threading
import time
import unittest
from concurrent.futures import ThreadPoolExecutor
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
            self.assertIn("takes the least time", file.read())
        with self.assertRaisesRegex(smrkit.UsageError, "no sweep is called other"):
            smrkit.results(self.threads, "other")

    def test_errors_come_through_and_executors_are_checked(self):
        with self.assertRaisesRegex(smrkit.UsageError, "threads, processes, a client of Dask"):
            smrkit.sweep(store=self.store("x"), executor=5, **OPTIONS)
        with self.assertRaisesRegex(smrkit.UsageError, "tcp://scheduler:8786"):
            smrkit.sweep(store=self.store("x"), executor="thread", **OPTIONS)
        with self.assertRaisesRegex(smrkit.UsageError, "write them into the file"):
            smrkit.sweep("caches.toml", store=self.store("x"), depth=2)
        with ThreadPoolExecutor(2) as pool, self.assertRaisesRegex(smrkit.InputError, "nowhere.csv"):
            smrkit.sweep(store=self.store("x"), executor=pool, drive="tiny", layer="vguard", trace="nowhere.csv")

    def test_volumes_are_swept_anywhere_and_merged(self):
        rows = [f"{volume},W,{at * 37 % 8000 * 512},4096,{at}" for at in range(20) for volume in range(600)]
        trace, volumes = self.store("cloud.csv"), self.store("cloud.volumes")
        with open(trace, "w") as file:
            file.write("\n".join(rows))
        self.assertEqual(len(smrkit.trace.split(trace, volumes).volumes), 600)
        with self.assertRaisesRegex(smrkit.UsageError, "empty"):
            smrkit.trace.split(trace, volumes)
        options = {"drive": "tiny", "layer": "vguard", "volumes": volumes}
        self.assertEqual(smrkit.sweep(store=self.store("one"), **options), (600, 0))
        self.assertEqual(smrkit.sweep(store=self.store("two"), executor="processes", **options), (600, 0))
        one, two = (smrkit.results(self.store(name)) for name in ("one", "two"))
        self.assertEqual(one.json(), two.json())
        self.assertEqual((one[0].merged_verdicts.runs, one[0].requests), (600, 12000))


@unittest.skipUnless(find_spec("distributed"), "there is no dask.distributed: pip install dask[distributed]")
class Dask(Executors):
    def setUp(self):
        super().setUp()
        from distributed import LocalCluster

        folder = os.path.join(self.folder, "dask")
        self.cluster = LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None, local_directory=folder)
        self.addCleanup(self.cluster.close)
        self.client = self.cluster.get_client()
        self.addCleanup(self.client.close)

    # Those of the other executors need not run twice.
    test_processes_and_other_executors_give_the_same_results = None
    test_errors_come_through_and_executors_are_checked = None
    test_a_sweep_is_a_page_of_its_own = None
    test_volumes_are_swept_anywhere_and_merged = None

    def test_a_client_and_an_address_give_the_same_results(self):
        self.assertEqual(smrkit.sweep(store=self.store("client"), executor=self.client, **OPTIONS), (RUNS, 0))
        self.equals_threads(self.store("client"))
        address = self.cluster.scheduler_address
        self.assertEqual(smrkit.sweep(store=self.store("address"), executor=address, **OPTIONS), (RUNS, 0))
        self.equals_threads(self.store("address"))

    def test_nothing_is_lost_with_a_killed_worker(self):
        options = {**OPTIONS, "workload": "random-write:count=30k", "repeat": 12}
        runs = 2 * 2 * 12
        smrkit.sweep(store=self.store("whole"), **options)
        for seed in range(3):
            with self.subTest(seed=seed):
                self.sweep_while_a_worker_dies(seed, options, runs)

    def sweep_while_a_worker_dies(self, seed, options, runs):
        """Kills a worker of the seed's choice once the store has so many results as the seed says."""
        draw = random.Random(seed)
        store, results = self.store(f"killed-{seed}"), draw.randint(1, runs // 3)
        pids = list(self.client.run(os.getpid).values())
        victim = draw.choice(pids)

        def kill():
            while not os.path.isdir(store) or len(names(store)) < results:
                time.sleep(0.01)
            os.kill(victim, signal.SIGKILL)

        killer = threading.Thread(target=kill)
        killer.start()
        swept = smrkit.sweep(store=store, executor=self.client, **options)
        killer.join()
        self.client.wait_for_workers(2)
        self.assertNotIn(victim, self.client.run(os.getpid).values(), "a worker was replaced")
        self.assertEqual(swept, (runs, 0))
        self.assertEqual(smrkit.results(store).json(), smrkit.results(self.store("whole")).json())
        self.assertEqual([name for name in os.listdir(store) if "partial" in name or ".of-" in name], [])
        self.assertEqual(smrkit.sweep(store=store, executor=self.client, **options), (0, runs))
