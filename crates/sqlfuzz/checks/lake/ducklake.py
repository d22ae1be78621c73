"""Drawn DuckLake tables: appended, deleted, updated, with columns that are added, renamed, dropped and widened, with partitions, small
inserts and deletes in the catalog itself, merged and flushed files, and files of other writers, by DuckDB. Catalogs are in SQLite."""

from __future__ import annotations

import contextlib
import functools
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from ..packages import TARGET, Missing
from .drawn import COLUMNS, KEYS, Drawn

#: Changes of a table.
CHANGES = 10


@functools.cache
def extension(name: str) -> Path:
    """Returns an extension of DuckDB."""
    found = next((TARGET / "lake-venv" / "lib").glob(f"python*/site-packages/duckdb_extension_{name}/**/{name}.duckdb_extension"), None)
    if found is None:
        raise Missing(f"the extension {name} of DuckDB")
    return found


def connect() -> duckdb.DuckDBPyConnection:
    """Returns a connection of DuckDB that writes DuckLake tables."""
    connection = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    for name in ("ducklake", "sqlite_scanner", "postgres_scanner"):
        connection.execute(f"LOAD '{extension(name)}'")
    connection.execute("SET TimeZone = 'UTC'")
    return connection


class DuckLakeDrawn(Drawn):
    """A table that DuckDB writes."""

    name = "DuckLake"
    refused = (duckdb.Error,)

    def make(self) -> None:
        self.path.mkdir(parents=True)
        self.database = self.path / "catalog.db"
        self.connection = connect()
        inlined = self.draw.choice([0, 0, 10, 100])
        if inlined:
            # Nested values in the catalog are refused, by name.
            self.columns = [name for name in self.columns if not pa.types.is_nested(COLUMNS[name][0])]
        options = f"DATA_PATH '{self.path}/data/', DATA_INLINING_ROW_LIMIT {inlined}"
        self.connection.execute(f"ATTACH 'ducklake:sqlite:{self.database}' AS lake ({options})")
        self.connection.execute("USE lake")
        self.inlined = inlined
        #: The names of columns now, by those of `COLUMNS`.
        self.names = {name: name for name in self.columns}
        self.widened: dict[str, pa.DataType] = {}
        self.insert("CREATE TABLE t AS SELECT * FROM given", self.rows(0))
        if self.draw.random() < 0.4:
            self.partition()
        self.append()
        for _ in range(self.draw.randrange(1, CHANGES)):
            # What the writer refuses, for instance to drop a column by which files are partitioned.
            with contextlib.suppress(*self.refused):
                self.change()

    def insert(self, statement: str, rows: pa.Table) -> None:
        self.connection.register("given", rows)
        self.connection.execute(statement)
        self.connection.unregister("given")

    def rows(self, count: int) -> pa.Table:
        rows = super().rows(count)
        for name, type in self.widened.items():
            if name in rows.column_names:
                rows = rows.set_column(rows.column_names.index(name), name, rows[name].cast(type))
        return rows.rename_columns([self.names[name] for name in rows.column_names])

    def append(self) -> None:
        self.insert("INSERT INTO t BY NAME SELECT * FROM given", self.rows(self.draw.choice([1, 5, 30, 300])))

    def partition(self) -> None:
        keys = [self.names[name] for name in self.columns if name in KEYS]
        if keys:
            self.connection.execute(f"ALTER TABLE t SET PARTITIONED BY ({self.draw.choice(keys)})")

    def change(self) -> None:
        low = self.draw.randrange(-50, 400)
        high = low + self.draw.choice([1, 50, 1000])
        # The table keeps a column besides the numbers.
        renamable = [name for name in self.columns if name != "id"]
        if len(renamable) == 1:
            return self.append()
        execute = self.connection.execute
        kinds = ["append", "append", "add", "rename", "drop", "widen", "delete", "delete", "update", "partition", "files", "merge", "flush"]
        match self.draw.choice(kinds):
            case "append":
                self.append()
            case "add":
                plain = [name for name in COLUMNS if name not in self.columns and not (self.inlined and pa.types.is_nested(COLUMNS[name][0]))]
                other = self.draw.choice(plain)
                execute("SELECT 1")
                self.connection.register("given", pa.table({other: pa.array([], COLUMNS[other][0])}))
                kind = execute("DESCRIBE SELECT * FROM given").fetchall()[0][1]
                self.connection.unregister("given")
                default = " DEFAULT 7" if other == "small" else " DEFAULT 'new'" if other == "word" else ""
                execute(f"ALTER TABLE t ADD COLUMN {other} {kind}{default}")
                self.columns.append(other)
                self.names[other] = other
                self.append()
            case "rename":
                name = self.draw.choice(renamable)
                other = self.draw.choice([f"{name}_{self.draw.randrange(9)}", *[old for old in COLUMNS if old not in self.names.values()]])
                execute(f"ALTER TABLE t RENAME COLUMN {self.names[name]} TO {other}")
                self.names[name] = other
                self.append()
            case "drop":
                name = self.draw.choice(renamable)
                execute(f"ALTER TABLE t DROP COLUMN {self.names[name]}")
                self.columns.remove(name)
                del self.names[name]
                self.append()
            case "widen":
                wider = {"small": ("BIGINT", pa.int64()), "price": ("DECIMAL(20, 2)", pa.decimal128(20, 2))}
                name = self.draw.choice([name for name in wider if name in self.columns] or ["id"])
                if name != "id":
                    execute(f"ALTER TABLE t ALTER {self.names[name]} TYPE {wider[name][0]}")
                    self.widened[name] = wider[name][1]
                    self.append()
            case "delete":
                execute(f"DELETE FROM t WHERE id >= {low} AND id < {high}")
            case "update":
                execute(f"UPDATE t SET id = id + 1 WHERE id >= {low} AND id < {high}")
            case "partition":
                self.partition()
                self.append()
            case "files":
                path = self.path / f"other-{self.draw.randrange(10**9)}.parquet"
                pq.write_table(self.rows(50), path)
                execute(f"CALL ducklake_add_data_files('lake', 't', '{path}')")
            case "merge":
                execute("CALL ducklake_merge_adjacent_files('lake')")
            case "flush":
                execute("CALL ducklake_flush_inlined_data('lake')")

    def vacuum(self) -> None:
        self.connection.execute("CALL ducklake_expire_snapshots('lake', older_than => now())")
        self.connection.execute("CALL ducklake_cleanup_old_files('lake', cleanup_all => true)")

    def versions(self) -> list[int]:
        found = self.connection.execute("SELECT snapshot_id FROM ducklake_snapshots('lake') ORDER BY 1").fetchall()
        # The table was made by the snapshot 1.
        return [version for (version,) in found if version]

    def read(self, version: int) -> pa.Table:
        return self.connection.execute(f"SELECT * FROM t AT (VERSION => {version})").to_arrow_table()

    def place(self, version: int) -> str:
        return f"ducklake:sqlite://{self.database}#main.t@v{version}"

    def bare(self) -> str:
        return f"ducklake:sqlite://{self.database}#main.t"
