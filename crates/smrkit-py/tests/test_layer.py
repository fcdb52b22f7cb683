"""Layers written in Python: as their twins in Rust, checked, and honest about what they raise."""

import time
import unittest

import smrkit


class InPlace(smrkit.Layer):
    """Each LBA at its own PBA."""

    def read(self, disk, lba, sectors, out):
        disk.read(lba, sectors, out, 0, "host")

    def write(self, disk, lba, sectors, data):
        disk.write(lba, sectors, data, 0, "host")


class Regions(InPlace):
    """Read-modify-write of regions of 8 tracks, the last track of each a guard."""

    def __init__(self, drive):
        self.regions, self.host_sectors, self.rewritten = [], 0, 0
        for first in range(0, drive.tracks - 7, 8):
            start, end = drive.track_start(first), drive.track_start(first + 7)
            self.regions.append((self.host_sectors, start, end - start))
            self.host_sectors += end - start
        self.size = self.regions[0][2]
        assert all(n == self.size for _, _, n in self.regions), "one recording zone"

    def home(self, lba):
        return self.regions[lba // self.size][1] + lba % self.size

    def pieces(self, lba, sectors):
        done = 0
        while done < sectors:
            within = (lba + done) % self.size
            n = min(sectors - done, self.size - within)
            yield (lba + done) // self.size, within, n, done
            done += n

    def read(self, disk, lba, sectors, out):
        for region, within, n, done in self.pieces(lba, sectors):
            disk.read(self.regions[region][1] + within, n, out, done, "host")

    def write(self, disk, lba, sectors, data):
        for region, within, n, done in self.pieces(lba, sectors):
            start, merged = self.regions[region][1], disk.buffer(self.size)
            disk.read(start, self.size, merged, 0, "clean")
            merged.put(within, data, done, n)
            disk.write(start, self.size, merged, 0, "clean")
            self.rewritten += 1

    def stats(self):
        return {"rewritten": self.rewritten}


class Broken(InPlace):
    """Raises at the third write."""

    writes = 0

    def write(self, disk, lba, sectors, data):
        self.writes += 1
        self.kept = disk
        if self.writes == 3:
            raise LookupError("the third write")
        super().write(disk, lba, sectors, data)


class Keeping(InPlace):
    """Keeps its disk from one call to another method."""

    def write(self, disk, lba, sectors, data):
        self.disk = disk
        super().write(disk, lba, sectors, data)

    def stats(self):
        return {"now": self.disk.now_ns}


def setUpModule():
    smrkit.register("py-in-place", InPlace)
    smrkit.register("py-regions", Regions)
    smrkit.register("py-broken", Broken)
    smrkit.register("py-keeping", Keeping)


class PythonLayers(unittest.TestCase):
    def test_advice_is_given_on_a_layer_and_all_of_them_are_tried(self):
        asked = {"drive": "tiny", "workload": "mix:count=60", "depth": 1}
        own = smrkit.advise(layer="py-in-place", **asked)
        self.assertEqual((own.system.layer, own.problems.slow), ("py-in-place", False))
        with self.assertRaisesRegex(AssertionError, "one recording zone"):
            smrkit.advise(all=True, **asked)

    def test_an_outcome_equals_that_of_the_twin_in_rust(self):
        for options in ({}, {"depth": 8, "queue": "sptf"}, {"array": "raid1:disks=2"}):
            options = {"drive": "tiny", "workload": "mix:count=2k", **options}
            ours, theirs = (smrkit.run(layer=layer, **options) for layer in ("py-in-place", "in-place"))
            for key in set(theirs) - {"layer", "run", "verdict", "members"}:
                self.assertEqual(ours[key], theirs[key], key)

    def test_the_check_passes_a_sound_layer_and_catches_a_careless_one(self):
        options = {"drive": "tiny-constant", "workload": "random-write:count=300", "check": True}
        sound = smrkit.run(layer="py-regions", **options)
        self.assertGreaterEqual(sound.layer_stats.rewritten, 300)
        self.assertGreater(sound.write_amplification, 10)
        with self.assertRaisesRegex(smrkit.FaultError, "py-in-place: .*broke the shingling law"):
            smrkit.run(layer="py-in-place", **options)

    def test_what_a_layer_raises_comes_out_as_itself(self):
        with self.assertRaisesRegex(LookupError, "the third write"):
            smrkit.run(drive="tiny", layer="py-broken", workload="random-write:count=10")
        with self.assertRaisesRegex(RuntimeError, "do not keep it"):
            smrkit.run(drive="tiny", layer="py-keeping", workload="random-write:count=10")

    def test_a_name_is_taken_once(self):
        with self.assertRaisesRegex(smrkit.UsageError, "called 'rmw' already"):
            smrkit.register("rmw", InPlace)
        with self.assertRaisesRegex(smrkit.UsageError, "is no name of a layer"):
            smrkit.register("a.b", InPlace)
        self.assertIn("py-regions", [layer["name"] for layer in smrkit.layers()])

    def test_a_layer_serves_requests_in_tens_of_microseconds(self):
        before = time.process_time()
        smrkit.run(drive="tiny", layer="py-in-place", workload="random-write:count=20k")
        # 100 k requests a second for a build with optimisation; this is one of tests.
        self.assertLess((time.process_time() - before) / 20e3, 100e-6)
