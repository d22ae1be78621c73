"""Drawn Delta tables: appended, deleted, updated, merged, compacted, with columns that are added, by deltalake.

Statements run over the newest version, over earlier ones, over two versions joined, and over all of them at once in one
process of coscan. DuckDB answers over the rows that deltalake's reader returns for a version.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import random
import shutil
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path

import duckdb
import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import DeltaError

from ..campaign import seed_range
from ..compare import difference, without_order
from ..files.answers import rows
from ..files.program import MODES, Program, Refused

#: The seeds of `make lake-test`.
BOUNDED = range(25)
#: Changes of a table, statements of a seed.
CHANGES, STATEMENTS = 7, 8

#: The columns that a table may have, with a function that draws a value.
COLUMNS: dict[str, tuple[pa.DataType, object]] = {
    "id": (pa.int64(), lambda draw: draw.randrange(-50, 400)),
    "small": (pa.int32(), lambda draw: draw.randrange(-5, 5)),
    "word": (pa.string(), lambda draw: draw.choice(["", "a", "é", "zz" * 30, "~", "b'c", "n%s" % draw.randrange(40)])),
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
    "yes": (pa.bool_(), lambda draw: draw.random() < 0.5),
    "raw": (pa.binary(), lambda draw: draw.choice([b"", b"\x00\xff", b"x"])),
    "items": (pa.list_(pa.int32()), lambda draw: [draw.choice([1, None, 7]) for _ in range(draw.randrange(3))]),
    "pair": (pa.struct([("u", pa.int32()), ("v", pa.string())]), lambda draw: {"u": draw.randrange(9), "v": draw.choice([None, "w"])}),
}
#: Columns that may be keys of folders, and those over which conditions are drawn.
KEYS = ("small", "word", "day", "yes", "moment")
COMPARED = ("id", "small", "word", "price", "long_price", "day", "moment", "clock", "ratio")


class Drawn:
    """A table of a seed, after each of its changes."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.draw = random.Random(seed)
        self.path = folder / f"seed-{seed}"
        shutil.rmtree(self.path, ignore_errors=True)
        self.columns = ["id", *self.draw.sample(list(COLUMNS)[1:], self.draw.randrange(2, 7))]
        keys = [name for name in self.columns if name in KEYS]
        self.keys = self.draw.sample(keys, min(len(keys), self.draw.choice([0, 0, 1, 1, 2])))
        self.append()
        for _ in range(self.draw.randrange(1, CHANGES)):
            # The writer refuses some changes, for instance of folders whose names have to be escaped.
            with contextlib.suppress(DeltaError):
                self.change()
        self.table = DeltaTable(self.path)

    def rows(self, count: int) -> pa.Table:
        def column(name: str) -> pa.Array:
            type, value = COLUMNS[name]
            nulls = self.draw.choice([0, 0.1, 0.9]) if name != "id" else 0
            return pa.array([None if self.draw.random() < nulls else value(self.draw) for _ in range(count)], type)

        return pa.table({name: column(name) for name in self.columns})

    def append(self) -> None:
        rows = self.rows(self.draw.choice([1, 30, 300]))
        settings = {"delta.checkpointInterval": str(self.draw.choice([2, 3, 100]))}
        write_deltalake(self.path, rows, mode="append", partition_by=self.keys, schema_mode="merge", configuration=settings)

    def change(self) -> None:
        table = DeltaTable(self.path)
        low = self.draw.randrange(-50, 400)
        match self.draw.choice(["append", "append", "add", "delete", "update", "merge", "compact", "order", "checkpoint", "empty"]):
            case "append":
                self.append()
            case "add":
                others = [name for name in COLUMNS if name not in self.columns]
                self.columns.append(self.draw.choice(others))
                self.append()
            case "delete":
                table.delete(f"id >= {low} AND id < {low + self.draw.choice([1, 50, 1000])}")
            case "update":
                table.update(updates={"id": "id + 1000"}, predicate=f"id % 7 = {low % 7}")
            case "merge":
                source = self.rows(20)
                merge = table.merge(source, predicate="t.id = s.id", source_alias="s", target_alias="t")
                distinct = source.group_by("id").aggregate([]).num_rows == source.num_rows
                merge = merge.when_matched_delete() if not distinct or self.draw.random() < 0.5 else merge.when_matched_update_all()
                merge.when_not_matched_insert_all().execute()
            case "compact":
                table.optimize.compact()
            case "order":
                if "id" not in self.keys:
                    table.optimize.z_order(["id"])
            case "checkpoint":
                table.create_checkpoint()
            case "empty":
                table.delete()

    def version(self) -> int:
        return self.draw.choice([self.table.version(), self.draw.randrange(self.table.version() + 1)])

    def read(self, version: int) -> pa.Table:
        return DeltaTable(self.path, version=version).to_pyarrow_table()

    def constant(self, name: str, table: pa.Table) -> str:
        """A constant near the column's values."""
        values = [value for value in table.column(name).to_pylist() if value is not None] or [COLUMNS[name][1](self.draw)]
        value = self.draw.choice(values)
        match name:
            case "word":
                return "'" + value.replace("'", "''") + "'"
            case "ratio":
                return f"CAST('{value!r}' AS DOUBLE)"
            case "day":
                return f"DATE '{value}'"
            case "moment":
                return f"TIMESTAMPTZ '{value.isoformat()}'"
            case "clock":
                return f"TIMESTAMP '{value.isoformat(sep=' ')}'"
            case "long_price":
                return f"CAST('{value}' AS DECIMAL(38, 10))"
        return str(value)

    def condition(self, names: Sequence[str], table: pa.Table) -> str:
        names = [name for name in names if name in COMPARED]
        parts = []
        for _ in range(self.draw.randrange(1, 3)):
            name = self.draw.choice(names)
            parts.append(
                self.draw.choice([f"{name} IS NULL", f"{name} IS NOT NULL"])
                if self.draw.random() < 0.2
                else f"{name} {self.draw.choice(['=', '<>', '<', '<=', '>', '>='])} {self.constant(name, table)}"
            )
        return self.draw.choice([" AND ", " OR "]).join(parts)

    def statement(self, name: str, table: pa.Table, other: str) -> str:
        names = table.column_names
        where = f" WHERE {self.condition(names, table)}" if self.draw.random() < 0.8 else ""
        ordered = [field for field in names if field in COMPARED and field != "ratio"]
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


def play(seed: int, program: Program, folder: Path) -> list[str]:
    """Returns the failures of a seed as text."""
    drawn = Drawn(seed, folder)
    first, second = drawn.version(), drawn.version()
    tables = {"t": drawn.read(first), "o": drawn.read(second)}
    # The newest version also by its folder alone.
    bare = first == drawn.table.version() and drawn.draw.random() < 0.5
    places = {"t": str(drawn.path) if bare else f"delta:{drawn.path}@v{first}", "o": f"delta:{drawn.path}@v{second}"}
    statements = [drawn.statement("t", tables["t"], "o") for _ in range(STATEMENTS)]
    oracle = duckdb.connect()
    oracle.execute("SET TimeZone = 'UTC'")
    for name, table in tables.items():
        # Over an Arrow table DuckDB gives conditions to pyarrow, which takes NULL for less than NaN.
        oracle.register("arrow", table)
        oracle.execute(f"CREATE TABLE {name} AS SELECT * FROM arrow")
        oracle.unregister("arrow")
    wanted = [rows(oracle.execute(statement).to_arrow_table()) for statement in statements]
    mode = drawn.draw.choice(list(MODES))
    failures = []
    for statement, expected, given in zip(statements, wanted, program.ask(places, MODES[mode], statements)):
        found = given if isinstance(given, Refused) else difference(without_order(expected), given)
        if found is not None:
            shown = program.shown(places, MODES[mode], statement)
            failures.append(f"seed {seed}, versions {first} and {second}, mode {mode}: {statement}\n  {found}\n  {shown}")
    if not failures:
        shutil.rmtree(drawn.path)
    return failures


def run(arguments: Sequence[str], coscan: Path, folder: Path) -> int:
    parser = argparse.ArgumentParser(prog="python3 -m checks.lake", description="coscan's answers over drawn Delta tables")
    parser.add_argument("--seeds", type=seed_range, default=BOUNDED, metavar="A..B", help="which seeds")
    parser.add_argument("--coscan", type=Path, default=coscan, help="the program [default: that of the target directory]")
    options = parser.parse_args(arguments)
    folder.mkdir(parents=True, exist_ok=True)
    program, wrong = Program(options.coscan.resolve()), 0
    for seed in options.seeds:
        for failure in play(seed, program, folder):
            wrong += 1
            print(failure, flush=True)
    print(f"{len(options.seeds)} Delta tables, {len(options.seeds) * STATEMENTS} statements: {wrong} wrong", flush=True)
    return 1 if wrong else 0
