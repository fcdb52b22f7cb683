"""A hash of a class's source and of all that it uses: results are kept under it."""

import dis
import hashlib
import inspect
import sys
from collections.abc import Iterator
from copyreg import dispatch_table
from functools import cached_property
from importlib import import_module
from linecache import getlines
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any


def hash_of(thing: object) -> str | None:
    """A hash of a class's source, and of the source and values that it names; ``None`` if some of that can't be read."""
    try:
        return _Hash().of(thing)
    # Objects of any library are taken apart. They may refuse with any exception, and one that contains itself recurses for ever.
    except Exception:
        return None


class _Hash:
    def __init__(self) -> None:
        self._hash = hashlib.sha256()
        # By identity, because lambdas of a module share a name.
        self._known = dict[int, object]()

    def of(self, thing: object) -> str:
        self._add(thing)
        return self._hash.hexdigest()

    def _put(self, kind: str, data: bytes) -> None:
        # The length is added, so that two different lists of texts never give the same bytes.
        self._hash.update(f"{kind} {len(data)} ".encode() + data)

    def _add(self, thing: Any) -> None:
        if isinstance(thing, type | FunctionType | ModuleType):
            self._add_code(thing)
        elif thing is None or type(thing) in (bool, int, float, complex, str, bytes):
            self._put(type(thing).__name__, thing if isinstance(thing, bytes) else repr(thing).encode())
        elif type(thing) in (tuple, list):
            self._put("items", str(len(thing)).encode())
            for each in thing:
                self._add(each)
        elif type(thing) is dict:
            self._add(list(thing.items()))
        elif type(thing) in (set, frozenset):
            # The order of a set differs between processes.
            self._add(sorted(_Hash().of(each) for each in thing))
        elif isinstance(thing, property | staticmethod | classmethod | cached_property) or hasattr(thing, "__wrapped__"):
            self._add([getattr(thing, inner, None) for inner in ("fget", "fset", "func", "__func__", "__wrapped__")])
        else:
            # As pickle takes it apart: a function and its arguments, then its state and what it holds.
            reduce = dispatch_table.get(type(thing))
            parts = reduce(thing) if reduce else thing.__reduce_ex__(4)
            self._add(parts if isinstance(parts, str) else [list(part) if isinstance(part, Iterator) else part for part in parts])

    def _add_code(self, thing: type | FunctionType | ModuleType) -> None:
        module = _module(thing)
        name = f"{module}:{getattr(thing, '__qualname__', '')}"
        self._put("name", name.encode())
        if id(thing) in self._known:
            return
        self._known[id(thing)] = thing
        if not _is_own(module):
            self._put("version", str(getattr(sys.modules.get(module.split(".")[0]), "__version__", "")).encode())
            # A library's function may wrap one of the layer's.
            self._add(_enclosed(thing) if isinstance(thing, FunctionType) else {})
        elif isinstance(thing, ModuleType):
            # A folder of modules has no file.
            self._put("source", Path(thing.__file__).read_bytes() if thing.__file__ else b"")
        elif isinstance(thing, FunctionType):
            # By its code object, because of a function that wraps another, inspect would read the wrapped one.
            self._put("source", inspect.getsource(thing.__code__).encode())
            self._add([thing.__defaults__, thing.__kwdefaults__, sorted(_used(thing).items())])
        else:
            self._put("source", inspect.getsource(thing).encode())
            self._add([thing.__mro__[1:], [item for item in vars(thing).items() if _is_written(*item)]])


def _module(thing: type | FunctionType | ModuleType) -> str:
    if isinstance(thing, FunctionType):
        # Not by `__module__`, which a function that wraps another has from the wrapped one.
        return str(thing.__globals__["__name__"])
    return thing.__name__ if isinstance(thing, ModuleType) else thing.__module__


def _is_own(module: str) -> bool:
    """Whether a module may change without smrkit, Python or an installed package becoming another version."""
    file = getattr(sys.modules.get(module), "__file__", None)
    top = module.split(".")[0]
    is_installed = file is not None and ("site-packages" in file or "dist-packages" in file)
    return top != "smrkit" and top not in sys.stdlib_module_names and not is_installed


def _is_written(name: str, value: object) -> bool:
    """Whether an attribute of a class is what its author wrote, not what Python or a decorator made of that."""
    if name.startswith("__"):
        # Methods that dataclass and its like compile have no source of their own; they follow from the class's source.
        return (
            isinstance(value, FunctionType)
            and not name.startswith("__annotate")
            and _is_own(_module(value))
            and bool(getlines(value.__code__.co_filename))
        )
    return name != "_abc_impl"


def _enclosed(function: FunctionType) -> dict[str, Any]:
    """The values that a function uses from the functions around it."""
    return dict(zip(function.__code__.co_freevars, (cell.cell_contents for cell in function.__closure__ or ())))


def _used(function: FunctionType) -> dict[str, Any]:
    """What a function's code names: values of its module, of functions around it and of other modules, and what it imports."""
    codes, names, imports = [function.__code__], set[str](), set[str]()
    while codes:
        code = codes.pop()
        names.update(code.co_names)
        imports.update(step.argval for step in dis.get_instructions(code) if step.opname == "IMPORT_NAME")
        codes += [const for const in code.co_consts if isinstance(const, CodeType)]
    used = {name: function.__globals__[name] for name in names if name in function.__globals__}
    used |= _enclosed(function)
    for name in imports:
        try:
            used[name] = import_module(name)
        except ImportError:
            used[name] = import_module(f".{name}", function.__globals__["__package__"])
    for name, module in list(used.items()):
        if isinstance(module, ModuleType) and _is_own(module.__name__):
            used |= {f"{name}.{inner}": value for inner, value in vars(module).items() if inner in names}
    return used
