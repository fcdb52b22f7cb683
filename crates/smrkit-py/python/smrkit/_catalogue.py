"""Layers and drives, as ``smrkit layers --json`` and ``smrkit drives --json`` list them."""

import json
from typing import Any

from smrkit import _native


def layers(name: str | None = None) -> Any:
    """Lists the layers with their parameters, or describes the layer ``name``.

    Examples
    --------
    >>> import smrkit
    >>> [layer["name"] for layer in smrkit.layers()][:2]
    ['in-place', 'rmw']
    >>> smrkit.layers("rmw")["parameters"][0]["key"]
    'region_sectors'
    """
    return json.loads(_native.layers(name))


def drives(name: str | None = None) -> Any:
    """Lists the drives that come with smrkit, or describes a drive in full, by its name or the path of its file.

    Examples
    --------
    >>> import smrkit
    >>> "st5000as0011" in [drive["name"] for drive in smrkit.drives()]
    True
    >>> smrkit.drives("tiny")["clock"]
    'mechanical'
    """
    return json.loads(_native.drives(name))


def drive_file(name: str) -> str:
    """Returns the text of the file of a drive that comes with smrkit, as a start for a drive of your own.

    Examples
    --------
    >>> import smrkit
    >>> "rpm" in smrkit.drive_file("tiny")
    True
    """
    return _native.drive_file(name)
