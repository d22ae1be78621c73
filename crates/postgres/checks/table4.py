"""Table 4 of the 2004 report: two queries over lineitem alone, at the same time, and with a delay.

    python3 -m checks.table4 [--gigabytes 1] [--memory-mb 256] [--runs 5]        (as root)

The homogeneous run has two instances of Query 1 with few matching rows. In the heterogeneous run all rows match the filter
of one. De-synchronised, the second query starts after half of the fast one's time alone. The results are medians over the
runs, beside the report's seconds.

Unless --read-mb is given, the disk's speed is chosen so that it limits the fast query, and the processor the slow one, in
the report's ratio: alone, the slow one takes 249/127 of the fast one's time on the plain server.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
import tempfile
from pathlib import Path

from .limited import LimitedRun
from .lineitem import load, query_1, table_bytes
from .server import TARGET, Cluster, Server, exit_with, install_packages

SYSTEMS = {
    "PostgreSQL": {"coscan.enabled": "off", "synchronize_seqscans": "off"},
    "PostgreSQL, synchronised scans": {"coscan.enabled": "off", "synchronize_seqscans": "on"},
    "attach": {"coscan.enabled": "on", "coscan.policy": "attach"},
    "elevator": {"coscan.enabled": "on", "coscan.policy": "elevator"},
    "relevance": {"coscan.enabled": "on", "coscan.policy": "relevance"},
}
SCENARIOS = ("alone", "synchronised", "de-synchronised")
UNLIMITED = 100_000_000_000
REPORT = {
    ("homogeneous", "PostgreSQL"): ((127, 133), (132, 132), (478, 477)),
    ("homogeneous", "attach"): ((126, 128), (127, 127), (131, 131)),
    ("homogeneous", "relevance"): ((126, 126), (128, 128), (130, 134)),
    ("heterogeneous", "PostgreSQL"): ((127, 249), (339, 367), (480, 538)),
    ("heterogeneous", "attach"): ((126, 239), (265, 313), (171, 272)),
    ("heterogeneous", "relevance"): ((126, 244), (129, 258), (130, 258)),
}


def calibrate(cluster: Cluster, options: argparse.Namespace, size: int) -> int:
    """The disk speed in MB/s at which the slow query alone takes the report's multiple of the fast one's time."""
    cluster.settings |= SYSTEMS["PostgreSQL"]
    with LimitedRun(cluster, options.memory_mb << 20, UNLIMITED) as limited:
        (seconds,), _ = limited.time([(0.0, query_1(options.slow_percent))])
    fast, slow = REPORT["heterogeneous", "PostgreSQL"][0]
    return round(size / (seconds * fast / slow) / 1e6)


def measure(cluster: Cluster, options: argparse.Namespace, system: str) -> dict[str, dict[str, tuple[float, float, float]]]:
    """One run of all scenarios: seconds of both queries and gigabytes read."""
    cluster.settings |= SYSTEMS[system]
    fast, slow = query_1(1.5), query_1(options.slow_percent)

    def run(queries: list[tuple[float, str]]) -> tuple[list[float], int]:
        with LimitedRun(cluster, options.memory_mb << 20, options.read_mb * 1_000_000) as limited:
            return limited.time(queries)

    (fast_alone,), fast_bytes = run([(0, fast)])
    (slow_alone,), slow_bytes = run([(0, slow)])
    found = {
        "homogeneous": {"alone": (fast_alone, fast_alone, fast_bytes / 1e9)},
        "heterogeneous": {"alone": (fast_alone, slow_alone, (fast_bytes + slow_bytes) / 1e9)},
    }
    for kind, second in (("homogeneous", fast), ("heterogeneous", slow)):
        for scenario, delay in (("synchronised", 0.0), ("de-synchronised", fast_alone / 2)):
            # The slow query is the first of a heterogeneous pair; the fast one starts after the delay.
            order = [(delay, fast), (0.0, second)] if kind == "heterogeneous" else [(0.0, fast), (delay, second)]
            took, read = run(order)
            found[kind][scenario] = (took[0], took[1], read / 1e9)
    return found


def median(runs: list[dict], kind: str, scenario: str) -> tuple[float, float, float]:
    """The medians of both queries' times and of the gigabytes read."""
    return tuple(statistics.median(run[kind][scenario][i] for run in runs) for i in range(3))


def table(results: dict[str, list[dict]]) -> str:
    """The measured table as text."""
    lines = [f"{'':46}" + "".join(f"{s:^24}" for s in SCENARIOS), f"{'':46}" + f"{'Q1':>7}{'Q2':>7}{'GB':>7}   " * 3]
    for kind in ("homogeneous", "heterogeneous"):
        for system, runs in results.items():
            cells = "".join("{:7.1f}{:7.1f}{:7.2f}   ".format(*median(runs, kind, scenario)) for scenario in SCENARIOS)
            lines.append(f"{kind:14}{system:32}{cells}")
            if (kind, system) in REPORT:
                cells = "".join("{:7}{:7}{:7}   ".format(*pair, "") for pair in REPORT[kind, system])
                lines.append(f"{'':14}{'  the report, 2004':32}{cells}")
    return "\n".join(lines)


def draw(results: dict[str, list[dict]]) -> str:
    """Bars of the time of each query as a multiple of its time alone, as SVG."""
    parts, y = [], 30
    for kind in ("homogeneous", "heterogeneous"):
        for scenario in SCENARIOS[1:]:
            parts.append(f'<text x="10" y="{y}" font-weight="bold">{kind}, {scenario}: time over time alone</text>')
            y += 8
            for system, runs in results.items():
                alone = median(runs, kind, "alone")
                for query in range(2):
                    ratio = median(runs, kind, scenario)[query] / alone[query]
                    parts.append(f'<rect x="300" y="{y}" width="{ratio * 90:.1f}" height="9" fill="{("#4878a8", "#a85448")[query]}"/>')
                    parts.append(f'<text x="{306 + ratio * 90:.0f}" y="{y + 9}" font-size="10">{ratio:.2f}</text>')
                    y += 11
                parts.append(f'<text x="10" y="{y - 7}">{system}</text>')
                y += 4
            y += 22
    parts.append(f'<line x1="390" y1="15" x2="390" y2="{y - 20}" stroke="#888" stroke-dasharray="3 3"/>')
    return f'<svg xmlns="http://www.w3.org/2000/svg" width="900" height="{y}" font-family="sans-serif" font-size="12">\n' + "\n".join(parts) + "\n</svg>\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gigabytes", type=float, default=1.0, help="size of the table")
    parser.add_argument("--read-mb", type=int, help="megabytes per second from the disk (default: see above)")
    parser.add_argument("--memory-mb", type=int, default=256, help="memory of the server, page cache included")
    parser.add_argument("--slow-percent", type=float, default=100, help="rows that pass the slow query's filter")
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--systems", nargs="+", choices=SYSTEMS, default=list(SYSTEMS))
    parser.add_argument("--folder", type=Path, help="where to make the cluster; it is kept and used again")
    parser.add_argument("--svg", type=Path)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if os.geteuid() != 0:
        print("left out: limits of memory and disk need root", file=sys.stderr)
        return 1
    install_packages()
    folder = options.folder or Path(tempfile.mkdtemp(prefix="coscan-table4-"))
    folder.mkdir(exist_ok=True)
    folder.chmod(0o755)
    try:
        settings = {"shared_buffers": "96MB", "coscan.buffer_size": "48MB", "autovacuum": "off", "max_wal_size": "4GB"}
        cluster = Cluster(Server(folder, TARGET), "lineitem", settings)
        new = not cluster.data.exists()
        with cluster:
            size = load(cluster, options.gigabytes) if new else table_bytes(cluster)
            cluster.stop("fast")
        options.read_mb = options.read_mb or calibrate(cluster, options, size)
        print(f"lineitem has {size / 1e9:.2f} GB, the disk {options.read_mb} MB/s", flush=True)
        results: dict[str, list[dict]] = {name: [] for name in options.systems}
        for number in range(options.runs):
            for system in results:
                results[system].append(measure(cluster, options, system))
                print(f"run {number + 1}, {system}: {json.dumps(results[system][-1])}", flush=True)
        print(table(results))
        if options.svg:
            options.svg.write_text(draw(results))
        if options.json:
            options.json.write_text(json.dumps({"options": {k: str(v) for k, v in vars(options).items()}, "results": results}))
    finally:
        if not options.folder:
            shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    exit_with(main)
