"""Forms of SQL one by one, to coscan serve and to PostgreSQL: values, types and names of columns, and codes of errors.

The statements are in `forms.sql`, one a line. A line that begins with `--` says how the answers to the next statement differ; then
they have to differ.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from .dashboards import answer, finding
from .differences import names_differ, types_differ
from .in_postgresql import PostgresqlServer
from .server import Server

FORMS = Path(__file__).with_name("forms.sql")


def forms() -> list[tuple[str, str | None]]:
    """Returns the statements, each with the difference that is known."""
    found, known = [], None
    for line in FORMS.read_text().splitlines():
        if line.startswith("--"):
            known = line.removeprefix("--").strip()
        elif line:
            found.append((line, known))
            known = None
    return found


def names(connection, sql: str) -> list[str]:
    return [column.name for column in connection.execute(sql).description or []]


def wrong(oracle, connection, sql: str) -> str | None:
    """Returns what is wrong with coscan's answer."""
    wanted, given = answer(oracle, sql), answer(connection, sql)
    if found := finding(sql, wanted, given):
        return found
    if isinstance(wanted[0], str):
        return f"{given}, PostgreSQL: {wanted}" if wanted[0] != given[0] else None
    for one, other in zip(names(oracle, sql), names(connection, sql)):
        if names_differ(one, other):
            return f"the column {other} instead of {one}"
    for one, other in zip(wanted[0], given[0]):
        if types_differ(one, other):
            return f"a column of type {other} instead of {one}"
    return None


def check(coscan: Path, server: PostgresqlServer) -> bool:
    """Runs the statements and prints what differs. Returns whether that is what is known to differ."""
    found = []
    with tempfile.TemporaryDirectory() as folder, server.connect() as oracle:
        with Server(coscan, {}, [], Path(folder) / "log") as there, there.connect() as connection:
            for sql, known in forms():
                difference = wrong(oracle, connection, sql)
                if difference and not known:
                    found.append(f"{difference}\n  {sql}")
                elif known and not difference:
                    found.append(f"no difference any more: {known}\n  {sql}")
    if found:
        print("\n".join(found), flush=True)
    print(f"{len(forms())} forms: {len(found)} answers differ from PostgreSQL's", flush=True)
    return not found
