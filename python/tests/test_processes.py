"""Forks, other processes, signals, and the end of the interpreter. Each test runs a program of its own."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from conftest import ROWS

HEAD = """
import os, sys, threading, time
import coscan
SLOW = "SELECT count(*) FROM numbers a CROSS JOIN numbers b WHERE a.n + b.n = -1"
def opened():
    con = coscan.connect(buffer="32MB", small_table_bytes=0)
    con.register("numbers", sys.argv[1])
    return con
"""


def start(numbers: Path, program: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", HEAD + program, str(numbers)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(numbers: Path, program: str) -> str:
    """Runs a program, which must end well, and returns its output."""
    with start(numbers, program) as process:
        output, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    return output.strip()


def test_a_fork_is_a_clear_error(numbers: Path) -> None:
    program = """
con = opened()
query = con.sql("SELECT count(*) FROM numbers")
query.fetchall()
child = os.fork()
if child == 0:
    for use in (query.fetchall, con.stats, lambda: con.sql("SELECT 1"), lambda: con.register("t", sys.argv[1]), opened):
        try:
            use()
        except coscan.ForkedError as error:
            assert "spawn" in str(error)
        else:
            os._exit(1)
    sys.exit(0)
"""
    program += "print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), query.fetchall())"
    assert run(numbers, program) == f"0 [({ROWS},)]"


def test_a_fork_before_the_first_connection_is_none(numbers: Path) -> None:
    program = """
child = os.fork()
found = opened().sql("SELECT count(*) FROM numbers").fetchall()
if child == 0:
    sys.exit(0 if found == query_rows else 1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), found)
"""
    assert run(numbers, program.replace("query_rows", repr([(ROWS,)]))) == f"0 [({ROWS},)]"


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_other_ways_to_start_processes(numbers: Path, tmp_path: Path, method: str) -> None:
    module = tmp_path / "worker.py"
    module.write_text(
        HEAD
        + f"""
import multiprocessing
def count(path):
    con = coscan.connect()
    con.register("numbers", path)
    return con.sql("SELECT count(*) FROM numbers").fetchall()
if __name__ == "__main__":
    opened().sql("SELECT 1").fetchall()
    with multiprocessing.get_context("{method}").Pool(2) as pool:
        print(pool.map(count, [sys.argv[1]] * 2))
"""
    )
    done = subprocess.run([sys.executable, module, numbers], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str([[(ROWS,)]] * 2)


@pytest.mark.parametrize(
    "waits",
    [
        "opened().sql(SLOW).fetchall()",
        "opened().sql(SLOW).arrow()",
        "opened().sql_many([SLOW, SLOW])",
        "opened().execute(SLOW).fetchone()",
        "list(opened().sql(SLOW))",
        "opened().sql(SLOW).reader().read_all()",
        "con = opened(); con.register('b', con.sql(SLOW))",
        # pyarrow has an error of its own. That of Ctrl-C follows, or pyarrow has taken it while it made its error.
        """import pyarrow
    try:
        pyarrow.table(opened().sql(SLOW))
    except (OSError, ValueError):
        raise KeyboardInterrupt from None""",
    ],
)
def test_control_c_ends_a_statement(numbers: Path, waits: str) -> None:
    program = f"""
try:
    print("ready", flush=True)
    {waits}
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""
    with start(numbers, program) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        time.sleep(0.7)
        begin = time.monotonic()
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=60)
    assert output.strip() == "interrupted", errors
    assert process.returncode == 0
    assert time.monotonic() - begin < 30


@pytest.mark.parametrize(
    "end",
    [
        "threading.Thread(target=con.sql(SLOW).fetchall, daemon=True).start()",
        "rows = con.sql(SLOW)._native.start()",
        "reader = con.sql('SELECT a.n FROM numbers a CROSS JOIN numbers b').reader(); reader.read_next_batch()",
        "con.sql(SLOW)._native.start(); con.close()",
    ],
)
def test_the_interpreter_ends_while_a_statement_runs(numbers: Path, end: str) -> None:
    program = f"""
con = opened()
{end}
time.sleep(0.3)
print("end", flush=True)
"""
    begin = time.monotonic()
    assert run(numbers, program) == "end"
    assert time.monotonic() - begin < 60


def test_sub_interpreters_are_refused(numbers: Path) -> None:
    program = """
import _xxsubinterpreters as interpreters
other = interpreters.create()
try:
    interpreters.run_string(other, "import coscan")
except interpreters.RunFailedError as error:
    print("ImportError" in str(error), "subinterpreters" in str(error))
"""
    if sys.version_info >= (3, 13):
        pytest.skip("the private module has another name in this Python")
    assert run(numbers, program) == "True True"


def test_the_import_takes_little_time() -> None:
    program = "import time; begin = time.perf_counter(); import coscan; print(time.perf_counter() - begin)"
    times = [float(subprocess.check_output([sys.executable, "-c", program])) for _ in range(5)]
    assert min(times) < 0.15, times


def test_the_command(numbers: Path) -> None:
    for command in ([str(Path(sys.executable).parent / "coscan")], [sys.executable, "-m", "coscan"]):
        query = ["sql", "--table", f"numbers={numbers}", "-c", "SELECT count(*) AS rows FROM numbers", "--format", "csv"]
        done = subprocess.run(command + query, capture_output=True, text=True, timeout=60)
        assert done.stdout.split() == ["rows", str(ROWS)], done.stderr
        wrong = subprocess.run([*command, "sql", "-c", "SELECT x"], capture_output=True, text=True, timeout=60)
        assert wrong.returncode == 1
        assert "x" in wrong.stderr
        usage = subprocess.run([*command, "sql", "--nothing"], capture_output=True, text=True, timeout=60)
        assert usage.returncode == 2
