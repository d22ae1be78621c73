"""32 dashboard queries from threads of one process, by coscan and by other engines in turn.

    python bench.py --data lineitem.parquet                     # all engines that are installed
    python bench.py --data lineitem.parquet --repeat 5 --queries 64

Prints the median time until all queries of a run have their answers, its spread, and the ratio to the fastest other
engine; then the time of a trivial query in coscan. Answers must agree between the engines.

`coscan generate tpch --scale-factor 1 --out DIR` writes a table lineitem.
"""

from __future__ import annotations

import argparse
import gc
import math
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

Rows = list[tuple[Any, ...]]

SHAPES = [
    "SELECT l_returnflag, l_linestatus, sum(l_quantity) AS q, avg(l_discount) AS d, count(*) AS c FROM lineitem "
    "WHERE l_shipdate <= DATE '1998-{m:02}-01' GROUP BY l_returnflag, l_linestatus ORDER BY 1, 2",
    "SELECT sum(l_extendedprice * l_discount) AS revenue FROM lineitem WHERE l_shipdate >= DATE '199{y}-01-01' "
    "AND l_shipdate < DATE '199{z}-01-01' AND l_quantity < 24",
    "SELECT l_shipmode, count(*) AS c, max(l_receiptdate) AS last FROM lineitem WHERE l_tax > 0.0{m9} "
    "GROUP BY l_shipmode ORDER BY 1",
    "SELECT l_linenumber, avg(l_extendedprice) AS p FROM lineitem WHERE l_discount BETWEEN 0.0{y} AND 0.0{m9} + 0.05 "
    "GROUP BY l_linenumber ORDER BY 1",
]


def queries(count: int) -> list[str]:
    """The queries, all of them different."""
    return [
        SHAPES[at % len(SHAPES)].format(m=at % 12 + 1, m9=at % 4 + 1, y=at // 4 % 6 + 2, z=at // 4 % 6 + 3)
        for at in range(count)
    ]


def coscan(path: str) -> Callable[[str], Rows]:
    import coscan

    con = coscan.connect()
    con.register("lineitem", path)
    return lambda sql: con.sql(sql).fetchall()


def duckdb(path: str) -> Callable[[str], Rows]:
    import duckdb

    con = duckdb.connect()
    con.execute(f"CREATE VIEW lineitem AS SELECT * FROM read_parquet('{path}')")
    return lambda sql: con.cursor().execute(sql).fetchall()


def polars(path: str) -> Callable[[str], Rows]:
    import polars as pl

    context = pl.SQLContext(lineitem=pl.scan_parquet(path))
    return lambda sql: context.execute(sql).collect().rows()


def datafusion(path: str) -> Callable[[str], Rows]:
    import datafusion

    context = datafusion.SessionContext()
    context.register_parquet("lineitem", path)

    def run(sql: str) -> Rows:
        table = context.sql(sql).to_arrow_table()
        return list(zip(*(column.to_pylist() for column in table.columns), strict=True))

    return run


ENGINES = {"coscan": coscan, "duckdb": duckdb, "polars": polars, "datafusion": datafusion}


def agree(one: Rows, other: Rows) -> bool:
    """Whether rows are equal. Engines have averages of decimals with different numbers of digits."""

    def alike(a: Any, b: Any) -> bool:
        try:
            return math.isclose(float(a), float(b), rel_tol=1e-4)
        except (TypeError, ValueError):
            return str(a)[:10] == str(b)[:10]

    pairs = list(zip(one, other, strict=False))
    return len(one) == len(other) and all(all(map(alike, a, b)) and len(a) == len(b) for a, b in pairs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, metavar="PATTERN", help="Parquet files of TPC-H's lineitem")
    parser.add_argument("--queries", type=int, default=32)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--engines", default=",".join(ENGINES))
    arguments = parser.parse_args()
    texts = queries(arguments.queries)
    opened: dict[str, Callable[[str], Rows]] = {}
    for name in arguments.engines.split(","):
        try:
            opened[name] = ENGINES[name](arguments.data)
        except ImportError:
            print(f"{name} is not installed")
    times: dict[str, list[float]] = {name: [] for name in opened}
    answers: dict[str, list[Rows]] = {}
    for _ in range(arguments.repeat):
        for name, run in opened.items():
            gc.collect()
            with ThreadPoolExecutor(len(texts)) as threads:
                begin = time.perf_counter()
                rows = list(threads.map(run, texts))
                times[name].append(time.perf_counter() - begin)
            answers[name] = rows
    for name in opened:
        for text, found, expected in zip(texts, answers[name], answers["coscan"], strict=True):
            assert agree(found, expected), f"{name} has another answer to {text}: {found} instead of {expected}"
    best = min((statistics.median(of) for name, of in times.items() if name != "coscan"), default=math.nan)
    for name, of in times.items():
        spread = f"{min(of):.2f} to {max(of):.2f}"
        print(f"{name:10} {statistics.median(of):6.2f} s ({spread}), {statistics.median(of) / best:.2f} of the best other")
    if "coscan" in opened:
        single = [timed(opened["coscan"], "SELECT 1") for _ in range(300)]
        print(f"SELECT 1   {statistics.median(single) * 1e3:6.2f} ms in coscan")


def timed(run: Callable[[str], Rows], sql: str) -> float:
    """The seconds that a query takes."""
    begin = time.perf_counter()
    run(sql)
    return time.perf_counter() - begin


if __name__ == "__main__":
    main()
