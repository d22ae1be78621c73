"""Random queries over random tables: compares coscan's answers with DuckDB's.

    python3 -m checks.random_sql --seeds 0..1000 --jobs 2
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .campaign import Case, Kind, run
from .in_duckdb import DuckDb
from .packages import install_packages_or_exit
from .queries import Queries


@contextmanager
def in_duckdb(database, _case: Case, _folder: Path) -> Iterator[DuckDb]:
    # This rule rewrites `a + 1 < 0` to a comparison that cannot overflow.
    database.execute("SET disabled_optimizers = 'expression_rewriter'")
    yield DuckDb(database)


KIND = Kind("random_sql", "DuckDB", Queries, None, in_duckdb)


if __name__ == "__main__":
    install_packages_or_exit()
    sys.exit(run(KIND))
