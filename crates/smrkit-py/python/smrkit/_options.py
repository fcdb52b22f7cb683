"""Converts arguments to the options of the command, which has the same names and reads them with the same parser."""

import os
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any


def text(value: Any) -> str:
    """The text of a value on the command line."""
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, timedelta):
        return f"{value // timedelta(microseconds=1)}us"
    if isinstance(value, os.PathLike):
        return str(os.fspath(value))
    return str(value)


def _as_list(value: Any) -> list[Any]:
    if isinstance(value, str) or not isinstance(value, Iterable) or hasattr(value, "__fspath__"):
        return [value]
    return list(value)


def pairs(options: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Converts options to names and texts. Options that are ``None`` are left out."""
    converted: list[tuple[str, str]] = []
    for name, value in options.items():
        if value is None:
            continue
        if name == "set":
            converted += [(name, f"{key}={','.join(map(text, _as_list(values)))}") for key, values in value.items()]
        elif name == "layer":
            converted.append((name, ",".join(map(text, _as_list(value)))))
        else:
            # The option is given several times.
            converted += [(name, text(each)) for each in _as_list(value)]
    return converted
