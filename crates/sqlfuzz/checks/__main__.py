"""Runs a comparison, or prints one line with the reason why it cannot: `make duckdb-test`, `make postgresql-answers-test`."""

import os
import sys
import unittest

from . import campaign, dashboards, forms, random_postgresql, random_sql, tests, tpcds
from .campaign import Options
from .in_postgresql import PostgresqlServer, install_server
from .packages import COSCAN, Missing, install_packages

#: The number of seeds that fit into a minute, with the program that the tests build.
SEEDS = range(20)


def against_duckdb() -> bool:
    load = unittest.defaultTestLoader.loadTestsFromModule
    passed = [
        unittest.TextTestRunner().run(load(tests)).wasSuccessful(),
        tpcds.check(tpcds.SCALE, COSCAN),
        campaign.check(random_sql.KIND, SEEDS, Options()),
    ]
    return all(passed)


def against_postgresql() -> bool:
    install_server()
    with PostgresqlServer() as server:
        passed = [
            campaign.check(random_postgresql.kind(server), SEEDS, Options()),
            dashboards.check(dashboards.SEEDS, dashboards.STATEMENTS, COSCAN, server),
            forms.check(COSCAN, server),
        ]
    return all(passed)


ENGINES = {"DuckDB": against_duckdb, "PostgreSQL": against_postgresql}


def main() -> int:
    engine = next((name for name in ENGINES if name.lower() in sys.argv[1:]), "DuckDB")
    try:
        if not COSCAN.exists():
            raise Missing(f"{COSCAN} is missing: make duckdb-test builds it")
        install_packages()
        return 0 if ENGINES[engine]() else 1
    except Missing as missing:
        print(f"left out, the comparison with {engine}: {missing}")
        return 1 if os.environ.get("COSCAN_REQUIRE_ALL") == "1" else 0


if __name__ == "__main__":
    sys.exit(main())
