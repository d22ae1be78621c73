"""The command `coscan`, which is the same program as the binary."""

from __future__ import annotations

import signal
import sys

from . import _coscan


def main() -> None:
    """Runs the program with the arguments of this process, and ends with its exit code."""
    # The program has handlers of its own. Python's would only set a flag.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.exit(_coscan.main(["coscan", *sys.argv[1:]]))


if __name__ == "__main__":
    main()
