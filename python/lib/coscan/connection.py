"""Connections: an engine inside this process, with tables and statements."""

from __future__ import annotations

import json
import os
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from time import sleep
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, Unpack

from . import _coscan
from .chunks import CELLS, ChunkMap
from .errors import ForkedError, NotSupportedError, ProgrammingError
from .result import Query, Result, Scan
from .settings import Settings

if TYPE_CHECKING:
    from .dbapi import Cursor

Parameters = Sequence[Any] | Mapping[str, Any]
"""Values for `?` and `$1` (a list or tuple), or for `$name` (a dict)."""


def connect(
    engine: str | None = None,
    *,
    threads: int | None = None,
    memory: int | None = None,
    session: Mapping[str, object] | None = None,
    **settings: Unpack[Settings],
) -> Connection:
    """Starts an engine in this process, or connects to one that several processes share.

    All queries of the connection, from any thread, share its reads, its decoded columns and its buffer. One connection
    per process is the right number: engines do not share with each other.

    `engine` is `"shared"` for the shared engine of this user, or `"shared:NAME"` for one of several. It is started if it
    does not run; see "Several processes" in the README. Tables and the settings of the session are those of the connection.

    `threads` is the number of threads that run queries (default: one per processor), `memory` the bytes that this
    process may use (default: what the machine and its control group allow). `settings` are those of the engine; what is
    not given comes from environment variables such as `COSCAN_BUFFER`. `session` has settings of DataFusion:

    >>> import coscan
    >>> con = coscan.connect(buffer="64MB", session={"datafusion.execution.batch_size": 4096})
    >>> con.sql("SELECT 40 + 2 AS answer").fetchall()
    [(42,)]

    Raises `SettingError` for a setting that does not exist or cannot have the value, and `ForkedError` in a process that
    was forked after its parent had called this.
    """
    _check_fork()
    given = _pairs({name: value for name, value in settings.items() if value is not None})
    if engine is None:
        return Connection(_coscan.Connection(given, _pairs(session), threads, memory))
    from . import shared

    start = {"settings": given, "session": _pairs(session), "threads": threads, "memory": memory}
    return Connection(shared.connect(engine, start))


_process: int | None = None
"""The first process with a connection."""


def _check_fork() -> None:
    """Refuses a process that has the locks of its parent's threads without the threads."""
    global _process
    if _process not in (None, os.getpid()):
        raise ForkedError(
            "this process was forked from one that has opened a connection: open connections only after the fork, or start "
            "processes with 'spawn' or 'forkserver'"
        )
    _process = os.getpid()


class Connection:
    """An engine with its tables. Threads may use it at the same time.

    It is also a connection of the DB-API (PEP 249); see `coscan.dbapi`.
    """

    def __init__(self, native: _coscan.Connection) -> None:
        self._native = native
        _opened.add(self)

    def register(
        self,
        name: str,
        source: object,
        *,
        storage_options: Mapping[str, object] | None = None,
        options: Mapping[str, object] | None = None,
    ) -> None:
        """Makes `source` a table with this name, which replaces one that had it.

        `source` is a path, pattern or URL of Parquet files, a list of them, a dataset of pyarrow over Parquet files, or
        an object with Arrow's C interface: a table or data frame of pyarrow, polars or pandas, a `Result`, or a `Query`,
        which runs. A dataset with a filter, with columns from the names of folders or with a schema of its own is refused.

        `storage_options` configure the store of a URL, by the names that `object_store` has, such as `aws_region`,
        `aws_access_key_id`, `endpoint` and `allow_http`. They are for all tables of that bucket. `options` are those of
        `CREATE EXTERNAL TABLE`.

        Raises `FileError` if files cannot be read, and `ProgrammingError` if there are none.
        """
        locations = _locations(source)
        if locations is not None:
            if storage_options:
                for store in {_store(location) for location in locations}:
                    self._native.register_store(store, _pairs(storage_options))
            self._native.register_files(name, locations, _pairs(options))
            return
        if storage_options or options:
            raise ProgrammingError("storage_options and options are for tables of files")
        if not hasattr(source, "__arrow_c_stream__") and not hasattr(source, "__arrow_c_array__"):
            raise ProgrammingError(
                f"a table cannot be made of {type(source).__module__}.{type(source).__qualname__}: pass a path, a list of "
                "paths, a dataset, or an object with Arrow's C interface"
            )
        if isinstance(source, Query):
            # This wait ends by Ctrl-C.
            source = source.collect()
        self._native.register_arrow(name, _importable(source))

    def attach(self, name: str, address: str) -> None:
        """Adds a catalog of lake tables, whose tables are `name.schema.table` in SQL.

        `address` is one such as `iceberg+rest://HOST/PATH?warehouse=NAME&credential=env:CREDENTIAL`,
        `iceberg+postgresql://HOST/DATABASE`, `iceberg+s3://BUCKET/FOLDER` or `ducklake+sqlite:///PATH`. The next query
        sees tables that are new or that other programs have changed.

        Raises `ProgrammingError` if the address is none, and another error of this package if the catalog cannot be read.
        """
        self._native.attach(name, address)

    def deregister(self, name: str) -> None:
        """Forgets a table. Queries over it that run go on."""
        if not self._native.deregister(name):
            raise ProgrammingError(f"there is no table {name}")

    def tables(self) -> list[str]:
        """The names of the tables."""
        return self._native.tables()

    def sql(self, query: str, params: Parameters | None = None) -> Query:
        """Plans a statement, and returns a query that runs when its rows are asked for.

        A statement that changes something (`SET`, `CREATE`, `INSERT`, `COPY`) is carried out at once. SQL may name files
        by their paths: `SELECT count(*) FROM 'trips/*.parquet'`. The SQL is that of `coscan sql`, PostgreSQL's.

        >>> import coscan
        >>> con = coscan.connect()
        >>> con.sql("SELECT ? * $2 AS product", [6, 7]).fetchall()
        [(42,)]
        >>> con.sql("SELECT upper($name) AS name", {"name": "coscan"}).fetchall()
        [('COSCAN',)]

        Raises `ProgrammingError` if the statement is wrong.
        """
        return Query(self._native.plan(query, params), query)

    def sql_many(self, queries: Iterable[str], params: Iterable[Parameters | None] | None = None) -> list[Result]:
        """Runs statements at the same time, so that they share reads, and returns their results in the same order.

        The first error ends the others.

        >>> import coscan
        >>> con = coscan.connect()
        >>> [result.fetchall() for result in con.sql_many(["SELECT 1", "SELECT 2"])]
        [[(1,)], [(2,)]]
        """
        texts = list(queries)
        given = list(params) if params is not None else [None] * len(texts)
        if len(given) != len(texts):
            raise ProgrammingError(f"there are {len(texts)} statements and parameters for {len(given)}")
        planned = [self._native.plan(text, of) for text, of in zip(texts, given, strict=True)]
        running = [query.start() for query in planned]
        try:
            return [Result(rows.collect()) for rows in running]
        finally:
            for rows in running:
                rows.cancel()

    def scan(
        self,
        table: str,
        columns: Sequence[str] | None = None,
        filter: str | None = None,  # noqa: A002 (pyarrow has this name)
        *,
        in_order: bool = False,
        batch_size: int | None = None,
        shard: tuple[int, int] = (0, 1),
    ) -> Scan:
        """A cooperative scan of a table for one's own loop: training epochs, feature jobs.

        `columns` are all by default; `filter` is a condition in SQL. Rows come in the order in which the engine reads
        them, which saves most, or with `in_order` in that of the files. All batches but the last have `batch_size` rows.
        `shard=(1, 4)` is the second of four parts of about the same size, which together have each row once; parts are
        whole row groups.

        >>> import coscan, pyarrow
        >>> con = coscan.connect()
        >>> con.register("t", pyarrow.table({"a": [1, 2, 3], "b": [4, 5, 6]}))
        >>> [batch.to_pydict() for batch in con.scan("t", ["b"], "a > 1", batch_size=1)]
        [{'b': [5]}, {'b': [6]}]
        """
        number, count = shard
        if not 0 <= number < count:
            raise ProgrammingError(f"there is no shard {number} of {count}: the first is 0")
        if batch_size is not None and batch_size < 1:
            raise ProgrammingError(f"a batch has at least one row, not {batch_size}")
        selected = "*" if columns is None else ", ".join(_quoted(column) for column in columns)
        where = "" if filter is None else f" WHERE {filter}"
        sql = f"SELECT {selected} FROM {_quoted(table)}{where}"
        return Scan(lambda: self._native.scan(sql, in_order, batch_size, shard))

    def stats(self) -> dict[str, Any]:
        """What the engine has done since its start: bytes read, loads, decoded and shared slices, and more."""
        return self._native.stats()

    def chunks(self) -> ChunkMap:
        """Which chunks of the tables are in memory, are being read, or are wanted. A notebook shows them as a picture.

        >>> import coscan
        >>> coscan.connect().chunks()
        <coscan.ChunkMap of no tables>
        """
        return ChunkMap(json.loads(self._native.chunks(CELLS)))

    def watch(self, every: float = 0.5) -> Iterator[dict[str, Any]]:
        """What the engine does, every so many seconds: `stats` with the bytes per second since the last one."""
        before = self.stats()
        while not self.closed:
            sleep(every)
            now = self.stats()
            seconds = max(now["seconds"] - before["seconds"], 1e-9)
            yield {**now, "bytes_per_second": (now["bytes_read"] - before["bytes_read"]) / seconds}
            before = now

    def cursor(self) -> Cursor:
        """A cursor of the DB-API."""
        from .dbapi import Cursor

        self.stats()
        return Cursor(self)

    def execute(self, query: str, params: Parameters | None = None) -> Cursor:
        """Runs a statement with a new cursor of the DB-API, and returns the cursor."""
        return self.cursor().execute(query, params)

    def commit(self) -> None:
        """Does nothing, because each statement takes effect at once."""
        self.stats()

    def rollback(self) -> None:
        """Raises `NotSupportedError`: there are no transactions."""
        raise NotSupportedError("there are no transactions: each statement takes effect at once")

    @property
    def closed(self) -> bool:
        """Whether the connection is closed."""
        return self._native.closed

    def close(self) -> None:
        """Closes the connection. Its engine ends after the queries that run."""
        self._native.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<coscan.Connection {'closed' if self.closed else 'open'}>"


_opened: weakref.WeakSet[Connection] = weakref.WeakSet()


def close_all() -> None:
    """Closes all connections of this process, at its end."""
    for connection in list(_opened):
        connection.close()


def _locations(source: object) -> list[str] | None:
    """The paths and URLs of a source of files."""
    if isinstance(source, (str, os.PathLike)):
        return [os.fspath(source)]
    if isinstance(source, (list, tuple)) and all(isinstance(item, (str, os.PathLike)) for item in source):
        if not source:
            raise ProgrammingError("a table needs a file")
        return [os.fspath(item) for item in source]
    files = getattr(source, "files", None)
    if isinstance(files, list) and type(source).__module__.startswith("pyarrow"):
        return _dataset(source, files)
    return None


def _dataset(source: Any, files: list[str]) -> list[str]:
    """The files of a dataset of pyarrow."""
    kind = source.format.default_extname
    if kind != "parquet":
        raise NotSupportedError(f"the dataset has files of the format {kind}; coscan reads Parquet")
    if getattr(source, "_scan_options", None):
        raise NotSupportedError("the dataset has a filter: register it without, and filter in SQL")
    fragment = next(iter(source.get_fragments()), None)
    if fragment is not None and (schema := fragment.physical_schema) != source.schema:
        folders = [name for name in source.schema.names if name not in schema.names]
        reason = f"the columns {', '.join(folders)}" if folders else "another schema"
        raise NotSupportedError(
            f"the dataset has {reason} and its files do not: register its folder as a path, which has columns of "
            "folders such as k=1, or a table of pyarrow"
        )
    prefixes = {"local": "", "s3": "s3://", "gcs": "gs://", "abfs": "abfs://"}
    prefix = prefixes.get(source.filesystem.type_name)
    if prefix is None:
        raise NotSupportedError(f"the dataset is in a file system of the type {source.filesystem.type_name}: pass its URLs")
    return [f"{prefix}{file}" for file in files]


def _importable(source: object) -> object:
    """The source with columns of nulls as Arrow has them. polars gives them a buffer, which only pyarrow takes."""
    kinds = getattr(source, "dtypes", ()) if type(source).__module__.partition(".")[0] == "polars" else ()
    if any("Null" in str(kind) for kind in kinds):
        return source.to_arrow()  # type: ignore[attr-defined]
    return source


def _store(location: str) -> str:
    """The address of a URL's store: its scheme and bucket."""
    scheme, separator, rest = location.partition("://")
    if not separator:
        raise ProgrammingError(f"storage_options are for URLs, and {location} is a path")
    return f"{scheme}://{rest.split('/', 1)[0]}"


def _quoted(name: str) -> str:
    """A name in SQL."""
    return '"' + name.replace('"', '""') + '"'


def _pairs(settings: Mapping[str, object] | None) -> list[tuple[str, str]]:
    """Settings with their values as text."""

    def text(value: object) -> str:
        return str(value).lower() if isinstance(value, bool) else str(value)

    return [(name, text(value)) for name, value in (settings or {}).items()]
