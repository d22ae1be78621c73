"""Runs statements over files of many writers, with changed footers, on coscan and on other engines.

    python3 -m checks.files --seeds 0..100000 --jobs 2 --coscan PATH

Without `--seeds` it runs the part of `make files-test`: tests of the machinery, stored files, and a few seeds. A
failure is printed with its seed, statement, mode and a command that shows it. Its files are shrunk and kept.
"""

from __future__ import annotations

import os
import sys

from ..packages import COSCAN, Missing
from .environment import install


def main() -> int:
    require_all = os.environ.get("COSCAN_REQUIRE_ALL") == "1"
    try:
        install()
    except Missing as missing:
        print(f"left out, files of other writers: {missing}")
        return 1 if require_all else 0
    from .campaign import run

    return run(sys.argv[1:], COSCAN)


if __name__ == "__main__":
    sys.exit(main())
