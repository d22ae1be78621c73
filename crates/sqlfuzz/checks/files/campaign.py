"""Runs seeds in several processes, and the checks of `make files-test`."""

from __future__ import annotations

import argparse
import os
import shutil
import time
import unittest
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from ..campaign import seed_range
from . import each_change, fixed, golden
from .case import MODES_OF_SEED, STATEMENTS, WRONG, Case, Failure, Player, draw_case
from .environment import FOLDER
from .mutations import MUTATIONS
from .program import MODES, Program
from .report import SHRINK_SECONDS, reported
from .writers_apart import build_and_tell, built, with_writers_apart

#: Seeds that run in one process of the program.
BATCH = 8
#: Limit of the failures of one kind that a process shrinks and shows.
SHOWN = 2
#: The seeds of a bounded run.
BOUNDED, BOUNDED_GOLDEN = range(100), range(26)


def options_of(arguments: Sequence[str], coscan: Path) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python3 -m checks.files", description="coscan's answers over files of other writers")
    parser.add_argument("--seeds", type=seed_range, metavar="A..B", help="which seeds [default: the bounded run of make test]")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="processes [default: 2]")
    parser.add_argument(
        "--statements", type=int, default=STATEMENTS, metavar="N", help=f"statements of a seed [default: {STATEMENTS}]"
    )
    parser.add_argument(
        "--modes",
        nargs="*",
        choices=list(MODES),
        metavar="MODE",
        help=f"these modes of {', '.join(MODES)} [default: {MODES_OF_SEED} of them, drawn]",
    )
    parser.add_argument("--fixed", action="store_true", help="files that are not drawn, every change of a footer, and nothing else")
    parser.add_argument("--golden", action="store_true", help="the files that are kept, in turn")
    parser.add_argument("--write-golden", action="store_true", help="write the files that are kept again, and nothing else")
    parser.add_argument("--build-writers", action="store_true", help="build the writers for --apart, and nothing else")
    parser.add_argument("--apart", action="store_true", help="writers that are programs of their own, as far as they are built")
    parser.add_argument(
        "--without", nargs="*", default=(), choices=list(MUTATIONS), metavar="CHANGE", help="leave out these changes of footers"
    )
    parser.add_argument("--shrink", type=float, default=SHRINK_SECONDS, metavar="S", help="seconds to make a failure small")
    parser.add_argument("--most", type=int, default=10**6, metavar="N", help="failures after which a process stops")
    parser.add_argument("--coscan", type=Path, default=coscan, help="the program [default: that of the target directory]")
    return parser.parse_args(arguments)


def run(arguments: Sequence[str], coscan: Path) -> int:
    options = options_of(arguments, coscan)
    if options.build_writers:
        return build_and_tell()
    if options.write_golden:
        golden.write_all()
        return 0
    if options.fixed:
        return 1 if not_drawn(options) else 0
    if options.seeds is not None:
        return 0 if campaign(options) else 1
    from . import tests

    passed = [not not_drawn(options), unittest.TextTestRunner().run(unittest.defaultTestLoader.loadTestsFromModule(tests)).wasSuccessful()]
    for options.golden, options.seeds in ((True, BOUNDED_GOLDEN), (False, BOUNDED)):
        passed.append(campaign(options))
    return 0 if all(passed) else 1


def not_drawn(options: argparse.Namespace) -> list[str]:
    """Plays the files that are not drawn, and every change of a footer. Returns the failures as text."""
    folder = FOLDER / f"fixed-{os.getpid()}"
    wrong = fixed.check(Program(options.coscan.resolve()), folder)
    if not wrong:
        shutil.rmtree(folder)
    print(*wrong, f"files that are not drawn: {len(wrong)} wrong", sep="\n", flush=True)
    return wrong + changes(options)


def changes(options: argparse.Namespace) -> list[str]:
    """Makes every change of footers to one table. Returns the failures as text."""
    player, failures = Player(Program(options.coscan.resolve()), FOLDER / str(os.getpid())), []
    cases = each_change.cases()
    for at in range(0, len(cases), BATCH):
        failures += player.play(cases[at : at + BATCH])
    for failure in worth_showing(failures, Counter()):
        print(reported(failure, player, options.shrink), flush=True)
    counts = ", ".join(f"{count} {what}" for what, count in player.outcomes.most_common())
    print(f"every change of a footer: {sum(player.outcomes.values())} cases: {counts}", flush=True)
    return [failure.kind for failure in failures]


def campaign(options: argparse.Namespace) -> bool:
    """Runs the seeds and prints the outcomes. Returns whether nothing failed."""
    begin = time.monotonic()
    share = [options.seeds[at :: options.jobs] for at in range(options.jobs)]
    # Readers of this process have threads; a fork would copy their locks without the threads.
    with ProcessPoolExecutor(options.jobs, get_context("spawn")) as pool:
        played = list(pool.map(play, [options] * options.jobs, share))
    outcomes: Counter[str] = sum((counts for counts, _ in played), Counter())
    failures = sum(count for _, count in played)
    seeds = f"{options.seeds.start}..{options.seeds.stop}"
    counts = ", ".join(f"{count} {what}" for what, count in outcomes.most_common())
    what = "files that are kept" if options.golden else "files of other writers"
    print(f"{what}, seeds {seeds}: {sum(outcomes.values())} cases: {counts} ({time.monotonic() - begin:.0f} s)", flush=True)
    return not failures


def play(options: argparse.Namespace, seeds: Sequence[int]) -> tuple[Counter[str], int]:
    """Runs seeds in this process and prints failures. Returns the counts of outcomes and of failures."""
    player, failed = Player(Program(options.coscan.resolve()), FOLDER / str(os.getpid())), 0
    shown: Counter[tuple] = Counter()
    for at in range(0, len(seeds), BATCH):
        cases = drawn(options, seeds[at : at + BATCH])
        failures = player.play(cases)
        failed += len(failures)
        for failure in worth_showing(failures, shown):
            print(reported(failure, player, options.shrink), flush=True)
        if failed >= options.most:
            print(f"stopped after {failed} failures, before seed {seeds[min(at + BATCH, len(seeds) - 1)]}", flush=True)
            break
    return player.outcomes, failed


def drawn(options: argparse.Namespace, seeds: Sequence[int]) -> list[Case]:
    if options.golden:
        return golden.cases(seeds, options.statements, options.modes)
    cases = [draw_case(seed, options.statements, options.modes, options.without) for seed in seeds]
    return [with_writers_apart(case, built()) for case in cases] if options.apart else cases


def worth_showing(failures: list[Failure], shown: Counter[tuple]) -> list[Failure]:
    """Returns failures of kinds that have not been shown often enough, one of each kind and seed."""
    found: dict[tuple, Failure] = {}
    for failure in failures:
        found.setdefault((failure.case.seed, signature(failure)), failure)
    chosen = []
    for failure in found.values():
        shown[signature(failure)] += 1
        if shown[signature(failure)] <= SHOWN:
            chosen.append(failure)
    return chosen


def signature(failure: Failure) -> tuple:
    """Returns the key of a kind of failures: the error, or the kind of statement and the changes of footers."""
    return (failure.kind,) if failure.kind != WRONG else (failure.question.kind, *sorted(set(failure.changes)))
