"""The progress of statements that take longer than a second, in interactive terminals and in notebooks."""

from __future__ import annotations

import sys
from time import monotonic
from typing import Any

from . import _coscan

_PATIENCE = 1.0
"""Seconds after which progress is shown."""

_EVERY = 0.2
"""Seconds between two updates."""

_wanted: bool | None = None


def show_progress(wanted: bool | None) -> None:
    """Shows the progress of long statements always, never, or (`None`, the default) in interactive sessions."""
    global _wanted
    _wanted = wanted


def collected(rows: _coscan.Rows) -> _coscan.Table:
    """Takes all rows, and shows the progress meanwhile."""
    if not (_is_interactive() if _wanted is None else _wanted):
        return rows.collect()
    line = _Line(rows)
    try:
        return rows.collect(line)
    finally:
        line.end()


def _is_interactive() -> bool:
    return _notebook() or (hasattr(sys, "ps1") and sys.stderr.isatty())


def _notebook() -> bool:
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return shell is not None and hasattr(shell, "kernel")


class _Line:
    """A line that is written again and again, and is empty at the end."""

    def __init__(self, rows: _coscan.Rows) -> None:
        self._rows = rows
        self._begin = monotonic()
        self._last = 0.0
        self._shown: Any = None

    def __call__(self) -> None:
        now = monotonic()
        if now - self._begin >= _PATIENCE and now - self._last >= _EVERY:
            self._last = now
            self._write(described(self._rows.progress(), now - self._begin))

    def end(self) -> None:
        if self._shown is not None:
            self._write("")

    def _write(self, text: str) -> None:
        if not _notebook():
            self._shown = True
            print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)
            return
        from IPython.display import DisplayHandle

        shown = {"text/plain": text}
        if self._shown is None:
            self._shown = DisplayHandle()  # type: ignore[no-untyped-call]
            self._shown.display(shown, raw=True)
        else:
            self._shown.update(shown, raw=True)


def described(progress: tuple[int, int, int, int] | None, seconds: float) -> str:
    """The progress in words.

    >>> described((40, 10, 5 << 20, 15 << 20), 3.21)
    '10 of 40 chunks, 5 MiB read, 15 MiB shared, 3 s'
    """
    if progress is None:
        return f"{seconds:.0f} s"
    wanted, done, read, spared = progress
    return f"{done} of {wanted} chunks, {read >> 20} MiB read, {spared >> 20} MiB shared, {seconds:.0f} s"
