"""TPC-DS: data, queries and answers by DuckDB, and coscan's answers over the same Parquet files.

    python3 -m checks.tpcds --scale 0.1

Several queries run at a time in one server. Rows that are equal in the order of a query may come in any order. Of rows
that share the last place of a limit, any may come. So DuckDB is asked for all of them, with their ranks in the order.
This is impossible if a query orders by a column that it does not return. Such a query is compared without order, and
its limit must not separate rows of one rank.
"""

from __future__ import annotations

import argparse
import itertools
import re
import shutil
import sys
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from .compare import Answer, difference, without_order
from .in_duckdb import DuckDb
from .packages import COSCAN, TARGET, install_packages_or_exit, tpcds_extension
from .server import Server
from .sides import Sides

SCALE = 0.1
CONNECTIONS = 4
#: Several row groups in each large table at the scale of the check.
ROW_GROUP_ROWS = 20480
SERVER = ["--buffer", "64MB", "--small-table-bytes", "0"]

#: Queries without a fair comparison, by number, with the reason.
LEFT_OUT: dict[int, str] = {}


class Benchmark:
    """The files of a scale factor, made once, DuckDB over them, and the queries."""

    def __init__(self, scale: float):
        import duckdb

        self.folder = TARGET / "duckdb-check" / f"tpcds-{scale:g}"
        self.database = duckdb.connect(config={"threads": 2})
        self.database.execute(f"LOAD '{tpcds_extension()}'")
        self.queries = dict(self.database.execute("SELECT query_nr, query FROM tpcds_queries()").fetchall())
        if not (self.folder / "ready").exists():
            shutil.rmtree(self.folder, ignore_errors=True)
            self.generate(scale)
        self.tables = {path.name: path for path in sorted(self.folder.iterdir()) if path.is_dir()}
        for name, path in self.tables.items():
            self.database.execute(f"CREATE OR REPLACE VIEW {name} AS FROM '{path}/*.parquet'")

    def generate(self, scale: float) -> None:
        self.database.execute(f"CALL dsdgen(sf = {scale})")
        for (name,) in self.database.execute("SELECT table_name FROM duckdb_tables()").fetchall():
            (self.folder / name).mkdir(parents=True)
            target = f"'{self.folder / name}/0.parquet' (FORMAT parquet, ROW_GROUP_SIZE {ROW_GROUP_ROWS})"
            self.database.execute(f"COPY {name} TO {target}")
            self.database.execute(f"DROP TABLE {name}")
        (self.folder / "ready").touch()

    def answer(self, number: int) -> Answer:
        """Returns DuckDB's answer, in groups of rows that are equal in the order of the query."""
        import duckdb

        sql = self.queries[number]
        ordered, limit = with_ranks(sql)
        try:
            ranked = self.database.execute(ordered).fetchall() if ordered else None
        except duckdb.Error:
            ranked = None
        if ranked is None:
            return without_order(self.database.execute(sql).fetchall())
        groups = [[row[:-1] for row in rows] for _, rows in itertools.groupby(ranked, key=lambda row: row[-1])]
        return Answer(groups, limit)


def with_ranks(sql: str) -> tuple[str | None, int | None]:
    """Returns the query with the rank of each row in its order and all rows of the last rank, and its limit."""
    parts = re.fullmatch(r"(?is)(.*)\border\s+by\b(.*?)(?:\blimit\s+(\d+)\s*)?;?\s*", sql)
    if not parts:
        return None, None
    rows, keys, limit = parts.groups()
    ranked = f"SELECT *, rank() OVER (ORDER BY {keys}) AS place FROM ({rows})"
    return f"SELECT * FROM ({ranked}) {f'WHERE place <= {limit}' if limit else ''} ORDER BY place", int(limit) if limit else None


def check(scale: float, coscan: Path, numbers: Iterable[int] | None = None) -> bool:
    """Runs the queries on both sides and prints the differences. Returns whether there is none."""
    begin = time.monotonic()
    benchmark = Benchmark(scale)
    chosen = [number for number in numbers or sorted(benchmark.queries) if number not in LEFT_OUT]
    with Server(coscan, benchmark.tables, SERVER, benchmark.folder / "log") as server:
        sides = Sides(DuckDb(benchmark.database), server, [])
        with ThreadPoolExecutor(CONNECTIONS) as pool:
            answers = pool.map(sides.ask_coscan, [benchmark.queries[number] for number in chosen])
            wanted = [benchmark.answer(number) for number in chosen]
            found = list(zip(chosen, wanted, answers))
    differ = 0
    for number, answer, given in found:
        words = given if isinstance(given, Exception) else difference(answer, given.rows)
        if words:
            differ += 1
            print(f"TPC-DS, query {number} at scale {scale:g}:\n  {words}", flush=True)
    for number, reason in LEFT_OUT.items():
        print(f"left out, TPC-DS query {number}: {reason}")
    empty = sum(not answer.rows() for answer in wanted)
    seconds = time.monotonic() - begin
    print(f"TPC-DS at scale {scale:g}: {len(chosen) - differ} alike, {empty} of them empty, {differ} differ ({seconds:.0f} s)")
    return not differ


def main() -> int:
    parser = argparse.ArgumentParser(description="coscan's answers to TPC-DS against DuckDB's")
    parser.add_argument("--scale", type=float, default=SCALE, help=f"scale factor [default: {SCALE}]")
    parser.add_argument("--query", type=int, nargs="*", metavar="N", help="these queries only")
    parser.add_argument("--coscan", type=Path, default=COSCAN, help="the program [default: that of the target directory]")
    options = parser.parse_args()
    install_packages_or_exit()
    return 0 if check(options.scale, options.coscan, options.query) else 1


if __name__ == "__main__":
    sys.exit(main())
