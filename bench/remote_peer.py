"""Statements that run at the same time over an object store, by Polars or chDB.

    python3 -m bench.remote_peer polars http://127.0.0.1:9000 telemetry STATEMENT...

It prints the rows as CSV, and on the last line of stderr the seconds without the start of Python.
"""

from __future__ import annotations

import csv
import os
import sys
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

Rows = Iterable[tuple[Any, ...]]


def polars(address: str, table: str) -> Callable[[str], Rows]:
    """A lazy frame per statement, collected by the streaming engine."""
    import polars as library

    access = {"aws_endpoint_url": address, "aws_allow_http": "true", "aws_skip_signature": "true", "aws_region": "us-east-1"}

    def execute(statement: str) -> Rows:
        frame = library.scan_parquet(f"s3://bucket/{table}/*.parquet", storage_options=access)
        return library.SQLContext({table: frame}).execute(statement).collect(engine="streaming").rows()

    return execute


def chdb(address: str, table: str) -> Callable[[str], Rows]:
    """One server inside the process, and a connection per statement."""
    import chdb as library

    first = library.connect(":memory:")
    first.query(f"CREATE VIEW {table} AS SELECT * FROM s3('{address}/bucket/{table}/*.parquet', NOSIGN, 'Parquet')")

    def execute(statement: str) -> Rows:
        answer = str(library.connect(":memory:").query(statement, "CSV"))
        return [tuple(row) for row in csv.reader(answer.splitlines())]

    execute.keeps = first  # The view lives as long as its connection.
    return execute


PEERS = {"polars": polars, "chdb": chdb}


def main() -> None:
    name, address, table, *statements = sys.argv[1:]
    os.environ.setdefault("AWS_EC2_METADATA_DISABLED", "true")
    begun = time.monotonic()
    execute = PEERS[name](address, table)
    with ThreadPoolExecutor(len(statements)) as pool:
        answers = list(pool.map(execute, statements))
    took = time.monotonic() - begun
    rows = csv.writer(sys.stdout, lineterminator="\n")
    for answer in answers:
        rows.writerows(answer)
    print(took, file=sys.stderr)


if __name__ == "__main__":
    main()
