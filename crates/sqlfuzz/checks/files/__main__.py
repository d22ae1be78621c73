"""Puts statements about files of many writers, with changed footers, to coscan and to other engines.

    python3 -m checks.files --seeds 0..100000 --jobs 2 --coscan PATH

Without `--seeds` it is what `make files-test` runs: the tests of the machine, files that are kept, and a few seeds. A failure
is printed with its seed, statement, mode and a command that shows it; its files are kept, made smaller.
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
