"""Runs the checks with real clients, or prints one line with the reason why not: `make serve-test`."""

import os
import sys
import unittest

from . import clients, errors, hostile_connections, hostile_logins, hostile_plans, hostile_statements, prepared, proofs, shell, tests, tools, traces, values
from .server import Missing, client_packages

#: The modules with tests.
MODULES = [tests, clients, errors, prepared, values, hostile_logins, hostile_connections, hostile_statements, hostile_plans,
           proofs, shell, tools, traces]


def main() -> int:
    require_all = os.environ.get("COSCAN_REQUIRE_ALL") == "1"
    try:
        client_packages()
    except Missing as missing:
        print(f"left out, the tests of coscan serve with real clients: {missing}")
        return 1 if require_all else 0
    load = unittest.defaultTestLoader.loadTestsFromModule
    result = unittest.TextTestRunner().run(unittest.TestSuite(load(module) for module in MODULES))
    for test, why in result.skipped:
        print(f"left out, {test}: {why}")
    return 0 if result.wasSuccessful() and not (require_all and result.skipped) else 1


if __name__ == "__main__":
    sys.exit(main())
