"""Delta tables, of which Spark has written one with deleted rows."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import coscan

DELETED = Path(__file__).parents[2] / "crates/lake/tests/delta/spark/deleted"


@pytest.mark.parametrize("location", [str(DELETED), f"delta:{DELETED}", f"delta:{DELETED}@v3"])
def test_a_folder_with_a_log_is_a_version_of_its_table(con: coscan.Connection, location: str) -> None:
    con.register("t", location)
    expected = (1680, 1762740) if location.endswith("@v3") else (1662, 1758822)
    assert con.sql("SELECT count(*), sum(id) FROM t").fetchall() == [expected]
    assert con.sql("SELECT count(id) FROM t WHERE id % 5 = 3").fetchall() == [(0,)]


def test_loops_and_shards_get_the_rows_that_are_left(con: coscan.Connection) -> None:
    con.register("t", DELETED)
    rows = con.sql("SELECT id FROM t").arrow()["id"].to_pylist()
    assert len(rows) == 1662
    assert sorted(pa.table(con.scan("t", ["id"]))["id"].to_pylist()) == sorted(rows)
    found = [pa.table(con.scan("t", ["id"], shard=(at, 3)))["id"].to_pylist() for at in range(3)]
    assert sorted(n for part in found for n in part) == sorted(rows)
