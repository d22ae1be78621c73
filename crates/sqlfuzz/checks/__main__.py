"""Runs the comparison with DuckDB, or says in one line why not: `make duckdb-test`."""

import os
import sys
import unittest

from . import random_sql, tests, tpcds
from .packages import COSCAN, Missing, install_packages

#: As many as a minute has room for, with the program that the tests build.
SEEDS = range(20)


def main() -> int:
    require_all = os.environ.get("COSCAN_REQUIRE_ALL") == "1"
    try:
        if not COSCAN.exists():
            raise Missing(f"{COSCAN} is missing: make duckdb-test builds it")
        install_packages()
    except Missing as missing:
        print(f"left out, the comparison with DuckDB: {missing}")
        return 1 if require_all else 0
    load = unittest.defaultTestLoader.loadTestsFromModule
    passed = [
        unittest.TextTestRunner().run(load(tests)).wasSuccessful(),
        tpcds.check(tpcds.SCALE, COSCAN),
        random_sql.check(SEEDS, COSCAN),
    ]
    return 0 if all(passed) else 1


if __name__ == "__main__":
    sys.exit(main())
