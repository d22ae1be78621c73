"""Lazy queries and complete results, and their conversions to the tables of other libraries."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from html import escape
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from . import _coscan
from .progress import collected

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

Native = TypeVar("Native", _coscan.Query, _coscan.Table)

_SHOWN = 20
"""Rows that a display shows."""


class Frame(ABC, Generic[Native]):
    """What queries and results have in common: columns, and rows that any library of data frames can take.

    The rows cross as Arrow data without a copy. `pyarrow`, `polars` and `pandas` are imported when they are asked for.
    Objects of this class can be passed wherever a library takes an object with `__arrow_c_stream__`.
    """

    _native: Native

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return self._native.columns

    @property
    def types(self) -> list[str]:
        """The Arrow types of the columns, as text."""
        return self._native.types

    @abstractmethod
    def _table(self) -> _coscan.Table:
        """All rows."""

    @abstractmethod
    def _first(self, rows: int) -> _coscan.Table:
        """Some of the first rows."""

    @abstractmethod
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The rows as a capsule of Arrow's C stream interface."""

    def __arrow_c_schema__(self) -> object:
        """The columns as a capsule of Arrow's C data interface."""
        return self._native.__arrow_c_schema__()

    def arrow(self) -> pyarrow.Table:
        """The rows as a table of pyarrow."""
        import pyarrow

        return pyarrow.table(self._table())

    def pl(self) -> polars.DataFrame:
        """The rows as a data frame of polars, whose names of columns differ: two of the name `a` are `a` and `a_1`."""
        import polars

        return polars.DataFrame(self._table().with_unique_names())

    def df(self) -> pandas.DataFrame:
        """The rows as a data frame of pandas.

        Decimals become objects of `decimal.Decimal`, and dates `datetime.date`, as pyarrow converts them.
        """
        return _for_pandas(self.arrow()).to_pandas()

    def fetchall(self) -> list[tuple[Any, ...]]:
        """The rows as tuples of Python's values."""
        return self._table().rows()

    def to_batches(self) -> list[pyarrow.RecordBatch]:
        """The rows as record batches of pyarrow."""
        batches: list[pyarrow.RecordBatch] = self.arrow().to_batches()
        return batches

    def show(self, rows: int = _SHOWN) -> None:
        """Prints the first rows."""
        print(self._first(rows).text())

    def _repr_html_(self) -> str:
        table = self._first(_SHOWN + 1)
        head = "".join(
            f"<th>{escape(name)}<br><small>{escape(kind)}</small></th>"
            for name, kind in zip(table.columns, table.types, strict=True)
        )
        rows = table.rows()
        body = "".join(
            "<tr>" + "".join(f"<td>{_cell(value)}</td>" for value in row) + "</tr>" for row in rows[:_SHOWN]
        )
        more = f"<p><small>the first {_SHOWN} rows</small></p>" if len(rows) > _SHOWN else ""
        return f'<table class="coscan"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}'


class Query(Frame[_coscan.Query]):
    """A statement that is planned and not yet run. Each conversion runs it.

    Iteration gives its record batches as they are computed. The query waits while the loop is busy, and ends when the
    loop does.
    """

    def __init__(self, native: _coscan.Query, sql: str) -> None:
        self._native = native
        self.sql = sql
        """The statement's text."""

    def collect(self) -> Result:
        """Runs the query to its end and keeps its rows."""
        return Result(self._table())

    def reader(self) -> pyarrow.RecordBatchReader:
        """The rows as a reader of pyarrow, which takes them as they are computed."""
        import pyarrow

        # pyarrow passes on the exceptions of an iterator, also that of Ctrl-C.
        schema = pyarrow.schema(self)
        batches = (pyarrow.RecordBatch.from_arrays(batch.columns, schema=schema) for batch in self)
        return pyarrow.RecordBatchReader.from_batches(schema, batches)

    def explain(self, *, analyze: bool = False, verbose: bool = False) -> str:
        """The plan as text. With `analyze` the query runs, and each operator has its counters."""
        table = self._native.explain(verbose, analyze).start().collect()
        return "\n".join(str(text) for _, text in table.rows())

    def __iter__(self) -> Iterator[pyarrow.RecordBatch]:
        return iter(Scan(self._native.start))

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self._native.start().__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        columns = ", ".join(f"{name} {kind}" for name, kind in zip(self.columns, self.types, strict=True))
        return f"<coscan.Query of {columns or 'no columns'}>"

    def _table(self) -> _coscan.Table:
        return collected(self._native.start())

    def _first(self, rows: int) -> _coscan.Table:
        return self._native.limit(rows).start().collect()


class Result(Frame[_coscan.Table]):
    """The rows of a query that has run."""

    def __init__(self, native: _coscan.Table) -> None:
        self._native = native

    def __len__(self) -> int:
        return len(self._native)

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return iter(self.fetchall())

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self._native.__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        return f"<coscan.Result of {len(self)} rows, {len(self.columns)} columns>"

    def _table(self) -> _coscan.Table:
        return self._native

    def _first(self, rows: int) -> _coscan.Table:
        return self._native.first(rows)


class Scan:
    """A scan of a table. Each iteration, and each reader of its Arrow stream, runs it from the beginning."""

    def __init__(self, start: Callable[[], _coscan.Rows]) -> None:
        self._start = start

    def __iter__(self) -> Iterator[pyarrow.RecordBatch]:
        import pyarrow

        rows = self._start()
        try:
            while (batch := rows.next_batch()) is not None:
                yield pyarrow.record_batch(batch)
        finally:
            rows.cancel()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The batches as a capsule of Arrow's C stream interface."""
        return self._start().__arrow_c_stream__(requested_schema)


def _for_pandas(table: pyarrow.Table) -> pyarrow.Table:
    """The table with types that every pandas takes: views of text and small decimals have plain ones instead."""
    import pyarrow

    def plain(kind: pyarrow.DataType) -> pyarrow.DataType:
        if pyarrow.types.is_string_view(kind):
            return pyarrow.large_string()
        if pyarrow.types.is_binary_view(kind):
            return pyarrow.large_binary()
        if pyarrow.types.is_decimal(kind) and kind.bit_width < 128:
            return pyarrow.decimal128(kind.precision, kind.scale)
        return kind

    fields = [field.with_type(plain(field.type)) for field in table.schema]
    return table.cast(pyarrow.schema(fields, table.schema.metadata))


def _cell(value: object) -> str:
    text = "" if value is None else str(value)
    return escape(text if len(text) <= 80 else f"{text[:79]}…")
