"""Answers of a cluster: those of one process for TPC-H, and DuckDB's for TPC-DS and random statements."""

from __future__ import annotations

import re
import subprocess
import tempfile
import unittest
from pathlib import Path

from .. import campaign, random_sql, tpcds
from ..campaign import Options
from ..compare import difference, without_order
from ..files.program import Program, Refused
from ..packages import COSCAN
from .workers import Cluster

QUERIES = Path(__file__).parents[3] / "datafusion" / "tests" / "tpch"
TABLES = ("customer", "lineitem", "nation", "orders", "part", "partsupp", "region", "supplier")
#: Statements of TPC-H that run on this machine, with the reason. All others must run on workers.
LOCAL: dict[int, str] = {}
SEEDS = range(12)


def query(number: int) -> str:
    return (QUERIES / f"q{number}.sql").read_text().rstrip().rstrip(";")


class Answers(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.folder = Path(cls.enterClassContext(tempfile.TemporaryDirectory(prefix="coscan-cluster-")))
        data = cls.folder / "tpch"
        generate = [COSCAN, "generate", "tpch", "--scale-factor", "0.1", "--row-group-rows", "10000", "--out", data]
        subprocess.run(generate, check=True, stdout=subprocess.DEVNULL)
        cls.tables = {name: data / f"{name}.parquet" for name in TABLES}
        cls.cluster = cls.enterClassContext(Cluster(COSCAN, 3, cls.folder))
        cls.program = Program(COSCAN)
        cls.options = ["--cluster", str(cls.cluster), "--cluster-task-bytes", "1"]

    def test_tpch(self) -> None:
        queries = [query(number) for number in range(1, 23)]
        alone = self.program.ask(self.tables, [], queries)
        together = self.program.ask(self.tables, self.options, queries)
        for number, (wanted, found) in enumerate(zip(alone, together), 1):
            with self.subTest(query=number):
                self.assertNotIsInstance(wanted, Refused)
                self.assertNotIsInstance(found, Refused, found)
                self.assertIsNone(difference(without_order(wanted), found))

    def test_tpch_runs_on_workers(self) -> None:
        explained = ["EXPLAIN " + query(number) for number in range(1, 23)]
        for number, statement in enumerate(explained, 1):
            output, error = self.program.call(self.tables, self.options, [statement])
            self.assertEqual(error, "")
            reason = re.search(r"runs on this machine: ([^\n\"]*)", output)
            with self.subTest(query=number):
                self.assertEqual(reason and reason[1], LOCAL.get(number))
                if not reason:
                    self.assertIn("DistributedExec", output)
                    self.assertIn("[Stage", output)

    def test_a_row_group_stays_with_its_worker(self) -> None:
        statement = "EXPLAIN VERBOSE SELECT sum(l_quantity) FROM lineitem"
        first, second = (self.program.call(self.tables, self.options, [statement])[0] for _ in range(2))
        places = r"worker=(http://[0-9.:]+).*?file_groups=\{.*?\}\]"
        self.assertEqual(re.findall(places, first), re.findall(places, second))

    def test_metrics_of_workers_are_shown(self) -> None:
        output, error = self.program.call(self.tables, self.options, ["EXPLAIN ANALYZE " + query(1)])
        self.assertEqual(error, "")
        rows = [int(count) for count in re.findall(r"AggregateExec: mode=Partial.*?output_rows=(\d+)", output)]
        self.assertTrue(rows and all(rows), output)

    def test_workers_are_listed(self) -> None:
        [found] = self.program.ask({}, self.options, ["SELECT address, state, tasks_started > 0 FROM coscan_workers() ORDER BY 1"])
        self.assertEqual([row[:2] for row in found], sorted((worker.address, "ready") for worker in self.cluster.workers))


class AgainstDuckDb(unittest.TestCase):
    """The checks of `checks.duckdb` with every process of coscan a coordinator."""

    @classmethod
    def setUpClass(cls) -> None:
        cls.folder = Path(cls.enterClassContext(tempfile.TemporaryDirectory(prefix="coscan-cluster-")))
        cls.cluster = cls.enterClassContext(Cluster(COSCAN, 2, cls.folder))
        cls.enterClassContext(cls.cluster.used_by_all())

    def test_random_statements(self) -> None:
        self.assertTrue(campaign.check(random_sql.KIND, SEEDS, Options()))

    def test_tpcds(self) -> None:
        self.assertTrue(tpcds.check(tpcds.SCALE, COSCAN))

    def tearDown(self) -> None:
        for worker in self.cluster.workers:
            self.assertIsNone(worker.process.poll(), worker.log.read_text()[-3000:])
            self.assertIn('"version"', worker.text("/status"))
