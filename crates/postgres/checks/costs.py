"""Costs of the extension for queries that gain nothing from it, and its behaviour with many queries.

    python3 -m checks.costs cached          single scans of a table in shared buffers, with and without
    python3 -m checks.costs pgbench         transactions with and without, alone and beside scans
    python3 -m checks.costs many            1 to 48 queries under limits of memory and disk (as root)

`cached` alternates between two sessions without the extension, one under relevance and one under attach. It compares the
processor times of the backends (/proc/PID/schedstat), so the comparison is fair even on a machine that does other work.
The two sessions without the extension show the error of the measurement. `many` starts 1, 2, 4, ... queries with a delay
of the time alone divided by their number, as in the 2004 report (section 5.2).
"""

from __future__ import annotations

import argparse
import contextlib
import re
import shutil
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

from .limited import SESSION, LimitedRun
from .lineitem import load, query_1
from .server import TARGET, Cluster, Failed, Server, exit_with, finish, install_packages

CACHED_QUERIES = {
    "count(*)": "SELECT count(*) FROM lineitem",
    "a filter": "SELECT sum(l_quantity) FROM lineitem WHERE l_suppkey = 77",
    "Query 1": query_1(100),
}

MANY_SYSTEMS = {
    "PostgreSQL": {"coscan.enabled": "off", "synchronize_seqscans": "off"},
    "PostgreSQL, synchronised scans": {"coscan.enabled": "off", "synchronize_seqscans": "on"},
    "attach": {"coscan.policy": "attach"},
    "relevance": {"coscan.policy": "relevance"},
}


class Session:
    """A session that runs repeated statements."""

    def __init__(self, cluster: Cluster, settings: str) -> None:
        self.process = subprocess.Popen(
            [str(cluster.server.bin / "psql"), "-XqAt"], env=cluster.environment, text=True, bufsize=1,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.ask(SESSION + settings)
        self.pid = int(self.ask("SELECT pg_backend_pid();")[0])

    def ask(self, sql: str) -> list[str]:
        self.process.stdin.write(f"{sql}\n\\echo ~\n")
        self.process.stdin.flush()
        return list(iter(lambda: self.process.stdout.readline().rstrip(), "~"))

    def cpu_ms(self) -> float:
        return int(Path(f"/proc/{self.pid}/schedstat").read_text().split()[0]) / 1e6

    def close(self) -> None:
        self.process.communicate("")


def cached(cluster: Cluster, runs: int, gigabytes: float) -> None:
    """Single scans of a table in shared buffers."""
    cluster.settings |= {"shared_buffers": f"{round(gigabytes * 1400) + 64}MB", "coscan.min_table_size": 0}
    with cluster:
        load(cluster, gigabytes)
        cluster.sql("CREATE EXTENSION IF NOT EXISTS pg_prewarm; SELECT pg_prewarm('lineitem')", timeout=600)
        kinds = {
            "without": "SET coscan.enabled = off;", "without again": "SET coscan.enabled = off;",
            "relevance": "SET coscan.policy = relevance;", "attach": "SET coscan.policy = attach;",
            "registered all the same": "SET coscan.always_register = on;",
        }
        sessions = {kind: Session(cluster, settings) for kind, settings in kinds.items()}
        for name, sql in CACHED_QUERIES.items():
            times: dict[str, list[float]] = {kind: [] for kind in kinds}
            for _ in range(runs):
                for kind, session in sessions.items():
                    before = session.cpu_ms()
                    session.ask(sql + ";")
                    times[kind].append(session.cpu_ms() - before)
            base = statistics.median(times["without"])
            for kind, measured in times.items():
                print(f"{name:10}{kind:26}median {statistics.median(measured):8.1f} ms of processor   {statistics.median(measured) / base:.3f}")
        for session in sessions.values():
            session.close()
        print("decisions:", cluster.one("SELECT decisions || ', microseconds each: ' || round((1000 * decision_ms / greatest(decisions, 1))::numeric, 1) FROM coscan_stats"))


def pgbench(cluster: Cluster, seconds: int, runs: int, gigabytes: float) -> None:
    """Transactions, alone and beside scans of a table that does not fit."""
    cluster.settings |= {"shared_buffers": "256MB", "coscan.buffer_size": "64MB", "max_wal_size": "4GB"}
    systems = {"without": False, "with": True}
    numbers: dict[tuple[str, str, str], list[tuple[float, float]]] = {}
    with cluster:
        load(cluster, gigabytes)
        cluster.server.run("pgbench", "-h", cluster.server.folder, "-p", cluster.port, "-U", "postgres", "-i", "-s", 10, "-q", "postgres")
        cluster.stop()
    for run in range(runs):
        # Alternating, so that changes of the machine affect both systems.
        for system, enabled in sorted(systems.items(), reverse=run % 2 == 0):
            cluster.settings["coscan.enabled"] = "on" if enabled else "off"
            with cluster:
                for beside in ("alone", "beside 4 scans"):
                    for kind, options in (("select", ["-S"]), ("update", ["-N"])):
                        with scans(cluster, 4 if beside != "alone" else 0):
                            result = transactions(cluster, [*options, "-T", seconds, "-c", 4])
                        numbers.setdefault((beside, kind, system), []).append(result)
                cluster.stop()
    for (beside, kind, system), measured in numbers.items():
        tps, p99 = (statistics.median(each[i] for each in measured) for i in range(2))
        print(f"{beside:16}{kind:8}{system:10}{tps:9.0f} transactions/s   99 % within {p99:7.2f} ms")


@contextlib.contextmanager
def scans(cluster: Cluster, number: int):
    """Sessions that scan all the time."""
    loop = f"{SESSION} DO $$ BEGIN LOOP PERFORM count(*) FROM lineitem WHERE l_suppkey = 77; END LOOP; END $$"
    sessions = []
    for _ in range(number):
        sessions.append(cluster.psql(loop))
        time.sleep(0.7)
    yield
    if sessions:
        cluster.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE '%BEGIN LOOP PERFORM%' AND pid <> pg_backend_pid()")
    for session in sessions:
        with contextlib.suppress(Failed):
            finish(session)


def transactions(cluster: Cluster, options: list[object]) -> tuple[float, float]:
    """Transactions per second, and the 99th percentile of their latency in milliseconds."""
    with tempfile.TemporaryDirectory(dir=cluster.server.folder) as logs:
        cluster.server.own(Path(logs))
        out = cluster.server.run(
            "pgbench", "-h", cluster.server.folder, "-p", cluster.port, "-U", "postgres", "-n", "-M", "prepared", "-l",
            f"--log-prefix={logs}/log", *options, "postgres")
        latencies = sorted(int(line.split()[2]) for path in Path(logs).iterdir() for line in path.read_text().splitlines())
    return float(re.search(r"tps = ([0-9.]+)", out)[1]), latencies[int(len(latencies) * 0.99)] / 1000


def many(cluster: Cluster, gigabytes: float, numbers: list[int], systems: list[str], read_mb: int) -> None:
    """1 to 48 queries: seconds per query."""
    cluster.settings |= {"shared_buffers": "96MB", "coscan.buffer_size": "48MB"}
    with cluster:
        load(cluster, gigabytes)
        cluster.stop()
    query = query_1(1.5)
    for system in systems:
        cluster.settings |= {"coscan.enabled": "on"} | MANY_SYSTEMS[system]
        alone = 0.0
        for number in numbers:
            with LimitedRun(cluster, 256 << 20, read_mb * 1_000_000) as run:
                took, read = run.time([(i * alone / number, query) for i in range(number)])
            alone = alone or took[0]
            print(f"{system:32}{number:4} queries: {statistics.mean(took):7.1f} s each, {statistics.mean(took) / alone:5.2f} of alone, {read / 1e9:6.2f} GB read", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["cached", "pgbench", "many"])
    parser.add_argument("--gigabytes", type=float, default=1.0)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=20, help="of each run of pgbench")
    parser.add_argument("--queries", default="1,2,4,8,16,32,48", help="numbers of queries at once")
    parser.add_argument("--systems", nargs="+", choices=MANY_SYSTEMS, default=list(MANY_SYSTEMS), help="those of `many`")
    parser.add_argument("--read-mb", type=int, default=80, help="megabytes per second from the disk in `many`")
    options = parser.parse_args()
    install_packages()
    folder = Path(tempfile.mkdtemp(prefix="coscan-costs-"))
    folder.chmod(0o755)
    try:
        cluster = Cluster(Server(folder, TARGET), "costs", {})
        cluster.create()
        if options.what == "cached":
            cached(cluster, options.runs, options.gigabytes)
        elif options.what == "pgbench":
            pgbench(cluster, options.seconds, options.runs, options.gigabytes)
        else:
            many(cluster, options.gigabytes, [int(n) for n in options.queries.split(",")], options.systems, options.read_mb)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    exit_with(main)
