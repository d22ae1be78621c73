"""Random expressions over columns: numbers, texts, times and conditions.

Operations that differ between engines by design are left out: divisions by zero, division of integers, casts of texts and of
fractions to whole numbers. `arithmetic.py` has overflow.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from .parts import Part, optional, part
from .scope import Scope
from .tables import KINDS

#: Maximum depth; deeper expressions are columns and constants.
DEEPEST = 2

NUMBERS = [column for column, kind in KINDS.items() if kind == "number"]
COMPARISONS = ["=", "<", ">", "<=", "<>", "IS DISTINCT FROM", "IS NOT DISTINCT FROM"]


class Expressions:
    """Draws expressions. Their subqueries read these tables."""

    def __init__(self, draw: random.Random, tables: Sequence[str]):
        self.draw = draw
        self.tables = list(tables)

    def one_of(self, *choices: Callable[[], Part]) -> Part:
        return self.draw.choice(choices)()

    def maybe(self, text: str) -> str:
        return self.draw.choice(["", text])

    def column(self, scope: Scope, columns: Sequence[str] = tuple(KINDS)) -> str:
        """Draws one of these columns, by its name in the query."""
        return self.draw.choice(scope.named(columns))

    def constant(self) -> str:
        whole = str(self.draw.randint(-3, 12))
        return whole + self.draw.choice([".5", ".25", ".0"]) if self.draw.random() < 0.15 else whole

    def kind(self) -> str:
        return self.draw.choice(list(KINDS.values()))

    def value(self, scope: Scope, kind: str, depth: int = 0) -> Part:
        """Draws an expression of that kind."""
        if kind == "number":
            return self.number(scope, depth)
        if kind == "text":
            return self.text(scope)
        if kind == "truth" and depth == 0 and self.draw.random() < 0.3:
            return part(self.condition(scope, 1), simpler=self.column(scope, "o"))
        if kind in ("date", "instant"):
            return self.time(scope, "d" if kind == "date" else "z")
        return part(self.column(scope, "o" if kind == "truth" else "e"))

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
            # With one digit, results would be no reals. DuckDB makes reals of reals and decimals.
            lambda: self.rounded(scope),
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

    def time(self, scope: Scope, name: str) -> Part:
        """Draws a column of times, perhaps shifted or truncated."""
        column = self.column(scope, name)
        forms = ["{}"] * 5 + ["date_trunc('month', {})", "({} + INTERVAL '1 month')", "({} - INTERVAL '3 days')"]
        forms += ["coalesce({}, DATE '2020-02-29')"] if name == "d" else ["({} + INTERVAL '5 hours')"]
        return part(self.draw.choice(forms).format(column), simpler=column)

    def condition(self, scope: Scope, depth: int = 0) -> Part:
        """Draws a condition."""
        simple = [self.compared, self.compared, self.compared, self.null_or_not, self.like, self.in_list, self.dated, self.truth, self.cast]
        composed = [self.both_or_either, self.both_or_either, self.negated, self.between, self.chosen, self.judged]
        choices = simple if depth >= DEEPEST else simple + composed
        return part("(", self.draw.choice(choices)(scope, depth), ")", simpler="true")

    def conditions(self, scope: Scope, introduced: str) -> Part:
        """Draws `WHERE` or `AND` with conditions, or nothing."""
        drawn = [self.condition(scope) for _ in range(self.draw.choice([0, 0, 1, 1, 1, 2]))]
        if not drawn:
            return part("")
        joined = [part(" AND " if at else "", condition, simpler="" if at else None) for at, condition in enumerate(drawn)]
        return part(introduced, *joined, simpler="")

    def where(self, scope: Scope) -> Part:
        """Draws a condition without subqueries, or nothing."""
        return optional(" WHERE ", self.condition(scope, DEEPEST)) if self.draw.random() < 0.5 else part("")

    def compared(self, scope: Scope, depth: int) -> Part:
        how = self.draw.choice(COMPARISONS + ["<", ">", "<=", "<>"])
        other = self.number(scope, depth + 1) if self.draw.random() < 0.4 else part(self.constant())
        if self.draw.random() < 0.15:
            return part(self.text(scope), f" {how} ", self.draw.choice([self.column(scope, "t"), "'b1'"]))
        if self.draw.random() < 0.1:
            ends = ["32767", "-32768", "2147483647", "-2147483648", "9223372036854775807", "0"]
            return part(self.column(scope, "e"), f" {how} ", self.draw.choice([self.column(scope, "ev"), *ends]))
        return part(self.number(scope, depth + 1), f" {how} ", other)

    def null_or_not(self, scope: Scope, _depth: int) -> Part:
        return part(f"{self.column(scope)} IS {self.maybe('NOT ')}NULL")

    def like(self, scope: Scope, _depth: int) -> Part:
        pattern = self.draw.choice(["a%", "%1", "b_", "%", "_", "%a%1%"])
        return part(f"{self.column(scope, 't')} {self.maybe('NOT ')}LIKE '{pattern}'")

    def in_list(self, scope: Scope, _depth: int) -> Part:
        """Draws a list of values, or two lists for one column."""
        column = self.column(scope, "kvwi")

        def drawn() -> str:
            values = [str(self.draw.randint(-2, 9)) for _ in range(self.draw.randint(1, 5))]
            null = ", NULL" if self.draw.random() < 0.3 else ""
            return f"{column} {self.maybe('NOT ')}IN ({', '.join(values)}{null})"

        first = drawn()
        if self.draw.random() < 0.2:
            return part(f"({first}{self.draw.choice([' AND ', ' OR '])}{drawn()})", simpler=first)
        return part(first)

    def dated(self, scope: Scope, _depth: int) -> Part:
        how = self.draw.choice(["<", ">=", "=", "<>"])
        if self.draw.random() < 0.4:
            hour = f"TIMESTAMPTZ '2020-01-0{self.draw.randint(1, 4)} {self.draw.randint(0, 23):02d}:00:00+00'"
            return part(f"{self.column(scope, 'z')} {how} {self.draw.choice([hour, hour, self.column(scope, 'z')])}")
        day = f"2020-01-{self.draw.randint(1, 28):02d}"
        constant = self.draw.choice([
            f"DATE '{day}'",
            f"DATE '{day}'",
            f"TIMESTAMP '{day} 12:00:00'",
            # Between two times of the units that columns have.
            f"TIMESTAMP '{day} {self.draw.randint(0, 23):02d}:00:0{self.draw.randint(0, 9)}.{self.draw.randint(0, 99):03d}5'",
        ])
        column = self.column(scope, "d")
        form = self.draw.choice(["{0} {1} {2}"] * 4 + ["{2} {1} {0}", "{0} NOT IN ({2})", "{0} IN ({2})", "CAST({0} AS DATE) {1} CAST({2} AS DATE)"])
        return part(form.format(column, how, constant), simpler=f"{column} {how} {constant}")

    def rounded(self, scope: Scope) -> Part:
        """A rounded number. DuckDB's UNION would round other numbers to fewer digits than three, too."""
        digits = self.draw.choice([-1, 0, 2, 3])
        number = part("round(", self.column(scope, "w"), f", {digits})")
        return number if digits == 3 else part("CAST(", number, " AS DECIMAL(23,3))")

    def cast(self, scope: Scope, _depth: int) -> Part:
        """A number with fewer digits, compared."""
        how, digits = self.draw.choice(COMPARISONS), self.draw.choice([0, 1, 2])
        form = self.draw.choice(["CAST({} AS DECIMAL(23,{}))", "CAST({} AS DECIMAL(23,{}))", "round({}, {})", "round({}, 3 - {})"])
        other = self.draw.choice([self.constant(), self.constant(), self.column(scope, "w")])
        return part(f"{form.format(self.column(scope, 'w'), digits)} {how} {other}")

    def truth(self, scope: Scope, _depth: int) -> Part:
        return part(self.draw.choice(["{}", "NOT {}", "coalesce({}, true)", "{} IS NOT TRUE"]).format(self.column(scope, "o")))

    def between(self, scope: Scope, depth: int) -> Part:
        least, most = self.constant(), self.number(scope, depth + 1)
        return part(self.number(scope, depth + 1), f" {self.maybe('NOT ')}BETWEEN {least} AND ", most)

    def both_or_either(self, scope: Scope, depth: int) -> Part:
        return part(self.condition(scope, depth + 1), self.draw.choice([" AND ", " OR "]), self.condition(scope, depth + 1))

    def negated(self, scope: Scope, depth: int) -> Part:
        return part("NOT ", self.condition(scope, depth + 1))

    def chosen(self, scope: Scope, depth: int) -> Part:
        """Draws a condition that chooses between two."""
        first, second, third = (self.condition(scope, depth + 1) for _ in range(3))
        return part("CASE WHEN ", first, " THEN ", second, optional(" ELSE ", third), " END", simpler="true")

    def judged(self, scope: Scope, depth: int) -> Part:
        """Draws a test whether a condition is true, false or neither."""
        how = self.draw.choice(["IS NULL", "IS NOT NULL", "IS TRUE", "IS NOT TRUE", "IS FALSE", "IS NOT FALSE"])
        return part(self.condition(scope, depth + 1), f" {how}")
