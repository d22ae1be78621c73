"""A query put to DuckDB and to coscan, and what becomes of it."""

from __future__ import annotations

import re
import threading

from .compare import Answer, Row, difference, in_total_order, without_order
from .parts import Query
from .server import PATIENCE, Server

#: Larger answers say no more than smaller ones, but take their time.
MOST_ROWS = 5000
#: Seconds that DuckDB may think about a query: what it takes long for is a join of many equal keys.
DUCKDB_SECONDS = 3

#: Outcomes that are no failure. With other outcomes of this kind DuckDB has no answer to compare with.
ALIKE, ALIKE_AND_EMPTY = "alike", "alike and empty"
DIFFERENT = "different"

Given = list[Row] | Exception


class Sides:
    """DuckDB and a server, with the same tables."""

    def __init__(self, duckdb, server: Server, session: list[str]):
        self.duckdb, self.server, self.session = duckdb, server, session

    def ask_duckdb(self, query: Query) -> Answer | str:
        """Its answer, or why there is none to compare with."""
        import duckdb

        watch = threading.Timer(DUCKDB_SECONDS, self.duckdb.interrupt)
        watch.start()
        try:
            rows = self.duckdb.execute(str(query)).fetchmany(MOST_ROWS + 1)
        except duckdb.InterruptException:
            return "too slow in DuckDB"
        except duckdb.Error as error:
            return f"refused by DuckDB ({str(error).splitlines()[0][:100]})"
        finally:
            watch.cancel()
        if len(rows) > MOST_ROWS:
            return "too large"
        return in_total_order(rows) if query.order else without_order(rows)

    def ask_coscan(self, query: object) -> Given:
        """The answer, on a connection of its own. A server that gives none is ended, so that the question fails."""
        import psycopg

        watch = threading.Timer(PATIENCE, self.server.process.kill)
        watch.start()
        try:
            with self.server.connect(self.session) as connection:
                return connection.execute(str(query)).fetchall()
        except psycopg.Error as error:
            return error
        finally:
            watch.cancel()

    def outcome_alone(self, query: Query) -> str:
        """What becomes of the query while nothing else runs."""
        wanted = self.ask_duckdb(query)
        return wanted if isinstance(wanted, str) else outcome(wanted, self.ask_coscan(query))


def outcome(wanted: Answer, given: Given) -> str:
    """What became of a query. Errors are told apart by their words, not by names and numbers in them."""
    if isinstance(given, Exception):
        return "error: " + re.sub(r"\d+|'[^']*'|\S*/\S*", "_", str(given))
    if difference(wanted, given):
        return DIFFERENT
    return ALIKE if wanted.rows() else ALIKE_AND_EMPTY


def is_failure(outcome: str) -> bool:
    return outcome == DIFFERENT or outcome.startswith("error: ")
