"""PostgreSQL as the engine with which coscan's answers are compared: a separate server process, not an installed service."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

from .compare import Answer, in_total_order, without_order
from .in_duckdb import MOST_ROWS, SECONDS
from .packages import Missing
from .parts import Query
from .server import free_port
from .sides import Refusal, without_narrow_casts

MAJOR = 15
PACKAGE = f"postgresql-{MAJOR}"
USERS = ("postgres", "nobody")
SETTINGS = {
    "fsync": "off", "full_page_writes": "off", "autovacuum": "off", "max_connections": 40, "shared_buffers": "16MB", "jit": "off",
    "TimeZone": "UTC",
}
#: Prefixes of SQLSTATEs for which an error is the right answer: a value that does not exist, a subquery with several
#: rows that must have one, ambiguous or unknown names, and columns outside of groups.
REFUSALS = ("22", "21", "42702", "42703", "42803", "42P01")
#: Types that hold every result of whole numbers. A division still truncates if its operands are integers.
EXACT_TYPES = {"SMALLINT": "bigint", "INTEGER": "bigint", "BIGINT": "numeric"}
#: What PostgreSQL calls other types of DuckDB. Texts of nanoseconds have no digits beyond microseconds.
TYPES = {"TIMESTAMP_MS": "timestamp(3)", "TIMESTAMP_S": "timestamp(0)", "TIMESTAMP_NS": "timestamp"}
CANCELLED = "57014"


def program(name: str) -> Path:
    """Returns the path of a server program, which packages keep outside of the search path."""
    path = Path(f"/usr/lib/postgresql/{MAJOR}/bin/{name}")
    found = path if path.exists() else shutil.which(name)
    if not found:
        raise Missing(f"{name} of PostgreSQL {MAJOR} is missing: apt-get install {PACKAGE}")
    version = subprocess.run([found, "--version"], check=True, capture_output=True, text=True).stdout
    if f" {MAJOR}." not in version:
        raise Missing(f"{version.strip()} is here, answers are compared with PostgreSQL {MAJOR}: apt-get install {PACKAGE}")
    return Path(found)


def install_server() -> None:
    """Tries to install the server if possible. Otherwise raises the reason."""
    try:
        program("postgres")
        return
    except Missing as missing:
        if os.geteuid() != 0 or not shutil.which("apt-get"):
            raise
        environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
        for command in (["apt-get", "update"], ["apt-get", "install", "-y", "--no-install-recommends", PACKAGE]):
            if subprocess.run(command, env=environment, capture_output=True, check=False).returncode != 0:
                raise Missing(f"{missing}; `{' '.join(command)}` failed") from missing
    program("postgres")


class PostgresqlServer:
    """A server process with an empty cluster in a temporary folder. A context manager."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="coscan-answers-"))
        self.user = unprivileged()
        if self.user:
            os.chown(self.folder, self.user.pw_uid, self.user.pw_gid)
        self.port = free_port()

    def run(self, name: str, *arguments: object) -> None:
        drop = []
        if self.user:
            drop = ["setpriv", f"--reuid={self.user.pw_uid}", f"--regid={self.user.pw_gid}", "--clear-groups"]
        command = drop + [str(program(name)), *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, cwd=self.folder, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"{name} failed\n{done.stdout}{done.stderr}")

    def __enter__(self) -> PostgresqlServer:
        data = self.folder / "data"
        self.run("initdb", "-D", data, "-U", "postgres", "-A", "trust", "-N", "--locale=C", "--encoding=UTF8")
        settings = SETTINGS | {"listen_addresses": "", "port": self.port, "unix_socket_directories": self.folder}
        options = " ".join(f"-c {name}={value}" for name, value in settings.items())
        self.run("pg_ctl", "-D", data, "-l", self.folder / "log", "-o", options, "-w", "start")
        return self

    def __exit__(self, *_: object) -> None:
        self.run("pg_ctl", "-D", self.folder / "data", "-m", "immediate", "-w", "stop")
        shutil.rmtree(self.folder, ignore_errors=True)

    def connect(self):
        import psycopg

        return psycopg.connect(host=str(self.folder), port=self.port, user="postgres", dbname="postgres", autocommit=True)


def unprivileged() -> pwd.struct_passwd | None:
    """Returns the user for the server, which refuses to run as root; `None` if this process is not root."""
    if os.geteuid() != 0:
        return None
    for name in USERS:
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise Missing("root cannot run PostgreSQL, and there is no user postgres or nobody")


class Postgresql:
    """The tables of a seed in separate schemas. A context manager."""

    def __init__(self, server: PostgresqlServer, duckdb, types: Mapping[str, Mapping[str, str]], folder: Path):
        self.connection = server.connect()
        self.schema = f"seed_{os.getpid()}"
        for exact in (False, True):
            self.connection.execute(f"DROP SCHEMA IF EXISTS {self.named(exact)} CASCADE; CREATE SCHEMA {self.named(exact)}")
        for table, columns in types.items():
            rows = folder / f"{table}.csv"
            duckdb.execute(f"COPY (SELECT * FROM {table} ORDER BY rowid) TO '{rows}' (FORMAT csv, HEADER false, NULLSTR '\\N')")
            for exact in (False, True):
                self.load(f"{self.named(exact)}.{table}", columns, rows, exact)
        self.connection.execute(f"SET statement_timeout = '{SECONDS}s'")

    def named(self, exact: bool) -> str:
        return f"{self.schema}_exact" if exact else self.schema

    def load(self, table: str, columns: Mapping[str, str], rows: Path, exact: bool) -> None:
        typed = [f"{name} {(EXACT_TYPES if exact else {}).get(kind) or TYPES.get(kind, kind)}" for name, kind in columns.items()]
        self.connection.execute(f"CREATE TABLE {table} ({', '.join(typed)})")
        with self.connection.cursor().copy(f"COPY {table} FROM STDIN (FORMAT csv, NULL '\\N')") as copy:
            copy.write(rows.read_bytes())

    def ask(self, query: Query, exact: bool = False) -> Answer | Refusal | str:
        import psycopg

        self.connection.execute(f"SET search_path = {self.named(exact)}")
        try:
            text = with_separate_order(query)
            cursor = self.connection.execute(without_narrow_casts(text, "numeric") if exact else text)
            rows = cursor.fetchmany(MOST_ROWS + 1)
        except psycopg.Error as error:
            words = str(error).splitlines()[0][:100]
            if error.sqlstate == CANCELLED:
                return "too slow in PostgreSQL"
            if error.sqlstate.startswith(REFUSALS):
                return Refusal(error.sqlstate, words)
            return f"refused by PostgreSQL ({error.sqlstate} {words})"
        if len(rows) > MOST_ROWS:
            return "too large"
        columns = [(column.name, column.type_code) for column in cursor.description]
        return (in_total_order if query.order else without_order)(rows, columns=columns, oracle="PostgreSQL")

    def __enter__(self) -> Postgresql:
        return self

    def __exit__(self, *_: object) -> None:
        for exact in (False, True):
            self.connection.execute(f"DROP SCHEMA {self.named(exact)} CASCADE")
        self.connection.close()


def with_separate_order(query: Query) -> str:
    """Returns a query with grouping sets as a subquery, which its order is put around.

    PostgreSQL before 18 leaves out a key of the order that a condition fixes, though grouping sets without it have NULL there.
    """
    has_sets = any(word in str(query) for word in ("CUBE", "ROLLUP", "GROUPING SETS"))
    return f"SELECT * FROM ({query.body}) AS groups{query.order}" if has_sets and query.order else str(query)
