"""Random expressions over columns: numbers, texts, dates and conditions.

Left out is what the two do differently by intent: divisions by zero and overflow, division of integers, casts of texts, NaN.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from .parts import Part, part
from .tables import KINDS

#: The aliases whose columns an expression may use.
Scope = Sequence[str]

#: Deeper expressions are columns and constants.
DEEPEST = 2

NUMBERS = [column for column, kind in KINDS.items() if kind == "number"]


class Expressions:
    """Draws expressions; subqueries in them read these tables."""

    def __init__(self, draw: random.Random, tables: Sequence[str]):
        self.draw = draw
        self.tables = list(tables)

    def one_of(self, *choices: Callable[[], Part]) -> Part:
        return self.draw.choice(choices)()

    def maybe(self, text: str) -> str:
        return self.draw.choice(["", text])

    def column(self, scope: Scope, columns: Sequence[str] = tuple(KINDS)) -> str:
        return f"{self.draw.choice(scope)}.{self.draw.choice(columns)}"

    def constant(self) -> str:
        return str(self.draw.randint(-3, 12))

    def value(self, scope: Scope, kind: str, depth: int = 0) -> Part:
        """An expression of that kind."""
        if kind == "number":
            return self.number(scope, depth)
        if kind == "text":
            return self.text(scope)
        if kind == "date":
            return part(self.column(scope, "d"))
        return part(self.column(scope, "o"))

    def number(self, scope: Scope, depth: int = 0) -> Part:
        column = self.column(scope, NUMBERS)
        if depth >= DEEPEST or self.draw.random() < 0.4:
            return part(column)

        def inner() -> Part:
            return self.number(scope, depth + 1)

        drawn = self.one_of(
            lambda: part("coalesce(", inner(), ", ", self.constant(), ")"),
            lambda: part("coalesce(", inner(), ", ", inner(), ")"),
            lambda: part("(", inner(), self.draw.choice([" + ", " - "]), self.constant(), ")"),
            lambda: part("(", self.column(scope, NUMBERS), " * ", self.draw.choice("23"), ")"),
            lambda: part("abs(", inner(), ")"),
            lambda: part("(", self.column(scope, "i"), " % ", self.draw.choice("37"), ")"),
            lambda: part("nullif(", inner(), ", ", self.constant(), ")"),
            lambda: part(self.draw.choice(["greatest(", "least("]), inner(), ", ", inner(), ")"),
            lambda: part("CASE WHEN ", self.condition(scope, depth + 1), " THEN ", inner(), " ELSE ", inner(), " END"),
            lambda: part("CASE WHEN ", self.condition(scope, depth + 1), " THEN ", inner(), " END"),
            lambda: part("length(", self.text(scope), ")"),
            lambda: part("extract(", self.draw.choice(["day", "month"]), " FROM ", self.column(scope, "d"), ")"),
        )
        return part(drawn, simpler=column)

    def text(self, scope: Scope) -> Part:
        column = self.column(scope, "t")
        form = self.draw.choice(["{}", "{}", "upper({})", "substr({}, 1, 1)", "({} || 'x')", "coalesce({}, 'none')"])
        return part(form.format(column), simpler=column)

    def condition(self, scope: Scope, depth: int = 0) -> Part:
        """A condition; none at that depth or deeper has subqueries."""
        simple = [self.compared, self.compared, self.compared, self.null_or_not, self.like, self.in_list, self.dated, self.truth]
        composed = [self.both_or_either, self.both_or_either, self.negated, self.between]
        subqueries = [self.in_subquery, self.exists, self.above_scalar, self.above_correlated]
        choices = simple if depth >= DEEPEST else simple + composed + (subqueries if depth == 0 else [])
        return part("(", self.draw.choice(choices)(scope, depth), ")", simpler="true")

    def conditions(self, scope: Scope, introduced: str) -> Part:
        """`WHERE` or `AND` and conditions, or nothing."""
        drawn = [self.condition(scope) for _ in range(self.draw.choice([0, 1, 1, 2]))]
        if not drawn:
            return part("")
        joined = [part(" AND " if at else "", condition, simpler="" if at else None) for at, condition in enumerate(drawn)]
        return part(introduced, *joined, simpler="")

    def compared(self, scope: Scope, depth: int) -> Part:
        how = self.draw.choice(["=", "<", ">", "<=", "<>", "IS DISTINCT FROM", "IS NOT DISTINCT FROM"])
        other = self.number(scope, depth + 1) if self.draw.random() < 0.4 else part(self.constant())
        if self.draw.random() < 0.15:
            return part(self.text(scope), f" {how} ", self.draw.choice([self.column(scope, "t"), "'b1'"]))
        return part(self.number(scope, depth + 1), f" {how} ", other)

    def null_or_not(self, scope: Scope, _depth: int) -> Part:
        return part(f"{self.column(scope)} IS {self.maybe('NOT ')}NULL")

    def like(self, scope: Scope, _depth: int) -> Part:
        pattern = self.draw.choice(["a%", "%1", "b_", "%", "_", "%a%1%"])
        return part(f"{self.column(scope, 't')} {self.maybe('NOT ')}LIKE '{pattern}'")

    def in_list(self, scope: Scope, _depth: int) -> Part:
        column, negated = self.column(scope, "kvwi"), self.maybe("NOT ")
        values = [str(self.draw.randint(-2, 9)) for _ in range(self.draw.randint(1, 5))]
        null = ", NULL" if self.draw.random() < 0.3 else ""
        return part(f"{column} {negated}IN ({', '.join(values)}{null})")

    def dated(self, scope: Scope, _depth: int) -> Part:
        day = f"DATE '2020-01-{self.draw.randint(1, 28):02d}'"
        return part(f"{self.column(scope, 'd')} {self.draw.choice(['<', '>=', '=', '<>'])} {day}")

    def truth(self, scope: Scope, _depth: int) -> Part:
        return part(self.draw.choice(["{}", "NOT {}", "coalesce({}, true)", "{} IS NOT TRUE"]).format(self.column(scope, "o")))

    def between(self, scope: Scope, depth: int) -> Part:
        least, most = self.constant(), self.number(scope, depth + 1)
        return part(self.number(scope, depth + 1), f" {self.maybe('NOT ')}BETWEEN {least} AND ", most)

    def both_or_either(self, scope: Scope, depth: int) -> Part:
        return part(self.condition(scope, depth + 1), self.draw.choice([" AND ", " OR "]), self.condition(scope, depth + 1))

    def negated(self, scope: Scope, depth: int) -> Part:
        return part("NOT ", self.condition(scope, depth + 1))

    def in_subquery(self, scope: Scope, _depth: int) -> Part:
        column = self.draw.choice("kvtdw")
        return part(
            f"{self.column(scope, column)} {self.maybe('NOT ')}IN (SELECT q.{column} FROM {self.draw.choice(self.tables)} q",
            part(" WHERE ", self.condition(["q"], DEEPEST), simpler=""), ")",
        )

    def exists(self, scope: Scope, _depth: int) -> Part:
        column = self.draw.choice("kvtdi")
        return part(
            f"{self.maybe('NOT ')}EXISTS (SELECT 1 FROM {self.draw.choice(self.tables)} q",
            f" WHERE q.{column} = {self.column(scope, column)}",
            part(" AND ", self.condition(["q", self.draw.choice(scope)], DEEPEST), simpler=""), ")",
        )

    def above_scalar(self, scope: Scope, _depth: int) -> Part:
        return part(
            f"{self.column(scope, 'v')} > (SELECT {self.draw.choice(['min', 'max', 'count'])}(q.v)",
            f" FROM {self.draw.choice(self.tables)} q", part(" WHERE ", self.condition(["q"], DEEPEST), simpler=""), ")",
        )

    def above_correlated(self, scope: Scope, _depth: int) -> Part:
        column, how = self.draw.choice("kvt"), self.draw.choice([">", "=", "<="])
        return part(
            f"{self.column(scope, 'v')} {how} (SELECT {self.draw.choice(['min', 'max', 'count'])}(q.v)",
            f" FROM {self.draw.choice(self.tables)} q WHERE q.{column} = {self.column(scope, column)}",
            part(" AND ", self.condition(["q"], DEEPEST), simpler=""), ")",
        )
