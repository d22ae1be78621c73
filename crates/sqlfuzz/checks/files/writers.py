"""Writers of Parquet files, each with its drawn options.

A writer that refuses a table or a type raises an exception. The table is then written by pyarrow, with its defaults.
"""

from __future__ import annotations

import random
import shutil
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from . import legacy_types, writers_apart

PYARROW, DUCKDB, POLARS, FASTPARQUET = "pyarrow", "duckdb", "polars", "fastparquet"
#: The file exists, and is copied.
KEPT = "kept"

#: Bytes whose type is changed later have encodings that both types allow.
OF_LEGACY_TYPES = {"use_dictionary": True, "data_page_version": "1.0", "write_page_index": True}

CODECS = ["none", "none", "snappy", "gzip", "zstd", "lz4", "brotli"]


def draw_writer(draw: random.Random, schema: pa.Schema, groups: tuple[int, ...]) -> tuple[str, dict]:
    writer = draw.choice([PYARROW] * 6 + [DUCKDB, POLARS, POLARS, FASTPARQUET])
    return writer, {PYARROW: draw_pyarrow, DUCKDB: draw_duckdb, POLARS: draw_polars, FASTPARQUET: draw_fastparquet}[writer](
        draw, schema
    )


def draw_pyarrow(draw: random.Random, schema: pa.Schema) -> dict:
    columns = schema.names
    batch, page = draw.choice([(1024, 1 << 20), (1024, 1 << 20), (4, 16), (4, 200), (16, 1)])
    options = {
        "version": draw.choice(["1.0", "2.4", "2.6", "2.6"]),
        "data_page_version": draw.choice(["1.0", "1.0", "2.0"]),
        "compression": draw.choice(CODECS),
        "write_statistics": draw.choice([True, True, True, True, False, draw.sample(columns, draw.randint(0, len(columns)))]),
        "use_dictionary": draw.choice([True, True, False]),
        "write_page_index": draw.random() < 0.5,
        # Parquet itself has no durations.
        "store_schema": draw.random() < 0.6 or any("duration" in str(type) for type in schema.types),
        "write_batch_size": batch,
        "data_page_size": page,
    }
    if draw.random() < 0.15:
        options["use_deprecated_int96_timestamps"] = True
    if draw.random() < 0.15:
        options["store_decimal_as_integer"] = True
    if draw.random() < 0.2:
        options["use_compliant_nested_type"] = False
    if draw.random() < 0.1:
        options["write_page_checksum"] = True
    return options


def draw_duckdb(draw: random.Random, _schema: pa.Schema) -> dict:
    return {
        "PARQUET_VERSION": draw.choice(["V1", "V2"]),
        "COMPRESSION": draw.choice(["uncompressed", "snappy", "gzip", "zstd", "lz4_raw", "brotli"]),
        "ROW_GROUP_SIZE": draw.choice(["2048", "122880"]),
        "DICTIONARY_SIZE_LIMIT": draw.choice(["0", "10000"]),
    }


def draw_polars(draw: random.Random, _schema: pa.Schema) -> dict:
    return {
        "compression": draw.choice(["uncompressed", "snappy", "gzip", "zstd", "lz4", "brotli"]),
        "statistics": draw.choice([True, True, False, "full", {"min": True, "max": False, "null_count": draw.random() < 0.5}]),
        "row_group_size": draw.choice([None, 1, 7, 50]),
        "data_page_size": draw.choice([None, 64]),
    }


def draw_fastparquet(draw: random.Random, _schema: pa.Schema) -> dict:
    return {
        "compression": draw.choice(["UNCOMPRESSED", "SNAPPY", "GZIP", "ZSTD"]),
        "has_nulls": draw.choice([True, True, "infer"]),
        "times": draw.choice(["int64", "int96"]),
        "stats": draw.choice([True, "auto", False]),
    }


def write(path: Path, file) -> None:
    """Writes the rows of the file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if legacy_types.is_needed(file.rows.schema):
        write_pyarrow(path, replace(file, rows=legacy_types.encoded(file.rows), options=dict(OF_LEGACY_TYPES)))
        legacy_types.mark(path, file.rows.schema, len(file.groups))
        return
    own = {PYARROW: write_pyarrow, DUCKDB: write_duckdb, POLARS: write_polars, FASTPARQUET: write_fastparquet}
    if file.writer == KEPT:
        shutil.copy(file.options["path"], path)
        return
    writer = own.get(file.writer, writers_apart.write)
    try:
        writer(path, file)
    except Exception:
        # Every writer lacks some type, and each reports this in its own way.
        write_plainly(path, file.rows)


def write_plainly(path: Path, rows: pa.Table) -> None:
    pq.write_table(rows, path)


def write_pyarrow(path: Path, file) -> None:
    options, order = dict(file.options), file.order
    if order and order.is_claimed:
        at = file.rows.schema.names.index(order.column)
        options["sorting_columns"] = [pq.SortingColumn(at, order.descending, order.nulls_first)]
    if len(set(file.rows.schema.names)) < len(file.rows.schema.names):
        options["write_statistics"] = True
    with pq.ParquetWriter(path, file.rows.schema, **options) as writer:
        begin = 0
        for rows in file.groups:
            writer.write_table(file.rows.slice(begin, rows), row_group_size=max(rows, 1))
            begin += rows


def write_duckdb(path: Path, file) -> None:
    import duckdb

    with duckdb.connect(config={"threads": 1}) as database:
        database.register("given", file.rows)
        options = "".join(f", {name} {value}" for name, value in file.options.items())
        quoted = str(path).replace("'", "''")
        database.execute(f"COPY given TO '{quoted}' (FORMAT parquet{options})")


def write_polars(path: Path, file) -> None:
    import polars

    polars.from_arrow(file.rows).write_parquet(path, **file.options)


def is_bytes(type: pa.DataType) -> bool:
    return pa.types.is_binary(type) or pa.types.is_large_binary(type) or pa.types.is_fixed_size_binary(type)


def write_fastparquet(path: Path, file) -> None:
    import fastparquet

    frame = file.rows.to_pandas()
    begins = [sum(file.groups[:at]) for at in range(len(file.groups)) if file.groups[at]] or [0]
    fastparquet.write(str(path), frame, row_group_offsets=begins, write_index=False, **file.options)
    written = pq.read_schema(path)
    for field in file.rows.schema:
        type = written.field(field.name).type
        if any(is_of(field.type) != is_of(type) for is_of in (pa.types.is_decimal, pa.types.is_duration, is_bytes)):
            raise ValueError(f"fastparquet writes {field.name}, whose values are all null, as {type}")
