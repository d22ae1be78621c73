"""The layout of a table's files: their number, folders, names, columns with types, row groups, order, and writer.

The table in DuckDB has the right answer. Values that files leave out are null there.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

#: Names of files; `{}` is a number. An equals sign makes no key of a file name.
PLAIN_NAME = "{}.parquet"
ODD_NAMES = ["date=2024-01-0{}.parquet", "k={}.parquet", "a=b={}.parquet", "part {}.parquet"]

#: Narrower types, and types of other units, that also hold the values. Values outside the narrower type are clamped.
NARROWER = {
    "BIGINT": ["INTEGER", "SMALLINT"], "INTEGER": ["SMALLINT", "TINYINT"], "SMALLINT": ["TINYINT"],
    "DOUBLE PRECISION": ["REAL"], "DECIMAL(9,2)": ["DECIMAL(6,2)", "DECIMAL(7,1)"], "DECIMAL(12,3)": ["DECIMAL(9,3)"],
    "DECIMAL(20,4)": ["DECIMAL(9,2)"], "TIMESTAMP": ["TIMESTAMP_MS"],
}

#: Columns that may be keys of folders.
KEYS = ["k", "t", "d", "v"]
KEY_TYPES = {"INTEGER", "BIGINT", "SMALLINT", "VARCHAR", "DATE"}
MOST_KEYS = 12
#: The name of the folder whose rows have no key.
NULL_KEY = "__HIVE_DEFAULT_PARTITION__"

#: Types of texts in Arrow.
TEXTS = ["string", "large_string", "string_view", "dictionary"]

#: Time zones that a writer records for a column of instants.
ZONES = ["UTC", "America/Sao_Paulo", "Asia/Kolkata", "+05:30"]


@dataclass(frozen=True)
class Writer:
    """The writer of the files, and its options. DuckDB writes at least 2048 rows per group."""

    name: str = "duckdb"
    compression: str = "snappy"
    version: int = 1
    group_rows: int = 2048
    page_bytes: int = 1 << 20
    page_index: bool = False
    dictionary: bool = True


@dataclass(frozen=True)
class Layout:
    """The files of a table."""

    files: int = 1
    #: The names of the files, in turn; `{}` is a number.
    names: tuple[str, ...] = ("{}.parquet",)
    writer: Writer = field(default_factory=Writer)
    #: A column that is the key of folders, and whether it is in the files, too.
    key: str | None = None
    key_in_files: bool = False
    #: Whether it is null in the files. The value of the folder counts.
    null_in_files: bool = False
    #: Columns that a file lacks, by its number.
    missing: tuple[tuple[int, str], ...] = ()
    #: Other types of columns in a file.
    narrower: tuple[tuple[int, str, str], ...] = ()
    #: Columns without nulls that are declared so.
    required: tuple[str, ...] = ()
    #: Columns without nulls.
    never_null: tuple[str, ...] = ()
    #: A column by which files, or only row groups, are sorted and declared to be sorted.
    declared: str | None = None
    sorted_groups: bool = False
    #: The time zone of instants.
    zone: str = "UTC"
    #: The Arrow type of texts in each file.
    texts: tuple[str, ...] = ("string",)
    #: Whether the file has the column `v` twice, with different values.
    repeated: bool = False

    def path(self, file: int) -> str:
        """Returns the name of a file, by its number."""
        return self.names[file % len(self.names)].format(file)

    def odd(self) -> list[str]:
        """Returns the columns that differ between files."""
        return [column for _, column, *_ in (*self.missing, *self.narrower)] + ([self.key] if self.key else [])


def draw_layout(
    draw: random.Random, types: Mapping[str, str], values: Mapping[str, int], nulls: Mapping[str, int], rows: int, sorted_by: str
) -> Layout:
    writer = draw_writer(draw)
    if writer.name == "duckdb" and types["e"] == "INTEGER":
        # DuckDB's deltas of such numbers have 33 bits, which no other reader accepts.
        writer = replace(writer, version=1)
    files = draw.choice([1, 1, 2, 4, 6])
    key = next((each for each in draw.sample(KEYS, 4) if types[each] in KEY_TYPES and values[each] <= MOST_KEYS), None)
    if key and draw.random() < 0.15:
        # The type of a key that is always null is unknown.
        never_null = (key,) if nulls[key] > 50 or rows < 40 or draw.random() < 0.5 else ()
        in_files, null_there = draw.random() < 0.3, draw.random() < 0.3
        zone = draw.choice(ZONES)
        return Layout(1, draw_names(draw), writer, key, in_files, null_there, never_null=never_null, zone=zone)
    if writer.name == "pyarrow" and draw.random() < 0.02:
        return Layout(1, writer=writer, repeated=True)
    columns = [column for column in types if column != "i"]
    missing, required = [], []
    if files > 1 and draw.random() < 0.35:
        # Never all files, so that some values are left.
        for column in draw.sample(columns, draw.choice([1, 1, 2])):
            missing += [(file, column) for file in draw.sample(range(files), draw.randint(1, files - 1))]
    sorted_groups, declared = False, None
    if writer.name == "pyarrow":
        if draw.random() < 0.4:
            required = draw.sample(columns, 2) + [column for _, column in missing if draw.random() < 0.5]
        sorted_groups = draw.random() < 0.15
        declared = draw.choice(["i", "v", "t"]) if sorted_groups else {"i": "i", "k": "k", "t, i": "t"}.get(sorted_by)
    narrower = []
    if files > 1 and draw.random() < 0.12:
        choices = [each for each in columns if types[each] in NARROWER and values[each] <= 100 and each != declared]
        narrower = [(draw.randrange(files), each, draw.choice(NARROWER[types[each]])) for each in choices[: draw.choice([1, 3])]]
    return Layout(
        files, draw_names(draw), writer, missing=tuple(missing), narrower=tuple(narrower), required=tuple(required),
        never_null=tuple(required), declared=declared, sorted_groups=sorted_groups, zone=draw.choice(ZONES),
        texts=tuple(draw.choice(TEXTS) for _ in range(files)) if draw.random() < 0.2 else ("string",),
    )


def draw_names(draw: random.Random) -> tuple[str, ...]:
    if draw.random() < 0.9:
        return (PLAIN_NAME,)
    return tuple(draw.choice([PLAIN_NAME, *ODD_NAMES]) for _ in range(4))


def draw_writer(draw: random.Random) -> Writer:
    compression, version = draw.choice(["snappy", "zstd", "none"]), draw.choice([1, 2])
    if draw.random() < 0.5:
        return Writer("duckdb", compression, version)
    return Writer(
        "pyarrow", compression, version, draw.choice([10, 50, 50, 200, 1000]), draw.choice([64, 512, 1 << 20]),
        draw.random() < 0.5, draw.random() < 0.6,
    )


def write_files(duckdb, table: str, types: Mapping[str, str], layout: Layout, folder: Path) -> None:
    """Writes the files of a table. In the table, sets values that files leave out to null, and clamps values that are
    too large.
    """
    if layout.key:
        listing = f"SELECT DISTINCT CAST({layout.key} AS VARCHAR) FROM {table} ORDER BY 1"
        keys = [key for (key,) in duckdb.execute(listing).fetchall()]
        for key in keys:
            below = folder / f"{layout.key}={NULL_KEY if key is None else key}"
            below.mkdir()
            chosen = [column for column in types if column != layout.key or layout.key_in_files]
            if layout.null_in_files:
                nothing = f"CAST(NULL AS {types[layout.key]}) AS {layout.key}"
                chosen = [nothing if column == layout.key else column for column in chosen]
            there = f"{layout.key} IS NULL" if key is None else f"CAST({layout.key} AS VARCHAR) = '{key}'"
            rows = f"SELECT {', '.join(chosen)} FROM {table} WHERE {there} ORDER BY rowid"
            write_file(duckdb, rows, types, layout, below / layout.path(0))
        if keys:
            return
    (count,) = duckdb.execute(f"SELECT count(*) FROM {table}").fetchone()
    # Adjacent rows stay in one file, so that each file of a sorted table is sorted.
    share = -(-count // layout.files) or 1
    for file in range(layout.files):
        there = f"rowid >= {share * file} AND rowid < {share * (file + 1)}"
        stored = dict(types)
        for number, column in layout.missing:
            if number == file and column in stored:
                del stored[column]
                duckdb.execute(f"UPDATE {table} SET {column} = NULL WHERE {there}")
        for number, column, narrower in layout.narrower:
            if number == file and column in stored:
                stored[column] = narrower
                duckdb.execute(f"UPDATE {table} SET {column} = TRY_CAST({column} AS {narrower}) WHERE {there}")
        columns = ", ".join(f"CAST({column} AS {kind}) AS {column}" for column, kind in stored.items())
        rows = f"SELECT {columns} FROM {table} WHERE {there} ORDER BY rowid"
        texts = layout.texts[file % len(layout.texts)]
        write_file(duckdb, rows, stored, layout, folder / layout.path(file), texts)


def write_file(duckdb, rows: str, types: Mapping[str, str], layout: Layout, path: Path, texts: str = "string") -> None:
    writer = layout.writer
    if writer.name == "duckdb":
        compression = {"none": "uncompressed"}.get(writer.compression, writer.compression)
        options = f"ROW_GROUP_SIZE {writer.group_rows}, COMPRESSION {compression}, PARQUET_VERSION v{writer.version}"
        duckdb.execute(f"COPY ({rows}) TO '{path}' (FORMAT parquet, {options})")
        return
    import pyarrow
    from pyarrow import parquet

    data = duckdb.execute(rows).to_arrow_table()
    if layout.sorted_groups and layout.declared in types:
        parts = [data.slice(at, writer.group_rows) for at in range(0, len(data), writer.group_rows)]
        data = pyarrow.concat_tables([part.sort_by(layout.declared) for part in parts] or [data])
    fields = [declared_field(pyarrow, each, data.column(each.name).null_count == 0, layout, texts) for each in data.schema]
    sorting = [parquet.SortingColumn(data.schema.get_field_index(layout.declared))] if layout.declared in types else None
    data = data.cast(pyarrow.schema(fields))
    if layout.repeated:
        data = data.append_column("v", data.column("i"))
    parquet.write_table(
        data, path, row_group_size=writer.group_rows, compression=writer.compression,
        data_page_size=writer.page_bytes, data_page_version=f"{writer.version}.0", write_page_index=writer.page_index,
        use_dictionary=writer.dictionary, sorting_columns=sorting, write_batch_size=16,
    )


def declared_field(pyarrow, field, without_nulls: bool, layout: Layout, texts: str):
    """Returns the column as a file declares it: with a time zone, a type of texts, and nullability."""
    if pyarrow.types.is_string(field.type):
        made = pyarrow.dictionary(pyarrow.int32(), pyarrow.string()) if texts == "dictionary" else getattr(pyarrow, texts)()
        field = field.with_type(made)
    if pyarrow.types.is_timestamp(field.type) and field.type.tz:
        field = field.with_type(pyarrow.timestamp(field.type.unit, layout.zone))
    return field.with_nullable(not (without_nulls and field.name in layout.required))
