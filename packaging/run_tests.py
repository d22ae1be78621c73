"""Builds the workspace's test programs and runs them, several at a time.

    python3 packaging/run_tests.py                                        # as `make test` does
    python3 packaging/run_tests.py --jobs 1 --times 20 --beside 8         # on a busy machine
    python3 packaging/run_tests.py --jobs 1 --processors 0                # on one processor

Many programs use one processor for most of their time, so two at a time take half as long as one after the other.
The programs beside them only use processor time, and end with this one. A test whose outcome depends on the
machine's speed fails there.

It does not run the checks in Python, the documentation's examples or ignored tests.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent

BUILD = ["test", "--config", ".cargo/checked.toml", "--locked", "--release", "--workspace", "--no-run", "--message-format", "json-render-diagnostics"]
FAILED = re.compile(r"^test (\S+) \.\.\. FAILED$", re.MULTILINE)
PASSED = re.compile(r"^test result: ok\. (\d+) passed", re.MULTILINE)
BUSY = "while :; do :; done"


@dataclass(frozen=True)
class Program:
    """A test program, with the folder of its package."""

    name: str
    path: str
    folder: str


@dataclass(frozen=True)
class Outcome:
    """What a program did: the number of tests that passed, the failing tests, its time and its output."""

    program: Program
    passed: int
    failed: list[str]
    seconds: float
    output: str


def programs() -> list[Program]:
    """Builds the test programs. The largest comes first, since it runs longest."""
    cargo = os.environ.get("CARGO", "cargo")
    built = subprocess.run([cargo, *BUILD], cwd=TOP, stdout=subprocess.PIPE, text=True)
    if built.returncode:
        sys.exit(built.returncode)
    found = []
    for line in built.stdout.splitlines():
        message = json.loads(line) if line.startswith("{") else {}
        if message.get("executable") and message["profile"]["test"]:
            folder = Path(message["manifest_path"]).parent
            found.append(Program(f"{folder.name}:{message['target']['name']}", message["executable"], str(folder)))
    return sorted(found, key=lambda program: (-os.path.getsize(program.path), program.name))


def run(program: Program, limit_s: float, filters: list[str]) -> Outcome:
    """Runs a program. One that fails without a failing test, or does not end, is a failing test itself."""
    environment = os.environ | {"CARGO_MANIFEST_DIR": program.folder}
    began = time.monotonic()
    child = subprocess.Popen(
        [program.path, *filters], cwd=program.folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        errors="replace", start_new_session=True)
    failed = []
    try:
        output, _ = child.communicate(timeout=limit_s)
        if child.returncode:
            failed = [f"{program.name}::{test}" for test in FAILED.findall(output)] or [f"{program.name}: exit code {child.returncode}"]
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        output, _ = child.communicate()
        failed = [f"{program.name}: no end within {limit_s:.0f} s"]
    passed = PASSED.search(output)
    return Outcome(program, int(passed[1]) if passed else 0, failed, time.monotonic() - began, output)


def run_all(found: list[Program], jobs: int, limit_s: float, filters: list[str]) -> list[str]:
    """Runs the programs and prints a line for each, or the output of one that fails. Returns the failing tests."""
    failed = []
    with ThreadPoolExecutor(jobs) as pool:
        for outcome in pool.map(lambda program: run(program, limit_s, filters), found):
            if outcome.failed:
                print(outcome.output[-100_000:])
            said = f"FAILED: {', '.join(outcome.failed)}" if outcome.failed else f"{outcome.passed} passed"
            print(f"{outcome.program.name}: {said} ({outcome.seconds:.0f} s)", flush=True)
            failed += outcome.failed
    return failed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    processors = len(os.sched_getaffinity(0))
    parser.add_argument("--jobs", type=int, default=processors, help=f"programs that run at a time (as many as processors: {processors})")
    parser.add_argument("--times", type=int, default=1, help="how often all tests are run (1)")
    parser.add_argument("--beside", type=int, default=0, help="programs that keep processors busy (0)")
    parser.add_argument("--processors", help="processors to run on, separated by commas; all by default")
    parser.add_argument("--only", action="append", default=[], help="a part of a test program's name, as in datafusion:sql; repeatable")
    parser.add_argument("--limit", type=float, default=3600, help="seconds until a test program hangs (3600)")
    parser.add_argument("filters", nargs="*", help="parts of tests' names")
    given = parser.parse_args()
    found = [program for program in programs() if not given.only or any(part in program.name for part in given.only)]
    if not found:
        print(f"no test program is called {' or '.join(given.only)}", file=sys.stderr)
        return 2
    if given.processors:
        os.sched_setaffinity(0, {int(number) for number in given.processors.split(",")})
    busy = [subprocess.Popen(["sh", "-c", BUSY]) for _ in range(given.beside)]
    failures: Counter[str] = Counter()
    try:
        for number in range(1, given.times + 1):
            began = time.monotonic()
            failed = run_all(found, given.jobs, given.limit, given.filters)
            failures.update(failed)
            print(f"run {number} of {given.times}: {len(failed)} failures, {time.monotonic() - began:.0f} s", flush=True)
    finally:
        for program in busy:
            program.kill()
            program.wait()
    for test, times in failures.most_common():
        print(f"{times} of {given.times}: {test}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
