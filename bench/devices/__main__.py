"""`python3 -m bench.devices --coscan target/release/coscan --data FILE.parquet [--only SETTING] [--seeds 3]`

FILE has TPC-H's lineitem. Loopback stores that behave like devices serve it (`store.py`). For each store, true
values are printed beside measured ones. Then a query over columns that lie apart runs in turns with constants and
with the profile, with one profile per seed. The result is the median of ratios of pairs, which reduces the effect
of other work on the machine. Fails if a profile is slower than the constants by more than 2%, or faster on fewer
than two of the three.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
import tomllib

from .store import Model, Store

# Columns with others between them.
QUERY = "SELECT sum(l_orderkey), sum(l_quantity), max(l_shipdate) FROM t"

SETTINGS = {
    "100 MB/s": Model(latency_s=0.0005, bytes_per_s=100e6, disks=1, unit_bytes=1 << 40),
    "object store, 30 ms": Model(latency_s=0.03, bytes_per_s=85e6),
    "stripe of four": Model(latency_s=0.005, bytes_per_s=100e6, disks=4, unit_bytes=1 << 20),
}


def probe(coscan: str, url: str, out: str, seconds: int, seed: int) -> dict:
    """Returns the profile of an object."""
    command = [coscan, "device", "probe", url, "--out", out, "--time-limit", str(seconds), "--samples", "30"]
    command += ["--seed", str(seed)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    with open(out, "rb") as file:
        return tomllib.load(file)


def query_s(coscan: str, url: str, options: list[str]) -> tuple[float, str]:
    """Returns the seconds of the query in a process of its own, and its answer."""
    command = [coscan, "sql", "-t", f"t={url}", "--format", "csv", "-c", QUERY, *options]
    begun = time.perf_counter()
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return time.perf_counter() - begun, done.stdout


def value(profile: dict, *path: str) -> str:
    """Returns a value of a profile with its bounds."""
    for key in path:
        profile = profile.get(key) or {}
    return f"{profile['value']:.4g} ({profile['low']:.4g} to {profile['high']:.4g})" if profile else "not detected"


def compare(args: argparse.Namespace, setting: str, model: Model, url: str) -> float:
    """Returns the median over the seeds of the time with a profile relative to that with constants."""
    unit = model.unit_bytes if model.disks > 1 else None
    medians = []
    for seed in range(1, args.seeds + 1):
        with tempfile.TemporaryDirectory() as scratch:
            path = os.path.join(scratch, "device.toml")
            profile = probe(args.coscan, url, path, args.probe_seconds, seed)
            print(f"{setting}, seed {seed}\n  t0 s: true {model.latency_s:.4g}, measured {value(profile, 'fixed_cost_s')}")
            print(f"  B bytes/s: true {model.bytes_per_s:.4g}, measured {value(profile, 'bytes_per_s')}")
            print(f"  large reads bytes/s: {value(profile, 'depth', 'large', 'bytes_per_s')}")
            print(f"  requests at once: disks {model.disks or 'any'}, measured {value(profile, 'depth', 'enough')}")
            print(f"  boundaries: true {unit}, measured {(profile.get('boundary') or {}).get('period_bytes')}")
            pairs = []
            for nth in range(args.pairs):
                runs = [[], ["--device-profile", path]]
                taken = {bool(run): query_s(args.coscan, url, run) for run in (runs if nth % 2 else runs[::-1])}
                if taken[False][1] != taken[True][1]:
                    raise SystemExit("the answers differ")
                pairs.append(taken[True][0] / taken[False][0])
            medians.append(statistics.median(pairs))
            print(f"  with the profile over constants: {medians[-1]:.3f} ({min(pairs):.3f} to {max(pairs):.3f})", flush=True)
    print(f"{setting}: {statistics.median(medians):.3f} over {args.seeds} seeds\n", flush=True)
    return statistics.median(medians)


def main() -> int:
    """Measures every setting."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--coscan", default="target/release/coscan")
    parser.add_argument("--data", required=True, help="lineitem as Parquet")
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--probe-seconds", type=int, default=60)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", choices=SETTINGS, help="one setting, which then must not be slower")
    args = parser.parse_args()
    folder, name = os.path.split(os.path.abspath(args.data))
    ratios = {}
    chosen = {args.only: SETTINGS[args.only]} if args.only else SETTINGS
    for setting, model in chosen.items():
        store = Store(folder, model)
        try:
            ratios[setting] = compare(args, setting, model, f"{store.url}/{name}")
        finally:
            store.close()
    slower = [setting for setting, ratio in ratios.items() if ratio > 1.02]
    faster = [setting for setting, ratio in ratios.items() if ratio < 0.98]
    print(f"faster: {', '.join(faster) or 'none'}; slower: {', '.join(slower) or 'none'}")
    return 1 if slower or (len(faster) < 2 and not args.only) else 0


if __name__ == "__main__":
    sys.exit(main())
