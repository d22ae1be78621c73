"""Random queries over random tables: coscan's answers against DuckDB's.

    python3 -m checks.random_sql --seeds 0..1000 --queries 40

A seed is tables, settings and queries; the same seed always draws the same. The queries of a seed are asked on several
connections at once, so that their scans are shared. A failure is shown with a smaller query that fails in the same way, if
the query does so alone, and with the command that plays it again.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import sys
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from .compare import Answer, difference
from .packages import COSCAN, TARGET, install_packages_or_exit
from .parts import Query, shrink
from .queries import Queries
from .server import Server
from .settings import Settings, draw_settings
from .sides import DIFFERENT, Given, Sides, is_failure, outcome
from .tables import Table, draw_tables, write_tables

QUERIES = 40
CONNECTIONS = 4
SHRINK_SECONDS = 20


@dataclass
class Tally:
    """What became of the queries, and the failures in words."""

    outcomes: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return ", ".join(f"{count} {what}" for what, count in self.outcomes.most_common())


@dataclass(frozen=True)
class Case:
    """A seed, drawn."""

    seed: int
    tables: list[Table]
    settings: Settings
    queries: list[Query]


def draw_case(seed: int, queries: int) -> Case:
    draw = random.Random(seed)
    tables, settings = draw_tables(draw), draw_settings(draw)
    # Every query has dice of its own: it is the same however many are drawn.
    return Case(seed, tables, settings, [Queries(random.Random(f"{seed}/{at}")).query() for at in range(queries)])


def play(case: Case, coscan: Path, chosen: Sequence[int], tally: Tally) -> None:
    """Puts these queries of a seed to both sides. The files of a seed that fails are kept."""
    import duckdb

    folder = TARGET / "duckdb-check" / f"{os.getpid()}-{case.seed}"
    folder.mkdir(parents=True)
    database = duckdb.connect(config={"threads": 1})
    write_tables(database, case.tables, folder)
    places = {table.name: table.path(folder) for table in case.tables}
    with Server(coscan, places, case.settings.server, folder / "log") as server:
        sides = Sides(database, server, case.settings.session)
        judgements = [judged(case, at, sides, wanted, given, tally) for at, wanted, given in asked(case, chosen, sides, tally)]
    database.close()
    failures = [words for words in judgements if words]
    tally.failures += failures
    if not failures:
        shutil.rmtree(folder)


def asked(case: Case, chosen: Sequence[int], sides: Sides, tally: Tally) -> list[tuple[int, Answer, Given]]:
    """The answers of both, coscan's to all questions at once."""
    answers: dict[int, Answer] = {}
    for at in chosen:
        answer = sides.ask_duckdb(case.queries[at])
        if isinstance(answer, Answer):
            answers[at] = answer
        else:
            tally.outcomes[answer] += 1
    with ThreadPoolExecutor(CONNECTIONS) as pool:
        given = list(pool.map(sides.ask_coscan, [case.queries[at] for at in answers]))
    return [(at, answers[at], rows) for at, rows in zip(answers, given)]


def judged(case: Case, at: int, sides: Sides, wanted: Answer, given: Given, tally: Tally) -> str | None:
    """Counts what became of a query; if it failed, the failure in words."""
    query = case.queries[at]
    what = outcome(wanted, given)
    tally.outcomes[what] += 1
    if not is_failure(what):
        return None
    smaller: Query | str
    if what != DIFFERENT and tally.outcomes[what] > 1:
        smaller = "not looked for, the error is known"
    elif sides.outcome_alone(query) != what:
        smaller = "none, it fails only beside the others"
    else:
        smaller = shrink(query, lambda less: sides.outcome_alone(less) == what, SHRINK_SECONDS)
    again = f"python3 -m checks.random_sql --seeds {case.seed}..{case.seed + 1} --queries {len(case.queries)}"
    return "\n  ".join([
        f"seed {case.seed}, query {at}: {query}",
        f"again: CARGO_TARGET_DIR={TARGET} {again} [--only {at}]",
        f"server: {sides.server}",
        f"session: {'; '.join(sides.session)}",
        str(given if isinstance(given, Exception) else difference(wanted, given)),
        f"smaller: {smaller}",
    ])


def check(seeds: Sequence[int], coscan: Path, queries: int = QUERIES, only: int | None = None) -> bool:
    """Plays the seeds and says what became of them. Returns whether nothing failed."""
    begin, tally = time.monotonic(), Tally()
    chosen = range(queries) if only is None else [only]
    for seed in seeds:
        known = len(tally.failures)
        play(draw_case(seed, queries), coscan, chosen, tally)
        for failure in tally.failures[known:]:
            print(failure, flush=True)
    print(f"random SQL, seeds {seeds[0]}..{seeds[-1] + 1}: {tally} ({time.monotonic() - begin:.0f} s)", flush=True)
    return not tally.failures


def seed_range(text: str) -> range:
    first, _, end = text.partition("..")
    return range(int(first), int(end or int(first) + 1))


def main() -> int:
    parser = argparse.ArgumentParser(description="coscan's answers to random SQL against DuckDB's")
    parser.add_argument("--seeds", type=seed_range, default=range(20), metavar="A..B", help="which seeds [default: 0..20]")
    parser.add_argument("--queries", type=int, default=QUERIES, metavar="N", help=f"queries of a seed [default: {QUERIES}]")
    parser.add_argument("--only", type=int, metavar="N", help="this query of each seed alone")
    parser.add_argument("--coscan", type=Path, default=COSCAN, help="the program [default: that of the target directory]")
    options = parser.parse_args()
    install_packages_or_exit()
    return 0 if check(options.seeds, options.coscan, options.queries, options.only) else 1


if __name__ == "__main__":
    sys.exit(main())
