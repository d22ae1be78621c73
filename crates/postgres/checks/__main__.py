"""Runs the tests, or prints in one line what is missing: `make postgres-test`."""

import os
import sys
import unittest

from . import endings, plans, results
from .server import Missing, install_packages

#: The modules with tests.
MODULES = [results, plans, endings]


def main() -> int:
    require_all = os.environ.get("COSCAN_REQUIRE_ALL") == "1"
    try:
        install_packages()
    except Missing as missing:
        print(f"left out, the tests of the PostgreSQL extension: {missing}")
        return 1 if require_all else 0
    load = unittest.defaultTestLoader.loadTestsFromModule
    result = unittest.TextTestRunner().run(unittest.TestSuite(load(module) for module in MODULES))
    if not result.wasSuccessful() or (require_all and result.skipped):
        return 1
    print("left out, PostgreSQL's own suites: make postgres-regress")
    return 0


if __name__ == "__main__":
    sys.exit(main())
