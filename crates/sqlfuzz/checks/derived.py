"""Random subqueries in FROM that have the columns of a table.

They avoid a fault of DataFusion 55's planning, so that the check finds other faults. `UNION ALL` of different types
gets its type too late for subqueries that depend on it, and its columns are looked up by names that its inputs lack. So
both sides of a derived table have the same types, and columns of set operations have names.
"""

from __future__ import annotations

from .arithmetic import Arithmetic
from .parts import Part, optional, part
from .scope import Scope
from .tables import KINDS, NAMES

JOINS = ["JOIN", "JOIN", "LEFT JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"]

#: Types that hold the values of all tables.
WIDE = {
    "i": "BIGINT", "k": "DOUBLE PRECISION", "v": "BIGINT", "w": "DECIMAL(12,3)", "f": "DOUBLE PRECISION", "t": "VARCHAR",
    "d": "TIMESTAMP", "o": "BOOLEAN", "e": "BIGINT", "z": "TIMESTAMPTZ",
}


class Derived(Arithmetic):
    """Draws subqueries in place of tables."""

    def derived(self) -> Part:
        """Draws a subquery that has the columns of a table."""
        forms = [self.grouped, self.regrouped, self.distinct, self.limited, self.united, self.joined, self.numbered, self.used]
        return part("(", self.draw.choice(forms)(), ")")

    def filtered(self, alias: str) -> Part:
        return part(f" FROM {self.draw.choice(NAMES)} {alias}", self.where(Scope.of(alias)))

    def grouped(self) -> Part:
        key = self.draw.choice("kv")
        other = "v" if key == "k" else "k"
        return part(
            f"SELECT count(*) AS i, q.{key} AS {key}, max(q.{other}) AS {other}, sum(q.v) AS w, max(q.f) AS f, min(q.t) AS t, ",
            "max(q.d) AS d, bool_or(q.o) AS o, min(q.e) AS e, max(q.z) AS z", self.filtered("q"), f" GROUP BY q.{key}",
        )

    def regrouped(self) -> Part:
        """Draws groups over a join with groups."""
        kind = self.draw.choice(JOINS)
        return part(
            "SELECT count(*) AS i, q.k, p.v, sum(p.w) AS w, max(q.f) AS f, min(p.t) AS t, max(p.d) AS d, bool_or(p.o) AS o, ",
            "max(p.e) AS e, min(p.z) AS z FROM (SELECT q.k, max(q.f) AS f", self.filtered("q"),
            f" GROUP BY q.k) q {kind} {self.draw.choice(NAMES)} p ON q.k = p.v GROUP BY q.k, p.v",
        )

    def distinct(self) -> Part:
        """Draws columns with swapped names."""
        columns = "q.i % 9 AS i, q.v AS k, q.k AS v, q.f AS w, q.w AS f, q.t, q.d, q.o, q.e, q.z"
        return part(f"SELECT DISTINCT {columns}", self.filtered("q"))

    def limited(self) -> Part:
        """Draws a subquery with a limit. `i` is unique in a table."""
        keys = ["i", "v, q.i", "k DESC NULLS LAST, q.i", "t NULLS FIRST, q.i", "e NULLS LAST, q.i", "z DESC NULLS FIRST, q.i"]
        order = f" ORDER BY q.{self.draw.choice(keys)} LIMIT {self.draw.choice([1, 4, 30])}"
        return part("SELECT q.*", self.filtered("q"), optional(order))

    def united(self) -> Part:
        columns = ", ".join(f"CAST(q.{column} AS {wide}) AS {column}" for column, wide in WIDE.items())
        how = self.draw.choice([" UNION ALL ", " UNION ALL ", " UNION ", " EXCEPT ", " INTERSECT "])
        return part(f"SELECT {columns}", self.filtered("q"), optional(how, f"SELECT {columns}", self.filtered("q")))

    def joined(self) -> Part:
        column = self.draw.choice("kt")
        taken = ", ".join(f"{self.draw.choice('qp')}.{column} AS {column}" for column in KINDS)
        left, right = self.draw.choice(NAMES), self.draw.choice(NAMES)
        return part(
            f"SELECT {taken} FROM {left} q {self.draw.choice(JOINS)} {right} p ON q.{column} = p.{column}",
            self.where(Scope.of("q", "p")),
        )

    def used(self) -> Part:
        """Draws a join with a merged key, which is the key of the result."""
        key = self.draw.choice("kvt")
        taken = ", ".join(key if column == key else f"{self.draw.choice('qp')}.{column} AS {column}" for column in KINDS)
        left, right = self.draw.choice(NAMES), self.draw.choice(NAMES)
        where = optional(" WHERE ", self.draw.choice([f"{key} IS NOT NULL", f"q.{key} IS NULL", f"{key} IS NULL OR q.o"]))
        return part(f"SELECT {taken} FROM {left} q {self.draw.choice(JOINS)} {right} p USING ({key})", where)

    def numbered(self) -> Part:
        window = "row_number() OVER (PARTITION BY q.k ORDER BY q.i)"
        return part(f"SELECT q.i, q.k, {window} AS v, q.w, q.f, q.t, q.d, q.o, q.e, q.z", self.filtered("q"))
