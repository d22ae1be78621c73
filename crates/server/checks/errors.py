"""Errors of coscan serve beside those of PostgreSQL: code, words, hint and place.

Each statement fails in both servers. A short list names the parts that differ.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

from .served import Served
from .server import free_port

PROGRAMS = Path("/usr/lib/postgresql/15/bin")

#: Statements with equal errors.
SAME = r"""
SELECT * FROM metric
SELECT count(*) FROM nation, metric m
SELECT * FROM foo.nation WHERE n_name = 'x'
SELECT n_nam FROM nation
SELECT n_name,
       n_nam FROM nation
SELECT n.n_nam FROM nation n
SELECT x.n_name FROM nation n
SELECT n_name FROM nation ORDER BY n_keys
SELECT n_name AS a FROM nation WHERE a = 'x'
SELECT "n_Name" FROM nation
SELECT nation FROM nation n
SELECT 'ä', n_nam FROM nation
SELECT n_name FROM nation WHERE n_regionke = 3 AND n_name LIKE 'x%'
SELECT a.n_name FROM nation a, nation b WHERE n_name = 'x'
SELECT n_name FROM nation a, nation b
SELECT foo(1)
SELECT foo(n_name, 2.5, 'x') FROM nation
SELECT n_name, foo(n_nationkey, true, NULL, current_date) FROM nation
SELECT foo() OVER () FROM nation
SELECT abs('x'::text)
SELECT sum(n_name) FROM nation
SELEC 1
SELECT 1 FROM
SELECT (1
SELECT 1 +
SELECT * FROM nation WHERE
SELECT * FROM nation WHER n_name = 'x'
SELECT n_name, FROM nation
SELECT n_name n_key n_x FROM nation
SELECT * FROM nation GROUP BY
SELECT 'abc
SELECT "abc
SELECT 1 /* abc
SELECT 'x'::int
SELECT 'x'::bigint
SELECT int 'x'
SELECT 'x'::float8
SELECT 'x'::numeric
SELECT 'x'::bool
SELECT 'x'::date
SELECT 'x'::timestamp
SELECT 'x'::interval
SELECT interval '1 foo'
SELECT '3000000000'::int
SELECT 3000000000::int
SELECT '99999999999999999999'::bigint
SELECT cast(n_name AS int) FROM nation
SELECT count(*) FROM nation WHERE n_name::int = 1
SELECT n_name FROM nation WHERE n_nationkey = 'x'
SELECT (n_nationkey + 2147483640)::int FROM nation
SELECT 1/0
SELECT 1 % 0
SELECT 1/n_nationkey FROM nation
SELECT n_regionkey/(n_nationkey-3) FROM nation
SELECT count(*) FROM nation WHERE 1/n_nationkey = 1
SELECT n_name, count(*) FROM nation
SELECT n.n_name, count(*) FROM nation n GROUP BY n_regionkey
SELECT n_name FROM nation WHERE n_nationkey = true
SELECT 1 WHERE (SELECT n_nationkey FROM nation) = 1
SELECT * FROM nation LIMIT -1
SELECT sqrt(-1)
SELECT * FROM nation n JOIN orders o USING (x)
SELECT * FROM nation n JOIN nation n ON true
SELECT 'x'::foo
SELECT n_name::foo FROM nation
SELECT * FROM nation; SELECT * FROM nope
EXECUTE nope
SELECT * FROM generate_series(1,2,0)
SELECT $1
SELECT row_number() FROM nation
SELECT nope.* FROM nation
SELECT * FROM nation LIMIT 1 OFFSET -1
SELECT * FROM nation WHERE n_name = $$x
SELECT count(n_nam) FROM nation
SELECT n_name FROM nation GROUP BY n_nam
SELECT * FROM nation n WHERE EXISTS (SELECT 1 FROM orders o WHERE o.o_key = n.n_nationkey)
WITH a AS (SELECT 1 AS x) SELECT y FROM a
SELECT * FROM (SELECT 1 AS x) s WHERE s.y = 1
SELECT date '2024-02-30'
SELECT n_name FROM nation WHERE n_nationkey IN ('a')
SELECT * * FROM nation
SELECT 1 2
"""

#: Statements whose errors have the same code and the same words, but another or no place or hint. The hints are those of
#: similar tables and of overflows.
OTHER_PLACES = r"""
SELECT * FROM natio
SELECT * FROM "Nation"
SELECT '2024-13-01'::date
SELECT 12345.678::numeric(5, 2)
SELECT 9223372036854775807 + 1
SELECT n_nationkey * 9223372036854775807 FROM nation
SELECT 2147483647::int + 1::int
SELECT 32767::smallint + 1::smallint
SELECT count(*) FROM nation WHERE count(*) > 1
SELECT n_name FROM nation WHERE n_nationkey
SELECT n_name FROM nation UNION SELECT n_name, n_nationkey FROM nation
SELECT n_name FROM nation ORDER BY 5
SELECT sum(count(*)) FROM nation
SELECT * FROM a.b.c.d
"""

#: Names of the engine's parts, which no client sees.
PARTS = ["Error during planning", "Optimizer rule", "Arrow error", "Execution error", "Schema error", "caused by", "External error",
         "type_coercion", "Cast error", "This feature is not implemented", "DataFusion", "Utf8", "Int64",
         "Decimal128"]


def statements(text: str) -> list[str]:
    """Returns the statements of a list. A line that begins with spaces goes on with the line before."""
    return text.strip("\n").replace("\n  ", "\0  ").split("\n")


class PostgreSQL:
    """A server of PostgreSQL in a folder of its own."""

    def __init__(self):
        self.folder, self.port = Path(tempfile.mkdtemp(prefix="coscan-errors-")), free_port()
        self.drop = []
        if os.geteuid() == 0:
            user = pwd.getpwnam("nobody")
            os.chown(self.folder, user.pw_uid, user.pw_gid)
            self.drop = ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]
        self.run("initdb", "-D", self.folder / "data", "-U", "coscan", "-E", "UTF8", "--no-locale", "-A", "trust", "--no-sync")
        options = f"-p {self.port} -c listen_addresses=127.0.0.1 -c unix_socket_directories='' -c fsync=off"
        self.run("pg_ctl", "-D", self.folder / "data", "-o", options, "-l", self.folder / "log", "-w", "start")

    def run(self, name: str, *arguments):
        command = [*self.drop, PROGRAMS / name, *arguments]
        subprocess.run([str(part) for part in command], check=True, stdout=subprocess.DEVNULL, cwd=self.folder)

    def stop(self):
        self.run("pg_ctl", "-D", self.folder / "data", "-m", "immediate", "stop")
        shutil.rmtree(self.folder)


class Errors(Served):
    """Both servers, with equal tables."""

    @classmethod
    def setUpClass(cls):
        if not (PROGRAMS / "postgres").exists():
            raise unittest.SkipTest("PostgreSQL 15 is missing: install postgresql-15")
        super().setUpClass()
        import psycopg

        cls.postgresql = PostgreSQL()
        cls.addClassCleanup(cls.postgresql.stop)
        ours = psycopg.connect(host="127.0.0.1", port=cls.server.port, user="coscan", dbname="postgres", autocommit=True)
        theirs = psycopg.connect(host="127.0.0.1", port=cls.postgresql.port, user="coscan", dbname="postgres", autocommit=True)
        cls.addClassCleanup(ours.close)
        cls.addClassCleanup(theirs.close)
        cls.both = {"coscan": ours, "PostgreSQL": theirs}
        theirs.execute("CREATE TABLE nation (n_nationkey bigint, n_name text, n_regionkey bigint, n_comment text)")
        theirs.execute("CREATE TABLE orders (o_orderkey bigint)")
        with theirs.cursor().copy("COPY nation FROM STDIN") as to:
            for row in ours.execute("SELECT * FROM nation"):
                to.write_row(row)

    def said(self, server: str, statement: str):
        """Returns code, words, hint and place of the error."""
        import psycopg

        with self.assertRaises(psycopg.Error) as raised:
            psycopg.ClientCursor(self.both[server]).execute(statement.encode())
        of = raised.exception.diag
        return of.sqlstate, of.message_primary, of.message_hint, of.statement_position

    def test_errors_are_those_of_postgresql(self):
        for statement in statements(SAME):
            statement = statement.replace("\0", "\n")
            with self.subTest(statement):
                self.assertEqual(self.said("coscan", statement), self.said("PostgreSQL", statement))
        for statement in statements(OTHER_PLACES):
            with self.subTest(statement):
                self.assertEqual(self.said("coscan", statement)[:2], self.said("PostgreSQL", statement)[:2])

    def test_similar_tables_are_hints(self):
        for wrong in ("natio", "nations", '"Nation"'):
            hint = self.said("coscan", f"SELECT * FROM {wrong}")[2]
            self.assertEqual(hint, 'Perhaps you meant to reference the table "nation".')

    def test_the_engine_has_no_name(self):
        odd = ["SELECT unnest(1)", "SELECT chr(-1)", "SELECT 'a' ~ '('", "SELECT date_trunc('foo', now())", "SELECT * FROM nation LIMIT 'x'",
               "SELECT substr(true, 1)", "SELECT n_name FROM nation WHERE n_name + 1 = 2", "SELECT extract(foo FROM now())",
               "SELECT * FROM foo(1)", "SELECT 'x'::uuid", "SELECT NOT 1", "SELECT n_name LIKE 1 FROM nation", "SELECT (ARRAY[1])['a']"]
        for statement in [*odd, *statements(SAME), *statements(OTHER_PLACES)]:
            with self.subTest(statement):
                code, words, hint, _ = self.said("coscan", statement.replace("\0", "\n"))
                for part in PARTS:
                    self.assertNotIn(part, f"{words} {hint}")
                self.assertNotEqual(code, "XX000")

    def test_psql_shows_the_place(self):
        if not shutil.which("psql"):
            self.skipTest("psql is missing: install postgresql-client")
        command = ["psql", "-X", "-h", "127.0.0.1", "-p", str(self.server.port), "-U", "coscan", "-c", "SELECT n_nam FROM nation", "db"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600)
        self.assertIn("LINE 1: SELECT n_nam FROM nation\n               ^", done.stderr)

    def test_drivers_get_the_place_of_prepared_statements(self):
        import psycopg

        with self.assertRaises(psycopg.errors.UndefinedColumn) as raised:
            self.both["coscan"].execute("SELECT n_nam FROM nation WHERE n_nationkey = %s", [1])
        self.assertEqual(raised.exception.diag.statement_position, "8")
