"""Queries over a remote object store: coscan by default, with fixed numbers of requests, plain DataFusion, and peers.

    python3 -m bench.remote --coscan target/release/coscan --stores 30ms 100ms 30ms,all=30MB 30ms,refuse=100

A store is its latency, with further options of `bench.store`: each=50MB, all=100MB, slow=1 (percent), refuse=100
(requests a second), slower=2 (after this many seconds). coscan makes the data once: 30 files of telemetry, and
200 small ones. All runs of coscan use one program. The engines `polars` and `chdb` need --python, whose environment
has them (`bench/requirements.txt`). Their time is without the start of Python.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.remote_peer import PEERS

OPTIONS = {"each": "--each", "all": "--all", "slow": "--slow-percent", "refuse": "--refuse-above", "slower": "--slower-after"}

MADE = """
COPY (
  SELECT value AS ts, value * 7919 % 2000 AS device, value * 31 % 9973 / 100.0::float8 AS a, value * 17 % 999983 / 1000.0::float8 AS b,
         'status-' || (value * 13 % 50) AS status, value % 1000 AS code
  FROM generate_series({first}, {last}) AS value
) TO '{path}' STORED AS PARQUET OPTIONS ('format.compression' 'zstd(1)')
"""

TABLES = {"telemetry": (30, 400_000), "small": (200, 20_000)}

ENGINES: dict[str, dict[str, str]] = {
    "coscan": {},
    "4 requests": {"COSCAN_LOADS_IN_FLIGHT": "4"},
    "16 requests": {"COSCAN_LOADS_IN_FLIGHT": "16"},
    "64 requests": {"COSCAN_LOADS_IN_FLIGHT": "64"},
    "plain": {"COSCAN_ENABLED": "false"},
}


def table_of(kind: str) -> str:
    """Returns the table that the statements read."""
    return "telemetry" if kind == "alone" else kind


def queries(kind: str) -> list[str]:
    """Returns statements that run at the same time: one alone, or eight that read different columns and rows of a
    table."""
    if kind == "alone":
        return ["SELECT status, sum(a), avg(b) FROM telemetry GROUP BY status ORDER BY 1"]
    return [
        f"SELECT device, sum({'ab'[at % 2]}), count(*) FROM {kind} WHERE code % 8 <> {at} GROUP BY device ORDER BY 1 LIMIT 3"
        for at in range(8)
    ]


def make_tables(coscan: Path, root: Path) -> None:
    """Makes the missing files."""
    for table, (files, rows) in TABLES.items():
        folder = root / "bucket" / table
        folder.mkdir(parents=True, exist_ok=True)
        for file in range(files):
            path = folder / f"{file:03}.parquet"
            if not path.exists():
                made = MADE.format(first=file * rows, last=(file + 1) * rows - 1, path=path)
                subprocess.run([coscan, "sql", "-c", made], check=True, stdout=subprocess.DEVNULL)


@contextmanager
def store(root: Path, text: str, seed: int) -> Iterator[str]:
    """Starts a store for this text. Returns its address."""
    latency, *more = text.split(",")
    command = [sys.executable, "-m", "bench.store", "--root", str(root), "--seed", str(seed)]
    command += ["--latency-ms", latency.removesuffix("ms")]
    for option in more:
        name, _, value = option.partition("=")
        command += [OPTIONS[name], value]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        yield process.stdout.readline().strip()
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def run(coscan: Path, address: str, kind: str, settings: dict[str, str]) -> tuple[float, list[Row] | None, str]:
    """Returns the time of the statements, their rows or None, and the output on stderr."""
    table = table_of(kind)
    access = {"AWS_ENDPOINT": address, "AWS_ALLOW_HTTP": "true", "AWS_SKIP_SIGNATURE": "true", "AWS_REGION": "us-east-1"}
    command = [str(coscan), "sql", "--format", "csv", "-t", f"{table}=s3://bucket/{table}/"]
    for statement in queries(kind):
        command += ["-c", statement]
    begun = time.monotonic()
    done = subprocess.run(command, env={**os.environ, **access, **settings}, capture_output=True, text=True, check=False)
    took = time.monotonic() - begun
    return took, rows(done.stdout) if done.returncode == 0 else None, done.stderr


def run_peer(python: Path, name: str, address: str, kind: str) -> tuple[float, list[Row] | None, str]:
    """Like `run`, by another engine."""
    command = [str(python), "-m", "bench.remote_peer", name, address, table_of(kind), *queries(kind)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        return 0.0, None, done.stderr[-300:]
    return float(done.stderr.splitlines()[-1]), rows(done.stdout), done.stderr


Row = tuple[float | str, ...]


def rows(csv: str) -> list[Row]:
    """Returns the rows in a fixed order, without the names of columns: statements that run at the same time print in
    the order in which they end."""
    def field(text: str) -> float | str:
        try:
            return float(text)
        except ValueError:
            return text.strip('"')

    fields = [line.split(",") for line in csv.splitlines()]
    return sorted(tuple(map(field, line)) for line in fields if line[-1][:1].isdigit())


def are_equal(one: list[Row], other: list[Row]) -> bool:
    """Returns whether the rows are equal but for the order in which an engine adds."""
    def close(a: float | str, b: float | str) -> bool:
        return a == b or isinstance(a, float) and isinstance(b, float) and math.isclose(a, b, rel_tol=1e-9)

    return len(one) == len(other) and all(
        len(a) == len(b) and all(map(close, a, b)) for a, b in zip(one, other))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--coscan", type=Path, required=True)
    parser.add_argument("--data", type=Path, default=Path("data/remote"))
    parser.add_argument("--stores", nargs="+", default=["10ms", "30ms", "100ms", "30ms,all=100MB", "30ms,all=30MB"])
    parser.add_argument("--kinds", nargs="+", default=["alone", "telemetry", "small"], choices=["alone", *TABLES])
    parser.add_argument("--engines", nargs="+", default=list(ENGINES), choices=[*ENGINES, *PEERS])
    parser.add_argument("--python", type=Path, default=Path(sys.executable), help="Python with the peers")
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    root = options.data.resolve()
    make_tables(options.coscan.resolve(), root)
    failed = 0
    print("| store | statements | engine | s, median (range) | by plain | requests | MB | refused |\n|---|---|---|--:|--:|--:|--:|--:|")
    for text in options.stores:
        for kind in options.kinds:
            times: dict[str, list[float]] = {engine: [] for engine in options.engines}
            counts: dict[str, dict[str, int]] = {}
            first: list[Row] | None = None
            for seed in range(options.seeds):
                for engine in options.engines:
                    with store(root, text, seed) as address:
                        if engine in PEERS:
                            took, answer, said = run_peer(options.python, engine, address, kind)
                        else:
                            took, answer, said = run(options.coscan, address, kind, ENGINES[engine])
                        with urllib.request.urlopen(f"{address}/-/counts") as count:
                            counts[engine] = json.load(count)
                    if answer is None:
                        print(f"{engine}, {kind}, {text}: {said.strip()[:300]}", file=sys.stderr)
                        failed += 1
                        continue
                    times[engine].append(took)
                    first = first or answer
                    if not are_equal(first, answer):
                        print(f"{engine}, {kind}, {text}: other rows than those of the first engine", file=sys.stderr)
                        failed += 1
            plain = statistics.median(times.get("plain") or [float("nan")])
            for engine in options.engines:
                if not times[engine]:
                    continue
                median, count = statistics.median(times[engine]), counts[engine]
                spread = f"{min(times[engine]):.2f} to {max(times[engine]):.2f}"
                requests = count["gets"] + count["heads"] + count["lists"]
                print(f"| {text} | {kind} | {engine} | {median:.2f} ({spread}) | {median / plain:.2f} | {requests} "
                      f"| {count['bytes'] / 1e6:.0f} | {count['refused']} |", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
