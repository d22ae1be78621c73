"""Notebooks: what the last line of a cell shows, and the progress of long statements."""

from __future__ import annotations

from pathlib import Path

import nbformat
from nbclient import NotebookClient

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
