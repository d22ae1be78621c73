"""Drawn tables of lake formats, whatever writes them, and statements over them.

Statements run over the newest version, over earlier ones, over two versions joined, and over all of them at once in one
process of coscan. DuckDB answers over the rows that the writer's own reader returns for a version. Some tables change while a server
has them, and old files are removed meanwhile.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import itertools
import random
import shutil
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path

import duckdb
import pyarrow as pa

from ..campaign import seed_range
from ..compare import difference, without_order
from ..files.answers import rows
from ..files.program import COOPERATIVE, MODES, Program, Refused
from ..server import Server

#: The seeds of `make lake-test`.
BOUNDED = range(25)
#: Statements of a seed.
STATEMENTS = 8
#: One table of so many changes while a server has it, this often.
LIVE, LIVE_CHANGES = 4, 3
#: Seconds after which a server looks for a newer version.
REFRESH = 1
#: What changes do not touch, beside the number of rows.
COUNTED = "SELECT id, count(*) FROM {} GROUP BY id ORDER BY id NULLS LAST"

#: The columns that a table may have, with a function that draws a value.
COLUMNS: dict[str, tuple[pa.DataType, object]] = {
    "id": (pa.int64(), lambda draw: draw.randrange(-50, 400)),
    "small": (pa.int32(), lambda draw: draw.randrange(-5, 5)),
    "word": (pa.string(), lambda draw: draw.choice(["", "a", "é", "𠮷", "😀", "zz" * 30, "~", "b'c", "n%s" % draw.randrange(40)])),
    "ratio": (pa.float64(), lambda draw: draw.choice([0.0, -0.0, 1.5, -1e300, float("inf"), float("nan")])),
    "price": (pa.decimal128(12, 2), lambda draw: Decimal(draw.randrange(-99999, 99999)).scaleb(-2)),
    "long_price": (pa.decimal128(38, 10), lambda draw: Decimal(draw.randrange(-(10**30), 10**30)).scaleb(-10)),
    "day": (pa.date32(), lambda draw: datetime.date(2024, 2, 27) + datetime.timedelta(draw.randrange(5))),
    "moment": (
        pa.timestamp("us", tz="UTC"),
        lambda draw: datetime.datetime(2024, 3, 1, tzinfo=datetime.timezone.utc)
        + datetime.timedelta(microseconds=draw.randrange(-5000, 5000)),
    ),
    "clock": (pa.timestamp("us"), lambda draw: datetime.datetime(1969, 12, 31) + datetime.timedelta(milliseconds=draw.randrange(9**9))),
    "größe": (pa.int32(), lambda draw: draw.randrange(3)),
    "yes": (pa.bool_(), lambda draw: draw.random() < 0.5),
    "raw": (pa.binary(), lambda draw: draw.choice([b"", b"\x00\xff", b"x"])),
    "items": (pa.list_(pa.int32()), lambda draw: [draw.choice([1, None, 7]) for _ in range(draw.randrange(3))]),
    "pair": (pa.struct([("u", pa.int32()), ("v", pa.string())]), lambda draw: {"u": draw.randrange(9), "v": draw.choice([None, "w"])}),
}
#: Columns that may be keys of partitions.
KEYS = ("small", "word", "day", "größe", "yes", "moment")


def is_compared(type: pa.DataType) -> bool:
    """Whether conditions are drawn over columns of the type."""
    return not (pa.types.is_nested(type) or pa.types.is_binary(type) or pa.types.is_large_binary(type) or pa.types.is_boolean(type))


class Drawn(ABC):
    """A table of a seed, after each of its changes."""

    #: The name of the format for people.
    name: str
    #: The errors by which the writer refuses a change.
    refused: tuple[type[Exception], ...]

    def __init__(self, seed: int, folder: Path) -> None:
        self.draw = random.Random(seed)
        self.path = folder / f"{self.name.lower()}-{seed}"
        shutil.rmtree(self.path, ignore_errors=True)
        self.columns = ["id", *self.draw.sample(list(COLUMNS)[1:], self.draw.randrange(2, 7))]
        self.make()

    @abstractmethod
    def make(self) -> None:
        """Makes the table and changes it some times."""

    @abstractmethod
    def change(self) -> None:
        """Changes the table once. The writer may refuse it, by `refused`."""

    @abstractmethod
    def vacuum(self) -> None:
        """Removes the files that the newest version does not need."""

    @abstractmethod
    def versions(self) -> list[int]:
        """The versions that can be read; the newest one is the last."""

    @abstractmethod
    def read(self, version: int) -> pa.Table:
        """The rows of a version, as the writer's own reader returns them."""

    @abstractmethod
    def place(self, version: int) -> str:
        """What the program takes for a version."""

    def bare(self) -> str:
        """What the program takes for the newest version."""
        return str(self.path)

    def rows(self, count: int) -> pa.Table:
        def column(name: str) -> pa.Array:
            type, value = COLUMNS[name]
            nulls = self.draw.choice([0, 0.1, 0.9]) if name != "id" else 0
            return pa.array([None if self.draw.random() < nulls else value(self.draw) for _ in range(count)], type)

        return pa.table({name: column(name) for name in self.columns})

    def version(self) -> int:
        versions = self.versions()
        return self.draw.choice([versions[-1], self.draw.choice(versions)])

    def constant(self, column: pa.ChunkedArray) -> str:
        """A constant near the column's values."""
        value = self.draw.choice(column.drop_null().to_pylist())
        type = column.type
        if pa.types.is_string(type) or pa.types.is_large_string(type):
            return "'" + value.replace("'", "''") + "'"
        if pa.types.is_floating(type):
            return f"CAST('{value!r}' AS DOUBLE)"
        if pa.types.is_date(type):
            return f"DATE '{value}'"
        if pa.types.is_timestamp(type):
            # Between two values of a file whose own unit is a larger one, too.
            value += datetime.timedelta(microseconds=self.draw.choice([-1, 0, 0, 1]))
            return f"TIMESTAMPTZ '{value.isoformat()}'" if type.tz else f"TIMESTAMP '{value.isoformat(sep=' ')}'"
        if pa.types.is_decimal(type) and type.precision == 38:
            return f"CAST('{value}' AS DECIMAL(38, 10))"
        return str(value)

    def condition(self, names: Sequence[str], table: pa.Table) -> str:
        parts = []
        for _ in range(self.draw.randrange(1, 3)):
            name = self.draw.choice(names)
            column = table.column(name)
            parts.append(
                self.draw.choice([f"{name} IS NULL", f"{name} IS NOT NULL"])
                if self.draw.random() < 0.2 or column.null_count == len(column)
                else f"{name} {self.draw.choice(['=', '<>', '<', '<=', '>', '>='])} {self.constant(column)}"
            )
        return self.draw.choice([" AND ", " OR "]).join(parts)

    def statement(self, name: str, table: pa.Table, other: str) -> str:
        names = table.column_names
        compared = [field.name for field in table.schema if is_compared(field.type)]
        where = f" WHERE {self.condition(compared, table)}" if self.draw.random() < 0.8 else ""
        ordered = [name for name in compared if not pa.types.is_floating(table.schema.field(name).type)]
        key = self.draw.choice(ordered)
        chosen = ", ".join(self.draw.sample(names, self.draw.randrange(1, len(names) + 1)))
        return self.draw.choice(
            [
                f"SELECT * FROM {name}{where}",
                f"SELECT {chosen} FROM {name}{where}",
                f"SELECT count(*), min({key}), max({key}), count({key}), sum(id) FROM {name}{where}",
                f"SELECT count(*) FROM {name}",
                f"SELECT {key}, count(*), sum(id) FROM {name}{where} GROUP BY {key}",
                f"SELECT id, {key} AS k FROM {name}{where} ORDER BY {key} NULLS LAST, id LIMIT 5",
                f"SELECT a.id, count(*) FROM {name} a JOIN {other} b ON a.id = b.id GROUP BY a.id",
                f"SELECT id FROM {name} EXCEPT SELECT id FROM {other}",
            ]
        )


def play(table: type[Drawn], seed: int, program: Program, folder: Path) -> list[str]:
    """Returns the failures of a seed as text."""
    drawn = table(seed, folder)
    first, second = drawn.version(), drawn.version()
    tables = {"t": drawn.read(first), "o": drawn.read(second)}
    # The newest version also without its number.
    bare = first == drawn.versions()[-1] and drawn.draw.random() < 0.5
    places = {"t": drawn.bare() if bare else drawn.place(first), "o": drawn.place(second)}
    statements = [drawn.statement("t", tables["t"], "o") for _ in range(STATEMENTS)]
    oracle = duckdb.connect()
    oracle.execute("SET TimeZone = 'UTC'")
    for name, rows_of_table in tables.items():
        # Over an Arrow table DuckDB gives conditions to pyarrow, which takes NULL for less than NaN.
        oracle.register("arrow", rows_of_table)
        oracle.execute(f"CREATE TABLE {name} AS SELECT * FROM arrow")
        oracle.unregister("arrow")
    wanted = [rows(oracle.execute(statement).to_arrow_table()) for statement in statements]
    mode = drawn.draw.choice(list(MODES))
    failures = []
    for statement, expected, given in zip(statements, wanted, program.ask(places, MODES[mode], statements)):
        found = given if isinstance(given, Refused) else difference(without_order(expected), given)
        if found is not None:
            shown = program.shown(places, MODES[mode], statement)
            failures.append(f"{drawn.name} seed {seed}, versions {first} and {second}, mode {mode}: {statement}\n  {found}\n  {shown}")
    if seed % LIVE == 0:
        failures += [f"{drawn.name} seed {seed}, served, {failure}" for failure in live(drawn, program.path)]
    if not failures:
        shutil.rmtree(drawn.path)
    return failures


def counted(drawn: Drawn) -> list[tuple]:
    """The numbers in the newest version."""
    oracle = duckdb.connect()
    oracle.register("arrow", drawn.read(drawn.versions()[-1]))
    return oracle.execute(COUNTED.format("arrow")).fetchall()


def live(drawn: Drawn, coscan: Path) -> list[str]:
    """Returns the failures of a server that has the table while it changes, as text."""
    log = drawn.path.with_suffix(".log")
    failures = []
    with Server(coscan, {"t": drawn.bare()}, COOPERATIVE, log) as server, server.connect() as connection:

        def differs(when: str, allowed: list[list[tuple]]) -> None:
            try:
                found = connection.execute(COUNTED.format("t")).fetchall()
            except Exception as error:
                failures.append(f"{when}: {error}\n  {server}")
                return
            if found not in allowed:
                failures.append(f"{when}: {sum(count for _, count in found)} rows, not those of {len(allowed)} versions\n  {server}")

        last = counted(drawn)
        differs("at first", [last])
        for number in range(1, LIVE_CHANGES + 1):
            with contextlib.suppress(*drawn.refused):
                drawn.change()
            if drawn.draw.random() < 0.5:
                drawn.vacuum()
            newest = counted(drawn)
            # A version that was looked up just now is read until it is too old, or gone.
            differs(f"just after change {number}", [last, newest])
            time.sleep(REFRESH * 1.1)
            differs(f"after change {number}", [newest])
            last = newest
    return failures


def run(formats: dict[str, type[Drawn]], arguments: Sequence[str], coscan: Path, folder: Path) -> int:
    parser = argparse.ArgumentParser(prog="python3 -m checks.lake", description="coscan's answers over drawn tables of lake formats")
    parser.add_argument("--seeds", type=seed_range, default=BOUNDED, metavar="A..B", help="which seeds")
    parser.add_argument("--formats", default=",".join(formats), help="formats, separated by commas [default: all]")
    parser.add_argument("--coscan", type=Path, default=coscan, help="the program [default: that of the target directory]")
    parser.add_argument("--most", type=int, metavar="N", help="end after so many failures")
    options = parser.parse_args(arguments)
    folder.mkdir(parents=True, exist_ok=True)
    program, played, wrong = Program(options.coscan.resolve()), 0, 0
    for seed, format in itertools.product(options.seeds, options.formats.split(",")):
        failures = play(formats[format], seed, program, folder)
        played, wrong = played + 1, wrong + len(failures)
        for failure in failures:
            print(failure, flush=True)
        if options.most and wrong >= options.most:
            break
    print(f"tables of lake formats: {played} cases: {played * STATEMENTS} statements, {wrong} wrong", flush=True)
    return 1 if wrong else 0
