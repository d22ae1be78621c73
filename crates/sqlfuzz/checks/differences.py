"""The differences between coscan and other engines that are documented: the whole list, each with its reason.

None of them lets a row, a null or a value pass that is wrong: they are errors that are said to come, and types of columns.
"""

from __future__ import annotations

from decimal import Decimal

from .compare import Answer

LEAST_BIGINT, MOST_BIGINT = -(2**63), 2**63 - 1


#: What coscan says of subqueries that docs/serve-sql.md says are refused: they refer to a row from LIMIT or a window function
#: elsewhere than in conditions, to both sides of an outer join in ON, or have grouping sets.
SUBQUERIES = [
    "whose rows may differ each time they are computed",
    "a subquery in ON of an outer join that depends on both sides is not supported",
    "grouping sets in a subquery that refers to the row around it are not supported",
]


def explained(error: Exception, wanted: object) -> str | None:
    """Why coscan may refuse what the other engine answers; none if it may not."""
    code = getattr(error, "sqlstate", None)
    if code == "22003" and isinstance(wanted, Answer) and beyond_bigint(wanted):
        # docs/serve-sql.md: the sum of bigint is bigint. Other engines have wider sums.
        return "refused: the sum is beyond bigint"
    if code == "0A000" and any(words in str(error) for words in SUBQUERIES):
        return "refused: a subquery that docs/serve-sql.md names"
    return None


def beyond_bigint(answer: Answer) -> bool:
    """Whether a number of the answer is none of bigint."""
    return any(
        isinstance(value, (int, Decimal)) and not LEAST_BIGINT <= value <= MOST_BIGINT for row in answer.rows() for value in row
    )


#: Types of columns as the protocol numbers them.
INT2, INT4, INT8, FLOAT4, FLOAT8, NUMERIC = 21, 23, 20, 700, 701, 1700
TEXT, VARCHAR, DATE, TIMESTAMP, TIMESTAMPTZ = 25, 1043, 1082, 1114, 1184

#: Types that PostgreSQL and coscan may give the same column.
TYPES = {
    # docs/serve-sql.md: whole constants are bigint.
    *((wanted, given) for wanted in (INT2, INT4, INT8) for given in (INT2, INT4, INT8)),
    # docs/serve-sql.md: the sum of bigint is bigint; parts of a time are integers.
    (NUMERIC, INT8), (NUMERIC, INT4),
    # docs/serve-sql.md: a date plus whole days or months is a date; `date_trunc` of a date has no zone.
    (TIMESTAMP, DATE), (TIMESTAMPTZ, TIMESTAMP),
    # docs/serve-sql.md: the sum of real is of double precision; functions of real, and real with whole numbers, are real.
    (FLOAT4, FLOAT8), (FLOAT8, FLOAT4),
    # To be mended: the merged column of RIGHT JOIN has the type of the right side.
    (FLOAT4, NUMERIC), (FLOAT8, NUMERIC),
    # To be mended: rank, row_number and ntile count without a sign, which is numeric to clients.
    (INT8, NUMERIC), (INT4, NUMERIC),
    # Files do not tell texts with and without a bound of their length apart.
    (VARCHAR, TEXT),
}


#: Errors by SQLSTATE, PostgreSQL's and coscan's: a column of a table that is not there is an unknown column.
CODES = {("42P01", "42703")}

#: Names that PostgreSQL and coscan may give the same column.
COLUMN_NAMES = {("substr", "substring")}


def names_differ(wanted: str, given: str) -> bool:
    """Whether a column has another name than it should have."""
    return wanted != given and (wanted, given) not in COLUMN_NAMES


def types_differ(wanted: int, given: int) -> bool:
    """Whether a column has another type than it should have."""
    return wanted != given and (wanted, given) not in TYPES
