"""Workers that die, hang, drain, refuse or run another version, while clients of a coordinator ask."""

from __future__ import annotations

import contextlib
import http.client
import json
import random
import signal
import ssl
import subprocess
import tempfile
import threading
import time
import unittest
import urllib.error
import urllib.request
from pathlib import Path

from ..files.program import Program, Refused
from ..packages import COSCAN
from ..server import Server
from .workers import Cluster, Worker

#: Statements with few rows at the end, and one with many rows.
STATEMENTS = [
    "SELECT l_returnflag, l_linestatus, count(*), sum(l_quantity) FROM lineitem GROUP BY 1, 2 ORDER BY 1, 2",
    "SELECT count(*), sum(l_extendedprice) FROM lineitem WHERE l_discount > 0.05",
    "SELECT o_orderpriority, count(*) FROM orders JOIN lineitem ON l_orderkey = o_orderkey GROUP BY 1 ORDER BY 1",
]
CLIENTS = 4
SMALL_TASKS = ["--cluster-task-bytes", "1"]
#: A statement that statistics do not answer, and its answer at a hundredth of the scale factor.
SUM, SUM_IS = "SELECT count(DISTINCT l_linenumber), max(length(l_comment)) FROM lineitem", [(7, 43)]
#: Seconds after which a worker that was cut off is certainly noticed.
NOTICED = 12


class Served(unittest.TestCase):
    """A coordinator with clients, over workers that fail."""

    @classmethod
    def setUpClass(cls) -> None:
        cls.folder = Path(cls.enterClassContext(tempfile.TemporaryDirectory(prefix="coscan-cluster-")))
        cls.data = cls.folder / "tpch"
        generate = [COSCAN, "generate", "tpch", "--scale-factor", "0.1", "--row-group-rows", "10000"]
        subprocess.run([*generate, "--tables", "lineitem,orders", "--out", cls.data], check=True, stdout=subprocess.DEVNULL)
        cls.tables = {name: cls.data / f"{name}.parquet" for name in ("lineitem", "orders")}
        alone = Program(COSCAN).ask(cls.tables, [], STATEMENTS)
        assert not any(isinstance(answer, Refused) for answer in alone), alone
        cls.wanted = {statement: [tuple(map(str, row)) for row in answer] for statement, answer in zip(STATEMENTS, alone)}

    def setUp(self) -> None:
        self.cluster = self.enterContext(Cluster(COSCAN, 3, self.folder))
        options = ["--cluster", str(self.cluster), "--cluster-task-bytes", "1"]
        self.server = self.enterContext(Server(COSCAN, self.tables, options, self.folder / "serve.log"))

    def state(self) -> dict[str, str]:
        with self.server.connect() as connection:
            return dict(connection.execute("SELECT address, state FROM coscan_workers()").fetchall())

    def wait_for(self, worker: Worker, state: str) -> None:
        deadline = time.monotonic() + NOTICED
        while self.state().get(worker.address) != state:
            self.assertLess(time.monotonic(), deadline, self.state())
            time.sleep(0.1)

    def ask(self, seconds: float, meanwhile) -> int:
        """Clients ask for a time, while something happens. Returns the number of answers. All are right."""
        stop, counts, faults = threading.Event(), [0] * CLIENTS, []

        def client(number: int) -> None:
            draw = random.Random(number)
            with self.server.connect() as connection:
                while not stop.is_set():
                    statement = draw.choice(STATEMENTS)
                    try:
                        found = [tuple(map(str, row)) for row in connection.execute(statement).fetchall()]
                    except Exception as error:  # A fault of any kind is one.
                        faults.append(f"{statement}: {error}")
                        return
                    if found != self.wanted[statement]:
                        faults.append(f"{statement}: {found}")
                    counts[number] += 1

        clients = [threading.Thread(target=client, args=(number,)) for number in range(CLIENTS)]
        for thread in clients:
            thread.start()
        begun = time.monotonic()
        try:
            meanwhile()
            time.sleep(max(0.0, seconds - (time.monotonic() - begun)))
        finally:
            stop.set()
            for thread in clients:
                thread.join(NOTICED * 5)
        self.assertEqual(faults, [])
        self.assertFalse(any(thread.is_alive() for thread in clients), "a client hangs")
        self.assertTrue(all(counts), counts)
        return sum(counts)

    def test_a_killed_worker(self) -> None:
        first = self.cluster.workers[0]

        def kill() -> None:
            for _ in range(3):
                time.sleep(0.7)
                first.kill()
                self.wait_for(first, "gone")
                first.start()
                self.wait_for(first, "ready")

        self.ask(5, kill)

    def test_a_worker_that_hangs(self) -> None:
        second = self.cluster.workers[1]

        def stop() -> None:
            time.sleep(0.5)
            second.signal(signal.SIGSTOP)
            self.wait_for(second, "gone")
            time.sleep(2)
            second.signal(signal.SIGCONT)
            self.wait_for(second, "ready")

        self.ask(8, stop)

    def test_a_worker_that_drains(self) -> None:
        third = self.cluster.workers[2]

        def drain() -> None:
            time.sleep(0.5)
            self.assertEqual(third.end(), 0)
            self.wait_for(third, "gone")

        self.ask(5, drain)

    def test_the_page_has_the_workers(self) -> None:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.server.port}/api/workers", timeout=10) as answer:
            found = json.load(answer)
        addresses = sorted(worker.address for worker in self.cluster.workers)
        self.assertEqual([(worker["address"], worker["state"]) for worker in found], [(address, "ready") for address in addresses])

    def test_no_worker_is_left(self) -> None:
        def kill() -> None:
            time.sleep(0.5)
            for worker in self.cluster.workers:
                worker.kill()

        self.ask(3, kill)
        with self.server.connect() as connection:
            plan = "\n".join(row[0] for row in connection.execute("EXPLAIN " + STATEMENTS[0]).fetchall())
        self.assertIn("no worker is ready", plan)

    def test_errors_of_statements_have_their_code(self) -> None:
        import psycopg

        with self.server.connect() as connection:
            with self.assertRaises(psycopg.errors.DivisionByZero):
                connection.execute("SELECT sum(1 / (l_linenumber - l_linenumber)) FROM lineitem").fetchall()
            with self.assertRaises(psycopg.errors.NumericValueOutOfRange):
                connection.execute("SELECT sum(l_orderkey * 9223372036854775807) FROM lineitem").fetchall()
            self.assertEqual(len(connection.execute(STATEMENTS[0]).fetchall()), 4)

    def test_a_replaced_file(self) -> None:
        copy = self.folder / "copy.parquet"
        copy.write_bytes(self.tables["orders"].read_bytes())
        with self.server.connect() as connection:
            connection.execute(f"CREATE EXTERNAL TABLE copied STORED AS PARQUET LOCATION '{copy}'")
            count = "SELECT count(*), max(o_comment) FROM copied"
            [first] = connection.execute(count).fetchall()
            for _ in range(3):
                other = copy.with_suffix(".new")
                other.write_bytes(self.tables["orders"].read_bytes())
                other.rename(copy)
                self.assertEqual(connection.execute(count).fetchall(), [first])


class WhoMaySendPlans(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.folder = Path(cls.enterClassContext(tempfile.TemporaryDirectory(prefix="coscan-cluster-")))
        generate = [COSCAN, "generate", "tpch", "--scale-factor", "0.01", "--row-group-rows", "1000"]
        subprocess.run([*generate, "--tables", "lineitem", "--out", cls.folder], check=True, stdout=subprocess.DEVNULL)
        cls.tables = {"lineitem": cls.folder / "lineitem.parquet"}
        for name, token in (("token", "0123456789abcdef"), ("other", "fedcba9876543210"), ("short", "abc")):
            (cls.folder / name).write_text(token)

    def plan(self, options: list[str]) -> str:
        explain = [f"EXPLAIN {SUM}"]
        output, error = Program(COSCAN).call(self.tables, options, explain)
        self.assertEqual(error, "")
        return output

    def reason(self, options: list[str]) -> str:
        [[(reason,)]] = Program(COSCAN).ask({}, options, ["SELECT reason FROM coscan_workers() LIMIT 1"])
        return reason or ""

    def test_the_token(self) -> None:
        token, other = (["--cluster-token-file", str(self.folder / name)] for name in ("token", "other"))
        with Cluster(COSCAN, 2, self.folder, ["--threads", "1", *token]) as cluster:
            self.assertIn("DistributedExec", self.plan(["--cluster", str(cluster), *SMALL_TASKS, *token]))
            for wrong in (other, []):
                options = ["--cluster", str(cluster), *wrong]
                self.assertIn("no worker is ready", self.plan(options))
                self.assertIn("it refused the token", self.reason(options))
            worker = cluster.workers[0]
            self.assertEqual((worker.text("/healthz"), worker.text("/readyz")), ("ok\n", "ready\n"))
            for path in ("/metrics", "/status"):
                with self.assertRaises(urllib.error.HTTPError) as refused:
                    worker.text(path)
                self.assertEqual(refused.exception.code, 401)
            metrics = worker.text("/metrics", {"Authorization": "Bearer 0123456789abcdef"})
            self.assertIn("coscan_worker_tasks_started_total", metrics)

    def refused(self, *options: str) -> str:
        ended = subprocess.run([COSCAN, "worker", *options], capture_output=True, text=True, timeout=60)
        self.assertEqual(ended.returncode, 2, ended.stderr)
        return ended.stderr

    def test_a_worker_is_closed_to_other_machines(self) -> None:
        self.assertIn("cluster-tls-ca", self.refused("--listen", "0.0.0.0:0"))

    def test_settings_that_are_wrong(self) -> None:
        said = subprocess.run([COSCAN, "worker", "--cluster-token-file", self.folder / "short"], capture_output=True, text=True)
        self.assertIn("16 letters", said.stderr)
        self.assertIn("all three", self.refused("--cluster-tls-cert", str(self.folder / "token")))
        for wrong in ("", "http://a", "a b"):
            said = subprocess.run([COSCAN, "sql", "--cluster", wrong, "-c", "SELECT 1"], capture_output=True, text=True)
            self.assertEqual(said.returncode, 2, said)

    def test_certificates(self) -> None:
        def openssl(*words: str) -> None:
            subprocess.run(["openssl", *words], check=True, capture_output=True, cwd=self.folder)

        def authority(name: str) -> None:
            openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", f"/CN={name}",
                    "-keyout", f"{name}.key", "-out", f"{name}.pem")

        def certificate(name: str, of: str) -> list[str]:
            (self.folder / "names").write_text("subjectAltName=IP:127.0.0.1\nextendedKeyUsage=serverAuth,clientAuth\n")
            openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", f"/CN={name}",
                    "-keyout", f"{name}.key", "-out", f"{name}.csr")
            openssl("x509", "-req", "-in", f"{name}.csr", "-CA", f"{of}.pem", "-CAkey", f"{of}.key", "-CAcreateserial", "-days", "2",
                    "-extfile", "names", "-out", f"{name}.pem")
            files = {"ca": f"{of}.pem", "cert": f"{name}.pem", "key": f"{name}.key"}
            return [word for kind, file in files.items() for word in (f"--cluster-tls-{kind}", str(self.folder / file))]

        authority("ours")
        authority("theirs")
        own, foreign = certificate("process", "ours"), certificate("stranger", "theirs")
        with Cluster(COSCAN, 2, self.folder, ["--threads", "1", *own]) as cluster:
            statement = [SUM]
            options = ["--cluster", str(cluster), *SMALL_TASKS]
            self.assertIn("DistributedExec", self.plan([*options, *own]))
            self.assertEqual(Program(COSCAN).ask(self.tables, [*options, *own], statement), [SUM_IS])
            for stranger in (foreign, []):
                self.assertIn("no worker is ready", self.plan([*options, *stranger]))
            plain = ssl.create_default_context()
            plain.check_hostname, plain.verify_mode = False, ssl.CERT_NONE
            worker = cluster.workers[0]
            connection = http.client.HTTPSConnection("127.0.0.1", worker.port, context=plain, timeout=10)
            with contextlib.closing(connection), self.assertRaises(OSError):
                connection.request("GET", "/healthz")
                connection.getresponse()

    def test_files_outside_of_the_folders(self) -> None:
        elsewhere = self.folder / "allowed"
        elsewhere.mkdir(exist_ok=True)
        with Cluster(COSCAN, 2, self.folder, ["--threads", "1", "--folder", str(elsewhere)]) as cluster:
            options = ["--cluster", str(cluster), *SMALL_TASKS]
            [refused] = Program(COSCAN).ask(self.tables, options, [SUM])
            self.assertIsInstance(refused, Refused)
            self.assertIn("the worker may not read", str(refused))
