"""Processes of `coscan worker`."""

from __future__ import annotations

import os
import signal
import subprocess
import urllib.request
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from unittest import mock

from ..server import PATIENCE, free_port, starts


class Worker:
    """A process, which can be stopped, killed and started again at the same address."""

    def __init__(self, coscan: Path, options: Sequence[str], log: Path):
        self.port = free_port()
        self.address = f"127.0.0.1:{self.port}"
        self.log = log
        self.command = [str(coscan), "-v", "worker", "--listen", self.address, *options]
        self.start()

    def start(self) -> None:
        with open(self.log, "a") as written:
            self.process = subprocess.Popen(self.command, stdout=written, stderr=subprocess.STDOUT)
        if not starts(self.process, self.port):
            raise RuntimeError(f"a worker did not start: {self.log.read_text()}")

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(PATIENCE)

    def end(self) -> int:
        """Drains the worker and returns its exit code."""
        self.process.send_signal(signal.SIGCONT)
        self.process.terminate()
        return self.process.wait(PATIENCE)

    def text(self, path: str, headers: dict[str, str] | None = None) -> str:
        request = urllib.request.Request(f"http://{self.address}{path}", headers=headers or {})
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.read().decode()


class Cluster:
    """Some workers."""

    def __init__(self, coscan: Path, count: int, folder: Path, options: Sequence[str] = ("--threads", "2")):
        self.workers = [Worker(coscan, options, folder / f"worker-{at}.log") for at in range(count)]

    def __str__(self) -> str:
        return ",".join(worker.address for worker in self.workers)

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self.workers:
            if worker.process.poll() is None:
                worker.process.send_signal(signal.SIGCONT)
                worker.process.kill()
                worker.process.wait(PATIENCE)

    def used_by_all(self) -> AbstractContextManager[object]:
        """Makes every `coscan` that is started in the meantime a coordinator that divides all scans."""
        return mock.patch.dict(os.environ, {"COSCAN_CLUSTER": str(self), "COSCAN_CLUSTER_TASK_BYTES": "1"})
