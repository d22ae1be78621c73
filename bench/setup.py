"""Requirements of a measurement: coscan's binary, the table, the engines from PyPI.

The binary is not built here. A virtual environment that this file did not make is never changed.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from bench import engines
from bench.engines import Engine
from bench.workload import Table

REQUIREMENTS = Path(__file__).with_name("requirements.txt")
# About the default of DuckDB and other writers, which favours neither coscan nor the others.
ROW_GROUP_ROWS = 122_880
# The file in an environment that says it was made here, and from which requirements.
STAMP = "coscan-bench"
PIP_LIMIT_S = 900


class Missing(Exception):
    """Something that measurements need is missing. The text says what to do."""


def say(text: str) -> None:
    """Prints progress on stderr. stdout is for the report."""
    print(text, file=sys.stderr, flush=True)


def binary(path: Path) -> Path:
    """Checks coscan's binary, and that the system provides the use of processes."""
    if not Path("/proc/self/status").exists():
        raise Missing("this needs Linux: what engines use is read from /proc")
    if not path.is_file() or not os.access(path, os.X_OK):
        raise Missing(f"there is no program {path}; `make bench` builds it, --coscan names another")
    return path.resolve()


def table(coscan: Path, data: Path, scale_factor: str) -> Table:
    """Returns lineitem in `data`, and generates it if it is missing."""
    folder = data / f"bench-sf{scale_factor}"
    say(f"lineitem at scale factor {scale_factor}: {folder}")
    generate = [coscan, "generate", "tpch", "--tables", "lineitem", "--scale-factor", scale_factor]
    _output([*generate, "--row-group-rows", ROW_GROUP_ROWS, "--out", folder])
    file = (folder / "lineitem.parquet").resolve()
    sql = "SELECT min(l_orderkey) AS low, max(l_orderkey) AS high, count(*) AS n FROM lineitem"
    answer = json.loads(_output([coscan, "sql", "--table", f"lineitem={file}", "--format", "json", "-c", sql]))[0]
    return Table((str(file),), answer["n"], answer["low"], answer["high"], file.stat().st_size)


def contenders(names: Sequence[str], coscan: Path, venv: Path) -> tuple[list[Engine], dict[str, str]]:
    """Returns the usable engines of these names, and the reasons why others are not."""
    found: list[Engine] = []
    left_out: dict[str, str] = {}
    wanted = [name for name in names if name in engines.PEERS]
    reason = environment(venv) if wanted else None
    python = venv.absolute() / "bin" / "python"
    for name in names:
        if name == engines.PLAIN:
            found.append(engines.plain(coscan))
        elif name not in engines.PEERS:
            found.append(engines.coscan(coscan, name))
        else:
            why = reason or _import_error(python, name)
            if why is None:
                found.append(engines.peer(name, python))
            else:
                left_out[name] = why
    return found, left_out


def environment(venv: Path) -> str | None:
    """Makes a virtual environment with the packages in `requirements.txt`. Returns the reason if it cannot."""
    stamp = venv / STAMP
    digest = hashlib.sha256(REQUIREMENTS.read_bytes()).hexdigest()
    if venv.exists() and not stamp.exists():
        return None if (venv / "bin" / "python").exists() else f"{venv} is no virtual environment"
    if stamp.exists() and stamp.read_text() == digest:
        return None
    say(f"other engines from PyPI: {venv}")
    if not stamp.exists():
        why = _failure([sys.executable, "-m", "venv", venv])
        if why is not None:
            # The remaining files would look like the user's own environment.
            shutil.rmtree(venv, ignore_errors=True)
            return f"`python3 -m venv` failed: {why}"
        stamp.write_text("")
    pip = [venv / "bin" / "python", "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--retries", "1"]
    why = _failure([*pip, "-r", REQUIREMENTS])
    if why is None:
        stamp.write_text(digest)
        return None
    # A package that does not exist for this system must not affect the others.
    for line in REQUIREMENTS.read_text().splitlines():
        if line and not line.startswith("#"):
            why = _failure([*pip, line])
            if why is not None:
                say(f"pip install {line}: {why}")
    return None


def _import_error(python: Path, name: str) -> str | None:
    return _failure([python, "-c", f"import {name}"])


def _failure(command: Sequence[object]) -> str | None:
    """Runs a command. Returns its error if it fails, otherwise None."""
    try:
        _output(command, PIP_LIMIT_S)
    except Missing as error:
        return str(error)
    return None


def _output(command: Sequence[object], limit_s: float | None = None) -> str:
    """Returns the output of a command."""
    words = [str(word) for word in command]
    try:
        return subprocess.run(words, check=True, capture_output=True, text=True, timeout=limit_s).stdout
    except subprocess.CalledProcessError as error:
        lines = [line for line in error.stderr.splitlines() if line.strip()]
        raise Missing(lines[-1].strip()[:300] if lines else f"{words[0]} ended with {error.returncode}") from error
    except subprocess.TimeoutExpired as error:
        raise Missing(f"{words[0]} took more than {limit_s:.0f} s") from error
    except OSError as error:
        raise Missing(f"{words[0]}: {error.strerror}") from error
