"""JSON objects as mappings whose keys are attributes too."""

import json
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar


class Record(dict[str, Any]):
    """A part of an outcome or of advice: a dict whose keys are attributes too."""

    def __dir__(self) -> list[str]:
        """Attributes and keys, for completion."""
        return [*super().__dir__(), *self]

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """The value of a key."""
            try:
                return self[name]
            except KeyError:
                raise AttributeError(f"no key {name}: there are {', '.join(self)}") from None

    else:

        def __getattr__(self, name: str) -> Any: ...


class Native(Protocol):
    """An answer of the native module."""

    def json(self) -> str: ...
    def text(self) -> str: ...


class Recorded(Mapping[str, Any]):
    """A mapping with the record of a native object, which is parsed on first use."""

    def _json(self) -> str:
        """The record as JSON."""
        raise NotImplementedError

    @cached_property
    def _record(self) -> Record:
        record: Record = json.loads(self._json(), object_hook=Record)
        return record

    def __getitem__(self, key: str) -> Any:
        return self._record[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._record)

    def __len__(self) -> int:
        return len(self._record)

    def __dir__(self) -> list[str]:
        """Attributes and keys, for completion."""
        return [*super().__dir__(), *self]

    def _ipython_key_completions_(self) -> list[str]:
        return list(self)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """The value of a key."""
            if name.startswith("_"):
                raise AttributeError(name)
            return getattr(self._record, name)


N = TypeVar("N", bound=Native)


class Answer(Recorded, Generic[N]):
    """An answer, which prints what the command prints."""

    def __init__(self, native: N) -> None:
        self._native = native

    def _json(self) -> str:
        return self._native.json()

    def __str__(self) -> str:
        return self._native.text()

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        return {"text/plain": str(self)}

    def json(self) -> str:
        """The answer, as the command writes it with ``--json``."""
        return self._native.json()
