"""Random conditions that guard others: a division, a sum or a cast that may fail, for rows that a condition lets through.

PostgreSQL evaluates conditions that cost less first, and the right operand of AND and OR for the rows that need it.
So its answer is no error, unless a table has no such guard.
"""

from __future__ import annotations

from .arithmetic import Arithmetic
from .parts import Part, listed, optional, part
from .scope import Scope
from .tables import NAMES

#: A condition, and numbers that may be computed where it is true.
GUARDS = [
    ("{0}.v <> 0", ["({0}.i / {0}.v)", "({0}.i % {0}.v)", "(100 / ({0}.v * {0}.v))"]),
    ("{0}.v > 0", ["({0}.i / {0}.v)", "(7 % {0}.v)"]),
    ("({0}.v IS NOT NULL AND {0}.v <> 0)", ["({0}.i / {0}.v)"]),
    ("{0}.i <> 3", ["(60 / ({0}.i - 3))", "({0}.v % ({0}.i - 3))"]),
    ("{0}.e BETWEEN -100 AND 100", ["({0}.e * {0}.e)", "({0}.e + {0}.e)", "CAST({0}.e AS SMALLINT)"]),
    ("{0}.e < 100", ["({0}.e + CAST(7 AS SMALLINT))"]),
    ("{0}.t < 'c'", ["CAST(CASE WHEN {0}.t < 'c' THEN '7' ELSE {0}.t END AS INTEGER)"]),
]


class Guards(Arithmetic):
    """Draws queries with guards."""

    def guard(self, alias: str) -> tuple[str, str]:
        """Returns a guard and a condition that it guards."""
        guard, numbers = self.draw.choice(GUARDS)
        number = self.draw.choice(numbers)
        return guard.format(alias), f"{number.format(alias)} {self.draw.choice(['<', '>', '=', '<>'])} {self.draw.randint(-3, 12)}"

    def guarded_condition(self, scope: Scope, alias: str) -> Part:
        guard, condition = self.guard(alias)
        more = self.without_subqueries(scope, 1)
        return self.one_of(
            lambda: part(f"({guard} AND {condition})"),
            lambda: part(f"(NOT ({guard}) OR {condition})"),
            lambda: part(f"CASE WHEN {guard} THEN {condition} ELSE {self.draw.choice(['false', 'true', 'NULL'])} END"),
            lambda: part(f"(({guard} AND {condition}) OR ", more, ")"),
            lambda: part(f"(NOT ({guard} AND {condition}))"),
            lambda: part(f"({guard} AND ", more, f" AND {condition})"),
        )

    def guarded(self) -> tuple[Part, int]:
        scope, table = Scope.of("a"), self.draw.choice(NAMES)
        condition = self.guarded_condition(scope, "a")
        form = self.draw.choice(["where", "where", "nested", "below", "value", "filter", "group", "window", "order", "join"])
        source, i = f" FROM {table} a", "a.i"
        if form == "where":
            guard, guarded = self.guard("a")
            conditions = [guard, guarded]
            self.draw.shuffle(conditions)
            more = optional(" AND ", self.without_subqueries(scope, 1))
            return part(f"SELECT {i}, ", self.value(scope, "number", 1), source, f" WHERE {' AND '.join(conditions)}", more), 2
        if form == "nested":
            return part(f"SELECT {i}, {self.column(scope)} AS c1{source} WHERE ", condition), 2
        if form == "below":
            guard, numbers = self.draw.choice(GUARDS)
            number = self.draw.choice(numbers).format("a")
            more = optional(" AND ", self.without_subqueries(scope, 1))
            return part(f"SELECT {number} AS c1, {self.column(scope)} AS c2{source} WHERE {guard.format('a')}", more), 2
        if form == "value":
            return part(f"SELECT {i}, ", condition, " AS c1", source, self.conditions(scope, " WHERE ")), 2
        if form == "filter":
            case = part("sum(CASE WHEN ", condition, " THEN 1 ELSE 0 END)")
            counted = part("count(*) FILTER (WHERE ", condition, ")")
            return part("SELECT ", listed([case, counted]), source, self.conditions(scope, " WHERE ")), 2
        if form == "group":
            return part("SELECT ", condition, " AS c1, count(*), max(a.i)", source, " GROUP BY 1"), 3
        if form == "window":
            over = self.draw.choice(["(PARTITION BY a.k)", "(PARTITION BY a.t ORDER BY a.v NULLS FIRST)"])
            return part(f"SELECT {i}, count(CASE WHEN ", condition, f" THEN a.v END) OVER {over}", source), 2
        if form == "order":
            return part(f"SELECT {i}, row_number() OVER (ORDER BY ", condition, " NULLS FIRST, a.i)", source), 2
        guard, guarded = self.guard("b")
        how = self.draw.choice(["JOIN", "LEFT JOIN"])
        on = f"a.k = b.k AND {guard} AND {guarded}"
        return part(f"SELECT {i}, b.i AS j FROM {table} a {how} {self.draw.choice(NAMES)} b ON {on}"), 2
