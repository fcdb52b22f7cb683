"""The package's types hold, and the stubs are those of the native module."""

import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
from importlib.util import find_spec

import smrkit

SITE = pathlib.Path(smrkit.__file__).parent.parent
MISSING = [name for name in ("mypy", "pyright") if not find_spec(name)]


@unittest.skipIf(MISSING, f"{', '.join(MISSING)} not installed: scripts/need types")
class Types(unittest.TestCase):
    def check(self, *words):
        """Runs a checker in an empty folder, where no settings are found."""
        with tempfile.TemporaryDirectory() as folder:
            checked = subprocess.run([sys.executable, "-m", *words], capture_output=True, text=True, cwd=folder)
        self.assertEqual(0, checked.returncode, checked.stdout + checked.stderr)

    def test_mypy_finds_nothing_to_object_to(self):
        # Studies are scripts, with types where they help.
        self.check("mypy", "--strict", "--package", "smrkit", "--exclude", "/(cluster|studies)/")

    def test_pyright_finds_nothing_to_object_to(self):
        # It reads what links point to, and would look for the other modules there.
        with tempfile.TemporaryDirectory() as folder:
            package = shutil.copytree(SITE / "smrkit", pathlib.Path(folder, "smrkit"), ignore=lambda *_: ["_native.abi3.so", "cluster", "studies"])
            self.check("pyright", "--pythonpath", sys.executable, str(package))

    def test_stubs_are_those_of_the_native_module(self):
        self.check("mypy.stubtest", "smrkit._native")
