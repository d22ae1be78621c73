"""Workloads depend on their seed alone, and queries stay in the table."""

import json
import re
import unittest

from bench import workload
from bench.workload import KINDS, Table

TABLE = Table(("/lineitem.parquet",), 5_999_989, 1, 6_000_000, 1000)


def queries(content):
    return [query for stream in content["streams"] for query in stream["queries"]]


class Workloads(unittest.TestCase):
    def test_the_seed_decides_everything(self):
        def text(seed):
            return json.dumps(workload.mix(TABLE, seed, 16, 4, 0.5))

        self.assertEqual(text(1), text(1))
        self.assertNotEqual(text(1), text(2))

    def test_streams_have_their_shape_and_all_kinds_occur(self):
        content = workload.mix(TABLE, 7, 16, 4, 0.5)
        self.assertEqual([stream["start_s"] for stream in content["streams"]], [at * 0.5 for at in range(16)])
        self.assertEqual([len(stream["queries"]) for stream in content["streams"]], [4] * 16)
        self.assertEqual(set(workload.kinds_of(content).values()), set(KINDS))
        self.assertEqual(len(workload.kinds_of(content)), 64)

    def test_a_range_lies_in_the_table_and_has_its_size(self):
        # A domain that does not begin at 1 and does not divide evenly.
        table = Table(("/x",), 10, 100, 1098, 1)
        keys = {"01": 9, "10": 99, "50": 499, "100": 999}
        for kind in KINDS:
            for repetition in range(20):
                (query,) = queries(workload.alone(table, kind, repetition))
                low, high = map(int, re.search(r"l_orderkey >= (\d+) AND l_orderkey < (\d+)", query["sql"]).groups())
                self.assertEqual((low, high), (query["key_lo"], query["key_hi"]))
                self.assertEqual(high - low, keys[kind.split("-")[1]], kind)
                self.assertGreaterEqual(low, 100)
                self.assertLessEqual(high, 1099)

    def test_places_are_random(self):
        places = {queries(workload.alone(TABLE, "F-10", repetition))[0]["key_lo"] for repetition in range(5)}
        self.assertEqual(len(places), 5)

    def test_a_dashboard_scans_everything_with_different_parameters(self):
        content = workload.dashboard(TABLE, 1, 16, 0.3)
        self.assertEqual(len(content["streams"]), 16)
        self.assertAlmostEqual(content["streams"][15]["start_s"], 4.5)
        for query in queries(content):
            self.assertEqual((query["key_lo"], query["key_hi"]), (1, 6_000_001))
        self.assertGreater(len({query["sql"] for query in queries(content)}), 8)

    def test_discounts_are_written_with_two_digits(self):
        for query in queries(workload.dashboard(TABLE, 3, 64, 0.0)):
            low, high = re.search(r"BETWEEN 0\.(\d\d) AND 0\.(\d\d) ", query["sql"]).groups()
            self.assertEqual(int(high) - int(low), 2)
