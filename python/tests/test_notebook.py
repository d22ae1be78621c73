"""Notebooks: what the last line of a cell shows, and the progress of long statements."""

from __future__ import annotations

import time
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

import coscan
from conftest import ROWS


def outputs(cells: list[str]) -> list[list[dict[str, object]]]:
    """The outputs of cells that run in a kernel of their own."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
    return [cell.outputs for cell in notebook.cells]


def test_results_and_progress(numbers: Path) -> None:
    shown = outputs(
        [
            f"import coscan\ncon = coscan.connect(buffer='64MB')\ncon.register('numbers', '{numbers}')",
            "con.sql('SELECT n, text FROM numbers ORDER BY n')",
            "con.sql('SELECT n FROM numbers WHERE n < 3 ORDER BY n').collect()",
            "slow = coscan.connect(read_limit='1MB', small_table_bytes=0)",
            f"slow.register('numbers', '{numbers}')",
            "slow.sql(\"SELECT count(*) AS c FROM numbers WHERE text LIKE '%ow%'\").df()",
        ]
    )
    assert shown[0] == []
    (table,) = shown[1]
    html = table["data"]["text/html"]  # type: ignore[index]
    assert html.count("<tr>") == 21
    assert "row 19</td>" in html
    assert "the first 20 rows" in html
    (result,) = shown[2]
    assert result["data"]["text/plain"] == "<coscan.Result of 3 rows, 1 columns>"  # type: ignore[index]
    progress, frame = shown[5]
    assert progress["data"]["text/plain"] == "", "the progress is gone at the end"  # type: ignore[index]
    assert str(ROWS) in frame["data"]["text/plain"]  # type: ignore[index]


def test_the_chunk_map_shows_what_is_in_memory(con: coscan.Connection) -> None:
    assert repr(coscan.connect().chunks()) == "<coscan.ChunkMap of no tables>"
    assert "no table was read" in coscan.connect().chunks()._repr_html_()
    con.sql("SELECT sum(n) FROM numbers").fetchall()
    (table,) = con.chunks().tables
    assert table.file.endswith("numbers.parquet") and (table.files, table.columns) == (1, ["n", "text", "k"])
    n, text, k = table.states
    assert set(n) & {"d", "e"} and len(n) == len(k) and set(text) == set(k) == {"."}
    assert table.wanted == [[0] * len(n)] * 3
    assert sum(table.shares().values()) == pytest.approx(1)
    html = con.chunks()._repr_html_()
    assert html.count("<rect") == 5 + 3 * len(n) and "numbers.parquet: " in html
    con.sql("SELECT sum(length(text)) FROM numbers").fetchall()
    assert set(con.chunks().tables[0].states[1]) & {"d", "e"}


def test_the_chunk_map_shows_what_is_wanted(numbers: Path) -> None:
    with coscan.connect(buffer="64MB", small_table_bytes=0, read_limit="200kB") as con:
        con.register("numbers", numbers)
        rows = con.sql("SELECT sum(length(text)) FROM numbers")._native.start()
        deadline = time.monotonic() + 30
        while not (con.chunks().tables and sum(con.chunks().tables[0].wanted[1])) and time.monotonic() < deadline:
            time.sleep(0.01)
        (table,) = con.chunks().tables
        assert sum(table.wanted[1]) > 0 == sum(table.wanted[0])
        assert 'stroke="#2166ac"' in con.chunks()._repr_html_()
        rows.cancel()
