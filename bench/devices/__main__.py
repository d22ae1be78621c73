"""`python3 -m bench.devices --coscan target/release/coscan --data FILE.parquet`

FILE has TPC-H's lineitem. It is served by loopback stores that behave like devices (`store.py`). For each: true values
beside measured ones, then a query over columns that lie apart, by turns with constants and with the profile. Medians of
ratios of pairs, so that a busy machine does less harm; on a quiet one they mean more. Fails if a profile is slower than the
constants by more than 2%, or faster on fewer than two of the three.
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


def probe(coscan: str, url: str, out: str, seconds: int) -> dict:
    """The profile of an object."""
    command = [coscan, "device", "probe", url, "--out", out, "--time-limit", str(seconds), "--samples", "30"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    with open(out, "rb") as file:
        return tomllib.load(file)


def query_s(coscan: str, url: str, options: list[str]) -> tuple[float, str]:
    """Seconds of the query in a process of its own, and its answer."""
    command = [coscan, "sql", "-t", f"t={url}", "--format", "csv", "-c", QUERY, *options]
    begun = time.perf_counter()
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return time.perf_counter() - begun, done.stdout


def value(profile: dict, *path: str) -> str:
    """A value of a profile with its bounds."""
    for key in path:
        profile = profile.get(key) or {}
    return f"{profile['value']:.4g} ({profile['low']:.4g} to {profile['high']:.4g})" if profile else "not detected"


def main() -> int:
    """Measures every setting."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--coscan", default="target/release/coscan")
    parser.add_argument("--data", required=True, help="lineitem as Parquet")
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--probe-seconds", type=int, default=60)
    args = parser.parse_args()
    folder, name = os.path.split(os.path.abspath(args.data))
    ratios = {}
    for setting, model in SETTINGS.items():
        store = Store(folder, model)
        url = f"{store.url}/{name}"
        with tempfile.TemporaryDirectory() as scratch:
            path = os.path.join(scratch, "device.toml")
            profile = probe(args.coscan, url, path, args.probe_seconds)
            print(f"{setting}\n  t0 s: true {model.latency_s:.4g}, measured {value(profile, 'fixed_cost_s')}")
            print(f"  B bytes/s: true {model.bytes_per_s:.4g}, measured {value(profile, 'bytes_per_s')}")
            print(f"  requests at once: disks {model.disks or 'any'}, measured {value(profile, 'depth', 'enough')}")
            unit = model.unit_bytes if model.disks > 1 else None
            print(f"  boundaries: true {unit}, measured {(profile.get('boundary') or {}).get('period_bytes')}")
            pairs = []
            for _ in range(args.pairs):
                constants, answer = query_s(args.coscan, url, [])
                profiled, same = query_s(args.coscan, url, ["--device-profile", path])
                if answer != same:
                    print("the answers differ", file=sys.stderr)
                    return 1
                pairs.append(profiled / constants)
            ratios[setting] = statistics.median(pairs)
            print(f"  time with the profile over constants: {ratios[setting]:.3f} ({min(pairs):.3f} to {max(pairs):.3f})")
        store.close()
    slower = [setting for setting, ratio in ratios.items() if ratio > 1.02]
    faster = [setting for setting, ratio in ratios.items() if ratio < 0.98]
    print(f"faster: {', '.join(faster) or 'none'}; slower: {', '.join(slower) or 'none'}")
    return 1 if slower or len(faster) < 2 else 0


if __name__ == "__main__":
    sys.exit(main())
