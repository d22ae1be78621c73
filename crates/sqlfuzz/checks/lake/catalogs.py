"""Catalogs of Iceberg tables: a SQLite file, PostgreSQL, a folder, and Apache's server of the REST protocol. pyiceberg writes the
tables, and its own reader says what is in them.

    python3 -m checks.lake.catalogs [-v] [CLASS.TEST]
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path

from ..packages import COSCAN, TARGET, Missing, install_packages
from . import PACKAGES

try:
    install_packages(PACKAGES, TARGET / "lake-venv")
except Missing as missing:
    print(f"left out, catalogs of lake tables: {missing}")
    sys.exit(1 if os.environ.get("COSCAN_REQUIRE_ALL") == "1" else 0)

import psycopg
import pyarrow as pa
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.transforms import IdentityTransform

from ..compare import difference, without_order
from ..files.answers import rows
from ..files.program import Program, Refused
from ..in_postgresql import PostgresqlServer, install_server
from ..server import Server
from .ducklake import connect
from .rest_faults import Faults, NeedsToken, Vending
from .rest_server import RestServer, libraries

#: Columns of the tables that these checks make.
SCHEMA = pa.schema([("id", pa.int64()), ("word", pa.string()), ("v", pa.int64())])
#: Options that make scans of small tables cooperative.
COOPERATIVE = ["--small-table-bytes", "0"]
#: Commits of a writer, and readers beside it.
COMMITS, READERS = 25, 6
#: Seconds after which a list of tables is certainly read again.
LISTED = 3


def some(begin: int, end: int) -> pa.Table:
    return pa.table({"id": range(begin, end), "word": [f"w{n % 7}" for n in range(begin, end)], "v": [n * n for n in range(begin, end)]}, SCHEMA)


class Place(unittest.TestCase):
    """A catalog with tables. Subclasses say where it is."""

    address: str
    catalog: Catalog

    @classmethod
    def setUpClass(cls) -> None:
        if cls in (Place, Served):
            raise unittest.SkipTest("not a catalog")
        cls.folder = Path(cls.enterClassContext(tempfile.TemporaryDirectory(prefix="coscan-catalog-")))
        cls.open()
        cls.program = Program(COSCAN)
        cls.options = [*COOPERATIVE, "--catalog", f"lake={cls.address}"]
        for namespace in ("sales", "sales.eu", "Ops", "empty"):
            cls.catalog.create_namespace(namespace)
        for name in ("sales.orders", "sales.Mixed", "sales.eu.orders", "Ops.a b"):
            table = cls.catalog.create_table(name, SCHEMA)
            table.append(some(0, 100))
        table = cls.catalog.load_table("sales.orders")
        cls.first = table.current_snapshot().snapshot_id
        table.manage_snapshots().create_tag(cls.first, "audited").commit()
        time.sleep(1.1)
        cls.between = time.strftime("%Y-%m-%d %H:%M:%SZ", time.gmtime())
        time.sleep(1.1)
        with table.update_spec() as spec:
            spec.add_field("word", IdentityTransform(), "word")
        table.append(some(100, 300))
        table.delete("id >= 40 and id < 60")

    @classmethod
    def open(cls) -> None:
        raise NotImplementedError

    def ask(self, statement: str) -> list:
        [answer] = self.program.ask({}, self.options, [statement])
        if isinstance(answer, Refused):
            raise answer
        return answer

    def test_rows_are_those_of_the_writer(self) -> None:
        for name, shown in [
            ("sales.orders", "lake.sales.orders"),
            ("sales.Mixed", 'lake.sales."Mixed"'),
            ("sales.Mixed", "lake.sales.mixed"),
            ("sales.eu.orders", 'lake."sales.eu".orders'),
            ("Ops.a b", 'lake.ops."a b"'),
        ]:
            wanted = rows(self.catalog.load_table(name).scan().to_arrow())
            self.assertIsNone(difference(without_order(wanted), self.ask(f"SELECT * FROM {shown}")), shown)
        joined = "SELECT count(*) FROM lake.sales.orders a JOIN lake.\"sales.eu\".orders b USING (id)"
        self.assertEqual(self.ask(joined), [(80,)])

    def test_versions(self) -> None:
        for version, count in [(f"@v{self.first}", 100), ("@audited", 100), ("@main", 280), (f"@{self.between}", 100)]:
            self.assertEqual(self.ask(f'SELECT count(*) FROM lake.sales."orders{version}"'), [(count,)], version)
        with self.assertRaisesRegex(Refused, "no branch or tag nope, but audited, main"):
            self.ask('SELECT count(*) FROM lake.sales."orders@nope"')

    def test_history(self) -> None:
        found = self.ask('SELECT version, operation FROM lake.sales."orders@history" ORDER BY committed_at')
        snapshots = self.catalog.load_table("sales.orders").snapshots()
        self.assertEqual(found, [(snapshot.snapshot_id, snapshot.summary.operation.value) for snapshot in snapshots])

    def test_what_is_not_there(self) -> None:
        for name in ("lake.sales.nope", "lake.nope.orders", 'lake.sales."nope@v1"', "lake.empty.orders"):
            with self.assertRaisesRegex(Refused, "not found|does not exist"):
                self.ask(f"SELECT * FROM {name}")


class Served(Place):
    """The same in a server."""

    def serve(self, *options: str) -> Server:
        return self.enterContext(Server(COSCAN, {}, [*self.options, *options], self.folder / f"serve-{self.id()}.log"))

    def test_clients_see_schemas(self) -> None:
        server = self.serve()
        with server.connect() as connection:
            listed = "SELECT table_schema, table_name FROM information_schema.tables WHERE table_schema LIKE 'lake.%' ORDER BY 1, 2"
            tables = [("lake.Ops", "a b"), ("lake.sales", "Mixed"), ("lake.sales", "orders"), ("lake.sales.eu", "orders")]
            self.assertLessEqual(set(tables), set(connection.execute(listed).fetchall()))
            columns = """
                SELECT a.attname, format_type(a.atttypid, a.atttypmod) FROM pg_class c JOIN pg_namespace n ON c.relnamespace = n.oid
                JOIN pg_attribute a ON a.attrelid = c.oid
                WHERE n.nspname = 'lake.sales' AND c.relname = 'orders' AND a.attnum > 0 ORDER BY a.attnum"""
            self.assertEqual([name for name, _ in connection.execute(columns).fetchall()], ["id", "word", "v"])
            self.assertEqual(connection.execute('SELECT count(*) FROM "lake.sales".orders').fetchone(), (280,))
            self.assertEqual(connection.execute("SELECT count(*) FROM lake.sales.orders WHERE id = %s", [7]).fetchone(), (1,))
        # A database has the name of a catalog: its schemas need no more than their own.
        with psycopg.connect(host="127.0.0.1", port=server.port, user="coscan", dbname="lake") as connection:
            self.assertEqual(connection.execute("SELECT count(*) FROM sales.orders").fetchone(), (280,))

    def test_changes_of_the_catalog(self) -> None:
        with self.serve().connect() as connection:
            count = lambda name: connection.execute(f"SELECT count(*) FROM lake.{name}").fetchone()[0]
            table = self.catalog.create_table("empty.t", SCHEMA)
            self.assertEqual(count("empty.t"), 0)
            table.append(some(0, 10))
            time.sleep(1.2)
            self.assertEqual(count("empty.t"), 10)
            # Unlike a table that was declared, it has its newest columns.
            with table.update_schema() as schema:
                schema.union_by_name(pa.schema([("more", pa.int32())]))
                schema.rename_column("v", "value")
            time.sleep(1.2)
            found = connection.execute("SELECT * FROM lake.empty.t LIMIT 0")
            self.assertEqual([column.name for column in found.description], ["id", "word", "value", "more"])
            self.assertEqual(connection.execute("SELECT sum(value), count(more) FROM lake.empty.t").fetchone(), (285, 0))
            self.catalog.rename_table("empty.t", "empty.u")
            time.sleep(1.2)
            with self.assertRaises(psycopg.errors.UndefinedTable):
                count("empty.t")
            self.assertEqual(count("empty.u"), 10)
            self.catalog.drop_table("empty.u")
            # Another table under a name that was used before.
            self.catalog.create_table("empty.u", pa.schema([("x", pa.string())])).append(pa.table({"x": ["a"]}))
            time.sleep(1.2)
            self.assertEqual(connection.execute("SELECT x FROM lake.empty.u").fetchall(), [("a",)])
            self.catalog.create_namespace("late")
            self.catalog.create_table("late.t", SCHEMA)
            self.assertEqual(count("late.t"), 0)
            time.sleep(LISTED)
            listed = "SELECT count(*) FROM information_schema.tables WHERE table_schema = 'lake.late'"
            connection.execute(listed)
            time.sleep(1)
            self.assertEqual(connection.execute(listed).fetchone(), (1,))

    def test_refresh_on_demand(self) -> None:
        table = self.catalog.create_table("sales.now", SCHEMA)
        with self.serve().connect() as connection:
            for part in range(3):
                table.append(some(10 * part, 10 * part + 10))
                found = connection.execute("SELECT name, version FROM coscan_refresh('lake.sales.now')").fetchone()
                self.assertEqual(found, ("lake.sales.now", table.current_snapshot().snapshot_id))
                self.assertEqual(connection.execute("SELECT count(*) FROM lake.sales.now").fetchone(), (10 * part + 10,))

    def test_roles(self) -> None:
        users = self.folder / "users.toml"
        users.write_text('[roles.eu]\ntables = ["lake.sales.eu.*"]\n\n[roles.sales]\ntables = ["lake.sales.orders"]\n')
        for name, role in (("ann", "eu"), ("bob", "sales"), ("root", "admin")):
            self.program_with(["user", "add", name, "--users", str(users), "--role", role], "pw\n")
        server = self.serve("--users", str(users))
        connect = lambda user: psycopg.connect(host="127.0.0.1", port=server.port, user=user, password="pw", dbname="d", autocommit=True)
        with connect("ann") as ann, connect("bob") as bob:
            schemas = "SELECT DISTINCT table_schema FROM information_schema.tables WHERE table_schema LIKE 'lake%'"
            self.assertEqual(ann.execute(schemas).fetchall(), [("lake.sales.eu",)])
            self.assertEqual(ann.execute('SELECT count(*) FROM lake."sales.eu".orders').fetchone(), (100,))
            with self.assertRaises(psycopg.Error):
                ann.execute("SELECT * FROM coscan_refresh('lake.sales.orders')")
            for name in ("lake.sales.orders", '"lake.sales".orders', 'lake.sales."orders@audited"', "lake.sales.mixed"):
                with self.assertRaises(psycopg.errors.UndefinedTable):
                    ann.execute(f"SELECT * FROM {name}")
            self.assertEqual(bob.execute('SELECT count(*) FROM lake.sales."orders@audited"').fetchone(), (100,))
            self.assertEqual(bob.execute("EXPLAIN SELECT count(*) FROM lake.sales.orders").fetchone() is None, False)
            with self.assertRaises(psycopg.errors.UndefinedTable):
                bob.execute('SELECT * FROM lake."sales.eu".orders')
            for write in ("CREATE VIEW lake.sales.x AS SELECT 1", "DROP TABLE lake.sales.orders"):
                with self.assertRaises(psycopg.Error):
                    bob.execute(write)
            self.assertEqual(bob.execute("SELECT count(*) FROM lake.sales.orders").fetchone(), (280,))

    def program_with(self, arguments: list[str], text: str) -> None:
        subprocess.run([str(COSCAN), *arguments], input=text, text=True, check=True, capture_output=True)

    def test_readers_beside_a_writer(self) -> None:
        table = self.catalog.create_table("sales.live", SCHEMA)
        # Every commit has ten rows whose sum is zero, so that a torn read shows.
        ten = lambda n: pa.table({"id": range(10), "word": [str(n)] * 10, "v": [n, -n] * 5}, SCHEMA)
        table.append(ten(0))
        server, seen, failures, done = self.serve(), [], [], threading.Event()

        def read(number: int) -> None:
            try:
                with server.connect() as connection:
                    last = 0
                    while not done.is_set():
                        count, total = connection.execute("SELECT count(v), sum(v) FROM lake.sales.live").fetchone()
                        if count % 10 or total or count < last:
                            failures.append(f"reader {number}: {count} rows, sum {total}, before {last}")
                        last = count
                        seen.append(count)
            except Exception as error:
                failures.append(f"reader {number}: {error!r}")

        readers = [threading.Thread(target=read, args=[number]) for number in range(READERS)]
        for reader in readers:
            reader.start()
        for commit in range(COMMITS):
            table.append(ten(commit))
            if commit % 5 == 4:
                table.delete(f"word = '{commit - 2}'")
                table.append(ten(commit))
            time.sleep(0.1)
        time.sleep(1.2)
        done.set()
        for reader in readers:
            reader.join()
        self.assertEqual(failures, [])
        self.assertGreater(len(set(seen)), 3, "the readers saw the table change")
        self.assertEqual(max(seen), 10 * (COMMITS + 1))


class Sqlite(Served):
    @classmethod
    def open(cls) -> None:
        database = cls.folder / "catalog.db"
        cls.catalog = load_catalog("drawn", type="sql", uri=f"sqlite:///{database}", warehouse=f"file://{cls.folder}/warehouse")
        cls.address = f"iceberg+sqlite://{database}?refresh=1"

    def test_several_catalogs_in_a_database(self) -> None:
        uri = f"sqlite:///{self.folder}/two.db"
        for name in ("one", "two"):
            catalog = load_catalog(name, type="sql", uri=uri, warehouse=f"file://{self.folder}/{name}")
            catalog.create_namespace("n")
            catalog.create_table("n.t", SCHEMA).append(some(0, 1 if name == "one" else 2))
        address = f"iceberg+sqlite://{self.folder}/two.db"
        ask = lambda address: self.program.ask({}, ["--catalog", f"l={address}"], ["SELECT count(*) FROM l.n.t"])[0]
        self.assertIn("has the catalogs one, two", str(ask(address)))
        self.assertIn("but no three", str(ask(f"{address}?catalog=three")))
        self.assertEqual([ask(f"{address}?catalog=one"), ask(f"{address}?catalog=two")], [[(1,)], [(2,)]])

    def test_wrong_addresses(self) -> None:
        for address, part in [
            ("iceberg+sqlite:///no/such/file.db", "unable to open"),
            ("s3://bucket", "iceberg+rest://"),
            ("iceberg+rest://127.0.0.1:1", "127.0.0.1:1"),
            ("iceberg+rest://127.0.0.1:1?tokn=x", "tokn"),
            ("iceberg+postgresql://someone:secret@127.0.0.1:1/d", "127.0.0.1:1"),
        ]:
            [answer] = self.program.ask({}, ["--catalog", f"l={address}"], ["SELECT 1"])
            self.assertIsInstance(answer, Refused)
            self.assertIn(part, str(answer))
            self.assertNotIn("secret", str(answer))


class InPostgresql(Place):
    @classmethod
    def open(cls) -> None:
        install_server()
        server = cls.enterClassContext(PostgresqlServer())
        place = f"postgres@/postgres?host={server.folder}&port={server.port}"
        cls.catalog = load_catalog("drawn", type="sql", uri=f"postgresql+psycopg://{place}", warehouse=f"file://{cls.folder}/warehouse")
        cls.address = f"iceberg+postgresql://postgres@localhost:{server.port}/postgres?host={server.folder}&refresh=1"


class InFolder(Place):
    """Tables at the places where a catalog has put them, read without it."""

    @classmethod
    def open(cls) -> None:
        warehouse = cls.folder / "warehouse"
        cls.catalog = load_catalog("drawn", type="in-memory", warehouse=f"file://{warehouse}")
        # Where a Hadoop catalog would have them.
        create = cls.catalog.create_table
        cls.catalog.create_table = lambda name, schema: create(name, schema, location=f"file://{warehouse}/{name.replace('.', '/')}")
        namespace = cls.catalog.create_namespace
        cls.catalog.create_namespace = lambda name: ((warehouse / name.replace(".", "/")).mkdir(parents=True), namespace(name))
        cls.address = f"iceberg+file://{warehouse}?refresh=1"


class Rest(Served):
    @classmethod
    def open(cls) -> None:
        cls.server = cls.enterClassContext(RestServer(cls.folder))
        cls.catalog = load_catalog("rest", type="rest", uri=cls.server.address)
        cls.address = f"iceberg+rest://127.0.0.1:{cls.server.port}?refresh=1"

    def test_faults_of_servers(self) -> None:
        """The same answers from a server that asks for tokens which end, sends pages, is busy and loses connections."""
        with Faults(self.server.address) as faults:
            options = [*COOPERATIVE, "--catalog", f"lake=iceberg+rest://127.0.0.1:{faults.port}/some/path?credential=me:secret&warehouse=w"]
            statement = "SELECT count(*) FROM lake.sales.orders"
            listed = "SELECT count(*) FROM information_schema.tables WHERE table_schema LIKE 'lake.%'"
            answers = self.program.ask({}, [*options, "--set", "datafusion.catalog.information_schema=true"], [statement, listed])
            self.assertEqual(answers[0], [(280,)])
            self.assertGreaterEqual(answers[1][0][0], 4)
            self.assertTrue({"pages", "busy", "lost", "tokens"} <= faults.seen, faults.seen)
            [answer] = self.program.ask({}, ["--catalog", f"lake=iceberg+rest://127.0.0.1:{faults.port}/some/path?credential=me:wrong"], [statement])
            self.assertRegex(str(answer), "credential is not accepted")
            self.assertNotIn("wrong", str(answer))
            [answer] = self.program.ask({}, ["--catalog", f"lake=iceberg+rest://127.0.0.1:{faults.port}/other"], [statement])
            self.assertRegex(str(answer), "nothing at")


class DuckLake(unittest.TestCase):
    """A catalog of DuckLake in PostgreSQL, with rows and deletes in the catalog itself, which DuckDB writes and reads."""

    @classmethod
    def setUpClass(cls) -> None:
        cls.folder = Path(cls.enterClassContext(tempfile.TemporaryDirectory(prefix="coscan-ducklake-")))
        cls.database = cls.enterClassContext(PostgresqlServer())
        with cls.database.connect() as connection:
            connection.execute("CREATE DATABASE lake")
        place = f"dbname=lake host={cls.database.folder} port={cls.database.port} user=postgres"
        cls.writer = connect()
        cls.writer.execute(f"ATTACH 'ducklake:postgres:{place}' AS lake (DATA_PATH '{cls.folder}/data/')")
        cls.writer.execute("USE lake")
        cls.writer.execute("CREATE SCHEMA other")
        cls.writer.execute("""
            CREATE TABLE all_types (i TINYINT, u UBIGINT, w VARCHAR, p DECIMAL(12, 2), d DOUBLE, b BOOLEAN, raw BLOB, dt DATE, t TIME,
                ts TIMESTAMP, tz TIMESTAMPTZ, tn TIMESTAMP_NS, x UUID, l INT[], s STRUCT(a INT, b VARCHAR))""")
        value = "(7, 18446744073709551615, 'é''\\x41', -1.25, 'nan', true, '\\x00\\xff'::blob, '2024-02-29', '12:34:56.5', '2024-02-29 01:02:03.000004'"
        value += ", '2024-02-29 01:02:03.000004+02', '2024-02-29 01:02:03.000000004', '14d770a2-e918-432a-999e-4a7c5bda9e09', "
        # One row in the catalog, and others in a file.
        cls.writer.execute(f"INSERT INTO all_types VALUES {value} NULL, NULL), (NULL, 0, '', 0, -0.0, false, ''::blob, {'NULL, ' * 7} NULL)")
        many = value + "[1, NULL], {'a': 1, 'b': 'y'})"
        cls.writer.execute(f"INSERT INTO all_types SELECT x.* FROM (VALUES {many}) x, range(100)")
        cls.writer.execute("CREATE TABLE other.t AS SELECT range AS id, range % 7 AS k FROM range(1000)")
        for statement in (
            "DELETE FROM other.t WHERE id % 10 = 3",
            "DELETE FROM other.t WHERE id = 500",
            "INSERT INTO other.t VALUES (5000, 1)",
            "ALTER TABLE other.t ADD COLUMN w VARCHAR DEFAULT 'd'",
            "INSERT INTO other.t VALUES (5001, 2, NULL)",
            r"ALTER TABLE other.t ADD COLUMN raw BLOB DEFAULT '\xAA'",
            "ALTER TABLE other.t ADD COLUMN u UUID DEFAULT '00000000-0000-0000-0000-000000000007'",
            "CREATE TABLE nested AS SELECT range AS id, {'a': range} AS s, MAP {'k': {'a': range}} AS m FROM range(100)",
            "ALTER TABLE nested ADD COLUMN s.w BIGINT DEFAULT 7",
            "ALTER TABLE nested ADD COLUMN m.value.h VARCHAR",
            "INSERT INTO nested SELECT range, {'a': range, 'w': NULL}, MAP {'k': {'a': range, 'h': 'x'}} FROM range(100, 200)",
        ):
            cls.writer.execute(statement)
        address = f"ducklake+postgresql://postgres@localhost:{cls.database.port}/lake?host={cls.database.folder}&refresh=1"
        cls.options = [*COOPERATIVE, "--catalog", f"lake={address}"]
        cls.program = Program(COSCAN)

    def ask(self, statement: str) -> list:
        [answer] = self.program.ask({}, self.options, [statement])
        if isinstance(answer, Refused):
            raise answer
        return answer

    def test_rows_are_those_of_the_writer(self) -> None:
        plain = "i, u, w, p, d, b, raw, dt, t, ts, tz, tn"
        for statement in (
            f"SELECT {plain} FROM lake.main.all_types",
            "SELECT l, s FROM lake.main.all_types WHERE l IS NOT NULL",
            "SELECT count(*), count(DISTINCT x), max(tn), min(u) FROM lake.main.all_types WHERE w <> ''",
            "SELECT id, k, w, raw FROM lake.other.t",
            "SELECT count(*), count(u), count(DISTINCT u) FROM lake.other.t",
            "SELECT id, s, m['k'] AS inside FROM lake.main.nested",
            "SELECT count(*), sum(s['w']) FROM lake.main.nested WHERE s['w'] = 7",
            "SELECT count(*), sum(id) FROM lake.other.t WHERE w = 'd' AND k < 4",
            "SELECT count(*) FROM lake.other.t",
        ):
            wanted = rows(self.writer.execute(statement).to_arrow_table())
            self.assertIsNone(difference(without_order(wanted), self.ask(statement)), statement)

    def test_versions(self) -> None:
        history = self.ask('SELECT version, operation FROM lake.other."t@history" ORDER BY version')
        kinds = [operation.split(":")[0] for _, operation in history]
        self.assertEqual(kinds[0], "created_table")
        self.assertIn("inlined_delete", kinds)
        for version, _ in history:
            statement = "SELECT count(*), sum(id), sum(k) FROM lake.other."
            wanted = self.writer.execute(f"{statement}t AT (VERSION => {version})").fetchall()
            self.assertEqual(self.ask(f'{statement}"t@v{version}"'), wanted, version)

    def test_tables_that_change_together_are_read_in_one_version(self) -> None:
        self.writer.execute("CREATE TABLE one (v BIGINT)")
        self.writer.execute("CREATE TABLE two (v BIGINT)")
        server = self.enterContext(Server(COSCAN, {}, self.options, self.folder / "together.log"))
        done = threading.Event()

        def write() -> None:
            for commit in range(COMMITS * 4):
                self.writer.execute("BEGIN")
                for table in ("one", "two"):
                    self.writer.execute(f"INSERT INTO {table} VALUES ({commit})")
                self.writer.execute("COMMIT")
                time.sleep(0.05)
            done.set()

        writer = threading.Thread(target=write)
        writer.start()
        seen = set()
        with server.connect() as connection:
            while not done.is_set():
                query = "SELECT (SELECT count(*) FROM lake.main.one), (SELECT count(v) FROM lake.main.two)"
                one, two = connection.execute(query).fetchone()
                seen.add(one)
                self.assertEqual(one, two)
        writer.join()
        self.assertGreater(len(seen), 2, "the reader saw the tables change")

    def test_readers_beside_a_writer(self) -> None:
        """Every commit has ten rows whose sum is zero, in the catalog or in files, which are merged meanwhile."""
        self.writer.execute("CREATE TABLE live (word BIGINT, v BIGINT)")
        failures, seen, done = [], [], threading.Event()
        server = self.enterContext(Server(COSCAN, {}, self.options, self.folder / "serve.log"))

        def read(number: int) -> None:
            try:
                with server.connect() as connection:
                    while not done.is_set():
                        count, total = connection.execute("SELECT count(v), sum(v) FROM lake.main.live").fetchone()
                        if count % 10 or total:
                            failures.append(f"reader {number}: {count} rows, sum {total}")
                        seen.append(count)
            except Exception as error:
                failures.append(f"reader {number}: {error!r}")

        readers = [threading.Thread(target=read, args=[number]) for number in range(READERS)]
        for reader in readers:
            reader.start()
        for commit in range(COMMITS):
            self.writer.execute(f"INSERT INTO live SELECT {commit}, CASE WHEN range % 2 = 0 THEN {commit} ELSE -{commit} END FROM range(10)")
            match commit % 5:
                case 2:
                    self.writer.execute(f"DELETE FROM live WHERE word = {commit - 1}")
                case 3:
                    self.writer.execute("CALL ducklake_flush_inlined_data('lake')")
                case 4:
                    self.writer.execute("CALL ducklake_merge_adjacent_files('lake')")
            time.sleep(0.1)
        time.sleep(1.2)
        done.set()
        for reader in readers:
            reader.join()
        self.assertEqual(failures, [])
        self.assertGreater(len(set(seen)), 3, "the readers saw the table change")
        self.assertEqual(seen[-1], 10 * (COMMITS - COMMITS // 5))


class Vended(unittest.TestCase):
    """Tables in an S3 store, with credentials that the catalog gives for a table and renews."""

    def test_credentials_are_those_of_the_catalog(self) -> None:
        from moto.server import ThreadedMotoServer

        logging.getLogger("werkzeug").setLevel(logging.ERROR)

        folder = Path(self.enterContext(tempfile.TemporaryDirectory(prefix="coscan-vended-")))
        moto = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
        moto.start()
        self.addCleanup(moto.stop)
        host, port = moto.get_host_and_port()
        store = self.enterContext(NeedsToken(f"http://{host}:{port}"))
        import boto3

        keys = {"aws_access_key_id": "writer", "aws_secret_access_key": "writer", "region_name": "us-east-1"}
        boto3.client("s3", endpoint_url=f"http://{host}:{port}", **keys).create_bucket(Bucket="lake")
        s3 = {"s3.endpoint": f"http://{host}:{port}", "s3.access-key-id": "writer", "s3.secret-access-key": "writer", "s3.region": "us-east-1"}
        catalog = load_catalog("v", type="sql", uri=f"sqlite:///{folder}/v.db", warehouse="s3://lake/w", **s3)
        for namespace in ("a", "b"):
            catalog.create_namespace(namespace)
            for part in range(3):
                table = catalog.create_table_if_not_exists(f"{namespace}.t", SCHEMA)
                table.append(some(100 * part, 100 * part + 100))
        vending = self.enterContext(Vending(catalog, store))
        options = [*COOPERATIVE, "--catalog", f"lake=iceberg+rest://127.0.0.1:{vending.port}"]
        with Server(COSCAN, {}, options, folder / "serve.log") as server, server.connect() as connection:
            for attempt in range(4):
                both = "SELECT (SELECT sum(v) FROM lake.a.t), (SELECT count(word) FROM lake.b.t)"
                self.assertEqual(connection.execute(both).fetchone(), (sum(n * n for n in range(300)), 300))
                # The old token ends, as the catalog has said.
                store.renew()
                catalog.load_table("a.t").append(some(0, 0))
                time.sleep(1.2)
        self.assertGreaterEqual(len(store.used), 2, "the token was renewed")
        self.assertEqual(store.refused, 0)


def load_tests(loader: unittest.TestLoader, tests: unittest.TestSuite, _: object) -> unittest.TestSuite:
    suite = unittest.TestSuite()
    for case in (Sqlite, InPostgresql, InFolder, Rest, DuckLake, Vended):
        suite.addTests(loader.loadTestsFromTestCase(case))
    return suite


if __name__ == "__main__":
    try:
        libraries()
        install_server()
    except Missing as missing:
        print(f"left out, catalogs of lake tables: {missing}")
        sys.exit(1 if os.environ.get("COSCAN_REQUIRE_ALL") == "1" else 0)
    unittest.main(module="checks.lake.catalogs")
