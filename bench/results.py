"""The result file of an engine: read, checked, and compared with another engine's, row by row.

The comparison shows only that two engines differ and where, not which one is right.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any

from bench.workload import VERSION, Json, kinds_of

# Engines round sums of decimals differently in the last digits.
TOLERANCE = Decimal("1e-9")

Row = list[Any]


class BadResult(Exception):
    """A result file is missing or invalid, or does not match the workload."""


@dataclass(frozen=True)
class Outcome:
    """One query. Times are seconds since GO. A failed query has an error and no rows."""

    start_s: float
    end_s: float
    rows: list[Row] | None
    error: str | None

    @property
    def latency_s(self) -> float:
        return self.end_s - self.start_s


def read(path: Path, workload: Json) -> dict[str, Outcome]:
    """Returns the outcomes in a result file by query id. They must be exactly those of the workload."""
    try:
        content = json.loads(path.read_text())
    except OSError as error:
        raise BadResult(f"{path}: cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise BadResult(f"{path}: is no JSON: {error}") from error
    if not isinstance(content, dict) or content.get("version") != VERSION:
        raise BadResult(f"{path}: is no result file of version {VERSION}")
    queries = content.get("queries")
    if not isinstance(queries, list):
        raise BadResult(f"{path}: has no list of queries")
    outcomes = dict(_outcome(path, at, query) for at, query in enumerate(queries))
    wanted = kinds_of(workload).keys()
    if len(outcomes) != len(queries) or outcomes.keys() != wanted:
        missing = sorted(wanted - outcomes.keys())
        surplus = sorted(outcomes.keys() - wanted)
        raise BadResult(f"{path}: not one result per query: missing {missing}, not asked for {surplus}")
    return outcomes


def _outcome(path: Path, at: int, query: Any) -> tuple[str, Outcome]:
    try:
        start_s, end_s = float(query["start_s"]), float(query["end_s"])
        rows, error = query["rows"], query.get("error")
        query_id = str(query["id"])
    except (KeyError, TypeError, ValueError, AttributeError) as wrong:
        raise BadResult(f"{path}: query number {at}: {type(wrong).__name__}: {wrong}") from wrong
    if error is None and not (isinstance(rows, list) and all(isinstance(row, list) for row in rows)):
        raise BadResult(f"{path}: query {query_id} has neither rows nor an error")
    if error is None and not 0 <= start_s <= end_s:
        raise BadResult(f"{path}: query {query_id} runs from {start_s} s to {end_s} s")
    return query_id, Outcome(start_s, end_s, None if error is not None else rows, error)


def differences(expected: dict[str, Outcome], found: dict[str, Outcome]) -> list[str]:
    """Returns the queries with different answers: id, place, and the two values."""
    texts = []
    for query_id, outcome in found.items():
        other = expected.get(query_id)
        if other is None or other.rows is None or outcome.rows is None:
            continue
        text = difference(other.rows, outcome.rows)
        if text is not None:
            texts.append(f"query {query_id}: {text}")
    return texts


def difference(expected: list[Row], found: list[Row]) -> str | None:
    """Returns the first difference of two results as text. None if they are the same."""
    if len(expected) != len(found):
        return f"{len(found)} rows instead of {len(expected)}"
    for number, (left, right) in enumerate(zip(expected, found), start=1):
        if len(left) != len(right):
            return f"row {number} has {len(right)} columns instead of {len(left)}"
        for column, (a, b) in enumerate(zip(left, right), start=1):
            if not same(a, b):
                return f"row {number}, column {column} is {b!r} instead of {a!r}"
    return None


def same(a: Any, b: Any) -> bool:
    """Returns true if the values are equal, or are two numbers within the tolerance. Integers must be equal."""
    if a is None or b is None or isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if isinstance(a, int) and isinstance(b, int):
        return a == b
    x, y = _number(a), _number(b)
    if x is None or y is None:
        return a == b
    return abs(x - y) <= TOLERANCE * max(abs(x), abs(y))


def _number(value: Any) -> Decimal | None:
    """Returns the value of a number, or of a text that is a number. Floats have their printed value."""
    try:
        number = Decimal(str(value))
    except InvalidOperation:
        return None
    return number if number.is_finite() else None
