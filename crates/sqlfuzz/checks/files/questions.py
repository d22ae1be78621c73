"""Statements over tables, each as text for coscan and for DuckDB.

Every order states the place of nulls. Where rows are shown, the order ends with the row number, so that there is one
right answer. Differences between engines by design are left out: comparisons of nested values, averages, text of
numbers.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

import pyarrow as pa

from .kinds import COSCAN, Constant
from .tables import KEY, NUMBER, Table


@dataclass(frozen=True)
class Either:
    """Text that differs between the two sides."""

    coscan: str
    duckdb: str

    def text(self, dialect: str) -> str:
        return self.coscan if dialect == COSCAN else self.duckdb


Piece = str | Constant | Either


@dataclass(frozen=True)
class Question:
    """A statement. With `in_order`, its rows have one order."""

    kind: str
    pieces: tuple[Piece, ...]
    in_order: bool = False

    def text(self, dialect: str = COSCAN) -> str:
        return "".join(piece if isinstance(piece, str) else piece.text(dialect) for piece in self.pieces)


class Questions:
    """Draws statements over a table, and another one to join it with."""

    def __init__(self, draw: random.Random, table: Table, values: dict[str, list], other: Table | None = None):
        self.draw, self.table, self.values, self.other = draw, table, values, other
        self.types = table.kinds()
        #: The orders of files. Rows are often requested in one of them.
        self.orders = {file.order.column: file.order for file in table.files if file.order}
        self.favourites = list(self.orders) or [NUMBER]
        self.ordered = [column for column, type in self.types.items() if is_ordered(type)]

    def drawn(self, count: int) -> list[Question]:
        """Returns the rows, and other statements."""
        kinds = [
            self.filtered,
            self.filtered,
            self.filtered,
            self.aggregates,
            self.aggregates,
            self.extremes,
            self.extremes,
            self.counted,
            self.top,
            self.top,
            self.top_values,
            self.sorted,
            self.distinct,
            self.grouped,
            self.numbered,
            self.null_or_not,
        ]
        if self.other:
            kinds += [self.joined, self.joined, self.in_subquery]
        if self.table.has_key:
            kinds += [self.by_key] * 3
        return [self.all_rows()] + [self.draw.choice(kinds)() for _ in range(count - 1)]

    def name(self, column: str) -> str:
        return column if column.isidentifier() and column.islower() else '"' + column.replace('"', '""') + '"'

    def names(self) -> str:
        return ", ".join(map(self.name, [*self.types, *([KEY] if self.table.has_key else [])]))

    def any_column(self, ordered: bool = True) -> str:
        if self.draw.random() < (0.4 if self.orders else 0.25):
            return self.draw.choice(self.favourites)
        choices = self.ordered if ordered else list(self.types)
        others = [column for column in choices if column != NUMBER]
        return self.draw.choice(others) if others and self.draw.random() < 0.9 else NUMBER

    def all_rows(self) -> Question:
        return Question("rows", (f"SELECT {self.keyed(self.names())} FROM {self.table.name}",))

    def keyed(self, names: str) -> str:
        """Returns the key of folders as a number."""
        return names.replace(f", {KEY}", f", CAST({KEY} AS BIGINT)") if self.table.has_key else names

    def constant(self, column: str) -> Constant:
        values, type = [value for value in self.values[column] if value is not None], self.types[column]
        return Constant(self.draw.choice(values) if values else default_of(type), type)

    def condition(self, depth: int = 0) -> tuple[Piece, ...]:
        if depth < 2 and self.draw.random() < 0.25:
            both = self.draw.choice([" AND ", " OR ", " AND "])
            return ("(", *self.condition(depth + 1), both, *self.condition(depth + 1), ")")
        if depth < 2 and self.draw.random() < 0.1:
            return ("NOT (", *self.condition(depth + 1), ")")
        if self.draw.random() < 0.15:
            return (f"{self.name(self.any_column(ordered=False))} IS {self.draw.choice(['', 'NOT '])}NULL",)
        column = self.any_column()
        name, one = self.name(column), lambda: self.constant(column)
        form = self.draw.choice(["compare", "compare", "compare", "in", "between", "text", "distinct"])
        if form == "text" and is_text(self.types[column]):
            return self.like(column)
        if form == "in":
            more = [piece for _ in range(self.draw.choice([0, 1, 3, 12])) for piece in (", ", one())]
            return (f"{name} {self.draw.choice(['', 'NOT '])}IN (", one(), *more, ")")
        if form == "between":
            return (f"{name} {self.draw.choice(['', 'NOT '])}BETWEEN ", one(), " AND ", one())
        if form == "distinct":
            return (f"{name} IS {self.draw.choice(['', 'NOT '])}DISTINCT FROM ", one())
        return (f"{name} {self.draw.choice(['=', '=', '<>', '<', '>', '<=', '>='])} ", one())

    def like(self, column: str) -> tuple[Piece, ...]:
        value = self.constant(column).value
        # Special characters of patterns, and their escapes, differ between engines.
        start = value[: self.draw.choice([1, 2, 3])].replace("\\", "").replace("'", "")
        pattern = self.draw.choice([f"{start}%", f"%{start}", f"%{start}%", "_%", "%"])
        return (f"{self.name(column)} {self.draw.choice(['', 'NOT '])}LIKE '{pattern}'",)

    def where(self, share: float) -> tuple[Piece, ...]:
        return (" WHERE ", *self.condition()) if self.draw.random() < share else ()

    def filtered(self) -> Question:
        columns = ", ".join(map(self.name, dict.fromkeys([NUMBER, self.any_column(ordered=False)])))
        return Question("filter", (f"SELECT {columns} FROM {self.table.name}", *self.where(1)))

    def null_or_not(self) -> Question:
        column = self.name(self.any_column(ordered=False))
        return Question(
            "null", (f"SELECT {NUMBER} FROM {self.table.name} WHERE {column} IS {self.draw.choice(['', 'NOT '])}NULL",)
        )

    def counted(self) -> Question:
        column = self.draw.choice(["*", self.name(self.any_column(ordered=False))])
        return Question("count", (f"SELECT count({column}) FROM {self.table.name}", *self.where(0.5)))

    def extremes(self) -> Question:
        column = self.name(self.any_column())
        both = self.draw.choice(["min({0}), max({0})", "min({0}), max({0})", "min({0})", "max({0})"]).format(column)
        return Question("extremes", (f"SELECT {both} FROM {self.table.name}", *self.where(0.4)))

    def aggregates(self) -> Question:
        # No expression may come twice.
        pieces = list(dict.fromkeys(self.aggregate() for _ in range(self.draw.choice([1, 2, 3]))))
        listed = [part for piece in pieces for part in (", ", piece)][1:]
        return Question("aggregates", ("SELECT ", *listed, f" FROM {self.table.name}", *self.where(0.4)))

    def aggregate(self) -> Piece:
        column = self.any_column()
        name, type = self.name(column), self.types[column]
        function = self.draw.choice(["count", "min", "max", "count distinct", "sum"])
        if function == "sum" and is_number(type):
            return sum_of(name, type)
        if function == "count distinct":
            return f"count(DISTINCT {name})"
        return f"{'count' if function == 'sum' else function}({name})"

    def order(self, column: str) -> str:
        own = self.orders.get(column)
        if own and self.draw.random() < 0.6:
            descending, nulls_first = own.descending, own.nulls_first
        else:
            descending, nulls_first = self.draw.choice([False, True]), self.draw.choice([True, False])
        return f"{self.name(column)}{' DESC' if descending else ''} NULLS {'FIRST' if nulls_first else 'LAST'}"

    def limit(self, share: float = 1) -> str:
        return f" LIMIT {self.draw.choice([1, 1, 2, 5, 20])}" if self.draw.random() < share else ""

    def top(self) -> Question:
        column = self.any_column()
        columns = ", ".join(map(self.name, dict.fromkeys([NUMBER, column])))
        last = self.draw.choice(["", " DESC"])
        order = f" ORDER BY {self.order(column)}, {NUMBER}{last}{self.limit()}"
        return Question("top", (f"SELECT {columns} FROM {self.table.name}", *self.where(0.3), order), in_order=True)

    def top_values(self) -> Question:
        column = self.any_column()
        name, order = self.name(column), self.order(column)
        return Question("top values", (f"SELECT {name} FROM {self.table.name} ORDER BY {order}{self.limit()}",), in_order=True)

    def sorted(self) -> Question:
        column = self.any_column()
        return Question(
            "sorted",
            (f"SELECT {self.name(column)} FROM {self.table.name}", *self.where(0.2), f" ORDER BY {self.order(column)}"),
            in_order=True,
        )

    def distinct(self) -> Question:
        return Question(
            "distinct", (f"SELECT DISTINCT {self.name(self.any_column())} FROM {self.table.name}", *self.where(0.2))
        )

    def grouped(self) -> Question:
        column = self.name(self.any_column())
        sums = f"count(*), min({NUMBER}), max({NUMBER}), count({self.name(self.any_column())}) AS counted"
        return Question("group", (f"SELECT {column}, {sums} FROM {self.table.name}", *self.where(0.2), f" GROUP BY {column}"))

    def numbered(self) -> Question:
        column = self.any_column()
        # DataFusion has no ranges of binary values and times of day. The order is total, so a frame of rows is the
        # same.
        frame = "" if has_ranges(self.types[column]) else " ROWS UNBOUNDED PRECEDING"
        function = self.draw.choice(
            ["row_number()", f"first_value({NUMBER})", f"lag({NUMBER})", f"count({self.name(self.any_column())})"]
        )
        over = f"OVER (ORDER BY {self.order(column)}, {NUMBER}{frame})"
        return Question("window", (f"SELECT {NUMBER}, {function} {over} FROM {self.table.name}",))

    def shared_columns(self) -> list[str]:
        theirs = self.other.kinds()
        return [column for column in self.ordered if column in theirs and same_kind(theirs[column], self.types[column])]

    def joined(self) -> Question:
        column = self.name(self.draw.choice(self.shared_columns()))
        how = self.draw.choice(["JOIN", "JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"])
        sums = f"count(*), count(x.{NUMBER}), sum(x.{NUMBER}), sum(y.{NUMBER}), min(x.{column})"
        pieces = (f"SELECT {sums} FROM {self.table.name} x {how} {self.other.name} y ON x.{column} = y.{column}",)
        return Question("join", pieces + ((f" AND y.{NUMBER} < 7",) if self.draw.random() < 0.4 else ()))

    def in_subquery(self) -> Question:
        column = self.name(self.draw.choice(self.shared_columns()))
        inner = f"SELECT {column} FROM {self.other.name} WHERE {NUMBER} < {self.draw.choice([1, 5, 100])}"
        inner += self.draw.choice(["", f" AND {column} IS NOT NULL"])
        outer = f"SELECT {NUMBER} FROM {self.table.name} WHERE {column} {self.draw.choice(['', 'NOT '])}IN ({inner})"
        return Question("subquery", (outer,))

    def by_key(self) -> Question:
        condition = f"{KEY} {self.draw.choice(['=', '<', '<>'])} {self.draw.choice([9, 10, 11])}"
        shown = self.draw.choice([f"max({KEY}), min({KEY})", f"count(*), sum({NUMBER})", f"count({KEY})"])
        return Question("key", (f"SELECT {shown} FROM {self.table.name}", self.draw.choice(["", f" WHERE {condition}"])))


def is_ordered(type: pa.DataType) -> bool:
    return not (pa.types.is_nested(type) or pa.types.is_null(type) or pa.types.is_duration(type) or pa.types.is_interval(type))


def is_text(type: pa.DataType) -> bool:
    type = type.value_type if pa.types.is_dictionary(type) else type
    return pa.types.is_string(type) or pa.types.is_large_string(type)


def has_ranges(type: pa.DataType) -> bool:
    return is_number(type) or is_text(type) or pa.types.is_date(type) or pa.types.is_timestamp(type)


def is_number(type: pa.DataType) -> bool:
    return pa.types.is_integer(type) or pa.types.is_floating(type) or pa.types.is_decimal(type)


def sum_of(name: str, type: pa.DataType) -> Piece:
    if pa.types.is_integer(type):
        return Either(f"sum({name})", f"CAST(sum({name}) AS DECIMAL(38, 0))")
    return f"sum({name})"


def same_kind(one: pa.DataType, other: pa.DataType) -> bool:
    return one == other or is_text(one) and is_text(other)


def default_of(type: pa.DataType):
    """Returns a constant for a column of nulls."""
    if is_text(type):
        return "a"
    if pa.types.is_fixed_size_binary(type):
        return bytes(type.byte_width)
    if pa.types.is_binary(type):
        return b"a"
    if pa.types.is_floating(type):
        return 1.5
    return False if pa.types.is_boolean(type) else 1
