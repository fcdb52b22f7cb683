"""The command ``smrkit``, which the native module has."""

import os
import signal
import sys
from typing import NoReturn

from smrkit import _native


def main() -> NoReturn:
    """Executes the command line of this process, and ends it."""
    # As for a program of its own: Python would only note an interrupt, for code of its own to see. One that is ignored stays so.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    # Studies run on the Python that brought the command. A helper of mount(8) is a link to it.
    os.environ.setdefault("SMRKIT_PYTHON", sys.executable)
    _native.command(sys.argv, os.path.realpath(sys.argv[0]))
