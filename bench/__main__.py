"""The command line of the side-by-side: `python3 -m bench --help`. Run it from the root of the repository.

Exit code 0: everything was measured and all answers agree. 1: answers differ, or an engine died or hung. 2:
nothing could be measured. An engine that runs out of memory is a result.
"""

from __future__ import annotations

import argparse
import json
import re
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from bench import engines, plan, report, setup
from bench.limits import Limits
from bench.plan import Bench, Options

UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "KI": 2**10, "MI": 2**20, "GI": 2**30}


def size(text: str) -> int:
    """Parses a number of bytes, as in 65536, 512MB, 2GiB."""
    match = re.fullmatch(r"(\d+)\s*([KMG]?I?)B?", text.upper())
    if match is None or match[2] not in UNITS or int(match[1]) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of bytes; write 65536, 512MB or 2GiB")
    return int(match[1]) * UNITS[match[2]]


def positive(text: str) -> int:
    """Parses a positive integer."""
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is no positive number")
    return int(text)


def scale_factor(text: str) -> str:
    """Returns a positive number as it was written, because it becomes part of a folder's name."""
    if not re.fullmatch(r"\d+(\.\d+)?", text) or float(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is no scale factor; write 1 or 0.1")
    return text


def names(*allowed: str) -> Callable[[str], tuple[str, ...]]:
    """Returns a parser of lists of names, separated by commas."""

    def parse(text: str) -> tuple[str, ...]:
        chosen = tuple(dict.fromkeys(text.split(",")))
        unknown = [name for name in chosen if name not in allowed]
        if unknown:
            raise argparse.ArgumentTypeError(f"{', '.join(unknown)}: choose from {', '.join(allowed)}")
        return chosen

    return parse


def arguments() -> argparse.ArgumentParser:
    """Returns the parser of the command line."""
    parser = argparse.ArgumentParser(prog="python3 -m bench", description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("--coscan", type=Path, default=Path("target/release/coscan"), help="coscan's binary [%(default)s]")
    add("--data", type=Path, default=Path("data"), help="folder for the table, made if missing [%(default)s]")
    add("--venv", type=Path, help="virtual environment with the other engines [DATA/venv, made if missing]")
    add("--scale-factor", type=scale_factor, default="6", help="size of lineitem [%(default)s]")
    add("--engines", type=names(*engines.ALL), default=engines.DEFAULT, help="separated by commas [all]")
    add("--parts", type=names(*plan.PARTS), default=plan.DEFAULT_PARTS, help="of " + ", ".join(plan.PARTS))
    add("--seed", type=positive, default=1, help="the first one [%(default)s]")
    add("--seeds", type=positive, default=1, help="how many; the report shows medians [%(default)s]")
    add("--streams", type=positive, default=8, help="that run at once [%(default)s]")
    add("--queries", type=positive, default=2, help="of a stream, one after another [%(default)s]")
    add("--threads", type=positive, default=plan.usable_threads(), help="of every engine [%(default)s]")
    add("--memory", type=size, default=size("640MB"), help="in disk parts, with the page cache [640MB]")
    add("--read-limit", type=size, default=size("100MB"), help="bytes per second in disk parts [100MB]")
    add("--read-ahead-kib", type=int, default=128, help="of the device in disk parts, 0: as it is [%(default)s]")
    add("--time-limit", type=positive, default=300, help="seconds an engine may take for a workload [%(default)s]")
    add("--own-base", action="store_true", help="measure on every engine what queries take alone")
    add("--json", action="store_true", help="print JSON")
    return parser


def main() -> int:
    """Prepares, runs and prints; returns the exit code."""
    args = arguments().parse_args()
    # Ends like an exception, so that engines are ended and the device's read-ahead is restored.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    options = Options(
        parts=args.parts,
        seeds=tuple(range(args.seed, args.seed + args.seeds)),
        streams=args.streams,
        queries=args.queries,
        threads=args.threads,
        time_limit_s=args.time_limit,
        limits=Limits(args.memory, args.read_limit),
        read_ahead_kib=args.read_ahead_kib,
        own_base=args.own_base,
    )
    try:
        coscan = setup.binary(args.coscan)
        table = setup.table(coscan, args.data, args.scale_factor)
        found, left_out = setup.contenders(args.engines, coscan, args.venv or args.data / "venv")
        for name, why in left_out.items():
            setup.say(f"left out: {name}: {why}")
        if not found:
            raise setup.Missing("none of the engines can be run")
    except setup.Missing as missing:
        setup.say(f"error: {missing}")
        return 2
    bench = Bench(options, table, found)
    interrupted = False
    try:
        bench.run()
    except KeyboardInterrupt:
        setup.say("interrupted: the report has only what was finished")
        interrupted = True
    if args.json:
        print(json.dumps(report.to_json(bench, left_out), indent=2))
    else:
        print(report.to_text(bench, left_out), end="")
    for breakdown in bench.breakdowns:
        setup.say(f"error: {breakdown}")
    return 130 if interrupted else int(bench.failed)


if __name__ == "__main__":
    sys.exit(main())
