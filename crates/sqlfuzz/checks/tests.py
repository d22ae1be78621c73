"""Tests of the comparison: the differences that it must find, and those that it must allow."""

from __future__ import annotations

import datetime
import random
import tempfile
import unittest
from collections import Counter
from decimal import Decimal
from pathlib import Path

from . import dashboards
from .compare import Answer, Row, difference, in_total_order, without_order
from .parts import Query, listed, optional, part, shrink
from .in_duckdb import DuckDb
from .differences import FLOAT8, INT4, INT8, NUMERIC, TEXT
from .postgresql_queries import PostgresqlQueries
from .random_sql import KIND
from .sides import ANSWERED, BOTH_REFUSE, DIFFERENT, EXACT, LIMITED, OTHER_COLUMNS, Refusal, Reply, Sides, is_failure, without_narrow_casts
from .tables import write_tables
from .tpcds import with_ranks

LAYOUTS = {"key", "missing", "narrower", "required", "declared", "sorted_groups"}
NAN = float("nan")
ROWS: list[Row] = [(1, "a"), (2, None), (2, None), (3, "b")]


class Comparison(unittest.TestCase):
    def test_rows_in_any_order_are_the_same(self):
        self.assertIsNone(difference(without_order(ROWS), ROWS[::-1]))

    def test_another_row_is_found(self):
        found = difference(without_order(ROWS), [*ROWS[:3], (3, "c")])
        self.assertEqual((found.only_oracle, found.only_coscan), ([(3, "b")], [(3, "c")]))

    def test_rows_that_are_missing_or_too_many_are_found(self):
        self.assertEqual(difference(without_order(ROWS), ROWS[1:]).only_oracle, ROWS[:1])
        self.assertEqual(difference(without_order(ROWS[1:]), ROWS).only_coscan, ROWS[:1])

    def test_another_count_of_equal_rows_is_found(self):
        found = difference(without_order(ROWS), [ROWS[0], ROWS[0], ROWS[1], ROWS[3]])
        self.assertEqual((found.only_oracle, found.only_coscan), ([ROWS[1]], [ROWS[0]]))

    def test_another_order_is_found_where_it_is_total(self):
        found = difference(in_total_order(ROWS), [ROWS[1], ROWS[0], *ROWS[2:]])
        self.assertTrue(found.in_order)

    def test_rows_that_are_equal_in_order_may_change_places(self):
        answer = Answer([[(1, "a"), (1, "b")], [(2, "c")]])
        self.assertIsNone(difference(answer, [(1, "b"), (1, "a"), (2, "c")]))
        self.assertTrue(difference(answer, [(1, "b"), (2, "c"), (1, "a")]).in_order)

    def test_of_rows_that_share_the_last_place_any_will_do(self):
        answer = Answer([[(1,)], [(2, "a"), (2, "b"), (2, "c")]], limit=2)
        self.assertIsNone(difference(answer, [(1,), (2, "c")]))
        for wrong in ([(1,)], [(2, "a"), (2, "b")], [(1,), (2, "d")], [(1,), (2, "a"), (2, "b")], [(2, "c"), (1,)]):
            self.assertIsNotNone(difference(answer, wrong), wrong)

    def test_a_row_with_more_columns_is_another(self):
        self.assertIsNotNone(difference(without_order([(1,)]), [(1, None)]))

    def test_values(self):
        day, midnight = datetime.date(2020, 1, 2), datetime.datetime(2020, 1, 2)
        same = [
            (None, None), (NAN, NAN), (NAN, Decimal("NaN")), (0.0, -0.0), (0, -0.0), (1, 1.0), (1, Decimal("1.00")),
            (True, True), (day, midnight), (0.1 + 0.2, 0.3), (42.5018221, Decimal("42.501822")), (1e30, 1e30 + 1e15),
            (float("inf"), float("inf")),
        ]
        others = [
            (None, 0), (None, NAN), (None, ""), (NAN, 0.0), (NAN, float("inf")), (NAN, "NaN"), (1, 2), (True, 1),
            (True, "True"), (False, None), ("a", "A"), ("1", 1), (day, datetime.datetime(2020, 1, 2, 1)), (0.3, 0.301),
            (Decimal("0.3"), Decimal("0.3000001")), (1.0, Decimal("1.00001")), (float("inf"), float("-inf")),
            (10**18, 10**18 + 1),
        ]
        for wanted, given in same:
            self.assertIsNone(difference(without_order([(wanted,)]), [(given,)]), (wanted, given))
        for wanted, given in others:
            self.assertIsNotNone(difference(without_order([(wanted,)]), [(given,)]), (wanted, given))
            self.assertIsNotNone(difference(without_order([(given,)]), [(wanted,)]), (given, wanted))

    def test_any_change_of_an_answer_is_found(self):
        """One value, row or place of a random answer is changed."""
        for seed in range(200):
            dice = random.Random(seed)
            rows = [(at, dice.choice([None, 1.5, "a"]), dice.randint(0, 3)) for at in range(dice.randint(2, 50))]
            given, at = list(rows), dice.randrange(len(rows) - 1)
            change = dice.choice(["value", "lost", "twice", "place"])
            if change == "value":
                given[at] = (*given[at][:2], 4)
            elif change == "lost":
                del given[at]
            elif change == "twice":
                given[at] = given[at + 1]
            else:
                given[at], given[at + 1] = given[at + 1], given[at]
            self.assertIsNotNone(difference(in_total_order(rows), given), seed)
            self.assertEqual(difference(without_order(rows), given) is None, change == "place", seed)


class Shrinking(unittest.TestCase):
    def test_what_the_failure_does_not_need_is_left_out(self):
        condition = part("(", part("(a = 1)", simpler="true"), " AND ", part("(b = 2)", simpler="true"), ")", simpler="true")
        body = part("SELECT ", listed([part("a"), part("b")]), " FROM t", optional(" WHERE ", condition))
        query = Query(body, part(" ORDER BY 1, 2 LIMIT 3"))
        smaller = shrink(query, lambda less: "b = 2" in str(less), seconds=10)
        self.assertEqual(str(smaller), "SELECT a FROM t WHERE (true AND (b = 2))")

    def test_without_time_nothing_is_left_out(self):
        query = Query(part("SELECT 1", optional(" WHERE true")))
        self.assertEqual(shrink(query, lambda less: True, seconds=0), query)


class Shapes(unittest.TestCase):
    def test_each_shape_has_answers(self):
        """DuckDB answers most queries of a shape, some of them with rows, and with the number of columns that is stated."""
        import duckdb

        rows, refused = Counter(), Counter()
        for seed in range(4):
            with duckdb.connect(config={"threads": 1}) as database:
                for table in KIND.draw(seed, 0).tables:
                    database.execute(table.create)
                engine, queries = DuckDb(database), KIND.queries(random.Random(seed))
                for shape in queries.shapes() * 5:
                    body, columns = shape()
                    answer = engine.ask(Query(body))
                    if isinstance(answer, Answer) and answer.rows():
                        self.assertEqual(len(answer.rows()[0]), columns, str(body))
                        rows[shape.__name__] += 1
                    refused[shape.__name__] += not isinstance(answer, Answer)
        for shape in queries.shapes():
            self.assertGreater(rows[shape.__name__], 2, shape.__name__)
            self.assertLess(refused[shape.__name__], 15, shape.__name__)


class Files(unittest.TestCase):
    def test_files_have_the_rows_of_their_tables(self):
        import duckdb

        seen = set()
        for seed in range(40):
            with tempfile.TemporaryDirectory() as folder, duckdb.connect(config={"threads": 1}) as database:
                database.execute("SET TimeZone = 'UTC'")
                tables = [table for table in KIND.draw(seed, 0).tables if not table.layout.repeated]
                write_tables(database, tables, Path(folder))
                for table in tables:
                    layout = table.layout
                    seen |= {name for name in LAYOUTS if getattr(layout, name)}
                    options = f"union_by_name = true, hive_partitioning = {bool(layout.key and table.rows)}"
                    columns = ", ".join(f"CAST({column} AS {kind}) AS {column}" for column, kind in table.types.items())
                    files = f"SELECT {columns} FROM read_parquet('{table.path(Path(folder))}/**/*.parquet', {options})"
                    for left, right in ((table.name, f"({files})"), (f"({files})", table.name)):
                        more = database.execute(f"SELECT * FROM {left} EXCEPT ALL SELECT * FROM {right}").fetchall()
                        self.assertEqual(more, [], (seed, table))
        self.assertEqual(seen, LAYOUTS)


class FixedOracle:
    """An engine with fixed answers: to exact questions, and to a query without its order."""

    def __init__(self, exact: object, unlimited: object):
        self.exact, self.unlimited = exact, unlimited

    def ask(self, query: Query, exact: bool = False) -> object:
        assert exact or not query.order, "the answer to the query itself is known"
        return self.exact if exact else self.unlimited


class Planted(unittest.TestCase):
    """Wrong answers of coscan are reported, and right ones are not."""

    WANTED = without_order([(1, 10), (2, None), (3, 2**63)], columns=[("a", INT4), ("sum", NUMERIC)])
    TYPES = [("a", INT4), ("sum", INT8)]

    def outcome(self, wanted: object, given: object, exact: object = "unknown", order: str = "", unlimited: object = None) -> str:
        query = Query(part("SELECT 1"), part(order) if order else None)
        return Sides(FixedOracle(exact, unlimited), None, []).outcome(query, wanted, given)

    def error(self, code: str) -> Exception:
        error = Exception("planted")
        error.sqlstate = code
        return error

    def test_right_answers(self):
        self.assertFalse(is_failure(self.outcome(self.WANTED, Reply(self.WANTED.rows(), self.TYPES))))
        refusal = Refusal("22003", "out of range")
        self.assertEqual(self.outcome(refusal, self.error("22003")), BOTH_REFUSE)
        self.assertEqual(self.outcome(refusal, Reply([(2**40,)]), without_order([(2**40,)])), EXACT)

    def test_a_row_that_is_missing_a_null_for_a_value_and_a_sum_that_wraps_around(self):
        for rows in (
            [(1, 10), (2, None)], [(1, 10), (2, None), (3, 2**63), (3, 2**63)], [(1, None), (2, None), (3, 2**63)],
            [(1, 10), (2, 0), (3, 2**63)], [(1, 10), (2, None), (3, -(2**63))], [],
        ):
            self.assertEqual(self.outcome(self.WANTED, Reply(rows, self.TYPES)), DIFFERENT, rows)

    def test_another_name_or_type_of_a_column(self):
        for columns in ([("b", INT4), ("sum", INT8)], [("a", TEXT), ("sum", INT8)], [("a", FLOAT8), ("sum", INT8)]):
            self.assertEqual(self.outcome(self.WANTED, Reply(self.WANTED.rows(), columns)), OTHER_COLUMNS)

    def test_an_answer_where_an_error_is_due(self):
        refusal = Refusal("22003", "out of range")
        for exact in (without_order([(2**63,)]), refusal, "too slow"):
            self.assertEqual(self.outcome(refusal, Reply([(-(2**63),)]), exact), ANSWERED)
        self.assertEqual(self.outcome(Refusal("22012", "division by zero"), Reply([(None,)])), ANSWERED)

    def test_an_error_where_an_answer_is_due(self):
        self.assertTrue(is_failure(self.outcome(self.WANTED, self.error("42702"))))
        self.assertTrue(is_failure(self.outcome(without_order([(1,)]), self.error("22003"))))
        self.assertTrue(is_failure(self.outcome(Refusal("22012", "division by zero"), self.error("22003"))))
        self.assertTrue(is_failure(self.outcome(without_order([(1,)]), self.error("0A000"))))
        # The sum of bigint is bigint.
        self.assertFalse(is_failure(self.outcome(self.WANTED, self.error("22003"))))

    def test_rows_that_a_limit_omits(self):
        limit, few = " ORDER BY 1 LIMIT 3", without_order([(1,)])
        # A sum beyond bigint may be in another row.
        self.assertFalse(is_failure(self.outcome(few, self.error("22003"), order=limit, unlimited=self.WANTED)))
        self.assertTrue(is_failure(self.outcome(few, self.error("22003"), order=limit, unlimited=few)))
        refusal, answer = Refusal("22012", "division by zero"), Reply([(1,)])
        self.assertEqual(self.outcome(refusal, answer, order=limit), LIMITED)
        self.assertEqual(self.outcome(refusal, answer, order=" ORDER BY 1"), ANSWERED)


class Dashboards(unittest.TestCase):
    """Wrong answers to a statement of a dashboard are found, and right ones are not."""

    SQL = "SELECT host, sum(amount) FROM metrics GROUP BY host"
    WANTED = ([TEXT, NUMERIC], [["db", "1.50"], ["web", None]])

    def finding(self, given: object, wanted: object = WANTED) -> str | None:
        return dashboards.finding(self.SQL, wanted, given)

    def test_right_answers(self):
        for rows in ([["db", "1.5"], ["web", None]], [["web", None], ["db", "1.50000000000001"]]):
            self.assertIsNone(self.finding(([TEXT, NUMERIC], rows)))
        self.assertIsNone(self.finding(("22012", "division by zero"), ("22012", "division by zero")))

    def test_wrong_values_rows_and_types(self):
        for rows in ([["db", "1.5"]], [["db", "1.51"], ["web", None]], [["db", "1.5"], ["web", "0"]], [["DB", "1.5"], ["web", None]],
                     [["db", "1.5"], ["web", None], ["web", None]]):
            self.assertIsNotNone(self.finding(([TEXT, NUMERIC], rows)), rows)
        self.assertIsNotNone(self.finding(([TEXT, TEXT], self.WANTED[1])))
        # Texts are compared with all their digits.
        times = lambda text: ([TEXT], [[text]])
        self.assertIsNotNone(self.finding(times("2024-03-31T00:00:00"), times("2024-03-31 00:00:00")))

    def test_refusals(self):
        self.assertIsNotNone(self.finding(("42883", "no such function")))
        self.assertIsNotNone(self.finding(("XX000", "a bug"), ("22012", "division by zero")))
        self.assertIsNotNone(self.finding(self.WANTED, ("22012", "division by zero")))


class Draws(unittest.TestCase):
    def test_a_seed_is_always_the_same(self):
        self.assertEqual(KIND.draw(7, 20), KIND.draw(7, 20))
        self.assertEqual(KIND.draw(7, 20).queries[:5], KIND.draw(7, 5).queries)

    def test_all_that_is_said_to_be_drawn_is_drawn(self):
        """Each of these is in many of two thousand queries."""
        common = [str(KIND.queries(random.Random(seed)).query()) for seed in range(2000)]
        more = [str(PostgresqlQueries(random.Random(seed)).query()) for seed in range(2000)]
        for text in (
            "USING (", "NATURAL", "SELECT *", "NOT IN (SELECT", "NOT EXISTS (SELECT", "IS NOT TRUE", "IS NULL", "CASE WHEN",
            " OVER (", "UNION", "NULLS FIRST", "LIMIT", "FULL JOIN", "HAVING", "a.e", "abs(", "INTERVAL",
        ):
            self.assertGreater(sum(text in query for query in common), 50, text)
        for text in ("ALL (SELECT", "ANY (SELECT", " / ", "(NULL"):
            self.assertGreater(sum(text in query for query in more), 20, text)

    def test_exact_answers_have_no_narrow_casts(self):
        query = Query(part("SELECT CAST(a AS SMALLINT), CAST(CAST(b AS BIGINT) AS DOUBLE PRECISION) FROM t WHERE a = 1"))
        wide = "SELECT CAST(a AS HUGEINT), CAST(CAST(b AS HUGEINT) AS DOUBLE PRECISION) FROM t WHERE a = 1"
        self.assertEqual(without_narrow_casts(str(query), "HUGEINT"), wide)

    def test_ranks(self):
        ranked = "SELECT *, rank() OVER (ORDER BY  b ) AS place FROM (SELECT a, b FROM t )"
        self.assertEqual(
            with_ranks("SELECT a, b FROM t ORDER BY b LIMIT 5;"),
            (f"SELECT * FROM ({ranked}) WHERE place <= 5 ORDER BY place", 5))
        self.assertEqual(with_ranks("SELECT 1"), (None, None))
