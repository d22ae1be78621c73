"""Sixty-four clients for minutes, with faults: checks answers and leaks, and measures the time of each kind.

    make serve-load [SERVE_LOAD="--minutes 30"]

Clients of PostgreSQL's protocol and of Flight SQL repeat their queries, and each answer is compared with the
expected one. At the same time the script kills clients in the middle of a result, leaves results unread, cancels
statements, and replaces files by files with the same rows. It also stops the store for seconds: the table `far`
comes through a web server of this script. Memory is measured every few seconds. At the end no statement may run
and no connection may be counted. Memory must be near its size after every kind had run for a while.
"""

from __future__ import annotations

import argparse
import contextlib
import http.server
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from pathlib import Path

from .server import COSCAN, Server, client_packages, resident, wait_for
from .wire import Wire

#: Statements by kind. {} is a number that determines the answer.
KINDS = {
    "point": "SELECT count(*), min(o_totalprice) FROM orders WHERE o_orderkey = {}",
    "aggregate": "SELECT l_returnflag, count(*), sum(l_extendedprice) FROM lineitem WHERE l_orderkey % 16 = {} GROUP BY 1 ORDER BY 1",
    "join": "SELECT count(*), sum(l_quantity) FROM orders JOIN lineitem ON o_orderkey = l_orderkey WHERE o_custkey % 16 = {}",
    "far": "SELECT count(*), sum(l_tax) FROM far WHERE l_partkey % 16 = {}",
    "rows": "SELECT l_orderkey, l_comment FROM lineitem WHERE l_suppkey % 16 = {} ORDER BY 1, 2",
}
VALUES = 16
#: Seconds between two measurements of memory, and seconds after which everything was paused in between.
LOOK_EVERY, PAUSE = 2, 10
#: Seconds without a fault after which the test was too easy.
WITHOUT_FAULT = 120
#: The server's memory setting.
MEMORY = 1 << 30
#: Part of the error of a statement whose file was replaced. The client retries, as the error says.
REPLACED = "was replaced while in use"


class Store(http.server.ThreadingHTTPServer):
    """A web server over a folder, with ranges. It can be paused."""

    daemon_threads = True

    def __init__(self, folder: Path):
        super().__init__(("127.0.0.1", 0), Request)
        self.folder, self.running, self.requests = folder, threading.Event(), 0
        self.running.set()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def stall(self, seconds: float) -> None:
        self.running.clear()
        time.sleep(seconds)
        self.running.set()

    def handle_error(self, *_):
        """A client that has left is no error."""


class Request(http.server.BaseHTTPRequestHandler):
    """GET and HEAD of a file, or of a part of it."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        """Logs nothing."""

    def do_HEAD(self):
        self.answer(False)

    def do_GET(self):
        self.answer(True)

    def answer(self, with_body: bool) -> None:
        self.server.running.wait()
        self.server.requests += 1
        path = self.server.folder / self.path.lstrip("/")
        if not path.is_file():
            self.send_response(404)
            self.send_header("content-length", "0")
            return self.end_headers()
        data, size = path.read_bytes(), path.stat().st_size
        first, last = 0, size - 1
        if asked := self.headers.get("range"):
            begin, _, end = asked.removeprefix("bytes=").partition("-")
            first, last = (int(begin), min(int(end or size), size - 1)) if begin else (size - int(end), size - 1)
            self.send_response(206)
            self.send_header("content-range", f"bytes {first}-{last}/{size}")
        else:
            self.send_response(200)
        self.send_header("content-length", str(last - first + 1))
        self.send_header("accept-ranges", "bytes")
        self.send_header("etag", f'"{path.stat().st_mtime_ns}"')
        self.send_header("last-modified", self.date_time_string(path.stat().st_mtime))
        self.end_headers()
        if with_body:
            self.wfile.write(data[first : last + 1])


class Load:
    """The clients, their results, and the faults."""

    def __init__(self, options, server: Server, store: Store, data: Path):
        self.options, self.server, self.store, self.data = options, server, store, data
        self.over = threading.Event()
        self.lock = threading.Lock()
        #: Start and end of each answer, by kind.
        self.times = defaultdict(list)
        #: Pauses of this machine, in which clients and server were stopped together.
        self.pauses: list[tuple[float, float]] = []
        self.wrong: list[str] = []
        self.failed = defaultdict(int)
        #: Statements whose file was replaced and that were retried.
        self.asked_again = 0
        self.faults = defaultdict(int)
        #: Time of the last fault, and time at which clients were told to end.
        self.fault_at = self.ended_at = 0.0
        self.memory: list[tuple[float, int]] = []
        self.expected = {}

    def pg(self):
        import psycopg

        return psycopg.connect(host="127.0.0.1", port=self.server.port, user="coscan", dbname="db", autocommit=True)

    def learn(self) -> None:
        """Learns the expected answer of every statement, without sharing, before anything else runs."""
        with self.pg() as connection:
            connection.execute("SET coscan.enabled = false")
            for kind, sql in KINDS.items():
                for value in range(VALUES):
                    self.expected[kind, value] = digest(connection.execute(sql.format(value)).fetchall())

    def client(self, number: int) -> None:
        """A client. Half of the clients speak Flight SQL. Sometimes a client reconnects."""
        seed = random.Random(number)
        while not self.over.is_set():
            try:
                with self.flight() if number % 2 else self.pg() as connection:
                    for _ in range(seed.randrange(1, 40)):
                        if self.over.is_set():
                            return
                        self.ask(connection, seed)
            except Exception as error:  # noqa: BLE001  failures are counted by kind
                if REPLACED in str(error):
                    with self.lock:
                        self.asked_again += 1
                else:
                    self.fail(error)
                time.sleep(0.2)

    def flight(self):
        import adbc_driver_flightsql.dbapi as flight

        return flight.connect(f"grpc://127.0.0.1:{self.server.port}", autocommit=True)

    def ask(self, connection, seed: random.Random) -> None:
        kind, value = seed.choice(list(KINDS)), seed.randrange(VALUES)
        begun = time.monotonic()
        with connection.cursor() as cursor:
            cursor.execute(KINDS[kind].format(value))
            rows = cursor.fetchall()
        with self.lock:
            self.times[kind].append((begun, time.monotonic()))
            if digest(rows) != self.expected[kind, value]:
                self.wrong.append(f"{kind} {value}: {str(rows)[:200]}")

    def fail(self, error: Exception) -> None:
        text = " ".join(str(error).split())[:160] or type(error).__name__
        with self.lock:
            self.failed[text] += 1

    def fault(self) -> None:
        """Makes one fault after the other until the end."""
        seed = random.Random(1)
        kinds = {
            "killed in a result": self.killed, "left unread": self.unread, "cancelled": self.cancelled,
            "replaced a file": self.replaced, "stopped the store": lambda: self.store.stall(seed.uniform(1, 5)),
            "garbage": self.garbage,
        }
        while not self.over.wait(seed.uniform(0.2, 2)):
            name = seed.choice(list(kinds))
            try:
                kinds[name]()
                self.faults[name] += 1
            except Exception as error:  # noqa: BLE001  as for clients
                self.fail(error)
            self.fault_at = time.monotonic()

    def killed(self) -> None:
        wire = Wire(self.server.port).open()
        wire.send(b"Q", b"SELECT * FROM lineitem\0")
        wire.read()
        wire.close()

    def unread(self) -> None:
        wire = Wire(self.server.port).open()
        wire.send(b"Q", b"SELECT * FROM lineitem\0")
        threading.Timer(20, wire.close).start()

    def cancelled(self) -> None:
        import psycopg

        with self.pg() as connection:
            over = threading.Event()

            def stop():
                """Repeats the cancel request: one that comes before the statement stops nothing, and the server may
                have no time for it."""
                while not over.wait(0.3):
                    with contextlib.suppress(psycopg.Error):
                        connection.cancel_safe()

            threading.Thread(target=stop, daemon=True).start()
            try:
                connection.execute("SELECT count(*) FROM lineitem a JOIN lineitem b ON a.l_partkey = b.l_partkey, orders").fetchone()
            except Exception as error:  # noqa: BLE001
                if "cancel" not in str(error):
                    raise OSError(str(error)) from error
            finally:
                over.set()

    def replaced(self) -> None:
        """Replaces a file by one with the same rows."""
        target = self.data / "orders.parquet"
        beside = self.data / ".orders.new"
        shutil.copyfile(target, beside)
        os.replace(beside, target)

    def garbage(self) -> None:
        with Wire(self.server.port) as wire:
            wire.socket.sendall(random.randbytes(200))

    def run(self) -> None:
        self.learn()
        threads = [threading.Thread(target=self.client, args=(n,), daemon=True) for n in range(self.options.clients)]
        threads.append(threading.Thread(target=self.fault, daemon=True))
        begun = looked = time.monotonic()
        end = begun + 60 * self.options.minutes
        for thread in threads:
            thread.start()
        while looked < end and self.server.process.poll() is None:
            time.sleep(LOOK_EVERY)
            before, looked = looked, time.monotonic()
            if looked - before > PAUSE:
                self.pauses.append((before, looked))
                end += looked - before
            self.memory.append((looked - begun, resident(self.server)))
        self.over.set()
        self.ended_at = looked
        self.store.running.set()
        for thread in threads:
            thread.join(120)
        self.stuck = sum(thread.is_alive() for thread in threads)

    def seconds(self, kind: str) -> list[float]:
        """Returns the times of a kind, without those in a pause."""
        apart = lambda begun, end: all(end < first or begun > last for first, last in self.pauses)
        return [end - begun for begun, end in self.times[kind] if apart(begun, end)]


def digest(rows) -> str:
    """Returns rows as text, in the same form for all clients."""
    return "\n".join("|".join(str(value) for value in row) for row in rows)


def percentile(times: list[float], part: float) -> float:
    times = sorted(times) or [float("nan")]
    return times[min(len(times) - 1, int(part * len(times)))]


def judged(load: Load) -> list[str]:
    """Returns the faults found."""
    faults = list(load.wrong[:10])
    if load.server.process.poll() is not None:
        return [*faults, f"the server ended with {load.server.process.returncode}: {load.server.said()[-2000:]}"]
    if load.stuck:
        faults.append(f"{load.stuck} clients do not end")
    if load.ended_at - load.fault_at > WITHOUT_FAULT:
        faults.append(f"no fault was made in the last {load.ended_at - load.fault_at:.0f} s")
    # Flight's library may keep connections for a moment. Sessions end with everything that they hold.
    metrics = lambda: scraped(load.server.port)
    try:
        wait_for(lambda: metrics()["coscan_statements_running"] == 0 and metrics()["coscan_loads_in_flight"] == 0, 60)
    except AssertionError:
        faults.append(f"statements go on: {metrics()}")
    most = max(size for _, size in load.memory)
    if most > MEMORY:
        faults.append(f"{most >> 20} MiB of memory; the server was told that it has {MEMORY >> 20}")
    # A leak grows; memory kept by the allocator does not.
    half = len(load.memory) // 2
    early, late = (max(size for _, size in part) for part in (load.memory[half // 2 : half], load.memory[half + half // 2 :]))
    if late > 1.25 * early + (32 << 20):
        faults.append(f"memory grows: {early >> 20} MiB in the second quarter, {late >> 20} MiB in the last")
    done = sum(map(len, load.times.values()))
    if sum(load.failed.values()) > done / 100:
        faults.append(f"{sum(load.failed.values())} failures for {done} answers: {dict(load.failed)}")
    return faults


def scraped(port: int) -> dict[str, float]:
    import urllib.request

    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
        lines = answer.read().decode().splitlines()
    return {name: float(value) for name, _, value in (line.partition(" ") for line in lines if not line.startswith("#"))}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--scale-factor", type=float, default=0.1)
    options = parser.parse_args()
    client_packages()
    with tempfile.TemporaryDirectory() as folder:
        data, far = Path(folder) / "data", Path(folder) / "far"
        make = lambda out, tables: subprocess.run(
            [COSCAN, "generate", "tpch", "-s", str(options.scale_factor), "--tables", tables, "--row-group-rows", "20000", "--out", out],
            check=True, capture_output=True)
        make(data, "lineitem,orders")
        make(far, "lineitem")
        store = Store(far)
        server = Server(
            "--table", f"far={store.url}/lineitem.parquet", "--memory", str(MEMORY), "--stalled-client-timeout", "10",
            "--max-queries", "48", data=data)
        load = Load(options, server, store, data)
        try:
            load.run()
            faults = judged(load)
            report = {
                "answers": {kind: {"count": len(times), "p50_s": round(percentile(load.seconds(kind), 0.5), 3),
                                   "p99_s": round(percentile(load.seconds(kind), 0.99), 3)}
                            for kind, times in sorted(load.times.items())},
                "pauses_s": [round(end - begun) for begun, end in load.pauses],
                "faults": dict(load.faults), "failures": dict(load.failed),
                "asked_again": load.asked_again, "requests_to_the_store": store.requests,
                "memory_mib": [size >> 20 for _, size in load.memory[:: max(1, len(load.memory) // 12)]],
            }
            print(json.dumps(report, indent=1), flush=True)
            # Nothing runs, so there is nothing to wait for.
            begun = time.monotonic()
            server.process.send_signal(signal.SIGTERM)
            try:
                server.process.wait(60)
            except subprocess.TimeoutExpired:
                faults.append(f"the server does not end: {server.said()[-2000:]}")
            if "statements are stopped" in server.said():
                faults.append("statements were left when the server ended")
            print(f"the server ended within {time.monotonic() - begun:.1f} s")
        finally:
            server.process.kill()
            server.stop()
    print("\n".join(faults) or "no wrong answer, no leak, nothing left running")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
