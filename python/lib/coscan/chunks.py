"""The chunk map: which parts of the tables an engine has in memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from html import escape
from typing import Any

CELLS = 4096
"""The most cells of a table, over all its columns."""

STATES = {"d": "decoded", "e": "encoded", "r": "being read", ".": "not in memory"}
"""The states of a cell, by the letters in `Chunks.states`."""

_COLORS = {"d": "#1b7837", "e": "#7fbf7b", "r": "#e08214", ".": "#8886"}
_WANTED = "#2166ac"

# In pixels.
_WIDTH, _HEIGHT, _GAP, _NAMES = 640, 11, 2, 130


@dataclass(frozen=True)
class Chunks:
    """The chunks of a table that was read, column by column."""

    file: str
    """The address of its first file."""

    files: int
    """The number of its files."""

    chunks: int
    """The number of its chunks. A cell stands for several neighbours if there are many."""

    columns: list[str]

    states: list[str]
    """A letter for each cell of a column: see `STATES`. Of several chunks it is that of the best one."""

    wanted: list[list[int]]
    """How many scans want a cell."""

    def shares(self) -> dict[str, float]:
        """The shares of cells by state."""
        count = Counter("".join(self.states))
        return {name: count[letter] / max(count.total(), 1) for letter, name in STATES.items()}


class ChunkMap:
    """The chunks of all tables that were read."""

    def __init__(self, tables: Iterable[Mapping[str, Any]]) -> None:
        self.tables = [Chunks(**table) for table in tables]

    def __repr__(self) -> str:
        if not self.tables:
            return "<coscan.ChunkMap of no tables>"
        parts = [f"{table.file} {table.shares()['decoded']:.0%} decoded" for table in self.tables]
        return f"<coscan.ChunkMap of {', '.join(parts)}>"

    def _repr_html_(self) -> str:
        legend = "".join(f"{_swatch(_COLORS[letter])}{name}" for letter, name in STATES.items())
        tables = "".join(map(_picture, self.tables)) or "<p>no table was read yet</p>"
        return f'<div class="coscan-chunks"><p><small>{legend}{_swatch("none", _WANTED)}wanted</small></p>{tables}</div>'


def _swatch(fill: str, stroke: str = "none") -> str:
    box = f'<rect x="1" y="1" width="9" height="9" fill="{fill}" stroke="{stroke}" stroke-width="1.5"/>'
    return f'<svg width="11" height="11" style="margin:0 4px 0 12px;vertical-align:middle">{box}</svg>'


def _picture(table: Chunks) -> str:
    """A row of cells for each column."""
    boxes = []
    for row, (column, states, wanted) in enumerate(zip(table.columns, table.states, table.wanted, strict=True)):
        top, width = row * (_HEIGHT + _GAP), (_WIDTH - _NAMES) / max(len(states), 1)
        name = f'<text x="{_NAMES - 6}" y="{top + _HEIGHT - 2}" text-anchor="end" font-size="10" fill="currentColor">'
        boxes.append(f"{name}{escape(_short(column))}</text>")
        for begin, end, letter, is_wanted in _runs(states, wanted):
            left, size = _NAMES + begin * width, (end - begin) * width
            edge = f' stroke="{_WANTED}" stroke-width="1.5"' if is_wanted else ""
            box = f'<rect x="{left:.1f}" y="{top}" width="{max(size - 0.5, 0.5):.1f}" height="{_HEIGHT}"'
            boxes.append(f'{box} fill="{_COLORS[letter]}"{edge}><title>{STATES[letter]}</title></rect>')
    height = len(table.columns) * (_HEIGHT + _GAP)
    files = "" if table.files == 1 else f" and {table.files - 1} more"
    title = f"<p><small>{escape(table.file)}{files}: {table.chunks} chunks</small></p>"
    return f'{title}<svg width="{_WIDTH}" height="{height}">{"".join(boxes)}</svg>'


def _runs(states: str, wanted: list[int]) -> list[tuple[int, int, str, bool]]:
    """Neighbours that look alike, if there are more than can be told apart, or single cells."""
    cells = list(zip(states, (count > 0 for count in wanted), strict=True))
    if len(cells) <= (_WIDTH - _NAMES) / 3:
        return [(at, at + 1, letter, is_wanted) for at, (letter, is_wanted) in enumerate(cells)]
    runs: list[tuple[int, int, str, bool]] = []
    for at, (letter, is_wanted) in enumerate(cells):
        if runs and runs[-1][2:] == (letter, is_wanted):
            runs[-1] = (runs[-1][0], at + 1, letter, is_wanted)
        else:
            runs.append((at, at + 1, letter, is_wanted))
    return runs


def _short(name: str, most: int = 20) -> str:
    return name if len(name) <= most else name[: most - 1] + "…"
