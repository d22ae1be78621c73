"""Engines that several processes of one user share.

`coscan.connect("shared")` connects to the engine of this name, and starts it if there is none. The engine is a process of
its own. It ends when it has had no connection for a minute, or for `COSCAN_SHARED_IDLE_S` seconds.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from . import _coscan
from .errors import InterfaceError, OperationalError, SettingError

IDLE_S = 60.0
"""Seconds without a connection after which an engine ends."""

START_S = 60.0
"""Seconds after which an engine that was started must take connections."""

_NAME = re.compile(r"[A-Za-z0-9_-]{1,40}")

_MAIN = """import json, sys
sys.path[:] = json.loads(sys.argv.pop(1))
from coscan.shared import main
main()"""
"""The program of an engine. It imports modules from the folders of this process, and from the working directory only if that
is one of them."""

# The longest path of a socket on Linux and macOS, less some.
_PATH_MAX = 100


def name_of(engine: str) -> str:
    """The name of a shared engine: `shared` is the one named default, and `shared:jobs` the one named jobs.

    >>> name_of("shared"), name_of("shared:jobs")
    ('default', 'jobs')
    """
    kind, _, name = engine.partition(":")
    if kind != "shared" or (":" in engine and not _NAME.fullmatch(name)):
        raise InterfaceError(
            f"{engine!r} is no engine: pass 'shared', or 'shared:NAME' with a name of letters, digits, '_' and '-'"
        )
    return name or "default"


def connect(engine: str, start: Mapping[str, Any]) -> _coscan.Connection:
    """Connects to a shared engine, which is started with `start` if it does not run."""
    folder = _folder()
    name = name_of(engine)
    socket, given = folder / f"{name}.socket", json.dumps(start)
    if len(os.fsencode(socket)) > _PATH_MAX:
        raise InterfaceError(f"the path {socket} is too long for a socket: set XDG_RUNTIME_DIR to a shorter folder")
    # An engine that just ends is still there for a moment.
    for _ in range(10):
        if connection := _attempt(socket, given):
            return connection
        with _locked(folder / f"{name}.lock"):
            connection = _attempt(socket, given)
            if connection is None:
                connection = _started(folder, name, given)
        if connection:
            return connection
    raise OperationalError(f"the shared engine {name!r} does not take connections: see {folder / name}.log")


def _attempt(socket: Path, given: str) -> _coscan.Connection | None:
    """Connects to the engine at this socket, if there is one."""
    try:
        folder = os.getcwd()
    except OSError as error:
        raise OperationalError(f"the working directory cannot be read: {error}") from error
    return _coscan.Connection.shared(os.fspath(socket), given, folder)


def _started(folder: Path, name: str, given: str) -> _coscan.Connection | None:
    """Starts an engine, and connects to it when it is ready."""
    socket, log = folder / f"{name}.socket", folder / f"{name}.log"
    path = [entry for entry in sys.path if isinstance(entry, str)]
    arguments = [os.fspath(socket), os.fspath(folder / f"{name}.lock"), given]
    with open(log, "wb") as written:
        process = subprocess.Popen(
            [sys.executable, "-P", "-c", _MAIN, json.dumps(path), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=written,
            stderr=written,
            start_new_session=True,
        )
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        ended = process.poll()
        if ended is not None:
            text = log.read_text(errors="replace").strip().splitlines()
            # The last line is the exception, with its class.
            kind, _, words = (text[-1] if text else f"it ended with {ended}").partition(": ")
            error = SettingError if kind.endswith("SettingError") else OperationalError
            raise error(words or kind)
        if connection := _attempt(socket, given):
            # Takes the exit code, so that no dead process stays behind.
            threading.Thread(target=process.wait, name="coscan-shared", daemon=True).start()
            return connection
        time.sleep(0.005)
    process.kill()
    raise OperationalError(f"the shared engine {name!r} was not ready after {START_S:.0f} s: see {log}")


def _folder() -> Path:
    """The folder of this user for sockets, which nobody else can enter."""
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    user = os.geteuid()
    folder = Path(runtime) / "coscan" if runtime else Path(tempfile.gettempdir()) / f"coscan-{user}"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.lstat()
    except OSError as error:
        raise OperationalError(f"there is no folder for sockets: {error}: set XDG_RUNTIME_DIR to one that exists") from error
    if found.st_uid != user or found.st_mode & 0o077 or folder.is_symlink():
        raise OperationalError(
            f"other users may change {folder}: remove it, or set XDG_RUNTIME_DIR to a folder that only you can enter"
        )
    return folder


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with open(path, "a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def main() -> None:
    """The process of an engine."""
    socket, lock, given = sys.argv[1:]
    idle = os.environ.get("COSCAN_SHARED_IDLE_S")
    os.umask(0o077)
    try:
        _coscan.host(socket, lock, float(idle) if idle else IDLE_S, given)
    except Exception as error:
        # Who started this process reads the last line of its log.
        sys.exit(f"{type(error).__name__}: {error}")

