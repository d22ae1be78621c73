"""The DB-API (PEP 249). `coscan` itself is a module of the DB-API, too: it has `connect`, `apilevel` and the exceptions.

>>> import coscan
>>> with coscan.connect().cursor() as cursor:
...     _ = cursor.execute("SELECT n FROM (VALUES (1), (2), (3)) AS t (n) WHERE n > ? ORDER BY n", [1])
...     cursor.fetchall()
[(2,), (3,)]
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from . import _coscan
from .connection import Connection, Parameters, connect
from .errors import (
    DatabaseError,
    DataError,
    Error,
    IntegrityError,
    InterfaceError,
    InternalError,
    NotSupportedError,
    OperationalError,
    ProgrammingError,
    Warning,  # noqa: A004
)

if TYPE_CHECKING:
    import pyarrow

__all__ = [
    "Connection",
    "Cursor",
    "DataError",
    "DatabaseError",
    "Error",
    "IntegrityError",
    "InterfaceError",
    "InternalError",
    "NotSupportedError",
    "OperationalError",
    "ProgrammingError",
    "Warning",
    "apilevel",
    "connect",
    "paramstyle",
    "threadsafety",
]

apilevel = "2.0"
threadsafety = 2
"""Threads may share the module and connections, but not cursors."""
paramstyle = "qmark"

Column = tuple[str, str, None, None, None, None, None]


class Cursor:
    """Runs statements and fetches their rows."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        """The connection."""
        self.arraysize = 1
        """Rows that `fetchmany` takes."""
        self.rowcount = -1
        """Always -1: rows come as they are computed."""
        self._columns: list[Column] | None = None
        self._rows: _coscan.Rows | None = None
        self._closed = False

    @property
    def description(self) -> list[Column] | None:
        """Name and Arrow type of each column, and five times nothing."""
        return self._columns

    def execute(self, query: str, params: Parameters | None = None) -> Self:
        """Runs a statement."""
        self._check()
        self._end()
        planned = self.connection.sql(query, params)
        self._columns = [
            (name, kind, None, None, None, None, None)
            for name, kind in zip(planned.columns, planned.types, strict=True)
        ] or None
        self._rows = planned._native.start()
        return self

    def executemany(self, query: str, params: Iterable[Parameters]) -> Self:
        """Runs a statement once with each set of parameters. Its rows are not kept."""
        for given in params:
            self.execute(query, given)
            self.fetchall()
        return self

    def fetchone(self) -> tuple[Any, ...] | None:
        """The next row, or `None` at the end."""
        rows = self._running().fetch(1)
        return rows[0] if rows else None

    def fetchmany(self, size: int | None = None) -> list[tuple[Any, ...]]:
        """Up to `size` rows, or up to `arraysize`."""
        return self._running().fetch(self.arraysize if size is None else size)

    def fetchall(self) -> list[tuple[Any, ...]]:
        """All rows that are left."""
        return self._running().fetch(None)

    def fetch_arrow_table(self) -> pyarrow.Table:
        """All batches that are left, as a table of pyarrow."""
        import pyarrow

        return pyarrow.table(self._running().collect())

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        while (row := self.fetchone()) is not None:
            yield row

    def setinputsizes(self, sizes: object) -> None:
        """Does nothing."""

    def setoutputsize(self, size: int, column: int | None = None) -> None:
        """Does nothing."""

    def close(self) -> None:
        """Ends the statement, if it runs, and closes the cursor."""
        self._end()
        self._closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _check(self) -> None:
        if self._closed:
            raise InterfaceError("the cursor is closed")

    def _running(self) -> _coscan.Rows:
        self._check()
        if self._rows is None:
            raise InterfaceError("no statement has run: call execute first")
        return self._rows

    def _end(self) -> None:
        if self._rows is not None:
            self._rows.cancel()
        self._rows = self._columns = None
