"""Checks dependencies: licences and sources from Cargo.lock alone, and advisories if cargo-deny is installed.

    make audit

Licences and sources are read with `cargo metadata`, without a network, and compared with `deny.toml`. Advisories
need cargo-deny (`cargo install cargo-deny`) and its database. If it is missing, one line says so. That is no
failure even with COSCAN_REQUIRE_ALL=1, because known advisories are no property of this tree.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CARGO = os.environ.get("CARGO", "cargo")
REGISTRY = "registry+https://github.com/rust-lang/crates.io-index"


def allowed() -> set[str]:
    """Returns the licences in deny.toml. Parsed by lines, because Python 3.10 has no TOML parser."""
    block = re.search(r"\[licenses\].*?allow = \[(.*?)\]", (ROOT / "deny.toml").read_text(), re.S)
    return set(re.findall(r'"([^"]+)"', block[1]))


def fits(expression: str, allowed: set[str]) -> bool:
    """Returns true if these licences satisfy an SPDX expression."""
    words = re.findall(r"\(|\)|/|[^\s()/]+", expression)

    def either() -> bool:
        met = both()
        while words and words[0] in ("OR", "/"):
            words.pop(0)
            met = both() or met
        return met

    def both() -> bool:
        met = one()
        while words and words[0] == "AND":
            words.pop(0)
            met = one() and met
        return met

    def one() -> bool:
        word = words.pop(0)
        if word == "(":
            met = either()
            words.pop(0)
            return met
        if words and words[0] == "WITH":
            word = f"{word} {words.pop(0)} {words.pop(0)}"
        return word in allowed

    met = either()
    if words:
        raise ValueError(f"{expression}: what comes from {words[0]} on is not understood")
    return met


def faults(packages: list[dict], allowed: set[str]) -> list[str]:
    """Returns the faults of packages from outside this workspace."""
    found = []
    for package in packages:
        if package["source"] is None:
            continue
        name = f"{package['name']} {package['version']}"
        if package["source"] != REGISTRY:
            found.append(f"{name} comes from {package['source']}")
        if not package["license"] or not fits(package["license"], allowed):
            found.append(f"{name} has the licence {package['license']}, which deny.toml does not allow")
    return found


def main() -> int:
    metadata = [CARGO, "metadata", "--locked", "--format-version", "1", "--manifest-path", str(ROOT / "Cargo.toml")]
    packages = json.loads(subprocess.run(metadata, check=True, capture_output=True).stdout)["packages"]
    # The check itself must be able to fail.
    assert not fits("GPL-3.0-only", allowed()) and not fits("MIT AND GPL-3.0-only", allowed()) and fits("(MIT OR X) AND ISC", allowed())
    found = faults(packages, allowed())
    print("\n".join(found) or f"{len(packages)} packages: licences and sources are allowed")
    if subprocess.run([CARGO, "deny", "--version"], capture_output=True).returncode:
        print("left out, known holes in dependencies: cargo-deny is missing (cargo install cargo-deny)")
        return 1 if found else 0
    advisories = subprocess.run([CARGO, "deny", "--locked", "check", "advisories", "bans", "sources", "licenses"], cwd=ROOT)
    return 1 if found else advisories.returncode


if __name__ == "__main__":
    sys.exit(main())
