"""Writers and readers from Python, in an environment of their own below the target directory."""

from ..packages import TARGET, install_packages

VENV = TARGET / "files-venv"
#: Versions decide what is drawn from a seed.
PACKAGES = ["pyarrow==26.0.1", "duckdb==1.5.5", "polars==2.1.0", "fastparquet==2026.9.0"]
#: Where files are written.
FOLDER = TARGET / "files-check"


def install() -> None:
    """Makes them importable; the environment is kept."""
    install_packages(PACKAGES, VENV)
