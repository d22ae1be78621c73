"""One run of one engine: a process that prints READY, reads GO, writes its results and prints DONE.

Every fault of an engine becomes `Run.failure`, so that the other engines are still measured: the engine does not
start, dies, hangs, runs out of memory, or writes invalid results.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import tempfile
import time
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from bench import limits, results
from bench.engines import Engine
from bench.limits import Group, Limits
from bench.metrics import Cost
from bench.results import Outcome
from bench.workload import Json

ROOT = Path(__file__).resolve().parent.parent
READY_LIMIT_S = 60.0
# Interval in seconds at which memory is sampled.
SAMPLE_S = 0.05
OUT_OF_MEMORY = "out of memory"


@dataclass(frozen=True)
class Place:
    """The place of runs: in the page cache without limits, or on a device whose reads are limited."""

    threads: int
    time_limit_s: float
    device: str | None = None
    limits: Limits | None = None


@dataclass(frozen=True)
class Run:
    """The result of a workload on an engine: outcomes and cost, or the reason why it did not finish."""

    outcomes: dict[str, Outcome]
    cost: Cost
    failure: str | None = None

    @property
    def out_of_memory(self) -> bool:
        return self.failure == OUT_OF_MEMORY


class _Failed(Exception):
    """The reason why a run did not finish."""


def run(engine: Engine, workload: Json, place: Place) -> Run:
    """Runs the workload on a fresh process of the engine."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="coscan-bench-")))
        group = None
        if place.limits is not None and place.device is not None:
            group = stack.enter_context(Group(f"coscan-bench-{os.getpid()}", place.device, place.limits))
            limits.drop_page_cache()
        workload_path, out = folder / "workload.json", folder / "results.json"
        workload_path.write_text(json.dumps(workload))
        command = engine.command(workload_path, out, place.threads, place.limits)
        log = stack.enter_context(open(folder / "stderr", "w+b"))
        try:
            with _started(command, engine.environment(place.threads), log, group) as process:
                return _drive(process, group, workload, out, place)
        except (_Failed, results.BadResult) as failed:
            if group is not None and group.killed_for_memory():
                return Run({}, Cost(), OUT_OF_MEMORY)
            return Run({}, Cost(), str(failed) + _last_words(folder / "stderr"))


def _drive(process: _Process, group: Group | None, workload: Json, out: Path, place: Place) -> Run:
    process.expect("READY", READY_LIMIT_S)
    if group is None:
        _fill_page_cache(workload)
    else:
        limits.drop_page_cache()
        group.limit_reads()
    started_s, busy_s = time.monotonic(), limits.machine_cpu_s()
    before = _counters(process.pid, group)
    process.say("GO")
    anonymous_peak = process.expect("DONE", place.time_limit_s)
    after, memory = _counters(process.pid, group), limits.process_memory(process.pid)
    took_s, busy_s = time.monotonic() - started_s, limits.machine_cpu_s() - busy_s
    process.say("BYE")
    cpu_s = after[1] - before[1]
    cost = Cost(
        bytes_read=None if before[0] is None or after[0] is None else after[0] - before[0],
        cpu_s=cpu_s,
        rss_peak_bytes=None if memory is None else memory.rss_peak,
        anonymous_peak_bytes=anonymous_peak,
        others_cores=max(0.0, busy_s - cpu_s) / took_s,
    )
    return Run(results.read(out, workload), cost)


def _counters(pid: int, group: Group | None) -> tuple[int | None, float]:
    """Returns the bytes read and the CPU seconds so far."""
    if group is not None:
        return group.bytes_read(), group.cpu_s()
    try:
        return limits.process_bytes_read(pid), limits.process_cpu_s(pid)
    except OSError as error:
        raise _Failed("the process ended early") from error


def _fill_page_cache(workload: Json) -> None:
    for table in workload["tables"].values():
        for file in table["files"]:
            with open(file, "rb", buffering=0) as data:
                while data.read(8 << 20):
                    pass


class _Process:
    """A running engine, which ends with the context."""

    def __init__(self, popen: subprocess.Popen[bytes]) -> None:
        assert popen.stdin is not None and popen.stdout is not None
        self._popen, self._stdin, self._stdout = popen, popen.stdin, popen.stdout
        self.pid = popen.pid
        self._unread = b""

    def __enter__(self) -> _Process:
        return self

    def __exit__(self, error: object, *_: object) -> None:
        if error is not None:
            self._popen.kill()
        with suppress(OSError):
            self._stdin.close()
        try:
            self._popen.wait(5)
        except subprocess.TimeoutExpired:
            self._popen.kill()
            self._popen.wait()
        self._stdout.close()

    def say(self, word: str) -> None:
        try:
            self._stdin.write(f"{word}\n".encode())
            self._stdin.flush()
        except OSError as error:
            raise _Failed(f"the process ended before it was told {word}") from error

    def expect(self, word: str, limit_s: float) -> float | None:
        """Waits for a line that begins with `word`. Returns the peak of anonymous memory during the wait."""
        end = time.monotonic() + limit_s
        peak = None
        while not self._line_begins(word):
            memory = limits.process_memory(self.pid)
            if memory is not None:
                peak = max(peak or 0, memory.anonymous)
            left = end - time.monotonic()
            if left <= 0:
                self._popen.kill()
                raise _Failed(f"no {word} after {limit_s:g} s")
            readable, _, _ = select.select([self._stdout], [], [], min(SAMPLE_S, left))
            if readable:
                text = os.read(self._stdout.fileno(), 65536)
                if not text:
                    raise _Failed(f"ended with {_status(self._popen)} before it said {word}")
                self._unread += text
        return peak

    def _line_begins(self, word: str) -> bool:
        while b"\n" in self._unread:
            line, _, self._unread = self._unread.partition(b"\n")
            if line.startswith(word.encode()):
                return True
        return False


def _started(command: list[str], environment: dict[str, str], log: IO[bytes], group: Group | None) -> _Process:
    try:
        popen = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            cwd=ROOT,
            env={**os.environ, **environment},
            # This program has one thread, so code may run between fork and exec.
            preexec_fn=None if group is None else group.join,
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise _Failed(f"{command[0]} cannot be started: {error}") from error
    return _Process(popen)


def _status(popen: subprocess.Popen[bytes]) -> str:
    try:
        code = popen.wait(5)
    except subprocess.TimeoutExpired:
        return "its output closed"
    return f"signal {-code}" if code < 0 else f"exit code {code}"


def _last_words(log: Path) -> str:
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return f": {lines[-1].strip()[:300]}" if lines else ""
