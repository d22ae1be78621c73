"""A PostgreSQL server with the extension, without installing either. The server's files are copied into a separate folder,
where `make install` puts the extension. Clusters run there under an unprivileged user.

This module neither tests nor measures.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

TARGET = Path(os.environ.get("CARGO_TARGET_DIR", "target")).resolve()
EXTENSION = Path(__file__).resolve().parent.parent / "pg"
MAJOR = 15
PACKAGES = f"postgresql-{MAJOR} postgresql-server-dev-{MAJOR}"
USERS = ("postgres", "nobody")


class Missing(Exception):
    """A missing program or file, and the way to get it."""


def exit_with(main: Callable[[], int]) -> NoReturn:
    """Runs a command and ends the process; prints in one line what is missing."""
    try:
        sys.exit(main())
    except Missing as missing:
        print(f"left out: {missing}", file=sys.stderr)
        sys.exit(1)


def _program(name: str) -> Path:
    """The path of one of the server's programs; the packages keep them out of the search path."""
    path = Path(f"/usr/lib/postgresql/{MAJOR}/bin/{name}")
    found = path if path.exists() else shutil.which(name)
    if not found:
        raise Missing(f"{name} of PostgreSQL {MAJOR} is missing: apt-get install {PACKAGES}")
    return Path(found)


def _pg_config(option: str) -> str:
    return subprocess.run([_program("pg_config"), option], check=True, capture_output=True, text=True).stdout.strip()


def install_packages() -> None:
    """Tries to install server and development files if possible; otherwise says what is missing."""
    try:
        find()
        return
    except Missing as missing:
        if os.geteuid() != 0 or not shutil.which("apt-get"):
            raise
        environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
        for command in (["apt-get", "update"], ["apt-get", "install", "-y", "--no-install-recommends", *PACKAGES.split()]):
            if subprocess.run(command, env=environment, capture_output=True, check=False).returncode != 0:
                raise Missing(f"{missing}; `{' '.join(command)}` failed") from missing
    find()


def find() -> None:
    """Checks that server and development files of the supported version are installed."""
    version = _pg_config("--version")
    if not version.startswith(f"PostgreSQL {MAJOR}."):
        raise Missing(f"{version} is here, the extension supports {MAJOR}: apt-get install {PACKAGES}")
    _program("postgres")
    # Packages of the server alone have the makefiles, but no headers.
    headers = Path(_pg_config("--includedir-server")) / "postgres.h"
    if not Path(_pg_config("--pgxs")).exists() or not headers.exists():
        raise Missing(f"the server's development files are missing: apt-get install {PACKAGES}")


def unprivileged() -> pwd.struct_passwd | None:
    """The user that runs the server, which refuses to run as root; none if this process does not run as root."""
    if os.geteuid() != 0:
        return None
    for name in USERS:
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise Missing("root cannot run PostgreSQL, and there is no user postgres or nobody")


class Server:
    """The server's files including the extension, in `folder`."""

    def __init__(self, folder: Path, target: Path) -> None:
        find()
        self.folder = folder
        self.user = unprivileged()
        folder.mkdir(parents=True, exist_ok=True)
        # Files are found relative to the program, so a copy of the tree is a separate server.
        for option in ("--bindir", "--pkglibdir"):
            here = Path(_pg_config(option))
            shutil.copytree(here, folder / here.relative_to("/"), dirs_exist_ok=True, ignore=shutil.ignore_patterns("bitcode", "pgxs"))
        share = Path(_pg_config("--sharedir"))
        shutil.copytree(share, folder / share.relative_to("/"), dirs_exist_ok=True)
        self.bin = folder / Path(_pg_config("--bindir")).relative_to("/")
        make = ["make", "--silent", "-C", str(EXTENSION), f"PG_CONFIG={_program('pg_config')}", f"CARGO_TARGET_DIR={target}"]
        for goal in (["all"], ["install", f"DESTDIR={folder}"]):
            done = subprocess.run(make + goal, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                raise RuntimeError(f"building the extension failed\n{done.stdout}{done.stderr}")
        self.own(folder, recursive=False)

    def own(self, path: Path, recursive: bool = True) -> None:
        """Makes the server's user the owner of a file or folder."""
        if self.user:
            for each in [path, *(path.rglob("*") if recursive else ())]:
                os.chown(each, self.user.pw_uid, self.user.pw_gid)

    def command(self, program: str, *arguments: object) -> list[str]:
        """A command line that runs one of the server's programs as that user."""
        drop = []
        if self.user:
            drop = ["setpriv", f"--reuid={self.user.pw_uid}", f"--regid={self.user.pw_gid}", "--clear-groups"]
        return drop + [str(self.bin / program), *map(str, arguments)]

    def run(self, program: str, *arguments: object) -> str:
        """Runs one of the server's programs and returns its output."""
        done = subprocess.run(self.command(program, *arguments), capture_output=True, text=True, cwd=self.folder, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"{program} failed\n{done.stdout}{done.stderr}")
        return done.stdout


class Failed(Exception):
    """A statement failed; the text is the server's message."""


class Cluster:
    """A cluster and its server process. A context manager: the server is stopped at the end."""

    def __init__(self, server: Server, name: str, settings: dict[str, object], preload: bool = True, port: int = 5490) -> None:
        self.server = server
        self.data = server.folder / name
        self.log = server.folder / f"{name}.log"
        self.port = port
        self.settings = {
            "port": port,
            "listen_addresses": "",
            "unix_socket_directories": server.folder,
            "fsync": "off",
            "full_page_writes": "off",
            "autovacuum": "off",
            "max_connections": 120,
            **({"shared_preload_libraries": "coscan"} if preload else {}),
            **settings,
        }
        self.environment = os.environ | {
            "PGHOST": str(server.folder), "PGPORT": str(port), "PGUSER": "postgres", "PGDATABASE": "postgres", "PGOPTIONS": "",
        }

    def create(self, *options: str) -> None:
        """Creates the cluster's folder."""
        self.server.run("initdb", "-D", self.data, "-U", "postgres", "-A", "trust", "-N", *options)

    def configure(self) -> None:
        """Writes the settings."""
        text = "".join(f"{key} = '{value}'\n" for key, value in self.settings.items())
        path = self.data / "postgresql.auto.conf"
        path.write_text(text)
        self.server.own(path, recursive=False)

    def start(self, wrapper: list[str] | None = None) -> None:
        """Starts the server, behind `wrapper` if there is one."""
        self.configure()
        command = self.server.command("pg_ctl", "-D", self.data, "-l", self.log, "-t", "120", "-w", "start")
        done = subprocess.run((wrapper or []) + command, capture_output=True, text=True, cwd=self.server.folder, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"the server does not start\n{done.stdout}{done.stderr}{self.log_text()[-2000:]}")

    def stop(self, mode: str = "fast") -> None:
        """Stops the server."""
        self.server.run("pg_ctl", "-D", self.data, "-m", mode, "-t", "120", "-w", "stop")

    def reload(self) -> None:
        """Reloads the server's settings."""
        self.configure()
        self.server.run("pg_ctl", "-D", self.data, "reload")

    def running(self) -> bool:
        return (self.data / "postmaster.pid").exists()

    def log_text(self) -> str:
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def __enter__(self) -> Cluster:
        if not self.data.exists():
            self.create()
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.running():
            self.stop("immediate")

    def psql(self, sql: str) -> subprocess.Popen[str]:
        """Starts statements in a new session."""
        command = [str(self.server.bin / "psql"), "-XqAt", "-v", "ON_ERROR_STOP=1", "-v", "VERBOSITY=terse", "-f", "-"]
        process = subprocess.Popen(command, env=self.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        process.stdin.write(sql)
        process.stdin.close()
        process.stdin = None
        return process

    def sql(self, sql: str, timeout: float = 120) -> list[str]:
        """Runs statements in a new session; returns the rows of all of them."""
        return finish(self.psql(sql), timeout)

    def one(self, sql: str) -> str:
        """The only value that the statements return."""
        rows = self.sql(sql)
        assert len(rows) == 1, rows
        return rows[0]

    def wait_until(self, sql: str, timeout: float = 60) -> None:
        """Waits until a condition holds."""
        end = time.monotonic() + timeout
        while time.monotonic() < end:
            try:
                if self.sql(f"SELECT {sql}") == ["t"]:
                    return
            except Failed:
                pass
            time.sleep(0.05)
        raise AssertionError(f"after {timeout} s there is still not: {sql}")

    def signal_fetcher(self, number: signal.Signals) -> int:
        """Sends the fetcher a signal; returns its process id."""
        pid = int(self.one("SELECT fetcher_pid FROM coscan_stats"))
        os.kill(pid, number)
        return pid


def finish(process: subprocess.Popen[str], timeout: float = 120) -> list[str]:
    """Waits for a session to end; returns its rows, or raises `Failed`."""
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise AssertionError(f"a session did not end within {timeout} s") from None
    if process.returncode != 0:
        raise Failed(err.strip())
    return out.splitlines()
