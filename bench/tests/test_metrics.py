"""The quantities, on numbers small enough to compute by hand."""

import unittest

from bench import metrics
from bench.metrics import Cost, Spread
from bench.results import Outcome

WORKLOAD = {
    "streams": [
        {"start_s": 0.0, "queries": [{"id": "0.0", "kind": "F-01"}, {"id": "0.1", "kind": "F-100"}]},
        {"start_s": 1.0, "queries": [{"id": "1.0", "kind": "F-01"}]},
    ]
}
OUTCOMES = {
    "0.0": Outcome(0.0, 1.0, [], None),
    "0.1": Outcome(1.0, 5.0, [], None),
    "1.0": Outcome(1.0, 3.0, [], None),
}
BASE = {"F-01": 0.5, "F-100": 2.0}


class Measurements(unittest.TestCase):
    def test_quantities_as_the_paper_defines_them(self):
        run = metrics.measure(WORKLOAD, OUTCOMES, Cost(cpu_s=3.0), BASE)
        self.assertEqual(run.stream_time_s, (5.0 + 2.0) / 2)
        self.assertEqual(run.normalised_latency, (1.0 / 0.5 + 4.0 / 2.0 + 2.0 / 0.5) / 3)
        self.assertEqual(run.total_time_s, 5.0)
        self.assertEqual(run.latency_s, (1.0 + 4.0 + 2.0) / 3)
        self.assertEqual(run.latency_max_s, 4.0)
        self.assertEqual(run.latencies_s, {"F-01": [1.0, 2.0], "F-100": [4.0]})
        self.assertEqual((run.cost.cpu_s, run.failed, run.slowdown), (3.0, 0, None))

    def test_the_own_base_is_another_quantity(self):
        run = metrics.measure(WORKLOAD, OUTCOMES, Cost(), BASE, {"F-01": 1.0, "F-100": 1.0})
        self.assertEqual(run.slowdown, (1.0 + 4.0 + 2.0) / 3)

    def test_a_kind_without_base_leaves_no_figure(self):
        self.assertIsNone(metrics.measure(WORKLOAD, OUTCOMES, Cost(), {"F-01": 0.5}).normalised_latency)

    def test_a_run_with_a_failed_query_has_costs_but_no_times(self):
        outcomes = {**OUTCOMES, "1.0": Outcome(1.0, 1.1, None, "out of memory")}
        run = metrics.measure(WORKLOAD, outcomes, Cost(bytes_read=7), BASE)
        self.assertEqual((run.failed, run.stream_time_s, run.normalised_latency), (1, None, None))
        self.assertEqual(run.cost.bytes_read, 7)


class Summaries(unittest.TestCase):
    def test_median_and_range(self):
        self.assertEqual(Spread.of([3.0, 1.0, 2.0]), Spread(2.0, 1.0, 3.0))
        self.assertEqual(Spread.of([1.0, 2.0]), Spread(1.5, 1.0, 2.0))
        self.assertIsNone(Spread.of([]))
        self.assertIsNone(Spread.of([1.0, None]))

    def test_ratios_are_to_the_best_outside_the_family(self):
        values = {"relevance": [2.0, 3.0], "normal": [1.0, 1.0], "duckdb": [4.0, 2.0], "chdb": [8.0, 1.0]}
        families = {"relevance": "coscan", "normal": "coscan", "duckdb": "duckdb", "chdb": "chdb"}
        ratios = metrics.ratios_to_best_other(values, families)
        # Best of duckdb and chdb: 4, then 1.
        self.assertEqual(ratios["relevance"], Spread(1.75, 0.5, 3.0))
        # Best of the others, which is normal: 1, then 1.
        self.assertEqual(ratios["duckdb"], Spread(3.0, 2.0, 4.0))
        self.assertEqual(ratios["chdb"], Spread(4.5, 1.0, 8.0))

    def test_who_failed_is_neither_best_nor_compared(self):
        ratios = metrics.ratios_to_best_other({"a": [2.0], "b": [None], "c": [4.0]}, {"a": "a", "b": "b", "c": "c"})
        self.assertEqual(ratios["a"], Spread(0.5, 0.5, 0.5))
        self.assertIsNone(ratios["b"])
        alone = metrics.ratios_to_best_other({"a": [2.0], "b": [None]}, {"a": "a", "b": "b"})
        self.assertIsNone(alone["a"])
