"""All documented differences between coscan and other engines, each with its reason.

They are documented errors and types of columns. None of them permits a wrong row, null or value.
"""

from __future__ import annotations

from decimal import Decimal

from .compare import Answer

LEAST_BIGINT, MOST_BIGINT = -(2**63), 2**63 - 1


#: coscan's errors for subqueries that docs/serve-sql.md lists as refused: they refer to an outer row from LIMIT or from a
#: window function outside conditions, they refer to both sides of an outer join in ON, or they have grouping sets.
SUBQUERIES = [
    "whose rows may differ each time they are computed",
    "a subquery in ON of an outer join that depends on both sides is not supported",
    "grouping sets in a subquery that refers to the row around it are not supported",
]


def explained(error: Exception, wanted: object) -> str | None:
    """Returns the reason why coscan may refuse a query that the other engine answers; `None` if it must not."""
    code = getattr(error, "sqlstate", None)
    if code == "22003" and isinstance(wanted, Answer) and beyond_bigint(wanted):
        # docs/serve-sql.md: a sum of bigint fits bigint. Other engines have wider sums.
        return "refused: the sum is beyond bigint"
    if "Overflowing on NaN" in str(error):
        # The plan decides for which rows a cast to a decimal is computed, and NaN is none.
        return "refused: NaN is no decimal"
    if code == "0A000" and any(words in str(error) for words in SUBQUERIES):
        return "refused: a subquery that docs/serve-sql.md names"
    return None


def beyond_bigint(answer: Answer) -> bool:
    """Returns whether a number of the answer is outside bigint."""
    return any(
        isinstance(value, (int, Decimal)) and not LEAST_BIGINT <= value <= MOST_BIGINT for row in answer.rows() for value in row
    )


#: Types of columns, by their numbers in the protocol.
INT2, INT4, INT8, FLOAT4, FLOAT8, NUMERIC = 21, 23, 20, 700, 701, 1700
TEXT, VARCHAR, DATE, TIMESTAMP, TIMESTAMPTZ = 25, 1043, 1082, 1114, 1184

#: Pairs of types that PostgreSQL and coscan may give the same column.
TYPES = {
    # docs/serve-sql.md: whole constants are bigint.
    *((wanted, given) for wanted in (INT2, INT4, INT8) for given in (INT2, INT4, INT8)),
    # docs/serve-sql.md: the sum of bigint is bigint in WITH RECURSIVE; parts of a time are integers.
    (NUMERIC, INT8), (NUMERIC, INT4),
    # docs/serve-sql.md: whole keys of folders are bigint, and their sums numeric.
    (INT8, NUMERIC),
    # docs/serve-sql.md: a date plus whole days or months is a date; `date_trunc` of a date has no zone.
    (TIMESTAMP, DATE), (TIMESTAMPTZ, TIMESTAMP),
    # docs/serve-sql.md: the sum of real is of double precision; functions of real, and real with whole numbers, are real.
    (FLOAT4, FLOAT8), (FLOAT8, FLOAT4),
    # To be mended: the merged column of RIGHT JOIN has the type of the right side.
    (FLOAT4, NUMERIC), (FLOAT8, NUMERIC),
    # Files do not record the length limit of texts.
    (VARCHAR, TEXT),
}


#: Pairs of SQLSTATEs of PostgreSQL and coscan: a column of a missing table is an unknown column.
CODES = {("42P01", "42703")}

#: Pairs of names that PostgreSQL and coscan may give the same column.
COLUMN_NAMES = {("substr", "substring")}


def names_differ(wanted: str, given: str) -> bool:
    """Returns whether a column has a wrong name."""
    return wanted != given and (wanted, given) not in COLUMN_NAMES


def types_differ(wanted: int, given: int) -> bool:
    """Returns whether a column has a wrong type."""
    return wanted != given and (wanted, given) not in TYPES
