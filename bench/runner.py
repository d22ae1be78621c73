"""Runs a workload on one of the engines of `peers.py`, like `coscan bench --workload` on coscan.

Opens the tables, prints READY, waits for a line, runs the streams at the same time, writes the results, prints
DONE, waits for a line. It measures only the times of the queries, and sets no limits.

    python -m bench.runner --engine duckdb --workload W.json --out R.json --threads N [--memory BYTES]
"""

from __future__ import annotations

import argparse
import datetime
import decimal
import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

from bench.peers import PEERS, Peer
from bench.workload import VERSION, Json


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--engine", required=True, choices=sorted(PEERS))
    arguments.add_argument("--workload", required=True, type=Path)
    arguments.add_argument("--out", required=True, type=Path)
    arguments.add_argument("--threads", required=True, type=int)
    arguments.add_argument("--memory", type=int, help="bytes this process has; without, what the engine assumes")
    args = arguments.parse_args()

    workload = read_workload(args.workload)
    peer = PEERS[args.engine](workload["tables"], args.threads, args.memory)
    for table in workload["tables"]:
        # Threads, libraries and footers are loaded before the clock starts.
        peer.connect()(f"SELECT count(*) FROM {table}")
    print("READY", peer.version(), flush=True)
    sys.stdin.readline()
    started_unix_s = time.time()
    queries = run_streams(peer, workload["streams"])
    result = {
        "version": VERSION,
        "engine": args.engine,
        "engine_version": peer.version(),
        "t0_unix_s": started_unix_s,
        "queries": queries,
        "stats": {},
    }
    args.out.write_text(json.dumps(result))
    print("DONE", flush=True)
    sys.stdin.readline()
    # Engines may take long to shut down, which is not measured.
    os._exit(0)


def read_workload(path: Path) -> Json:
    """Reads the workload from a file. Ends the program with a message on failure."""
    try:
        workload = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        sys.exit(f"workload {path}: {error}")
    if not isinstance(workload, dict) or workload.get("version") != VERSION:
        sys.exit(f"workload {path}: is no workload of version {VERSION}")
    for name in ("tables", "streams"):
        if name not in workload:
            sys.exit(f"workload {path}: has no {name}")
    return workload


def run_streams(peer: Peer, streams: list[Json]) -> list[Json]:
    """Runs all streams at the same time, each in a thread with a connection of its own."""
    outcomes: list[list[Json]] = [[] for _ in streams]
    runs = [peer.connect() for _ in streams]
    t0 = time.monotonic()

    def stream(at: int) -> None:
        time.sleep(max(0.0, streams[at].get("start_s", 0.0) - (time.monotonic() - t0)))
        for query in streams[at]["queries"]:
            outcomes[at].append(run_query(runs[at], query, t0))

    threads = [threading.Thread(target=stream, args=(at,)) for at in range(len(streams))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [outcome for of_stream in outcomes for outcome in of_stream]


def run_query(execute: Any, query: Json, t0: float) -> Json:
    """Returns the outcome of a query. An exception is the query's error, and the stream continues."""
    start_s = time.monotonic() - t0
    rows, error = None, None
    try:
        answer = execute(query["sql"])
    except Exception as failed:  # noqa: BLE001 - every engine has exceptions of its own
        error = " ".join(f"{type(failed).__name__}: {failed}".split())[:500]
    end_s = time.monotonic() - t0
    if error is None:
        rows = [[cell(value) for value in row] for row in answer]
    return {"id": query["id"], "start_s": start_s, "end_s": end_s, "rows": rows, "error": error}


def cell(value: Any) -> Any:
    """Converts a value to JSON. Decimals and dates become text."""
    if isinstance(value, decimal.Decimal):
        return format(value, "f")
    if isinstance(value, (datetime.date, datetime.datetime)):
        return value.isoformat()
    return value


if __name__ == "__main__":
    main()
