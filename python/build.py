"""Builds the wheel, installs it into an environment, and runs the tests of the package.

    python3 python/build.py                     # everything, as `make python` does
    python3 python/build.py --keep -k parameters    # without a new wheel; what follows goes to pytest

The wheel is built by maturin in the profile that the environment variable BUILD_OPTIONS gives to cargo, which is that of
the repository's other tests: dependencies are compiled once. Environment and wheel are below the target directory.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", HERE.parent / "target")).resolve()
ENVIRONMENT = TARGET / "python"
PYTHON = ENVIRONMENT / "bin" / "python"
WHEELS = TARGET / "wheels"

REQUIREMENTS = HERE / "requirements.txt"


def run(*command: object, **options: object) -> None:
    """Runs a command, and ends this program if it fails."""
    done = subprocess.run([str(part) for part in command], **options)  # type: ignore[call-overload]
    if done.returncode:
        sys.exit(done.returncode)


def environment() -> None:
    """Makes the environment with the packages that the tests need."""
    stamp = ENVIRONMENT / "requirements.txt"
    if stamp.exists() and stamp.read_text() == REQUIREMENTS.read_text():
        return
    venv.create(ENVIRONMENT, with_pip=True, clear=True)
    run(PYTHON, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", REQUIREMENTS)
    shutil.copy(REQUIREMENTS, stamp)


def wheel() -> Path:
    """Builds the wheel."""
    shutil.rmtree(WHEELS, ignore_errors=True)
    options = shlex.split(os.environ.get("BUILD_OPTIONS", "--release --locked"))
    maturin = ENVIRONMENT / "bin" / "maturin"
    where = {**os.environ, "CARGO_TARGET_DIR": str(TARGET)}
    run(maturin, "build", "--quiet", "--compatibility", "linux", "--out", WHEELS, *options, cwd=HERE, env=where)
    (built,) = WHEELS.glob("*.whl")
    return built


def checks(arguments: list[str]) -> None:
    """Runs the tests."""
    if not arguments:
        run(PYTHON, "make_settings.py", "--check", cwd=HERE)
        run(PYTHON, "-m", "mypy", cwd=HERE)
        run(PYTHON, "-m", "pyright", "--pythonpath", PYTHON, cwd=HERE)
        run(PYTHON, "-m", "ruff", "check", ".", cwd=HERE)
        run(PYTHON, "-m", "pytest", "--doctest-modules", "--pyargs", "coscan", cwd=HERE)
    run(PYTHON, "-m", "pytest", *arguments, cwd=HERE)


def main() -> None:
    arguments = sys.argv[1:]
    environment()
    if "--keep" in arguments:
        arguments.remove("--keep")
    else:
        built = wheel()
        with zipfile.ZipFile(built) as packed:
            assert any(name.endswith("_coscan.abi3.so") for name in packed.namelist()), packed.namelist()
        print(f"{built.name}: {built.stat().st_size / 1e6:.1f} MB")
        run(PYTHON, "-m", "pip", "install", "--quiet", "--force-reinstall", "--no-deps", built)
    checks(arguments)


if __name__ == "__main__":
    main()
