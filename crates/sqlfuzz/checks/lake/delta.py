"""Drawn Delta tables: appended, deleted, updated, merged, compacted, with columns that are added, by deltalake."""

from __future__ import annotations

import contextlib

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import DeltaError

from .drawn import COLUMNS, KEYS, Drawn

#: Changes of a table.
CHANGES = 7


class DeltaDrawn(Drawn):
    """A table that deltalake writes."""

    name = "Delta"
    refused = (DeltaError,)

    def make(self) -> None:
        keys = [name for name in self.columns if name in KEYS]
        self.keys = self.draw.sample(keys, min(len(keys), self.draw.choice([0, 0, 1, 1, 2])))
        self.append()
        for _ in range(self.draw.randrange(1, CHANGES)):
            # The writer refuses some changes, for instance of folders whose names have to be escaped.
            with contextlib.suppress(*self.refused):
                self.change()

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

    def vacuum(self) -> None:
        DeltaTable(self.path).vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)

    def versions(self) -> list[int]:
        return list(range(DeltaTable(self.path).version() + 1))

    def read(self, version: int) -> pa.Table:
        return DeltaTable(self.path, version=version).to_pyarrow_table()

    def place(self, version: int) -> str:
        return f"delta:{self.path}@v{version}"
