"""Tables that Spark has written, and a catalog of them."""

from __future__ import annotations

import sqlite3
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


def test_catalogs(con: coscan.Connection, tmp_path: Path) -> None:
    database = tmp_path / "catalog.db"
    with sqlite3.connect(database) as made:
        made.execute("CREATE TABLE iceberg_tables (catalog_name, table_namespace, table_name, metadata_location)")
        made.execute("CREATE TABLE iceberg_namespace_properties (catalog_name, namespace, property_key)")
        made.execute("INSERT INTO iceberg_namespace_properties VALUES ('c', 'n', 'exists')")
        made.execute("INSERT INTO iceberg_tables VALUES ('c', 'n', 'gone', '/no/such/file.metadata.json')")
    con.attach("lake", f"iceberg+sqlite://{database}")
    with pytest.raises(coscan.ProgrammingError, match="not found"):
        con.sql("SELECT count(*) FROM lake.n.t").fetchall()
    with pytest.raises(coscan.Error, match="no/such/file"):
        con.sql("SELECT count(*) FROM lake.n.gone").fetchall()
    with pytest.raises(coscan.Error, match="iceberg"):
        con.attach("other", "s3://bucket")
