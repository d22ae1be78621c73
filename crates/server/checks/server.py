"""A server of the program under test, and the clients that test it."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TARGET = Path(os.environ.get("CARGO_TARGET_DIR", "target")).resolve()
COSCAN = TARGET / "release" / "coscan"
VENV = TARGET / "serve-venv"
PACKAGES = [
    "psycopg[binary]", "adbc-driver-flightsql", "adbc-driver-manager", "pyarrow", "sqlalchemy", "psycopg2-binary",
    # DuckDB with its extension for PostgreSQL, which is made for one version; ClickHouse in a process.
    "duckdb==1.4.4", "duckdb-ext-postgres", "chdb==4.4.0",
    # Drivers and libraries of `clients.py`. SQLAlchemy needs greenlet for asyncpg.
    "pg8000", "asyncpg", "greenlet", "adbc-driver-postgresql", "connectorx", "polars", "pandas", "pyodbc",
]
JDBC = "org.postgresql:postgresql:42.7.4"
NODE = "pg@8"


class Missing(Exception):
    """Something that the tests need is missing."""


def client_packages() -> None:
    """Makes the Python clients importable, in an environment of their own that is kept."""
    if not COSCAN.exists():
        raise Missing(f"{COSCAN} is missing: make serve-test builds it")
    python = VENV / "bin" / "python"
    # An environment made for another list lacks some packages.
    ready, wanted = VENV / "ready", "\n".join(PACKAGES)
    if not ready.exists() or ready.read_text() != wanted:
        try:
            subprocess.run([sys.executable, "-m", "venv", VENV], check=True, capture_output=True)
            subprocess.run([python, "-m", "pip", "install", "--quiet", *PACKAGES], check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError) as error:
            raise Missing(f"{', '.join(PACKAGES)} cannot be installed: {error}") from error
        ready.write_text(wanted)
    sys.path[:0] = [str(path) for path in (VENV / "lib").glob("python*/site-packages")]


def jdbc_jar() -> Path:
    """The JDBC driver."""
    group, name, version = JDBC.split(":")
    repository = Path.home() / ".m2" / "repository"
    jar = repository / group.replace(".", "/") / name / version / f"{name}-{version}.jar"
    if not jar.exists():
        if not (shutil.which("mvn") and shutil.which("java")):
            raise Missing("java and mvn are missing: install a JDK and Maven")
        get = ["mvn", "-q", "-B", "dependency:get", f"-Dartifact={JDBC}", "-Dtransitive=false"]
        if subprocess.run(get, capture_output=True).returncode or not jar.exists():
            raise Missing(f"{JDBC} cannot be fetched")
    return jar


def node_modules() -> Path:
    """Returns a folder with node-postgres. A script beside it can import the package."""
    folder = TARGET / "serve-node"
    if not (folder / "node_modules" / "pg").exists():
        if not (shutil.which("node") and shutil.which("npm")):
            raise Missing("node and npm are missing: install Node.js")
        folder.mkdir(parents=True, exist_ok=True)
        get = ["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", folder, NODE]
        if subprocess.run(get, capture_output=True, cwd=folder).returncode:
            raise Missing(f"{NODE} cannot be fetched")
    return folder


def go_program() -> Path:
    """Returns the program of `go`, built with the drivers of Go."""
    if not shutil.which("go"):
        raise Missing("go is missing: install Go 1.25 or later")
    program = TARGET / "serve-go"
    done = subprocess.run(["go", "build", "-o", program, "."], capture_output=True, text=True, cwd=Path(__file__).parent / "go")
    if done.returncode:
        raise Missing(f"the drivers of Go cannot be built: {done.stderr[-300:]}")
    return program


def odbc_driver() -> None:
    """Installs PostgreSQL's ODBC driver if it is missing and can be installed."""
    if shutil.which("odbcinst") and "PostgreSQL Unicode" in subprocess.run(["odbcinst", "-q", "-d"], capture_output=True, text=True).stdout:
        return
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        raise Missing("PostgreSQL's ODBC driver is missing: install odbc-postgresql and odbcinst")
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    for command in (["apt-get", "update"], ["apt-get", "install", "-y", "--no-install-recommends", "odbc-postgresql", "odbcinst", "unixodbc"]):
        if subprocess.run(command, env=environment, capture_output=True).returncode:
            raise Missing(f"PostgreSQL's ODBC driver cannot be installed: `{' '.join(command)}` failed")


def free_port() -> int:
    """Returns an unused port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    """`coscan serve` with these options over the tables of a folder, if one is given."""

    def __init__(self, *options: str, data: Path | None):
        self.port = free_port()
        self.folder = Path(tempfile.mkdtemp())
        self.log = open(self.folder / "log", "w+")
        listen = [] if "--listen" in options else ["--listen", f"127.0.0.1:{self.port}"]
        watch = ["--watch", data] if data else []
        command = [COSCAN, "-v", "serve", *listen, *watch, "--buffer", "64MB", *options]
        self.process = subprocess.Popen([str(part) for part in command], stderr=self.log)
        deadline = time.monotonic() + 600
        while time.monotonic() < deadline and self.process.poll() is None:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.05)
        raise RuntimeError(f"the server did not start: {self.said()}")

    def said(self) -> str:
        """Returns its log."""
        self.log.flush()
        return (self.folder / "log").read_text()

    def stop(self) -> int:
        """Ends it like a service manager, and returns its exit code."""
        if self.process.poll() is None:
            self.process.terminate()
        try:
            # Longer than it waits for statements.
            return self.process.wait(timeout=600)
        finally:
            self.process.kill()
            self.log.close()
            shutil.rmtree(self.folder, ignore_errors=True)


def generate(folder: Path) -> None:
    """Small tables of TPC-H."""
    tables = ["--tables", "lineitem,orders,nation", "--row-group-rows", "20000"]
    subprocess.run([COSCAN, "generate", "tpch", "-s", "0.05", "--out", folder, *tables], check=True, capture_output=True)


def resident(server: Server) -> int:
    """Returns the resident memory of the server's process in bytes."""
    fields = Path(f"/proc/{server.process.pid}/statm").read_text().split()
    return int(fields[1]) * os.sysconf("SC_PAGE_SIZE")


def wait_for(condition, seconds=600):
    """Waits until the condition holds. Errors before the end are ignored."""
    end = time.monotonic() + seconds
    while True:
        try:
            if condition():
                return
        except Exception:
            if time.monotonic() > end:
                raise
        if time.monotonic() > end:
            raise AssertionError("it did not come to pass")
        time.sleep(0.1)
