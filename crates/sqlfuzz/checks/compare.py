"""Comparison of two answers.

Numbers are compared by value, whatever their types: 1, 1.0 and a decimal 1.00 are equal, and so are 0.0 and -0.0. NaN
equals only NaN, and NULL only NULL. A date is midnight of its day, and a time with a zone is its instant. If one number
is a floating-point number, both may differ by one in a billion. If coscan has a decimal where DuckDB has a
floating-point number, they may differ by three in a million. DuckDB divides decimals and averages them as
floating-point numbers. DataFusion truncates such results after six digits if the decimals have two, and a query may add
them up. All other values are compared exactly.
"""

from __future__ import annotations

import datetime
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

#: The allowed difference of floating-point results, relative to the larger one.
FLOATS_DIFFER = 1e-9

#: The allowed difference of a decimal and a floating-point number: absolute, or relative if that is more.
DECIMALS_DIFFER = 3e-6

Row = tuple[object, ...]
#: Name and type, with the type numbers of PostgreSQL's protocol.
Column = tuple[str, int]


@dataclass(frozen=True)
class Difference:
    """The rows of only one side or, if both have the same rows, the rows at different positions."""

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
    """The other engine's answer: groups of rows, in order. The order within a group is open.

    With a limit, the last group may have more rows than fit; then any of them are right. Names and types of columns are
    given if they are compared, too.
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
    """Returns the difference of two answers: compares them as multisets first, and then in order."""
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
    """Returns the value in a form in which Python's equality is that of the comparison: True is not 1, and NaN is NaN."""
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
    """Returns the rows of each side without an equal row on the other."""
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
    """Returns whether coscan's value is the right one."""
    if wanted == given:
        return True
    if isinstance(wanted, float) and isinstance(given, Decimal):
        return math.isclose(wanted, given, rel_tol=DECIMALS_DIFFER, abs_tol=DECIMALS_DIFFER)
    numbers = isinstance(wanted, (int, float, Decimal)) and isinstance(given, (int, float, Decimal))
    if numbers and (isinstance(wanted, float) or isinstance(given, float)):
        return math.isclose(wanted, given, rel_tol=FLOATS_DIFFER)
    return False
