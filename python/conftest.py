"""What the tests share: a table of Parquet files, and a connection."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import coscan

ROWS = 400_000
"""Rows of the table `numbers`, which is larger than what DataFusion's own scan reads."""


@pytest.fixture(scope="session")
def numbers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with 40 row groups: n from 0, its text, and its remainder."""
    path = tmp_path_factory.mktemp("numbers") / "numbers.parquet"
    n = range(ROWS)
    table = pa.table({"n": pa.array(n, pa.int64()), "text": [f"row {i}" for i in n], "k": [i % 7 for i in n]})
    pq.write_table(table, path, row_group_size=ROWS // 40)
    return path


@pytest.fixture
def con(numbers: Path) -> Iterator[coscan.Connection]:
    """A connection with the table `numbers`, read cooperatively."""
    with coscan.connect(buffer="64MB", small_table_bytes=0) as con:
        con.register("numbers", numbers)
        yield con


@pytest.fixture(autouse=True)
def trips(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The examples of the README run in a folder with the table that they read."""
    if not isinstance(request.node, pytest.DoctestItem):
        return
    (tmp_path / "trips").mkdir()
    for part, rows in enumerate([[("A", 4.0), ("B", 20.0)], [("A", 6.5), ("A", 5.5), ("B", 10.0)]]):
        table = pa.table({"zone": [zone for zone, _ in rows], "fare": [fare for _, fare in rows]})
        pq.write_table(table, tmp_path / "trips" / f"{part}.parquet")
    monkeypatch.chdir(tmp_path)
