"""Random joins with merged keys: USING and NATURAL of all kinds, whose keys are used in every clause.

The relations of such a join have the keys under their own names and all other columns with the alias as a prefix. So
every column except a key can be written with and without its alias.
"""

from __future__ import annotations

from dataclasses import dataclass

from .parts import Part, Query, listed, optional, part
from .scope import Scope
from .subqueries import Subqueries
from .tables import KINDS

KINDS_OF_JOIN = ["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"]


@dataclass(frozen=True)
class Merged:
    """The relation in FROM, its columns, and the keys that all relations share."""

    source: Part
    scope: Scope
    keys: list[str]
    #: The number of columns of `*`.
    width: int
    aliases: str


class Joins(Subqueries):
    """Draws joins with merged keys."""

    #: DuckDB leaves merged keys in their place in `*`; SQL, PostgreSQL and coscan put them first.
    keys_first = True

    def merged(self) -> Merged:
        keys = self.draw.choice([["k"], ["k"], ["v"], ["t"], ["k", "v"], ["d"]])
        aliases = "abc"[: self.draw.choice([2, 2, 2, 3])]
        source = self.narrowed(aliases[0], keys)
        # The merged key is the column that is most often wrong.
        columns = [(key, key) for key in keys] * 4
        for alias in aliases:
            columns += [(f"{alias}.{key}", key) for key in keys]
            qualified = self.maybe(f"{alias}.")
            columns += [(f"{qualified}{alias}_{column}", column) for column in KINDS if column not in keys]
        for alias in aliases[1:]:
            kind = self.draw.choice(KINDS_OF_JOIN)
            if alias == "c" and self.draw.random() < 0.3:
                # The merged key is an operand of the next join.
                renamed = ", ".join(f"{column} AS c_{column}" for column in KINDS)
                table, on = self.draw.choice(self.tables), f"{keys[0]} = c_{keys[0]}"
                source = part(source, f" {kind} (SELECT {renamed} FROM {table} q) c ON {on}")
                columns = [each for each in columns if each[0] not in [f"c.{key}" for key in keys]]
                columns += [(f"c.c_{key}", key) for key in keys]
            elif self.draw.random() < 0.35:
                source = part(source, f" NATURAL {kind} ", self.narrowed(alias, keys))
            else:
                source = part(source, f" {kind} ", self.narrowed(alias, keys), f" USING ({', '.join(keys)})")
        if self.draw.random() < 0.1:
            source = part("(", source, ")")
        return Merged(source, Scope(tuple(columns)), keys, len({written.split(".")[-1] for written, _ in columns}), aliases)

    def narrowed(self, alias: str, keys: list[str]) -> Part:
        order = [*keys, *(column for column in KINDS if column not in keys)] if self.keys_first else KINDS
        columns = [column if column in keys else f"{column} AS {alias}_{column}" for column in order]
        table = self.draw.choice(self.tables)
        return part(f"(SELECT {', '.join(columns)} FROM {table} q", self.where(Scope.of("q")), f") {alias}")

    def over_merged(self) -> tuple[Part, int]:
        """Draws a query over a join with merged keys. Returns its number of columns, too."""
        forms = [self.merged_rows, self.merged_rows, self.merged_groups, self.merged_all, self.merged_windows]
        return self.draw.choice(forms)(self.merged())

    def merged_rows(self, join: Merged) -> tuple[Part, int]:
        columns = [part(key) for key in join.keys]
        columns += [self.value(join.scope, self.kind()) for _ in range(self.draw.choice([1, 1, 2, 3]))]
        self.draw.shuffle(columns)
        named = [part(column, f" AS c{at}") for at, column in enumerate(columns)]
        distinct = optional(self.draw.choice(["", "", "DISTINCT "]))
        where = self.conditions(join.scope, " WHERE ")
        return part("SELECT ", distinct, listed(named), " FROM ", join.source, where), len(columns)

    def merged_groups(self, join: Merged) -> tuple[Part, int]:
        by = self.draw.choice([join.keys, join.keys, join.keys[:1]])
        other = self.column(join.scope, "vwke")
        conditions = [f"{by[0]} IS NOT NULL", "count(*) > 1", f"{by[0]} IS NULL OR count(*) > 1"]
        having = optional(" HAVING ", self.draw.choice(conditions))
        body = part(
            f"SELECT {', '.join(by)}, count(*), count({by[0]}), min({other}), max({other}) FROM ", join.source,
            self.conditions(join.scope, " WHERE "), f" GROUP BY {', '.join(by)}", having,
        )
        return body, len(by) + 4

    def merged_windows(self, join: Merged) -> tuple[Part, int]:
        key, other = join.keys[0], self.column(join.scope, "vwe")
        function = self.draw.choice([f"max({other})", f"count({key})", "rank()", f"min({key})"])
        partition = self.draw.choice([f"PARTITION BY {key} ", f"PARTITION BY {other} ", ""])
        over = f"{partition}ORDER BY {key}{self.draw.choice([' NULLS FIRST', ' DESC NULLS LAST'])}"
        where = self.conditions(join.scope, " WHERE ")
        return part(f"SELECT {key}, {other} AS c1, {function} OVER ({over}) AS c2 FROM ", join.source, where), 3

    def merged_in_order(self) -> Query:
        """Draws groups by the merged keys, in their order, which is total."""
        join = self.merged()
        other = self.column(join.scope, "vwke")
        body = part(
            f"SELECT {', '.join(join.keys)}, count(*), sum({self.column(join.scope, 'vwk')}), max({other}) FROM ", join.source,
            self.conditions(join.scope, " WHERE "), f" GROUP BY {', '.join(join.keys)}",
        )
        return Query(body, part(f" ORDER BY {', '.join(key + self.direction() for key in join.keys)}{self.limit(0.5)}"))

    def direction(self) -> str:
        return self.maybe(" DESC") + self.draw.choice([" NULLS FIRST", " NULLS LAST"])

    def limit(self, likely: float) -> str:
        limit = f" LIMIT {self.draw.choice([1, 3, 10, 100])}" if self.draw.random() < likely else ""
        return limit + (f" OFFSET {self.draw.choice([1, 5])}" if limit and self.draw.random() < 0.2 else "")

    def merged_all(self, join: Merged) -> tuple[Part, int]:
        """Draws all columns, with the keys once and first, or the keys and all columns of a side."""
        where = self.conditions(join.scope, " WHERE ")
        if self.draw.random() < 0.4:
            columns = f"{', '.join(join.keys)}, {self.draw.choice(join.aliases)}.*"
            return part(f"SELECT {columns} FROM ", join.source, where), len(join.keys) + len(KINDS)
        return part("SELECT * FROM ", join.source, where), join.width
