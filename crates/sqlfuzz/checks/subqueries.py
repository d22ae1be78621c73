"""Random subqueries: IN, EXISTS and scalar ones in every position, over nulls, correlated or not, nested, and over
aggregates.
"""

from __future__ import annotations

from .expressions import DEEPEST, Expressions
from .parts import Part, optional, part
from .scope import Scope
from .tables import KINDS, NAMES

#: The columns with which a column can be compared.
LIKE = {
    "i": "ik", "k": "kkvi", "v": "vvk", "w": "wk", "f": "fk", "t": "t", "d": "d", "o": "o", "e": "e", "z": "z",
}

#: The alias of a subquery's table, and of the table of a subquery in it.
ALIASES = ["q", "u"]


class Subqueries(Expressions):
    """Draws conditions, including those with subqueries."""

    #: Whether subqueries are drawn, and the number of enclosing ones.
    subqueries = True
    level = 0

    def condition(self, scope: Scope, depth: int = 0) -> Part:
        if not self.subqueries or depth >= DEEPEST or self.draw.random() > (0.35, 0.2)[depth]:
            return super().condition(scope, depth)
        return part("(", self.with_subquery(scope), ")", simpler="true")

    def with_subquery(self, scope: Scope) -> Part:
        return self.draw.choice([self.in_subquery] * 4 + [self.exists] * 3 + [self.above_scalar] * 2)(scope)

    def without_subqueries(self, scope: Scope, depth: int) -> Part:
        """Draws a condition."""
        before, self.subqueries = self.subqueries, False
        drawn = self.condition(scope, depth)
        self.subqueries = before
        return drawn

    def inner(self, scope: Scope) -> tuple[str, Scope, Scope]:
        """Draws the table of a subquery. Returns it with its columns and with the outer columns that the subquery can use."""
        table, alias = self.draw.choice(self.tables), ALIASES[self.level]
        dice = self.draw.random()
        if dice < 0.2:
            renamed = ", ".join(f"x.{column} AS {alias}{column}" for column in KINDS)
            return f"(SELECT {renamed} FROM {table} x) {alias}", Scope.of(alias, written="{alias}.{alias}{column}"), scope
        if dice < 0.28:
            key, kind = self.draw.choice("kvt"), self.draw.choice(["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"])
            own = Scope(((key, key), *(each for each in Scope.of(alias).columns if each[1] != key)))
            return f"{table} {alias} {kind} {self.draw.choice(NAMES)} y USING ({key})", own, scope.from_inside()
        return f"{table} {alias}", Scope.of(alias), scope.from_inside()

    def tied(self, own: Scope, outer: Scope) -> Part:
        """Draws a comparison with an outer column: of equal columns, other ones, or by order."""
        written, column = self.draw.choice(outer.columns)
        how = self.draw.choice(["="] * 6 + ["<", ">=", "<>", "IS NOT DISTINCT FROM"])
        return part(self.column(own, LIKE[column]), f" {how} {written}")

    def correlated(self, own: Scope, outer: Scope, likely: float = 0.6) -> Part:
        """Draws the condition of a subquery, which may depend on the outer row, or have a subquery of its own."""
        said = []
        if outer.columns and self.draw.random() < likely:
            said = [self.tied(own, outer) for _ in range(self.draw.choice([1, 1, 1, 2]))]
        if self.draw.random() < 0.5:
            said.append(self.without_subqueries(own + outer if self.draw.random() < 0.2 else own, DEEPEST))
        if self.level + 1 < len(ALIASES) and self.draw.random() < 0.08:
            self.level += 1
            said.append(part("(", self.with_subquery(own + outer), ")"))
            self.level -= 1
        if not said:
            return part("")
        joined = [part(" AND " if at else "", each, simpler="" if at else None) for at, each in enumerate(said)]
        return part(" WHERE ", *joined, simpler="")

    def depends(self, condition: Part, outer: Scope) -> bool:
        return any(written in str(condition) for written, _ in outer.columns)

    def in_subquery(self, scope: Scope) -> Part:
        source, own, outer = self.inner(scope)
        column = self.draw.choice("kkvvtdwze")
        if not scope.named(column):
            return self.exists(scope)
        sought = part(self.column(scope, column))
        if column in "kv" and self.draw.random() < 0.2:
            sought = self.draw.choice([part(self.constant()), part("NULL"), self.number(scope, DEEPEST - 1)])
        return part(sought, f" {self.maybe('NOT ')}IN (", self.column_of(source, own, outer, column), ")")

    def column_of(self, source: str, own: Scope, outer: Scope, column: str) -> Part:
        """Draws a subquery of one column with values like those of that column."""
        where = self.correlated(own, outer, 0.4)
        written = self.column(own, column)
        plain = part(f"SELECT {written} FROM {source}", where)
        dice = self.draw.random()
        if dice < 0.55:
            return plain
        if dice < 0.67 and column in "kv":
            aggregate = self.draw.choice(["count(*)", "min({})", "max({})", "count({})", "sum({})"])
            return part(f"SELECT {aggregate.format(written)} FROM {source}", where)
        if dice < 0.75:
            having = optional(" HAVING ", self.draw.choice(["count(*) > 1", f"max({self.column(own, 'v')}) > 2"]))
            by = f" GROUP BY {self.column(own, 'kvt')}"
            return part(f"SELECT max({written}) FROM {source}", where, by, having, simpler=str(plain))
        if dice < 0.82:
            return part("SELECT DISTINCT ", written, f" FROM {source}", where, simpler=str(plain))
        if dice < 0.86 and outer.named(column):
            # The value depends on the outer row.
            value = self.draw.choice(["coalesce({0}, {1})", "CASE WHEN {0} IS NULL THEN {1} ELSE {0} END", "{1}"])
            return part(f"SELECT {value.format(written, self.column(outer, column))} FROM {source}", where, simpler=str(plain))
        if dice < 0.93:
            order = f" ORDER BY {written} {self.draw.choice(['NULLS FIRST', 'DESC NULLS LAST'])}"
            return part(plain, optional(order, f" LIMIT {self.draw.choice([0, 1, 5])}"))
        other = part(f"SELECT p.{column} FROM {self.draw.choice(NAMES)} p")
        if outer.columns and self.draw.random() < 0.3:
            other = part(other, " WHERE ", self.tied(Scope.of("p"), outer))
        how = self.draw.choice([" UNION ALL ", " UNION ", " EXCEPT ", " INTERSECT "])
        return part(plain, optional(how, other))

    def exists(self, scope: Scope) -> Part:
        source, own, outer = self.inner(scope)
        where = self.correlated(own, outer, 0.85)
        plain = part(f"SELECT 1 FROM {source}", where)
        column = self.column(own, "kvt")
        least = self.column(outer, "iv") if outer.named("iv") and self.draw.random() < 0.3 else "1"
        drawn = self.draw.choice([
            plain, plain, plain, part(f"SELECT {column} FROM {source}", where),
            part(f"SELECT {self.draw.choice(['count(*)', f'max({column})'])} FROM {source}", where),
            part(f"SELECT count(*) FROM {source}", where, f" HAVING count(*) > {least}"),
            part(f"SELECT {column} FROM {source}", where, f" GROUP BY {column}", optional(f" HAVING count(*) > {least}")),
            part(plain, f" LIMIT {self.draw.choice([0, 1, 2])}{self.maybe(' OFFSET 1')}"),
        ])
        return part(f"{self.maybe('NOT ')}EXISTS (", drawn, ")")

    def scalar(self, scope: Scope) -> Part:
        """Draws a number from at most one row: an aggregate, the row of a table with that number, or the first in an order."""
        dice, table, inside = self.draw.random(), self.draw.choice(NAMES), scope.from_inside()
        alias = ALIASES[self.level]
        if dice < 0.2:
            equal = self.draw.choice([self.constant(), *inside.named("ikv")])
            return part(f"(SELECT {alias}.{self.draw.choice('kvw')} FROM {table} {alias} WHERE {alias}.i = {equal})")
        if dice < 0.3 and inside.columns:
            tied = optional(" WHERE ", self.tied(Scope.of(alias), inside))
            first = self.draw.choice([f"{alias}.v NULLS LAST, ", f"{alias}.k DESC NULLS FIRST, ", ""])
            order = f" ORDER BY {first}{alias}.i LIMIT 1)"
            return part(f"(SELECT {alias}.{self.draw.choice('kvw')} FROM {table} {alias}", tied, order)
        source, own, outer = self.inner(scope)
        column = self.column(own, "kvw")
        aggregate = self.draw.choice(["min({})", "max({})", "count({})", "count(*)", "sum({})", "coalesce(max({}), 3)"])
        if outer.named("v") and self.draw.random() < 0.1:
            aggregate = f"{aggregate} + {self.column(outer, 'v')}"
        return part(f"(SELECT {aggregate.format(column)} FROM {source}", self.correlated(own, outer), ")")

    def above_scalar(self, scope: Scope) -> Part:
        if self.draw.random() < 0.2:
            return part(self.scalar(scope), f" IS {self.maybe('NOT ')}NULL")
        how = self.draw.choice([">", "=", "<=", "<>", "IS DISTINCT FROM"])
        number = part(self.column(scope, "kv")) if self.level else self.number(scope, DEEPEST - 1)
        return part(number, f" {how} ", self.scalar(scope))

    def number(self, scope: Scope, depth: int = 0) -> Part:
        if self.subqueries and depth == 0 and self.draw.random() < 0.07:
            return part(self.scalar(scope), simpler=self.column(scope, "v"))
        return super().number(scope, depth)
