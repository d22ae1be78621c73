"""Random arithmetic with whole numbers near the ends of their types, and sums of them.

The right answer is exact, or an error; a number that wraps around is wrong. Every query needs all rows that may fail,
so no order of evaluation hides the error. So queries have one table, and conditions either without arithmetic or of
arithmetic alone.
"""

from __future__ import annotations

from .expressions import DEEPEST
from .joins import Joins
from .parts import Part, listed, optional, part
from .scope import Scope
from .tables import ENDS, NAMES

FRAMES = ["", " ROWS BETWEEN 1 PRECEDING AND CURRENT ROW", " ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING"]


class Arithmetic(Joins):
    """Draws queries that compute with large numbers."""

    def near_the_ends(self) -> tuple[Part, int]:
        table, scope = self.draw.choice(NAMES), Scope.of("a")
        where = optional(" WHERE ", self.draw.choice([
            f"a.v > {self.constant()}", "a.o", "a.e IS NOT NULL", f"a.i < {self.draw.choice([3, 10, 100])}",
            f"a.e {self.draw.choice('<>')} 0",
        ])) if self.draw.random() < 0.7 else part("")
        form = self.draw.choice(["rows", "rows", "sums", "groups", "windows", "condition"])
        if form == "rows":
            columns = [self.large(scope), part("a.i")]
            return part("SELECT ", listed(columns), f" FROM {table} a", where), len(columns)
        if form == "condition":
            compared = f" {self.draw.choice(['<', '>', '=', '<>'])} 0"
            return part(f"SELECT a.i, a.e FROM {table} a WHERE ", self.large(scope), compared), 2
        if form == "windows":
            function = self.draw.choice(["sum(a.e)", "sum(a.e)", "min(a.e)", "max(a.e)"])
            frame = self.draw.choice(FRAMES)
            return part(f"SELECT a.i, {function} OVER (ORDER BY a.i{frame}) FROM {table} a", where), 2
        distinct = self.maybe("DISTINCT ")
        total = self.one_of(lambda: part(f"sum({distinct}a.e)"), lambda: part("sum(", self.large(scope, DEEPEST), ")"))
        filtered = optional(f" FILTER (WHERE a.v > {self.constant()})") if self.draw.random() < 0.2 else part("")
        if form == "sums":
            return part("SELECT ", total, filtered, f", count(*), min(a.e), max(a.e) FROM {table} a", where), 4
        key = self.draw.choice("kvt")
        return part(f"SELECT a.{key}, ", total, filtered, f" FROM {table} a", where, f" GROUP BY a.{key}"), 2

    def large(self, scope: Scope, depth: int = 0) -> Part:
        """Draws a whole number that may not fit its type."""
        column = self.column(scope, "e")

        def inner() -> Part:
            if depth < DEEPEST - 1 and self.draw.random() < 0.3:
                return self.large(scope, depth + 1)
            return part(self.column(scope, "e"))

        drawn = self.one_of(
            lambda: part("(", inner(), self.draw.choice([" + ", " - ", " * "]), inner(), ")"),
            lambda: part("(", inner(), self.draw.choice([" + ", " - ", " * "]), self.number_near_the_ends(), ")"),
            lambda: part("(", self.number_near_the_ends(), self.draw.choice([" + ", " - "]), inner(), ")"),
            lambda: part("(", self.column(scope, "i"), self.draw.choice([" + ", " * "]), inner(), ")"),
            lambda: part("(- ", inner(), ")"),
            lambda: part("abs(", inner(), ")"),
            lambda: part("(", inner(), " % ", self.draw.choice(["-1", "2", "3", "10"]), ")"),
            lambda: part("CAST(", inner(), f" AS {self.draw.choice(list(ENDS))})"),
            lambda: part("coalesce(", inner(), ", 0)"),
            lambda: part(column),
        )
        return part(drawn, simpler=column)

    def number_near_the_ends(self) -> Part:
        """Draws a constant. A small one that fits several types gets an explicit type."""
        kind = self.draw.choice(list(ENDS))
        value = self.draw.choice([0, 1, 1, 2, ENDS[kind][1], ENDS[kind][1] - 1, ENDS[kind][0] + 1])
        return part(f"CAST({value} AS {kind})" if self.draw.random() < 0.6 else f"({value})" if value < 0 else str(value))
