"""Tables that any library of data frames takes as Arrow, without a copy."""

from importlib import import_module
from typing import Any

from smrkit import _native
from smrkit._errors import UsageError


def library(name: str) -> Any:
    """Imports a library of data frames, only when it is needed."""
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        raise UsageError(f"this takes {name}: pip install smrkit[frames], or pip install {name}") from error


class Table:
    """A table in columns: latencies or accesses of a run, or the requests of a trace.

    It has the Arrow PyCapsule interface, so that ``polars.DataFrame(table)``, ``pyarrow.table(table)``, DuckDB, and also
    :func:`smrkit.run` (``requests=table``) take it as it is.
    """

    def __init__(self, rows: _native.Rows) -> None:
        self._rows = rows

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """The table as an Arrow stream."""
        return self._rows.__arrow_c_stream__(requested_schema)

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def columns(self) -> list[str]:
        """Names of the columns."""
        return self._rows.names()

    def __repr__(self) -> str:
        return f"<{len(self)} rows: {', '.join(self.columns)}>"

    def to_arrow(self) -> Any:
        """The table as a ``pyarrow.Table``."""
        return library("pyarrow").table(self)

    def to_polars(self) -> Any:
        """The table as a ``polars.DataFrame``."""
        return library("polars").DataFrame(self)

    def to_pandas(self) -> Any:
        """The table as a ``pandas.DataFrame``, converted by pyarrow."""
        return self.to_arrow().to_pandas()
