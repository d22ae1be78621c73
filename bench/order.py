"""Operators that work chunk by chunk against DataFusion's own, in rounds of runs: `python3 -m bench.order --help`.

Every run is a process of its own with one value of `coscan.order_aware`, and a round has one run of each value.
The table compares time, processor time (user and system, which depends little on other work on the machine),
bytes read, and the operators' peak memory as shown by EXPLAIN ANALYZE. With `--read-limit` and a small
`--buffer`, queries are bound by I/O; otherwise files are cached. No figures are drawn, and memory is not limited:
`python3 -m bench` does that.
"""

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
QUERIES = ROOT / "crates/datafusion/tests/tpch"
MODES = ("never", "auto", "always")
MANY_ROWS = 20_000_000

JOIN = "SELECT count(*), sum(l_extendedprice), max(o_totalprice) FROM orders JOIN lineitem ON o_orderkey = l_orderkey"
# Reads about as much of one table as the join reads of two.
SCAN = "SELECT count(*), sum(l_extendedprice), sum(l_partkey) FROM lineitem"
BY_KEY = (
    "SELECT count(*), max(q), min(n) FROM (SELECT l_orderkey, sum(l_quantity) AS q, count(*) AS n, "
    "max(l_shipdate) FROM lineitem GROUP BY l_orderkey)"
)


def groups(digits):
    """Returns an aggregation into 10^digits groups over a table of 2 * 10^7 rows."""
    return f"SELECT count(*), max(s), max(q) FROM (SELECT k{digits}, sum(v) AS s, sum(p) AS q FROM many GROUP BY k{digits})"


def cases():
    """Returns the cases: names, and queries by their streams."""
    tpch = {f"Q{n}": (QUERIES / f"q{n}.sql").read_text().rstrip().rstrip(";") for n in (3, 4, 12, 18)}
    alone = {
        **tpch,
        "join": JOIN,
        "scan": SCAN,
        "by order key": BY_KEY,
        "newest rows": "SELECT l_orderkey, l_extendedprice FROM lineitem ORDER BY l_orderkey DESC, l_linenumber LIMIT 10",
        "window": "SELECT count(*), sum(l_quantity) FROM (SELECT l_quantity, row_number() OVER (PARTITION BY l_orderkey "
        "ORDER BY l_linenumber) AS n FROM lineitem) WHERE n = 1",
        "distinct keys": "SELECT count(*) FROM (SELECT DISTINCT l_orderkey FROM lineitem)",
        **{f"10^{digits} groups": groups(digits) for digits in range(3, 8)},
    }
    mix = [*tpch.values(), BY_KEY, JOIN]
    found = {name: [[sql]] for name, sql in alone.items()}
    found["16 at once"] = [[mix[stream % len(mix)]] for stream in range(16)]
    found["16 joins"] = [[JOIN]] * 16
    found["8 joins"], found["8 scans"] = [[JOIN]] * 8, [[SCAN]] * 8
    found["16 by order key"] = [[BY_KEY]] * 16
    return found


def prepare(coscan, data, scale_factor, row_group_rows, chosen):
    """Writes the missing tables of the chosen cases, and returns all of them."""
    data.mkdir(parents=True, exist_ok=True)
    size = ["--scale-factor", str(scale_factor), "--row-group-rows", str(row_group_rows)]
    tables = ["--tables", "lineitem,orders,customer"]
    subprocess.run([coscan, "generate", "tpch", *size, *tables, "--out", data], check=True)
    many = data / "many.parquet"
    found = {name: data / f"{name}.parquet" for name in ("lineitem", "orders", "customer")}
    if not any("FROM many" in sql for streams in chosen.values() for stream in streams for sql in stream):
        return found
    if not many.exists():
        keys = ", ".join(f"value / {MANY_ROWS // 10**digits} AS k{digits}" for digits in range(3, 8))
        sql = (
            "SET datafusion.execution.target_partitions = 1; SET datafusion.execution.parquet.max_row_group_size = 200000; "
            f"COPY (SELECT {keys}, value % 1000 AS v, CAST(value % 10000 AS DECIMAL(12, 2)) AS p "
            f"FROM generate_series(0, {MANY_ROWS - 1}) AS value) TO '{many}' STORED AS PARQUET"
        )
        subprocess.run([coscan, "sql", "--threads", "1", "-c", sql], check=True, stdout=subprocess.DEVNULL)
    return {**found, "many": many}


@dataclass(frozen=True)
class Measured:
    """The cost of one run, divided by the repetitions of its queries."""

    seconds: float
    cpu_seconds: float
    bytes_read: float
    resident_bytes: float


def run(tables, streams, mode, args):
    """Runs streams of queries `--times` times in a process of its own. Returns the cost and the answers."""
    with tempfile.TemporaryDirectory() as folder:
        workload, out = Path(folder) / "workload.json", Path(folder) / "results.json"
        described = {name: {"format": "parquet", "files": [str(path)]} for name, path in tables.items()}
        queries = [
            {"id": at, "start_s": at * args.stagger, "queries": [{"id": f"{at}.{i}", "sql": sql} for i, sql in enumerate(stream * args.times)]}
            for at, stream in enumerate(streams)
        ]
        workload.write_text(json.dumps({"version": 1, "tables": described, "streams": queries}))
        command = [args.coscan, "bench", "--workload", workload, "--out", out, "--now", "--threads", str(args.threads)]
        command += ["--buffer", args.buffer, "--policy", args.policy, "--read-limit", args.read_limit]
        environment = {**os.environ, "COSCAN_ORDER_AWARE": mode}
        quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL}
        process = subprocess.Popen(command, env=environment, **quiet)
        _, status, usage = os.wait4(process.pid, 0)
        if os.waitstatus_to_exitcode(status) != 0:
            sys.exit(f"{command} failed")
        results = json.loads(out.read_text())
        failed = [result for result in results["queries"] if result["error"]]
        if failed:
            sys.exit(f"{mode}: {failed[0]['error']}")
        answers = {result["id"]: sorted(map(str, result["rows"])) for result in results["queries"]}
        seconds = max(result["end_s"] for result in results["queries"])
        took = (seconds, usage.ru_utime + usage.ru_stime, results["stats"]["bytes_read"])
        return Measured(*(value / args.times for value in took), usage.ru_maxrss * 1024), answers


def operator_memory(tables, sql, mode, args):
    """Returns the peak memory of joins and aggregations in bytes, summed over partitions, and the number of those
    that work by chunks."""
    command = [args.coscan, "sql", "--threads", str(args.threads), "--format", "csv", "-c", f"EXPLAIN ANALYZE {sql}"]
    for name, path in tables.items():
        command += ["-t", f"{name}={path}"]
    environment = {**os.environ, "COSCAN_ORDER_AWARE": mode, "COSCAN_BUFFER": args.buffer}
    plan = subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout
    units = {"B": 1, "K": 1e3, "M": 1e6, "G": 1e9, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30}
    amounts = re.findall(r"(?:build_mem_used|peak_mem_used)=([\d.]+) ?([KMG]?B?)", plan)
    total = sum(float(amount) * units[unit or "B"] for amount, unit in amounts)
    return total, sum(int(taken) > 0 for taken in re.findall(r"partitions_by_chunks=(\d+)", plan))


# Fields of Measured: unit, places.
FIGURES = (("seconds", 1, 2), ("cpu_seconds", 1, 2), ("bytes_read", 1e6, 0), ("resident_bytes", 1e6, 0))


def compared(values, expected, places):
    """Returns the median, and the median of its ratios to the same rounds of the first mode, with their range."""
    line = f"{statistics.median(values):9.{places}f}"
    ratios = [value / other for value, other in zip(values, expected) if other]
    if values is expected or not ratios:
        return line + " " * 18
    return line + f" {statistics.median(ratios):5.2f} ({min(ratios):.2f}-{max(ratios):.2f})"


def compare(name, streams, tables, args):
    """Runs a case in every mode, and prints a line per mode."""
    measured, expected = {mode: [] for mode in args.mode}, None
    for at in range(args.repeat):
        # Each round begins with another mode, so that drift affects all modes.
        for mode in args.mode[at % len(args.mode) :] + args.mode[: at % len(args.mode)]:
            took, answers = run(tables, streams, mode, args)
            measured[mode].append(took)
            expected = expected or answers
            if answers != expected:
                sys.exit(f"{name}: answers differ under {mode}")
    memory_of_first = None
    for mode in args.mode:
        line = f"{name:16} {mode:7}"
        for figure, unit, places in FIGURES:
            values = {of: [getattr(took, figure) / unit for took in measured[of]] for of in args.mode}
            line += compared(values[mode], values[args.mode[0]], places)
        if len(streams) == 1:
            memory, by_chunks = operator_memory(tables, streams[0][0], mode, args)
            memory_of_first = memory if memory_of_first is None else memory_of_first
            ratio = memory / memory_of_first if memory_of_first else 1
            line += f"{memory / 1e6:9.1f} {ratio:5.2f} {by_chunks:3}"
        print(line, flush=True)


def main():
    parser = argparse.ArgumentParser(prog="python3 -m bench.order", description=__doc__.split("\n")[0])
    parser.add_argument("--coscan", default=ROOT / "target/release/coscan", help="an optimised binary")
    parser.add_argument("--data", type=Path, default=ROOT / "data/order", help="where tables are")
    parser.add_argument("--scale-factor", type=float, default=4.0)
    parser.add_argument("--row-group-rows", type=int, default=120_000)
    parser.add_argument("--repeat", type=int, default=3, help="rounds")
    parser.add_argument("--times", type=int, default=1, help="how often a query runs in a run")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--buffer", default="2GiB")
    parser.add_argument("--read-limit", default="none", help="bytes per second; none for cached files")
    parser.add_argument("--stagger", type=float, default=0.0, help="seconds between the starts of two streams")
    parser.add_argument("--policy", default="relevance")
    parser.add_argument("--mode", action="append", choices=MODES, help="the first is what others are compared with")
    parser.add_argument("--only", action="append", help="cases to run, by name")
    args = parser.parse_args()
    args.mode = args.mode or list(MODES)
    chosen = {name: streams for name, streams in cases().items() if not args.only or name in args.only}
    tables = prepare(args.coscan, args.data, args.scale_factor, args.row_group_rows, chosen)
    titles = "".join(f"{title:>9} ratio (range)    " for title in ("seconds", "cpu s", "MB read", "MB resident"))
    print(f"{'case':16} {'mode':7}{titles} operators' MB ratio, by chunks")
    for name, streams in chosen.items():
        compare(name, streams, tables, args)


if __name__ == "__main__":
    main()
