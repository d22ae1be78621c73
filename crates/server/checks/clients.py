"""coscan serve with the drivers of Python and the libraries above them, in several versions.

SQLAlchemy's versions cannot share an environment, so each is in a folder of its own, before the environment of
`server.py`. A program of this module runs in a process with such a folder. A client that cannot be installed fails.
"""

from __future__ import annotations

import asyncio
import datetime
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path

from .served import Served
from .server import TARGET, VENV, Missing, go_program, odbc_driver

#: Versions of SQLAlchemy: the last of 1.4, the first and the last of 2.0, and that of the environment, the newest.
SQLALCHEMY = ["1.4.54", "2.0.0", "2.0.58", None]
#: Its drivers. The empty one is its default: psycopg2 up to 2.0, psycopg since 2.1.
DRIVERS = ["", "+psycopg2", "+psycopg", "+pg8000", "+asyncpg"]
NATION = ["n_nationkey", "n_name", "n_regionkey", "n_comment"]


def sqlalchemy_folder(version: str | None) -> Path | None:
    """Returns a folder with this version of SQLAlchemy."""
    if version is None:
        return None
    folder = TARGET / "serve-clients" / f"sqlalchemy-{version}"
    if not (folder / "sqlalchemy").exists():
        install = [VENV / "bin" / "python", "-m", "pip", "install", "--quiet", "--no-deps", "--only-binary", ":all:"]
        done = subprocess.run([*install, "--target", folder, f"sqlalchemy=={version}"], capture_output=True, text=True)
        if done.returncode:
            raise Missing(f"SQLAlchemy {version} cannot be installed: {done.stderr}")
    return folder


def looked_at(connection) -> None:
    """Reads tables with SQLAlchemy, and what it says about them."""
    import sqlalchemy

    inspector = sqlalchemy.inspect(connection)
    assert inspector.get_table_names() == ["lineitem", "nation", "orders"], inspector.get_table_names()
    assert inspector.get_view_names() == [], inspector.get_view_names()
    assert "public" in inspector.get_schema_names(), inspector.get_schema_names()
    assert [column["name"] for column in inspector.get_columns("nation")] == NATION
    assert inspector.get_pk_constraint("nation")["constrained_columns"] == []
    for of in ("foreign_keys", "indexes", "unique_constraints", "check_constraints"):
        assert getattr(inspector, f"get_{of}")("nation") == [], of
    assert inspector.get_table_comment("nation") == {"text": None}
    assert [inspector.has_table(name) for name in ("nation", "nope")] == [True, False]
    text = sqlalchemy.text("SELECT n_name FROM nation WHERE n_nationkey = :key")
    assert connection.execute(text, {"key": 3}).scalar() == "CANADA"
    orders = sqlalchemy.Table("orders", sqlalchemy.MetaData(), autoload_with=connection)
    columns = [orders.c.o_orderkey, orders.c.o_orderdate]
    asked = sqlalchemy.select(*columns).where(orders.c.o_orderkey.in_([1, 2, 3])).order_by(orders.c.o_orderkey).limit(2)
    rows = connection.execute(asked).fetchall()
    assert [(key, str(date)) for key, date in rows] == [(1, "1996-01-02"), (2, "1996-12-01")], rows
    total = sqlalchemy.select(sqlalchemy.func.count()).select_from(orders).where(orders.c.o_totalprice > 100)
    assert connection.execute(total).scalar() > 0


def with_sqlalchemy(driver: str, port: int) -> None:
    """Connects SQLAlchemy by this driver."""
    import sqlalchemy

    url = f"postgresql{driver}://coscan@127.0.0.1:{port}/db"
    if driver != "+asyncpg":
        # A pool: one connection after the other, and two at once.
        engine = sqlalchemy.create_engine(url)
        with engine.connect() as first, engine.connect() as second:
            looked_at(first)
            assert second.execute(sqlalchemy.text("SELECT 1")).scalar() == 1
        with engine.connect() as again:
            assert again.execute(sqlalchemy.text("SELECT 2")).scalar() == 2
        return
    from sqlalchemy.ext.asyncio import create_async_engine

    async def main():
        engine = create_async_engine(url)
        async with engine.connect() as connection:
            await connection.run_sync(looked_at)
        await engine.dispose()

    asyncio.run(main())


class Libraries(Served):
    """A server where every client may read."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.url = f"postgresql://coscan@127.0.0.1:{cls.server.port}/db"

    def test_sqlalchemy(self):
        # Series 1.4 has no dialect for psycopg.
        pairs = [(version, driver) for version in SQLALCHEMY for driver in DRIVERS
                 if not (driver == "+psycopg" and str(version).startswith("1."))]
        folders = {version: sqlalchemy_folder(version) for version in SQLALCHEMY}

        def connects(pair):
            version, driver = pair
            path = [str(part) for part in (folders[version], Path(__file__).parent.parent) if part]
            command = [VENV / "bin" / "python", "-W", "ignore", "-m", "checks.clients", driver, str(self.server.port)]
            return subprocess.run(command, capture_output=True, text=True, timeout=600,
                                  env=os.environ | {"PYTHONPATH": os.pathsep.join(path)})

        with ThreadPoolExecutor(2) as pool:
            for (version, driver), done in zip(pairs, pool.map(connects, pairs)):
                with self.subTest(version=version or "newest", driver=driver or "default"):
                    self.assertEqual(done.returncode, 0, done.stderr[-3000:])

    def test_psycopg_finds_types(self):
        import psycopg
        from psycopg.types import TypeInfo
        from psycopg.types.range import RangeInfo

        with psycopg.connect(self.url, autocommit=True) as connection:
            for name, oids in [("int4", (23, 1007)), ("integer", (23, 1007)), ("pg_catalog.text", (25, 1009)), ("hstore", None)]:
                found = TypeInfo.fetch(connection, name)
                self.assertEqual(found and (found.oid, found.array_oid), oids, name)
            self.assertEqual(RangeInfo.fetch(connection, "int4range").oid, 3904)
            with connection.pipeline():
                first, second = connection.execute("SELECT 1"), connection.execute("SELECT 2")
            self.assertEqual((first.fetchone(), second.fetchone()), ((1,), (2,)))

    def test_objects_have_names_and_numbers(self):
        import psycopg

        asked = [
            ("SELECT to_regclass('nation')", "nation"), ("SELECT to_regclass('nope')", None),
            ("SELECT to_regclass('public.nation') IS NOT NULL", True), ("SELECT to_regtype('int')", "integer"),
            ("SELECT to_regtype('int4')::oid", 23), ("SELECT to_regproc('now')", "now"), ("SELECT to_regnamespace('public')", "public"),
            ("SELECT 'timestamptz'::regtype", "timestamp with time zone"), ("SELECT 23::regtype::text", "integer"),
            ("SELECT count(*) FROM nation WHERE to_regclass('nation') IS NOT NULL", 25),
            ("SELECT count(*) FROM pg_class WHERE oid = to_regclass('nation')", 1),
            ("SELECT oid::regtype FROM pg_type WHERE typname = '_int4'", "integer[]"),
        ]
        with psycopg.connect(self.url, autocommit=True) as connection:
            for statement, expected in asked:
                with self.subTest(statement):
                    self.assertEqual(connection.execute(statement).fetchone()[0], expected)
            with self.assertRaises(psycopg.errors.UndefinedObject):
                connection.execute("SELECT 'nope'::regtype")

    def test_asyncpg(self):
        import asyncpg

        key = "SELECT n_name FROM nation WHERE n_nationkey = ANY($1) ORDER BY 1"

        async def main():
            connection = await asyncpg.connect(self.url)
            names = [row["n_name"] for row in await connection.fetch(key, [1, 2])]
            self.assertEqual(names, ["ARGENTINA", "BRAZIL"])
            for statement, value in [("SELECT $1::int[]", [1, 2]), ("SELECT $1::float8[]", [1.5]), ("SELECT $1::text[]", ["a"]),
                                     ("SELECT array_agg(n_nationkey) FROM nation WHERE n_nationkey = $1", 3)]:
                self.assertEqual(await connection.fetchval(statement, value), value if isinstance(value, list) else [value])
            async with connection.transaction():
                self.assertEqual(len([row async for row in connection.cursor("SELECT * FROM nation")]), 25)
            await connection.close()
            # A pool releases advisory locks when it gets a connection back.
            async with asyncpg.create_pool(self.url, min_size=2, max_size=5) as pool:
                counts = await asyncio.gather(*[pool.fetchval("SELECT count(*) + $1::int FROM nation", n) for n in range(20)])
                self.assertEqual(counts, [25 + n for n in range(20)])

        asyncio.run(main())

    def test_parameters_have_the_types_of_their_positions(self):
        """Drivers encode values by these types."""
        import psycopg

        asked = [
            ("n_name FROM nation LIMIT $1 OFFSET $2", [20, 20]), ("left(n_name, $1) FROM nation", [20]), ("CASE WHEN $1 THEN 1 END", [16]),
            ("coalesce(n_nationkey, $1), coalesce(n_name, $2) FROM nation", [20, 25]), ("coalesce(nullif($1, 1), $2)", [20, 20]), ("1 FROM nation WHERE $1 AND NOT $2", [16, 16]),
            ("n_nationkey FROM nation UNION ALL SELECT $1", [20]), ("* FROM (VALUES ($1), (2)) t", [20]), ("array[n_nationkey, $1] FROM nation", [20]), ("ntile($1) OVER () FROM nation", [20]),
            ("lag(n_name, $1, $2) OVER () FROM nation", [20, 25]), ("interval '1 day' * $1", [701]), ("now() + $1", [1186]), ("now() - $1", [1184]), ("n_name || $1 FROM nation", [25]), ("n_nationkey || $1 FROM nation", [25]),
            ("1 FROM nation WHERE $1 = '' OR n_name = $1", [25]), ("1 FROM nation WHERE n_nationkey IN (1, $1, 2.5)", [1700]), ("substring(n_name FROM $1) FROM nation", [25]),
            ("* FROM generate_series(1, $1)", [20]), ("* FROM generate_series($1::timestamp, $2, $3)", [1114, 1114, 1186]), ("round(l_tax, $1) FROM lineitem", [20]), ("coalesce(l_tax, $1) FROM lineitem", [1700]),
            ("percentile_cont($1) WITHIN GROUP (ORDER BY l_tax) FROM lineitem", [701]), ("$1", [25]), ("$1 = $2", [25, 25]), ("count(*) FILTER (WHERE $1) FROM nation", [16]),
        ]
        with psycopg.connect(self.url, autocommit=True) as connection:
            for sql, wanted in asked:
                with self.subTest(sql):
                    prepared = connection.pgconn.prepare(b"", f"SELECT {sql}".encode())
                    self.assertEqual(prepared.error_message.decode(), "")
                    described = connection.pgconn.describe_prepared(b"")
                    self.assertEqual([described.param_type(at) for at in range(described.nparams)], wanted)
            with self.assertRaises(psycopg.errors.AmbiguousFunction):
                connection.execute("SELECT date '2024-01-01' + %s", ["1"])

    def test_texts_bound_to_times_are_read_like_constants(self):
        import psycopg

        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute("SET TIME ZONE 'America/New_York'")
            for sql, text, wanted in [
                ("timestamptz '2024-03-31 04:00:00+00' = %s", "2024-03-31", True), ("timestamp '2024-03-31 00:30' = %s", "2024-03-31 00:30", True), ("date '2024-03-31' = %s", "3/31/2024", True),
                ("current_date = %s", "today", True), ("interval '90 minutes' = %s", "1:30", True), ("time '10:00' = %s", "10:00", True), ("true = %s", "yes", True), ("2.5 = %s", " 2.5 ", True), ("7 = %s", " 7 ", True), ("1e3::float8 = %s", "1e3", True),
            ]:
                with self.subTest(sql, text=text):
                    self.assertEqual(connection.execute(f"SELECT {sql}", [text]).fetchone()[0], wanted)
            for sql, text, code in [("7 = %s", "x", "22P02"), ("7 = %s", "2.5", "22P02"), ("date '2024-03-31' = %s", "x", "22007"), ("true = %s", "maybe", "22P02"), ("8 = %s", "9223372036854775808", "22003")]:
                with self.subTest(sql, text=text):
                    self.assertEqual(self.error_of(psycopg.Error, connection.execute, f"SELECT {sql}", [text]).sqlstate, code)

    def test_pg8000(self):
        import pg8000.native

        connection = pg8000.native.Connection("coscan", host="127.0.0.1", port=self.server.port, database="db")
        self.assertEqual(connection.run("SELECT n_name FROM nation WHERE n_nationkey = ANY(:keys)", keys=[3]), [["CANADA"]])
        connection.close()

    def test_go(self):
        try:
            program = go_program()
        except Missing as missing:
            self.skipTest(str(missing))
        done = subprocess.run([program, f"{self.url.replace('postgresql:', 'postgres:')}?sslmode=disable"], capture_output=True, text=True, timeout=600)
        self.assertEqual((done.returncode, done.stdout), (0, "all\n"), done.stdout + done.stderr)

    def test_odbc(self):
        try:
            odbc_driver()
        except Missing as missing:
            self.skipTest(str(missing))
        import pyodbc

        driver = f"Driver=PostgreSQL Unicode;Server=127.0.0.1;Port={self.server.port};Database=db;Uid=coscan;"
        # Prepared by the client; in portions; a savepoint before each statement.
        for more in ("", "UseServerSidePrepare=0;", "UseDeclareFetch=1;Fetch=100;", "Protocol=7.4-2;"):
            with self.subTest(more):
                connection = pyodbc.connect(driver + more)
                self.addCleanup(connection.close)
                cursor = connection.cursor()
                self.assertEqual(sorted(row.table_name for row in cursor.tables(schema="public")), ["lineitem", "nation", "orders"])
                self.assertEqual([row.column_name for row in cursor.columns(table="nation")], NATION)
                for of in (cursor.primaryKeys, cursor.foreignKeys, cursor.rowIdColumns):
                    self.assertEqual(list(of("nation")), [], of)
                self.assertGreater(len(list(cursor.getTypeInfo())), 20)
                date, moment = datetime.date(2024, 2, 29), datetime.datetime(2024, 2, 29, 12, 34, 56, 789000)
                for sql, value, wanted in [
                    ("SELECT n_name FROM nation WHERE n_nationkey = ?", 3, "CANADA"), ("SELECT n_name FROM nation ORDER BY n_name DESC LIMIT ?", 1, "VIETNAM"),
                    ("SELECT count(*) FROM nation WHERE n_name LIKE ?", "A%", 2), ("SELECT ?::int + 1", 41, 42), ("SELECT ?::numeric", Decimal("2.5"), Decimal("2.5")),
                    ("SELECT ?::date", date, date), ("SELECT ?::timestamp", moment, moment), ("SELECT ?::bytea", b"\0\1\xff", b"\0\1\xff"), ("SELECT ?::text", "ä'\\", "ä'\\"),
                    ("SELECT count(*) FROM orders WHERE o_orderdate >= ?", datetime.date(1900, 1, 1), None), ("SELECT left('abc', ?)", 2, "ab"),
                ]:
                    found = cursor.execute(sql, value).fetchone()[0]
                    self.assertEqual(found, wanted if wanted is not None else cursor.execute("SELECT count(*) FROM orders").fetchone()[0], sql)
                rows = cursor.execute("SELECT count(*) FROM lineitem").fetchone()[0]
                self.assertEqual(len(cursor.execute("SELECT l_orderkey FROM lineitem").fetchall()), rows)
                # A failure does not end the transaction if the driver sets a savepoint.
                with self.assertRaises(pyodbc.Error):
                    cursor.execute("SELECT nope FROM nation")
                if not more.startswith("Protocol"):
                    connection.rollback()
                self.assertEqual(cursor.execute("SELECT 1").fetchone()[0], 1)

    def test_savepoints(self):
        import psycopg
        import sqlalchemy
        from psycopg.pq import TransactionStatus

        with psycopg.connect(self.url) as connection:
            run = lambda sql: connection.execute(sql)
            value = lambda of: run(f"SHOW {of}").fetchone()[0]
            fails = lambda code, sql: self.assertEqual(self.error_of(psycopg.Error, run, sql).sqlstate, code, sql)
            for name in ("a", '"B"', "a"):
                run(f"SAVEPOINT {name}")
            run("SET application_name = 'inner'")
            run("DECLARE c CURSOR FOR SELECT 1")
            fails("42703", "SELECT nope FROM nation")
            self.assertEqual(connection.info.transaction_status, TransactionStatus.INERROR)
            for refused in ("SELECT 1", "SELECT nope", "RELEASE a", "SAVEPOINT x"):
                fails("25P02", refused)
            run("ROLLBACK TO SAVEPOINT a")
            self.assertEqual(connection.info.transaction_status, TransactionStatus.INTRANS)
            self.assertEqual(value("application_name"), "")
            fails("34000", "FETCH c")
            run("ROLLBACK TO a")
            run('RELEASE SAVEPOINT "B"')
            fails("3B001", 'ROLLBACK TO "B"')
            run("ROLLBACK TO a")
            run("RELEASE a")
            fails("3B001", "RELEASE a")
            connection.rollback()

            notices = []
            connection.add_notice_handler(lambda notice: notices.append(notice.sqlstate))
            # SET ends with its transaction if that is undone, SET LOCAL in any case.
            for end, kept in (("ROLLBACK", "UTC"), ("COMMIT", "Asia/Tokyo")):
                run("SET TIME ZONE 'UTC'")
                connection.commit()
                run("SET TIME ZONE 'Asia/Tokyo'")
                run("SET LOCAL TIME ZONE 'Europe/Berlin'")
                run("SET LOCAL statement_timeout = '7s'")
                self.assertEqual(run("SELECT timestamptz '2024-07-01 00:00:00+00'::text").fetchone()[0], "2024-07-01 02:00:00+02")
                run(end)
                self.assertEqual((value("timezone"), value("statement_timeout")), (kept, "0"))
                self.assertEqual(connection.info.parameter_status("TimeZone"), kept)
                shown = "2024-07-01 00:00:00+00" if kept == "UTC" else "2024-07-01 09:00:00+09"
                self.assertEqual(run("SELECT timestamptz '2024-07-01 00:00:00+00'::text").fetchone()[0], shown)
                connection.rollback()
            run("SET coscan.order_aware = 'always'")
            run("ROLLBACK")
            self.assertNotEqual(value("coscan.order_aware"), "always")
            run("DECLARE kept CURSOR WITH HOLD FOR SELECT 1")
            run("DECLARE other CURSOR FOR SELECT 1")
            run("COMMIT AND CHAIN")
            self.assertEqual(connection.info.transaction_status, TransactionStatus.INTRANS)
            self.assertEqual(run("FETCH kept").fetchone(), (1,))
            fails("34000", "FETCH other")
            connection.rollback()
            run("DECLARE c CURSOR FOR SELECT 1")
            fails("42P03", "DECLARE c CURSOR FOR SELECT 2")
            connection.rollback()
            run("DECLARE c CURSOR FOR SELECT n FROM generate_series(1, 20) AS n")
            self.assertEqual(run("MOVE 3 IN c").statusmessage, "MOVE 3")
            for sql, row in (("FETCH c", 4), ("FETCH FORWARD c", 5), ("FETCH RELATIVE 2 FROM c", 7), ("FETCH ABSOLUTE 10 c", 10), ("FETCH ABSOLUTE 30 FROM c", None)):
                self.assertEqual(run(sql).fetchone(), row and (row,), sql)
            run("DECLARE b BINARY CURSOR FOR SELECT 258::int")
            self.assertEqual(run("FETCH b").pgresult.get_value(0, 0), b"\0\0\1\2")
            for refused in ("FETCH PRIOR FROM c", "FETCH 0 FROM c"):
                run("SAVEPOINT s")
                fails("0A000", refused)
                run("ROLLBACK TO s")
            connection.rollback()
            connection.autocommit = True
            fails("25P01", "DECLARE c CURSOR FOR SELECT 1")
            self.assertEqual(notices, [])
            # Variables that functions set and read, and names and values that are none.
            self.assertEqual(run("SELECT set_config('TimeZone', 'asia/tokyo', false)").fetchone()[0], "Asia/Tokyo")
            self.assertEqual((value("timezone"), connection.info.parameter_status("TimeZone")), ("Asia/Tokyo", "Asia/Tokyo"))
            run("RESET TIME ZONE")
            self.assertEqual(run("SELECT pg_typeof(now())::text, current_setting('timezone')").fetchone(), ("timestamp with time zone", "UTC"))
            run("SET app.user_id = '7'")
            self.assertEqual(run("SELECT current_setting('app.user_id')").fetchone()[0], "7")
            run("BEGIN; SET LOCAL app.user_id = '8'; COMMIT")
            self.assertEqual(value("app.user_id"), "7")
            run("SET statement_timeout = 5000")
            self.assertEqual(value("statement_timeout"), "5s")
            run("SET statement_timeout = 0")
            for code, sql in (
                ("42704", "SET statment_timeout = 1"), ("42704", "SHOW app.nothing"), ("55P02", "SET server_version = '9'"),
                ("22023", "SET datestyle = 'foo'"), ("22023", "SET extra_float_digits = 9"), ("22023", "SET work_mem = '4 elephants'"),
            ):
                fails(code, sql)
            for sql in ("BEGIN READ ONLY, NOT DEFERRABLE", "COMMIT", "START TRANSACTION DEFERRABLE", "COMMIT"):
                tag = connection.execute(sql).statusmessage
                self.assertEqual(tag, sql.replace(" READ ONLY, NOT", "").replace(" DEFERRABLE", ""))
            self.assertEqual(connection.execute("EXPLAIN SELECT 1").statusmessage, "EXPLAIN")
            for options, lines in (
                ("(FORMAT csv, HEADER on, FORCE_QUOTE (b))", b'a,b\n1,"x"\n'), ("WITH CSV HEADER FORCE QUOTE *", b'a,b\n"1","x"\n'),
            ):
                with connection.cursor().copy(f"COPY (SELECT 1 AS a, 'x' AS b) TO STDOUT {options}") as copy:
                    self.assertEqual(b"".join(bytes(part) for part in copy), lines)
            run("BEGIN READ ONLY, ISOLATION LEVEL SERIALIZABLE")
            run("SAVEPOINT a")
            run("ROLLBACK AND CHAIN")
            self.assertEqual((value("transaction_read_only"), value("transaction_isolation")), ("on", "serializable"))
            fails("25001", "DISCARD ALL")
            run("ROLLBACK")
            run("SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY")
            self.assertEqual((value("transaction_read_only"), connection.info.parameter_status("default_transaction_read_only")), ("on", "on"))
            run("SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE")
            # The statements of one text are a transaction.
            fails("22012", "SET application_name = 'lost'; SET LOCAL work_mem = '1MB'; SELECT 1 / 0")
            self.assertEqual((value("application_name"), value("work_mem")), ("", "4MB"))
            run("SET LOCAL statement_timeout = 7000; SELECT 1")
            self.assertEqual(value("statement_timeout"), "0")
            fails("42601", "PREPARE x AS EXPLAIN SELECT 1")
            for sql in ("COMMIT", "ROLLBACK", "SET LOCAL application_name = 'x'", "SET TRANSACTION READ ONLY"):
                run(sql)
            run("BEGIN")
            run("BEGIN")
            run("COMMIT")
            self.assertEqual(notices, ["25P01"] * 4 + ["25001"])
            for outside in ("SAVEPOINT a", "RELEASE a", "ROLLBACK TO a", "COMMIT AND CHAIN"):
                fails("25P01", outside)
            run("BEGIN")
            for at in range(1024):
                run(f"SAVEPOINT s{at}")
            fails("53400", "SAVEPOINT one_too_many")
            run("ROLLBACK")
        engine = sqlalchemy.create_engine(self.url.replace("postgresql:", "postgresql+psycopg:"))
        with engine.connect() as connection:
            with self.assertRaises(sqlalchemy.exc.ProgrammingError), connection.begin_nested():
                connection.execute(sqlalchemy.text("SELECT nope"))
            self.assertEqual(connection.execute(sqlalchemy.text("SELECT 1")).scalar(), 1)

    def error_of(self, of, call, *arguments):
        """Returns the error."""
        with self.assertRaises(of) as raised:
            call(*arguments)
        return raised.exception

    def test_pandas(self):
        import adbc_driver_postgresql.dbapi
        import pandas
        import sqlalchemy

        for driver in DRIVERS[:-1]:
            with self.subTest(driver):
                engine = sqlalchemy.create_engine(self.url.replace("postgresql:", f"postgresql{driver}:"))
                asked = sqlalchemy.text("SELECT * FROM nation WHERE n_nationkey < :last")
                self.assertEqual(pandas.read_sql(asked, engine, params={"last": 5}).shape, (5, 4))
                self.assertEqual(pandas.read_sql_table("nation", engine).shape, (25, 4))
                self.assertEqual(next(pandas.read_sql("SELECT * FROM orders", engine, chunksize=100)).shape, (100, 9))
        with adbc_driver_postgresql.dbapi.connect(self.url) as connection:
            self.assertEqual(pandas.read_sql("SELECT * FROM nation", connection).shape, (25, 4))

    def test_polars_and_connectorx(self):
        import connectorx
        import polars

        for engine in ("connectorx", "adbc"):
            self.assertEqual(polars.read_database_uri("SELECT * FROM nation", self.url, engine=engine).shape, (25, 4))
        parts = polars.read_database_uri("SELECT n_nationkey FROM nation", self.url, partition_on="n_nationkey", partition_num=3)
        self.assertEqual(parts.shape, (25, 1))
        for protocol in ("binary", "csv", "cursor", "simple"):
            for kind in ("arrow", "pandas"):
                with self.subTest(protocol, kind=kind):
                    read = connectorx.read_sql(self.url, "SELECT * FROM orders LIMIT 10", protocol=protocol, return_type=kind)
                    self.assertEqual(read.shape, (10, 9))

    def test_adbc_for_postgresql(self):
        import adbc_driver_postgresql.dbapi

        with adbc_driver_postgresql.dbapi.connect(self.url) as connection, connection.cursor() as cursor:
            cursor.execute("SELECT n_name FROM nation WHERE n_nationkey = $1", (3,))
            self.assertEqual(cursor.fetchall(), [("CANADA",)])
            cursor.execute("SELECT now(), interval '1 day', ARRAY[1, 2], true, 1.5::float4, NULL::text, time '10:00'")
            self.assertEqual(cursor.fetch_arrow_table().num_rows, 1)
            self.assertEqual(connection.adbc_get_table_schema("nation").names, NATION)
            listed = str(connection.adbc_get_objects(depth="all").read_all().to_pylist())
            self.assertIn("l_extendedprice", listed)
            cursor.executemany("SELECT n_name FROM nation WHERE n_nationkey = $1", [(1,), (2,)])

    def test_flight_takes_question_marks(self):
        import adbc_driver_flightsql.dbapi

        asked = [
            ("SELECT n_name FROM nation WHERE n_nationkey = ?", (3,), ("CANADA",)),
            ("SELECT n_name FROM nation WHERE n_nationkey = $1", (3,), ("CANADA",)),
            ("SELECT ? + 1, '?', n_name FROM nation WHERE n_name LIKE ? AND n_nationkey IN (?, ?)", (1, "A%", 1, 2), (2, "?", "ARGENTINA")),
            ("SELECT '{\"a\": 1}'::json ? ?, ?::text -- ?", ("a", "x"), (True, "x")),
            ("SELECT '{\"a\": 1}'::json ? 'b'", None, (False,)),
        ]
        with adbc_driver_flightsql.dbapi.connect(f"grpc://127.0.0.1:{self.server.port}") as connection:
            for statement, values, row in asked:
                with self.subTest(statement), connection.cursor() as cursor:
                    cursor.execute(statement, values)
                    self.assertEqual(cursor.fetchall(), [row])


if __name__ == "__main__":
    with_sqlalchemy(sys.argv[1], int(sys.argv[2]))
