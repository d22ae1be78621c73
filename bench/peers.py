"""The engines from PyPI behind one small interface: open tables once, then one connection per stream.

Each engine gets the number of threads and, if there is a limit, the size of memory. Other settings have the
engine's defaults. Imports happen when an engine is used, so that a missing engine does not affect the others.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from importlib import metadata
from pathlib import Path
from typing import Any

# SQL in, rows out.
Execute = Callable[[str], Iterable[Any]]

# Share of the memory. The rest is for Python, for memory that engines do not account for, and for the page cache.
MEMORY_PERCENT = 50


class Peer(ABC):
    """An engine with tables. `memory_bytes` is the process's memory, None without a limit."""

    package: str

    @abstractmethod
    def __init__(self, tables: dict[str, Any], threads: int, memory_bytes: int | None) -> None: ...

    @abstractmethod
    def connect(self) -> Execute:
        """Returns a connection for one thread."""

    def version(self) -> str:
        return metadata.version(self.package)


class DuckDb(Peer):
    """One database, a cursor per stream."""

    package = "duckdb"

    def __init__(self, tables: dict[str, Any], threads: int, memory_bytes: int | None) -> None:
        import duckdb

        self._database = duckdb.connect()
        self._database.execute(f"SET threads = {threads}")
        if memory_bytes is not None:
            self._database.execute(f"SET memory_limit = '{memory_bytes * MEMORY_PERCENT // 100 >> 20}MiB'")
        for name, table in tables.items():
            files = ", ".join(_quoted(file) for file in table["files"])
            self._database.execute(f"CREATE VIEW {name} AS SELECT * FROM read_parquet([{files}])")

    def connect(self) -> Execute:
        cursor = self._database.cursor()
        return lambda sql: cursor.execute(sql).fetchall()


class DataFusion(Peer):
    """One session for all streams."""

    package = "datafusion"

    def __init__(self, tables: dict[str, Any], threads: int, memory_bytes: int | None) -> None:
        import datafusion

        runtime = datafusion.RuntimeEnvBuilder()
        if memory_bytes is not None:
            runtime = runtime.with_fair_spill_pool(memory_bytes * MEMORY_PERCENT // 100)
        config = datafusion.SessionConfig().with_target_partitions(threads)
        self._session = datafusion.SessionContext(config, runtime)
        for name, table in tables.items():
            self._session.register_parquet(name, _one_place(name, table["files"]))

    def connect(self) -> Execute:
        def execute(sql: str) -> Iterable[Any]:
            batches = self._session.sql(sql).collect()
            return [tuple(row.values()) for batch in batches for row in batch.to_pylist()]

        return execute


class ChDb(Peer):
    """One server inside the process. Each stream has a connection, because a connection runs one query at a time."""

    package = "chdb"

    def __init__(self, tables: dict[str, Any], threads: int, memory_bytes: int | None) -> None:
        import chdb

        self._chdb = chdb
        self._settings = f" SETTINGS max_threads = {threads}, output_format_json_quote_decimals = 1"
        # Views live as long as a connection is open.
        self._first = chdb.connect(":memory:")
        for name, table in tables.items():
            pattern = table["files"][0] if len(table["files"]) == 1 else "{" + ",".join(table["files"]) + "}"
            self._first.query(f"CREATE VIEW {name} AS SELECT * FROM file({_quoted(pattern)}, Parquet)")

    def connect(self) -> Execute:
        connection = self._chdb.connect(":memory:")
        return lambda sql: json.loads(str(connection.query(sql + self._settings, "JSONCompact")))["data"]


class Polars(Peer):
    """A lazy frame per query, collected by the streaming engine. Threads come from the environment."""

    package = "polars"

    def __init__(self, tables: dict[str, Any], threads: int, memory_bytes: int | None) -> None:
        import polars

        self._polars = polars
        self._files = {name: table["files"] for name, table in tables.items()}

    def connect(self) -> Execute:
        polars = self._polars

        def execute(sql: str) -> Iterable[Any]:
            frames = {name: polars.scan_parquet(files) for name, files in self._files.items()}
            return polars.SQLContext(frames).execute(sql).collect(engine="streaming").rows()

        return execute


PEERS: dict[str, type[Peer]] = {"chdb": ChDb, "datafusion": DataFusion, "duckdb": DuckDb, "polars": Polars}


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _one_place(name: str, files: list[str]) -> str:
    """Returns the only file, or the folder that contains exactly these files."""
    if len(files) == 1:
        return files[0]
    folders = {Path(file).parent for file in files}
    if len(folders) == 1:
        folder = folders.pop()
        if {str(file) for file in folder.glob("*.parquet")} == set(files):
            return f"{folder}/"
    raise SystemExit(f"table {name}: DataFusion takes one file, or all files of one folder")
