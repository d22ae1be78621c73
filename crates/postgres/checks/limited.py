"""A server with little memory and a slow disk, cold before each run.

Needs root and control groups: `bench/limits.py` of the repository.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from bench.limits import Group, Limits, block_device  # noqa: E402

from .server import Cluster, finish  # noqa: E402

SESSION = "SET max_parallel_workers_per_gather = 0; SET jit = off; "


def forget_files(cluster: Cluster) -> None:
    """Drops the cluster's files from the page cache, and no others."""
    os.sync()
    for path in (cluster.data / "base").rglob("*"):
        if path.is_file():
            with path.open("rb") as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


class LimitedRun:
    """The server of a stopped cluster under limits. A context manager."""

    def __init__(self, cluster: Cluster, memory_bytes: int, read_bytes_per_s: int) -> None:
        self.cluster = cluster
        self.group = Group(f"coscan-postgres-{os.getpid()}", block_device(cluster.data), Limits(memory_bytes, read_bytes_per_s))

    def __enter__(self) -> LimitedRun:
        forget_files(self.cluster)
        self.group.__enter__()
        self.cluster.configure()
        command = self.cluster.server.command("pg_ctl", "-D", self.cluster.data, "-l", self.cluster.log, "-t", "120", "-w", "start")
        subprocess.run(command, check=True, capture_output=True, cwd=self.cluster.server.folder, preexec_fn=self.group.join)
        self.group.limit_reads()
        return self

    def __exit__(self, *_: object) -> None:
        if self.cluster.running():
            self.cluster.stop("fast")
        self.group.__exit__()

    def time(self, queries: list[tuple[float, str]]) -> tuple[list[float], int]:
        """Starts each query after its delay in seconds; returns the time of each, and the bytes read for all."""
        before, start = self.group.bytes_read(), time.monotonic()
        waiting, running, took = sorted(enumerate(queries), key=lambda q: q[1][0]), {}, [0.0] * len(queries)
        while waiting or running:
            while waiting and time.monotonic() - start >= waiting[0][1][0]:
                number, (_, sql) = waiting.pop(0)
                running[number] = (time.monotonic(), self.cluster.psql(SESSION + sql))
            for number, (since, process) in list(running.items()):
                if process.poll() is not None:
                    took[number] = time.monotonic() - since
                    finish(process)
                    del running[number]
            time.sleep(0.01)
        return took, self.group.bytes_read() - before
