"""Streams of queries over one lake table, by coscan and by other engines' readers of the format.

    python3 -m bench.lake --coscan target/release/coscan --data data/lake --formats delta iceberg --streams 16

lineitem is written once as a table of each format, by deltalake, pyiceberg or DuckDB. Each engine is one process: coscan
serves the table, and the others run the streams on threads. An engine's number is the average time of a stream; ratios are
of one run.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "crates" / "sqlfuzz"))

PACKAGES = [
    "deltalake==1.6.6",
    "duckdb==1.5.5",
    *(f"duckdb-extension-{name}==1.5.5" for name in ("delta", "iceberg", "avro", "ducklake", "sqlite-scanner")),
    "polars>=1.30",
    "psycopg[binary]>=3.2",
    "pyarrow==26.0.1",
    "pyiceberg[sql-sqlite,pyiceberg-core]==0.12.0",
]
FORMATS = ("delta", "iceberg", "ducklake")
ENGINES = ("coscan", "duckdb", "deltalake", "polars")
#: Rows of a file of the tables.
FILE_ROWS = 250_000

SLOW = """SELECT l_returnflag, l_linestatus, sum(l_quantity) AS q, sum(l_extendedprice) AS p,
 sum(l_extendedprice * (1 - l_discount)) AS d, sum(l_extendedprice * (1 - l_discount) * (1 + l_tax)) AS c, count(*) AS n
 FROM t WHERE l_orderkey BETWEEN {low} AND {high} AND l_shipdate <= DATE '{day}' GROUP BY l_returnflag, l_linestatus"""
FAST = """SELECT sum(l_extendedprice * l_discount) AS r FROM t WHERE l_orderkey BETWEEN {low} AND {high}
 AND l_shipdate >= DATE '{day}' AND l_discount BETWEEN {discount} - 0.01 AND {discount} + 0.01 AND l_quantity < 24"""


def streams(seed: int, count: int, queries: int, last: int) -> list[list[str]]:
    """Returns the statements of each stream, over parts of the table of several sizes."""
    draw = random.Random(seed)

    def statement() -> str:
        width = last * draw.choice([10, 50, 100]) // 100
        low = draw.randrange(1, last - width + 2)
        day = f"199{draw.randrange(3, 8)}-0{draw.randrange(1, 10)}-01"
        return draw.choice([FAST, SLOW]).format(low=low, high=low + width - 1, day=day, discount=f"0.0{draw.randrange(2, 9)}")

    return [[statement() for _ in range(queries)] for _ in range(count)]


def make(coscan: Path, data: Path, scale: float, formats: list[str]) -> int:
    """Writes the missing tables. Returns the last key."""
    import duckdb
    import pyarrow.parquet as pq

    plain = data / "plain"
    if not plain.exists():
        subprocess.run([coscan, "generate", "tpch", "--scale-factor", str(scale), "--out", plain], check=True, stdout=subprocess.DEVNULL)
    source = sorted(plain.glob("lineitem*")) + sorted(plain.glob("**/lineitem*.parquet"))
    files = [path for path in source if path.is_file()] or sorted(source[0].glob("*.parquet"))
    batches = lambda: (batch for file in files for batch in pq.ParquetFile(file).iter_batches(FILE_ROWS))
    if "delta" in formats and not (data / "delta").exists():
        from deltalake import write_deltalake

        import pyarrow as pa

        for batch in batches():
            write_deltalake(data / "delta", pa.Table.from_batches([batch]), mode="append")
    if "iceberg" in formats and not (data / "iceberg").exists():
        import pyarrow as pa
        from pyiceberg.catalog import load_catalog

        catalog = load_catalog("bench", type="in-memory", warehouse=str(data))
        catalog.create_namespace("b")
        table = None
        for batch in batches():
            rows = pa.Table.from_batches([batch])
            table = table or catalog.create_table("b.t", rows.schema, location=str(data / "iceberg"))
            table.append(rows)
    if "ducklake" in formats and not (data / "ducklake").exists():
        (data / "ducklake").mkdir()
        connection = connected("ducklake", "sqlite_scanner")
        connection.execute(f"ATTACH 'ducklake:sqlite:{data}/ducklake/catalog.db' AS lake (DATA_PATH '{data}/ducklake/data/')")
        connection.execute("CREATE TABLE lake.t AS FROM read_parquet(?)", [[str(file) for file in files]])
    [(last,)] = duckdb.sql(f"SELECT max(l_orderkey) FROM read_parquet({[str(file) for file in files]})").fetchall()
    return last


def connected(*extensions: str):
    import duckdb

    connection = duckdb.connect(config={"allow_unsigned_extensions": "true", "autoinstall_known_extensions": "false"})
    for name in extensions:
        [found] = Path(duckdb.__file__).parents[1].glob(f"duckdb_extension_{name}/**/{name}.duckdb_extension")
        connection.execute(f"LOAD '{found}'")
    return connection


def reader(engine: str, format: str, data: Path) -> Callable[[], Callable[[str], object]] | None:
    """Returns a function that gives each thread one that runs a statement; `None` if the engine has no reader."""
    table = data / format
    if engine == "duckdb":
        extensions = {"delta": ["delta"], "iceberg": ["avro", "iceberg"], "ducklake": ["ducklake", "sqlite_scanner"]}
        connection = connected(*extensions[format])
        match format:
            case "delta":
                connection.execute(f"CREATE VIEW t AS FROM delta_scan('{table}')")
            case "iceberg":
                newest = max((table / "metadata").glob("*.metadata.json"))
                connection.execute(f"CREATE VIEW t AS FROM iceberg_scan('{newest}')")
            case "ducklake":
                connection.execute(f"ATTACH 'ducklake:sqlite:{table}/catalog.db' AS lake")
                connection.execute("USE lake")
        return lambda: (lambda cursor: lambda sql: cursor.execute(sql).fetchall())(connection.cursor())
    if engine == "deltalake" and format == "delta":
        from deltalake import DeltaTable, QueryBuilder

        def on_thread() -> Callable[[str], object]:
            session = QueryBuilder().register("t", DeltaTable(table))
            return lambda sql: session.execute(sql).read_all()

        return on_thread
    if engine == "polars" and format in ("delta", "iceberg"):
        import polars

        def on_thread() -> Callable[[str], object]:
            def run(sql: str) -> object:
                newest = str(max((table / "metadata").glob("*.metadata.json"))) if format == "iceberg" else ""
                frame = polars.scan_delta(str(table)) if format == "delta" else polars.scan_iceberg(newest)
                return polars.SQLContext(t=frame).execute(sql).collect()

            return run

        return on_thread
    return None


def measured(on_thread: Callable[[], Callable[[str], object]], plan: list[list[str]], apart: float) -> list[float]:
    """Returns the time of each stream."""
    times: list[float] = [0.0] * len(plan)
    failures: list[BaseException] = []

    def stream(at: int, statements: list[str], begin: float) -> None:
        try:
            run = on_thread()
            time.sleep(max(0.0, begin - time.monotonic()))
            for statement in statements:
                run(statement)
            times[at] = time.monotonic() - begin
        except BaseException as error:
            failures.append(error)

    begin = time.monotonic() + 0.5
    threads = [threading.Thread(target=stream, args=(at, statements, begin + at * apart)) for at, statements in enumerate(plan)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return times


def in_coscan(coscan: Path, format: str, data: Path, plan: list[list[str]], apart: float) -> list[float]:
    import psycopg

    from checks.server import Server

    place = f"ducklake:sqlite://{data}/ducklake/catalog.db#main.t" if format == "ducklake" else str(data / format)
    with Server(coscan, {"t": Path(place)}, [], data / "serve.log") as server:

        def on_thread() -> Callable[[str], object]:
            connection = psycopg.connect(host="127.0.0.1", port=server.port, user="coscan", dbname="d", autocommit=True)
            return lambda sql: connection.execute(sql).fetchall()

        return measured(on_thread, plan, apart)


def one(options: argparse.Namespace) -> int:
    """Runs the streams in this process, for one engine and format."""
    plan = streams(options.seed, options.streams, options.queries, options.last)
    if options.engine == "coscan":
        times = in_coscan(options.coscan, options.format, options.data, plan, options.apart)
    else:
        on_thread = reader(options.engine, options.format, options.data)
        if on_thread is None:
            print("null")
            return 0
        times = measured(on_thread, plan, options.apart)
    print(json.dumps(times))
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--coscan", type=Path, required=True)
    parser.add_argument("--data", type=Path, default=Path("data/lake"))
    parser.add_argument("--scale-factor", type=float, default=1)
    parser.add_argument("--formats", nargs="+", default=list(FORMATS), choices=FORMATS)
    parser.add_argument("--engines", nargs="+", default=list(ENGINES), choices=ENGINES)
    parser.add_argument("--streams", type=int, default=16)
    parser.add_argument("--queries", type=int, default=4)
    parser.add_argument("--apart", type=float, default=0.2, help="seconds between the beginnings of streams")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--engine", help=argparse.SUPPRESS)
    parser.add_argument("--format", help=argparse.SUPPRESS)
    parser.add_argument("--seed", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--last", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    from checks.packages import TARGET, install_packages

    install_packages(PACKAGES, TARGET / "bench-lake-venv")
    options.data, options.coscan = options.data.resolve(), options.coscan.resolve()
    if options.engine:
        return one(options)
    options.data.mkdir(parents=True, exist_ok=True)
    last = make(options.coscan, options.data, options.scale_factor, options.formats)
    print("| table | engine | average stream, s: median (range) | of the best other |\n|---|---|--:|--:|")
    for format in options.formats:
        found: dict[str, list[float]] = {}
        for seed in range(options.seeds):
            for engine in options.engines:
                own = ["--engine", engine, "--format", format, "--seed", str(seed), "--last", str(last)]
                command = [sys.executable, "-m", "bench.lake", *sys.argv[1:], *own]
                ended = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
                if ended.returncode != 0:
                    print(f"{format}, {engine}: {ended.stderr.strip().splitlines()[-1]}", file=sys.stderr)
                elif (times := json.loads(ended.stdout.splitlines()[-1])) is not None:
                    found.setdefault(engine, []).append(statistics.mean(times))
        others = [statistics.median(times) for engine, times in found.items() if engine != "coscan"]
        for engine, times in found.items():
            ratio = f"{statistics.median(times) / min(others):.2f}" if others else "-"
            print(f"| {format} | {engine} | {statistics.median(times):.2f} ({min(times):.2f} to {max(times):.2f}) | {ratio} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
