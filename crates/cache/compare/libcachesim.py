"""Compares coscan's page replacement with libCacheSim's: equal misses, and requests per second side by side.

    pip install libcachesim                      # written for 0.3.5
    coscan cache convert ANY_TRACE TRACE --to oracle-general
    coscan cache run TRACE --format oracle-general --size 1%,5%,10% --threads 1 --json > POINTS.json
    python libcachesim.py TRACE POINTS.json [--hashpower N] [--json OUT]

TRACE is an uncompressed oracleGeneral file. POINTS.json is coscan's output for it, a list of points {policy, size,
requests, misses, seconds}. libCacheSim runs each point of the policies lru, fifo, clock, arc, sieve, s3-fifo, 2q and
opt again, ignoring sizes of objects; other policies are left out. The exit status is the number of points whose
misses differ, at most 100.

Meaning of the speeds. libCacheSim reads the trace again for each point and looks every object up in a hash table.
Its time in the table is that of process_trace on a trace that has been read once. coscan reads and hashes once for
all points, and its time in the table is that of the simulation alone. To include coscan's reading, add the
difference between the time of its whole run and the sum of its points, divided by their number.

Limits of the comparison. libCacheSim keeps nothing in an S3-FIFO pool of less than 20 objects, so such points are
left out. Its LRUK is another policy, see the header of lru_k.rs. RANDOM draws other random numbers.
"""

import argparse
import json
import sys
import time

# The folder of this file comes first in the search path, and this file has the name of the package.
sys.path.pop(0)

import libcachesim as lcs  # noqa: E402

POLICIES = {
    "lru": lcs.LRU,
    "fifo": lcs.FIFO,
    "clock": lcs.Clock,
    "arc": lcs.ARC,
    "sieve": lcs.Sieve,
    "s3-fifo": lcs.S3FIFO,
    "2q": lcs.TwoQ,
    "opt": lcs.Belady,
}
# Below this many objects a tenth of the pool is less than two.
S3_FIFO_LEAST = 20


def misses(trace: str, policy: str, size: int, hashpower: int) -> tuple[int, float]:
    """libCacheSim's misses, and its time in seconds."""
    params = lcs.ReaderInitParam(ignore_obj_size=True)
    reader = lcs.TraceReader(trace, lcs.TraceType.ORACLE_GENERAL_TRACE, params)
    requests = reader.get_num_of_req()
    cache = POLICIES[policy](size, hashpower=hashpower)
    reader.reset()
    start = time.perf_counter()
    ratio, _ = cache.process_trace(reader)
    return round(ratio * requests), time.perf_counter() - start


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("trace")
    parser.add_argument("points")
    parser.add_argument("--hashpower", type=int, default=20, help="log2 of the buckets of libCacheSim's hash table")
    parser.add_argument("--json", help="write the rows there as well")
    args = parser.parse_args()
    with open(args.points, encoding="utf-8") as file:
        points = json.load(file)
    rows = []
    print(f"{'policy':8} {'size':>9} {'misses':>10} {'libCacheSim':>12} {'':6} {'M req/s':>8} {'libCacheSim':>12}")
    for point in points:
        policy, size, mine = point["policy"], point["size"], point["misses"]
        if policy not in POLICIES or (policy == "s3-fifo" and size < S3_FIFO_LEAST):
            continue
        theirs, seconds = misses(args.trace, policy, size, args.hashpower)
        speed = point["requests"] / point["seconds"] / 1e6
        their_speed = point["requests"] / seconds / 1e6
        verdict = "equal" if mine == theirs else "DIFFER"
        print(f"{policy:8} {size:9} {mine:10} {theirs:12} {verdict:6} {speed:8.1f} {their_speed:12.1f}", flush=True)
        rows.append({**point, "libcachesim_misses": theirs, "libcachesim_seconds": seconds})
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump(rows, file, indent=1)
    different = sum(row["misses"] != row["libcachesim_misses"] for row in rows)
    print(f"{len(rows) - different} of {len(rows)} points have equal misses")
    return min(different, 100)


if __name__ == "__main__":
    sys.exit(main())
