"""Runs statements over versions of lake tables, on coscan and on DuckDB over the rows that the writer's own reader returns.

    python3 -m checks.lake --seeds 0..10000 --coscan PATH

Without `--seeds` it runs the part of `make lake-test`. A failure is printed with its seed, version and statement, and a
command that shows it. Its table is kept.
"""

from __future__ import annotations

import os
import sys

from ..packages import COSCAN, TARGET, Missing, install_packages
from . import PACKAGES


def main() -> int:
    require_all = os.environ.get("COSCAN_REQUIRE_ALL") == "1"
    try:
        install_packages(PACKAGES, TARGET / "lake-venv")
    except Missing as missing:
        print(f"left out, lake tables of other writers: {missing}")
        return 1 if require_all else 0
    from .delta import DeltaDrawn
    from .drawn import run
    from .ducklake import DuckLakeDrawn
    from .iceberg import IcebergDrawn

    return run({"delta": DeltaDrawn, "iceberg": IcebergDrawn, "ducklake": DuckLakeDrawn}, sys.argv[1:], COSCAN, TARGET / "lake-check")


if __name__ == "__main__":
    sys.exit(main())
