"""The command and the package give the same bytes."""

import json
import os
import pathlib
import random
import subprocess
import tempfile
import unittest

import smrkit
from smrkit import _native

SMRKIT = os.environ.get("SMRKIT", "smrkit")
TRACES = os.path.join(os.environ.get("SMRKIT_TESTDATA", ""), "traces")
# What a drive this small needs, and what varies.
SMALL = {
    "rmw.region_sectors": 256,
    "set-assoc.region_sectors": 256,
    "log.segment_tracks": 4,
    "s-block.sblock_sectors": 64,
    "s-block.cache_percent": 10,
    "s-block.spare_percent": 5,
}
LAYERS = {
    "in-place": {},
    "rmw": {"region_sectors": [256, 512], "portion": ["tail", "smallest"]},
    "set-assoc": {"region_sectors": [128, 256], "cache_percent": [5, 10]},
    "s-block": {"policy": ["largest", "cache-tail"]},
    "drive-managed": {"idle_clean": ["on", "off"]},
    "vguard": {"alpha": [1, 2]},
    "log": {"policy": ["greedy", "fifo"]},
}


TYPES = {"amount": "Amount", "number": "float | str", "path": "Path", "switch": "bool", "text": "str", "time": "Time"}
# Names of drives may be paths of files.
PATHS = {"drive"}

# What the classes of options say of themselves.
OPTIONS = """Arguments of :func:`smrkit.run`, :func:`smrkit.compare` and sweeps; ``docs/reference/command-line.md`` explains each.

    Sizes and counts are numbers or texts such as ``"64KiB"`` and ``"10k"``, times ``timedelta`` or texts such as ``"5ms"``.
    """
SWEEP_OPTIONS = "Arguments of :func:`smrkit.sweep`: those of :class:`Options`, each a value or a list of values."
FLEET_OPTIONS = "Arguments of :func:`smrkit.fleet`, as those of :class:`Options`; ``docs/how-to/fleet.md`` explains the answer."
ADVISE_OPTIONS = "Arguments of :func:`smrkit.advise`, as those of :class:`Options`; ``docs/reference/advise.md`` explains the answer."


def declared(name, doc, options, base="TypedDict", is_swept=False):
    """A class whose keys are options, as the command's parser has them; sweeps take a list of values of each."""
    text = f'\n\nclass {name}({base}, total=False):\n    """{doc}"""\n\n'
    for option, kind, is_list, words, help in options:
        one = f"Literal[{', '.join(json.dumps(word) for word in words)}]" if words else TYPES["path" if option in PATHS else kind]
        if is_list or is_swept:
            one += f" | Sequence[{one}]"
        # What has a list in a run already has lists of them in a sweep.
        if is_list and is_swept and option != "layer":
            one += f" | Sequence[{one}]"
        text += f'    {option}: {"Mapping[str, Any]" if option == "set" else one}\n    """{help}"""\n'
    return text


def typed(option):
    """Name and type of an option, whatever it is for."""
    name, kind, is_list, words, _ = option
    return name, kind, is_list, tuple(words)


def command(options):
    """The command's words for options of Python."""
    words = []
    for name, value in options.items():
        option = "--" + {"use": "for"}.get(name, name).replace("_", "-")
        if name == "set":
            for key, values in value.items():
                several = values if isinstance(values, list) else [values]
                words += [option, f"{key}={','.join(map(str, several))}"]
        elif isinstance(value, bool):
            words += [option] * value
        elif name == "layer":
            words += [option, ",".join(value)]
        elif isinstance(value, list):
            words += [word for one in value for word in (option, str(one))]
        else:
            words += [option, str(value)]
    return words


def configuration(seed):
    """Options that the seed decides: layers, parameters, arrays, merged sources, rebuilds."""
    draw = random.Random(seed)
    layers = draw.sample(sorted(LAYERS), draw.randint(1, 3))
    options = {"drive": "tiny", "layer": layers, "seed": draw.randint(1, 99)}
    parameters = {f"{layer}.{key}": values for layer in layers for key, values in LAYERS[layer].items()}
    keys = draw.sample(sorted(parameters), min(2, len(parameters)))
    drawn = {key: draw.choice([parameters[key], parameters[key][0]]) for key in keys}
    options["set"] = {key: value for key, value in SMALL.items() if key.split(".")[0] in layers} | drawn
    kinds = ["random-write", "mix", "zipf", "sequential-write", "hot-cold"]
    count = draw.choice([300, 700])
    match seed % 5:
        case 0:
            options["trace"] = os.path.join(TRACES, "msr.csv")
            options["fold"] = True
        case 1:
            options["workload"] = [f"{kind}:count={count}" for kind in draw.sample(kinds, 2)]
            options["interleave"] = draw.choice(["burst:10", "none", "burst:5"])
        case 2:
            options["workload"] = f"{draw.choice(kinds)}:count={count}"
            options["array"] = draw.choice(["raid5:disks=3,chunk=16KiB", "raid1:disks=2", "raid0:disks=2,chunk=16KiB"])
        case 3:
            options["workload"] = f"{draw.choice(kinds)}:count={count}"
            options["array"] = "raid1:disks=2"
            options["rebuild"] = draw.choice(["disk=0", "disk=1,write=64KiB"])
        case _:
            options["workload"] = f"{draw.choice(kinds)}:count={count}"
            options["depth"] = draw.choice([1, 8])
            options["queue"] = "fcfs" if options["depth"] == 1 else draw.choice(["sptf", "elevator"])
            options["prefill"] = draw.choice(["full", "none", "random:0.5"])
            options["warmup"] = draw.choice([0, 100])
            options["movement"] = draw.choice([True, False])
    return options


@unittest.skipUnless(os.path.exists(SMRKIT), f"there is no {SMRKIT}: cargo test --workspace builds it")
class SameBytes(unittest.TestCase):
    def test_outcomes_equal_those_of_the_command(self):
        kinds = set()
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "outcome.json")
            for seed in range(30):
                options = configuration(seed)
                with self.subTest(seed=seed, options=options):
                    subprocess.run([SMRKIT, "run", *command(options), "--json", path], capture_output=True, check=True)
                    ours = smrkit.compare(**options)
                    with open(path) as file:
                        self.assertEqual(ours.json(), file.read())
                    kinds |= {"array" if ours[0].array else "drive", "merged" if "sources" in ours[0] else "one"}
                    kinds |= {"rebuild"} & set(ours[0])
        self.assertEqual(kinds, {"array", "drive", "merged", "one", "rebuild"})

    def test_summaries_lists_and_traces_equal_those_of_the_command(self):
        def told(*words):
            return json.loads(subprocess.run([SMRKIT, *words], capture_output=True, text=True, check=True).stdout)

        options = {"drive": "tiny", "layer": ["vguard"], "workload": "mix:count=200"}
        summary = told("run", *command(options), "--json", "-", "--json-detail", "summary")
        self.assertEqual(json.loads(smrkit.compare(**options).json(detail="summary")), summary)
        self.assertEqual(smrkit.layers(), told("layers", "--json"))
        self.assertEqual(smrkit.drives("tiny"), told("drives", "show", "tiny", "--json"))
        trace = os.path.join(TRACES, "msr.csv")
        self.assertEqual(smrkit.trace.info(trace), told("trace", "info", trace, "--json=-"))

    def test_every_option_of_the_command_is_an_argument(self):
        path = pathlib.Path(smrkit.__file__).with_name("_arguments.py").resolve()
        own = path.read_text()
        made = own.partition("\n\nclass ")[0]
        run, advice = _native.options("run"), _native.options("advise")
        # What both have may be for other things.
        both = {typed(one) for one in run} & {typed(one) for one in advice}
        made += declared("Arguments", "Options of runs and of advice.", [one for one in run if typed(one) in both])
        own_of = lambda options: [one for one in options if typed(one) not in both]
        made += declared("Options", OPTIONS, own_of(run), "Arguments")
        made += declared("SweepOptions", SWEEP_OPTIONS, run, is_swept=True)
        made += declared("FleetOptions", FLEET_OPTIONS, _native.options("fleet"))
        made += declared("AdviseOptions", ADVISE_OPTIONS, own_of(advice), "Arguments")
        if os.environ.get("UPDATE"):
            path.write_text(made)
        else:
            self.assertEqual(own, made, "UPDATE=1 writes it anew")

    def test_advice_equals_that_of_the_command(self):
        asked = [
            {"drive": "tiny", "workload": "random-write:count=2k", "depth": 8},
            {"drive": "tiny", "array": "raid5:disks=3,chunk=64KiB", "workload": "mix:count=300", "depth": 4},
            {"array": "raidz1:disks=3", "capacity": "1GB", "rebuild": "resilver"},
            {"use": "restic:bytes=1G", "within": "1h"},
            {"drive": "tiny", "trace": os.path.join(TRACES, "msr.csv"), "arrival": "trace", "time_scale": 1e8},
            {"drive": "tiny", "workload": ["mix:count=200", "zipf:count=200"], "interleave": "burst:10", "layer": ["vguard"]},
        ]
        for options in asked:
            with self.subTest(options=options):
                words = [SMRKIT, "advise", *command(options), "--json", "-"]
                told = subprocess.run(words, capture_output=True, text=True, check=True).stdout
                advice = smrkit.advise(**options)
                self.assertEqual(advice.json(), told)
                self.assertEqual(dict(advice), json.loads(told))
                # How sure it is comes last, after the table.
                shown = " ".join(str(advice).split())
                for line in advice.text.splitlines():
                    self.assertIn(" ".join(line.split()), shown)
