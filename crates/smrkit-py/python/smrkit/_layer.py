"""Layers written in Python, on the simulator's checked disk."""

import inspect
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias, get_args, get_origin

from smrkit import _native
from smrkit._code import hash_of

#: Why the platters are accessed. Amplification is computed from it.
Cause: TypeAlias = Literal["host", "destage", "clean", "map"]


class Disk(Protocol):
    """The disk. Every access of the platters is checked against the shingling law, takes its time, and is counted.

    A disk can be used only during the call of the layer's method that it was passed to.
    """

    @property
    def now_ns(self) -> int:
        """The simulated time."""
        ...

    def read(self, pba: int, sectors: int, out: _native.Buffer, at: int, cause: Cause) -> None:
        """Reads sectors into a buffer, from the buffer's sector ``at`` on."""
        ...

    def write(self, pba: int, sectors: int, data: _native.Buffer, at: int, cause: Cause) -> None:
        """Writes sectors from a buffer, from the buffer's sector ``at`` on. Destroys neighbours as the shingling law says."""
        ...

    def buffer(self, sectors: int) -> _native.Buffer:
        """Returns an empty buffer for this many sectors.

        Its ``put(at, source, first, count)`` copies sectors from another buffer. Sectors outside a buffer raise an IndexError.
        """
        ...

    def flush(self) -> None:
        """Makes all writes durable: writes the drive's write cache to the platters."""
        ...


class Layer:
    """A translation layer: derive from it, set ``host_sectors``, and :func:`register` it.

    Arguments of ``__init__`` after the drive are the layer's parameters. A layer ``mine`` with ``def __init__(self, drive, spare=5.0,
    policy: Literal["fifo", "greedy"] = "fifo")`` is run with ``set={"mine.spare": [5, 10]}``. Each parameter has a default: a bool, a
    number that is not negative, or a word.

    The drive is described by its geometry:

    - ``drive.sectors`` and ``drive.tracks`` are its size, ``drive.zones`` its recording zones
    - ``drive.track_start(track)``, ``track_sectors(track)`` and ``track_of(pba)`` describe a track; ``track_starts()`` is an array of the
      first sectors of all tracks, and the end of the last one
    - ``drive.interference`` is the shingling law, and ``destroyed(pba, sectors)`` lists the sectors that a write destroys
    - ``drive.guard_tracks`` or ``guard_sectors`` between two regions keep writes to one from destroying the other

    These methods are optional:

    - ``step(disk, must)`` does one step of cleaning and returns whether there was any. ``must`` is false in idle time, for cleaning that
      helps but is not due
    - ``discard(disk, lba, sectors)`` drops data
    - ``flush(disk)`` writes data that is only in memory, and ends with ``disk.flush()``
    - ``gauges()`` returns a dict for the timeline: ``cache_fill``, from 0 to 1, and others, where a float is a share, and an int is a count,
      or bytes if the name ends in ``_bytes``
    - ``reset_stats()`` resets the counters, after a warm-up
    - ``check()`` raises an exception if the layer's state is inconsistent
    - ``power_cut()`` drops the contents of volatile memory
    - ``state()`` and ``restore(state)`` save the layer's state as bytes, for ``save_state`` and ``from_state``

    A layer runs on the thread that called :func:`run`.

    Attributes
    ----------
    host_sectors
        Sectors offered to the host.
    cache_sectors
        Sectors of a persistent cache. If there are none, the verdict says that writes wait for rewriting, not for cleaning.
    spare_sectors
        Sectors of spare and scratch space. The rest of the drive counts as guards.
    map_bytes
        Memory of the maps. It may be a property.
    idle_delay_ns
        Time without a command after which ``step(disk, False)`` is called; ``None`` if the layer does not use idle time.
    keeps_acknowledged
        True if a power cut loses no acknowledged data.

    Examples
    --------
    Every third track is used, so that no write damages data:

    >>> import bisect, smrkit
    >>> class Spaced(smrkit.Layer):
    ...     def __init__(self, drive):
    ...         used = range(0, drive.tracks, 3)
    ...         self.starts, self.places, self.host_sectors = [], [], 0
    ...         for track in used:
    ...             self.starts.append(self.host_sectors)
    ...             self.places.append(drive.track_start(track))
    ...             self.host_sectors += drive.track_sectors(track)
    ...
    ...     def home(self, lba):
    ...         at = bisect.bisect(self.starts, lba) - 1
    ...         return self.places[at] + lba - self.starts[at]
    ...
    ...     def pieces(self, lba, sectors):
    ...         done = 0
    ...         while done < sectors:
    ...             at = bisect.bisect(self.starts, lba + done)
    ...             end = self.starts[at] if at < len(self.starts) else self.host_sectors
    ...             n = min(sectors - done, end - lba - done)
    ...             yield self.home(lba + done), n, done
    ...             done += n
    ...
    ...     def read(self, disk, lba, sectors, out):
    ...         for pba, n, done in self.pieces(lba, sectors):
    ...             disk.read(pba, n, out, done, "host")
    ...
    ...     def write(self, disk, lba, sectors, data):
    ...         for pba, n, done in self.pieces(lba, sectors):
    ...             disk.write(pba, n, data, done, "host")
    >>> smrkit.register("every-third-track", Spaced)
    >>> outcome = smrkit.run(drive="tiny", layer="every-third-track", workload="random-write:count=500", check=True)
    >>> outcome.write_amplification
    1.0
    """

    host_sectors: int
    cache_sectors: int = 0
    spare_sectors: int = 0
    map_bytes: int = 0
    idle_delay_ns: int | None = None

    def __init__(self, drive: _native.Geometry) -> None:
        """Makes the layer for an empty drive."""
        self.host_sectors = drive.sectors

    def read(self, disk: Disk, lba: int, sectors: int, out: _native.Buffer) -> None:
        """Reads ``sectors`` from ``lba`` on into ``out``."""
        raise NotImplementedError

    def write(self, disk: Disk, lba: int, sectors: int, data: _native.Buffer) -> None:
        """Writes ``sectors`` of ``data`` at ``lba``; returns when the host's write is complete."""
        raise NotImplementedError

    def home(self, lba: int) -> int:
        """The PBA of an LBA on a disk that was written once, in order. A larger LBA must have a larger PBA."""
        return lba

    def locate(self, lba: int) -> int:
        """The PBA that holds an LBA now. It is the LBA's home unless the layer moves data."""
        return self.home(lba)

    def stats(self) -> dict[str, int]:
        """The layer's own counters, for ``layer_stats``."""
        return {}


def register(name: str, layer: type[Layer], summary: str | None = None, *, version: str | None = None) -> None:
    """Registers a layer: from now on this process can use its name wherever a layer is named.

    A second layer of the same name replaces the first, as when a notebook's cell is run again.

    Parameters
    ----------
    name
        The layer's name.
    layer
        Its class.
    summary
        A line about it; by default the first line of the class's docstring.
    version
        Identifies this version of the layer's code: :func:`smrkit.sweep` finds results by it. By default it is a hash, computed anew when a sweep
        begins. It covers the source of the class, its bases, and your functions, classes and modules that they name, and the values of the
        names that they use, such as dicts, arrays and data classes. Give a version if the source can't be read (classes made by ``exec`` or at
        the Python prompt, compiled modules), if a value can't be pickled, or if the layer depends on files that it reads.
    """
    text = summary or next(iter((layer.__doc__ or "A layer of one's own.").strip().splitlines()))
    registration = _Registration(text, layer, version or hash_of(layer))
    registration.register(name)
    _WITHOUT_VERSION.pop(name, None)
    if version is None:
        _WITHOUT_VERSION[name] = registration


class _Registration(NamedTuple):
    summary: str
    layer: type[Layer]
    code: str | None

    def register(self, name: str) -> None:
        _native.register(name, self.summary, self.layer, self.code, list(_parameters(self.layer)))


#: Layers that were registered without a version.
_WITHOUT_VERSION: dict[str, _Registration] = {}


def hash_again() -> None:
    """Registers layers without a version again if their hash is another one now, because values that they use have changed."""
    for name, registration in list(_WITHOUT_VERSION.items()):
        if (code := hash_of(registration.layer)) != registration.code:
            _WITHOUT_VERSION[name] = registration._replace(code=code)
            _WITHOUT_VERSION[name].register(name)


def _parameters(layer: type[Layer]) -> Iterator[tuple[str, Any, list[str]]]:
    """Lists the arguments of a layer's class after the drive, each with its default and the words that it takes."""
    try:
        signature = inspect.signature(layer, eval_str=True)
    except NameError:
        # An annotation in quotes names something that exists for type checkers only.
        signature = inspect.signature(layer)
    for argument in list(signature.parameters.values())[1:]:
        if argument.kind not in (argument.VAR_POSITIONAL, argument.VAR_KEYWORD):
            words = get_args(argument.annotation) if get_origin(argument.annotation) is Literal else ()
            yield argument.name, argument.default, [str(word) for word in words]
