"""Python writers and readers, in a separate environment below the target directory."""

from ..packages import TARGET, install_packages

VENV = TARGET / "files-venv"
#: Versions decide what a seed draws.
PACKAGES = ["pyarrow==26.0.1", "duckdb==1.5.5", "polars==2.1.0", "fastparquet==2026.9.0"]
#: The folder of written files.
FOLDER = TARGET / "files-check"


def install() -> None:
    """Makes the packages importable, and keeps the environment."""
    install_packages(PACKAGES, VENV)
