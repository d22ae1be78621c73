"""The DB-API (PEP 249). `coscan` itself is a module of the DB-API, too: it has `connect`, `apilevel` and the exceptions.

>>> import coscan
>>> with coscan.connect().cursor() as cursor:
...     _ = cursor.execute("SELECT n FROM (VALUES (1), (2), (3)) AS t (n) WHERE n > ? ORDER BY n", [1])
...     cursor.fetchall()
[(2,), (3,)]
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
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
    "BINARY",
    "DATETIME",
    "NUMBER",
    "ROWID",
    "STRING",
    "Binary",
    "Connection",
    "Cursor",
    "DataError",
    "DatabaseError",
    "Date",
    "DateFromTicks",
    "Error",
    "IntegrityError",
    "InterfaceError",
    "InternalError",
    "NotSupportedError",
    "OperationalError",
    "ProgrammingError",
    "Time",
    "TimeFromTicks",
    "Timestamp",
    "TimestampFromTicks",
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

Date = dt.date
Time = dt.time
Timestamp = dt.datetime
DateFromTicks = dt.date.fromtimestamp
TimestampFromTicks = dt.datetime.fromtimestamp
Binary = bytes


def TimeFromTicks(ticks: float) -> dt.time:  # noqa: N802 (PEP 249 has this name)
    """The time of day, in the local zone, of a number of seconds since 1970."""
    return dt.datetime.fromtimestamp(ticks).time()


class TypeObject:
    """Equals the types of columns, which `Cursor.description` has as text, of one kind.

    >>> STRING == "Utf8View", NUMBER == "Decimal128(10, 2)", NUMBER == "Utf8"
    (True, True, False)
    """

    def __init__(self, *names: str) -> None:
        self._names = names

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, str):
            return self is other
        if other.startswith("Dictionary("):
            other = other.rpartition(", ")[2]
        return other.partition("(")[0].rstrip(")").rstrip("0123456789") in self._names

    __hash__ = object.__hash__


STRING = TypeObject("Utf", "LargeUtf", "Utf8View")
BINARY = TypeObject("Binary", "LargeBinary", "BinaryView", "FixedSizeBinary")
NUMBER = TypeObject("Int", "UInt", "Float", "Decimal")
DATETIME = TypeObject("Date", "Time", "Timestamp", "Duration", "Interval")
ROWID = TypeObject()

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
        self._failed = False
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
        self._check()
        for given in params:
            self.execute(query, given)
            self.fetchall()
        return self

    def fetchone(self) -> tuple[Any, ...] | None:
        """The next row, or `None` at the end."""
        rows = self._fetch(1)
        return rows[0] if rows else None

    def fetchmany(self, size: int | None = None) -> list[tuple[Any, ...]]:
        """Up to `size` rows, or up to `arraysize`."""
        count = self.arraysize if size is None else size
        if count < 0:
            raise ProgrammingError(f"fetchmany takes no {count} rows")
        return self._fetch(count)

    def fetchall(self) -> list[tuple[Any, ...]]:
        """All rows that are left."""
        return self._fetch(None)

    def fetch_arrow_table(self) -> pyarrow.Table:
        """All batches that are left, as a table of pyarrow."""
        import pyarrow

        with self._running() as rows:
            return pyarrow.table(rows.collect())

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
        if self.connection.closed:
            raise InterfaceError("the connection is closed")

    def _fetch(self, count: int | None) -> list[tuple[Any, ...]]:
        with self._running() as rows:
            return rows.fetch(count)

    @contextmanager
    def _running(self) -> Iterator[_coscan.Rows]:
        """The rows. Whoever takes rows after an error gets one again, and not the end of the rows."""
        self._check()
        if self._failed:
            raise InterfaceError("the statement has failed: call execute again")
        if self._rows is None:
            raise InterfaceError("no statement has run: call execute first")
        try:
            yield self._rows
        except BaseException:
            self._failed = True
            raise

    def _end(self) -> None:
        if self._rows is not None:
            self._rows.cancel()
        self._rows = self._columns = None
        self._failed = False
