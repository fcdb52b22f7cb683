"""Simulated drives for tests of other programs."""

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Any

from smrkit._command import found, output
from smrkit._errors import Error

DETACH_SECONDS = 5.0
"""How long detaching is retried while an attached drive is in use (assumption)."""


class Drive:
    """A context manager that serves a simulated drive from a temporary image.

    >>> with smrkit.drive("st5000as0011", capacity="64GB", state="nearly-full") as d:  # doctest: +SKIP
    ...     subprocess.run(["qemu-img", "info", d.uri], check=True)
    ...     d.inject("fail", "write", "count=1")
    ...     print(d.stats["latency_ns"]["write"]["p99"])
    """

    path: Path
    """The image; with ``attach``, the loop device of the drive, or its file if there is no root."""

    def __init__(self, create: list[str], serve: list[str], attach: bool, log: Path | None) -> None:
        self._create, self._serve, self._attach = create, serve, attach
        self.log = log
        self._uri = ""
        self._server: subprocess.Popen[str] | None = None

    @property
    def uri(self) -> str:
        """The drive's address for NBD clients."""
        if self._attach:
            raise Error("an attached drive has no address: use its path, or leave out attach")
        return self._uri

    def __enter__(self) -> "Drive":
        self._folder = Path(tempfile.mkdtemp(prefix="smrkit-"))
        try:
            self._image = self._folder / "drive.img"
            output("create", str(self._image), *self._create)
            if self._attach:
                self.path = Path(output("attach", str(self._image), *self._serve).strip())
                self._process = int(self.stats["process"])
            else:
                self._start_server()
        except BaseException:
            if self._attach:
                subprocess.run([found(), "detach", str(self._image)], capture_output=True)
            shutil.rmtree(self._folder, ignore_errors=True)
            raise
        return self

    def _start_server(self) -> None:
        words = [found(), "serve", str(self._image), "--listen", f"unix:{self._folder / 's'}", *self._serve]
        self._errors = tempfile.TemporaryFile("w+")
        self._server = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=self._errors, text=True)
        assert self._server.stdout is not None
        self._uri = self._server.stdout.readline().strip()
        self.path = self._image
        # A server that could not start has ended without printing its address.
        if not self._uri:
            raise Error(self._wait_for_end(self._server))

    def _wait_for_end(self, server: "subprocess.Popen[str]") -> str:
        """Waits until the server has ended, and returns its error output."""
        server.wait()
        if server.stdout is not None:
            server.stdout.close()
        self._errors.seek(0)
        errors = self._errors.read().strip()
        self._errors.close()
        return errors

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._server is None:
            problem = self._detach()
        else:
            early_exit_code = self._server.poll()
            self._server.send_signal(signal.SIGTERM)
            errors = self._wait_for_end(self._server)
            problem = "" if early_exit_code is None else f"the drive's server ended early ({early_exit_code}): {errors}"
        shutil.rmtree(self._folder, ignore_errors=True)
        if problem:
            raise Error(problem) from error

    def _detach(self) -> str:
        """Detaches the device, and retries while it is in use. Returns a message if the server had ended early, else an empty text."""
        problem = "" if Path(f"/proc/{self._process}").exists() else "the drive's server ended early"
        deadline = time.monotonic() + DETACH_SECONDS
        while True:
            try:
                output("detach", str(self._image))
                return problem
            except Error as refused:
                if problem:
                    return problem
                if time.monotonic() > deadline:
                    raise Error(
                        f"{refused}; then run smrkit detach {self._image}, and remove {self._folder}"
                    ) from refused
            time.sleep(0.1)

    def inject(self, *fault: str | int) -> None:
        """Injects a fault, in the words of ``smrkit inject``: ``d.inject("slow", "8s")``."""
        output("inject", str(self._image), *map(str, fault))

    @property
    def stats(self) -> dict[str, Any]:
        """The drive's counters so far, as ``smrkit top --json`` prints them."""
        stats: dict[str, Any] = json.loads(output("top", "--json", str(self._image)))
        return stats


def drive(
    name: str | None = None,
    *,
    layer: str | None = None,
    array: str | None = None,
    capacity: str | None = None,
    state: str | os.PathLike[str] | None = None,
    parameters: Iterable[str] = (),
    pace: str | float = "none",
    durable: bool = False,
    log: str | os.PathLike[str] | None = None,
    attach: bool = False,
) -> Drive:
    """Returns a drive that is served in a ``with`` block: ``with smrkit.drive("st5000as0011", capacity="64GB") as d``.

    Options are those of ``smrkit create`` and ``smrkit serve``; `parameters` are ``LAYER.KEY=VALUE``. With `attach`, the drive is a loop device (or,
    without root, a file) instead of an NBD server. The command is ``smrkit`` on the path, or the program that ``$SMRKIT`` names.
    """
    named = {"--drive": name, "--layer": layer, "--array": array, "--capacity": capacity, "--state": state}
    create = [word for option, value in named.items() if value is not None for word in (option, os.fspath(value))]
    create += [word for parameter in parameters for word in ("--set", parameter)]
    serve = ["--pace", str(pace), "--durable", "on" if durable else "off"]
    if log is not None:
        serve += ["--log", os.fspath(log)]
    return Drive(create, serve, attach, None if log is None else Path(log))
