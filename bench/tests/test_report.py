"""The report lists measured, skipped and differing results."""

import json
import unittest

from bench import engines, report
from bench.limits import Limits
from bench.metrics import Cost, Measurement
from bench.plan import Bench, Options, Part
from bench.workload import Table


def measurement(seconds):
    return Measurement(Cost(5e6, 1.0, 2e8, 1e8), 0, seconds, seconds * 2, seconds + 1, latencies_s={"F-01": [seconds]})


def bench():
    options = Options(("cached-mix", "disk-mix"), (1, 2), 8, 2, 2, 300.0, Limits(512_000_000, 100_000_000), 128, False)
    of_peer = engines.peer("duckdb")
    of_coscan = engines.coscan("coscan", "relevance")
    cached = Part("cached-mix", base_engine="relevance", base={"F-01": 0.5}, delay_s=0.1)
    cached.runs = {
        "relevance": [{"mix": measurement(2.0)}, {"mix": measurement(4.0)}],
        "duckdb": [{"mix": measurement(4.0)}, {"mix": Measurement(Cost(), 16)}],
    }
    disk = Part("disk-mix", skipped="limits on memory and reads need root")
    return Bench(options, Table(("/x",), 10, 1, 10, 10**9), [of_coscan, of_peer], [cached, disk])


class Reports(unittest.TestCase):
    def test_text(self):
        text = report.to_text(bench(), {"polars": "No module named 'polars'"})
        self.assertIn("Left out: polars: No module named 'polars'", text)
        self.assertIn("== disk-mix: skipped: limits on memory and reads need root", text)
        relevance, duckdb = (
            next(line.split() for line in text.splitlines() if line.startswith(name))
            for name in ("relevance", "duckdb")
        )
        # Median and range over two seeds; then the failed engine's missing times and its 16 queries.
        self.assertEqual(relevance[1:3], ["3.00", "(2.00-4.00)"])
        self.assertEqual((duckdb[1], duckdb[-1]), ("-", "16"))
        self.assertIn("gave the same answers", text)

    def test_differences_are_loud(self):
        differing = bench()
        differing.differences.append("duckdb answers otherwise than relevance")
        self.assertTrue(differing.failed)
        text = report.to_text(differing, {})
        self.assertIn("THE ENGINES DO NOT AGREE\nduckdb answers", text)
        self.assertNotIn("gave the same answers", text)

    def test_json(self):
        content = json.loads(json.dumps(report.to_json(bench(), {})))
        cached = content["parts"]["cached-mix"]["engines"]
        self.assertEqual(cached["relevance"]["stream_time_s"], {"median": 3.0, "min": 2.0, "max": 4.0})
        self.assertIsNone(cached["duckdb"]["stream_time_s"])
        self.assertEqual(cached["duckdb"]["failed"], 16)
        self.assertIsNone(cached["relevance"]["ratio_to_best_other"]["bytes_read"])
        self.assertEqual(content["parts"]["disk-mix"], {"skipped": "limits on memory and reads need root"})

    def test_a_busy_machine_is_said(self):
        content = bench()
        self.assertNotIn("MACHINE WAS BUSY", report.to_text(content, {}))
        content.parts[0].runs["relevance"][1]["mix"] = Measurement(Cost(cpu_s=1.0, others_cores=1.5))
        self.assertIn("MACHINE WAS BUSY", report.to_text(content, {}))
        self.assertTrue(report.to_json(content, {})["parts"]["cached-mix"]["disturbed"])

    def test_who_is_faster_than_all_others_is_below_one(self):
        content = bench()
        for runs in content.parts[0].runs.values():
            del runs[1]
        ratios = {
            name: of_engine["ratio_to_best_other"]["stream_time_s"]["median"]
            for name, of_engine in report.to_json(content, {})["parts"]["cached-mix"]["engines"].items()
        }
        self.assertEqual(ratios, {"relevance": 0.5, "duckdb": 2.0})
