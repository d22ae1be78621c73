"""Seeds played in several processes, and what `make files-test` runs."""

from __future__ import annotations

import argparse
import os
import time
import unittest
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from ..random_sql import seed_range
from .case import MODES_OF_SEED, STATEMENTS, Failure, Player, draw_case
from .environment import FOLDER
from .program import MODES, Program
from .report import SHRINK_SECONDS, reported

#: Seeds that are played in one process of the program.
BATCH = 8
#: Of failures of one kind in one seed these are shrunk and shown.
SHOWN = 2
#: What a bounded run plays.
BOUNDED = range(150)


def options_of(arguments: Sequence[str], coscan: Path) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python3 -m checks.files", description="coscan's answers over files of other writers")
    parser.add_argument("--seeds", type=seed_range, metavar="A..B", help="which seeds [default: the bounded run of make test]")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="processes [default: 2]")
    parser.add_argument("--statements", type=int, default=STATEMENTS, metavar="N", help=f"statements of a seed [default: {STATEMENTS}]")
    parser.add_argument("--modes", nargs="*", choices=list(MODES), metavar="MODE",
                        help=f"these modes of {', '.join(MODES)} [default: {MODES_OF_SEED} of them, drawn]")
    parser.add_argument("--shrink", type=float, default=SHRINK_SECONDS, metavar="S", help="seconds to make a failure small")
    parser.add_argument("--most", type=int, default=200, metavar="N", help="failures after which a process stops [default: 200]")
    parser.add_argument("--coscan", type=Path, default=coscan, help="the program [default: that of the target directory]")
    return parser.parse_args(arguments)


def run(arguments: Sequence[str], coscan: Path) -> int:
    options = options_of(arguments, coscan)
    if options.seeds is not None:
        return 0 if campaign(options) else 1
    from . import tests

    options.seeds = BOUNDED
    passed = unittest.TextTestRunner().run(unittest.defaultTestLoader.loadTestsFromModule(tests)).wasSuccessful()
    return 0 if campaign(options) and passed else 1


def campaign(options: argparse.Namespace) -> bool:
    """Plays the seeds and says what became of them. Returns whether nothing failed."""
    begin = time.monotonic()
    share = [options.seeds[at :: options.jobs] for at in range(options.jobs)]
    with ProcessPoolExecutor(options.jobs) as pool:
        played = list(pool.map(play, [options] * options.jobs, share))
    outcomes: Counter[str] = sum((counts for counts, _ in played), Counter())
    failures = sum(count for _, count in played)
    seeds = f"{options.seeds.start}..{options.seeds.stop}"
    counts = ", ".join(f"{count} {what}" for what, count in outcomes.most_common())
    print(f"files of other writers, seeds {seeds}: {sum(outcomes.values())} cases: {counts} ({time.monotonic() - begin:.0f} s)", flush=True)
    return not failures


def play(options: argparse.Namespace, seeds: Sequence[int]) -> tuple[Counter[str], int]:
    """Plays seeds in this process, prints failures, and returns what became of statements and how many failed."""
    player, failed = Player(Program(options.coscan.resolve()), FOLDER / str(os.getpid())), 0
    for at in range(0, len(seeds), BATCH):
        cases = [draw_case(seed, options.statements, options.modes) for seed in seeds[at : at + BATCH]]
        failures = player.play(cases)
        for failure in first_of_kinds(failures):
            print(reported(failure, player, options.shrink), flush=True)
        failed += len(failures)
        if failed >= options.most:
            print(f"stopped after {failed} failures, before seed {seeds[min(at + BATCH, len(seeds) - 1)]}", flush=True)
            break
    return player.outcomes, failed


def first_of_kinds(failures: list[Failure]) -> list[Failure]:
    """One failure of each seed, kind of statement and outcome; a few of a seed."""
    found: dict[tuple, Failure] = {}
    for failure in failures:
        found.setdefault((failure.case.seed, failure.question.kind, failure.kind), failure)
    seeds: Counter[int] = Counter()
    shown = []
    for failure in found.values():
        seeds[failure.case.seed] += 1
        if seeds[failure.case.seed] <= SHOWN:
            shown.append(failure)
    return shown
