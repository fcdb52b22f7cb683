"""Served drives as contexts, over NBD by hand."""

import os
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import time
import unittest
import urllib.parse
from pathlib import Path

import smrkit


class Client:
    """A client of NBD that reads and writes."""

    def __init__(self, uri):
        path = urllib.parse.parse_qs(urllib.parse.urlsplit(uri).query)["socket"][0]
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(path)
        self.take(18)
        self.socket.sendall(struct.pack(">I8sII", 3, b"IHAVEOPT", 1, 0))
        self.bytes, _ = struct.unpack(">QH", self.take(10))

    def take(self, count):
        taken = b""
        while len(taken) < count:
            part = self.socket.recv(count - len(taken))
            assert part
            taken += part
        return taken

    def ask(self, kind, offset, length, data=b""):
        self.socket.sendall(struct.pack(">IHHQQI", 0x25609513, 0, kind, 1, offset, length) + data)
        _, error, _ = struct.unpack(">IIQ", self.take(16))
        return error

    def read(self, offset, length):
        assert self.ask(0, offset, length) == 0
        return self.take(length)


@unittest.skipUnless("SMRKIT" in os.environ, "the command is missing")
class ServedDrives(unittest.TestCase):
    def test_a_drive_is_served_while_it_is_used(self):
        with smrkit.drive("tiny", layer="log") as d:
            client = Client(d.uri)
            self.assertEqual(client.ask(1, 4096, 4096, b"x" * 4096), 0)
            self.assertEqual(client.read(4096, 4096), b"x" * 4096)
            self.assertTrue(d.path.exists())
            self.assertEqual(d.stats["host_written_bytes"], 4096)
            d.inject("fail", "write", "count=1")
            self.assertEqual([client.ask(1, 0, 512, b"y" * 512) for _ in range(2)], [5, 0])
            client.socket.close()
        self.assertFalse(d.path.exists())

    def test_a_test_begins_where_the_cache_is_nearly_full(self):
        with smrkit.drive("st5000as0011", layer="drive-managed", capacity="4GB", state="nearly-full") as d:
            self.assertGreaterEqual(d.stats["cache_fill"], 0.94)

    def test_a_server_that_died_is_told_at_the_end(self):
        with self.assertRaisesRegex(smrkit.Error, "ended early"):
            with smrkit.drive("tiny", layer="log") as d:
                os.kill(d.stats["process"], signal.SIGKILL)
                d._server.wait()
        self.assertFalse(d.path.exists())

    @unittest.skipUnless(os.geteuid() == 0 and os.path.exists("/dev/loop-control"), "loop devices take root")
    def test_a_device_in_use_keeps_its_image(self):
        with tempfile.TemporaryDirectory() as point:
            with self.assertRaisesRegex(smrkit.Error, "is in use: unmount .* smrkit detach"):
                with smrkit.drive(layer="in-place", capacity="1GB", attach=True) as d:
                    with self.assertRaisesRegex(smrkit.Error, "use its path"):
                        print(d.uri)
                    subprocess.run(["mkfs.ext4", "-q", d.path], check=True)
                    subprocess.run(["mount", d.path, point], check=True)
            self.assertTrue(d._image.exists())
            subprocess.run(["umount", point], check=True)
        shutil.rmtree(d._folder)
        # By its name alone: the image is gone, and its state has no place any more.
        subprocess.run([os.environ["SMRKIT"], "detach", d._image], capture_output=True)
        for _ in range(600):
            if not Path(f"/proc/{d._process}").exists():
                return
            time.sleep(0.1)
        self.fail("the server goes on")

    def test_a_drive_that_cannot_be_is_an_error(self):
        with self.assertRaisesRegex(smrkit.Error, "no drive is called|no such drive"):
            with smrkit.drive("st1"):
                pass


if __name__ == "__main__":
    unittest.main()
