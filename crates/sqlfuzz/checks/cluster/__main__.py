"""Runs the checks of clusters, or prints one line with the reason why it cannot: `make cluster-test`.

    python3 -m checks.cluster [-v] [CLASS.TEST]
"""

from __future__ import annotations

import os
import sys
import unittest

from ..packages import COSCAN, Missing, install_packages

try:
    if not COSCAN.exists():
        raise Missing(f"{COSCAN} is missing: make cluster-test builds it")
    install_packages()
except Missing as missing:
    print(f"left out, clusters: {missing}")
    sys.exit(1 if os.environ.get("COSCAN_REQUIRE_ALL") == "1" else 0)

from .answers import AgainstDuckDb, Answers  # noqa: F401
from .failures import Served, WhoMaySendPlans  # noqa: F401
from .manifests import Manifests  # noqa: F401

if __name__ == "__main__":
    unittest.main(module="checks.cluster.__main__")
