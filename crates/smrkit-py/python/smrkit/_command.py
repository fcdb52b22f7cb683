"""The command ``smrkit``, which is part of the native module."""

import os
import shutil
import signal
import subprocess
import sys
from typing import NoReturn

from smrkit import _native
from smrkit._errors import Error, UsageError


def found() -> str:
    """The command on the path, or the program that ``$SMRKIT`` names."""
    program = shutil.which(os.environ.get("SMRKIT", "smrkit"))
    if program is None:
        raise UsageError("there is no command smrkit on the path: install it, or name it in $SMRKIT")
    return program


def output(*words: str) -> str:
    """Runs the command, and returns its output."""
    done = subprocess.run([found(), *words], capture_output=True, text=True)
    if done.returncode != 0:
        raise Error(done.stderr.strip().removeprefix("smrkit: "))
    return done.stdout


def main() -> NoReturn:
    """Executes the command line of this process, and ends the process."""
    # Python's handler only sets a flag for Python code to see, and none runs from here on. An ignored interrupt stays ignored.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    # The command runs studies with this Python.
    os.environ.setdefault("SMRKIT_PYTHON", sys.executable)
    # mount(8) calls a helper that is a link to the command, so the link is resolved.
    _native.command(sys.argv, os.path.realpath(sys.argv[0]))
