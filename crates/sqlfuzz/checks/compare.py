"""Whether two answers are the same.

Numbers are compared by value, whatever their types: 1, 1.0 and a decimal 1.00 are the same, and so are 0.0 and -0.0. NaN is
NaN, NULL is NULL and nothing else. A date is midnight of its day, and a time with a zone is its instant. Numbers with a
floating-point one among them may differ by one in a billion. A decimal of coscan's where DuckDB has a floating-point number may
differ by three in a million: DuckDB divides decimals and takes their averages as floating-point numbers; DataFusion cuts them
off after six digits if they have two, and a query may add such results. Everything else is exact.
"""

from __future__ import annotations

import datetime
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

#: How far floating-point results may lie apart, as a part of the larger one.
FLOATS_DIFFER = 1e-9

#: How far a decimal may lie from a floating-point number; as a part of it, if that is more.
DECIMALS_DIFFER = 3e-6

Row = tuple[object, ...]
#: Name and type, as the protocol of PostgreSQL numbers types.
Column = tuple[str, int]


@dataclass(frozen=True)
class Difference:
    """What only one side has; or, if both have the same rows, what stands at other places."""

    only_oracle: list[Row]
    only_coscan: list[Row]
    in_order: bool = False
    oracle: str = "DuckDB"

    def __str__(self, most: int = 5) -> str:
        words = "at that place" if self.in_order else "only"
        sides = ((self.oracle, self.only_oracle), ("coscan", self.only_coscan))
        return "\n  ".join(f"{side}, {words} ({len(rows)}): {rows[:most]}" for side, rows in sides)


@dataclass(frozen=True)
class Answer:
    """What the other engine answers: groups of rows, in order; the order within a group is open.

    With a limit, rows of the last group may be more than there is room for: then any of them will do. Names and types of columns
    are given where they are compared, too.
    """

    groups: Sequence[Sequence[Row]]
    limit: int | None = None
    columns: Sequence[Column] | None = None
    oracle: str = "DuckDB"

    def rows(self) -> list[Row]:
        return [row for group in self.groups for row in group]


def without_order(rows: Sequence[Row], **said: object) -> Answer:
    return Answer([rows], **said)


def in_total_order(rows: Sequence[Row], **said: object) -> Answer:
    return Answer([[row] for row in rows], **said)


def difference(wanted_answer: Answer, coscan: Sequence[Row]) -> Difference | None:
    """How the answers differ: as multisets first, and then in order."""
    groups = [[plain_row(row) for row in group] for group in wanted_answer.groups]
    wanted, given = [row for group in groups for row in group], [plain_row(row) for row in coscan]
    room = len(wanted) if wanted_answer.limit is None else min(wanted_answer.limit, len(wanted))
    only_wanted, only_given = unmatched(wanted, given)
    if only_given or len(given) != room:
        return Difference(only_wanted, only_given, oracle=wanted_answer.oracle)
    begin = 0
    for group in groups:
        there = given[begin : begin + len(group)]
        missing, others = unmatched(group, there)
        if others:
            return Difference(missing, others, True, wanted_answer.oracle)
        begin += len(group)
    return None


def plain_row(row: Row) -> Row:
    return tuple(map(plain, row))


def plain(value: object) -> object:
    """The value such that equal ones are equal in Python, and others are not: True is no 1, and NaN is NaN."""
    match value:
        case bool():
            return ("truth", value)
        case float() | Decimal() if math.isnan(value):
            return ("NaN",)
        case datetime.date() if not isinstance(value, datetime.datetime):
            return datetime.datetime(value.year, value.month, value.day)
        case datetime.datetime() if value.tzinfo:
            return value.astimezone(datetime.timezone.utc).replace(tzinfo=None)
    return value


def unmatched(wanted: list[Row], given: list[Row]) -> tuple[list[Row], list[Row]]:
    """The rows of each side for which the other has none."""
    counts, others = Counter(wanted), Counter(given)
    only_wanted = list((counts - others).elements())
    only_given = []
    for row in (others - counts).elements():
        like = next((at for at, want in enumerate(only_wanted) if same_row(want, row)), None)
        if like is None:
            only_given.append(row)
        else:
            del only_wanted[like]
    return only_wanted, only_given


def same_row(wanted: Row, given: Row) -> bool:
    return len(wanted) == len(given) and all(map(same_value, wanted, given))


def same_value(wanted: object, given: object) -> bool:
    """Whether coscan's value is the right one."""
    if wanted == given:
        return True
    if isinstance(wanted, float) and isinstance(given, Decimal):
        return math.isclose(wanted, given, rel_tol=DECIMALS_DIFFER, abs_tol=DECIMALS_DIFFER)
    numbers = isinstance(wanted, (int, float, Decimal)) and isinstance(given, (int, float, Decimal))
    if numbers and (isinstance(wanted, float) or isinstance(given, float)):
        return math.isclose(wanted, given, rel_tol=FLOATS_DIFFER)
    return False
