"""Random tables: drawn by a seed, and made by DuckDB. `layouts.py` has the layout of their files.

All tables have the same column names, so that joins give columns of one name. A name may have several types.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from pathlib import Path

from .layouts import Layout, draw_layout, write_files

#: The kind of each column in expressions. Whole numbers are near the ends of their types: only `arithmetic.py` computes
#: with them.
KINDS = {
    "i": "number", "k": "number", "v": "number", "w": "number", "f": "number", "t": "text", "d": "date", "o": "truth",
    "e": "whole", "z": "instant",
}

#: The possible types of a column. `i` numbers the rows and is never null.
TYPES = {
    "i": ["BIGINT"],
    "k": ["INTEGER", "BIGINT", "DECIMAL(9,2)", "SMALLINT", "DOUBLE PRECISION", "DECIMAL(20,4)"],
    "v": ["INTEGER", "BIGINT"],
    "w": ["BIGINT", "DECIMAL(12,3)"],
    "f": ["DOUBLE PRECISION", "DOUBLE PRECISION", "REAL"],
    "t": ["VARCHAR"],
    "d": ["DATE", "DATE", "TIMESTAMP", "TIMESTAMP", "TIMESTAMP_MS", "TIMESTAMP_S", "TIMESTAMP_NS"],
    "o": ["BOOLEAN"],
    "e": ["SMALLINT", "INTEGER", "BIGINT"],
    "z": ["TIMESTAMPTZ"],
}

#: The least and the greatest value of each type of whole numbers.
ENDS = {"SMALLINT": (-(2**15), 2**15 - 1), "INTEGER": (-(2**31), 2**31 - 1), "BIGINT": (-(2**63), 2**63 - 1)}

#: Expressions of a value from a number. Sums of floating-point ones are exact.
VALUES = {
    "k": "{}",
    "v": "{} - 3",
    "w": "({} - 2) / 4",
    "f": "{} / 2",
    "t": "chr(97 + {0} % 20) || ({0} // 20)",
    "d": "DATE '2020-01-01' + {}",
    "o": "{} % 2 = 0",
    "z": "TIMESTAMPTZ '2020-01-01 00:00:00+00' + to_hours({} * 7)",
}

#: The same for columns of this type: a part of a day, in all the digits that the type has.
VALUES_OF_TYPE = {
    "TIMESTAMP_MS": "TIMESTAMP '2020-01-01' + INTERVAL '7:00:00.003' * {}",
    "TIMESTAMP_S": "TIMESTAMP '2020-01-01' + INTERVAL '7:00:01' * {}",
}

#: Values of a floating-point column with NaN of both signs, which are one value.
NAN = "CASE {0} WHEN 1 THEN CAST('NaN' AS DOUBLE PRECISION) WHEN 2 THEN -CAST('NaN' AS DOUBLE PRECISION) ELSE {0} / 2 END"

#: Numbers of rows of a table. Small tables are rare, because most answers over them are empty.
ROWS = [0, 1, 5] + [40] * 5 + [300] * 6 + [1000] * 3 + [3000]

#: Limit of the rows per value of a large table, which bounds the results of joins.
ROWS_PER_VALUE = 8

NAMES = ["l", "r", "s"]


@dataclass(frozen=True)
class Table:
    """The table that DuckDB makes and writes."""

    name: str
    create: str
    types: dict[str, str]
    rows: int
    layout: Layout = field(default_factory=Layout)

    def path(self, folder: Path) -> Path:
        return folder / self.name


def draw_tables(draw: random.Random, rows: list[int] | None = None) -> list[Table]:
    """Draws tables with one of these numbers of rows each."""
    return [draw_table(draw, name, draw.choice(rows or ROWS)) for name in NAMES]


def draw_table(draw: random.Random, name: str, rows: int) -> Table:
    types = {column: draw.choice(choices) for column, choices in TYPES.items()}
    values = {column: max(draw.choice([4, 12, 12, 100]), rows // ROWS_PER_VALUE) for column in KINDS}
    # All values of a column may be equal, as in files whose statistics have one value.
    values |= {column: 1 for column in "vwftdoz" if draw.random() < 0.03 and rows < 300}
    nulls = {column: draw.choice([0, 0, 10, 40, 100 if column != "k" and rows < 300 else 0]) for column in KINDS}
    sorted_by = draw.choice(["k", "i", "d, k", "v DESC", "t, i", "f, v"]) if draw.random() < 0.5 else ""
    layout = draw_layout(draw, types, values, nulls, rows, sorted_by)
    columns = [f"CAST(n AS {types['i']}) AS i"] + [
        drawn_column(draw, column, types[column], values[column], 0 if column in layout.never_null else nulls[column])
        for column in list(KINDS)[1:]
    ]
    order = f" ORDER BY {sorted_by}" if sorted_by else " ORDER BY hash(n)"
    create = f"CREATE TABLE {name} AS SELECT {', '.join(columns)} FROM range({rows}) numbers(n){order}"
    return Table(name, create, types, rows, layout)


def drawn_column(draw: random.Random, column: str, kind: str, values: int, nulls: int) -> str:
    salt = draw.randrange(1 << 30)
    number = f"CAST(hash(n, {salt}) % {values} AS INTEGER)"
    if column == "e":
        value = f"CASE {number} {near_the_ends(kind)} ELSE {number} - 2 END"
    else:
        form = VALUES_OF_TYPE.get(kind, VALUES[column])
        if column == "f" and draw.random() < 0.15:
            form = NAN
        value = form.format(number)
    return f"CASE WHEN hash(n, {salt + 1}) % 100 < {nulls} THEN NULL ELSE CAST({value} AS {kind}) END AS {column}"


def near_the_ends(kind: str) -> str:
    """Returns branches of a CASE with values near the ends of a type."""
    least, most = ENDS[kind]
    values = [least, most, least + 1, most - 1, least // 2, most // 2 + 1]
    return " ".join(f"WHEN {at} THEN CAST({value} AS HUGEINT)" for at, value in enumerate(values))


def write_tables(duckdb, tables: list[Table], folder: Path) -> None:
    """Makes the tables in DuckDB, and their files."""
    for table in tables:
        duckdb.execute(table.create)
        table.path(folder).mkdir(parents=True)
        write_files(duckdb, table.name, table.types, table.layout, table.path(folder))
