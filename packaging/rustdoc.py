#!/usr/bin/env python3
"""In place of rustdoc for `cargo test --doc`: makes the documentation, too, and fails on its warnings.

    RUSTDOC=$PWD/packaging/rustdoc.py cargo test --doc

`cargo doc` would compile all dependencies once more, in another form. The examples need the same libraries that the tests
have linked, and cargo names them here.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent
RUSTDOC = os.environ.get("REAL_RUSTDOC", "rustdoc")

# Options of examples, and whether a value follows.
OF_EXAMPLES = {"--test": False, "--no-run": False, "--nocapture": False, "--test-run-directory": True, "--test-args": True, "--test-runtool": True}


def of_documentation(arguments: list[str]) -> list[str]:
    """The arguments without those of examples.

    >>> of_documentation(["--crate-name", "a", "--test", "--test-run-directory", "/x", "--test-args=b", "src/lib.rs"])
    ['--crate-name', 'a', 'src/lib.rs']
    """
    kept = []
    rest = iter(arguments)
    for argument in rest:
        name, equals, _ = argument.partition("=")
        if name not in OF_EXAMPLES:
            kept.append(argument)
        elif OF_EXAMPLES[name] and not equals:
            next(rest, None)
    return kept


def main() -> int:
    arguments = sys.argv[1:]
    if "--test" in arguments:
        target = os.environ.get("CARGO_TARGET_DIR", TOP / "target")
        documented = subprocess.run([RUSTDOC, *of_documentation(arguments), "--out-dir", Path(target) / "doc", "-D", "warnings"])
        if documented.returncode:
            return documented.returncode
    return subprocess.run([RUSTDOC, *arguments]).returncode


if __name__ == "__main__":
    sys.exit(main())
