"""Fleets: the answer of the command, and the same from a cluster."""

import json
import os
import subprocess
import tempfile
import time
import unittest
from importlib.util import find_spec

import smrkit

SMRKIT = os.environ.get("SMRKIT", "smrkit")
# A drive that is run, and losses that take several rounds.
OPTIONS = {"drive": "tiny", "disks": 60, "code": "4+2", "groups": 20, "object": "64Ki", "afr": "20%", "precision": "0.5%"}


class Fleets(unittest.TestCase):
    @unittest.skipUnless(os.path.exists(SMRKIT), f"there is no {SMRKIT}: cargo test --workspace builds it")
    def test_the_answer_is_that_of_the_command(self):
        words = [word for name, value in OPTIONS.items() for word in (f"--{name}", str(value))]
        told = subprocess.run([SMRKIT, "fleet", *words, "--json", "-"], capture_output=True, text=True, check=True).stdout
        answer = smrkit.fleet(**OPTIONS)
        self.assertEqual((answer.json(), dict(answer)), (told, json.loads(told)))
        self.assertEqual(set(smrkit.Fleet.__annotations__), set(answer))
        self.assertTrue(" ".join(str(answer).split()).startswith(" ".join(answer.text.split())))

    def test_millions_of_drives_take_as_long_as_a_few(self):
        def seconds(disks):
            begun = time.process_time()
            loss = smrkit.fleet(**{**OPTIONS, "disks": disks, "repair_rate": "10MB/s", "object": None}).fleets[0].losses
            return time.process_time() - begun, loss.in_a_year.value / disks

        (few, each_of_few), (many, each_of_many) = seconds(6000), seconds(6_000_000)
        self.assertLess(many, 3 * few + 1)
        self.assertAlmostEqual(each_of_many / each_of_few, 1, delta=0.1)

    def test_a_narrower_interval_takes_more_cascades(self):
        def half_width(precision):
            losses = smrkit.fleet(**{**OPTIONS, "code": "4+3", "precision": precision}).fleets[0].losses
            return (losses.in_a_year.high - losses.in_a_year.low) / losses.in_a_year.value / 2, losses.cascades

        (wide, few), (narrow, many) = half_width("2%"), half_width("0.5%")
        self.assertTrue(narrow <= 0.005 < wide <= 0.02, (narrow, wide))
        self.assertGreater(many, few)

    def test_refusals_speak_of_arguments(self):
        for wrong, words in ({"precision": 0}, "precision 0"), ({"codes": "4+2"}, "no option codes"), ({"code": "8/3"}, "no code"):
            for executor in "threads", "processes":
                with self.subTest(wrong, executor=executor), self.assertRaisesRegex(smrkit.UsageError, words):
                    smrkit.fleet(executor=executor, **wrong)


@unittest.skipUnless(find_spec("distributed"), "there is no dask.distributed: pip install dask[distributed]")
class Dask(unittest.TestCase):
    def test_two_workers_find_what_one_process_does(self):
        from distributed import LocalCluster

        said, options = [], {**OPTIONS, "code": "4+3"}
        with tempfile.TemporaryDirectory() as folder:
            asked = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
            with LocalCluster(**asked, local_directory=folder) as cluster, cluster.get_client() as client:
                merged = smrkit.fleet(executor=client, progress=lambda *at: said.append(at), **options)
                workers = client.run(lambda dask_worker: dask_worker.state.executed_count)
        self.assertEqual(merged.json(), smrkit.fleet(**options).json())
        self.assertGreater(max(fleet.losses.cascades for fleet in merged.fleets), 100_000)
        self.assertTrue(all(count > 0 for count in workers.values()), workers)
        self.assertEqual(said[-1], (1.0, "cascades of failures, simulated"))
