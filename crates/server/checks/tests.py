"""coscan serve with common clients: psql, psycopg, ADBC, pgJDBC, and the statements of dashboards at connection.

    make serve-test

Packages for Python come into an environment of their own below the target directory, pgJDBC from Maven.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import unittest
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path

from . import startup
from .wire import field, statement
from .served import Served
from .server import COSCAN, VENV, Missing, Server, client_packages, free_port, generate, jdbc_jar, node_modules, wait_for

HERE = Path(__file__).parent
ENDLESS = "SELECT count(*) FROM generate_series(1, 1000000000000)"


class Clients(Served):
    """A server where every client may read."""

    def psql(self, *commands: str, **environment: str) -> str:
        if not shutil.which("psql"):
            self.skipTest("psql is missing: install postgresql-client")
        asked = [part for command in commands for part in ("-c", command)]
        base = ["psql", "-X", "-v", "ON_ERROR_STOP=1", "-h", "127.0.0.1", "-p", str(self.server.port), "-U", "coscan", "db"]
        done = subprocess.run(base + asked, capture_output=True, text=True, env=os.environ | environment, timeout=600)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def connect(self, **options):
        import psycopg

        return psycopg.connect(host="127.0.0.1", port=self.server.port, user="coscan", dbname="db", **options)

    def test_psql_looks_around(self):
        for command in startup.PSQL_COMMANDS:
            with self.subTest(command):
                said = self.psql(command)
                if command in (r"\d", r"\d+", r"\dt", r"\dt+", r"\dp", r"\z"):
                    self.assertIn("lineitem", said)
                if command in (r"\d lineitem", r"\d+ lineitem"):
                    self.assertIn("l_extendedprice", said)

    def test_psql_copies(self):
        copied = self.psql(r"\copy (SELECT n_nationkey, n_name FROM nation ORDER BY 1) TO STDOUT WITH (FORMAT csv)")
        self.assertEqual(copied.splitlines()[:2], ["0,ALGERIA", "1,ARGENTINA"])

    def test_psql_cancels(self):
        command = ["psql", "-X", "-h", "127.0.0.1", "-p", str(self.server.port), "-U", "coscan", "-c", ENDLESS, "db"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as psql:
            with self.connect(autocommit=True) as looking:
                wait_for(lambda: looking.execute("SELECT 1 FROM pg_stat_activity WHERE query = %s", [ENDLESS]).fetchone())
            psql.send_signal(signal.SIGINT)
            _, said = psql.communicate(timeout=600)
        self.assertIn("canceling statement due to user request", said)

    def test_psycopg(self):
        with self.connect() as connection:
            count, price = connection.execute("SELECT count(*), sum(l_extendedprice) FROM lineitem").fetchone()
            for binary in (False, True):
                row = connection.cursor(binary=binary).execute(
                    "SELECT count(*), sum(l_extendedprice), min(l_shipdate) FROM lineitem WHERE l_orderkey >= %s", [0]
                )
                self.assertEqual(row.fetchone()[:2], (count, price))
            with connection.cursor(name="server_side") as cursor:
                cursor.itersize = 5000
                cursor.execute("SELECT l_orderkey FROM lineitem")
                self.assertEqual(sum(1 for _ in cursor), count)
            with connection.cursor().copy("COPY nation TO STDOUT (FORMAT binary)") as copy:
                copy.set_types(["int8", "text", "int8", "text"])
                self.assertEqual(len(list(copy.rows())), 25)
            for _ in range(8):  # prepared by the server from the fifth time
                self.assertEqual(connection.execute("SELECT %s + 1", [41]).fetchone()[0], 42)

    def test_explain_has_the_options_of_postgresql(self):
        import psycopg

        asked = "SELECT count(*) FROM nation WHERE n_nationkey > 3"

        def plan(options: str) -> str:
            cursor = connection.execute(f"EXPLAIN {options} {asked}")
            self.assertEqual([column.name for column in cursor.description], ["QUERY PLAN"])
            return "\n".join(line for line, in cursor)

        with self.connect(autocommit=True) as connection:
            self.assertIn("AggregateExec", plan(""))
            for options in ("", "(COSTS off)", "(ANALYZE false)"):
                self.assertNotIn("output_rows", plan(options))
            for options in ("ANALYZE", "(ANALYZE)", "(ANALYZE, BUFFERS, TIMING, SUMMARY off)"):
                self.assertIn("output_rows", plan(options))
            self.assertIn("logical_plan after", plan("VERBOSE"))
            for binary in (False, True):
                for options, key in (("FORMAT JSON", "Plans"), ("ANALYZE, VERBOSE, FORMAT JSON", "Actual Rows")):
                    cursor = connection.cursor(binary=binary).execute(f"EXPLAIN ({options}) {asked}")
                    [[[found]]] = cursor.fetchall()
                    self.assertIn("Node Type", found["Plan"])
                    self.assertIn(key, found["Plan"])
            for options, error in (("(FOO)", psycopg.errors.SyntaxError), ("(MEMORY)", psycopg.errors.FeatureNotSupported),
                                   ("(FORMAT yaml)", psycopg.errors.FeatureNotSupported)):
                with self.assertRaises(error):
                    plan(options)
            # A prepared statement.
            lines = connection.execute("EXPLAIN SELECT * FROM nation WHERE n_nationkey = %s", [3], prepare=True).fetchall()
            self.assertIn("n_nationkey", str(lines))
            connection.execute("PREPARE p (bigint) AS SELECT * FROM nation WHERE n_nationkey = $1")
            for options, key in (("", "n_nationkey"), ("(ANALYZE, COSTS off)", "output_rows")):
                self.assertIn(key, str(connection.execute(f"EXPLAIN {options} EXECUTE p(3)").fetchall()))

    def test_bound_numbers_keep_their_value(self):
        """The type of the other operand does not matter: psycopg states the type of a number."""
        where = "SELECT count(*) FROM nation WHERE n_nationkey"
        money = "SELECT count(*) FROM lineitem WHERE l_discount"
        exact = "SELECT count(*) FROM lineitem WHERE l_discount = 0.05"
        asked = [
            (f"{where} < %s", Decimal("2.5"), 3), (f"{where} = %s", Decimal("2.5"), 0), (f"{where} < %s", 2.5, 3),
            (f"{where} < %s", Decimal("3000000000000.5"), 25), (f"{where} < %s", 10**12, 25), (f"{where} IN (%s, 7)", Decimal("3.0"), 2),
            (f"{where} < %s", Decimal("1E-11"), 1), (f"{where} < %s", Decimal("1E+20"), 25), (f"{where} > %s", None, 0),
            ("SELECT %s + 1", Decimal("2.5"), Decimal("3.5")), ("SELECT %s::numeric", 2.5, Decimal("2.5")),
            ("SELECT %s::numeric", 3, 3), ("SELECT %s::text", 3, "3"), ("SELECT %s", Decimal("0.00001"), Decimal("0.00001")),
            ("SELECT substr('abcdef', %s)", 3, "cdef"), ("SELECT %s::int", Decimal("2.5"), 3),
            ("SELECT (%s = '1234567890123456789012'::numeric)::text", Decimal("1234567890123456789012"), "true"),
            ("SELECT n_nationkey FROM nation ORDER BY n_nationkey LIMIT %s", 1, 0),
        ]
        with self.connect(autocommit=True) as connection:
            there = connection.execute(exact).fetchone()[0]
            self.assertGreater(there, 0)
            rows = connection.execute(f"{money} > 0.05").fetchone()[0]
            asked += [(f"{money} = %s", number, there) for number in (Decimal("0.05"), Decimal("0.0500"), 0.05)]
            asked += [(f"{money} > %s", Decimal("0.0505"), rows), (f"{money} > %s", 1, 0), (f"{money} < %s", Decimal("0.045"), None)]
            for binary in (False, True):
                for statement, number, expected in asked:
                    with self.subTest(statement, number=number, binary=binary):
                        cursor = connection.cursor(binary=binary).execute(statement, [number])
                        found = cursor.fetchone()[0]
                        if expected is not None:
                            self.assertEqual(found, expected)
            with self.assertRaisesRegex(Exception, "at most 38 digits"):
                connection.execute(f"{where} < %s", [Decimal(10**38)])

    def test_tools_connect(self):
        for tool, statements in startup.TOOLS.items():
            with self.connect(autocommit=True) as connection:
                for statement, there in statements:
                    with self.subTest(tool, statement=statement):
                        cursor = connection.execute(statement)
                        if there is not None:
                            self.assertIn(there, str(cursor.fetchall()))

    def test_sqlalchemy(self):
        """The data of Superset's lists."""
        import sqlalchemy

        engine = sqlalchemy.create_engine(f"postgresql+psycopg2://coscan@127.0.0.1:{self.server.port}/db")
        self.addCleanup(engine.dispose)
        look = sqlalchemy.inspect(engine)
        self.assertIn("public", look.get_schema_names())
        self.assertEqual(sorted(look.get_table_names()), ["lineitem", "nation", "orders"])
        self.assertEqual((look.get_view_names(), look.get_materialized_view_names(), look.get_foreign_table_names()), ([], [], []))
        self.assertEqual((look.has_table("lineitem"), look.has_table("nowhere")), (True, False))
        columns = {column["name"]: str(column["type"]) for column in look.get_columns("lineitem")}
        self.assertEqual(len(columns), 16)
        self.assertEqual(
            [columns[name] for name in ("l_orderkey", "l_linenumber", "l_extendedprice", "l_shipdate", "l_comment")],
            ["BIGINT", "INTEGER", "NUMERIC(15, 2)", "DATE", "TEXT"])
        nothing = [look.get_indexes, look.get_foreign_keys, look.get_check_constraints, look.get_unique_constraints]
        self.assertEqual([what("lineitem") for what in nothing], [[]] * len(nothing))
        self.assertEqual(look.get_pk_constraint("lineitem")["constrained_columns"], [])
        self.assertEqual((look.get_table_comment("lineitem"), look.get_enums(), look.get_sequence_names()), ({"text": None}, [], []))
        tables = sqlalchemy.MetaData()
        tables.reflect(engine)
        nation = tables.tables["nation"]
        with engine.connect() as connection:
            asked = sqlalchemy.select(nation.c.n_name).where(nation.c.n_nationkey == 7)
            self.assertEqual(connection.execute(asked).scalar_one(), "GERMANY")

    def test_duckdb(self):
        """DuckDB's extension for PostgreSQL: it reads catalogs, and reads tables by COPY in binary."""
        import duckdb
        from importlib.metadata import files

        extension = next(file.locate() for file in files("duckdb-ext-postgres") if file.name == "postgres_scanner.duckdb_extension")
        with duckdb.connect() as connection:
            connection.execute(f"LOAD '{extension}'")
            # Rows have no numbers by which it could split a table.
            connection.execute("SET pg_use_ctid_scan = false")
            attached = f"host=127.0.0.1 port={self.server.port} user=coscan dbname=db"
            connection.execute(f"ATTACH '{attached}' AS pg (TYPE postgres, READ_ONLY)")
            ask = lambda sql: connection.execute(sql).fetchall()
            names = ask("SELECT table_name FROM duckdb_tables() WHERE database_name = 'pg' ORDER BY 1")
            self.assertEqual(names, [("lineitem",), ("nation",), ("orders",)])
            self.assertEqual(ask("SELECT n_name FROM pg.nation WHERE n_nationkey = 7"), [("GERMANY",)])
            ours = f"read_parquet('{self.data}/lineitem.parquet')"
            for what in ("count(*), sum(l_extendedprice), min(l_shipdate), max(l_comment)", "typeof(any_value(l_tax))"):
                self.assertEqual(ask(f"SELECT {what} FROM pg.lineitem"), ask(f"SELECT {what} FROM {ours}"))
            rows = "SELECT * FROM {} WHERE l_orderkey % 100 = 1 ORDER BY ALL"
            self.assertEqual(ask(rows.format("pg.lineitem")), ask(rows.format(ours)))
            through = ask("SELECT * FROM postgres_query('pg', 'SELECT count(*) AS n FROM orders')")
            self.assertEqual(through, ask("SELECT count(*) FROM pg.orders"))

    def test_clickhouse(self):
        """ClickHouse's table function, which reads by COPY as text."""
        import chdb

        of = lambda table: f"postgresql('127.0.0.1:{self.server.port}', 'db', '{table}', 'coscan', '')"
        ours = lambda table: f"file('{self.data}/{table}.parquet')"
        for asked in (
            "SELECT n_name FROM {nation} WHERE n_nationkey = 7",
            "SELECT toTypeName(l_tax), count(), sum(l_extendedprice), max(l_comment) FROM {lineitem} GROUP BY 1",
            "SELECT * FROM {orders} WHERE o_orderkey % 100 = 1 ORDER BY ALL",
        ):
            said = [
                str(chdb.query(asked.format(**{name: where(name) for name in ("nation", "orders", "lineitem")})))
                .replace("Nullable(", "").replace(")", "")
                for where in (of, ours)
            ]
            self.assertEqual(*said)

    def test_activity(self):
        """A session sees the running statements, and may stop them."""
        with self.connect(autocommit=True) as looking, self.connect(autocommit=True) as other:
            number = other.info.backend_pid
            self.assertEqual(other.execute("SELECT pg_backend_pid()").fetchone()[0], number)
            asked = "SELECT state, query, datname, query_start IS NULL FROM pg_stat_activity WHERE pid = %s"
            see = lambda: looking.execute(asked, [number]).fetchone()
            self.assertEqual(see(), ("idle", "", "db", True))
            with ThreadPoolExecutor() as pool:
                running = pool.submit(other.execute, ENDLESS)
                wait_for(lambda: see()[0] == "active")
                self.assertEqual(see(), ("active", ENDLESS, "db", False))
                self.assertTrue(looking.execute("SELECT pg_cancel_backend(%s)", [number]).fetchone()[0])
                self.assertIn("user request", str(running.exception(timeout=600)))
            self.assertFalse(looking.execute("SELECT pg_cancel_backend(0)").fetchone()[0])

    def test_adbc(self):
        import adbc_driver_flightsql.dbapi as flight

        with flight.connect(f"grpc://127.0.0.1:{self.server.port}") as connection, connection.cursor() as cursor:
            cursor.execute("SELECT count(*) AS n FROM lineitem")
            count = cursor.fetch_arrow_table()["n"][0].as_py()
            cursor.execute("SELECT l_orderkey, l_comment FROM lineitem")
            self.assertEqual(cursor.fetch_arrow_table().num_rows, count)
            cursor.execute("SELECT n_name FROM nation WHERE n_nationkey = $1", parameters=(7,))
            self.assertEqual(cursor.fetchone()[0], "GERMANY")
            tables = connection.adbc_get_objects(depth="tables").read_all().to_pylist()
            self.assertIn("lineitem", str(tables))
            self.assertEqual(connection.adbc_get_info()["vendor_name"], "coscan")

    def test_flight_connections_keep_variables(self):
        import adbc_driver_flightsql.dbapi as flight

        url = f"grpc://127.0.0.1:{self.server.port}"
        with flight.connect(url, autocommit=True) as connection, flight.connect(url, autocommit=True) as other:

            def ask(of, sql):
                with of.cursor() as cursor:
                    return cursor.execute(sql).fetchall() if sql.startswith("SELECT") else cursor.execute(sql)

            text = "SELECT (timestamptz '2024-07-01 00:00+00')::text"
            ask(connection, "SET TIME ZONE 'Europe/Berlin'")
            self.assertEqual(ask(connection, text), [("2024-07-01 02:00:00+02",)])
            self.assertEqual(ask(other, text), [("2024-07-01 00:00:00+00",)])
            with self.assertRaisesRegex(Exception, "TimeZone"):
                ask(connection, "SET TIME ZONE 'Europe/Nowhere'")
            self.assertEqual(ask(connection, text), [("2024-07-01 02:00:00+02",)])

    def test_flight_stops_a_statement(self):
        """By Flight's own action and by that of Flight SQL."""
        from pyarrow import flight

        url = f"grpc://127.0.0.1:{self.server.port}"
        # In a process of its own: the library turns a cancelled call into Ctrl-C.
        fetch = "import sys; from pyarrow import flight; flight.FlightClient(sys.argv[1]).do_get(flight.Ticket(bytes.fromhex(sys.argv[2]))).read_all()"
        python = shutil.which("python3", path=VENV / "bin")

        def begun(client):
            info = client.get_flight_info(flight.FlightDescriptor.for_command(statement(ENDLESS)))
            command = [python, "-c", fetch, url, info.endpoints[0].ticket.ticket.hex()]
            other = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
            asked = lambda: urllib.request.urlopen(f"http://127.0.0.1:{self.server.port}/metrics").read().decode()
            wait_for(lambda: "coscan_statements_running 1\n" in asked())
            return info.serialize(), other

        with flight.FlightClient(url) as client:
            command = b"type.googleapis.com/arrow.flight.protocol.sql.ActionCancelQueryRequest"
            ways = {
                "CancelFlightInfo": lambda info: field(1, info),
                "CancelQuery": lambda info: field(1, command) + field(2, field(1, info)),
            }
            self.assertLessEqual(set(ways), {action.type for action in client.list_actions()})
            for name, request in ways.items():
                with self.subTest(name):
                    info, other = begun(client)
                    list(client.do_action(flight.Action(name, request(info))))
                    _, said = other.communicate(timeout=600)
                    self.assertIn("user request", said)
                    with self.assertRaises(Exception):
                        list(client.do_action(flight.Action(name, request(info))))

    def test_node(self):
        """node-postgres, as JavaScript programs use it."""
        try:
            modules = node_modules()
        except Missing as missing:
            self.skipTest(str(missing))
        script = modules / "node.mjs"
        shutil.copyfile(HERE / "node.mjs", script)
        done = subprocess.run(["node", script, str(self.server.port)], capture_output=True, text=True, timeout=600)
        self.assertEqual(done.returncode, 0, done.stderr)
        said = json.loads(done.stdout)
        self.assertEqual(said, {"count": 25, "name": "GERMANY", "prepared": 10, "many": "2,3,4", "failed": "42P01", "after": ",true"})

    def test_jdbc(self):
        if not shutil.which("java"):
            self.skipTest("java is missing: install a JDK")
        try:
            jar = jdbc_jar()
        except Missing as missing:
            self.skipTest(str(missing))
        url = f"jdbc:postgresql://127.0.0.1:{self.server.port}/db?sslmode=disable"
        done = subprocess.run(["java", "-cp", jar, HERE / "Jdbc.java", url], capture_output=True, text=True, timeout=600)
        self.assertEqual(done.returncode, 0, done.stderr)
        said = dict(line.split(" ", 1) for line in done.stdout.splitlines())
        self.assertNotIn("failed", said, done.stdout)
        self.assertEqual((said["tables"], said["columns"], said["stopped"]), ("lineitem nation orders", "4", "57014"))
        with self.connect() as connection:
            counted = connection.execute("SELECT count(*), count(*) FILTER (WHERE l_orderkey < 1000) FROM lineitem").fetchone()
        self.assertEqual((int(said["fetched"]), int(said["prepared"])), counted)


class Access(unittest.TestCase):
    """Users, TLS and the addresses that need them."""

    @classmethod
    def setUpClass(cls):
        client_packages()
        if not shutil.which("openssl"):
            raise unittest.SkipTest("openssl is missing")
        cls.data = Path(tempfile.mkdtemp())
        cls.addClassCleanup(shutil.rmtree, cls.data)
        generate(cls.data)
        cls.own = Path(tempfile.mkdtemp())
        cls.addClassCleanup(shutil.rmtree, cls.own)
        cls.cert, cls.key, cls.users = cls.own / "cert.pem", cls.own / "key.pem", cls.own / "users.toml"
        make = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
        make += ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", cls.key, "-out", cls.cert]
        subprocess.run(make, check=True, capture_output=True)
        add = [COSCAN, "user", "add", "ann", "--users", cls.users]
        subprocess.run(add, check=True, env=os.environ | {"COSCAN_PASSWORD": "secret"})
        options = ["--users", cls.users, "--tls-cert", cls.cert, "--tls-key", cls.key]
        cls.options = [str(option) for option in options]
        cls.server = Server(*cls.options, data=cls.data)
        cls.addClassCleanup(cls.server.stop)

    def connect(self, **options):
        import psycopg

        return psycopg.connect(
            **{"host": "127.0.0.1", "port": self.server.port, "user": "ann", "password": "secret", "dbname": "db"} | options
        )

    def test_encrypted_with_a_password(self):
        with self.connect(sslmode="verify-full", sslrootcert=str(self.cert)) as connection:
            self.assertGreater(connection.execute("SELECT count(*) FROM orders").fetchone()[0], 0)

    def test_a_login_is_bound_to_the_certificate(self):
        """libpq refuses to continue if it must bind and binding is not offered."""
        import psycopg

        binds = {"sslmode": "require", "channel_binding": "require"}
        with self.connect(**binds) as connection:
            self.assertEqual(connection.execute("SELECT 1").fetchone()[0], 1)
        with self.assertRaisesRegex(psycopg.OperationalError, "authentication failed"):
            self.connect(password="wrong", **binds)
        with self.connect(sslmode="require", channel_binding="disable") as connection:
            self.assertEqual(connection.execute("SELECT 1").fetchone()[0], 1)
        if shutil.which("psql"):
            at = f"host=127.0.0.1 port={self.server.port} user=ann dbname=db sslmode=require channel_binding=require"
            done = subprocess.run(["psql", "-XAt", at, "-c", "SELECT 42"], capture_output=True, text=True, env=os.environ | {"PGPASSWORD": "secret"})
            self.assertEqual((done.stdout, done.stderr), ("42\n", ""))

    def test_activity_is_ones_own(self):
        add = [COSCAN, "user", "add", "boss", "--role", "admin", "--users", self.users]
        subprocess.run(add, check=True, env=os.environ | {"COSCAN_PASSWORD": "secret"})
        add = [COSCAN, "user", "add", "eve", "--users", self.users]
        subprocess.run(add, check=True, env=os.environ | {"COSCAN_PASSWORD": "secret"})
        self.server.process.send_signal(signal.SIGHUP)
        wait_for(lambda: self.connect(user="eve", sslmode="require").close() is None)
        connect = lambda user: self.connect(user=user, sslmode="require", autocommit=True)
        with connect("ann") as ann, connect("eve") as eve, connect("boss") as boss, ThreadPoolExecutor() as pool:
            running = pool.submit(ann.execute, ENDLESS)
            number = ann.info.backend_pid
            seen = lambda by: by.execute("SELECT usename FROM pg_stat_activity WHERE query = %s", [ENDLESS]).fetchall()
            wait_for(lambda: seen(boss) == [("ann",)])
            self.assertEqual(seen(eve), [])
            users = eve.execute("SELECT DISTINCT usename FROM pg_stat_activity").fetchall()
            self.assertEqual(users, [("eve",)])
            stop = lambda by: by.execute("SELECT pg_cancel_backend(%s)", [number]).fetchone()[0]
            self.assertFalse(stop(eve))
            self.assertFalse(running.done())
            self.assertTrue(stop(boss))
            self.assertIn("administrator", str(running.exception(timeout=600)))

    def test_not_encrypted_is_refused(self):
        import psycopg

        with self.assertRaisesRegex(psycopg.OperationalError, "encrypted"):
            self.connect(sslmode="disable")

    def test_a_wrong_password_is_refused(self):
        import psycopg

        with self.assertRaisesRegex(psycopg.OperationalError, "authentication failed"):
            self.connect(password="wrong", sslmode="require")

    def test_flight_over_tls(self):
        import adbc_driver_flightsql.dbapi as flight
        from adbc_driver_flightsql import DatabaseOptions

        options = {
            "username": "ann",
            "password": "secret",
            DatabaseOptions.TLS_ROOT_CERTS.value: self.cert.read_text(),
        }
        with flight.connect(f"grpc+tls://localhost:{self.server.port}", db_kwargs=options) as connection:
            with connection.cursor() as cursor:
                cursor.execute("SELECT count(*) FROM nation")
                self.assertEqual(cursor.fetchone()[0], 25)
        with self.assertRaises(Exception):
            with flight.connect(f"grpc+tls://localhost:{self.server.port}", db_kwargs=options | {"password": "x"}) as connection:
                with connection.cursor() as cursor:
                    cursor.execute("SELECT 1")

    def test_an_open_address_needs_users_and_tls(self):
        everywhere = ["--listen", f"0.0.0.0:{free_port()}"]
        for options in ([], self.options[:2], self.options[2:]):
            done = subprocess.run([COSCAN, "serve", *everywhere, *options], capture_output=True, text=True, timeout=600)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertEqual(len(done.stderr.strip().splitlines()), 1, done.stderr)

    def test_wrong_tls_does_not_start(self):
        empty = self.own / "empty.pem"
        empty.write_text("")
        for cert, key in ((empty, self.key), (self.cert, empty), (self.key, self.cert), (self.own / "none", self.key)):
            options = ["--listen", f"127.0.0.1:{free_port()}", "--tls-cert", cert, "--tls-key", key]
            done = subprocess.run([COSCAN, "serve", *options], capture_output=True, text=True, timeout=600)
            self.assertEqual(done.returncode, 1, done.stderr)

    def test_many_idle_connections(self):
        sockets = [socket.create_connection(("127.0.0.1", self.server.port)) for _ in range(300)]
        try:
            with self.connect(sslmode="require") as connection:
                self.assertEqual(connection.execute("SELECT 1").fetchone()[0], 1)
        finally:
            for each in sockets:
                each.close()

    def test_a_signal_reads_the_configuration_again(self):
        config = self.own / "serve.toml"
        tables = lambda *names: "".join(f'{name} = "{self.data}/{name}.parquet"\n' for name in names)
        config.write_text("[serve.table]\n" + tables("nation"))
        server = Server("--config", str(config), data=None)
        self.addCleanup(server.stop)
        names = lambda: [row[0] for row in connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public' ORDER BY 1")]
        import psycopg

        with psycopg.connect(host="127.0.0.1", port=server.port, user="coscan", dbname="db", autocommit=True) as connection:
            self.assertEqual(names(), ["nation"])
            for wanted in (["nation", "orders"], ["orders"]):
                config.write_text("[serve.table]\n" + tables(*wanted))
                server.process.send_signal(signal.SIGHUP)
                wait_for(lambda: names() == wanted)
            config.write_text("[serve.tabel]\n")
            server.process.send_signal(signal.SIGHUP)
            wait_for(lambda: "tabel" in server.said())
            self.assertEqual(names(), ["orders"])

    def test_ends_when_told(self):
        server = Server(data=self.data)
        self.assertEqual(server.stop(), 0)
