"""Parameters in the place of constants: their types as drivers get them, and the answers with bound values.

Values are bound as texts without a type, as many drivers do. Where PostgreSQL finds no type, nothing is compared.
"""

from __future__ import annotations

import random
import re

#: A text, unless its type is written before or after it, or a number.
CONSTANT = re.compile(r"(?<![\w&$.'])(?:'(?P<text>(?:[^']|'')*)'(?!::|')|(?P<number>\d+(?:\.\d+)?)(?![\w.]))")
TYPED = re.compile(r"(?:\b(?:interval|timestamp|timestamptz|date|time|numeric|row)|[(,]\s*\w+\s*:=|&)\s*$", re.IGNORECASE)
#: Positions of columns, digits of types, and parts of times are no values.
FIXED = re.compile(r"(?:group by|order by|numeric\(|extract\(|date_part\()[^()]*$", re.IGNORECASE)


def replaced(draw: random.Random, sql: str) -> tuple[str, list[bytes]]:
    """Returns the statement with some constants as parameters, and their values."""
    values: list[bytes] = []

    def parameter(found: re.Match[str]) -> str:
        before = sql[: found.start()]
        quoted = before.count("'") % 2
        if quoted or TYPED.search(before) or FIXED.search(before) or draw.random() < 0.5:
            return found[0]
        text = found["number"] if found["text"] is None else found["text"].replace("''", "'")
        values.append(text.encode())
        return f"${len(values)}"

    return CONSTANT.sub(parameter, sql), values


def answer(connection, sql: str, values: list[bytes]):
    """Returns the types of the parameters, and the types and rows of the answer as `dashboards.answer`."""
    from psycopg.pq import ExecStatus

    of = connection.pgconn

    def error(result):
        return [], (result.error_field(67).decode(), result.error_message.decode().splitlines()[0])

    prepared = of.prepare(b"", sql.encode())
    if prepared.status != ExecStatus.COMMAND_OK:
        return error(prepared)
    described = of.describe_prepared(b"")
    parameters = [described.param_type(at) for at in range(described.nparams)]
    result = of.exec_prepared(b"", values)
    if result.status != ExecStatus.TUPLES_OK:
        return parameters, error(result)[1]
    types = [result.ftype(at) for at in range(result.nfields)]
    texts = lambda row: [None if (value := result.get_value(row, at)) is None else value.decode() for at in range(result.nfields)]
    return parameters, (types, [texts(row) for row in range(result.ntuples)])
