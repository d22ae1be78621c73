"""Right answers: DuckDB over the rows in its memory, without statistics of files.

The rows are those that pyarrow reads before footers are changed. For types that no Python reader knows, they are the
intended rows.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from ..compare import Answer, in_total_order, without_order
from . import legacy_types
from .answers import rows
from .kinds import DUCKDB
from .questions import Question
from .tables import KEY, File, Table


def read_rows(path: Path, file: File) -> pa.Table:
    """Returns the rows of a file, before its footer is changed."""
    fields = [field for field in file.rows.schema if not legacy_types.stored_as(field)]
    # docs/tables.md: times of 96 bits are read as microseconds.
    wide = file.options.get("use_deprecated_int96_timestamps", False) or file.options.get("times") == "int96"
    fine = [field.name for field in fields if pa.types.is_timestamp(field.type) and field.type.unit == "ns" and not wide]
    others = [field.name for field in fields if field.name not in fine]
    columns = {field.name: file.rows.column(field.name) for field in file.rows.schema if legacy_types.stored_as(field)}
    for names, unit in ((fine, "ns"), (others, "us")):
        if names:
            # A reader of one file, which takes no folder name for a key.
            try:
                read = pq.ParquetFile(path, coerce_int96_timestamp_unit=unit).read(columns=names)
            except pa.ArrowException as error:
                error.add_note(f"{path}, {file.writer} {file.options}, {file.rows.schema}")
                raise
            columns |= {name: read.column(name) for name in names}
    return pa.table({name: columns[name] for name in file.rows.schema.names})


def united(table: Table, parts: list[pa.Table]) -> pa.Table:
    """Returns the rows of all files in the table's types. A column that a file lacks is null there."""
    tables = []
    for file, part in zip(table.files, parts):
        columns = {field.name: column_of(part, field) for field in table.schema}
        if table.has_key:
            columns[KEY] = pa.chunked_array(
                [pa.array([int(file.path.split("/")[0].split("=")[1])] * part.num_rows, pa.int64())]
            )
        tables.append(pa.table(columns))
    return pa.concat_tables(tables, promote_options="permissive")


def column_of(part: pa.Table, field: pa.Field) -> pa.ChunkedArray:
    if field.name in part.schema.names:
        return plain_type(part.column(field.name), field.type)
    return pa.chunked_array([pa.nulls(part.num_rows, memory_type(field.type))])


def memory_type(type: pa.DataType) -> pa.DataType:
    """Returns the type in DuckDB. A dictionary would become an enumeration with an order of its own."""
    if pa.types.is_dictionary(type):
        return type.value_type
    return pa.float32() if pa.types.is_float16(type) else type


def plain_type(column: pa.ChunkedArray, type: pa.DataType) -> pa.ChunkedArray:
    wanted = memory_type(type)
    if pa.types.is_null(wanted):
        return pa.chunked_array([pa.nulls(len(column))])
    return column if column.type == wanted else column.cast(wanted)


class Oracle:
    """DuckDB with tables in memory."""

    def __init__(self) -> None:
        import duckdb

        self.database = duckdb.connect(config={"threads": 1})
        # DuckDB 1.5.5 rewrites `(a AND b IS DISTINCT FROM 5) OR b < 5` to a condition that no row without b meets.
        self.database.execute("SET disabled_optimizers = 'expression_rewriter'")

    def put(self, name: str, table: pa.Table) -> None:
        self.database.register("given", table)
        self.database.execute(f"CREATE OR REPLACE TABLE {name} AS FROM given")
        self.database.unregister("given")

    def drop(self, name: str) -> None:
        self.database.execute(f"DROP TABLE IF EXISTS {name}")

    def answer(self, question: Question) -> Answer | str:
        """Returns the answer, or the reason why there is none."""
        import duckdb

        try:
            found = rows(self.database.execute(question.text(DUCKDB)).fetch_arrow_table())
        except (duckdb.Error, pa.ArrowException) as error:
            return f"refused by DuckDB ({str(error).splitlines()[0][:100]})"
        return in_total_order(found) if question.in_order else without_order(found)
