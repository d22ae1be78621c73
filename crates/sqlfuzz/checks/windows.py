"""Random window functions, grouping sets and `DISTINCT ON`. Each query has one right answer."""

from __future__ import annotations

from .derived import Derived
from .parts import Part, listed, optional, part
from .scope import Scope
from .tables import NAMES

FRAMES = [
    "", " ROWS BETWEEN 2 PRECEDING AND CURRENT ROW", " ROWS BETWEEN 1 PRECEDING AND 3 FOLLOWING",
    " ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING", " ROWS BETWEEN 3 PRECEDING AND 1 PRECEDING",
    " ROWS BETWEEN 1 PRECEDING AND CURRENT ROW", " ROWS BETWEEN 1 FOLLOWING AND 2 FOLLOWING",
    " ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
]

#: Frames by distance in an order by one number.
RANGES = [
    " RANGE BETWEEN 2 PRECEDING AND CURRENT ROW", " RANGE BETWEEN 1 PRECEDING AND 3 FOLLOWING",
    " RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING", " RANGE BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING",
]

GROUPINGS = [
    "ROLLUP ({0}, {1})", "CUBE ({0}, {1})", "GROUPING SETS (({0}), ({1}), ())", "GROUPING SETS (({0}, {1}), ({0}))",
    "{0}, ROLLUP ({1})", "{1}, CUBE ({0})", "ROLLUP ({0}), ROLLUP ({1})",
]


class Windows(Derived):
    """Draws queries with functions over several rows."""

    def source(self) -> tuple[Part, Scope]:
        """Draws the relation in FROM. Returns it with its columns."""
        raise NotImplementedError

    def windows(self) -> tuple[Part, int]:
        if self.draw.random() < 0.5:
            source, scope = self.source()
            functions = [self.peers_alike(scope) for _ in range(self.draw.randint(1, 2))]
        else:
            source, scope = part(f"{self.draw.choice(NAMES)} a"), Scope.of("a")
            functions = [self.row_by_row() for _ in range(self.draw.randint(1, 2))]
        columns = [self.column(scope), self.column(scope)]
        body = part("SELECT ", ", ".join(columns), ", ", listed(functions), " FROM ", source, self.conditions(scope, " WHERE "))
        return body, len(columns) + len(functions)

    def peers_alike(self, scope: Scope) -> Part:
        """Draws a window function that is equal for rows that are equal in its order."""
        function = self.one_of(
            lambda: part("rank()"), lambda: part("dense_rank()"), lambda: part("count(*)"),
            lambda: part("count(", self.column(scope), ")"), lambda: part("sum(", self.column(scope, "kvwf"), ")"),
            lambda: part("min(", self.column(scope, "kvtdez"), ")"),
        )
        nulls = self.draw.choice([" NULLS FIRST", " DESC NULLS LAST"])
        column, frame = self.column(scope), ""
        if self.draw.random() < 0.2 and str(function) not in ("rank()", "dense_rank()"):
            column, frame = self.column(scope, "iv"), self.draw.choice(RANGES)
            nulls = self.draw.choice([" NULLS FIRST", " NULLS LAST"])
        return part(function, " OVER (", optional("PARTITION BY ", self.column(scope), " "), f"ORDER BY {column}{nulls}{frame})")

    def row_by_row(self) -> Part:
        """Draws a window function over a table, whose `i` is unique."""
        function = self.draw.choice([
            "row_number()", "lag(a.v)", "lead(a.t)", "lag(a.e, 2)", "ntile(3)", "first_value(a.v)", "last_value(a.k)",
            "nth_value(a.t, 2)", "sum(a.v)", "count(a.t)", "max(a.w)", "min(a.e)", "max(a.z)", "max(a.i)",
        ])
        frame = "" if function.startswith(("row", "lag", "lead", "ntile")) else self.draw.choice(FRAMES)
        scope = Scope.of("a")
        first = self.one_of(
            lambda: part(""), lambda: optional("a.v DESC NULLS LAST, "), lambda: optional("a.t NULLS FIRST, "),
            lambda: optional(self.without_subqueries(scope, 1), " DESC NULLS FIRST, "),
        )
        key = self.without_subqueries(scope, 1) if self.draw.random() < 0.2 else part(self.column(scope))
        partition = optional("PARTITION BY ", key, " ")
        return part(f"{function} OVER (", partition, "ORDER BY ", first, f"a.i{self.maybe(' DESC')}{frame})")

    def grouping_sets(self) -> tuple[Part, int]:
        source, scope = self.source()
        first, second = self.draw.sample("kvtd", 2)
        keys = [self.column(scope, first), self.column(scope, second)]
        aggregate = self.draw.choice(["sum({})", "max({})", "count(DISTINCT {})"]).format(self.column(scope, "vwk"))
        grouping = f", grouping({self.draw.choice(keys)})" if self.draw.random() < 0.5 else ""
        having = optional(" HAVING count(*) > 1") if self.draw.random() < 0.2 else part("")
        by = self.draw.choice(GROUPINGS).format(*keys)
        body = part(
            f"SELECT {', '.join(keys)}, count(*), {aggregate}{grouping} FROM ", source, self.conditions(scope, " WHERE "),
            f" GROUP BY {by}", having,
        )
        return body, 4 + bool(grouping)

    def distinct_on(self) -> tuple[Part, int]:
        """Draws the first row of each key: `i` is unique in a table."""
        scope, key = Scope.of("a"), self.draw.choice(["a.k", "a.v", "a.t", "a.d", "a.o", "a.e"])
        first = self.draw.choice(["", "a.w DESC NULLS LAST, ", "a.f NULLS FIRST, "])
        direction = self.draw.choice(["NULLS FIRST", "DESC NULLS LAST", "NULLS LAST"])
        order = f" ORDER BY {key} {direction}, {first}a.i{self.maybe(' DESC')}"
        inner = part(
            f"SELECT DISTINCT ON ({key}) {key} AS c0, a.i AS c1, ", self.value(scope, self.kind(), 1),
            f" AS c2 FROM {self.draw.choice(NAMES)} a", self.conditions(scope, " WHERE "), order,
        )
        return part("SELECT * FROM (", inner, ") x"), 3
