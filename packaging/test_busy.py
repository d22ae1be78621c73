"""Runs the workspace's tests repeatedly on a busy machine, and names those that fail.

    python3 packaging/test_busy.py --times 20 --beside 8
    python3 packaging/test_busy.py --times 1 --beside 0 --processors 0

Test programs are built once, like those of `make test`, before the machine is made busy. The programs beside them
only use processor time, and end with this one. A test whose outcome depends on the machine's speed fails here.

It does not run the checks in Python, the documentation's examples or ignored tests.
"""

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent

# As in `make test`.
BUILD = ["test", "--config", ".cargo/checked.toml", "--locked", "--release", "--workspace", "--no-run", "--message-format", "json"]
FAILED = re.compile(r"^test (\S+) \.\.\. FAILED$", re.MULTILINE)
BUSY = "while :; do :; done"


def programs() -> list[tuple[str, str, str]]:
    """Returns the test programs: name, path, and the folder of the package."""
    cargo = os.environ.get("CARGO", "cargo")
    built = subprocess.run([cargo, *BUILD], cwd=TOP, stdout=subprocess.PIPE, text=True, check=True)
    found = []
    for line in built.stdout.splitlines():
        message = json.loads(line) if line.startswith("{") else {}
        if message.get("executable") and message["profile"]["test"]:
            folder = Path(message["manifest_path"]).parent
            found.append((f"{folder.name}:{message['target']['name']}", message["executable"], str(folder)))
    return sorted(found)


def run(program: tuple[str, str, str], limit_s: float, filters: list[str]) -> list[str]:
    """Returns the failing tests of a program, or the program itself if it fails otherwise or does not end."""
    name, path, folder = program
    environment = os.environ | {"CARGO_MANIFEST_DIR": folder}
    child = subprocess.Popen(
        [path, *filters], cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
        start_new_session=True)
    try:
        said, _ = child.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        said, _ = child.communicate()
        print(said[-4000:])
        return [f"{name}: no end within {limit_s:.0f} s"]
    if child.returncode == 0:
        return []
    print(said[said.find("failures:"):][:8000])
    return [f"{name}::{test}" for test in FAILED.findall(said)] or [f"{name}: exit code {child.returncode}"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--times", type=int, default=20, help="how often all tests are run (20)")
    parser.add_argument("--beside", type=int, default=8, help="programs that keep processors busy (8)")
    parser.add_argument("--processors", help="processors to run on, separated by commas; all by default")
    parser.add_argument("--only", action="append", default=[], help="a part of a test program's name, as in datafusion:sql; repeatable")
    parser.add_argument("--limit", type=float, default=3600, help="seconds until a test program hangs (3600)")
    parser.add_argument("filters", nargs="*", help="parts of tests' names")
    given = parser.parse_args()
    found = [program for program in programs() if not given.only or any(part in program[0] for part in given.only)]
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
            failed = [test for program in found for test in run(program, given.limit, given.filters)]
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
