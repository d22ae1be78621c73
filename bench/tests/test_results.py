"""A wrong row is found, rounding is accepted, and a bad result file has a clear error."""

import json
import tempfile
import unittest
from pathlib import Path

from bench import results
from bench.results import BadResult, Outcome, difference

ROWS = [["A", "F", "37734107.00", 1478493, None], ["N", "O", "991417.00", 38854, 0.5]]


def changed(row, column, value):
    rows = [list(cells) for cells in ROWS]
    rows[row][column] = value
    return rows


class Comparison(unittest.TestCase):
    def test_the_same_in_other_words_is_the_same(self):
        self.assertIsNone(difference(ROWS, ROWS))
        self.assertIsNone(difference(ROWS, changed(0, 2, "37734107.0000")))
        self.assertIsNone(difference(ROWS, changed(0, 2, 37734107.0)))
        self.assertIsNone(difference(ROWS, changed(1, 4, 0.5 + 1e-11)))

    def test_a_wrong_cell_is_named(self):
        self.assertEqual(
            difference(ROWS, changed(1, 2, "991418.00")), "row 2, column 3 is '991418.00' instead of '991417.00'"
        )
        self.assertIn("row 1, column 1", difference(ROWS, changed(0, 0, "B")))
        self.assertIn("row 1, column 5", difference(ROWS, changed(0, 4, 0)))

    def test_counts_must_be_equal_however_large(self):
        self.assertIsNotNone(difference([[10**12]], [[10**12 + 1]]))
        self.assertIsNone(difference([[1e12]], [[10**12 + 1]]))

    def test_rounding_ends_at_nine_digits(self):
        self.assertIsNone(difference([["1000000000.0"]], [["1000000000.9"]]))
        self.assertIsNotNone(difference([["1000000000.0"]], [["1000000002.0"]]))

    def test_missing_rows_and_columns_are_named(self):
        self.assertEqual(difference(ROWS, ROWS[:1]), "1 rows instead of 2")
        self.assertEqual(difference(ROWS, [ROWS[0], ["N"]]), "row 2 has 1 columns instead of 5")

    def test_the_order_of_rows_matters(self):
        self.assertIsNotNone(difference(ROWS, ROWS[::-1]))

    def test_a_query_that_failed_is_no_difference(self):
        good, failed = Outcome(0, 1, ROWS, None), Outcome(0, 1, None, "no memory")
        wrong = Outcome(0, 1, ROWS[:1], None)
        self.assertEqual(results.differences({"0.0": good, "0.1": good}, {"0.0": failed, "0.1": good}), [])
        self.assertEqual(
            results.differences({"0.0": good, "0.1": good}, {"0.0": good, "0.1": wrong}),
            ["query 0.1: 1 rows instead of 2"],
        )


WORKLOAD = {"streams": [{"queries": [{"id": "0.0", "kind": "F-01"}, {"id": "0.1", "kind": "F-10"}]}]}


def good_file():
    query = {"start_s": 0.0, "end_s": 1.0, "rows": [[1]], "error": None}
    return {"version": 1, "queries": [{"id": "0.0", **query}, {"id": "0.1", **query}]}


class Files(unittest.TestCase):
    def read(self, text):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "results.json"
            path.write_text(text)
            return results.read(path, WORKLOAD)

    def refused(self, content):
        with self.assertRaises(BadResult) as raised:
            self.read(content if isinstance(content, str) else json.dumps(content))
        return str(raised.exception)

    def test_a_good_file(self):
        content = good_file()
        content["queries"][1].update(rows=None, error="refused")
        outcomes = self.read(json.dumps(content))
        self.assertEqual(outcomes["0.0"], Outcome(0.0, 1.0, [[1]], None))
        self.assertEqual((outcomes["0.1"].rows, outcomes["0.1"].error), (None, "refused"))

    def test_what_is_no_result_file(self):
        self.assertIn("is no JSON", self.refused("{"))
        self.assertIn("version 1", self.refused("[]"))
        self.assertIn("version 1", self.refused({**good_file(), "version": 2}))
        self.assertIn("no list of queries", self.refused({"version": 1}))
        with self.assertRaisesRegex(BadResult, "cannot be read"):
            results.read(Path("/nowhere/results.json"), WORKLOAD)

    def test_every_query_is_answered_once(self):
        content = good_file()
        missing = content["queries"].pop()
        self.assertIn("missing ['0.1']", self.refused(content))
        content["queries"] += [missing, missing]
        self.assertIn("not one result per query", self.refused(content))
        content["queries"][2] = {**missing, "id": "9.9"}
        self.assertIn("not asked for ['9.9']", self.refused(content))

    def test_a_query_that_makes_no_sense_is_named(self):
        for change, text in (
            ({"rows": None}, "query 0.1 has neither rows nor an error"),
            ({"rows": [1]}, "query 0.1 has neither rows nor an error"),
            ({"start_s": 2.0}, "query 0.1 runs from 2.0 s to 1.0 s"),
            ({"end_s": "soon"}, "query number 1"),
            ({"end_s": float("nan")}, "query 0.1 runs"),
        ):
            content = good_file()
            content["queries"][1].update(change)
            self.assertIn(text, self.refused(content))
        content["queries"][1] = "nothing"
        self.assertIn("query number 1", self.refused(content))
