"""Random tables: drawn by a seed, made by DuckDB, and written as Parquet files.

All tables have the same columns, so that joins give columns of one name; several types may stand behind a name.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path

#: What a column is, for expressions.
KINDS = {"i": "number", "k": "number", "v": "number", "w": "number", "f": "number", "t": "text", "d": "date", "o": "truth"}

#: The types a column may have. `i` counts the rows and is never null.
TYPES = {
    "i": ["BIGINT"],
    "k": ["INTEGER", "BIGINT", "DECIMAL(9,2)", "SMALLINT", "DOUBLE"],
    "v": ["INTEGER", "BIGINT"],
    "w": ["BIGINT", "DECIMAL(12,3)"],
    "f": ["DOUBLE"],
    "t": ["VARCHAR"],
    "d": ["DATE", "TIMESTAMP"],
    "o": ["BOOLEAN"],
}

#: How a value is made from a number: floating-point ones are such that sums of them are exact.
VALUES = {
    "k": "{}",
    "v": "{} - 3",
    "w": "({} - 2) / 4",
    "f": "{} / 2",
    "t": "chr(97 + {0} % 20) || ({0} // 20)",
    "d": "DATE '2020-01-01' + {}",
    "o": "{} % 2 = 0",
}

#: Tables of few rows are rare: with one of them most answers are empty.
ROWS = [0, 1, 5] + [40] * 5 + [300] * 6 + [1000] * 3 + [3000]

#: Values of a large table have at most so many rows each, which bounds what joins return.
ROWS_PER_VALUE = 8

NAMES = ["l", "r", "s"]


@dataclass(frozen=True)
class Table:
    """What DuckDB is asked to make and write."""

    name: str
    create: str
    copies: list[str]

    def path(self, folder: Path) -> Path:
        return folder / self.name


def draw_tables(draw: random.Random) -> list[Table]:
    return [draw_table(draw, name) for name in NAMES]


def draw_table(draw: random.Random, name: str) -> Table:
    rows = draw.choice(ROWS)
    columns = [f"CAST(n AS {TYPES['i'][0]}) AS i"] + [draw_column(draw, column, rows) for column in VALUES]
    order = f" ORDER BY {draw.choice(['k', 'i', 'd, k', 'v DESC'])}" if draw.random() < 0.5 else " ORDER BY hash(n)"
    create = f"CREATE TABLE {name} AS SELECT {', '.join(columns)} FROM range({rows}) numbers(n){order}"
    files = draw.choice([1, 1, 2, 4])
    options = (
        f"FORMAT parquet, ROW_GROUP_SIZE 2048, COMPRESSION {draw.choice(['snappy', 'zstd', 'uncompressed'])}, "
        f"PARQUET_VERSION {draw.choice(['v1', 'v2'])}"
    )
    # Neighbouring rows stay in one file, so that a table that is sorted is so in each.
    share = -(-rows // files) or 1
    copies = [
        f"COPY (SELECT * FROM {name} LIMIT {share} OFFSET {share * file}) TO '{{folder}}/{file}.parquet' ({options})"
        for file in range(files)
    ]
    return Table(name, create, copies)


def draw_column(draw: random.Random, column: str, rows: int) -> str:
    values = max(draw.choice([4, 12, 12, 100]), rows // ROWS_PER_VALUE)
    nulls = draw.choice([0, 0, 10, 40, 100 if column != "k" and rows < 300 else 0])
    salt = draw.randrange(1 << 30)
    number = f"CAST(hash(n, {salt}) % {values} AS INTEGER)"
    value = f"CAST({VALUES[column].format(number)} AS {draw.choice(TYPES[column])})"
    return f"CASE WHEN hash(n, {salt + 1}) % 100 < {nulls} THEN NULL ELSE {value} END AS {column}"


def write_tables(duckdb, tables: list[Table], folder: Path) -> None:
    """Makes the tables in DuckDB, and their files."""
    for table in tables:
        duckdb.execute(table.create)
        table.path(folder).mkdir(parents=True)
        for copy in table.copies:
            duckdb.execute(copy.format(folder=table.path(folder)))
