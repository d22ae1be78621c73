"""The 22 queries of TPC-H in a session of the package `datafusion`, with the extension and without."""

from __future__ import annotations

import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from datafusion import SessionContext

import coscan

QUERIES = Path(__file__).parents[2] / "crates" / "datafusion" / "tests" / "tpch"


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The tables at scale 0.01, which the command of the package writes."""
    folder = tmp_path_factory.mktemp("tpch")
    command = [sys.executable, "-m", "coscan", "generate", "tpch", "--scale-factor", "0.01", "--row-group-rows", "5000"]
    subprocess.run([*command, "--out", folder], check=True, capture_output=True)
    return sorted(folder.glob("*.parquet"))


def session(tables: list[Path], *extensions: coscan.Extension) -> SessionContext:
    ctx = SessionContext().with_extensions(*extensions)
    for table in tables:
        ctx.register_parquet(table.stem, str(table))
    return ctx


def rounded(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """The rows without the last digits of floating-point numbers, whose sums depend on the order of rows."""

    def plain(value: Any) -> Any:
        return round(float(value), 2) if isinstance(value, (float, Decimal)) else value

    return [tuple(plain(value) for value in row.values()) for row in rows]


def test_all_answers_are_equal_and_planned_by_coscan(tables: list[Path]) -> None:
    extension = coscan.Extension(buffer="64MB", small_table_bytes=0)
    plain, cooperative = session(tables), session(tables, extension)
    queries = sorted(QUERIES.glob("q*.sql"))
    assert len(queries) == 22
    for query in queries:
        sql = query.read_text().strip().rstrip(";")
        found = rounded(cooperative.sql(sql).to_arrow_table().to_pylist())
        assert found == rounded(plain.sql(sql).to_arrow_table().to_pylist()), query.name
    assert (extension.planned, extension.left) == (22, 0), extension.reason
    assert extension.connection.stats()["bytes_read"] > 0
