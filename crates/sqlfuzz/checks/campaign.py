"""Random queries over random tables: compares coscan's answers with those of another engine.

A seed determines tables, settings and queries. The same seed always draws the same. The queries of a seed run
concurrently on several connections, so that their scans are shared. A failure is shown with the command that repeats
it. If the query also fails alone, a smaller query that fails in the same way is shown, too.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from .packages import COSCAN, TARGET
from .parts import Query, shrink
from .queries import Queries
from .server import Server
from .settings import Settings, draw_settings
from .sides import Given, Oracle, Sides, Wanted, in_words, is_failure
from .tables import Table, draw_tables, write_tables

QUERIES = 40
CONNECTIONS = 4
SHRINK_SECONDS = 20


@dataclass(frozen=True)
class Case:
    """The case of a seed."""

    seed: int
    tables: list[Table]
    settings: Settings
    queries: list[Query]


@dataclass(frozen=True)
class Kind:
    """A comparison: the module that runs it, the other engine, its tables and queries."""

    module: str
    engine: str
    queries: type[Queries]
    #: The possible numbers of rows of a table; `None` for those of `tables.py`.
    rows: tuple[int, ...] | None
    #: The engine with the tables of a case. The first argument is DuckDB with these tables, the folder is for files.
    oracle: Callable[[object, Case, Path], AbstractContextManager[Oracle]]

    def draw(self, seed: int, queries: int) -> Case:
        draw = random.Random(seed)
        tables, settings = draw_tables(draw, self.rows), draw_settings(draw)
        # Every query has its own dice, so it does not depend on the number of queries.
        odd = [(table.name, column) for table in tables for column in table.layout.odd()]
        drawn = [self.queries(random.Random(f"{seed}/{at}"), odd).query() for at in range(queries)]
        return Case(seed, tables, settings, drawn)


@dataclass(frozen=True)
class Options:
    coscan: Path = COSCAN
    queries: int = QUERIES
    only: int | None = None
    shrink_seconds: float = SHRINK_SECONDS

    def chosen(self) -> Sequence[int]:
        return range(self.queries) if self.only is None else [self.only]


@dataclass
class Tally:
    """Counts of outcomes, and the failures as text."""

    outcomes: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)

    def add(self, other: Tally) -> None:
        self.outcomes += other.outcomes
        self.failures += other.failures

    def __str__(self) -> str:
        return ", ".join(f"{count} {what}" for what, count in self.outcomes.most_common())


def play(kind: Kind, options: Options, seed: int) -> Tally:
    """Runs the queries of a seed on both sides. Keeps the files of a failing seed."""
    import duckdb

    tally, case = Tally(), kind.draw(seed, options.queries)
    repeated = [table.name for table in case.tables if table.layout.repeated]
    folder = TARGET / "duckdb-check" / f"{kind.module}-{os.getpid()}-{seed}"
    folder.mkdir(parents=True)
    database = duckdb.connect(config={"threads": 1})
    try:
        database.execute("SET TimeZone = 'UTC'")
        write_tables(database, case.tables, folder)
        with kind.oracle(database, case, folder) as oracle, started(case, options.coscan, folder) as server:
            sides = Sides(oracle, server, case.settings.session)
            for at, wanted, given in asked(case, [] if repeated else options.chosen(), sides, tally):
                judge(kind, options, case, at, sides, wanted, given, tally)
            tally.failures += [f"seed {seed}: {table} has two columns of one name, and one of them is lost" for table in repeated]
    except CannotStart as error:
        if repeated and REPEATED in str(error):
            tally.outcomes["refused: two columns of one name"] += 1
        else:
            tally.outcomes["error: the server does not start"] += 1
            tally.failures.append(f"seed {seed}: {error}\n  layouts: {[table.layout for table in case.tables]}")
    finally:
        database.close()
    if not tally.failures:
        shutil.rmtree(folder)
    return tally


#: coscan's error for a file that has two columns of one name.
REPEATED = "two columns of the name"


class CannotStart(Exception):
    """The server did not start over these tables."""


@contextmanager
def started(case: Case, coscan: Path, folder: Path) -> Iterator[Server]:
    places = {table.name: table.path(folder) for table in case.tables}
    try:
        server = Server(coscan, places, case.settings.server, folder / "log")
    except RuntimeError as error:
        raise CannotStart(str(error)) from error
    with server:
        yield server


def asked(case: Case, chosen: Sequence[int], sides: Sides, tally: Tally) -> list[tuple[int, Wanted, Given]]:
    """Returns the answers of both sides. Asks coscan all questions concurrently."""
    answers: dict[int, Wanted] = {}
    for at in chosen:
        answer = sides.oracle.ask(case.queries[at])
        if isinstance(answer, str):
            tally.outcomes[answer] += 1
        else:
            answers[at] = answer
    with ThreadPoolExecutor(CONNECTIONS) as pool:
        given = list(pool.map(sides.ask_coscan, [case.queries[at] for at in answers]))
    return [(at, answers[at], rows) for at, rows in zip(answers, given)]


def judge(kind: Kind, options: Options, case: Case, at: int, sides: Sides, wanted: Wanted, given: Given, tally: Tally) -> None:
    """Counts the outcome of a query, and adds a failure as text."""
    query = case.queries[at]
    what = sides.outcome(query, wanted, given)
    tally.outcomes[what] += 1
    if not is_failure(what):
        return
    smaller: Query | str
    if what.startswith("error: ") and tally.outcomes[what] > 1:
        smaller = "not looked for, the error is known"
    elif sides.outcome_alone(query) != what:
        smaller = "none, it fails only beside the others"
    else:
        smaller = shrink(query, lambda less: sides.outcome_alone(less) == what, options.shrink_seconds)
        smaller = f"{smaller}\n  of it: {in_words(sides.oracle.ask(smaller), sides.ask_coscan(smaller))}"
    again = f"python3 -m checks.{kind.module} --seeds {case.seed}..{case.seed + 1} --queries {len(case.queries)}"
    tally.failures.append("\n  ".join([
        f"seed {case.seed}, query {at}: {what}: {query}",
        f"again: CARGO_TARGET_DIR={TARGET} {again} --coscan {options.coscan} [--only {at}]",
        f"server: {sides.server}",
        f"session: {'; '.join(sides.session)}",
        in_words(wanted, given),
        f"smaller: {smaller}",
    ]))


def check(kind: Kind, seeds: Sequence[int], options: Options, jobs: int = 1, most: int = 10**6) -> bool:
    """Runs the seeds, up to a number of failures, and prints the outcomes. Returns whether nothing failed."""
    begin, total = time.monotonic(), Tally()
    with multiprocessing.get_context("fork").Pool(jobs) if jobs > 1 else nullcontext() as pool:
        for tally in (pool.imap if pool else map)(partial(play, kind, options), seeds):
            total.add(tally)
            for failure in tally.failures:
                print(failure, flush=True)
            if len(total.failures) >= most:
                break
    seconds = time.monotonic() - begin
    what = f"random SQL against {kind.engine}, seeds {seeds[0]}..{seeds[-1] + 1}"
    print(f"{what}: {total.outcomes.total()} cases: {total} ({seconds:.0f} s)", flush=True)
    return not total.failures


def seed_range(text: str) -> range:
    first, _, end = text.partition("..")
    return range(int(first), int(end or int(first) + 1))


def arguments(engine: str) -> argparse.Namespace:
    """Parses the command line of a campaign."""
    parser = argparse.ArgumentParser(description=f"coscan's answers to random SQL against {engine}'s")
    parser.add_argument("--seeds", type=seed_range, default=range(20), metavar="A..B", help="which seeds [default: 0..20]")
    parser.add_argument("--queries", type=int, default=QUERIES, metavar="N", help=f"queries of a seed [default: {QUERIES}]")
    parser.add_argument("--only", type=int, metavar="N", help="this query of each seed alone")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="seeds played at a time [default: 1]")
    parser.add_argument("--shrink", type=float, default=SHRINK_SECONDS, metavar="SECONDS", help="to look for a smaller query")
    parser.add_argument("--most", type=int, default=10**6, metavar="N", help="failures after which it stops")
    parser.add_argument("--coscan", type=Path, default=COSCAN, help="the program [default: that of the target directory]")
    return parser.parse_args()


def run(kind: Kind) -> int:
    """Runs a campaign as the command line says. Returns its exit status."""
    said = arguments(kind.engine)
    options = Options(said.coscan, said.queries, said.only, said.shrink)
    return 0 if check(kind, said.seeds, options, said.jobs, said.most) else 1
