"""Random queries over the tables of a seed. Every query has one right answer, but for the order of rows that it leaves open.

DataFusion 55 has a fault in its planning that these queries avoid, so that the check finds others. `UNION ALL` of different types
is given its type too late for subqueries that depend on it, and is looked for by names that its inputs lack. So sides of a
derived table have the same types, and columns of set operations have names.
"""

from __future__ import annotations

import random

from .expressions import DEEPEST, Expressions, Scope
from .parts import Part, Query, listed, optional, part
from .tables import KINDS, NAMES

JOINS = ["JOIN", "JOIN", "LEFT JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"]

#: Types that hold the values of all tables.
WIDE = {
    "i": "BIGINT", "k": "DOUBLE", "v": "BIGINT", "w": "DECIMAL(12,3)",
    "f": "DOUBLE", "t": "VARCHAR", "d": "TIMESTAMP", "o": "BOOLEAN",
}

#: A table of which a query speaks more than once.
COMMON = "x"


class Queries(Expressions):
    """Draws queries."""

    def __init__(self, draw: random.Random):
        super().__init__(draw, NAMES)

    def query(self) -> Query:
        form = self.draw.choice([self.rows, self.rows, self.rows, self.groups, self.groups, self.sets, self.windows])
        ordered = self.draw.random() < 0.4
        common = part("")
        if self.draw.random() < 0.15:
            common = part(f"WITH {COMMON} AS ", self.derived(), " ")
            self.tables += [COMMON] * 3
        body, columns = form()
        return Query(part(common, body), self.order(columns) if ordered else None)

    def order(self, columns: int) -> Part:
        """A total order: rows that are equal in all columns are the same."""
        positions = list(range(1, columns + 1))
        self.draw.shuffle(positions)
        directions = ["", " DESC"], [" NULLS FIRST", " NULLS LAST"]
        keys = [f"{position}{''.join(map(self.draw.choice, directions))}" for position in positions]
        limit = f" LIMIT {self.draw.choice([1, 3, 10, 100])}" if self.draw.random() < 0.8 else ""
        skipped = f" OFFSET {self.draw.choice([1, 5])}" if limit and self.draw.random() < 0.2 else ""
        return part(f" ORDER BY {', '.join(keys)}{limit}{skipped}")

    # What stands behind FROM.

    def source(self) -> tuple[Part, Scope]:
        """Up to three relations, joined."""
        scope = ["a"]
        joined = self.relation("a")
        for alias in "bc"[: self.draw.choice([0, 1, 1, 1, 2])]:
            joined = part(joined, self.join(scope, alias))
            scope.append(alias)
        return joined, scope

    def relation(self, alias: str) -> Part:
        table = self.draw.choice(self.tables)
        if self.draw.random() < 0.3:
            return part(self.derived(), f" {alias}", simpler=f"{table} {alias}")
        return part(f"{table} {alias}")

    def join(self, scope: list[str], alias: str) -> Part:
        how = self.draw.choice(JOINS)
        left, right = self.draw.choice(["kk", "kk", "kv", "vv", "vk", "tt", "dd", "ik"])
        keys = f"{self.draw.choice(scope)}.{left} = {alias}.{right}"
        # Subqueries in the condition of a join are not planned by DataFusion.
        more = self.one_of(
            lambda: part(""),
            lambda: part(""),
            lambda: optional(" AND ", self.condition([*scope, alias], 1)),
            lambda: optional(f" AND {alias}.{self.draw.choice('kv')} = {self.constant()}"),
        )
        return part(f" {how} ", self.relation(alias), f" ON {keys}", more)

    def derived(self) -> Part:
        """A subquery that has the columns of a table."""
        forms = [self.grouped, self.regrouped, self.distinct, self.limited, self.united, self.joined, self.numbered]
        form = self.draw.choice(forms)
        return part("(", form(), ")")

    def filtered(self, alias: str) -> Part:
        return part(f" FROM {self.draw.choice(NAMES)} {alias}", optional(" WHERE ", self.condition([alias], DEEPEST)))

    def grouped(self) -> Part:
        key = self.draw.choice("kv")
        other = "v" if key == "k" else "k"
        return part(
            f"SELECT count(*) AS i, q.{key} AS {key}, max(q.{other}) AS {other}, sum(q.v) AS w, max(q.f) AS f, min(q.t) AS t, ",
            "max(q.d) AS d, bool_or(q.o) AS o", self.filtered("q"), f" GROUP BY q.{key}",
        )

    def regrouped(self) -> Part:
        """Groups over a join with groups."""
        kind = self.draw.choice(JOINS)
        return part(
            "SELECT count(*) AS i, q.k, p.v, sum(p.w) AS w, max(q.f) AS f, min(p.t) AS t, max(p.d) AS d, bool_or(p.o) AS o ",
            "FROM (SELECT q.k, max(q.f) AS f", self.filtered("q"), f" GROUP BY q.k) q {kind} {self.draw.choice(NAMES)} p ",
            "ON q.k = p.v GROUP BY q.k, p.v",
        )

    def distinct(self) -> Part:
        """Columns that have each other's names."""
        return part("SELECT DISTINCT q.i % 9 AS i, q.v AS k, q.k AS v, q.f AS w, q.w AS f, q.t, q.d, q.o", self.filtered("q"))

    def limited(self) -> Part:
        """`i` is unique in a table."""
        order = f" ORDER BY q.{self.draw.choice(['i', 'v, q.i', 'k DESC NULLS LAST, q.i', 't NULLS FIRST, q.i'])}"
        return part("SELECT q.*", self.filtered("q"), optional(order, f" LIMIT {self.draw.choice([1, 4, 30])}"))

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
            optional(" WHERE ", self.condition("qp", DEEPEST)),
        )

    def numbered(self) -> Part:
        window = "row_number() OVER (PARTITION BY q.k ORDER BY q.i)"
        return part(f"SELECT q.i, q.k, {window} AS v, q.w, q.f, q.t, q.d, q.o", self.filtered("q"))

    # Forms of queries: the SQL, and how many columns it has.

    def rows(self) -> tuple[Part, int]:
        return self.selected([self.draw.choice(list(KINDS.values())) for _ in range(self.draw.randint(1, 4))])

    def selected(self, kinds: list[str]) -> tuple[Part, int]:
        source, scope = self.source()
        columns = [part(self.value(scope, kind), f" AS c{at}") for at, kind in enumerate(kinds)]
        distinct = optional(self.draw.choice(["", "", "DISTINCT "]))
        return part("SELECT ", distinct, listed(columns), " FROM ", source, self.conditions(scope, " WHERE ")), len(columns)

    def groups(self) -> tuple[Part, int]:
        source, scope = self.source()
        kinds = [self.draw.choice(list(KINDS.values())) for _ in range(self.draw.choice([0, 1, 1, 2]))]
        keys = [self.value(scope, kind, 1) for kind in kinds]
        aggregates = [self.aggregate(scope) for _ in range(self.draw.randint(1, 3))]
        having = optional(" HAVING ", self.having(scope)) if self.draw.random() < 0.3 else part("")
        grouped = [" GROUP BY ", listed([part(str(at + 1)) for at in range(len(keys))])] if keys else []
        columns = part(*(part(key, ", ") for key in keys), listed(aggregates))
        where = self.conditions(scope, " WHERE ")
        return part("SELECT ", columns, " FROM ", source, where, *grouped, having), len(keys) + len(aggregates)

    def aggregate(self, scope: Scope) -> Part:
        drawn = self.one_of(
            lambda: part("count(*)"),
            lambda: part("count(", self.column(scope), ")"),
            lambda: part("count(DISTINCT ", self.column(scope), ")"),
            lambda: part("sum(", self.number(scope, 1), ")"),
            lambda: part("sum(DISTINCT ", self.column(scope, "kvw"), ")"),
            lambda: part("avg(CAST(", self.number(scope, 1), " AS DOUBLE))"),
            lambda: part("min(", self.value(scope, self.draw.choice(["number", "text", "date"])), ")"),
            lambda: part("max(", self.value(scope, self.draw.choice(["number", "text", "date"])), ")"),
            lambda: part(self.draw.choice(["bool_or(", "bool_and("]), self.column(scope, "o"), ")"),
        )
        filtered = optional(" FILTER (WHERE ", self.condition(scope, 1), ")") if self.draw.random() < 0.3 else part("")
        return part(drawn, filtered, simpler="count(*)")

    def having(self, scope: Scope) -> Part:
        return self.one_of(
            lambda: part(f"count(*) > {self.draw.randint(0, 3)}"),
            lambda: part(f"max({self.column(scope, 'v')}) > {self.constant()}"),
            lambda: part(f"sum({self.column(scope, 'v')}) IS NOT NULL"),
        )

    def sets(self) -> tuple[Part, int]:
        kinds = [self.draw.choice(list(KINDS.values())) for _ in range(self.draw.randint(1, 3))]
        sides = [self.selected(kinds)[0] for _ in range(self.draw.choice([2, 2, 3]))]
        both = part("(", sides[0], ")")
        for side in sides[1:]:
            how = self.draw.choice(["UNION", "EXCEPT", "INTERSECT"]) + self.maybe(" ALL")
            both = part("(", both, optional(f" {how} (", side, ")"), ")")
        return both, len(kinds)

    def windows(self) -> tuple[Part, int]:
        if self.draw.random() < 0.5:
            source, scope = self.source()
            functions = [self.peers_alike(scope) for _ in range(self.draw.randint(1, 2))]
        else:
            source, scope = part(f"{self.draw.choice(NAMES)} a"), ["a"]
            functions = [self.row_by_row() for _ in range(self.draw.randint(1, 2))]
        columns = [self.column(scope), self.column(scope)]
        body = part("SELECT ", ", ".join(columns), ", ", listed(functions), " FROM ", source, self.conditions(scope, " WHERE "))
        return body, len(columns) + len(functions)

    def peers_alike(self, scope: Scope) -> Part:
        """A window function that is the same for rows which are equal in its order."""
        function = self.one_of(
            lambda: part("rank()"), lambda: part("dense_rank()"), lambda: part("count(*)"),
            lambda: part("sum(", self.column(scope, "kvwf"), ")"), lambda: part("min(", self.column(scope, "kvtd"), ")"),
        )
        nulls = self.draw.choice([" NULLS FIRST", " DESC NULLS LAST"])
        order = f"ORDER BY {self.column(scope)}{nulls}"
        return part(function, " OVER (", optional("PARTITION BY ", self.column(scope), " "), order, ")")

    def row_by_row(self) -> Part:
        """A window function over a table, whose `i` is unique."""
        function = self.draw.choice([
            "row_number()", "lag(a.v)", "lead(a.t)", "ntile(3)", "first_value(a.v)", "last_value(a.k)",
            "sum(a.v)", "count(a.t)", "max(a.w)",
        ])
        framed = not function.startswith(("row", "lag", "lead", "ntile"))
        frame = self.draw.choice([
            "", " ROWS BETWEEN 2 PRECEDING AND CURRENT ROW", " ROWS BETWEEN 1 PRECEDING AND 3 FOLLOWING",
            " ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING", " ROWS BETWEEN 3 PRECEDING AND 1 PRECEDING",
        ]) if framed else ""
        first = self.draw.choice(["", "a.v DESC NULLS LAST, ", "a.t NULLS FIRST, "])
        return part(f"{function} OVER (", optional("PARTITION BY ", self.column(["a"]), " "), f"ORDER BY {first}a.i{frame})")
