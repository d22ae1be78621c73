"""Random queries of the shapes that planners get wrong: each concerns a mend of `coscan-upstream`.

The other modules draw most of these shapes, too, but rarely.
"""

from __future__ import annotations

from .derived import JOINS
from .expressions import COMPARISONS
from .parts import Part, listed, optional, part
from .scope import Scope
from .tables import NAMES
from .windows import FRAMES, GROUPINGS, Windows

#: Floating-point numbers without an equal in other types.
ODD = ["NaN", "Infinity", "-Infinity"]

#: Subqueries without tables: their columns have no expression.
LISTS = [
    "VALUES (1), (2), (5)", "VALUES (1), (NULL), (4)", "SELECT * FROM (VALUES (0), (3)) u", "SELECT unnest(ARRAY[1, 2, 7])",
]

#: Conditions that no row satisfies.
NEVER = ["1 = 2", "false", "CAST(NULL AS BOOLEAN)", "q.i IS NULL AND q.i > 0"]

#: A condition that fixes a column, and the column.
FIXED = [("{0}.v = 3", "v"), ("{0}.t = 'b0'", "t"), ("{0}.k = 2", "k"), ("{0}.o", "o"), ("{0}.v * 2 = 4", "v"), ("{0}.i % 7 = 3", "i")]

#: An argument that may fail, and the condition of the rows for which it is computed.
FAILING = [
    ("CAST(a.e AS SMALLINT)", "a.e BETWEEN -100 AND 100"), ("CAST(a.e AS SMALLINT)", "a.e < 100 AND a.e > -7"),
]


class Shapes(Windows):
    """Draws queries of these shapes."""

    def shaped(self) -> tuple[Part, int]:
        return self.draw.choice(self.shapes())()

    def shapes(self) -> list:
        return [
            self.odd_groups, self.odd_extremes, self.odd_frames, self.odd_joins, self.mixed_numbers, self.sets_over_groups,
            self.groups_over_groups, self.alike_aggregates, self.alike_values, self.counted_rows, self.in_lists, self.perhaps_no_row,
            self.filtered_arguments, self.equal_nulls, self.constant_keys, self.never_lateral, self.fixed_columns,
            self.fixed_windows, self.frames_before_nulls, self.numbers_of_texts,
        ]

    def table(self, alias: str) -> str:
        return f"{self.draw.choice(NAMES)} {alias}"

    def odd_number(self, alias: str = "a") -> Part:
        """Draws a floating-point number, perhaps one without an equal in other types, or a zero or NaN of either sign."""
        column, condition = f"{alias}.f", self.without_subqueries(Scope.of(alias), 1)
        return self.one_of(
            lambda: part("CASE WHEN ", condition, f" THEN {column} ELSE -{column} END", simpler=f"-{column}"),
            lambda: part("CASE WHEN ", condition, f" THEN CAST('{self.draw.choice(ODD)}' AS DOUBLE PRECISION) ELSE {column} END"),
            lambda: part(f"nullif({column} * -1, {self.constant()})", simpler=column),
        )

    def odd_groups(self) -> tuple[Part, int]:
        """Draws groups or distinct rows by such a number."""
        where = self.conditions(Scope.of("a"), " WHERE ")
        if self.draw.random() < 0.5:
            return part("SELECT DISTINCT ", self.odd_number(), f" AS c0 FROM {self.table('a')}", where), 1
        aggregate = self.draw.choice(["max(a.i)", "min(a.v)", "count(DISTINCT a.k)"])
        return part("SELECT ", self.odd_number(), f" AS c0, count(*), {aggregate} FROM {self.table('a')}", where, " GROUP BY 1"), 3

    def odd_extremes(self) -> tuple[Part, int]:
        columns = [part(f"{self.draw.choice(['min', 'max'])}(", self.odd_number(), ")") for _ in range(self.draw.choice([1, 2]))]
        columns.append(part(f"{self.draw.choice(['min', 'max'])}(a.f)"))
        where = self.conditions(Scope.of("a"), " WHERE ")
        key = self.draw.choice(["", "a.k", "a.t", "a.o"])
        if not key:
            return part("SELECT ", listed(columns), f" FROM {self.table('a')}", where), len(columns)
        return part(f"SELECT {key}, ", listed(columns), f" FROM {self.table('a')}", where, f" GROUP BY {key}"), len(columns) + 1

    def odd_frames(self) -> tuple[Part, int]:
        """Draws aggregates over moving frames of such numbers."""
        function = self.draw.choice(["sum", "avg", "min", "max", "count"])
        partition = optional("PARTITION BY a.o ")
        order = f"ORDER BY a.i{self.maybe(' DESC')}{self.draw.choice(FRAMES)}"
        body = part(f"SELECT {function}(", self.odd_number(), ") OVER (", partition, order, f") AS c0, a.i FROM {self.table('a')}")
        return part(body, self.conditions(Scope.of("a"), " WHERE ")), 2

    def odd_joins(self) -> tuple[Part, int]:
        """Draws comparisons of such numbers with each other, as keys, conditions or members."""
        how = self.draw.choice(["=", "=", "<", ">=", "<>", "IS NOT DISTINCT FROM"])
        columns = f"a.i, a.f AS c1 FROM {self.table('a')}"
        if self.draw.random() < 0.4:
            return part(f"SELECT {columns} WHERE ", self.odd_number(), f" {how} ", self.odd_number()), 2
        if self.draw.random() < 0.4:
            values = part(f"SELECT q.f FROM {self.table('q')}", self.where(Scope.of("q")))
            return part(f"SELECT {columns} WHERE ", self.odd_number(), f" {self.maybe('NOT ')}IN (", values, ")"), 2
        kind = self.draw.choice(JOINS)
        on = part(" ON a.k = b.k AND ", self.odd_number(), f" {how} ", self.odd_number("b"))
        return part(f"SELECT a.i, b.i AS j FROM {self.table('a')} {kind} {self.table('b')}", on), 2

    def mixed_numbers(self) -> tuple[Part, int]:
        """Draws decimals beside floating-point numbers that no decimal holds."""
        exact, how = self.draw.choice(["a.w", "a.w", "a.k"]), self.draw.choice(COMPARISONS)

        def scaled(column: str) -> str:
            # With real, the product would be real in coscan: docs/serve-sql.md.
            return f"(CAST({column} AS DOUBLE PRECISION) * {self.draw.choice(['1e20', '1e-17', '1e-17', '0.1'])})"

        columns, source = "a.i, a.v AS c1", f" FROM {self.table('a')}"
        form = self.draw.choice(["compared", "between", "in", "value", "chosen", "subquery", "joined", "united"])
        if form == "compared":
            return part(f"SELECT {columns}{source} WHERE {exact} {how} {scaled('a.f')}"), 2
        if form == "between":
            return part(f"SELECT {columns}{source} WHERE {exact} {self.maybe('NOT ')}BETWEEN {scaled('a.f')} AND {scaled('a.v')}"), 2
        if form == "in":
            return part(f"SELECT {columns}{source} WHERE {exact} {self.maybe('NOT ')}IN ({scaled('a.f')}, 2.5, {scaled('a.f')})"), 2
        if form == "value":
            function = self.draw.choice(["greatest", "least", "coalesce"])
            return part(f"SELECT a.i, {function}({exact}, {scaled('a.f')}) AS c1{source}"), 2
        if form == "chosen":
            condition = self.without_subqueries(Scope.of("a"), 1)
            return part("SELECT a.i, CASE WHEN ", condition, f" THEN {exact} ELSE {scaled('a.f')} END AS c1{source}"), 2
        if form == "subquery":
            found = f"SELECT {scaled('q.f')} FROM {self.table('q')}"
            return part(f"SELECT {columns}{source} WHERE {exact} {self.maybe('NOT ')}IN ({found})"), 2
        if form == "joined":
            kind = self.draw.choice(JOINS)
            return part(f"SELECT a.i, b.i AS j{source} {kind} {self.table('b')} ON a.t = b.t AND {exact} {how} {scaled('b.f')}"), 2
        union = self.draw.choice(["UNION ALL", "UNION", "EXCEPT", "INTERSECT"])
        return part(f"SELECT {exact} AS c0{source} {union} SELECT {scaled('b.f')} FROM {self.table('b')}"), 1

    def groups_of(self, key: str, other: str, alias: str) -> Part:
        """Draws a subquery whose rows are determined by the key."""
        where = self.where(Scope.of("q"))
        table = self.table("q")
        return part(f"(SELECT q.{key}, max(q.{other}) AS {other}, count(*) AS n FROM {table}", where, f" GROUP BY q.{key}) {alias}")

    def sets_over_groups(self) -> tuple[Part, int]:
        """Draws grouping sets over rows that one of the keys determines."""
        key, other = self.draw.sample("kvtd", 2)
        keys = [f"a.{key}", f"a.{other}"]
        by = self.draw.choice(GROUPINGS).format(*keys)
        return part(f"SELECT {', '.join(keys)}, count(*), sum(a.n) FROM ", self.groups_of(key, other, "a"), f" GROUP BY {by}"), 4

    def groups_over_groups(self) -> tuple[Part, int]:
        """Draws groups or distinct rows over a join that repeats the keys of a subquery."""
        key, other = self.draw.sample("kvt", 2)
        column = self.draw.choice("vwtde")
        joined = part(self.groups_of(key, other, "a"), f" {self.draw.choice(JOINS)} {self.table('b')} ON a.{key} = b.{key}")
        where = optional(" WHERE ", self.without_subqueries(Scope.of("b"), 1))
        if self.draw.random() < 0.4:
            return part(f"SELECT DISTINCT a.{key}, b.{column} AS c1, a.n FROM ", joined, where), 3
        grouped = part(f"SELECT a.{key} AS c0, b.{column} AS c1, count(*) AS c2 FROM ", joined, where, f" GROUP BY a.{key}, b.{column}")
        if self.draw.random() < 0.5:
            return grouped, 3
        return part(f"SELECT {self.draw.choice(['', 'DISTINCT '])}x.c0, x.c1 FROM (", grouped, ") x"), 2

    def alike_aggregates(self) -> tuple[Part, int]:
        """Draws aggregates that differ in their subqueries."""
        scope = Scope.of("a")

        def aggregate() -> Part:
            condition = self.with_subquery(scope)
            return self.one_of(
                lambda: part("count(*) FILTER (WHERE ", condition, ")"),
                lambda: part("sum(CASE WHEN ", condition, " THEN 1 ELSE 0 END)"),
                lambda: part(f"sum((SELECT {self.draw.choice(['min', 'max'])}(q.v) FROM {self.table('q')}))"),
            )

        columns = [aggregate() for _ in range(self.draw.choice([2, 2, 3]))]
        if self.draw.random() < 0.5:
            return part("SELECT ", listed(columns), f" FROM {self.table('a')}"), len(columns)
        return part("SELECT a.k, ", listed(columns), f" FROM {self.table('a')} GROUP BY a.k"), len(columns) + 1

    def alike_values(self) -> tuple[Part, int]:
        """Draws keys that differ in their subqueries."""
        scope = Scope.of("a")
        keys = [part("(", self.with_subquery(scope), ")", simpler="a.o") for _ in range(2)]
        named = [part(key, f" AS c{at}") for at, key in enumerate(keys)]
        if self.draw.random() < 0.5:
            return part("SELECT ", *named[:1], ", ", *named[1:], f", count(*) FROM {self.table('a')} GROUP BY 1, 2"), 3
        return part("SELECT DISTINCT ", *named[:1], ", ", *named[1:], f" FROM {self.table('a')}"), 2

    def counted_rows(self) -> tuple[Part, int]:
        """Draws set operations that count equal rows, of which there are many."""
        columns = self.draw.choice(["{0}.k", "{0}.v", "{0}.t", "{0}.o", "{0}.o, {0}.k"])
        how = self.draw.choice(["EXCEPT ALL", "INTERSECT ALL"])
        sides = [
            part(f"SELECT {columns.format(alias)} FROM {self.table(alias)}", self.where(Scope.of(alias))) for alias in "ab"
        ]
        return part("(", sides[0], f") {how} (", sides[1], ")"), columns.count(",") + 1

    def in_lists(self) -> tuple[Part, int]:
        """Draws membership in a subquery without tables."""
        column = self.draw.choice(["a.k", "a.v", "a.i", "(a.v + 1)"])
        member = f"{column} {self.maybe('NOT ')}IN ({self.draw.choice(LISTS)})"
        if self.draw.random() < 0.4:
            return part(f"SELECT a.i, {member} AS c1 FROM {self.table('a')}"), 2
        more = optional(self.draw.choice([" AND ", " OR "]), self.condition(Scope.of("a"), 1))
        return part(f"SELECT a.i, a.v AS c1 FROM {self.table('a')} WHERE {member}", more), 2

    def perhaps_no_row(self) -> tuple[Part, int]:
        """Draws a subquery for a value that has one row or none."""
        which = self.draw.choice(["q.i = 3", "q.i = -1", "q.i = a.v", "q.i = a.i + 1", "q.i = 2 AND q.o", "q.i = a.i AND q.v > 2"])
        value = self.draw.choice(["q.i", "1", "q.i + 1", "coalesce(q.v, 0)", "'x'", "q.i IS NOT NULL"])
        found = f"(SELECT {value} FROM {self.table('q')} WHERE {which})"
        judged = f"{found} IS {self.maybe('NOT ')}NULL"
        if self.draw.random() < 0.5:
            return part(f"SELECT a.i, {self.draw.choice([judged, found])} AS c1 FROM {self.table('a')}"), 2
        more = optional(self.draw.choice([" AND ", " OR "]), self.without_subqueries(Scope.of("a"), 1))
        return part(f"SELECT a.i, a.k AS c1 FROM {self.table('a')} WHERE ({judged}", more, ")"), 2

    def failing(self) -> list[tuple[str, str]]:
        return FAILING

    def filtered_arguments(self) -> tuple[Part, int]:
        """Draws an argument that is computed only for the rows of a filter."""
        argument, condition = self.draw.choice(self.failing())
        function = self.draw.choice(["sum({})", "min({})", "max({})", "count({})", "count(DISTINCT {})"])
        more = optional(" AND ", self.without_subqueries(Scope.of("a"), 1))
        aggregate = part(f"{function.format(argument)} FILTER (WHERE {condition}", more, ")")
        key = self.draw.choice(["", "a.k", "a.o"])
        if not key:
            return part("SELECT ", aggregate, f", count(*) FROM {self.table('a')}"), 2
        return part(f"SELECT {key}, ", aggregate, f", count(*) FROM {self.table('a')} GROUP BY {key}"), 3

    def equal_nulls(self) -> tuple[Part, int]:
        """Draws keys with equal nulls beside equalities."""
        first, second, third = self.draw.sample("kvtd", 3)
        source = f"{self.table('a')} JOIN {self.table('b')} ON a.{first} IS NOT DISTINCT FROM b.{first}"
        where = [f"a.{second} = b.{second}"]
        columns = "a.i, b.i AS j"
        if self.draw.random() < 0.5:
            how = self.draw.choice(["=", "IS NOT DISTINCT FROM"])
            source += f" JOIN {self.table('c')} ON b.{third} {how} c.{third}"
            where.append(f"{self.draw.choice('ab')}.{self.draw.choice([first, second])} = c.{self.draw.choice([first, second])}")
            where = [each for each in where if "t" not in each or each.count(".t") == 2]
            where = [each for each in where if "d" not in each or each.count(".d") == 2]
            columns += ", c.i AS k"
        more = optional(" AND ", self.without_subqueries(Scope.of("a", "b"), 1))
        return part(f"SELECT {columns} FROM {source} WHERE {' AND '.join(where or ['true'])}", more), columns.count(",") + 1

    def constant_keys(self) -> tuple[Part, int]:
        """Draws keys that are constants, because counts are never null."""
        key, other = self.draw.sample("kv", 2)
        left = part(self.groups_of(key, other, "a"), f" JOIN {self.table('b')} ON a.{key} = b.{key}")
        constant = self.draw.choice(["(a.n IS NULL) = (c.n IS NULL)", "coalesce(a.n IS NOT NULL, false) = (c.n IS NOT NULL)"])
        ties = self.draw.choice([f"{constant} AND a.{other} = c.{key}", constant, f"b.{key} = c.{key} AND {constant}"])
        kind = self.draw.choice(JOINS)
        return part("SELECT a.n, b.i, c.n AS m FROM ", left, f" {kind} ", self.groups_of(key, other, "c"), f" ON {ties}"), 3

    def never_lateral(self) -> tuple[Part, int]:
        """Draws a lateral subquery that has no rows."""
        kind, on = self.draw.choice([("CROSS JOIN", ""), ("LEFT JOIN", " ON true"), ("JOIN", " ON true")])
        rows = f"SELECT q.i, q.t FROM {self.table('q')} WHERE q.v = a.v AND ({self.draw.choice(NEVER)})"
        return part(f"SELECT a.i, b.i AS j, b.t FROM {self.table('a')} {kind} LATERAL ({rows}) b{on}"), 3

    def fixed_columns(self) -> tuple[Part, int]:
        """Draws orders and groups by columns that a condition fixes in some rows, or in all."""
        condition, column = self.draw.choice(FIXED)
        other = self.draw.choice([each for each in "kvt" if each != column])
        if self.draw.random() < 0.5:
            kind, alias = self.draw.choice(["LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "JOIN"]), self.draw.choice("ab")
            on = f"a.k = b.k AND {condition.format(alias)}"
            source = f"{self.table('a')} {kind} {self.table('b')} ON {on}"
            if self.draw.random() < 0.5:
                return part(f"SELECT {alias}.{column}, a.i, b.i AS j FROM {source}"), 3
            return part(f"SELECT {alias}.{column}, {self.draw.choice('ab')}.{other}, count(*) FROM {source} GROUP BY 1, 2"), 3
        sets = self.draw.choice([*GROUPINGS, "{0}, {1}", "{1}, {0}"]).format(f"a.{column}", f"a.{other}")
        where = part(f" WHERE {condition.format('a')}", optional(" AND ", self.without_subqueries(Scope.of("a"), 1)))
        return part(f"SELECT a.{column}, a.{other}, count(*), max(a.i) FROM {self.table('a')}", where, f" GROUP BY {sets}"), 4

    def fixed_windows(self) -> tuple[Part, int]:
        """Draws windows and joins by columns that conditions fix."""
        condition, column = self.draw.choice(FIXED)
        other = self.draw.choice("kvt")
        over = self.draw.choice([
            f"PARTITION BY a.{column} ORDER BY a.{other} NULLS FIRST", f"ORDER BY a.{column} NULLS FIRST, a.{other} DESC NULLS LAST",
            f"PARTITION BY a.{column}, a.{other}", f"PARTITION BY a.{other} ORDER BY a.{column} NULLS LAST",
        ])
        function = self.draw.choice(["count(*)", "max(a.v)", "rank()", "sum(a.v)"])
        if "ORDER" not in over and function == "rank()":
            function = "count(*)"
        joined = ""
        if self.draw.random() < 0.6:
            second = condition.format("b")
            joined = f" {self.draw.choice(JOINS)} {self.table('b')} ON a.{column} = b.{column} AND a.k = b.k AND {second}"
        where = optional(f" WHERE {condition.format('a')}")
        return part(f"SELECT a.i, {function} OVER ({over}) AS c1 FROM {self.table('a')}{joined}", where), 2

    def frames_before_nulls(self) -> tuple[Part, int]:
        """Draws frames that end a distance before a row."""
        function = self.draw.choice(["count(*)", "count(a.k)", "sum(a.v)", "max(a.i)"])
        frame = self.draw.choice([
            "UNBOUNDED PRECEDING AND 1 PRECEDING", "3 PRECEDING AND 1 PRECEDING", "UNBOUNDED PRECEDING AND 2 FOLLOWING",
            "1 FOLLOWING AND UNBOUNDED FOLLOWING",
        ])
        order = f"ORDER BY a.{self.draw.choice('vi')}{self.maybe(' DESC')} NULLS {self.draw.choice(['FIRST', 'LAST'])}"
        over = part(optional("PARTITION BY a.o "), f"{order} RANGE BETWEEN {frame}")
        return part(f"SELECT a.v, {function} OVER (", over, f") AS c1 FROM {self.table('a')}", self.conditions(Scope.of("a"), " WHERE ")), 2

    def numbers_of_texts(self) -> tuple[Part, int]:
        """Draws functions of numbers that functions compute of texts."""
        length = self.draw.choice(["length(a.t)", "length(upper(a.t))", "length(a.t || 'x')", "position('b' IN a.t)", "ascii(a.t)"])
        form = self.draw.choice(["abs({})", "abs({}) + 1", "sum(abs({}))", "greatest({}, 2)", "coalesce({}, a.v)"]).format(length)
        if form.startswith("sum"):
            return part(f"SELECT {form}, count(*) FROM {self.table('a')}"), 2
        return part(f"SELECT a.i, {form} AS c1 FROM {self.table('a')} WHERE abs({length}) > {self.draw.choice([0, 1, 2])}"), 2
