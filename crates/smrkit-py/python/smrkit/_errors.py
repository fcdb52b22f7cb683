"""The exceptions, in one hierarchy."""


class Error(Exception):
    """The base of all exceptions of smrkit. The message says what to do."""


class UsageError(Error, ValueError):
    """An argument, a parameter or a name that makes no sense."""


class InputError(Error, ValueError):
    """A trace, a table or a file that can't be read or understood, or asks for more than the disk has."""


class ImpossibleError(Error, ValueError):
    """A configuration that no drive could have."""


class FaultError(Error):
    """Data damaged, stale or lost: a check found that a layer breaks its promise."""
