"""Generated statements that are well-formed and take as much as they can, beside a client that wants an answer.

Statements nest by reference, multiply grouping sets and rows, match long patterns and contain huge constants. Each has a
timeout. The other client's latency and the server's memory must stay within bounds, and a stopped statement must end.

`python3 -m checks.hostile_plans --statements 200 --seed 7` runs more of them.
"""

from __future__ import annotations

import argparse
import random
import sys
import threading
import time
import unittest
from pathlib import Path

from .hostile import Certified
from .server import Server, client_packages, resident

#: Seconds that a statement may take.
TIMEOUT = 2
#: Seconds within which a stopped statement is answered, and the longest latency of the other client. Tests share their
#: machine with others, and their program is slower than the released one. What was measured is printed.
ENDS_WITHIN = 10
LATENCY_MAX = 10
#: The server's buffer and the memory of a user in MiB, and what the process may have beyond both and its memory at the
#: start. Operators may exceed the memory of a user by half of it. Groups exist twice while an aggregation outputs them,
#: and the allocator keeps some of what is free.
BUFFER, MEMORY, BEYOND = 64, 128, 320


def doubling(draw: random.Random) -> str:
    """A WITH query that refers to the one before it several times."""
    levels, times = draw.randint(4, 40), draw.choice([2, 2, 3, 5])
    joined = draw.choice([
        lambda below: f"SELECT x0.k FROM {below} x0" + "".join(f" JOIN {below} x{n} ON x{n}.k = x0.k" for n in range(1, times)),
        lambda below: " UNION ALL ".join([f"SELECT k FROM {below}"] * times),
        lambda below: f"SELECT k FROM {below} WHERE " + " AND ".join([f"k IN (SELECT k FROM {below})"] * (times - 1)),
        lambda below: f"SELECT k + (SELECT count(*) FROM {below}) AS k FROM {below}",
    ])
    parts = ["c0 AS (SELECT l_orderkey AS k FROM lineitem)"] + [f"c{n} AS ({joined(f'c{n - 1}')})" for n in range(1, levels)]
    return f"WITH {', '.join(parts)} SELECT count(*) FROM c{levels - 1}"


def substituted(draw: random.Random) -> str:
    """Columns that stand for expressions of columns that stand for expressions."""
    levels = draw.randint(4, 60)
    step = draw.choice(["x + x", "CASE WHEN x > 0 THEN x ELSE -x END", "x * x - x", "coalesce(x, x, x)", "(x + x) % 1000003"])
    parts = ["c0 AS (SELECT l_orderkey % 7 AS x, l_partkey AS y FROM lineitem)"]
    parts += [f"c{n} AS (SELECT {step} AS x, y FROM c{n - 1})" for n in range(1, levels)]
    last = f"c{levels - 1}"
    end = draw.choice([
        f"SELECT count(*) FROM {last} WHERE x > 0", f"SELECT sum(x) FROM {last}", f"SELECT x FROM {last} ORDER BY x, y LIMIT 3",
        f"SELECT x, count(*) FROM {last} GROUP BY x", f"SELECT count(*) FROM {last} a JOIN {last} b ON a.x = b.x AND a.y = b.y",
        f"SELECT max(x) OVER (PARTITION BY x) FROM {last} WHERE x <> 3 LIMIT 1",
    ])
    return f"WITH {', '.join(parts)} {end}"


def powers(draw: random.Random) -> str:
    """Grouping sets."""
    columns = [f"l_partkey + {n}" for n in range(draw.randint(6, 26))]
    by = draw.choice([
        f"CUBE({', '.join(columns)})", f"ROLLUP({', '.join(columns * 20)})",
        ", ".join(f"CUBE({', '.join(columns[:4])})" for _ in range(draw.randint(1, 6))),
        "GROUPING SETS(" + ", ".join(f"({column}, {draw.choice(columns)})" for column in columns * 9) + ")",
    ])
    return f"SELECT count(*) FROM (SELECT {draw.choice(['1', 'count(*)', 'sum(l_tax)', 'count(DISTINCT l_suppkey)'])} FROM lineitem GROUP BY {by}) q"


def products(draw: random.Random) -> str:
    """Many rows from few."""
    return draw.choice([
        "SELECT count(*) FROM " + ", ".join(f"lineitem t{n}" for n in range(draw.randint(2, 40))),
        "SELECT count(*) FROM lineitem a JOIN lineitem b ON a.l_orderkey < b.l_partkey AND a.l_tax <> b.l_tax",
        f"SELECT count(DISTINCT n) FROM generate_series(1, {10 ** draw.randint(6, 15)}) n",
        "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r) SELECT max(n) FROM r",
        "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT a.n + 1 FROM r a JOIN nation ON true) SELECT max(n) FROM r",
        "SELECT string_agg(a.l_comment, b.l_comment) FROM lineitem a, lineitem b",
        "SELECT max(array_length(array_agg(l_comment) OVER (ORDER BY l_orderkey))) FROM lineitem",
        "SELECT count(*) FROM (SELECT DISTINCT a.l_orderkey, b.l_partkey FROM lineitem a, lineitem b) q",
        "SELECT sum(x) FROM (SELECT row_number() OVER (ORDER BY a.l_comment, b.l_comment) AS x FROM lineitem a, lineitem b) q",
    ])


def patterns(draw: random.Random) -> str:
    """Patterns that are slow or large."""
    letters = "".join(draw.choice("abcdefgxyz") for _ in range(5))
    pattern = draw.choice([
        f"(a|b|c|d|e|f|g)*{letters[0]}(.{{0,200}}){{0,20}}{letters[1]}(.*{letters[2]}){{5}}", f"(({letters}|.*)+)*{letters}$",
        f"^(.*){{1,{draw.randint(2, 60)}}}{letters}", f"(\\w+\\s?)*{letters}", f"({letters}?){{500}}{letters}{{500}}", "(a*)*" * 50 + "b",
        ".*" * 100 + letters, "|".join(letters[:3] + str(n) for n in range(3000)),
    ])
    long = f"repeat(l_comment, {draw.choice([1, 10, 100])})"
    return draw.choice([
        f"SELECT count(*) FROM lineitem WHERE {long} ~ '{pattern}'",
        f"SELECT max(length(regexp_replace({long}, '{pattern}', '\\1\\1', 'g'))) FROM lineitem",
        f"SELECT count(*) FROM lineitem WHERE {long} LIKE '{'%'.join(letters * 40)}%' OR {long} !~* '{pattern}'",
        f"SELECT count(*) FILTER (WHERE {long} ~ '{pattern}') FROM lineitem",
        f"SELECT count(*) FROM lineitem a JOIN lineitem b ON a.l_comment ~ b.l_comment",
        f"SELECT sum(levenshtein({long}, {long} || '{letters}')) FROM lineitem",
        f"SELECT count(*) FROM lineitem WHERE l_comment SIMILAR TO '%({'|'.join(letters)})%{letters}%'",
    ])


def constants(draw: random.Random) -> str:
    """Huge constants, and long lists and chains of small ones."""
    count = draw.choice([1000, 5000, 50_000])
    return draw.choice([
        f"SELECT count(*) FROM lineitem WHERE l_orderkey IN ({', '.join(map(str, range(count)))})",
        f"SELECT count(*) FROM (VALUES {', '.join(f'({n}, {n})' for n in range(count))}) v(a, b) JOIN lineitem ON a = l_orderkey",
        f"SELECT length('{'x' * count * 20}')", "SELECT " + " + ".join(["l_tax"] * (count // 10)) + " FROM lineitem LIMIT 1",
        f"SELECT count(*) FROM lineitem WHERE {' OR '.join(f'l_orderkey = {n} AND l_partkey <> {n}' for n in range(count // 20))}",
        f"SELECT {', '.join(f'l_tax + {n} AS c{n}' for n in range(count // 10))} FROM lineitem LIMIT 1",
        f"SELECT CASE {' '.join(f'WHEN l_orderkey = {n} THEN {n}' for n in range(count // 20))} END FROM lineitem LIMIT 1",
        "SELECT " + "(" * 40 + "1" + " + 1)" * 40, f"SELECT ARRAY[{', '.join(map(str, range(count)))}]",
        f"SELECT count(*) FROM lineitem ORDER BY {', '.join(['1'] * (count // 10))}",
        " UNION ".join(f"SELECT {n}" for n in range(draw.choice([100, 900]))),
        "SELECT * FROM " + " NATURAL JOIN ".join(["nation"] * draw.randint(5, 300)),
    ])


def parts_of_texts(draw: random.Random) -> str:
    """Lists of matches, and values of JSON that are deep, wide or compared with each other."""
    depth, long = draw.choice([400, 5000, 100_000]), f"repeat(l_comment, {draw.choice([1, 10, 300])})"
    deep = f"(repeat('[', {depth}) || repeat(']', {depth}))::jsonb"
    return draw.choice([
        f"SELECT count(*) FROM (SELECT regexp_matches({long}, '(.)(.)?', 'g') FROM lineitem) q",
        f"SELECT sum(array_length(regexp_split_to_array({long}, ''), 1)) FROM lineitem", f"SELECT length(jsonb_pretty({deep}))",
        f"SELECT {deep} @> {deep}, jsonb_strip_nulls({deep}) || {deep}", f"SELECT length(jsonb_pretty(json_agg({long})::jsonb)) FROM lineitem",
        "SELECT a @> a FROM (SELECT json_agg(ARRAY[l_orderkey, l_partkey])::jsonb AS a FROM lineitem) q",
        f"SELECT max(length(jsonb_set(json_build_object('a', {long})::jsonb, '{{a}}', json_build_array({long}, {long})::jsonb)::text)) FROM lineitem",
        "SELECT length(json_object_agg(l_orderkey, l_comment)::text) FROM lineitem",
        f"SELECT count(*) FROM lineitem, jsonb_array_elements(jsonb_build_array({', '.join([long] * 20)})) e",
    ])


def pairs(draw: random.Random) -> str:
    """Joins and subqueries that look at many pairs of rows and keep none."""
    table = f"(SELECT n, n % {draw.choice([1, 3, 7])} AS k FROM generate_series(1, {draw.choice([200_000, 600_000])}) g(n))"
    never = draw.choice(["a.n + b.n = -1", "a.n * b.n < 0", "a.n > b.n AND a.n < b.n"])
    return draw.choice([
        f"SELECT count(*) FROM {table} a CROSS JOIN {table} b WHERE {never}",
        f"SELECT count(*) FROM {table} a {draw.choice(['', 'LEFT', 'FULL'])} JOIN {table} b ON a.k = b.k AND {never}",
        f"SELECT count(*) FROM {table} a WHERE {draw.choice(['', 'NOT'])} EXISTS (SELECT 1 FROM {table} b WHERE {never})",
        f"SELECT count(*) FROM {table} a WHERE a.k {draw.choice(['', 'NOT'])} IN (SELECT b.k FROM {table} b WHERE b.n > 0)",
        f"SELECT (SELECT max(b.n) FROM {table} b WHERE {never}) FROM {table} a",
    ])


KINDS = [doubling, substituted, powers, products, patterns, constants, parts_of_texts, pairs]


class Victim(threading.Thread):
    """A client that connects and asks again and again, and watches the server's memory."""

    def __init__(self, server: Server, connect):
        super().__init__(daemon=True)
        self.server, self.connect, self.goes_on = server, connect, True
        self.worst, self.memory, self.failed = 0.0, 0, None

    def run(self):
        while self.goes_on:
            begun = time.monotonic()
            try:
                with self.connect("victim") as connection:
                    connection.execute("SELECT count(*) FROM nation").fetchall()
            except Exception as error:  # noqa: BLE001
                self.failed = error
            self.worst = max(self.worst, time.monotonic() - begun)
            self.memory = max(self.memory, resident(self.server) >> 20)
            time.sleep(0.05)

    def take(self) -> tuple[float, int]:
        """Returns the worst latency and the largest memory since the last call."""
        taken = (self.worst, self.memory)
        self.worst, self.memory = 0.0, 0
        return taken


def answered(connect, sql: str) -> str:
    """Returns how a statement ended. The answer of one that does not end is not awaited for ever."""
    import psycopg

    ended = []

    def run():
        try:
            with connect() as connection:
                connection.execute(sql).fetchmany(1000)
            ended.append("an answer")
        except psycopg.Error as error:
            ended.append(error.sqlstate or str(error))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(TIMEOUT + 3 * ENDS_WITHIN)
    return ended[0] if ended else "no answer"


def findings(server: Server, seed: int, statements: int) -> list[str]:
    """Runs generated statements, and returns what went beyond the bounds."""
    import psycopg

    draw = random.Random(seed)
    connect = lambda user, options="": psycopg.connect(
        host="127.0.0.1", port=server.port, user=user, dbname="db", autocommit=True, options=options)
    limited = f"-c statement_timeout={TIMEOUT}s"
    bound = (resident(server) >> 20) + BUFFER + MEMORY * 3 // 2 + BEYOND
    victim = Victim(server, connect)
    victim.start()
    found, worst, most = [], 0.0, 0
    for number in range(statements):
        kind = KINDS[number % len(KINDS)]
        sql = kind(draw)
        begun = time.monotonic()
        ended = answered(lambda: connect("hostile", limited), sql)
        took = time.monotonic() - begun
        time.sleep(0.2)
        latency, memory = victim.take()
        worst, most = max(worst, latency), max(most, memory)
        wrong = []
        if took > TIMEOUT + ENDS_WITHIN:
            wrong.append(f"it took {took:.1f} s")
        if latency > LATENCY_MAX:
            wrong.append(f"the other client waited {latency:.1f} s")
        if memory > bound:
            wrong.append(f"the server had {memory} MiB of {bound}")
        if ended == "XX000" or victim.failed:
            wrong.append(f"{ended}: {victim.failed or 'a bug'}")
            victim.failed = None
        if wrong:
            found.append(f"seed {seed}, statement {number} ({kind.__name__}): {', '.join(wrong)}: {sql[:300]}")
    victim.goes_on = False
    victim.join(ENDS_WITHIN)
    print(f"   {statements} hostile statements: the other client waited {worst:.1f} s at most; {most} MiB of {bound}", flush=True)
    return found


class Plans(Certified):
    """Statements that take as much as they can."""

    def test_hostile_statements_leave_others_alone(self):
        server = hostile_server(self.data)
        self.addCleanup(server.stop)
        self.assertEqual(findings(server, seed=1, statements=48), [])


def hostile_server(data: Path) -> Server:
    """A server with little memory for its users."""
    return Server("--user-memory", f"{MEMORY}MiB", data=data)


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--statements", type=int, default=200)
    arguments.add_argument("--seed", type=int, default=1)
    chosen = arguments.parse_args()
    client_packages()
    Plans.setUpClass()
    try:
        server = hostile_server(Plans.data)
        try:
            found = findings(server, chosen.seed, chosen.statements)
        finally:
            server.stop()
    finally:
        Plans.doClassCleanups()
    print("\n".join(found) or f"{chosen.statements} statements without a finding")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
