"""Faults of engines become the run's failure. Small programs speak the protocol, or break it."""

import sys
import tempfile
import time
import unittest
from pathlib import Path

from bench import process
from bench.engines import Engine
from bench.process import Place

WORKLOAD = {
    "version": 1,
    "tables": {},
    "streams": [{"id": 0, "start_s": 0.0, "queries": [{"id": "0.0", "kind": "F-01", "sql": "SELECT 1"}]}],
}
ANSWER = '{"version": 1, "queries": [{"id": "0.0", "start_s": 0, "end_s": 1, "rows": [[1]], "error": null}]}'
PRELUDE = """
import pathlib, sys, time
out = pathlib.Path(sys.argv[sys.argv.index("--out") + 1])
"""


def run(program, time_limit_s=20.0):
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "engine.py"
        script.write_text(PRELUDE + program)
        engine = Engine("test", "test", (sys.executable, str(script)))
        return process.run(engine, WORKLOAD, Place(1, time_limit_s))


@unittest.skipUnless(Path("/proc/self/status").exists(), "there is no /proc")
class Processes(unittest.TestCase):
    def test_an_engine_that_works(self):
        done = run(
            f"print('noise'); print('READY 1', flush=True); sys.stdin.readline(); out.write_text('''{ANSWER}''')\n"
            "block = bytearray(64 << 20)\n"
            "end = time.process_time() + 0.3\n"
            "while time.process_time() < end: pass\n"
            "print('DONE', flush=True); sys.stdin.readline()"
        )
        self.assertIsNone(done.failure)
        self.assertEqual(done.outcomes["0.0"].rows, [[1]])
        self.assertGreaterEqual(done.cost.cpu_s, 0.25)
        self.assertLess(done.cost.cpu_s, 5)
        self.assertGreater(done.cost.rss_peak_bytes, 64 << 20)

    def test_an_engine_that_dies(self):
        done = run("sys.exit('no such table')")
        self.assertEqual(done.failure, "ended with exit code 1 before it said READY: no such table")
        done = run("print('READY', flush=True); sys.stdin.readline(); import os; os.kill(os.getpid(), 11)")
        self.assertEqual(done.failure, "ended with signal 11 before it said DONE")
        self.assertFalse(done.out_of_memory)

    def test_an_engine_that_hangs_is_ended(self):
        before = time.monotonic()
        done = run("print('READY', flush=True); sys.stdin.readline(); time.sleep(3600)", time_limit_s=0.5)
        self.assertEqual(done.failure, "no DONE after 0.5 s")
        self.assertLess(time.monotonic() - before, 1800)

    def test_an_engine_that_writes_nothing_or_nonsense(self):
        protocol = "print('READY', flush=True); sys.stdin.readline(); {}; print('DONE', flush=True); sys.stdin.readline()"
        self.assertIn("cannot be read", run(protocol.format("pass")).failure)
        self.assertIn("is no JSON", run(protocol.format("out.write_text('{')")).failure)
        unanswered = """out.write_text('{"version": 1, "queries": []}')"""
        self.assertIn("missing ['0.0']", run(protocol.format(unanswered)).failure)

    def test_a_program_that_is_not_there(self):
        engine = Engine("test", "test", ("/nowhere/engine",))
        done = process.run(engine, WORKLOAD, Place(1, 1.0))
        self.assertIn("/nowhere/engine cannot be started", done.failure)
