"""The differences between coscan and other engines that are documented: the whole list, each with its reason.

None of them lets a row, a null or a value pass that is wrong: they are errors that are said to come, and types of columns.
"""

from __future__ import annotations

from decimal import Decimal

from .compare import Answer

LEAST_BIGINT, MOST_BIGINT = -(2**63), 2**63 - 1


def explained(error: Exception, wanted: object) -> str | None:
    """Why coscan may refuse what the other engine answers; none if it may not."""
    code = getattr(error, "sqlstate", None)
    if code == "22003" and isinstance(wanted, Answer) and beyond_bigint(wanted):
        # docs/serve.md: the sum of bigint is bigint. Other engines have wider sums.
        return "refused: the sum is beyond bigint"
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
    # docs/serve.md: constants are bigint, and so are results of functions that count.
    *((wanted, given) for wanted in (INT2, INT4, INT8) for given in (INT2, INT4, INT8)),
    # docs/serve.md: the sum of bigint is bigint; parts of a time are integers.
    (NUMERIC, INT8), (NUMERIC, INT4),
    # docs/serve.md: a date plus whole days or months is a date. A date that is cut has no zone.
    (TIMESTAMP, DATE), (TIMESTAMPTZ, TIMESTAMP),
    # The sum of real is of double precision.
    (FLOAT4, FLOAT8),
    # Files do not tell texts with and without a bound of their length apart.
    (VARCHAR, TEXT),
}


def types_differ(wanted: int, given: int) -> bool:
    """Whether a column has another type than it should have."""
    return wanted != given and (wanted, given) not in TYPES
