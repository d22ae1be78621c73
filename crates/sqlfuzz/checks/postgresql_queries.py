"""Random queries with SQL of PostgreSQL beyond the common dialect of all engines, or that only PostgreSQL defines."""

from __future__ import annotations

from .expressions import DEEPEST
from .guards import Guards
from .parts import Part, listed, optional, part
from .queries import Queries
from .scope import Scope
from .tables import ENDS, NAMES

#: Conditions of constants.
TRUTHS = [
    "NULL", "true", "false", "NOT (NULL::boolean)", "1 IN (2, NULL)", "1 NOT IN (2, NULL)", "NULL IN (SELECT 1 WHERE false)",
    "NULL NOT IN (SELECT 1 WHERE false)", "1 = ANY (SELECT NULL::int)", "1 <> ALL (SELECT q.v FROM l q WHERE false)",
    "(1, NULL) IN (SELECT 1, 2)", "EXISTS (SELECT count(*) FROM l q WHERE false)",
    "(SELECT max(q.v) FROM l q WHERE false) IS NULL",
]

#: Statements of one column that are refused, or would be with a name at another place or with more rows.
MISTAKES = [
    "SELECT v FROM {first} a {kind} {second} b USING (k)",
    "SELECT k FROM {first} a {kind} {second} b ON a.k = b.k",
    "SELECT a.i FROM {first} a {kind} {second} b USING (k) WHERE v > 1",
    "SELECT a.i FROM {first} a {kind} {second} b USING (k) {kind} {third} c USING (v)",
    "SELECT k FROM {first} a {kind} {second} b USING (k) {kind} {third} c ON a.v = c.v",
    "SELECT a.i FROM {first} a {kind} {second} b USING (nothing)",
    "SELECT count(*) FROM {first} a {kind} {second} b USING (k) GROUP BY v",
    "SELECT x.k FROM {first} a WHERE a.k IN (SELECT x.k FROM {second} x)",
    "SELECT a.v FROM {first} a GROUP BY a.k",
    "SELECT (SELECT q.k FROM {second} q)",
    "SELECT (SELECT q.v FROM {second} q WHERE q.k = a.k) FROM {first} a",
    "SELECT a.i FROM {first} a WHERE (SELECT q.o FROM {second} q WHERE q.v < a.v)",
    "SELECT k FROM ({first} a {kind} {second} b USING (k))",
    "SELECT k FROM (SELECT a.k, b.k FROM {first} a {kind} {second} b USING (k)) x",
    "SELECT x.v FROM (SELECT * FROM {first} a {kind} {second} b USING (k)) x",
    "WITH x AS (SELECT * FROM {first} a {kind} {second} b ON a.k = b.k) SELECT x.t FROM x",
    "SELECT a.a.i FROM {first} a",
    "SELECT x.k FROM (SELECT * FROM {first} a {kind} {second} b USING (k)) x",
]

#: Computations with constants, or errors.
CALCULATIONS = [
    "9223372036854775807 + 1", "2147483647::int + 1::int", "32767::smallint + 1::smallint", "-9223372036854775807 - 2", "7 / 2",
    "-7 / 2", "-7 % 3", "2147483647::int * 2::int", "9223372036854775807 * 2", "abs((-2147483648)::int)", "40000::smallint",
    "1 / 0", "1::numeric / 4",
]


class PostgresqlQueries(Guards, Queries):
    """Draws queries for PostgreSQL."""

    keys_first = False

    def forms(self) -> list:
        more = [self.divided, self.guarded] * 3 + [self.over_merged] * 2 + [self.constants, self.mistaken, self.lateral, self.rows]
        return super().forms() + more

    def shapes(self) -> list:
        return [*super().shapes(), self.series]

    def failing(self) -> list[tuple[str, str]]:
        of_text = ("CAST(CASE WHEN a.t < 'c' THEN '7' ELSE a.t END AS INTEGER)", "a.t < 'c'")
        return [*super().failing(), ("a.i / a.v", "a.v <> 0"), ("7 % a.v", "a.v > 0"), of_text]

    def series(self) -> tuple[Part, int]:
        """Draws a function in FROM whose arguments are computed of constants."""
        last = self.draw.choice([*CALCULATIONS[:4], "4 + 1", "2147483645::int + 2", "3 * 2"])
        first = self.draw.choice([f"{last} - 3", "1", f"({last}) - 2", "2147483640::int + 4::int"])
        return part(f"SELECT count(*), min(g), max(g) FROM (SELECT g FROM generate_series({first}, {last}) s(g) LIMIT 9) x"), 3

    def constant(self) -> str:
        """Those with a point are of type numeric in PostgreSQL and of double precision in coscan."""
        return str(self.draw.randint(-3, 12))

    def direction(self) -> str:
        """Draws a sort direction. By default nulls are greater than all values."""
        return super().direction() if self.draw.random() < 0.5 else self.maybe(" DESC")

    # Conditions.

    def in_subquery(self, scope: Scope) -> Part:
        dice = self.draw.random()
        if dice < 0.15:
            return self.row_in_subquery(scope)
        if dice < 0.4:
            return self.any_or_all(scope)
        return super().in_subquery(scope)

    def row_in_subquery(self, scope: Scope) -> Part:
        """Draws a row of several values among those of a subquery."""
        source, own, outer = self.inner(scope)
        columns = self.draw.choice([["k", "v"], ["v", "t"], ["d", "k"], ["k", "v", "o"]])
        sought = ", ".join(self.column(scope, column) for column in columns)
        found = ", ".join(self.column(own, column) for column in columns)
        return part(f"({sought}) {self.maybe('NOT ')}IN (SELECT {found} FROM {source}", self.correlated(own, outer, 0.3), ")")

    def any_or_all(self, scope: Scope) -> Part:
        """Draws a comparison with any or all values of a subquery."""
        source, own, outer = self.inner(scope)
        column, how = self.draw.choice("kvtdw"), self.draw.choice(["=", "<>", "<", ">=", ">"])
        those = self.draw.choice(["ANY", "ALL"])
        return part(f"{self.column(scope, column)} {how} {those} (", self.column_of(source, own, outer, column), ")")

    def compared(self, scope: Scope, depth: int) -> Part:
        if self.draw.random() > 0.1:
            return super().compared(scope, depth)
        columns = self.draw.choice([["k", "v"], ["v", "t"], ["d", "k"]])
        left, right = (", ".join(self.column(scope, each) for each in columns) for _ in range(2))
        return part(f"({left}) {self.draw.choice(['=', '<>'])} ({right})")

    # Queries.

    def divided(self) -> tuple[Part, int]:
        """Draws divisions of whole numbers, which truncate. Those by zero are errors."""
        scope, table = Scope.of("a"), self.draw.choice(NAMES)
        dividend = self.draw.choice(["a.e", "a.v", "a.i", "(a.v - 5)", str(ENDS[self.draw.choice(list(ENDS))][1])])
        divisor = self.draw.choice(["2", "3", "-1", "-2", "7", "a.v", "(a.i + 1)", "nullif(a.v, 0)", "0", "NULL"])
        if divisor == "0" and dividend.lstrip("-").isdecimal():
            # docs/serve-sql.md: PostgreSQL divides constants even if there is no row.
            divisor = "(a.v - a.v)"
        how = self.draw.choice([" / ", " / ", " % "])
        conditions = ["a.v <> 0", f"a.i < {self.draw.choice([3, 20])}", "a.o", "a.e IS NOT NULL"]
        where = optional(" WHERE ", self.draw.choice(conditions))
        divided = part(dividend, how, divisor)
        if self.draw.random() < 0.3:
            compared = f" {self.draw.choice(['<', '=', '<>'])} {self.constant()}"
            return part("SELECT a.i, a.v FROM ", f"{table} a WHERE ", divided, compared), 2
        if self.draw.random() < 0.3:
            divided = part("CASE WHEN a.v <> 0 THEN ", dividend, how, "a.v ELSE 0 END")
        return part("SELECT a.i, ", divided, " AS c1, ", self.value(scope, "number", DEEPEST), f" AS c2 FROM {table} a", where), 3

    def lateral(self) -> tuple[Part, int]:
        """Draws a subquery in FROM that depends on an earlier row."""
        left, right = Scope.of("a"), Scope.of("q")
        tied = [self.tied(right, left) for _ in range(self.draw.choice([1, 1, 2]))]
        ties = part(tied[0], *(optional(" AND ", each) for each in tied[1:]))
        more = optional(" AND ", self.without_subqueries(right, DEEPEST)) if self.draw.random() < 0.3 else part("")
        joins = [("CROSS JOIN", ""), ("JOIN", " ON true"), ("LEFT JOIN", " ON true"), ("LEFT JOIN", " ON a.v > 2")]
        how, on = self.draw.choice(joins)
        tables = self.draw.choice(self.tables), self.draw.choice(self.tables)
        rows = part(f"SELECT {self.draw.choice(['', '', '', 'DISTINCT '])}q.* FROM {tables[1]} q WHERE ", ties, more)
        if self.draw.random() < 0.4:
            # Rows with all columns equal may take each other's place.
            order = ", ".join(f"q.{name}{self.draw.choice(['', '', ' DESC'])}" for name in "ikvwftdoez")
            rows = part(rows, f" ORDER BY {order} LIMIT {self.draw.choice([1, 1, 2, 5])}", f" OFFSET {self.draw.choice([0, 0, 1])}")
        elif self.draw.random() < 0.2:
            rows = part(rows, f" UNION ALL SELECT q.* FROM {tables[1]} q WHERE ", self.tied(right, left))
        source = part(f"{tables[0]} a {how} LATERAL (", rows, f") b{on}")
        scope = Scope.of("a", "b")
        columns = [self.value(scope, self.kind(), 1) for _ in range(self.draw.choice([1, 2]))] + [part("a.i"), part("b.i")]
        return part("SELECT ", listed(columns), " FROM ", source, self.conditions(scope, " WHERE ")), len(columns)

    def mistaken(self) -> tuple[Part, int]:
        """Draws statements of which nearly all must be refused, for their names or their rows."""
        tables = {name: self.draw.choice(NAMES) for name in ("first", "second", "third")}
        kind = self.draw.choice(["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"])
        return part(self.draw.choice(MISTAKES).format(kind=kind, **tables)), 1

    def constants(self) -> tuple[Part, int]:
        """Draws conditions and computations of constants alone, including nulls."""
        truths = [f"({self.draw.choice(TRUTHS)})" for _ in range(5)]
        drawn = [part(f"{truths[0]} AND {truths[1]}"), part(f"{truths[2]} OR {truths[3]}"), part(f"(NOT {truths[4]}) IS NULL")]
        drawn.append(part(self.draw.choice(CALCULATIONS) if self.draw.random() < 0.4 else "1"))
        return part("SELECT ", listed([part(each, f" AS c{at}") for at, each in enumerate(drawn)])), len(drawn)

