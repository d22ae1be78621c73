"""DuckDB and a client for coscan, in a separate environment below the target directory."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

TARGET = Path(os.environ.get("CARGO_TARGET_DIR", "target")).resolve()
COSCAN = TARGET / "release" / "coscan"
VENV = TARGET / "duckdb-venv"
#: The version of DuckDB decides the queries of TPC-DS and the tables of a seed.
PACKAGES = ["duckdb==1.5.5", "duckdb-extension-tpcds==1.5.5", "psycopg[binary]", "pyarrow==26.0.1", "pytz"]


class Missing(Exception):
    """A requirement of the checks is missing."""


def install_packages(packages: Sequence[str] = PACKAGES, venv: Path = VENV) -> None:
    """Makes packages importable, and keeps their environment."""
    # An environment for another list may lack some packages.
    ready, wanted = venv / "ready", "\n".join(packages)
    if not ready.exists() or ready.read_text() != wanted:
        try:
            subprocess.run([sys.executable, "-m", "venv", venv], check=True, capture_output=True)
            install = [venv / "bin" / "python", "-m", "pip", "install", "--quiet", *packages]
            subprocess.run(install, check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError) as error:
            raise Missing(f"{', '.join(packages)} cannot be installed: {error}") from error
        ready.write_text(wanted)
    sys.path[:0] = [str(path) for path in (venv / "lib").glob("python*/site-packages")]


def install_packages_or_exit() -> None:
    """Calls `install_packages` for a command. Prints missing requirements and exits."""
    try:
        install_packages()
    except Missing as missing:
        sys.exit(str(missing))


def tpcds_extension() -> Path:
    """Returns DuckDB's extension with data and queries of TPC-DS."""
    found = next((VENV / "lib").glob("python*/site-packages/duckdb_extension_tpcds/**/tpcds.duckdb_extension"), None)
    if found is None:
        raise Missing("duckdb-extension-tpcds has no extension for this platform")
    return found
