"""Layers written in Python: as their twins in Rust, checked, and honest about what they raise."""

import math
import shutil
import sys
import tempfile
import unittest
from array import array
from typing import Literal

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


class Cleaning(InPlace):
    """Has a stage due after each write, and one more in idle time."""

    def __init__(self, drive):
        super().__init__(drive)
        self.due, self.helpful, self.done, self.helped = 0, 0, 0, 0

    def write(self, disk, lba, sectors, data):
        super().write(disk, lba, sectors, data)
        self.due, self.helpful = self.due + 1, self.helpful + 1

    def step(self, disk, must):
        if must and self.due:
            self.due, self.done = self.due - 1, self.done + 1
            return True
        if not must and self.helpful:
            self.helpful, self.helped = self.helpful - 1, self.helped + 1
            return True
        return False

    def stats(self):
        return {"due": self.due, "done": self.done, "helped": self.helped}


class CleaningInIdleTime(Cleaning):
    """The same, and uses idle time after a millisecond."""

    idle_delay_ns = 1_000_000


class Asking(InPlace):
    """Asks where its tracks are."""

    def __init__(self, drive):
        super().__init__(drive)
        last = drive.tracks - 1
        for track in (0, 1, last):
            start = drive.track_start(track)
            assert drive.track_of(start) == drive.track_of(start + drive.track_sectors(track) - 1) == track
        assert drive.track_start(last) + drive.track_sectors(last) == drive.sectors
        starts = drive.track_starts()
        assert starts.itemsize == 8 and len(starts) == drive.tracks + 1 and starts[last] == drive.track_start(last)
        assert starts[0] == 0 and starts[-1] == drive.sectors
        first, *more = drive.zones
        assert first["first_pba"] == first["first_track"] == 0 and sum(zone["tracks"] for zone in drive.zones) == drive.tracks
        assert more[0]["first_pba"] == drive.track_start(more[0]["first_track"]) and first["toward"] in ("inner", "outer")
        law = drive.interference
        assert law["form"] in ("tracks", "physical") and drive.guard_tracks > 0 and drive.guard_sectors == 0, law
        behind = drive.destroyed(0, 8)
        assert behind and all(drive.track_of(pba) <= drive.guard_tracks for pba, _ in behind), behind
        for question, number in ((drive.track_of, drive.sectors), (drive.track_start, last + 1), (drive.track_sectors, last + 1)):
            try:
                question(number)
            except ValueError as error:
                assert "is past the disk" in str(error)
            else:
                raise AssertionError(f"{question} has an answer")


class Trimming(InPlace):
    """Counts what is discarded, and has a cache."""

    cache_sectors = 640

    def __init__(self, drive):
        self.host_sectors = drive.sectors - 1000
        self.discarded, self.now = [], []

    def write(self, disk, lba, sectors, data):
        before = disk.now_ns
        super().write(disk, lba, sectors, data)
        self.now.append(disk.now_ns - before)

    def discard(self, disk, lba, sectors):
        self.discarded.append((lba, sectors))

    def stats(self):
        assert all(took > 0 for took in self.now)
        return {"discards": len(self.discarded), "discarded": sum(n for _, n in self.discarded)}


class Spared(InPlace):
    """Has parameters of every kind, and says all that a layer may say of itself."""

    made = 0
    map_bytes = 4096

    def __init__(self, drive, spare: int = 0, share: float = 0.5, eager: bool = False, policy: Literal["fifo", "greedy"] = "fifo"):
        Spared.made += 1
        self.host_sectors, self.spare_sectors = drive.sectors - spare - 8, spare
        self.told = {"spare": spare, "half_shares": int(2 * share), "eager": int(eager), "greedy": int(policy == "greedy")}
        self.share, self.writes, self.flushes = share, 0, 0

    def write(self, disk, lba, sectors, data):
        self.writes += 1
        super().write(disk, lba, sectors, data)

    def flush(self, disk):
        self.flushes += 1
        disk.flush()

    def reset_stats(self):
        self.writes = 0

    def gauges(self):
        return {"cache_fill": self.share, "dirty_share": 0.25, "open_bands": 3, "log_bytes": 512}

    def stats(self):
        return {"writes": self.writes, "flushes": self.flushes, **self.told}


class Descending(InPlace):
    """Fills the disk from its end."""

    def __init__(self, drive):
        self.host_sectors = drive.sectors

    def home(self, lba):
        return self.host_sectors - 1 - lba


class Greedy(InPlace):
    """Offers more than there is, by one sector."""

    def __init__(self, drive):
        self.host_sectors, self.cache_sectors = drive.sectors - 7, 8


class Silent(InPlace):
    """Does not say what it offers."""

    def __init__(self, drive):
        pass


class Wrong(InPlace):
    """Books that its check finds wrong."""

    def check(self):
        raise ArithmeticError("the books are wrong")


class Asks(InPlace):
    """Writes through a buffer of its own, in halves, names a cause that there is none of and sectors outside buffers."""

    refused = outside = 0
    kept = None

    def write(self, disk, lba, sectors, data):
        own, half = disk.buffer(sectors), sectors // 2
        own.put(half, data, half, sectors - half)
        own.put(0, data, 0, half)
        try:
            disk.read(0, sectors, own, 0, "home")
        except ValueError as error:
            self.refused += "expected host, destage, clean or map" in str(error)
        for attempt in (
            lambda: own.put(1, data, 0, sectors),
            lambda: own.put(0, data, 1, sectors),
            lambda: own.put(0, data, 2**64 - 1, 1),
            lambda: disk.read(0, sectors + 1, own, 0, "host"),
            lambda: disk.write(0, 1, data, sectors, "host"),
        ):
            self.outside += self.is_outside(attempt, sectors)
        self.kept = data
        super().write(disk, lba, sectors, own)

    def step(self, disk, must):
        if self.kept is not None:
            self.outside += self.is_outside(lambda: disk.write(0, 1, self.kept, 0, "host"), 0)
            self.kept = None
        return False

    def is_outside(self, attempt, sectors):
        try:
            attempt()
        except IndexError as error:
            return f"outside a buffer of {sectors}" in str(error)
        return False

    def stats(self):
        return {"refused": self.refused, "outside": self.outside}


class Impatient(InPlace):
    """Has a delay that is no number."""

    idle_delay_ns = "1ms"


def setUpModule():
    smrkit.register("py-in-place", InPlace)
    smrkit.register("py-regions", Regions)
    smrkit.register("py-broken", Broken)
    smrkit.register("py-keeping", Keeping)
    smrkit.register("py-cleaning", Cleaning)
    smrkit.register("py-idle", CleaningInIdleTime)
    smrkit.register("py-impatient", Impatient)
    smrkit.register("py-asking", Asking)
    smrkit.register("py-trimming", Trimming)
    smrkit.register("py-descending", Descending)
    smrkit.register("py-greedy", Greedy)
    smrkit.register("py-silent", Silent)
    smrkit.register("py-wrong", Wrong)
    smrkit.register("py-asks", Asks)
    smrkit.register("py-spared", Spared)


class PythonLayers(unittest.TestCase):
    def test_advice_is_given_on_a_layer(self):
        asked = {"drive": "tiny", "workload": "mix:count=60", "depth": 1}
        own = smrkit.advise(layer="py-in-place", **asked)
        self.assertEqual((own.system.layer, own.problems.slow), ("py-in-place", False))

    def test_an_outcome_equals_that_of_the_twin_in_rust(self):
        for options in ({}, {"depth": 8, "queue": "sptf"}, {"array": "raid1:disks=2"}):
            options = {"drive": "tiny", "workload": "mix:count=2k", **options}
            ours, theirs = (smrkit.run(layer=layer, **options) for layer in ("py-in-place", "in-place"))
            for key in set(theirs) - {"layer", "run", "verdict", "members"}:
                self.assertEqual(ours[key], theirs[key], key)

    def test_check_passes_a_sound_layer_and_catches_a_careless_one(self):
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
        with self.assertRaisesRegex(smrkit.UsageError, "a layer of smrkit is called 'rmw'"):
            smrkit.register("rmw", InPlace)
        with self.assertRaisesRegex(smrkit.UsageError, "is no name of a layer"):
            smrkit.register("a.b", InPlace)
        self.assertIn("py-regions", [layer["name"] for layer in smrkit.layers()])

    def test_another_version_of_a_layer_takes_its_place_and_has_results_of_its_own(self):
        store = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, store)

        def swept(layer, **version):
            smrkit.register("py-mine", layer, **version)
            options = {"drive": "tiny", "layer": "py-mine", "workload": "random-write:count=20,span=1MiB"}
            computed = smrkit.sweep(store=store, **options).computed
            return computed, [outcome.capacity.host_sectors for outcome in smrkit.results(store) if outcome.layer == "py-mine"]

        def spared(sectors):
            class Mine(InPlace):
                def __init__(self, drive):
                    self.host_sectors = drive.sectors - sectors

            return Mine

        sectors = smrkit.run(drive="tiny", layer="in-place", workload="random-write:count=1").capacity.host_sectors
        self.assertEqual(swept(spared(0)), (1, [sectors]))
        self.assertEqual(swept(spared(0)), (0, [sectors]), "the same code, defined again")
        self.assertEqual(swept(spared(8)), (1, [sectors - 8]), "what its code names has changed")
        table = {"spare": [array("Q", [24])]}

        class Tabled(InPlace):
            def __init__(self, drive):
                math.ceil(sys.maxsize)
                self.host_sectors = drive.sectors - table["spare"][0][0]

        self.assertEqual(swept(Tabled), (1, [sectors - 24]))
        self.assertEqual(swept(Tabled), (0, [sectors - 24]))
        table["spare"][0][0] = 32
        options = {"drive": "tiny", "layer": "py-mine", "workload": "random-write:count=20,span=1MiB"}
        self.assertEqual(smrkit.sweep(store=store, **options).computed, 1, "a value that it uses has changed since it was registered")
        self.assertEqual(swept(spared(16), version="1"), (1, [sectors - 16]))
        self.assertEqual(swept(spared(24), version="1"), (0, [sectors - 16]), "who gives a version answers for it")
        made = {"__name__": "nowhere"}
        exec("import smrkit\nclass Mine(smrkit.Layer):\n    def read(self, disk, lba, sectors, out): ...", made)
        with self.assertRaisesRegex(smrkit.UsageError, "register it with a version"):
            swept(made["Mine"])

    def test_names_are_words_of_the_command_line(self):
        for name in ("", "a,b", "a.b", "a b", "a:b", "a=b"):
            with self.subTest(name), self.assertRaisesRegex(smrkit.UsageError, "is no name of a layer"):
                smrkit.register(name, InPlace)

    def test_discards_checks_and_the_cache_are_the_layers_own(self):
        requests = {"op": [1, 3, 3, 1], "lba": [0, 0, 100, 8], "sectors": [8, 8, 16, 8]}
        ours = smrkit.run(drive="tiny-constant", layer="py-trimming", requests=requests)
        self.assertEqual((ours.layer_stats.discards, ours.layer_stats.discarded, ours.requests), (2, 24, 4))
        capacity = ours.capacity
        self.assertEqual((capacity.cache_sectors, capacity.guard_sectors), (640, 360))
        self.assertEqual(capacity.host_sectors, capacity.raw_sectors - 1000)
        plain = smrkit.run(drive="tiny-constant", layer="py-in-place", requests=requests)
        self.assertEqual((plain.requests, plain.capacity.cache_sectors, plain.capacity.guard_sectors), (4, 0, 0))
        reads = {"drive": "tiny-constant", "workload": "random-read:count=5", "check": True}
        self.assertEqual(smrkit.run(layer="py-trimming", **reads).requests, 5)
        with self.assertRaisesRegex(ArithmeticError, "the books are wrong"):
            smrkit.run(layer="py-wrong", **reads)

    def test_parameters_are_those_of_every_layer_and_an_object_is_made_for_each_run(self):
        load = {"drive": "tiny", "workload": "random-write:count=20,span=1MiB"}
        Spared.made = 0
        sets = {"py-spared.spare": [0, 800], "py-spared.policy": ["fifo", "greedy"], "py-spared.share": 1.5, "py-spared.eager": True}
        runs = smrkit.compare(layer="py-spared", set=sets, **load)
        self.assertEqual(Spared.made, 4)
        told = [(run.layer_stats.spare, run.layer_stats.greedy, run.parameters.policy) for run in runs]
        self.assertEqual(told, [(0, 0, "fifo"), (0, 1, "greedy"), (800, 0, "fifo"), (800, 1, "greedy")])
        run = runs[2]
        self.assertEqual((run.layer_stats.half_shares, run.layer_stats.eager, run.parameters.share, run.parameters.eager), (3, 1, 1.5, True))
        self.assertEqual((run.capacity.spare_sectors, run.capacity.guard_sectors, run.map_bytes), (800, 8, 4096))
        self.assertEqual(smrkit.run(layer="py-spared", **load).layer_stats.half_shares, 1)
        known = {key["key"]: (key["default"], key["takes"]) for key in smrkit.layers("py-spared")["parameters"]}
        self.assertEqual(known["policy"], ("fifo", "one of fifo, greedy"))
        self.assertEqual(known["share"], ("0.5", "a number from 0"))
        with self.assertRaisesRegex(smrkit.UsageError, "py-spared.policy=lifo: .* did you mean `fifo`"):
            smrkit.run(layer="py-spared", set={"py-spared.policy": "lifo"}, **load)

    def test_a_sweep_varies_parameters_of_a_layer(self):
        store = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, store)
        options = {"drive": "tiny", "layer": "py-spared", "workload": "random-write:count=20,span=1MiB"}
        swept = smrkit.sweep(store=store, set={"py-spared.spare": [0, 80, 800]}, **options)
        self.assertEqual((swept, [run.capacity.spare_sectors for run in smrkit.results(store)]), ((3, 0), [0, 80, 800]))

    def test_an_argument_without_a_value_to_begin_with_is_no_parameter(self):
        def taking(**default):
            class Taking(InPlace):
                def __init__(self, drive, limit):
                    super().__init__(drive)

            Taking.__init__.__defaults__ = tuple(default.values()) or None
            return Taking

        for layer in (taking(), taking(limit=None), taking(limit=-1), taking(limit="word")):
            with self.assertRaisesRegex(TypeError, "the argument limit of the layer is a parameter"):
                smrkit.register("py-taking", layer)

    def test_a_layer_flushes_and_tells_its_gauges(self):
        requests = {"op": [1, 1, 2, 1], "lba": [0, 64, 0, 128], "sectors": [8, 8, 0, 8]}
        run = smrkit.run(drive="tiny", layer="py-spared", requests=requests, warmup=1)
        self.assertEqual((run.layer_stats.flushes, run.layer_stats.writes), (1, 2))
        self.assertEqual(run.timeline.cache_fill[-1], 0.5)
        gauges = {name: values[-1] for name, values in run.timeline.gauges.items()}
        self.assertEqual(gauges, {"dirty_share": 0.25, "open_bands": 3, "log_bytes": 512})

    def test_a_layer_offers_no_more_than_there_is_and_says_what(self):
        with self.assertRaisesRegex(smrkit.ImpossibleError, "exceed the drive's .* sectors: offer fewer"):
            smrkit.run(drive="tiny", layer="py-greedy", workload="random-write:count=1")
        with self.assertRaisesRegex(AttributeError, "host_sectors"):
            smrkit.run(drive="tiny", layer="py-silent", workload="random-write:count=1")

    def test_a_home_that_does_not_ascend_is_named(self):
        with self.assertRaisesRegex(ValueError, r"home\(1\) is \d+, and home\(0\) \d+: home has to ascend"):
            smrkit.run(drive="tiny", layer="py-descending", workload="random-write:count=5", check=True)

    def test_data_go_through_buffers_of_a_layers_own(self):
        two = {"workload": "random-write:size=4Ki,count=2", "prefill": "none"}
        for check in (True, False):
            stats = smrkit.run(drive="tiny", layer="py-asks", check=check, **two).layer_stats
            # Five of each write, and one of the buffer that the first has kept.
            self.assertEqual((stats.refused, stats.outside), (2, 11), check)

    def test_a_layer_knows_the_tracks_of_its_drive(self):
        smrkit.run(drive="tiny", layer="py-asking", workload="random-write:count=1")

    def test_due_stages_precede_requests_and_others_use_idle_time(self):
        seconds = range(20)
        requests = {
            "time_us": [second * 1_000_000 for second in seconds],
            "op": [1 for _ in seconds],
            "lba": [second * 64 for second in seconds],
            "sectors": [8 for _ in seconds],
        }
        options = {"drive": "tiny", "requests": requests, "arrival": "trace"}
        busy, idle = (smrkit.run(layer=layer, **options).layer_stats for layer in ("py-cleaning", "py-idle"))
        # The run ends with the last write.
        self.assertEqual((busy.due, busy.done, busy.helped), (1, 19, 0))
        self.assertEqual((idle.due, idle.done, idle.helped), (1, 19, 19))
        with self.assertRaisesRegex(TypeError, "str"):
            smrkit.run(drive="tiny", layer="py-impatient", workload="random-write:count=1")
