"""Tables of requests, from every library of data frames."""

import array
import importlib
import importlib.util
import os
import sys
import tempfile
import unittest
from unittest import mock

import smrkit

COUNT = 5000
COLUMNS = {
    "time_us": [10 * at for at in range(COUNT)],
    "op": [at % 2 for at in range(COUNT)],
    "lba": [at * 7919 % 4000 for at in range(COUNT)],
    "sectors": [8 + at % 8 for at in range(COUNT)],
}


def outcome(requests):
    return smrkit.run(requests=requests, drive="tiny", layer="vguard", arrival="trace")


def needs(*names):
    missing = [name for name in names if importlib.util.find_spec(name) is None]
    return unittest.skipIf(missing, f"{', '.join(missing)} not installed: run make test")


class Tables(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "trace.csv")
            rows = zip(COLUMNS["time_us"], COLUMNS["op"], COLUMNS["lba"], COLUMNS["sectors"])
            with open(path, "w") as file:
                file.writelines(f"{t},{'RW'[op]},{lba * 512},{n * 512}\n" for t, op, lba, n in rows)
            read = {"trace": path, "format": "csv:time=0:us,op=1,offset=2:bytes,size=3:bytes"}
            cls.expected = smrkit.run(**read, drive="tiny", layer="vguard", arrival="trace")

    def same(self, requests):
        ours = outcome(requests)
        told = {"trace", "trace_sha256", "trace_format", "trace_reading", "run"}
        for key in set(ours) - told:
            self.assertEqual(ours[key], self.expected[key], key)
        self.assertEqual(ours.run.system, self.expected.run.system)

    def test_lists_and_words(self):
        self.same(COLUMNS)
        self.same({**COLUMNS, "op": ["read" if op == 0 else "Write" for op in COLUMNS["op"]]})

    @needs("numpy")
    def test_numpy(self):
        numpy = importlib.import_module("numpy")
        self.same({name: numpy.array(values, "uint64") for name, values in COLUMNS.items()})
        self.same({name: numpy.array(values, "int32") for name, values in COLUMNS.items()})
        spaced = numpy.arange(20, dtype="uint64")[::2]
        with self.assertRaisesRegex(smrkit.InputError, "column lba does not lie in one piece"):
            outcome({"op": [0] * 10, "lba": spaced, "sectors": [8] * 10})

    def test_whole_numbers_of_any_width_lie_in_buffers(self):
        few = {"op": [1, 0, 3], "lba": [0, 8, 16], "sectors": [8, 8, 8]}
        expected = smrkit.run(requests=few, drive="tiny", layer="vguard")
        for kind in "bBhHiIqQ":
            with self.subTest(kind):
                columns = {name: array.array(kind, values) for name, values in few.items()}
                ours = smrkit.run(requests=columns, drive="tiny", layer="vguard")
                self.assertEqual((ours.requests, ours.elapsed_ns), (3, expected.elapsed_ns))
        for kind in "bhiq":
            with self.subTest(kind), self.assertRaisesRegex(smrkit.InputError, "column lba has numbers below 0"):
                outcome({**few, "lba": array.array(kind, [0, 8, -1])})
        with self.assertRaisesRegex(smrkit.InputError, "column lba holds no whole numbers"):
            outcome({**few, "lba": array.array("d", [0, 8, 16])})
        odd = memoryview(bytearray(25))[1:].cast("Q")
        with self.assertRaisesRegex(smrkit.InputError, "column lba is not aligned"):
            outcome({**few, "lba": odd})
        with self.assertRaisesRegex(smrkit.InputError, "column lba does not lie in one piece"):
            outcome({**few, "lba": memoryview(bytearray(24)).cast("Q", (3, 1))})
        with self.assertRaisesRegex(smrkit.InputError, "column lba is no list"):
            outcome({**few, "lba": ["x", 8, 16]})

    def test_times_have_the_unit_of_their_column(self):
        for name, tick_ns in [("time_ns", 1), ("time_100ns", 100), ("time_us", 10**3), ("time_ms", 10**6), ("time_s", 10**9)]:
            with self.subTest(name):
                times = [0, 10 * 10**9 // tick_ns]
                ours = outcome({name: times, "op": [1, 1], "lba": [0, 8], "sectors": [8, 8]})
                self.assertEqual(ours.arrivals_ns, 10 * 10**9)

    def test_the_bounds_of_requests_are_part_of_them(self):
        most = (1 << 64) - 1
        for change in ({"time_us": [0, most // 1000]}, {"time_ns": [0, most]}, {"volume": [0, 0]}, {"op": [1, 2], "sectors": [8, 0]}):
            with self.subTest(change):
                table = smrkit._native.Requests({"op": [1, 0], "lba": [0, 8], "sectors": [8, 8], **change})
                self.assertEqual(len(table), 2)
        good = {"op": [1, 0], "lba": [0, (1 << 63) - 1], "sectors": [8, (1 << 32) - 1]}
        self.assertEqual(len(smrkit._native.Requests(good)), 2)
        for change, message in [
            ({"time_us": [0, most // 1000 + 1]}, "row 1 .from 0. has a time past"),
            ({"sectors": [8, 1 << 32]}, r"row 1 .from 0. has 2\^32 sectors or more"),
            ({"op": [1, 3], "sectors": [8, 0]}, "row 1 .from 0. is a request of 0 sectors"),
        ]:
            with self.subTest(change), self.assertRaisesRegex(smrkit.InputError, message):
                smrkit._native.Requests({**good, **change})
        self.assertEqual(len(smrkit._native.Requests({name: array.array("Q") for name in ("op", "lba", "sectors")})), 0)

    def test_the_words_of_operations_are_those_of_the_library(self):
        words = {"op": ["WRITE", "read", "Flush", "discard"], "lba": [0, 8, 0, 16], "sectors": [8, 8, 0, 8]}
        ours, theirs = (smrkit.run(requests={**words, "op": op}, drive="tiny", layer="vguard") for op in (words["op"], [1, 0, 2, 3]))
        self.assertEqual((ours.requests, ours.commands, ours.elapsed_ns), (theirs.requests, theirs.commands, theirs.elapsed_ns))
        self.assertEqual((ours.host_written_sectors, ours.host_read_sectors), (8, 8))

    @needs("polars")
    def test_polars(self):
        polars = importlib.import_module("polars")
        frame = polars.DataFrame(COLUMNS)
        self.same(frame)
        words = polars.Series("op", ["read" if op == 0 else "write" for op in COLUMNS["op"]])
        self.same(frame.with_columns(words))
        self.same(frame.with_columns(words.cast(polars.Categorical)))
        self.same(polars.concat([frame[:1234], frame[1234:]], rechunk=False))

    @needs("pandas", "pyarrow")
    def test_pandas_and_pyarrow(self):
        self.same(importlib.import_module("pandas").DataFrame(COLUMNS))
        self.same(importlib.import_module("pyarrow").table(COLUMNS))

    def test_what_no_request_can_be_is_refused(self):
        good = {"op": [1, 0], "lba": [0, 8], "sectors": [8, 8]}
        wrong = [
            ({"op": [1, 4]}, "row 1 .from 0. has an op other than 0 to 3 .read, write, flush, discard"),
            ({"op": ["write", "erase"]}, "column op has 'erase': expected read, write, flush or discard"),
            ({"sectors": [8, 0]}, "row 1 .from 0. is a request of 0 sectors"),
            ({"lba": [0, 1 << 63]}, "row 1 .from 0. has an LBA past the end"),
            ({"lba": [0, -8]}, "column lba is no list of whole numbers from 0"),
            ({"volume": [0, 1]}, "requests of several volumes"),
            ({"time_s": [0, 1], "time_us": [0, 1]}, "two columns of times"),
            ({"time_s": [0, 1 << 60]}, "row 1 .from 0. has a time past the largest"),
        ]
        for change, message in wrong:
            with self.subTest(change), self.assertRaisesRegex(smrkit.InputError, message):
                outcome({**good, **change})
        with self.assertRaisesRegex(smrkit.InputError, "lba: no column of this name"):
            outcome({"op": [1], "sectors": [8]})
        self.assertEqual(smrkit.run(requests=good, drive="tiny", layer="vguard").requests, 2)
        with self.assertRaisesRegex(smrkit.InputError, "no column of times among op, lba, sectors"):
            outcome(good)
        with self.assertRaisesRegex(smrkit.InputError, "column time tells no unit"):
            outcome({**good, "time": [0, 1]})

    @needs("pandas", "pyarrow")
    def test_moments_and_bytes(self):
        pandas = importlib.import_module("pandas")
        time = pandas.to_datetime("2024-05-01") + pandas.to_timedelta(COLUMNS["time_us"], "us")
        offset, size = ([512 * value for value in COLUMNS[name]] for name in ("lba", "sectors"))
        self.same(pandas.DataFrame({"Timestamp": time, "is_write": [op == 1 for op in COLUMNS["op"]], "offset": offset, "size": size}))

    def test_a_table_too_large_for_the_drive_gets_more_platters(self):
        far = {"op": [1], "lba": [10**7], "sectors": [8]}
        self.assertIsNotNone(smrkit.run(requests=far, drive="tiny", layer="vguard").scaled)
        with self.assertRaisesRegex(smrkit.InputError, "past the capacity"):
            smrkit.run(requests=far, drive="tiny", layer="vguard", capacity="50MB")

    @needs("polars", "pandas", "pyarrow")
    def test_latencies_and_accesses_are_tables(self):
        ours = smrkit.run(requests=COLUMNS, drive="tiny", layer="vguard", latencies=True, accesses=True)
        frame = ours.latencies.to_polars()
        self.assertEqual(frame.height, COUNT)
        self.assertEqual(frame["latency_ns"].max(), ours.latency_ns.all.max)
        self.assertEqual(frame["latency_ns"].sum(), ours.wait_ns + ours.service_ns)
        accesses = ours.accesses.to_pandas()
        written = accesses[accesses.op == "write"]
        self.assertEqual(written.sectors.sum(), ours.physical_written_sectors.total)
        by_cause = written.groupby("cause", observed=True).sectors.sum()
        self.assertEqual(by_cause["clean"], ours.physical_written_sectors.clean)

    @needs("polars")
    def test_a_table_of_several_parts_is_whole_and_in_order(self):
        count = 300_001
        ours = smrkit.run(drive="tiny", layer="in-place", workload=f"mix:count={count}", latencies=True)
        frame = ours.latencies.to_polars()
        self.assertEqual((frame.height, len(ours.latencies), frame.n_chunks()), (count, count, 3))
        self.assertTrue(frame["index"].to_list() == list(range(count)))
        self.assertEqual(frame["latency_ns"].sum(), ours.wait_ns + ours.service_ns)

    def test_a_library_that_is_not_there_is_named_with_what_installs_it(self):
        run = smrkit.run(drive="tiny", layer="vguard", workload="mix:count=10", latencies=True)
        missing = dict.fromkeys(["pandas", "polars", "pyarrow"])
        with mock.patch.dict(sys.modules, missing):
            for frame in (run.to_pandas, run.to_polars, run.to_arrow, run.latencies.to_polars, run.latencies.to_arrow):
                with self.assertRaisesRegex(smrkit.UsageError, r"pip install smrkit\[frames\]"):
                    frame()

    @needs("polars", "pandas", "pyarrow")
    def test_outcomes_are_frames(self):
        both = smrkit.compare(drive="tiny", layer=["drive-managed", "vguard"], workload="mix:count=300")
        for frame in (both.to_polars(), both.to_pandas(), both.to_arrow().to_pandas()):
            self.assertEqual(list(frame["layer"]), ["drive-managed", "vguard"])
            self.assertEqual(list(frame["latency_ns.all.p99"]), [run.latency_ns.all.p99 for run in both])
        self.assertEqual(both[1].to_polars().rows(named=True), [both[1].row()])
