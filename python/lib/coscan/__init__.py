"""Many SQL queries over the same Parquet files, one stream of I/O.

>>> import coscan
>>> con = coscan.connect()
>>> con.sql("SELECT 40 + 2 AS answer").fetchall()
[(42,)]

`coscan.connect` starts the engine, `Connection.register` names files, `Connection.sql` gives a `Query`, and its methods
`arrow`, `pl`, `df` and `fetchall` give the rows. `coscan.aio` is the same for event loops, `coscan.dbapi` the DB-API.
"""

import atexit

from ._coscan import __version__
from .chunks import ChunkMap
from .connection import Connection, close_all, connect
from .dbapi import (
    BINARY,
    DATETIME,
    NUMBER,
    ROWID,
    STRING,
    Binary,
    Date,
    DateFromTicks,
    Time,
    TimeFromTicks,
    Timestamp,
    TimestampFromTicks,
    apilevel,
    paramstyle,
    threadsafety,
)
from .errors import (
    CorruptFileError,
    DatabaseError,
    DataError,
    Error,
    FileError,
    FileReplacedError,
    ForkedError,
    IntegrityError,
    InterfaceError,
    InternalError,
    MemoryLimitError,
    NotSupportedError,
    OperationalError,
    ParseError,
    ProgrammingError,
    SettingError,
    Warning,  # noqa: A004
)
from .extension import Extension
from .interval import Interval
from .progress import show_progress
from .result import Query, Result, Scan

# Threads of the engine must not run while the interpreter is taken apart.
atexit.register(close_all)

__all__ = [
    "BINARY",
    "DATETIME",
    "NUMBER",
    "ROWID",
    "STRING",
    "Binary",
    "ChunkMap",
    "Connection",
    "CorruptFileError",
    "DataError",
    "DatabaseError",
    "Date",
    "DateFromTicks",
    "Error",
    "Extension",
    "FileError",
    "FileReplacedError",
    "ForkedError",
    "IntegrityError",
    "InterfaceError",
    "InternalError",
    "Interval",
    "MemoryLimitError",
    "NotSupportedError",
    "OperationalError",
    "ParseError",
    "ProgrammingError",
    "Query",
    "Result",
    "Scan",
    "SettingError",
    "Time",
    "TimeFromTicks",
    "Timestamp",
    "TimestampFromTicks",
    "Warning",
    "__version__",
    "apilevel",
    "connect",
    "paramstyle",
    "show_progress",
    "threadsafety",
]
