"""Many small files against one file with as many row groups, on a slow disk: `python3 -m bench.files --help`.

One query over three columns of lineitem runs alone, and in several streams at the same time without shared
results. Every request has a latency. A bundle of small row groups is one load, but ends with its file. Many small
files are read ahead, up to the number of loads in flight. With `chunk_size` 0 there are no bundles, and only the
next chunk of each worker is read ahead. Every run is a process of its own. Medians are shown, with minimum and
maximum in brackets.
"""

import argparse
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from bench.chunks import ROOT, cell

QUERY = "SELECT sum(l_extendedprice), sum(l_discount), max(l_shipdate) FROM lineitem"
ROWS_PER_SCALE_FACTOR = 6_000_000


def prepare(args):
    """Writes the table both ways. Returns the files of each."""
    command = [args.coscan, "generate", "tpch", "--scale-factor", str(args.scale_factor), "--tables", "lineitem"]
    rows = int(ROWS_PER_SCALE_FACTOR * args.scale_factor) // args.files
    many, one = args.data / f"files{args.files}", args.data / f"groups{args.files}"
    subprocess.run([*command, "--files-per-table", str(args.files), "--out", many], check=True)
    subprocess.run([*command, "--row-group-rows", str(rows), "--out", one], check=True)
    return sorted((many / "lineitem").iterdir()), [one / "lineitem.parquet"]


def run(files, streams, chunk_size, loads_in_flight, args):
    """Returns the total time and the loads of one run."""
    with tempfile.TemporaryDirectory() as folder:
        workload, out = Path(folder) / "workload.json", Path(folder) / "results.json"
        tables = {"lineitem": {"format": "parquet", "files": [str(path) for path in files]}}
        described = [{"id": at, "start_s": 0.0, "queries": [{"id": str(at), "sql": QUERY}]} for at in range(streams)]
        workload.write_text(json.dumps({"version": 1, "tables": tables, "streams": described}))
        command = [args.coscan, "bench", "--workload", workload, "--out", out, "--now"]
        command += ["--threads", str(args.threads), "--buffer", args.buffer]
        # Equal queries each run, and small tables are read by coscan.
        settings = {"SHARE_RESULTS": "false", "SHARE_AGGREGATES": "false", "SMALL_TABLE_BYTES": "0"}
        settings |= {"READ_LATENCY_MS": str(args.read_latency_ms), "LOADS_IN_FLIGHT": str(loads_in_flight)}
        settings |= {"CHUNK_SIZE": chunk_size} if chunk_size else {}
        environment = {**os.environ, **{f"COSCAN_{name}": value for name, value in settings.items()}}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, stdin=subprocess.DEVNULL)
        if done.returncode:
            sys.exit(done.stderr)
        results = json.loads(out.read_text())
        failed = [query["error"] for query in results["queries"] if query["error"]]
        if failed:
            sys.exit(failed[0])
        return max(query["end_s"] for query in results["queries"]), results["stats"]["loads"]


def main():
    parser = argparse.ArgumentParser(prog="python3 -m bench.files", description=__doc__.split("\n")[0])
    parser.add_argument("--coscan", default=ROOT / "target/release/coscan", help="an optimised binary")
    parser.add_argument("--data", type=Path, default=ROOT / "data/files", help="where the tables are, or will be")
    parser.add_argument("--scale-factor", type=float, default=0.1)
    parser.add_argument("--files", type=int, default=400)
    parser.add_argument("--streams", type=int, default=8)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--buffer", default="200MB")
    parser.add_argument("--read-latency-ms", type=int, default=5, help="of every request")
    parser.add_argument("--loads-in-flight", type=int, nargs="+", default=[4, 16])
    parser.add_argument("--repeat", type=int, default=3, help="rounds")
    args = parser.parse_args()
    many, one = prepare(args)
    kinds = {f"{args.files} files": (many, None), f"{args.files} files, not ahead": (many, "0")}
    kinds |= {"one file": (one, None), "one file, not bundled": (one, "0")}
    streams = (1, args.streams)
    points = [(name, *rest) for name in kinds for rest in itertools.product(args.loads_in_flight, streams)]
    measured = {point: [] for point in points}
    for at in range(args.repeat):
        # Each round begins with another point, so that drift affects all points.
        for point in points[at % len(points) :] + points[: at % len(points)]:
            name, in_flight, streams = point
            files, chunk_size = kinds[name]
            measured[point].append(run(files, streams, chunk_size, in_flight, args))
    print("| | loads in flight | streams | s | loads |\n|---|---|---|---|---|")
    for (name, in_flight, streams), runs in measured.items():
        seconds, loads = zip(*runs)
        row = [name, in_flight, streams, cell(seconds, 2), f"{statistics.median(loads):.0f}"]
        print("|", " | ".join(map(str, row)), "|", flush=True)


if __name__ == "__main__":
    main()
