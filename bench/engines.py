"""The engines, and the command that starts each. Running them shows whether they work."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from bench.limits import Limits

POLICIES = ("relevance", "attach", "elevator", "normal")
MORE_POLICIES = ("attach-2004", "relevance-2007", "relevance-2004", "pbm", "pbm-sampling")
PEERS = ("duckdb", "chdb", "polars", "datafusion")
PLAIN = "plain"
DEFAULT = (*POLICIES, PLAIN, *PEERS)
ALL = (*DEFAULT, *MORE_POLICIES)

# The plain engine does not use coscan's buffer, so the rest of the memory is for its queries.
PLAIN_OPTIONS = ("--set", "coscan.enabled=false", "--buffer", "64MiB")


@dataclass(frozen=True)
class Engine:
    """One column of the report. `family` is the same for engines that differ only in settings."""

    name: str
    family: str
    program: tuple[str, ...]

    def command(self, workload: Path, out: Path, threads: int, limits: Limits | None) -> list[str]:
        """Returns the command line that speaks the protocol of `coscan bench --workload`."""
        command = [*self.program, "--workload", str(workload), "--out", str(out), "--threads", str(threads)]
        # coscan reads the limit of its group itself.
        if limits is not None and self.name in PEERS:
            command += ["--memory", str(limits.memory_bytes)]
        return command

    def environment(self, threads: int) -> dict[str, str]:
        """Polars takes the number of threads only from the environment."""
        return {"POLARS_MAX_THREADS": str(threads)} if self.name == "polars" else {}


def coscan(binary: Path, policy: str) -> Engine:
    """Returns coscan under a sharing policy."""
    return Engine(policy, "coscan", (str(binary), "bench", "--policy", policy))


def plain(binary: Path) -> Engine:
    """Returns the DataFusion in coscan's binary, without cooperative scans."""
    return Engine(PLAIN, PLAIN, (str(binary), "bench", *PLAIN_OPTIONS))


def peer(name: str, python: Path | None = None) -> Engine:
    """Returns an engine from PyPI in the Python in which it is installed."""
    return Engine(name, name, (str(python or sys.executable), "-m", "bench.runner", "--engine", name))
