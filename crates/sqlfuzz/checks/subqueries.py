"""Random subqueries: IN, EXISTS and scalar ones in every position, over nulls, correlated or not, and over aggregates."""

from __future__ import annotations

from .expressions import DEEPEST, Expressions
from .parts import Part, optional, part
from .scope import Scope
from .tables import KINDS, NAMES

#: The columns of a relation whose names are not those of the query around it.
RENAMED = ", ".join(f"x.{column} AS q{column}" for column in KINDS)


class Subqueries(Expressions):
    """Draws conditions with subqueries, too."""

    #: Where they are drawn: not in conditions of joins, which DataFusion does not plan, and not in subqueries of subqueries.
    subqueries = True

    def condition(self, scope: Scope, depth: int = 0) -> Part:
        if not self.subqueries or depth >= DEEPEST or self.draw.random() > (0.35, 0.2)[depth]:
            return super().condition(scope, depth)
        forms = [self.in_subquery] * 4 + [self.exists] * 3 + [self.above_scalar] * 2
        return part("(", self.draw.choice(forms)(scope), ")", simpler="true")

    def without_subqueries(self, scope: Scope, depth: int) -> Part:
        """A condition."""
        before, self.subqueries = self.subqueries, False
        drawn = self.condition(scope, depth)
        self.subqueries = before
        return drawn

    def inner(self, scope: Scope) -> tuple[str, Scope, Scope]:
        """What a subquery reads, its columns, and those outside of it that it can speak of."""
        table = self.draw.choice(self.tables)
        if self.draw.random() < 0.2:
            return f"(SELECT {RENAMED} FROM {table} x) q", Scope.of("q", written="{alias}.q{column}"), scope
        if self.draw.random() < 0.1:
            key = self.draw.choice("kvt")
            own = Scope(((key, key), *(each for each in Scope.of("q").columns if each[1] != key)))
            kind = self.draw.choice(["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"])
            return f"{table} q {kind} {self.draw.choice(NAMES)} y USING ({key})", own, scope.from_inside()
        return f"{table} q", Scope.of("q"), scope.from_inside()

    def correlated(self, own: Scope, outer: Scope, likely: float = 0.6) -> Part:
        """The condition of a subquery: it may depend on the row outside, by equal columns, other ones, or in order."""
        said = []
        if outer.columns and self.draw.random() < likely:
            for _ in range(self.draw.choice([1, 1, 1, 2])):
                pair = self.draw.choice(["kk", "vv", "kv", "vk", "tt", "dd", "ii", "ik", "ee", "zz"])
                how = self.draw.choice(["="] * 6 + ["<", ">=", "<>", "IS NOT DISTINCT FROM"])
                left, right = self.column(own, pair[0]), self.column(outer, pair[1])
                said.append(part(left, f" {how} ", right))
        if self.draw.random() < 0.5:
            said.append(self.without_subqueries(own + outer if self.draw.random() < 0.2 else own, DEEPEST))
        if not said:
            return part("")
        joined = [part(" AND " if at else "", each, simpler="" if at else None) for at, each in enumerate(said)]
        return part(" WHERE ", *joined, simpler="")

    def is_correlated(self, condition: Part, outer: Scope) -> bool:
        return any(written in str(condition) for written, _ in outer.columns)

    def in_subquery(self, scope: Scope) -> Part:
        source, own, outer = self.inner(scope)
        column = self.draw.choice("kkvvtdwze")
        sought = part(self.column(scope, column))
        if column in "kv" and self.draw.random() < 0.2:
            sought = self.draw.choice([part(self.constant()), part("NULL"), self.number(scope, DEEPEST - 1)])
        return part(sought, f" {self.maybe('NOT ')}IN (", self.column_of(source, own, outer, column), ")")

    def column_of(self, source: str, own: Scope, outer: Scope, column: str) -> Part:
        """A subquery of one column, whose values are like those of that column."""
        where = self.correlated(own, outer, 0.4)
        written = self.column(own, column)
        plain = part(f"SELECT {written} FROM {source}", where)
        dice = self.draw.random()
        if dice < 0.6:
            return plain
        if dice < 0.7 and column in "kv":
            aggregate = self.draw.choice(["count(*)", "min({})", "max({})", "count({})", "sum({})"])
            return part(f"SELECT {aggregate.format(written)} FROM {source}", where)
        if dice < 0.78:
            having = optional(" HAVING ", self.draw.choice(["count(*) > 1", f"max({self.column(own, 'v')}) > 2"]))
            by = f" GROUP BY {self.column(own, 'kvt')}"
            return part(f"SELECT max({written}) FROM {source}", where, by, having, simpler=str(plain))
        if dice < 0.84:
            return part("SELECT DISTINCT ", written, f" FROM {source}", where, simpler=str(plain))
        if self.is_correlated(where, outer):
            return plain
        if dice < 0.92:
            order = f" ORDER BY {written} {self.draw.choice(['NULLS FIRST', 'DESC NULLS LAST'])}"
            return part(plain, optional(order, f" LIMIT {self.draw.choice([0, 1, 5])}"))
        other = f"SELECT p.{column} FROM {self.draw.choice(NAMES)} p"
        how = self.draw.choice([" UNION ALL ", " UNION ", " EXCEPT ", " INTERSECT "])
        return part(plain, optional(how, other))

    def exists(self, scope: Scope) -> Part:
        source, own, outer = self.inner(scope)
        where = self.correlated(own, outer, 0.85)
        plain = part(f"SELECT 1 FROM {source}", where)
        column = self.column(own, "kvt")
        drawn = self.draw.choice([
            plain, plain, plain, part(f"SELECT {column} FROM {source}", where),
            part(f"SELECT {self.draw.choice(['count(*)', f'max({column})'])} FROM {source}", where),
            part(f"SELECT count(*) FROM {source}", where, " HAVING count(*) > 1"),
            part(f"SELECT {column} FROM {source}", where, f" GROUP BY {column}", optional(" HAVING count(*) > 1")),
            part(plain, f" LIMIT {self.draw.choice([0, 1, 2])}"),
        ])
        return part(f"{self.maybe('NOT ')}EXISTS (", drawn, ")")

    def scalar(self, scope: Scope) -> Part:
        """A number from at most one row: an aggregate, or the row of a table with that number."""
        if self.draw.random() < 0.25:
            column = self.draw.choice("kvw")
            equal = self.draw.choice([self.constant(), *scope.from_inside().named("ikv")])
            return part(f"(SELECT q.{column} FROM {self.draw.choice(NAMES)} q WHERE q.i = {equal})")
        source, own, outer = self.inner(scope)
        column = self.column(own, "kvw")
        aggregate = self.draw.choice(["min({})", "max({})", "count({})", "count(*)", "sum({})", "coalesce(max({}), 3)"])
        return part(f"(SELECT {aggregate.format(column)} FROM {source}", self.correlated(own, outer), ")")

    def above_scalar(self, scope: Scope) -> Part:
        if self.draw.random() < 0.2:
            return part(self.scalar(scope), f" IS {self.maybe('NOT ')}NULL")
        how = self.draw.choice([">", "=", "<=", "<>", "IS DISTINCT FROM"])
        return part(self.number(scope, DEEPEST - 1), f" {how} ", self.scalar(scope))

    def number(self, scope: Scope, depth: int = 0) -> Part:
        if self.subqueries and depth == 0 and self.draw.random() < 0.07:
            return part(self.scalar(scope), simpler=self.column(scope, "v"))
        return super().number(scope, depth)
