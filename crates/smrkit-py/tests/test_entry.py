"""The command that the package brings: it runs in a process of Python's as it does in its own."""

import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

# As pip makes it of the entry point.
SCRIPT = f"#!{sys.executable}\nfrom smrkit._command import main\n\nmain()\n"
SMRKIT = os.environ.get("SMRKIT", "smrkit")
LONG = ["run", "--workload", "random-write:count=4G", "--layer", "in-place"]


class Entry(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.script = self.folder / "smrkit"
        self.script.write_text(SCRIPT)
        self.script.chmod(0o755)

    def run_it(self, *words, code=0, program=None):
        own = os.environ | {"XDG_RUNTIME_DIR": str(self.folder)}
        ran = subprocess.run([program or self.script, *words], capture_output=True, text=True, cwd=self.folder, env=own)
        self.assertEqual(ran.returncode, code, ran.stderr)
        self.assertNotIn("Traceback", ran.stderr)
        return ran.stdout + ran.stderr

    def test_words_and_exit_codes_are_those_of_a_program(self):
        self.assertRegex(self.run_it("--version"), r"^smrkit 0\.")
        self.assertIn("'advise'", self.run_it("advice", code=2))
        self.assertIn("nowhere.csv", self.run_it("run", "--trace", "nowhere.csv", code=3))
        page = self.folder / "page.html"
        self.run_it("advise", "--drive", "wd40efax", "--for", "restic:bytes=1G", "--report", page)
        self.assertIn("smrkit advise --drive wd40efax --for restic:bytes=1G<", page.read_text())

    def test_a_reader_who_leaves_is_no_error(self):
        ran = subprocess.run(f"{self.script} man | head -n 1", shell=True, capture_output=True, text=True)
        self.assertEqual((ran.stderr, ran.stdout.count("\n")), ("", 1))

    def test_an_interrupt_does_what_it_does_to_the_program(self):
        image = self.folder / "drive.img"
        self.run_it("create", image, "--drive", "tiny")
        for words in (LONG, ["serve", image], ["drives", "identify", "-"]):
            with self.subTest(words[0]):
                codes = [self.interrupted(program, words) for program in (SMRKIT, self.script)]
                self.assertEqual(*codes)

    def interrupted(self, program, words):
        pipes = {name: subprocess.PIPE for name in ("stdin", "stdout", "stderr")}
        with subprocess.Popen([program, *words], text=True, **pipes) as child:
            # Before the command is at work, the handler is the one that Python begins with.
            while child.poll() is None and program == self.script and "_native" not in pathlib.Path(f"/proc/{child.pid}/maps").read_text():
                time.sleep(0.01)
            time.sleep(1)
            child.send_signal(signal.SIGINT)
            child.wait(timeout=60)
            self.assertNotIn("KeyboardInterrupt", child.stderr.read())
        return child.returncode

    @unittest.skipUnless(os.path.exists("/dev/fuse"), "no /dev/fuse here, so that nothing can be mounted")
    def test_what_goes_on_in_the_background_is_started_by_the_same_script(self):
        point, image, meta = (self.folder / name for name in ("point", "disk.img", "meta"))
        point.mkdir()
        self.run_it("mkfs", image, "--size", "256M", "--meta", meta)
        helpers = [self.folder / f"{name}.fuse.smrfs" for name in ("mount", "umount")]
        for helper in helpers:
            helper.symlink_to(self.script)
        for mount, umount in [
            (lambda: self.run_it("mount", image, point), lambda: self.run_it("umount", point)),
            (lambda: self.run_it(image, point, program=helpers[0]), lambda: self.run_it(point, program=helpers[1])),
        ]:
            mount()
            (point / "file").write_text("kept")
            umount()
            self.assertFalse((point / "file").exists())
        self.run_it("mount", image, point)
        self.assertEqual((point / "file").read_text(), "kept")
        self.run_it("umount", point)
