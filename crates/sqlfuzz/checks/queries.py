"""Random queries over the tables of a seed. Every query has one right answer, except for the order of rows if it is open."""

from __future__ import annotations

import random
from collections.abc import Sequence

from .parts import Part, Query, listed, optional, part
from .derived import JOINS
from .scope import Scope
from .shapes import Shapes
from .tables import NAMES

#: The name of a table to which a query refers more than once.
COMMON = "x"


class Queries(Shapes):
    """Draws queries."""

    def __init__(self, draw: random.Random, odd: Sequence[tuple[str, str]] = ()):
        """Uses odd columns, given with their tables, more often."""
        super().__init__(draw, NAMES)
        self.odd = odd

    def table_and_column(self, columns: str) -> tuple[str, str]:
        odd = [(table, column) for table, column in self.odd if column in columns]
        if odd and self.draw.random() < 0.5:
            return self.draw.choice(odd)
        return self.draw.choice(NAMES), self.draw.choice(columns)

    def forms(self) -> list:
        """Returns the forms to draw. A form that is listed several times is drawn more often."""
        return (
            [self.rows] * 6 + [self.groups] * 4 + [self.over_merged] * 4 + [self.near_the_ends] * 3
            + [self.windows, self.sets, self.top] * 2 + [self.extremes] * 3
            + [self.nulls, self.grouping_sets, self.distinct_on, self.merged_in_order] + [self.shaped] * 8
        )

    def query(self) -> Query:
        form = self.draw.choice(self.forms())
        if form in (self.top, self.merged_in_order):
            return form()
        ordered = self.draw.random() < 0.4
        common = part("")
        if self.draw.random() < 0.15:
            common = part(f"WITH {COMMON} AS ", self.derived(), " ")
            self.tables += [COMMON] * 3
        body, columns = form()
        return Query(part(common, body), self.order(columns) if ordered else None)

    def order(self, columns: int) -> Part:
        """Draws a total order: rows that are equal in all columns are identical."""
        positions = list(range(1, columns + 1))
        self.draw.shuffle(positions)
        return part(f" ORDER BY {', '.join(f'{position}{self.direction()}' for position in positions)}{self.limit(0.8)}")

    # Relations in FROM.

    def source(self) -> tuple[Part, Scope]:
        """Draws up to three relations, joined."""
        aliases = ["a"]
        joined = self.relation("a")
        for alias in "bc"[: self.draw.choice([0, 1, 1, 1, 2])]:
            joined = part(joined, self.join(aliases, alias))
            aliases.append(alias)
        return joined, Scope.of(*aliases)

    def relation(self, alias: str) -> Part:
        table = self.draw.choice(self.tables)
        if self.draw.random() < 0.3:
            return part(self.derived(), f" {alias}", simpler=f"{table} {alias}")
        return part(f"{table} {alias}")

    def join(self, aliases: list[str], alias: str) -> Part:
        how = self.draw.choice(JOINS)
        left, right = self.draw.choice(["kk", "kk", "kv", "vv", "vk", "tt", "dd", "ik", "ee", "zz"])
        keys = f"{self.draw.choice(aliases)}.{left} = {alias}.{right}"
        more = self.one_of(
            lambda: part(""),
            lambda: part(""),
            lambda: optional(" AND ", self.condition(Scope.of(*aliases, alias), 1)),
            lambda: optional(" AND ", self.without_subqueries(Scope.of(*aliases, alias), 1)),
            lambda: optional(f" AND {alias}.{self.draw.choice('kv')} = {self.constant()}"),
        )
        return part(f" {how} ", self.relation(alias), f" ON {keys}", more)

    # Forms of queries: the SQL, and the number of columns.

    def rows(self) -> tuple[Part, int]:
        return self.selected([self.kind() for _ in range(self.draw.randint(1, 4))])

    def selected(self, kinds: list[str]) -> tuple[Part, int]:
        source, scope = self.source()
        columns = [part(self.value(scope, kind), f" AS c{at}") for at, kind in enumerate(kinds)]
        distinct = optional(self.draw.choice(["", "", "DISTINCT "]))
        return part("SELECT ", distinct, listed(columns), " FROM ", source, self.conditions(scope, " WHERE ")), len(columns)

    def groups(self) -> tuple[Part, int]:
        source, scope = self.source()
        kinds = [self.kind() for _ in range(self.draw.choice([0, 1, 1, 2]))]
        keys = [self.value(scope, kind, 1) for kind in kinds]
        if keys and self.draw.random() < 0.07:
            # Names of such keys may be equal.
            for at in range(self.draw.randint(1, len(keys))):
                keys[at] = part("(", self.with_subquery(scope), ")", simpler=self.column(scope, "v"))
        written = Scope(tuple(each for each in scope.columns if each[0] in map(str, keys)))
        aggregates = [self.aggregate(scope) for _ in range(self.draw.randint(1, 3))]
        having = optional(" HAVING ", self.having(scope, written)) if self.draw.random() < 0.3 else part("")
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
            lambda: part("avg(CAST(", self.number(scope, 1), " AS DOUBLE PRECISION))"),
            lambda: part("min(", self.ordered_value(scope), ")"),
            lambda: part("max(", self.ordered_value(scope), ")"),
            lambda: part(self.draw.choice(["bool_or(", "bool_and("]), self.column(scope, "o"), ")"),
        )
        filtered = optional(" FILTER (WHERE ", self.condition(scope, 1), ")") if self.draw.random() < 0.3 else part("")
        return part(drawn, filtered, simpler="count(*)")

    def ordered_value(self, scope: Scope) -> Part:
        return self.value(scope, self.draw.choice(["number", "text", "date", "whole", "instant"]), 1)

    def having(self, scope: Scope, keys: Scope) -> Part:
        if keys.columns and self.draw.random() < 0.3:
            return self.exists(keys)
        found = f"SELECT q.v FROM {self.draw.choice(NAMES)} q WHERE q.v {self.draw.choice('<>')} 3"
        return self.one_of(
            lambda: part(f"count(*) > {self.draw.randint(0, 3)}"),
            lambda: part(f"max({self.column(scope, 'v')}) > {self.constant()}"),
            lambda: part(f"sum({self.column(scope, 'v')}) IS NOT NULL"),
            lambda: part(f"max({self.column(scope, 'v')}) {self.maybe('NOT ')}IN ({found})"),
            lambda: part(f"count(*) > (SELECT min(q.v) FROM {self.draw.choice(NAMES)} q)"),
        )

    def extremes(self) -> tuple[Part, int]:
        """Draws the least and the greatest values of a table, together and alone, which statistics may contain."""
        scope, (table, column) = Scope.of("a"), self.table_and_column("kvwftdeiz")
        ends = self.draw.choice([["min", "max"], ["min", "max"], ["min"], ["max"], ["max", "min", "count"]])
        columns = [part(f"{end}(a.{column})") for end in ends]
        if self.draw.random() < 0.3:
            columns.append(part(f"{self.draw.choice(['min', 'max'])}(a.{self.draw.choice('kvwftdeiz')})"))
        where = self.one_of(
            lambda: part(""), lambda: optional(f" WHERE a.{column} IS {self.maybe('NOT ')}NULL"),
            lambda: optional(" WHERE ", self.condition(scope, 2)),
            lambda: optional(f" WHERE a.v {self.draw.choice('<>')} {self.constant()}"),
        )
        return part("SELECT ", listed(columns), f" FROM {table} a", where), len(columns)

    def nulls(self) -> tuple[Part, int]:
        """Draws rows of a table whose column is null or is not."""
        table, column = self.table_and_column("kvwftdoez")
        is_null = f"a.{column} IS {self.maybe('NOT ')}NULL"
        chosen = self.draw.choice(["a.i", f"a.i, a.{column}", f"count(*), count(a.{column})"])
        more = optional(" AND ", self.condition(Scope.of("a"), 2)) if self.draw.random() < 0.3 else part("")
        return part(f"SELECT {chosen} FROM {table} a WHERE {is_null}", more), chosen.count(",") + 1

    def top(self) -> Query:
        """Draws the first rows of a table in a total order: by itself, or because `i` is unique in a table."""
        scope, (table, name) = Scope.of("a"), self.table_and_column("kvwftdez")
        column = f"a.{name}"
        columns = [part(column), part("a.i"), self.value(scope, self.kind(), 1)] if self.draw.random() < 0.6 else [part(column)]
        last = f", a.i{self.maybe(' DESC')}" if len(columns) > 1 else ""
        listing = [part(", " if at else "", each) for at, each in enumerate(columns)]
        body = part("SELECT ", *listing, f" FROM {table} a", self.conditions(scope, " WHERE "))
        computed = last and self.draw.random() < 0.3
        key = self.one_of(lambda: self.without_subqueries(scope, 1), lambda: self.number(scope, 1)) if computed else part(column)
        return Query(body, part(" ORDER BY ", key, f"{self.direction()}{last}{self.limit(0.9)}"))

    def sets(self) -> tuple[Part, int]:
        kinds = [self.kind() for _ in range(self.draw.randint(1, 3))]
        sides = [self.selected(kinds)[0] for _ in range(self.draw.choice([2, 2, 3]))]
        both = part("(", sides[0], ")")
        for side in sides[1:]:
            how = self.draw.choice(["UNION", "EXCEPT", "INTERSECT"]) + self.maybe(" ALL")
            both = part("(", both, optional(f" {how} (", side, ")"), ")")
        return both, len(kinds)
