"""Operators that work chunk by chunk against DataFusion's own, in pairs of runs: `python3 -m bench.order --help`.

Every run is a process of its own on cached files, with `coscan.order_aware` never or auto. What is compared is processor
time (user and system), because it depends little on what else the machine does, and the operators' peak memory as EXPLAIN
ANALYZE shows it. It draws nothing and knows nothing of limits: `python3 -m bench` does that.
"""

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
QUERIES = ROOT / "crates/datafusion/tests/tpch"
MODES = ("never", "auto")
MANY_ROWS = 20_000_000

JOIN = "SELECT count(*), sum(l_extendedprice), max(o_totalprice) FROM orders JOIN lineitem ON o_orderkey = l_orderkey"
BY_KEY = (
    "SELECT count(*), max(q), min(n) FROM (SELECT l_orderkey, sum(l_quantity) AS q, count(*) AS n, "
    "max(l_shipdate) FROM lineitem GROUP BY l_orderkey)"
)


def groups(digits):
    """An aggregation into 10^digits groups of a table of 2 * 10^7 rows."""
    return f"SELECT count(*), max(s), max(q) FROM (SELECT k{digits}, sum(v) AS s, sum(p) AS q FROM many GROUP BY k{digits})"


def cases():
    """Name to queries, by the streams they run in."""
    tpch = {f"Q{n}": (QUERIES / f"q{n}.sql").read_text().rstrip().rstrip(";") for n in (3, 4, 12, 18)}
    alone = {
        **tpch,
        "join": JOIN,
        "by order key": BY_KEY,
        "distinct keys": "SELECT count(*) FROM (SELECT DISTINCT l_orderkey FROM lineitem)",
        **{f"10^{digits} groups": groups(digits) for digits in range(3, 8)},
    }
    mix = [*tpch.values(), BY_KEY, JOIN]
    found = {name: [[sql]] for name, sql in alone.items()}
    found["16 at once"] = [[mix[(stream + i) % len(mix)] for i in range(2)] for stream in range(16)]
    return found


def prepare(coscan, data, scale_factor, row_group_rows):
    """Writes what is not there yet; returns the tables."""
    data.mkdir(parents=True, exist_ok=True)
    size = ["--scale-factor", str(scale_factor), "--row-group-rows", str(row_group_rows)]
    tables = ["--tables", "lineitem,orders,customer"]
    subprocess.run([coscan, "generate", "tpch", *size, *tables, "--out", data], check=True)
    many = data / "many.parquet"
    if not many.exists():
        keys = ", ".join(f"value / {MANY_ROWS // 10**digits} AS k{digits}" for digits in range(3, 8))
        sql = (
            "SET datafusion.execution.target_partitions = 1; SET datafusion.execution.parquet.max_row_group_size = 200000; "
            f"COPY (SELECT {keys}, value % 1000 AS v, CAST(value % 10000 AS DECIMAL(12, 2)) AS p "
            f"FROM generate_series(0, {MANY_ROWS - 1})) TO '{many}' STORED AS PARQUET"
        )
        subprocess.run([coscan, "sql", "--threads", "1", "-c", sql], check=True, stdout=subprocess.DEVNULL)
    return {name: data / f"{name}.parquet" for name in ("lineitem", "orders", "customer", "many")}


def run(coscan, tables, streams, mode, args):
    """Runs streams of queries in a process; returns processor seconds, peak resident bytes and the answers."""
    with tempfile.TemporaryDirectory() as folder:
        workload, out = Path(folder) / "workload.json", Path(folder) / "results.json"
        described = {name: {"format": "parquet", "files": [str(path)]} for name, path in tables.items()}
        queries = [
            {"id": at, "queries": [{"id": f"{at}.{i}", "sql": sql} for i, sql in enumerate(stream)]}
            for at, stream in enumerate(streams)
        ]
        workload.write_text(json.dumps({"version": 1, "tables": described, "streams": queries}))
        command = [coscan, "bench", "--workload", workload, "--out", out, "--now", "--threads", str(args.threads)]
        command += ["--buffer", args.buffer, "--policy", args.policy]
        environment = {**os.environ, "COSCAN_ORDER_AWARE": mode}
        quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL}
        process = subprocess.Popen(command, env=environment, **quiet)
        _, status, usage = os.wait4(process.pid, 0)
        if os.waitstatus_to_exitcode(status) != 0:
            sys.exit(f"{command} failed")
        results = json.loads(out.read_text())["queries"]
        failed = [result for result in results if result["error"]]
        if failed:
            sys.exit(f"{mode}: {failed[0]['error']}")
        answers = {result["id"]: sorted(map(str, result["rows"])) for result in results}
        return usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024, answers


def operator_memory(coscan, tables, sql, mode, args):
    """The peak memory of the operators that `auto` changes, summed over partitions: joins, aggregations."""
    command = [coscan, "sql", "--threads", str(args.threads), "--format", "csv", "-c", f"EXPLAIN ANALYZE {sql}"]
    for name, path in tables.items():
        command += ["-t", f"{name}={path}"]
    environment = {**os.environ, "COSCAN_ORDER_AWARE": mode, "COSCAN_BUFFER": args.buffer}
    plan = subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout
    units = {"B": 1, "K": 1e3, "M": 1e6, "G": 1e9, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30}
    total, chunks = 0.0, 0
    for amount, unit in re.findall(r"(?:build_mem_used|peak_mem_used)=([\d.]+) ?([KMG]?B?)", plan):
        total += float(amount) * units[unit or "B"]
    for taken in re.findall(r"partitions_by_chunks=(\d+)", plan):
        chunks += int(taken) > 0
    return total, chunks


def median(values):
    return statistics.median(values)


def main():
    parser = argparse.ArgumentParser(prog="python3 -m bench.order", description=__doc__.split("\n")[0])
    parser.add_argument("--coscan", default=ROOT / "target/release/coscan", help="an optimised binary")
    parser.add_argument("--data", type=Path, default=ROOT / "data/order", help="where tables are")
    parser.add_argument("--scale-factor", type=float, default=1.0)
    parser.add_argument("--row-group-rows", type=int, default=120_000)
    parser.add_argument("--repeat", type=int, default=5, help="pairs of runs")
    parser.add_argument("--times", type=int, default=3, help="how often a query runs in a run")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--buffer", default="2GiB")
    parser.add_argument("--policy", default="relevance")
    parser.add_argument("--only", action="append", help="cases to run, by name")
    args = parser.parse_args()
    tables = prepare(args.coscan, args.data, args.scale_factor, args.row_group_rows)
    print("case                  never s   auto s  ratio (range)        memory never    auto  ratio  by chunks")
    for name, streams in cases().items():
        if args.only and name not in args.only:
            continue
        times = args.times if len(streams) == 1 else 1
        streams = [stream * times for stream in streams]
        used, expected = {mode: [] for mode in MODES}, None
        for pair in range(args.repeat):
            for mode in MODES if pair % 2 == 0 else MODES[::-1]:
                seconds, _, answers = run(args.coscan, tables, streams, mode, args)
                used[mode].append(seconds / times)
                expected = expected or answers
                if answers != expected:
                    sys.exit(f"{name}: answers differ under {mode}")
        ratios = [auto / never for never, auto in zip(used["never"], used["auto"])]
        line = f"{name:20} {median(used['never']):8.2f} {median(used['auto']):8.2f}  {median(ratios):.2f}"
        line += f" ({min(ratios):.2f}-{max(ratios):.2f})"
        if len(streams) == 1:
            memory = {mode: operator_memory(args.coscan, tables, streams[0][0], mode, args) for mode in MODES}
            (never, _), (auto, chunks) = memory["never"], memory["auto"]
            line += f" {never / 1e6:12.1f} MB {auto / 1e6:7.1f} {auto / never if never else 0:6.2f} {chunks:6}"
        print(line, flush=True)


if __name__ == "__main__":
    main()
