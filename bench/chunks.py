"""The size of chunks, measured: `python3 -m bench.chunks --help`.

The workload of the 2007 paper (`coscan bench paper`) over the same table in row groups of 1 to 64 MB, each of which is a
chunk, and over one huge row group that `coscan.chunk_size` cuts: for every size the time of all queries, what was read and
how fast, in how many loads, one decision each, and how much longer a query took than alone. Every size is a process of its
own; rounds begin with another size each, and medians are shown. `--read-limit` and `--read-latency-ms` ask about a slow
disk. It draws nothing.
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
CUT = 0
TITLES = ("total s", "MB read", "MB/s", "loads", "normalised latency")


def measure(size, policy, args):
    """One run: seconds of everything, bytes, bytes per second, loads, mean latency over that of the query alone."""
    row_groups = 1 if size == CUT else max(1, int(TABLE_MB_PER_SCALE_FACTOR * args.scale_factor / size))
    command = [args.coscan, "bench", "paper", "--json", "--no-datafusion", "--data", args.data / f"rg{row_groups}"]
    command += ["--scale-factor", str(args.scale_factor), "--chunks", str(row_groups), "--seed", str(args.seed)]
    command += ["--streams", str(args.streams), "--queries", str(args.queries), "--policies", policy]
    command += ["--buffer", args.buffer, "--threads", str(args.threads), "--delay", str(args.delay)]
    command += ["--read-limit", args.read_limit, "--read-latency-ms", str(args.read_latency_ms)]
    environment = {**os.environ, "COSCAN_CHUNK_SIZE": "16MiB" if size == CUT else "0"}
    found = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if found.returncode:
        return found.stderr.strip().splitlines()[-1]
    of = json.loads(found.stdout)["policies"][policy]
    return of["total_time_s"], of["bytes"] / 1e6, of["bytes"] / 1e6 / of["total_time_s"], of["loads"], of["normalised_latency"]


def main():
    parser = argparse.ArgumentParser(prog="python3 -m bench.chunks", description=__doc__.split("\n")[0])
    parser.add_argument("--coscan", default=ROOT / "target/release/coscan", help="an optimised binary")
    parser.add_argument("--data", type=Path, default=ROOT / "data/chunks", help="where the table is, or will be")
    parser.add_argument("--scale-factor", type=float, default=1.0)
    parser.add_argument("--streams", type=int, default=8)
    parser.add_argument("--queries", type=int, default=2, help="queries of a stream")
    parser.add_argument("--delay", type=float, default=0.2, help="seconds between the starts of two streams")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--buffer", default="64MB")
    parser.add_argument("--read-limit", default="none", help="bytes per second")
    parser.add_argument("--read-latency-ms", type=int, default=0, help="of every request")
    parser.add_argument("--policy", action="append")
    parser.add_argument("--size", type=float, action="append", help="in MB; 0 for one row group that is cut")
    parser.add_argument("--repeat", type=int, default=3, help="rounds")
    args = parser.parse_args()
    sizes = args.size or [*SIZES, CUT]
    print("| policy | chunks of | " + " | ".join(TITLES) + " |\n" + "|---" * (2 + len(TITLES)) + "|")
    for policy in args.policy or ["relevance"]:
        measured = {size: [] for size in sizes}
        for at in range(args.repeat):
            for size in sizes[at % len(sizes) :] + sizes[: at % len(sizes)]:
                measured[size].append(measure(size, policy, args))
                print(f"{policy} {size} MB: {measured[size][-1]}", file=sys.stderr, flush=True)
        for size, runs in measured.items():
            name = f"{size:g} MB" if size else "one row group, cut"
            failed = [run for run in runs if isinstance(run, str)]
            if failed:
                print(f"| {policy} | {name} | {failed[0]} |")
                continue
            medians = [statistics.median(values) for values in zip(*runs)]
            places = (2, 0, 0, 0, 2)
            print(f"| {policy} | {name} | " + " | ".join(f"{v:.{p}f}" for v, p in zip(medians, places)) + " |", flush=True)


if __name__ == "__main__":
    main()
