"""Random queries over random tables: compares coscan's answers with PostgreSQL's.

    python3 -m checks.random_postgresql --seeds 0..1000 --jobs 2
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

from .campaign import Case, Kind, run
from .in_postgresql import Postgresql, PostgresqlServer, install_server
from .packages import Missing, install_packages_or_exit
from .postgresql_queries import PostgresqlQueries

#: Numbers of rows of a table: small.
ROWS = (0, 1, 3, 5, 12, 12, 12, 40, 40, 40, 40, 40, 100, 100, 300)


def in_postgresql(server: PostgresqlServer, database, case: Case, folder: Path) -> Postgresql:
    return Postgresql(server, database, {table.name: table.types for table in case.tables}, folder)


def kind(server: PostgresqlServer) -> Kind:
    """Returns the comparison with this server."""
    return Kind("random_postgresql", "PostgreSQL", PostgresqlQueries, ROWS, partial(in_postgresql, server))


def main() -> int:
    install_packages_or_exit()
    try:
        install_server()
    except Missing as missing:
        sys.exit(str(missing))
    with PostgresqlServer() as server:
        return run(kind(server))


if __name__ == "__main__":
    sys.exit(main())
