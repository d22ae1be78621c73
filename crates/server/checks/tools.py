"""coscan serve with tools that write SQL for people: dbt and Ibis. Each is in an environment of its own, since it pins other packages."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from .served import Served
from .server import TARGET, Missing, Server

DBT = ["dbt-core==1.12.0", "dbt-postgres==1.11.0"]
IBIS = ["ibis-framework==12.0.0", "psycopg[binary]", "pyarrow", "pyarrow-hotfix", "pandas", "numpy", "rich", "packaging"]

PROJECT = """
name: demo
version: "1.0"
profile: coscan
models: {demo: {+materialized: view}}
"""
#: The profile of docs/serve.md.
PROFILE = """
coscan:
  target: dev
  outputs:
    dev: {{type: postgres, host: 127.0.0.1, port: {port}, user: analyst, password: any, dbname: db, schema: public, threads: 2}}
"""
MODELS = {
    "late.sql": """
        SELECT l_orderkey, count(*) AS n FROM {{ source('tpch', 'lineitem') }} WHERE l_receiptdate > l_commitdate GROUP BY 1
    """,
    "by_year.sql": """
        SELECT extract(year FROM o_orderdate) AS y, sum(n) AS n
        FROM {{ source('tpch', 'orders') }} JOIN {{ ref('late') }} ON l_orderkey = o_orderkey GROUP BY 1
    """,
    "models.yml": """
version: 2
sources: [{name: tpch, schema: public, tables: [{name: lineitem}, {name: orders}]}]
models: [{name: by_year, columns: [{name: y, tests: [unique, not_null]}]}]
    """,
}
FRAMES = """
import sys, ibis
con = ibis.postgres.connect(host="127.0.0.1", port=int(sys.argv[1]), user="analyst", database="db")
assert con.list_tables() == ["lineitem", "nation", "orders"], con.list_tables()
nation, orders, lineitem = con.table("nation"), con.table("orders"), con.table("lineitem")
assert nation.schema().names == ("n_nationkey", "n_name", "n_regionkey", "n_comment")
assert list(nation.filter(nation.n_nationkey < 2).n_name.execute()) == ["ALGERIA", "ARGENTINA"]
flags = lineitem.group_by(["l_returnflag", "l_linestatus"]).agg(n=lineitem.count(), most=lineitem.l_shipdate.max())
assert flags.n.sum().execute() == lineitem.count().execute() > 0
joined = lineitem.join(orders, lineitem.l_orderkey == orders.o_orderkey)
years = joined.group_by(y=orders.o_orderdate.truncate("Y")).agg(n=ibis._.count()).order_by("y").to_pyarrow()
assert years.num_rows == 7 and sum(years["n"].to_pylist()) == lineitem.count().execute()
first = orders.mutate(r=ibis.row_number().over(group_by=orders.o_custkey, order_by=orders.o_orderkey)).filter(ibis._.r == 0)
assert first.count().execute() == orders.o_custkey.nunique().execute()
assert orders.o_orderpriority.value_counts().execute().shape == (5, 2)
text = con.sql("SELECT count(*) AS n FROM nation WHERE n_name LIKE 'A%'", schema={"n": "int64"})
assert text.execute().n[0] == 2
print("right")
"""


def environment(name: str, packages: list[str]) -> Path:
    """Returns the folder of the programs of an environment with these packages."""
    folder = TARGET / "serve-clients" / name
    ready, wanted = folder / "ready", "\n".join(packages)
    if not ready.exists() or ready.read_text() != wanted:
        install = [folder / "bin" / "python", "-m", "pip", "install", "--quiet", "--only-binary", ":all:", *packages]
        for command in ([sys.executable, "-m", "venv", "--clear", folder], install):
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode:
                raise Missing(f"{', '.join(packages)} cannot be installed: {done.stderr}")
        ready.write_text(wanted)
    return folder / "bin"


TABLES = ["lineitem", "nation", "orders"]


class Tools(Served):
    def query(self, sql: str) -> list[tuple]:
        import psycopg

        with psycopg.connect(host="127.0.0.1", port=self.server.port, user="analyst", dbname="db") as connection:
            return connection.execute(sql).fetchall()

    def test_ibis(self):
        python = environment("ibis", IBIS) / "python"
        done = subprocess.run([python, "-c", FRAMES, str(self.server.port)], capture_output=True, text=True, timeout=300)
        self.assertEqual(done.stdout.strip(), "right", done.stderr)


class Models(Served):
    """Views are made by administrators."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.server = Server("--anonymous-role", "admin", data=cls.data)
        cls.addClassCleanup(cls.server.stop)

    query = Tools.query

    def dbt(self, *arguments: str) -> list[dict]:
        """Runs dbt and returns the outcome of each node."""
        project = self.data.parent / f"{self.data.name}-dbt"
        (project / "models").mkdir(parents=True, exist_ok=True)
        (project / "dbt_project.yml").write_text(PROJECT)
        (project / "profiles.yml").write_text(PROFILE.format(port=self.server.port))
        for name, text in MODELS.items():
            (project / "models" / name).write_text(text.strip() + "\n")
        settings = os.environ | {"DBT_SEND_ANONYMOUS_USAGE_STATS": "false"}
        command = [environment("dbt", DBT) / "dbt", *arguments, "--profiles-dir", "."]
        done = subprocess.run(command, cwd=project, env=settings, capture_output=True, text=True, timeout=300)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return json.loads((project / "target" / "run_results.json").read_text())["results"]

    def test_dbt(self):
        # The second run replaces the views of the first.
        for _ in range(2):
            self.assertEqual([result["status"] for result in self.dbt("run")], ["success"] * 2)
            self.assertEqual([result["status"] for result in self.dbt("test")], ["pass"] * 2)
        wanted = """
            SELECT extract(year FROM o_orderdate) AS y, count(*) AS n FROM lineitem JOIN orders ON l_orderkey = o_orderkey
            WHERE l_receiptdate > l_commitdate GROUP BY 1 ORDER BY 1
        """
        self.assertEqual(self.query("SELECT y, n FROM by_year ORDER BY 1"), self.query(wanted))
        views = "SELECT table_name FROM information_schema.tables WHERE table_type = 'VIEW' AND table_schema = 'public' ORDER BY 1"
        self.assertEqual(self.query(views), [("by_year",), ("late",)])

    def test_only_views_are_renamed(self):
        import psycopg

        for sql, code in [
            ("ALTER TABLE nation RENAME TO other", "0A000"), ("ALTER TABLE nothing RENAME TO other", "42P01"),
            ("ALTER TABLE nation ADD COLUMN x int", "0A000"), ("ALTER TABLE some_view RENAME TO nation", "42P07"),
        ]:
            with self.subTest(sql), psycopg.connect(
                host="127.0.0.1", port=self.server.port, user="analyst", dbname="db", autocommit=True
            ) as connection:
                made = connection.execute("CREATE OR REPLACE VIEW some_view AS SELECT 1 AS a")
                self.assertEqual(made.statusmessage, "CREATE VIEW")
                listed = "SELECT 'table', tablename FROM pg_tables WHERE schemaname = 'public' UNION ALL SELECT 'view', viewname FROM pg_views"
                kinds = [("table", "lineitem"), ("table", "nation"), ("table", "orders"), ("view", "some_view")]
                self.assertEqual([row for row in sorted(connection.execute(listed).fetchall()) if row[1] in ("some_view", *TABLES)], kinds)
                with self.assertRaises(psycopg.Error) as raised:
                    connection.execute(sql)
                self.assertEqual(raised.exception.sqlstate, code)
                connection.execute("DROP VIEW some_view")
        self.assertEqual(self.query("SELECT count(*) FROM nation"), [(25,)])
