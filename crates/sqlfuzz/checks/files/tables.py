"""Random tables: rows, their division into files and row groups, the writer, and the changes of the files.

A table is a value; the same dice always draw the same. `written.py` makes files of it.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field, replace

import pyarrow as pa

# These register changes of footers.
from . import mutated_layout, mutated_schema, mutated_statistics  # noqa: F401
from .kinds import KINDS, Kind, draw_kind
from .mutations import draw_mutations
from .writers import draw_writer

#: The row number, in every table.
NUMBER = "i"
KEY = "p"


@dataclass(frozen=True)
class Order:
    """The order of rows in a row group, and whether its metadata declare it. Writers take NaN for the greatest value, or the least."""

    column: str
    descending: bool
    nulls_first: bool
    is_claimed: bool
    nan_is_least: bool = False


@dataclass(frozen=True)
class File:
    """A file: its rows, its writer, and the changes of its footer by name, each with its seed."""

    path: str
    rows: pa.Table
    groups: tuple[int, ...]
    writer: str
    options: dict = field(default_factory=dict)
    mutations: tuple[tuple[str, int], ...] = ()
    order: Order | None = None


@dataclass(frozen=True)
class Table:
    """Files below a folder. `location` is given to coscan, relative to the folder. `decoys` are not part of the table."""

    name: str
    schema: pa.Schema
    files: tuple[File, ...]
    location: str
    has_key: bool = False
    decoys: tuple[File, ...] = ()

    def kinds(self) -> dict[str, pa.DataType]:
        return {field.name: field.type for field in self.schema}


def draw_table(draw: random.Random, name: str) -> Table:
    size = draw.choice([0, 1, 3, 10, 40, 40, 200, 200, 200, 3000 if draw.random() < 0.3 else 40])
    kinds = {column: draw_kind(draw) for column in "abcde"[: draw.choice([1, 2, 2, 3, 4])]}
    if any(kind.stored for kind in kinds.values()):
        # A file whose footer is changed to such a type keeps no types of Arrow, and Parquet itself has no durations.
        kinds = {column: KINDS["int64"] if pa.types.is_duration(kind.type) else kind for column, kind in kinds.items()}
    columns = {column: draw_values(draw, kind, size) for column, kind in kinds.items()}
    kinds[NUMBER], columns[NUMBER] = KINDS["int64"], list(range(size))
    order = draw_order(draw, kinds)
    places = list(range(size))
    if order and draw.random() < 0.5:
        places = in_order(places, columns[order.column], order)
        if draw.random() < 0.4:
            places = with_nulls_between(draw, places, columns[order.column])
    cuts = cut(draw, places, draw.choice([1, 1, 1, 2, 3, 4]))
    has_key = len(cuts) > 1 and draw.random() < 0.2
    files = tuple(draw_file(draw, at, chosen, kinds, columns, order, len(cuts), has_key) for at, chosen in enumerate(cuts))
    # A column that all files lack is not in the table.
    found = {column for file in files for column in file.rows.schema.names}
    schema = pa.schema([kind.field(column) for column, kind in kinds.items() if column in found])
    return named(draw, Table(name, schema, files, "", has_key))


def draw_values(draw: random.Random, kind: Kind, size: int) -> list:
    pool = kind.pool(draw)
    shape = draw.choice(["any", "any", "any", "few", "runs", "one", "nulls"] if size else ["any"])
    if shape == "few":
        pool = draw.sample(pool, min(2, len(pool)))
    if shape == "one":
        pool = [draw.choice(pool)]
    values = draw.choices(pool, k=size)
    if shape == "runs":
        values = sorted(values, key=sort_key) if kind.is_ordered else values
    share = draw.choice([0, 0, 0.05, 0.3, 0.9]) if shape != "nulls" else 1
    return [None if draw.random() < share else value for value in values]


def sort_key(value, nan_is_least: bool = False) -> tuple:
    """Returns a sort key in which NaN is the greatest value, or the least."""
    return (-1 if nan_is_least else 1, 0) if isinstance(value, float) and math.isnan(value) else (0, value)


def draw_order(draw: random.Random, kinds: dict[str, Kind]) -> Order | None:
    if draw.random() < 0.5:
        return None
    column = draw.choice([column for column, kind in kinds.items() if kind.is_ordered])
    return Order(column, draw.random() < 0.3, draw.random() < 0.5, draw.random() < 0.7, draw.random() < 0.3)


def in_order(places: list[int], values: list, order: Order) -> list[int]:
    nulls = [place for place in places if values[place] is None]
    others = [place for place in places if values[place] is not None]
    others.sort(key=lambda place: sort_key(values[place], order.nan_is_least), reverse=order.descending)
    return nulls + others if order.nulls_first else others + nulls


def with_nulls_between(draw: random.Random, places: list[int], values: list) -> list[int]:
    """Returns the places with those of nulls anywhere: row groups follow each other by their values, and have nulls at their ends."""
    spread = [place for place in places if values[place] is not None]
    for place in places:
        if values[place] is None:
            spread.insert(draw.randint(0, len(spread)), place)
    return spread


def cut(draw: random.Random, places: list[int], parts: int) -> list[list[int]]:
    ends = sorted(draw.randint(0, len(places)) for _ in range(parts - 1))
    return [places[begin:end] for begin, end in zip([0, *ends], [*ends, len(places)])]


def draw_groups(draw: random.Random, size: int) -> tuple[int, ...]:
    """Draws the numbers of rows of a file's row groups."""
    shape = draw.choice(["one", "equal", "equal", "any", "empty"])
    if shape == "one" or size == 0:
        return (size,)
    if shape == "equal":
        each = max(draw.choice([1, 3, 20, 100]), size // 30)
        return tuple(min(each, size - begin) for begin in range(0, size, each))
    groups = [len(part) for part in cut(draw, list(range(size)), draw.randint(2, 6))]
    return tuple(rows for rows in groups if rows or shape == "empty")


def draw_file(draw: random.Random, at: int, places: list[int], kinds, columns, order, files: int, has_key: bool) -> File:
    groups = draw_groups(draw, len(places))
    if order:
        begin, sorted_places = 0, []
        for rows in groups:
            sorted_places += in_order(places[begin : begin + rows], columns[order.column], order)
            begin += rows
        places = sorted_places
    fields = [
        drawn
        for column, kind in kinds.items()
        if (drawn := draw_field(draw, column, kind, [columns[column][place] for place in places], files))
    ]
    if draw.random() < 0.2:
        draw.shuffle(fields)
    schema = pa.schema([field for field, _ in fields])
    rows = pa.table([pa.array(values, field.type) for field, values in fields], schema=schema)
    writer, options = draw_writer(draw, schema, groups)
    if order and order.column not in schema.names:
        order = None
    path = f"{at}.parquet"
    if has_key:
        path = f"{KEY}={draw.choice([9, 10, 11])}/{path}"
        if draw.random() < 0.5:
            key = pa.array([int(path.split("/")[0].split("=")[1])] * len(places), pa.int64())
            rows = rows.append_column(pa.field(KEY, pa.int64()), key)
    return File(path, rows, groups, writer, options, draw_mutations(draw, schema), order)


#: Narrower types of a type. One file may have the narrower, others the wider one.
NARROWER = {
    "int64": ["int32", "int8"],
    "int32": ["int8", "int16"],
    "float64": ["float32"],
    "us": ["ms", "s"],
    "decimal 18": ["decimal 5"],
    "text": ["dictionary", "large text"],
    "dictionary": ["text"],
    "uint64": ["uint32"],
    "uint32": ["uint8"],
}


def draw_field(draw: random.Random, column: str, kind: Kind, values: list, files: int) -> tuple[pa.Field, list] | None:
    """Draws the column of one of several files: it may be left out, required, or narrower."""
    nullable = None in values or draw.random() < 0.7
    if files == 1 or column == NUMBER:
        return kind.field(column, nullable or kind.name == "nothing"), values
    if draw.random() < 0.12:
        return None
    if draw.random() < 0.15:
        for other in draw.sample(NARROWER.get(kind.name, []), len(NARROWER.get(kind.name, []))):
            fitting = narrowed(values, kind.type, KINDS[other].type)
            if fitting is not None:
                return pa.field(column, KINDS[other].type, nullable), fitting
    return kind.field(column, nullable or kind.name == "nothing"), values


def narrowed(values: list, wide: pa.DataType, narrow: pa.DataType) -> list | None:
    """Returns the values in the narrower type, or None if it does not hold them."""
    try:
        if pa.types.is_timestamp(wide):
            return pa.array(values, wide).cast(narrow).cast(pa.int64()).to_pylist()
        if pa.types.is_decimal(wide):
            return pa.array(values, wide).cast(narrow).to_pylist()
        if pa.types.is_floating(wide):
            return values if pa.array(values, narrow).to_pylist() == pa.array(values, wide).to_pylist() else None
        pa.array(values, narrow)
        return values
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        return None


#: File names with a meaning elsewhere: in folders of partitions, in patterns, in URLs.
ODD_NAMES = [
    "date=2024-01-0{}.parquet",
    "a b{}.parquet",
    "a%20{}.parquet",
    "a+b#{}.parquet",
    "{}.snappy.parquet",
    "é{}.parquet",
    "{}'.parquet",
]
#: Names that are patterns, each with the name of another file that it matches.
PATTERN_NAMES = [
    ("a?b.parquet", "axb.parquet"),
    ("r[1].parquet", "r1.parquet"),
    ("s*.parquet", "st.parquet"),
    ("{x}.parquet", "x.parquet"),
]
#: Names that readers of folders skip.
HIDDEN = ["_SUCCESS.parquet", "_b.parquet", ".c.parquet", "_temporary/0.parquet", ".hidden/0.parquet"]


def named(draw: random.Random, table: Table) -> Table:
    """Returns the table with file names, and other files beside it."""
    files, location, decoys = list(table.files), "", []
    if table.has_key:
        return replace(table, decoys=tuple(hidden(draw, table)))
    if draw.random() < 0.15:
        form = draw.choice(ODD_NAMES)
        files = [replace(file, path=form.format(at)) for at, file in enumerate(files)]
    if len(files) == 1 and draw.random() < 0.8:
        location = files[0].path
        if draw.random() < 0.08:
            location, other = draw.choice(PATTERN_NAMES)
            files, decoys = [replace(files[0], path=location)], [replace(files[0], path=other, mutations=())]
    else:
        location = draw.choice(["", "", "*.parquet"])
        decoys = hidden(draw, table)
    return replace(table, files=tuple(files), location=location, decoys=tuple(decoys))


def hidden(draw: random.Random, table: Table) -> list[File]:
    if draw.random() > 0.08:
        return []
    return [replace(table.files[0], path=draw.choice(HIDDEN), mutations=())]
