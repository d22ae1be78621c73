"""SQL that tries to leave its tables, and functions with results far larger than their arguments."""

from __future__ import annotations

from itertools import product
from pathlib import Path

from .hostile import Hostile
from .server import Server


def peak(server: Server) -> int:
    """Returns the peak memory of the server's process in bytes."""
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    return next(int(line.split()[1]) << 10 for line in status.splitlines() if line.startswith("VmHWM"))


class Statements(Hostile):
    """Statements are refused, each with an error."""

    def test_sql_stays_with_its_tables(self):
        written = self.own / "written.csv"
        file = self.data / "lineitem.parquet"
        statements = [
            "SELECT * FROM lineitem", "SELECT * FROM public.lineitem", "SELECT * FROM db.public.lineitem",
            "SELECT * FROM coscan.public.lineitem", "SELECT * FROM \"lineitem\"", "SELECT * FROM LINEITEM",
            "SELECT (SELECT max(l_orderkey) FROM lineitem)", "WITH x AS (SELECT * FROM lineitem) SELECT * FROM x",
            "SELECT * FROM nation WHERE EXISTS (SELECT 1 FROM lineitem)", "EXPLAIN SELECT * FROM lineitem",
            "EXPLAIN ANALYZE SELECT * FROM lineitem", "DESCRIBE lineitem", "SHOW COLUMNS FROM lineitem",
            f"SELECT * FROM '{file}'", f"SELECT * FROM \"{file}\"", "SELECT * FROM '/etc/passwd'",
            f"SELECT * FROM read_parquet('{file}')", f"SELECT * FROM parquet_scan('{file}')", "SELECT * FROM read_csv('/etc/passwd')",
            f"CREATE EXTERNAL TABLE mine STORED AS PARQUET LOCATION '{file}'", "CREATE EXTERNAL TABLE p STORED AS CSV LOCATION '/etc/passwd'",
            f"COPY nation TO '{written}'", f"COPY (SELECT 1) TO '{written}' STORED AS CSV", f"COPY nation TO PROGRAM 'cat > {written}'",
            "COPY nation FROM '/etc/passwd'", "COPY nation FROM PROGRAM 'id'", "CREATE TABLE t AS SELECT 1", "CREATE VIEW v AS SELECT 1",
            "CREATE SCHEMA s", "CREATE DATABASE d", "DROP TABLE nation", "INSERT INTO nation SELECT * FROM nation", "DELETE FROM nation",
            "UPDATE nation SET n_name = 'x'", "TRUNCATE nation", "CREATE FUNCTION f() RETURNS INT RETURN 1",
            "SELECT pg_read_file('/etc/passwd')", "SELECT pg_ls_dir('/')", "SELECT lo_import('/etc/passwd')",
            "SET ROLE root", "SET SESSION AUTHORIZATION root", "SET coscan.policy = 'normal'", "SET coscan.administrator = true",
            "SET datafusion.catalog.location = '/'", "SET datafusion.runtime.memory_limit = '1K'",
            "SET datafusion.execution.target_partitions = 1000000", "SET datafusion.catalog.information_schema = false",
            "PREPARE p AS SELECT * FROM lineitem", "DECLARE c CURSOR FOR SELECT * FROM lineitem", "LOAD 'x.so'",
            "ALTER TABLE nation RENAME TO n", "GRANT SELECT ON lineitem TO ann",
        ]
        import psycopg

        with self.connect(self.guarded, "ann") as connection:
            for sql in statements:
                with self.subTest(sql):
                    with self.assertRaises(psycopg.Error):
                        connection.execute(sql)
                        self.fail(f"it was allowed: {sql}")
            # The catalogs do not show other tables either.
            for sql in ("SELECT relname FROM pg_class", "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'",
                        "SELECT attname FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid",
                        "SELECT column_name FROM information_schema.columns WHERE table_schema = 'public'",
                        "SELECT tablename FROM pg_tables WHERE schemaname = 'public'", "SHOW TABLES"):
                told = str(connection.execute(sql).fetchall())
                self.assertNotIn("lineitem", told, sql)
                self.assertNotIn("l_orderkey", told, sql)
        self.assertFalse(written.exists())

    def test_values_that_are_made_are_limited(self):
        """Functions with large results are refused before they run, on constants and on columns."""
        import psycopg

        doubled = "WITH c0 AS (SELECT l_comment AS c FROM lineitem)" + "".join(
            f", c{n + 1} AS (SELECT c || c AS c FROM c{n})" for n in range(30)) + " SELECT max(length(c)) FROM c30"
        many = "SELECT " + ", ".join(f"length(repeat('{n}', 10000000))" for n in range(20))
        statements = [
            "SELECT repeat('x', 2000000000)", "SELECT length(repeat('x', 2000000000))", "SELECT lpad('x', 2000000000)",
            "SELECT rpad('x', 2000000000, 'yz')", "SELECT replace(repeat('x', 10000000), 'x', repeat('y', 1000))",
            "SELECT regexp_replace(repeat('x', 10000000), 'x', 'yyyyyyyyyy', 'g')", "SELECT array_repeat(1, 1000000000)",
            "SELECT range(0, 10000000000)", "SELECT generate_series(1, 10000000000)",
            "SELECT generate_series(timestamp '1970-01-01', timestamp '2020-01-01', interval '1 second')",
            "SELECT array_resize(make_array(1), 1000000000, 2)", "SELECT array_to_string(range(0, 100000), repeat('x', 10000))",
            "SELECT to_char(now(), repeat('Month', 10000000))", "SELECT repeat('x', 1073741824) || repeat('y', 1073741824)",
            "SELECT 1 WHERE repeat('x', 2000000000) <> ''",
            "SELECT max(length(repeat(l_comment, 100000))) FROM lineitem", "SELECT max(length(lpad(l_comment, 1000000))) FROM lineitem",
            "SELECT max(length(replace(l_comment, 'e', repeat('x', 100000)))) FROM lineitem",
            "SELECT max(length(concat(l_comment, repeat('x', 1000000)))) FROM lineitem",
            "SELECT max(length(l_comment || repeat('x', 1000000))) FROM lineitem",
            "SELECT max(array_length(array_repeat(l_orderkey, 1000000))) FROM lineitem",
            "SELECT max(array_length(range(0, l_orderkey + 1000000))) FROM lineitem",
            "SELECT repeat('x', 1000000), l_orderkey FROM lineitem",
            "SELECT CASE WHEN l_orderkey > 5 THEN repeat('x', 1000000) END FROM lineitem", doubled, many,
        ]
        # An aggregation reserves what it keeps of a batch when it has it. Texts grow by doubling, so more exists at
        # one moment.
        aggregates = [
            "SELECT length(string_agg(repeat(l_comment, 1000), '')) FROM lineitem",
            "SELECT array_length(array_agg(repeat(l_comment, 1000))) FROM lineitem",
        ]
        server = Server("--user-memory", str(256 << 20), data=self.data)
        connect = lambda: psycopg.connect(host="127.0.0.1", port=server.port, user="coscan", dbname="db", autocommit=True)
        try:
            with connect() as connection:
                connection.execute("SELECT max(length(repeat(l_comment, 100))) FROM lineitem")
                before = peak(server)
                # An argument, a result, and the values made from it. Without a limit these take 2 GB and more.
                for refused, most in ((statements, 3), (aggregates, 6)):
                    for sql, prepared in product(refused, (False, True)):
                        with self.subTest(sql[:100], prepared=prepared):
                            with self.assertRaises(psycopg.Error) as error:
                                connection.execute(sql, prepare=prepared).fetchall()
                            # Texts that double are too many operators already.
                            self.assertIn(error.exception.sqlstate, ("53200", "54001"), error.exception)
                            self.assertIn("user", str(error.exception))
                    print(f"   values that are made: {before >> 20} MiB before, {peak(server) >> 20} MiB at most", flush=True)
                    self.assertLess(peak(server) - before, most * 256 << 20)
                # Results that fit are returned, and refused statements have released their memory.
                for sql, expected in (
                        ("SELECT length(repeat('x', 10000000))", 10000000), ("SELECT lpad('7', 3, '0')", "007"),
                        ("SELECT max(length(l_comment || repeat('x', 1000))) > 1000 FROM lineitem", True),
                        ("SELECT count(*) FROM (SELECT repeat(l_comment, 100) AS c FROM lineitem) AS t WHERE c <> ''", 299814),
                        ("SELECT concat('a', NULL, 1)", "a1"), ("SELECT 'a' || NULL", None), ("SELECT 'a' || 'b'", "ab"),
                        ("SELECT array_to_string(range(0, 4), '-')", "0-1-2-3")):
                    with self.subTest(sql):
                        self.assertEqual(connection.execute(sql).fetchone()[0], expected)
        finally:
            server.stop()
