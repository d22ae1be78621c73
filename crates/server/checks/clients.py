"""coscan serve with the drivers of Python and the libraries above them, in several versions.

SQLAlchemy's versions cannot share an environment, so each is in a folder of its own, before the environment of
`server.py`. A program of this module runs in a process with such a folder. A client that cannot be installed fails.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from .served import Served
from .server import TARGET, VENV, Missing

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

    def test_pg8000(self):
        import pg8000.native

        connection = pg8000.native.Connection("coscan", host="127.0.0.1", port=self.server.port, database="db")
        self.assertEqual(connection.run("SELECT n_name FROM nation WHERE n_nationkey = ANY(:keys)", keys=[3]), [["CANADA"]])
        connection.close()

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
