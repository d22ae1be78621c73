"""DuckDB as the engine with which coscan's answers are compared."""

from __future__ import annotations

import re
import threading

from .compare import Answer, in_total_order, without_order
from .parts import Query
from .sides import OUT_OF_RANGE, Refusal, without_narrow_casts
from .tables import NAMES

#: Limit of the rows of an answer. Larger answers take time and do not prove more.
MOST_ROWS = 5000
#: Time limit of a query, in seconds. Joins of many equal keys exceed it.
SECONDS = 3

#: Schema of tables whose whole numbers have a type that holds every result of a query.
EXACT = "exact"
WHOLE = {"SMALLINT", "INTEGER", "BIGINT"}


class DuckDb:
    """A database with the tables of a seed."""

    def __init__(self, database):
        self.database = database
        self.exact_tables = False
        self.database.execute("SET TimeZone = 'UTC'")

    def ask(self, query: Query, exact: bool = False) -> Answer | Refusal | str:
        import duckdb

        if exact:
            self.make_exact_tables()
        self.database.execute(f"SET search_path = '{EXACT if exact else 'main'}'")
        watch = threading.Timer(SECONDS, self.database.interrupt)
        watch.start()
        try:
            sql = without_narrow_casts(str(query), "HUGEINT") if exact else str(query)
            rows = self.database.execute(sql).fetchmany(MOST_ROWS + 1)
        except duckdb.InterruptException:
            return "too slow in DuckDB"
        except duckdb.Error as error:
            words = str(error).splitlines()[0][:100]
            # Which rows are converted depends on the plan.
            if isinstance(error, (duckdb.OutOfRangeException, duckdb.ConversionException)) and not re.search("value -?nan", words):
                return Refusal(OUT_OF_RANGE, words)
            return f"refused by DuckDB ({words})"
        finally:
            watch.cancel()
        if len(rows) > MOST_ROWS:
            return "too large"
        return in_total_order(rows) if query.order else without_order(rows)

    def make_exact_tables(self) -> None:
        if self.exact_tables:
            return
        self.exact_tables = True
        self.database.execute(f"CREATE SCHEMA {EXACT}")
        for table in NAMES:
            listing = f"SELECT column_name, data_type FROM duckdb_columns() WHERE table_name = '{table}'"
            columns = self.database.execute(listing).fetchall()
            wide = [f"CAST({name} AS HUGEINT) AS {name}" if kind in WHOLE else name for name, kind in columns]
            self.database.execute(f"CREATE TABLE {EXACT}.{table} AS SELECT {', '.join(wide)} FROM main.{table}")
