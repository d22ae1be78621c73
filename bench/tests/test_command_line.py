"""Arguments of the command line: sizes, lists, and missing ones."""

import argparse
import contextlib
import io
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from bench import __main__ as command_line
from bench import runner, setup


class CommandLine(unittest.TestCase):
    def test_sizes(self):
        for text, number in (("65536", 65536), ("512MB", 512 * 10**6), ("2GiB", 2 << 30), ("100m", 10**8)):
            self.assertEqual(command_line.size(text), number)
        for text in ("", "lots", "5i", "0", "-1MB"):
            with self.assertRaises(argparse.ArgumentTypeError, msg=text):
                command_line.size(text)

    def test_unknown_engines_and_parts_are_refused(self):
        parser = command_line.arguments()
        self.assertEqual(parser.parse_args(["--engines", "duckdb,relevance"]).engines, ("duckdb", "relevance"))
        for words in (["--engines", "duckdb,oracle"], ["--parts", "tape-mix"], ["--scale-factor", "../1"]):
            with self.assertRaises(SystemExit), contextlib.redirect_stderr(io.StringIO()):
                parser.parse_args(words)

    def test_a_missing_binary_is_said(self):
        errors = io.StringIO()
        with contextlib.redirect_stderr(errors), mock.patch.object(sys, "argv", ["bench", "--coscan", "/nowhere"]):
            self.assertEqual(command_line.main(), 2)
        self.assertIn("there is no program /nowhere", errors.getvalue())

    def test_a_bad_workload_ends_the_runner(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "workload.json"
            for text, why in (("{", "workload"), ('{"version": 2}', "version 1"), ('{"version": 1}', "no tables")):
                path.write_text(text)
                with self.assertRaises(SystemExit) as ended:
                    runner.read_workload(path)
                self.assertIn(why, str(ended.exception))

    def test_an_environment_of_somebody_else_is_left_alone(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertIn("is no virtual environment", setup.environment(Path(folder)))
            self.assertEqual(list(Path(folder).iterdir()), [])


class Streams(unittest.TestCase):
    def test_a_failing_query_does_not_end_its_stream(self):
        class Peer:
            def connect(self):
                def execute(sql):
                    if sql == "bad":
                        raise ValueError("no\n such column")
                    return [(1, "x")]

                return execute

        streams = [{"start_s": 0.0, "queries": [{"id": "0.0", "sql": "bad"}, {"id": "0.1", "sql": "good"}]}]
        bad, good = runner.run_streams(Peer(), streams)
        self.assertEqual((bad["rows"], bad["error"]), (None, "ValueError: no such column"))
        self.assertEqual((good["id"], good["rows"], good["error"]), ("0.1", [[1, "x"]], None))
        self.assertLessEqual(bad["end_s"], good["start_s"])
