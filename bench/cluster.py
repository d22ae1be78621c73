"""Streams of queries on a cluster: coscan, datafusion-distributed alone, and one process of coscan.

    python3 -m bench.cluster --coscan target/release/coscan --workers 2 3 4 --store 30ms

The workload is the paper's mix of queries over lineitem (bench/workload.py), in a store with latency and bandwidth.
All processes run on this machine. `union` is what one process with room for everything reads, so `by union` is how often
the workers read the same bytes. Answers are compared.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from bench import workload
from bench.remote import store

ACCESS = {"AWS_ALLOW_HTTP": "true", "AWS_SKIP_SIGNATURE": "true", "AWS_REGION": "us-east-1"}
#: The options of a coordinator by the name of a way to run.
WAYS = {"coscan": ["--cluster-task-bytes", "1"], "plain": ["--cluster-plain"], "one process": []}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextmanager
def workers(coscan: Path, count: int, threads: int, environment: dict[str, str], buffer: str) -> Iterator[str]:
    """Starts workers and returns their addresses."""
    with ExitStack() as stack:
        addresses = [f"127.0.0.1:{free_port()}" for _ in range(count)]
        for address in addresses:
            command = [str(coscan), "worker", "--listen", address, "--threads", str(threads), "--buffer", buffer]
            process = stack.enter_context(subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL))
            stack.callback(process.kill)
        for address in addresses:
            host, port = address.split(":")
            while True:
                with socket.socket() as probe:
                    if probe.connect_ex((host, int(port))) == 0:
                        break
                time.sleep(0.01)
        yield ",".join(addresses)


def statements(table: workload.Table, seed: int, streams: int, queries: int) -> list[str]:
    """Returns the statements of each stream, as one text."""
    content = workload.mix(table, seed, streams, queries, 0.0)["streams"]
    return ["; ".join(query["sql"] for query in stream["queries"]) for stream in content]


def run(
    coscan: Path, options: Sequence[str], environment: dict[str, str], streams: Sequence[str]
) -> tuple[float, list[str]]:
    """Returns the time of all streams, which run at the same time, and their answers."""
    command = [str(coscan), "sql", *options, "--format", "csv", "-t", "lineitem=s3://bucket/lineitem.parquet"]
    for stream in streams:
        command += ["-c", stream]
    begun = time.monotonic()
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    took = time.monotonic() - begun
    if done.returncode != 0:
        raise RuntimeError(done.stderr[-500:])
    return took, sorted(done.stdout.splitlines())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--coscan", type=Path, required=True)
    parser.add_argument("--data", type=Path, default=Path("data/cluster"))
    parser.add_argument("--scale-factor", type=float, default=1)
    parser.add_argument("--row-group-rows", type=int, default=60_000)
    parser.add_argument("--workers", type=int, nargs="+", default=[2, 3, 4])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--buffer", default="1GB")
    parser.add_argument("--store", default="30ms")
    parser.add_argument("--streams", type=int, default=16)
    parser.add_argument("--queries", type=int, default=2)
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    root = options.data.resolve()
    made = root / "bucket" / f"sf{options.scale_factor:g}"
    coscan = options.coscan.resolve()
    generate = ["generate", "tpch", "--tables", "lineitem", "--scale-factor", f"{options.scale_factor:g}"]
    rows = ["--row-group-rows", str(options.row_group_rows)]
    subprocess.run([coscan, *generate, *rows, "--out", made], check=True, stdout=subprocess.DEVNULL)
    link = root / "bucket" / "lineitem.parquet"
    link.unlink(missing_ok=True)
    os.link(made / "lineitem.parquet", link)
    key_max = int(6_000_000 * options.scale_factor)
    table = workload.Table((str(link),), 0, 1, key_max, link.stat().st_size)
    failed = 0
    print("| workers | streams | way | s, median (range) | by plain | MB | by union |\n|--:|--:|---|--:|--:|--:|--:|")
    for count in options.workers:
        for streams in (1, options.streams):
            times: dict[str, list[float]] = {way: [] for way in WAYS}
            sizes: dict[str, list[float]] = {way: [] for way in WAYS}
            for seed in range(options.seeds):
                texts = statements(table, seed, streams, options.queries)
                answers = {}
                for way, chosen in WAYS.items():
                    with store(root, options.store, seed) as address:
                        environment = {**os.environ, **ACCESS, "AWS_ENDPOINT": address}
                        own = ["--threads", str(options.threads), "--buffer", options.buffer]
                        with ExitStack() as stack:
                            if way != "one process":
                                started = workers(coscan, count, options.threads, environment, options.buffer)
                                chosen = [*chosen, "--cluster", stack.enter_context(started)]
                            took, answers[way] = run(coscan, [*own, *chosen], environment, texts)
                        with urllib.request.urlopen(f"{address}/-/counts") as counts:
                            sizes[way].append(json.load(counts)["bytes"])
                    times[way].append(took)
                if len({tuple(answer) for answer in answers.values()}) > 1:
                    print(f"{count} workers, {streams} streams, seed {seed}: answers differ", file=sys.stderr)
                    failed += 1
            plain, union = statistics.median(times["plain"]), statistics.median(sizes["one process"])
            for way in WAYS:
                median, size = statistics.median(times[way]), statistics.median(sizes[way])
                spread = f"{median:.2f} ({min(times[way]):.2f} to {max(times[way]):.2f})"
                print(f"| {count} | {streams} | {way} | {spread} | {median / plain:.2f} | {size / 1e6:.0f} | {size / union:.2f} |", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
