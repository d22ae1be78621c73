"""A query on another engine and on coscan, and its outcome."""

from __future__ import annotations

import re
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from .compare import Answer, Column, Row, difference
from .differences import CODES, explained, names_differ, types_differ
from .parts import Query
from .server import PATIENCE, Server

#: The errors of a division.
DIVISION = {"22003", "22012"}

#: Outcomes that are no failure. With other outcomes of this kind the other engine has no answer to compare with.
ALIKE, ALIKE_AND_EMPTY, BOTH_REFUSE = "alike", "alike and empty", "both refuse"
EXACT = "exact where the other engine refuses"
LIMITED = "the limit leaves out what the other engine refuses"
DIFFERENT, ANSWERED, OTHER_COLUMNS = "different", "an answer where an error is due", "other columns"

#: The SQLSTATE of numbers outside their type.
OUT_OF_RANGE = "22003"


@dataclass(frozen=True)
class Refusal:
    """An error that is the right answer, by its SQLSTATE."""

    code: str
    words: str


@dataclass(frozen=True)
class Reply:
    """coscan's answer."""

    rows: list[Row]
    columns: Sequence[Column] = ()


Given = Reply | Exception
Wanted = Answer | Refusal


def without_narrow_casts(query: str, wide: str) -> str:
    """Replaces the whole-number types in the query's casts by this type, which holds all of their values."""
    return re.sub(r" AS (SMALLINT|INTEGER|BIGINT)\)", f" AS {wide})", query)


class Oracle(Protocol):
    """Another engine with the same tables."""

    def ask(self, query: Query, exact: bool = False) -> Wanted | str:
        """Returns its answer, or the reason why there is none to compare with.

        For an exact answer, whole numbers of the tables and of casts have a type that holds all results.
        """


class Sides:
    """Another engine and a server, with the same tables."""

    def __init__(self, oracle: Oracle, server: Server, session: list[str]):
        self.oracle, self.server, self.session = oracle, server, session

    def ask_coscan(self, query: object) -> Given:
        """Returns coscan's answer, on a separate connection. Ends a server that gives none, so that the question fails."""
        import psycopg

        watch = threading.Timer(PATIENCE, self.server.process.kill)
        watch.start()
        try:
            with self.server.connect(self.session) as connection:
                cursor = connection.execute(str(query))
                return Reply(cursor.fetchall(), [(column.name, column.type_code) for column in cursor.description])
        except psycopg.Error as error:
            return error
        finally:
            watch.cancel()

    def outcome(self, query: Query, wanted: Wanted, given: Given) -> str:
        """Returns the outcome of a query. Errors are distinguished by their words, without names and numbers."""
        code = getattr(given, "sqlstate", None)
        if isinstance(given, Exception):
            if isinstance(wanted, Refusal) and (code == wanted.code or (wanted.code, code) in CODES):
                return BOTH_REFUSE
            # Rows are computed in any order, and one may divide by zero where another leaves its type.
            if isinstance(wanted, Refusal) and {wanted.code, code} == DIVISION and "/" in str(query):
                return BOTH_REFUSE
            # The order and the limit may leave out what cannot be computed.
            all_rows = self.oracle.ask(Query(query.body)) if query.order and code == OUT_OF_RANGE else wanted
            reason = explained(given, all_rows)
            return reason or f"error: {code} " + re.sub(r"\d+|'[^']*'|\S*/\S*", "_", str(given))
        if isinstance(wanted, Refusal):
            exact = self.oracle.ask(query, exact=True) if wanted.code == OUT_OF_RANGE else None
            if isinstance(exact, Answer) and not difference(exact, given.rows):
                return EXACT
            # A limit leaves out rows before their columns are computed, if the order tells enough.
            return LIMITED if query.order and " LIMIT " in str(query.order) else ANSWERED
        if difference(wanted, given.rows):
            return DIFFERENT
        if wanted.columns is not None and columns_differ(wanted.columns, given.columns):
            return OTHER_COLUMNS
        return ALIKE if wanted.rows() else ALIKE_AND_EMPTY

    def outcome_alone(self, query: Query) -> str:
        """Returns the outcome of the query while nothing else runs."""
        wanted = self.oracle.ask(query)
        return wanted if isinstance(wanted, str) else self.outcome(query, wanted, self.ask_coscan(query))


def columns_differ(wanted: Sequence[Column], given: Sequence[Column]) -> list[tuple[Column, Column]]:
    """Returns the columns with wrong names or types, as pairs of the expected and the given one."""
    return [
        (want, give) for want, give in zip(wanted, given) if names_differ(want[0], give[0]) or types_differ(want[1], give[1])
    ]


def in_words(wanted: Wanted, given: Given) -> str:
    """Describes the failure of a reply."""
    if isinstance(given, Exception):
        return f"{given!r}" if isinstance(wanted, Answer) else f"{given!r}, where {wanted.code} is due: {wanted.words}"
    if isinstance(wanted, Refusal):
        return f"due: {wanted.code} {wanted.words}\n  coscan: {given.rows[:5]}"
    different = difference(wanted, given.rows)
    if different or wanted.columns is None:
        return str(different or "the replies differed once, and are alike now")
    return f"columns: {columns_differ(wanted.columns, given.columns)}"


def is_failure(outcome: str) -> bool:
    return outcome in (DIFFERENT, ANSWERED, OTHER_COLUMNS) or outcome.startswith("error: ")
