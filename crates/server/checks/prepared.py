"""Prepared statements of the protocol and of SQL: their meaning after changes of tables, views and settings."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import unittest
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path

from .server import COSCAN, Server, client_packages


class Prepared(unittest.TestCase):
    """An administrator changes tables under prepared statements."""

    @classmethod
    def setUpClass(cls):
        client_packages()
        cls.folder = Path(tempfile.mkdtemp())
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        import pyarrow

        for name, values in (("one", [1, 2]), ("other", [3]), ("texts", ["x"]), ("many/1", [1])):
            cls.write(name, pyarrow.table({"a": values}))
        users = cls.folder / "users.toml"
        add = [COSCAN, "user", "add", "root", "--role", "admin", "--users", users]
        subprocess.run(add, check=True, env=os.environ | {"COSCAN_PASSWORD": "root"})
        cls.server = Server("--users", str(users), data=None)
        cls.addClassCleanup(cls.server.stop)

    @classmethod
    def write(cls, name, table):
        from pyarrow import parquet

        path = cls.folder / f"{name}.parquet"
        path.parent.mkdir(exist_ok=True)
        parquet.write_table(table, path)

    def connect(self):
        import psycopg

        return psycopg.connect(
            host="127.0.0.1", port=self.server.port, user="root", password="root", dbname="db", autocommit=True)

    def fails(self, code, ask, *args):
        import psycopg

        with self.assertRaises(psycopg.Error) as failed:
            ask(*args)
        self.assertEqual(failed.exception.sqlstate, code, failed.exception)

    def test_it_means_what_is_there_when_it_is_executed(self):
        import pyarrow

        queries = {name: f"SELECT * FROM {name} ORDER BY a" for name in ("v", "t", "m")}
        queries["v"] = "SELECT * FROM v"
        queries["z"] = "SELECT pg_typeof(2.5)"
        queries["s"] = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'looked for'"
        with self.connect() as connection, self.connect() as other:
            for way in ("protocol", "sql"):
                with self.subTest(way):
                    run = connection.execute
                    external = lambda name, path: run(f"CREATE EXTERNAL TABLE {name} STORED AS PARQUET LOCATION '{self.folder}/{path}'")
                    of = lambda name: run(f"EXECUTE {name}") if way == "sql" else run(queries[name], prepare=True)
                    ask = lambda name: [row[0] for row in of(name)]
                    run("CREATE VIEW v AS SELECT 1 AS a")
                    external("t", "one.parquet")
                    external("m", "many/")
                    for name, sql in queries.items() if way == "sql" else ():
                        run(f"PREPARE {name} AS {sql}")
                    self.assertEqual([ask(name) for name in queries], [[1], [1, 2], [1], ["numeric"], [0]])
                    run("CREATE OR REPLACE VIEW v AS SELECT 2 AS a")
                    self.assertEqual(ask("v"), [2])
                    # After a DROP of its own, psycopg forgets its statements.
                    other.execute("DROP TABLE t")
                    self.fails("42P01", ask, "t")
                    external("t", "other.parquet")
                    self.assertEqual(ask("t"), [3])
                    self.write("many/2", pyarrow.table({"a": [2]}))
                    self.assertEqual(ask("m"), [1, 2])
                    (self.folder / "many/2.parquet").unlink()
                    for decimals, of_type in (("false", "double precision"), ("true", "numeric")):
                        run(f"SET datafusion.sql_parser.parse_float_as_decimal = {decimals}")
                        self.assertEqual(ask("z"), [of_type])
                    # A table that is made at planning time, and an action of another session.
                    other.execute("SET application_name = 'looked for'")
                    self.assertEqual(ask("s"), [1])
                    other.execute("RESET application_name")
                    # Other columns are refused until the original ones are back.
                    for sql in ("SELECT 'x' AS a", "SELECT 2 AS b", "SELECT 2 AS a, 3 AS b"):
                        run(f"CREATE OR REPLACE VIEW v AS {sql}")
                        self.fails("0A000", ask, "v")
                    run("CREATE OR REPLACE VIEW v AS SELECT 4 AS a")
                    self.assertEqual(ask("v"), [4])
                    other.execute("DROP TABLE t")
                    external("t", "texts.parquet")
                    self.fails("0A000", ask, "t")
                    for drop in ("VIEW v", "TABLE t", "TABLE m"):
                        run(f"DROP {drop}")

    def test_prepare_execute_deallocate(self):
        with self.connect() as connection:
            one = lambda sql, binary=False: connection.cursor(binary=binary).execute(sql).fetchall()
            run = connection.execute
            run("PREPARE p (int, text, unknown) AS SELECT $1 + 1, $2 || 'x', $3")
            for binary in (False, True):
                self.assertEqual(one("EXECUTE p(1 + 1, 'a', 'b')", binary), [(3, "ax", "b")])
            run("PREPARE times (date, interval, numeric) AS SELECT $1 - 1, timestamp '2024-01-01' + $2, $3 * 2")
            self.assertEqual(
                one("EXECUTE times('2024-01-01', '1 day 02:00', 2.5)"), [(date(2023, 12, 31), datetime(2024, 1, 2, 2), Decimal(5))])
            run('PREPARE "P" AS SELECT $1::int')
            self.assertEqual(one('EXECUTE "P"(7)'), [(7,)])
            for code, sql in (
                ("42601", "EXECUTE p(1)"), ("22P02", "EXECUTE p('x', 'a', 'b')"), ("0A000", "EXECUTE p((SELECT 1), 'a', 'b')"),
                ("42P05", "PREPARE p AS SELECT 1"), ("42601", "PREPARE q AS BEGIN"), ("26000", "EXECUTE q"), ("26000", "DEALLOCATE q"),
                ("42704", "PREPARE q (nonsense) AS SELECT $1"),
            ):
                with self.subTest(sql):
                    self.fails(code, run, sql)
            run("DEALLOCATE p")
            self.fails("26000", run, "EXECUTE p(1, 'a', 'b')")
            run("DEALLOCATE PREPARE times")
            run("DEALLOCATE ALL")
            self.fails("26000", run, 'EXECUTE "P"(7)')
            self.fails("26000", run, 'DEALLOCATE "P"')

    def test_json_identifiers_and_arrays(self):
        import uuid

        from psycopg.types.json import Json, Jsonb

        one = uuid.UUID("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11")
        asked = [
            ("%s", [one], one), ("%s::uuid", [str(one).upper()], one), ("%s", [Json([1])], [1]), ("%s", [Jsonb({"a": 1})], {"a": 1}),
            ("%s || %s", [Jsonb({"a": 1}), Jsonb({"b": 2})], {"a": 1, "b": 2}), ("%s -> 'a'", [Jsonb({"a": 1})], 1),
            ("""'{"a": 1}'::jsonb || %s""", ['{"b": 2}'], {"a": 1, "b": 2}), ("%s", [[1, 2]], [1, 2]), ("%s::text[]", [["a", None]], ["a", None]),
            ("2 = ANY(%s)", [[1, 2]], True), ("(SELECT %s)", ["a"], "a"), ("'a%%' LIKE 'a!%%' ESCAPE %s", ["!"], True),
            ("date '2024-01-01' = ANY(%s::date[])", [[date(2024, 1, 1)]], True),
            ("(SELECT count(*) FROM unnest(%s) x)", [[1, 2]], 2),
        ]
        with self.connect() as connection:
            for binary in (False, True):
                for sql, values, expected in asked:
                    with self.subTest(sql, values=values, binary=binary):
                        sql = sql.replace("%s", "%b") if binary else sql
                        self.assertEqual(connection.execute(f"SELECT {sql}", values).fetchone()[0], expected)
            for sql, values, expected in (
                ("PREPARE j (jsonb, jsonb) AS SELECT $1 || $2", """'{"a": 1}', '{"b": 2}'""", {"a": 1, "b": 2}),
                ("PREPARE j (int[]) AS SELECT $1", "'{1,2,null}'", [1, 2, None]),
                ("PREPARE j (int[]) AS SELECT count(*) FROM unnest($1) x", "'{1,2}'", 2),
                ("PREPARE j (uuid) AS SELECT $1", f"'{str(one).upper()}'", one),
            ):
                with self.subTest(sql):
                    connection.execute(sql)
                    self.assertEqual(connection.execute(f"EXECUTE j({values})").fetchone()[0], expected)
                    connection.execute("DEALLOCATE j")

    def test_types_that_the_client_states(self):
        """psycopg states the types of numbers and times. The other operand's types do not replace them."""
        day = date(2024, 1, 1)
        asked = [
            ("timestamp '2024-01-01' + %s", timedelta(days=1, hours=2), datetime(2024, 1, 2, 2)),
            ("timestamp '2024-01-01' - %s", timedelta(hours=2), datetime(2023, 12, 31, 22)),
            ("timestamp '2024-01-01' - %s", datetime(2023, 12, 30, 1), timedelta(days=1, hours=23)),
            ("date '2024-01-01' + %s", 3, date(2024, 1, 4)), ("%s + date '2024-01-01'", 3, date(2024, 1, 4)),
            ("date '2024-01-01' - %s", 3, date(2023, 12, 29)), ("date '2024-01-01' - %s", date(2023, 12, 30), 2),
            ("date '2024-01-01' + %s", timedelta(hours=1), datetime(2024, 1, 1, 1)), ("time '10:00' + %s", timedelta(hours=1), time(11)),
            ("interval '1 day' * %s", 3, timedelta(days=3)), ("%s * interval '1 day'", 2.5, timedelta(days=2.5)),
            ("interval '1 day' * %s", Decimal("2.5"), timedelta(days=2.5)), ("%s - interval '1 day'", day, datetime(2023, 12, 31)),
            ("now() - %s < now()", timedelta(hours=1), True), ("%s AND true", True, True), ("%s = time '10:00'", time(10), True),
        ]
        with self.connect() as connection:
            for binary in (False, True):
                for sql, value, expected in asked:
                    with self.subTest(sql, value=value, binary=binary):
                        found = connection.cursor(binary=binary).execute(f"SELECT {sql}", [value]).fetchone()[0]
                        # A date plus whole days is a date, which equals PostgreSQL's timestamp.
                        if isinstance(expected, datetime) and not isinstance(found, datetime):
                            found = datetime(found.year, found.month, found.day)
                        self.assertEqual(found, expected)
