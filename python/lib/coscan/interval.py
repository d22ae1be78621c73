"""Intervals with months, which have no fixed length."""

from __future__ import annotations

from typing import NamedTuple


class Interval(NamedTuple):
    """An interval of SQL. One without months is a `datetime.timedelta` instead.

    >>> Interval(months=1, days=2)
    Interval(months=1, days=2, nanoseconds=0)
    """

    months: int = 0
    """Calendar months."""
    days: int = 0
    """Days."""
    nanoseconds: int = 0
    """Nanoseconds."""
