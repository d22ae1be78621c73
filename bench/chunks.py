"""The size of chunks, measured: `python3 -m bench.chunks --help`.

The workload of the 2007 paper (`coscan bench paper`) over one table that is written in three ways. `whole`: row
groups of 1 to 64 MB, each of which is a chunk. `cut`: one row group that `coscan.chunk_size` cuts. `joined`: row
groups of a sixteenth of a megabyte, which are read together up to a sixteenth of `coscan.chunk_size`.

For every size it prints the time of all queries, the bytes read and their rate, the number of loads (one decision
each), and the latency of queries relative to running alone. Every run is a process of its own. Each round begins
with another size, and medians are shown, with minimum and maximum in brackets. `--read-limit` and
`--read-latency-ms` simulate a slow disk. No figures are drawn.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SIZES = (1, 2, 4, 8, 16, 32, 64)
TABLE_MB_PER_SCALE_FACTOR = 164
SMALL_MB = 1 / 16
TITLES = ("total s", "MB read", "MB/s", "loads", "normalised latency")
PLACES = (1, 0, 0, 0, 2)


def runs_of(kind):
    """Returns the sizes of a kind. 0: small row groups are not joined."""
    return [0, *SIZES] if kind == "joined" else SIZES


def measure(kind, size, policy, args):
    """Does one run. Returns total seconds, bytes, bytes per second, loads, and mean latency relative to the query
    alone."""
    row_group_mb = {"whole": size, "cut": None, "joined": SMALL_MB}[kind]
    row_groups = max(1, int(TABLE_MB_PER_SCALE_FACTOR * args.scale_factor / row_group_mb)) if row_group_mb else 1
    command = [args.coscan, "bench", "paper", "--json", "--no-datafusion", "--data", args.data / f"rg{row_groups}"]
    command += ["--scale-factor", str(args.scale_factor), "--chunks", str(row_groups), "--seed", str(args.seed)]
    command += ["--streams", str(args.streams), "--queries", str(args.queries), "--policies", policy]
    command += ["--buffer", args.buffer, "--threads", str(args.threads), "--delay", str(args.delay)]
    command += ["--read-limit", args.read_limit, "--read-latency-ms", str(args.read_latency_ms)]
    chunk_size = "0" if kind == "whole" else str(int(size * 1e6))
    environment = {**os.environ, "COSCAN_CHUNK_SIZE": chunk_size}
    found = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if found.returncode:
        return found.stderr.strip().splitlines()[-1]
    of = json.loads(found.stdout)["policies"][policy]
    return of["total_time_s"], of["bytes"] / 1e6, of["bytes"] / 1e6 / of["total_time_s"], of["loads"], of["normalised_latency"]


def cell(values, places):
    """Returns the median, with minimum and maximum if they differ."""
    median, least, most = (f"{of(values):.{places}f}" for of in (statistics.median, min, max))
    return median if least == most else f"{median} ({least} to {most})"


def main():
    parser = argparse.ArgumentParser(prog="python3 -m bench.chunks", description=__doc__.split("\n")[0])
    parser.add_argument("--coscan", default=ROOT / "target/release/coscan", help="an optimised binary")
    parser.add_argument("--data", type=Path, default=ROOT / "data/chunks", help="where the tables are, or will be")
    parser.add_argument("--scale-factor", type=float, default=1.0)
    parser.add_argument("--streams", type=int, default=8)
    parser.add_argument("--queries", type=int, default=2, help="queries of a stream")
    parser.add_argument("--delay", type=float, default=0.2, help="seconds between the starts of two streams")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--buffer", default="64MB")
    parser.add_argument("--read-limit", default="none", help="bytes per second")
    parser.add_argument("--read-latency-ms", type=int, default=0, help="of every request")
    parser.add_argument("--policy", default="relevance")
    parser.add_argument("--kind", action="append", choices=("whole", "cut", "joined"))
    parser.add_argument("--size", type=float, action="append", help="in MB; 0 for small row groups that are not joined")
    parser.add_argument("--repeat", type=int, default=3, help="rounds")
    args = parser.parse_args()
    kinds = args.kind or ["whole", "cut", "joined"]
    points = [(kind, size) for kind in kinds for size in runs_of(kind) if not args.size or size in args.size]
    measured = {point: [] for point in points}
    for at in range(args.repeat):
        for point in points[at % len(points) :] + points[: at % len(points)]:
            measured[point].append(measure(*point, args.policy, args))
            print(f"{point}: {measured[point][-1]}", file=sys.stderr, flush=True)
    print("| row groups | MB | " + " | ".join(TITLES) + " |\n" + "|---" * (2 + len(TITLES)) + "|")
    for (kind, size), runs in measured.items():
        failed = [run for run in runs if isinstance(run, str)]
        cells = failed[:1] or [cell(values, places) for values, places in zip(zip(*runs), PLACES)]
        print(f"| {kind} | {size:g} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
