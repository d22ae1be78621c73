"""Drawn Iceberg tables: appended, deleted, overwritten, with columns that are added, renamed, dropped and widened, with
partitions by transforms that change, and with files that another writer wrote, by pyiceberg."""

from __future__ import annotations

import contextlib

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import ValidationError
from pyiceberg.expressions import And, GreaterThanOrEqual, LessThan
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    Transform,
    TruncateTransform,
    YearTransform,
)
from pyiceberg.types import DecimalType, DoubleType, LongType

from .drawn import COLUMNS, KEYS, Drawn

#: Changes of a table.
CHANGES = 8


class IcebergDrawn(Drawn):
    """A table that pyiceberg writes."""

    name = "Iceberg"
    #: For instance a partition by a column that was dropped.
    refused = (ValueError, ValidationError, NotImplementedError, pa.ArrowException)

    def make(self) -> None:
        self.path.mkdir(parents=True)
        self.catalog = load_catalog("drawn", type="in-memory", warehouse=str(self.path.parent))
        self.catalog.create_namespace("d")
        #: The names of columns now, by those of `COLUMNS`.
        self.names = {name: name for name in self.columns}
        self.widened: dict[str, pa.DataType] = {}
        rows = self.rows(0)
        version = self.draw.choice(["1", "2", "2"])
        self.table = self.catalog.create_table("d.t", rows.schema, location=str(self.path), properties={"format-version": version})
        self.partition()
        self.append()
        for _ in range(self.draw.randrange(1, CHANGES)):
            with contextlib.suppress(*self.refused):
                self.change()

    def rows(self, count: int) -> pa.Table:
        rows = super().rows(count)
        for name, type in self.widened.items():
            if name in rows.column_names:
                rows = rows.set_column(rows.column_names.index(name), name, rows[name].cast(type))
        return rows.rename_columns([self.names[name] for name in rows.column_names])

    def transform(self, name: str) -> Transform:
        match name:
            case "day":
                return self.draw.choice([IdentityTransform(), MonthTransform(), YearTransform(), DayTransform()])
            case "moment" | "clock":
                return self.draw.choice([DayTransform(), HourTransform(), MonthTransform()])
            case "id" | "small":
                return self.draw.choice([IdentityTransform(), BucketTransform(4), TruncateTransform(50)])
            case "word":
                return self.draw.choice([IdentityTransform(), BucketTransform(3), TruncateTransform(1)])
        return IdentityTransform()

    def partition(self) -> None:
        keys = [name for name in self.columns if name in (*KEYS, "id", "clock")]
        chosen = self.draw.sample(keys, min(len(keys), self.draw.choice([0, 0, 1, 2])))
        with self.table.update_spec() as spec:
            for field in self.table.spec().fields:
                spec.remove_field(field.name)
            for name in chosen:
                transform = self.transform(name)
                spec.add_field(self.names[name], transform, f"{name}_{self.draw.randrange(10**6)}")

    def append(self) -> None:
        rows = self.rows(self.draw.choice([1, 30, 300]))
        self.table.append(rows)

    def change(self) -> None:
        low = self.draw.randrange(-50, 400)
        high = low + self.draw.choice([1, 50, 1000])
        renamable = [name for name in self.columns if name != "id"]
        match self.draw.choice(["append", "append", "add", "rename", "drop", "widen", "delete", "overwrite", "partition", "files", "move"]):
            case "append":
                self.append()
            case "add":
                other = self.draw.choice([name for name in COLUMNS if name not in self.columns])
                with self.table.update_schema() as schema:
                    schema.union_by_name(pa.schema([(other, COLUMNS[other][0])]))
                self.columns.append(other)
                self.names[other] = other
                self.append()
            case "rename":
                name = self.draw.choice(renamable)
                # A name that another column had, now and then.
                other = self.draw.choice([f"{name}_{self.draw.randrange(9)}", *[old for old in COLUMNS if old not in self.names.values()]])
                with self.table.update_schema() as schema:
                    schema.rename_column(self.names[name], other)
                self.names[name] = other
                self.append()
            case "drop":
                name = self.draw.choice(renamable)
                with self.table.update_schema() as schema:
                    schema.delete_column(self.names[name])
                self.columns.remove(name)
                del self.names[name]
                self.append()
            case "widen":
                wider = {"small": (LongType(), pa.int64()), "ratio": (DoubleType(), pa.float64()), "price": (DecimalType(20, 2), pa.decimal128(20, 2))}
                name = self.draw.choice([name for name in wider if name in self.columns] or ["id"])
                if name != "id":
                    with self.table.update_schema() as schema:
                        schema.update_column(self.names[name], wider[name][0])
                    self.widened[name] = wider[name][1]
                    self.append()
            case "delete":
                self.table.delete(And(GreaterThanOrEqual("id", low), LessThan("id", high)))
            case "overwrite":
                self.table.overwrite(self.rows(40), And(GreaterThanOrEqual("id", low), LessThan("id", high)))
            case "partition":
                self.partition()
                self.append()
            case "files":
                # Without ids of fields: columns are found by their names when the file was added.
                if not self.table.spec().fields:
                    path = self.path / f"other-{self.draw.randrange(10**9)}.parquet"
                    pq.write_table(self.rows(50), path)
                    self.table.add_files([str(path)])
            case "move":
                with self.table.update_schema() as schema:
                    schema.move_first(self.names[self.draw.choice(renamable)])

    def vacuum(self) -> None:
        used = {path.rsplit("/", 1)[-1] for path in self.table.inspect.files()["file_path"].to_pylist()}
        for file in self.path.rglob("*.parquet"):
            if file.name not in used:
                file.unlink()

    def versions(self) -> list[int]:
        return [snapshot.snapshot_id for snapshot in self.table.snapshots()]

    def read(self, version: int) -> pa.Table:
        return self.table.scan(snapshot_id=version).to_arrow()

    def place(self, version: int) -> str:
        return f"iceberg:{self.path}@v{version}"
