"""`coscan serve` over folders of Parquet files, and connections to it."""

from __future__ import annotations

import shlex
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

#: Time limit for the start of a server and for an answer, in seconds.
PATIENCE = 600


def free_port() -> int:
    """Returns an unused port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def starts(process: subprocess.Popen, port: int) -> bool:
    """Waits until the process listens on the port. Returns false if it ends or takes too long."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline and process.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return True
        time.sleep(0.02)
    return False


class Server:
    """The program with these options, over tables in these folders."""

    def __init__(
        self, coscan: Path, tables: Mapping[str, Path], options: Sequence[str], log: Path, environment: Mapping[str, str] | None = None
    ):
        self.port = free_port()
        self.log = log
        named = [f"--table={name}={folder}" for name, folder in tables.items()]
        listen = ["--anonymous-role", "admin", "--listen", f"127.0.0.1:{self.port}"]
        self.command = [str(coscan), "serve", *listen, *options, *named]
        with open(log, "w") as written:
            self.process = subprocess.Popen(self.command, stdout=written, stderr=subprocess.STDOUT, env=environment)
        if not starts(self.process, self.port):
            self.process.kill()
            raise RuntimeError(f"the server did not start: {self}: {self.log.read_text()}")

    def __str__(self) -> str:
        return shlex.join(self.command)

    def connect(self, settings: Sequence[str] = ()):
        """Opens a connection whose session has these settings, `name = value`."""
        import psycopg

        connection = psycopg.connect(host="127.0.0.1", port=self.port, user="coscan", dbname="coscan", autocommit=True)
        for setting in settings:
            connection.execute(f"SET {setting}")
        return connection

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        try:
            self.process.wait(PATIENCE)
        finally:
            self.process.kill()
