"""Scans of tables for one's own loops."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import coscan
from conftest import ROWS


def column(scan: coscan.Scan, name: str = "n") -> list[int]:
    return pa.table(scan)[name].to_pylist()


def test_all_rows_come_once_in_any_order(con: coscan.Connection) -> None:
    assert sorted(column(con.scan("numbers"))) == list(range(ROWS))


def test_columns_and_filters(con: coscan.Connection) -> None:
    table = pa.table(con.scan("numbers", ["k", "n"], "n < 20 AND k = 3"))
    assert table.schema.names == ["k", "n"]
    assert sorted(table["n"].to_pylist()) == [3, 10, 17]
    assert len(pl.DataFrame(con.scan("numbers", ["n"], "k = 1"))) == len(range(1, ROWS, 7))


@pytest.mark.parametrize("size", [1_000, 30_011])
def test_batches_have_the_size(con: coscan.Connection, size: int) -> None:
    sizes = [batch.num_rows for batch in con.scan("numbers", ["n"], batch_size=size)]
    assert sum(sizes) == ROWS
    assert set(sizes[:-1]) == {size}
    assert 0 < sizes[-1] <= size


def test_rows_come_in_the_order_of_the_files(con: coscan.Connection, tmp_path: Path) -> None:
    assert column(con.scan("numbers", in_order=True)) == list(range(ROWS))
    for part in range(5):
        rows = range(part * 10_000, (part + 1) * 10_000)
        pq.write_table(pa.table({"n": rows}), tmp_path / f"{part}.parquet", row_group_size=1_000)
    con.register("parts", tmp_path)
    assert column(con.scan("parts", in_order=True, batch_size=777)) == list(range(50_000))


@pytest.mark.parametrize("count", [2, 4, 7, 64])
@pytest.mark.parametrize("in_order", [False, True])
def test_shards_have_each_row_once(con: coscan.Connection, count: int, in_order: bool) -> None:
    shards = [column(con.scan("numbers", shard=(at, count), in_order=in_order)) for at in range(count)]
    assert sorted(n for shard in shards for n in shard) == list(range(ROWS))
    if count <= 7:
        assert max(map(len, shards)) < 2 * ROWS / count
    if in_order:
        assert [n for shard in shards for n in shard] == list(range(ROWS))


def test_epochs_of_several_loops_share_reads(numbers: Path) -> None:
    with coscan.connect(buffer="64MB", small_table_bytes=0) as con:
        con.register("numbers", numbers)

        def epochs(_: int) -> int:
            scan = con.scan("numbers", batch_size=1024)
            return sum(batch.num_rows for _ in range(2) for batch in scan)

        with ThreadPoolExecutor(4) as threads:
            assert list(threads.map(epochs, range(4))) == [2 * ROWS] * 4
        assert con.stats()["bytes_read"] < 1.2 * numbers.stat().st_size


def test_wrong_scans(con: coscan.Connection) -> None:
    for wrong in ({"shard": (2, 2)}, {"shard": (-1, 2)}, {"batch_size": 0}):
        with pytest.raises(coscan.ProgrammingError):
            con.scan("numbers", **wrong)  # type: ignore[arg-type]
    with pytest.raises(coscan.ProgrammingError, match="nothing"):
        list(con.scan("numbers", ["nothing"]))
    con.register("memory", pa.table({"a": [1]}))
    assert column(con.scan("memory"), "a") == [1]
    with pytest.raises(coscan.ProgrammingError, match="Parquet"):
        list(con.scan("memory", shard=(0, 2)))


def test_a_scan_runs_again(con: coscan.Connection) -> None:
    scan = con.scan("numbers", ["n"], "n < 10", in_order=True)
    assert [column(scan), column(scan)] == [list(range(10))] * 2
