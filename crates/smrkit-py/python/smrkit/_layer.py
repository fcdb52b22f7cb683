"""Layers of one's own, on the simulator's checked disk."""

import inspect
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias, get_args, get_origin

from smrkit import _native
from smrkit._code import hash_of

#: Who asked for an access of the platters: amplification follows from it.
Cause: TypeAlias = Literal["host", "destage", "clean", "map"]


class Disk(Protocol):
    """The only way to the platters: every access is checked against the shingling law, charged and counted.

    It is lent for one call of a layer's method.
    """

    @property
    def now_ns(self) -> int:
        """The time."""
        ...

    def read(self, pba: int, sectors: int, out: _native.Buffer, at: int, cause: Cause) -> None:
        """Reads sectors into a buffer, its sector ``at`` on."""
        ...

    def write(self, pba: int, sectors: int, data: _native.Buffer, at: int, cause: Cause) -> None:
        """Writes sectors from a buffer, its sector ``at`` on; destroys neighbours as the shingling law says."""
        ...

    def buffer(self, sectors: int) -> _native.Buffer:
        """A buffer with room for sectors; ``put(at, source, first, count)`` lays sectors of another over its own.

        Sectors outside a buffer are an IndexError.
        """
        ...

    def flush(self) -> None:
        """Makes all writes durable, by emptying the drive's write cache to the platters."""
        ...


class Layer:
    """A translation layer: derive from it, set ``host_sectors``, and :func:`register` it.

    Arguments of ``__init__`` behind the drive are the layer's parameters: ``def __init__(self, drive, spare=5.0, policy: Literal["fifo",
    "greedy"] = "fifo")`` is run as ``set={"mine.spare": [5, 10]}``. Each has a default, which is a bool, a number from 0 on, or a word.

    Methods of your own may be added:

    - ``step(disk, must)`` does one stage of cleaning and tells whether there was any; ``must`` is false for what merely helps, in idle time
    - ``discard(disk, lba, sectors)`` drops data; ``flush(disk)`` writes what only memory holds, and ends with ``disk.flush()``
    - ``gauges()`` is a dict for the timeline: ``cache_fill``, from 0 to 1, and others, where a float is a share, an int a count, or bytes if the
      name ends in ``_bytes``. ``reset_stats()`` begins counting anew, after a warm-up
    - ``check()`` raises where the layer's books are wrong; ``power_cut()`` forgets what is in volatile memory
    - ``state()`` and ``restore(state)`` save the layer's state as bytes, for ``save_state`` and ``from_state``

    Set ``keeps_acknowledged = True`` if nothing that was acknowledged is lost in a power cut. A layer runs on the thread that called.

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

    #: Sectors offered to the host.
    host_sectors: int
    #: Those of a persistent cache, beside them.
    cache_sectors: int = 0
    #: Those of spare and scratch space; what is left of the drive counts as guards.
    spare_sectors: int = 0
    #: Bytes of memory that the maps take; a property may count them.
    map_bytes: int = 0
    #: Nanoseconds without a command after which ``step(disk, False)`` is called; ``None`` if idle time is left unused.
    idle_delay_ns: int | None = None

    def __init__(self, drive: _native.Geometry) -> None:
        """Makes the layer for an empty drive.

        ``drive.sectors`` and ``drive.tracks`` are its size. ``track_start``, ``track_sectors`` and ``track_of`` tell of one track,
        ``track_starts()`` is an array of where all begin, with the end of the last. ``zones`` are the recording zones, and ``interference``
        is the law by which a write destroys others: ``guard_tracks`` or ``guard_sectors`` keep two regions apart, and
        ``destroyed(pba, sectors)`` is what a write destroys.
        """
        self.host_sectors = drive.sectors

    def read(self, disk: Disk, lba: int, sectors: int, out: _native.Buffer) -> None:
        """Reads ``sectors`` from ``lba`` on into ``out``."""
        raise NotImplementedError

    def write(self, disk: Disk, lba: int, sectors: int, data: _native.Buffer) -> None:
        """Writes ``sectors`` of ``data`` at ``lba``; returns when the host's write is complete."""
        raise NotImplementedError

    def home(self, lba: int) -> int:
        """Where an LBA lies on a disk that was written once, in order; ascending."""
        return lba

    def locate(self, lba: int) -> int:
        """Where an LBA lies now; its home, unless the layer moves data."""
        return self.home(lba)

    def stats(self) -> dict[str, int]:
        """Counters of the layer's own, for ``layer_stats``."""
        return {}


def register(name: str, layer: type[Layer], summary: str | None = None, *, version: str | None = None) -> None:
    """Registers a layer: from then on, in this process, its name can be used wherever a layer is named.

    A second layer of the same name takes the place of the first, as when a notebook's cell is run again.

    Parameters
    ----------
    version
        What tells the layer's code from other versions of it: :func:`smrkit.sweep` keeps results under it. Without it that is a hash, taken
        anew as a sweep begins, of the source of the class, its bases, and the functions, classes and modules of yours that they name, and of
        the values of the names that they use, such as dicts, arrays and data classes. Give one where the source can't be read (classes made
        by ``exec`` or at the Python prompt, compiled modules), where a value can't be pickled, or where files that the layer reads decide.
    """
    text = summary or next(iter((layer.__doc__ or "A layer of one's own.").strip().splitlines()))
    told = _Registered(text, layer, version or hash_of(layer))
    told.register(name)
    _REGISTERED.pop(name, None)
    if version is None:
        _REGISTERED[name] = told


class _Registered(NamedTuple):
    summary: str
    layer: type[Layer]
    code: str | None

    def register(self, name: str) -> None:
        _native.register(name, self.summary, self.layer, self.code, list(_parameters(self.layer)))


#: Layers that are registered without a version.
_REGISTERED: dict[str, _Registered] = {}


def hash_again() -> None:
    """Notes the code of layers that were registered without a version as it is now: values that it uses may have changed."""
    for name, told in list(_REGISTERED.items()):
        if (code := hash_of(told.layer)) != told.code:
            _REGISTERED[name] = told._replace(code=code)
            _REGISTERED[name].register(name)


def _parameters(layer: type[Layer]) -> Iterator[tuple[str, Any, list[str]]]:
    """The layer's parameters: the arguments of its class after the drive, with their defaults and possible words."""
    try:
        signature = inspect.signature(layer, eval_str=True)
    except NameError:
        signature = inspect.signature(layer)
    for argument in list(signature.parameters.values())[1:]:
        if argument.kind not in (argument.VAR_POSITIONAL, argument.VAR_KEYWORD):
            words = get_args(argument.annotation) if get_origin(argument.annotation) is Literal else ()
            yield argument.name, argument.default, [str(word) for word in words]
