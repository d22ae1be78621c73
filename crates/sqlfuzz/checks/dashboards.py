"""Statements that dashboards send, to coscan serve and to PostgreSQL with the same rows.

Values are compared as clients get them: texts, times and intervals by their text, numbers to nine digits. Each statement
runs a second time with some constants as parameters. Documented differences are in `DIFFERENCES`. `python3 -m checks.dashboards --seeds 0..100` runs more statements.
"""

from __future__ import annotations

import argparse
import datetime
import random
import re
import sys
import tempfile
from decimal import Decimal, InvalidOperation
from pathlib import Path

from . import parameters
from .in_postgresql import PostgresqlServer, install_server
from .packages import COSCAN, install_packages
from .server import Server

#: Statements of a seed, and the seeds of `make test`.
STATEMENTS = 100
SEEDS = range(4)
ROWS = 400
#: Relative difference of numbers: numeric has at least 16 digits in PostgreSQL, and 20 behind the point here.
NUMBERS_DIFFER = 1e-9

INT2, INT4, INT8, FLOAT4, FLOAT8, NUMERIC = 21, 23, 20, 700, 701, 1700
WHOLE, NUMBERS = {INT2, INT4, INT8}, {INT2, INT4, INT8, FLOAT4, FLOAT8, NUMERIC}
DATE, TIMESTAMP, TIMESTAMPTZ = 1082, 1114, 1184

#: Parts of statements whose answers differ as docs/serve-sql.md says, each with the words of it.
DIFFERENCES = {
    r"date_trunc\('\w+', d\)": "`date_trunc` of a date is a timestamp without a zone",
    r"d \+ interval '1 day'": "a date plus whole days is a date",
    r"(/ (3|\$\d+)\)|cpu::numeric)::text": "quotients have 20 digits behind the point, and numeric of double precision has 10",
    r"avg\(ts - ": "averages of differences are cut at microseconds",
}

ZONES = ["UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata"]
UNITS = ["minute", "hour", "day", "week", "month", "quarter", "year"]
PARTS = ["epoch", "dow", "isodow", "hour", "minute", "week", "doy", "day", "month", "quarter", "year"]
CREATED = (
    "CREATE TABLE metrics (n int, ts timestamp, tz timestamptz, d date, host text, cpu float8, bytes bigint, amount numeric(12, 2), "
    "small int, flag boolean, attrs text)"
)


def rows(draw: random.Random) -> list[tuple]:
    """Rows around both changes of clocks, with NULLs."""
    begins = [datetime.datetime(2024, 3, 30, 20), datetime.datetime(2024, 10, 26, 20), datetime.datetime(2023, 12, 31, 22)]
    made = []
    for number in range(ROWS):
        ts = draw.choice(begins) + datetime.timedelta(seconds=draw.randrange(0, 40_000), milliseconds=draw.choice([0, 0, 0, 500, 125]))
        env, code = draw.choice(["prod", "dev", "x y"]), draw.choice(["200", "404", "null", '"5"'])
        row = [
            number, ts, ts.replace(tzinfo=datetime.UTC), ts.date(), draw.choice(["web-1", "web-2", "db", "Ärger", ""]),
            draw.choice([0.0, 12.5, 99.9, 1e-7, 1e20, -3.25, 33.333333333333336, 100.0]), draw.choice([0, 7, 4096, 10**12, -5]),
            Decimal(draw.randrange(-100_000, 1_000_000)) / 100, draw.randrange(-3, 9), draw.random() < 0.5,
            f'{{"env": "{env}", "code": {code}, "tags": ["a", 1], "n": {{"x": {draw.randrange(3)}}}}}',
        ]
        made.append(tuple(value if at < 2 or draw.random() > 0.05 else None for at, value in enumerate(row)))
    return made


class Draw:
    """The grammar."""

    def __init__(self, seed: int):
        self.random = random.Random(seed)
        self.pick = self.random.choice

    def of(self, *ways):
        return self.pick(ways)()

    def time(self) -> str:
        return self.pick(["ts", "ts", "tz"])

    def zone(self) -> str:
        return f"'{self.pick(ZONES)}'"

    def bucket(self) -> str:
        t, unit = self.time(), self.pick(UNITS)
        return self.of(
            lambda: f"date_trunc('{unit}', {t})", lambda: f"date_trunc('{unit}', {t})", lambda: f"date_trunc('{unit}', tz, {self.zone()})",
            lambda: f"date_bin('{self.pick(['15 minutes', '1 hour', '90 minutes', '2 days'])}', ts, timestamp '2024-01-01')",
            lambda: "to_timestamp(floor(extract(epoch from {}) / {}) * {})".format(t, *[self.pick([60, 300, 3600])] * 2),
            lambda: f"floor(extract(epoch from {t}) / 300) * 300", lambda: f"to_char({t}, '{self.pick(['YYYY-MM-DD', 'HH24:MI', 'Day', 'IYYY-IW', 'Mon DD'])}')",
            lambda: f"date_trunc('{unit}', {t} AT TIME ZONE {self.zone()})", lambda: f"{t}::date", lambda: f"extract({self.pick(PARTS)} from {t})",
            lambda: f"date_part('{self.pick(PARTS)}', {t})", lambda: "host", lambda: "flag", lambda: "small", lambda: "attrs::json->>'env'",
        )

    def scalar(self) -> str:
        t, n = self.time(), self.pick(["amount", "cpu", "bytes", "small"])
        return self.of(
            lambda: f"{self.pick(['ts', 'tz', 'd', 'cpu', 'bytes', 'amount', 'small', 'flag'])}::text", lambda: f"{t}::text",
            lambda: f"concat({t}, '/', host, {n})", lambda: f"{self.pick(['ts', 'tz', 'd', 'amount', 'bytes', 'cpu'])} || ' ' || coalesce(host, '-')",
            lambda: f"format('%s at %s: %s', host, {t}, {n})", lambda: f"{n} / {self.pick(['3', '7', '3.0', 'nullif(small, 0)', 'nullif(amount, 0)'])}",
            lambda: f"amount {self.pick(['+', '-', '*', '/'])} {self.pick(['1.5', 'amount', 'nullif(small, 0)', 'nullif(bytes, 0)'])}",
            lambda: f"{self.pick(['bytes', 'small', 'amount'])} % 7", lambda: f"round({self.pick(['amount', 'cpu::numeric', 'amount / 3'])}, {self.pick([0, 1, 2, 4])})",
            lambda: f"to_char(amount, '{self.pick(['FM999,990.00', '999990.9', 'FM0000', 'S99990.99'])}')", lambda: f"{n}::numeric::text",
            lambda: f"({n}::numeric / 3)::text", lambda: f"(ts + interval '{self.pick(['1 month', '1 day 2 hours', '90 minutes', '-1 day', '1.5 hours'])}')::text",
            lambda: f"age(ts, timestamp '{self.pick(['2023-01-31 12:00', '2024-02-29', '2024-12-31 23:59:59'])}')",
            lambda: f"extract({self.pick(['day', 'hour', 'minute', 'epoch'])} from (ts - timestamp '2024-01-01 05:30'))", lambda: "ts - timestamp '2024-01-01 05:30'",
            lambda: f"(interval '{self.pick(['1 day 2 hours', '36 hours', '1 month -1 day', '90 minutes', '-1 month +3 days'])}' * {self.pick(['2', '1.5', 'small'])})::text",
            lambda: f"{t} AT TIME ZONE {self.zone()}", lambda: f"(ts AT TIME ZONE {self.zone()})::text", lambda: f"ts::timestamptz {self.pick(['', '::text'])}",
            lambda: f"width_bucket(cpu, 0, 100, {self.pick([5, 10])})", lambda: "CASE WHEN small > 3 THEN amount / 2 ELSE small END",
            lambda: f"{self.pick(['greatest', 'least'])}({n}, {self.pick(['5', 'small', '2.5'])})", lambda: f"upper({self.pick(['host', 'left(host, 3)', 'initcap(host)'])})",
            lambda: "split_part(host, '-', 1)", lambda: "regexp_replace(host, '[0-9]+', '#', 'g')", lambda: "substring(host from '([a-z]+)')", lambda: "md5(host)",
            lambda: "lpad(small::text, 4, '0')", lambda: "replace(trim(host), 'web', 'w')", lambda: "length(host)", lambda: "position('-' in host)",
            lambda: f"attrs::{self.pick(['json', 'jsonb'])}->>'{self.pick(['env', 'code', 'none', 'tags', 'n'])}'", lambda: "attrs::jsonb->'n'->>'x'", lambda: "(attrs::json#>>'{tags,0}')",
            lambda: "flag::int", lambda: f"{self.pick(['yes', 'off', 't', '1', 'no'])!r}::boolean", lambda: f"({n} > {self.pick([0, 3])})::text", lambda: "ARRAY[small, 2]::text",
            lambda: f"date '2024-03-31' {self.pick(['+', '-'])} small", lambda: "d - date '2024-01-01'", lambda: "d + interval '1 day'", lambda: "make_interval(hours => small)",
            lambda: "to_timestamp(bytes % 1000000000)", lambda: f"extract({self.pick(PARTS)} from {t})", lambda: "coalesce(amount, 0)", lambda: "nullif(host, '')", lambda: "sign(amount)",
            lambda: f"{self.pick(['floor', 'ceil', 'abs', 'trunc', 'sqrt', 'ln'])}(abs(amount) + 1)", lambda: "power(small, 2)", lambda: "small::numeric(10, 2)", lambda: "cpu::bigint % 10",
            *[self.fraction] * 5, *[self.json] * 3, *[self.text] * 3, *[self.operator] * 3,
        )

    def fraction(self) -> str:
        """Constants with a fraction, which are numeric."""
        n = self.pick(["amount", "cpu", "bytes", "small", "n"])
        return self.of(
            lambda: f"{n} {self.pick(['*', '/', '+', '-'])} {self.pick(['2.5', '0.1', '1e2', '1.50'])}", lambda: f"round({n} * {self.pick(['2.5', '0.5', '0.25'])})", lambda: f"(small * {self.pick(['2.5', '1.50'])})::text",
            lambda: f"round({self.pick(['amount', 'small', 'n'])} * 1.125, {self.pick([0, 1, 2])})", lambda: f"coalesce({n}, 0.5)", lambda: f"CASE WHEN flag THEN {n} ELSE {self.pick(['0.5', '1.25'])} END",
            lambda: f"{self.pick(['greatest', 'least'])}({n}, 2.5, small)", lambda: f"(small * 2.5)::{self.pick(['int', 'bigint', 'float', 'numeric(6, 1)'])}", lambda: f"{self.pick(['ceil', 'floor', 'trunc', 'abs', 'sign'])}({self.pick(['amount', 'small', 'n'])} * -0.7)",
            lambda: "interval '1 hour' * 2.5", lambda: "small % 2.5", lambda: "2.5 = small / 2.0", lambda: f"to_char(small * 1.5, '{self.pick(['990.00', 'FM90.9'])}')", lambda: "concat(small * 1.50, '%')",
        )

    def json(self) -> str:
        of = "attrs::jsonb"
        return self.of(
            lambda: f"{of} || '{{\"zz\": 1.50, \"env\": null}}'::jsonb", lambda: f"{of} - '{self.pick(['env', 'none'])}'", lambda: f"{of} @> '{{\"env\": \"prod\"}}'", lambda: f"'{{\"n\": {{\"x\": 1}}}}'::jsonb <@ {of}",
            lambda: f"jsonb_set({of}, '{{n,x}}', '9')", lambda: f"jsonb_pretty({of})", lambda: f"{of}->'tags'->-1", lambda: f"{of}->'tags'->>-2", lambda: f"{of}->'tags' @> '\"a\"'", lambda: f"({of}->'tags') - 0",
            lambda: f"jsonb_strip_nulls({of} || '{{\"q\": null}}'::jsonb)", lambda: "array_to_json(ARRAY[small, n])", lambda: f"jsonb_typeof({of}->'n')",
        )

    def text(self) -> str:
        return self.of(
            lambda: f"regexp_split_to_array(host, '{self.pick(['-', '[^a-z]+', ''])}')", lambda: f"regexp_substr(host, '{self.pick(['[0-9]+', '[a-z]+', 'x'])}')", lambda: "(regexp_match(host, '([a-z]+)-([0-9])'))[2]",
            lambda: f"quote_literal({self.pick(['host', 'attrs', 'n'])})", lambda: "quote_nullable(host)", lambda: f"num_{self.pick(['nulls', 'nonnulls'])}(host, cpu, amount)", lambda: "format('%2$s %1$-6s|%1$6s|', host, n)",
            lambda: "host || small", lambda: "small || '/' || amount", lambda: "U&'\\00e4' || host", lambda: "replace('A0EEBC999c0b4ef8bb6d6bb9bd380a11', '9', '1')::uuid::text",
        )

    def operator(self) -> str:
        return self.of(
            lambda: f"(ts, {self.pick(['interval', 'timestamp'])} '{{}}') OVERLAPS (timestamp '2024-03-31', timestamp '{self.pick(['2024-03-31', '2024-10-27', '2023-01-01'])}')".replace("interval '{}'", "interval '1 day'").replace("'{}'", "'2024-06-01'"),
            lambda: f"(ARRAY[small, 2, 3])[{self.pick(['2:', ':2', '2:3', ':'])}]::text", lambda: f"{self.pick(['~', '@ '])}small", lambda: f"small {self.pick(['#', '&', '|', '<<'])} 3", lambda: "ARRAY[small, 1] && ARRAY[2, 3]", lambda: "ARRAY[small, 1] @> ARRAY[1]",
            lambda: f"{self.pick(['n', 'small', 'bytes', 'cpu'])} {self.pick(['+', '-', '*', '/'])} '{self.pick(['2', '3'])}'", lambda: "ts + '1 day'", lambda: "ts - '2024-01-01'", lambda: "d - '2024-01-01'", lambda: "isfinite(ts)",
            lambda: "make_timestamptz(2024, 3, 31, 2, 30, 1.5, 'Europe/Berlin')", lambda: "interval '1-2' year to month", lambda: "small>-1", lambda: "|/ abs(small)", lambda: "pg_size_pretty(bytes)",
        )

    def aggregate(self) -> str:
        n = self.pick(["amount", "cpu", "bytes", "small"])
        return self.of(
            lambda: "count(*)", lambda: "count(DISTINCT host)", lambda: f"sum({self.pick(['amount', 'small', 'bytes'])})", lambda: f"avg({n})", lambda: f"avg({self.pick(['', 'DISTINCT '])}amount / 1000000)",
            lambda: "sum(amount) / count(*)", lambda: "100.0 * sum(amount) FILTER (WHERE flag) / nullif(sum(amount), 0)", lambda: "100 * count(*) FILTER (WHERE flag) / count(*)",
            lambda: "count(*) FILTER (WHERE flag)::float / count(*)", lambda: f"round(avg({self.pick(['amount', 'small', 'bytes', 'cpu::numeric'])}), 2)", lambda: "max(ts) - min(ts)",
            lambda: "(max(ts) - min(ts))::text", lambda: "extract(epoch from max(ts) - min(ts))", lambda: "avg(ts - timestamp '2024-01-01')", lambda: f"{self.pick(['min', 'max'])}({self.pick(['ts', 'tz', 'd', 'host', 'amount', 'cpu'])})",
            lambda: f"percentile_cont({self.pick([0.5, 0.95])}) WITHIN GROUP (ORDER BY {n})", lambda: f"percentile_disc(0.9) WITHIN GROUP (ORDER BY {n})", lambda: "mode() WITHIN GROUP (ORDER BY small)",
            lambda: f"{self.pick(['stddev', 'variance', 'stddev_pop'])}({self.pick(['small', 'amount'])})", lambda: "string_agg(DISTINCT host, ',' ORDER BY host)", lambda: "string_agg(small::text, '' ORDER BY n)",
            lambda: "array_agg(DISTINCT small ORDER BY small)", lambda: "bool_or(flag)", lambda: "every(small > 0)", lambda: "corr(small, n)", lambda: "max(amount) / nullif(min(amount), 0)", lambda: "sum(amount / 7)",
            lambda: "sum(amount)::text", lambda: "avg(amount)::numeric(10, 3)", lambda: f"sum({self.pick(['small', 'n', 'amount'])} * {self.pick(['0.1', '2.5'])})", lambda: f"avg({self.pick(['small', 'amount'])} * 0.3)",
            lambda: "sum(CASE WHEN flag THEN 1.0 ELSE 0.5 END)", lambda: "round(sum(small) * 1.5)", lambda: "coalesce(sum(amount), 0.0)", lambda: f"{self.pick(['json', 'jsonb'])}_object_agg(n, host ORDER BY n)",
        )

    def condition(self) -> str:
        t = self.time()
        return self.of(
            lambda: f"{t} BETWEEN '2024-03-31T00:00:00Z' AND '2024-10-27T02:00:00Z'", lambda: f"{t} >= '2024-03-31 00:30' AND {t} < '2024-10-27'", lambda: f"ts::text LIKE '2024-03-3{self.pick('01')} 0%'",
            lambda: "host ILIKE 'WEB%'", lambda: "host IN ('db', 'web-1')", lambda: "host = ANY(ARRAY['db', ''])", lambda: "host ~ '^web-[12]$'", lambda: "amount > 100.5", lambda: "flag IS NOT TRUE", lambda: "small BETWEEN 1 AND 5",
            lambda: "attrs::json->>'env' = 'prod'", lambda: "extract(hour from ts) < 3", lambda: "tz > timestamptz '2024-03-31 01:00+01'", lambda: "(host, ts) IN (SELECT host, max(ts) FROM metrics GROUP BY host)",
            lambda: f"date_trunc('day', {t}) = '2024-03-31'", lambda: "host IS NOT NULL", lambda: "small <> ALL('{1,2}')", lambda: "d = '2024-03-31'", lambda: "NOT flag", lambda: "amount::text LIKE '%.50'",
            lambda: f"{self.pick(['cpu', 'amount', 'small', 'n'])} {self.pick(['>', '<=', '<>'])} {self.pick(['2.5', '12.5', '0.1'])}", lambda: "small>-1", lambda: "amount * 1.1 > 100.25", lambda: "small IN (1, 2.0, 3.5)",
            lambda: "attrs::jsonb @> '{\"env\": \"prod\"}'", lambda: "n BETWEEN 10.5 AND 200.5",
        )

    def where(self) -> str:
        chosen = [self.condition() for _ in range(self.pick([0, 0, 1, 1, 2]))]
        return f" WHERE {' AND '.join(chosen)}" if chosen else ""

    def window(self) -> str:
        over = f"(PARTITION BY {self.pick(['host', 'flag', 'd'])} ORDER BY ts, n)"
        return self.of(
            lambda: f"lag(ts) OVER {over}", lambda: f"ts - lag(ts) OVER {over}", lambda: f"lead(small, 1, {self.pick(['0', 'small'])}) OVER {over}", lambda: f"rank() OVER {over}", lambda: f"sum(amount) OVER {over}",
            lambda: f"first_value(host) OVER {over}", lambda: f"round(avg(amount) OVER {over}, 2)", lambda: f"avg(amount) OVER (PARTITION BY flag ORDER BY ts, n ROWS {self.pick([1, 3])} PRECEDING)", lambda: f"amount / nullif(sum(amount) OVER {over}, 0)", lambda: f"ntile(4) OVER {over}", lambda: f"row_number() OVER {over}",
            lambda: "count(*) OVER (ORDER BY ts RANGE BETWEEN INTERVAL '1 hour' PRECEDING AND CURRENT ROW)",
        )

    def statement(self) -> str:
        return self.of(*[self.grouped] * 5, *[self.listed] * 6, self.windowed, self.windowed, self.filled, self.latest, self.nested)

    def grouped(self) -> str:
        keys = [self.bucket() for _ in range(self.pick([0, 1, 1, 1, 2]))]
        columns = keys + [self.aggregate() for _ in range(self.random.randint(1, 3))]
        group = f" GROUP BY {', '.join(str(at + 1) for at in range(len(keys)))}" if keys else ""
        having = f" HAVING count(*) > {self.pick([0, 1, 5])}" if keys and self.random.random() < 0.2 else ""
        return f"SELECT {', '.join(columns)} FROM metrics{self.where()}{group}{having}"

    def listed(self) -> str:
        return f"SELECT n, {', '.join(self.scalar() for _ in range(self.random.randint(1, 3)))} FROM metrics{self.where()}"

    def windowed(self) -> str:
        return f"SELECT n, {self.window()} FROM metrics{self.where()}"

    def filled(self) -> str:
        step = self.pick(["1 hour", "30 minutes", "1 day"])
        series = self.of(
            lambda: f"generate_series('2024-03-30 20:00'::timestamp, '2024-03-31 08:00'::timestamp, '{step}')",
            lambda: f"generate_series(timestamp '2024-03-30 20:00:00', timestamp '2024-03-31 08:00:00', interval '{step}')",
            lambda: f"generate_series((SELECT min(date_trunc('day', ts)) FROM metrics WHERE ts > '2024-02-01'), (SELECT max(ts) FROM metrics WHERE ts < '2024-05-01'), '{step}')",
        )
        return f"SELECT s.t, count(m.n), sum(m.amount) FROM {series} AS s(t) LEFT JOIN metrics m ON m.ts >= s.t AND m.ts < s.t + interval '{step}' GROUP BY s.t"

    def latest(self) -> str:
        return self.of(
            lambda: f"SELECT DISTINCT ON (host) host, ts, {self.scalar()} AS v FROM metrics{self.where()} ORDER BY host, ts DESC, n",
            lambda: f"SELECT h.host, l.c FROM (SELECT DISTINCT host FROM metrics) h, LATERAL (SELECT {self.aggregate()} AS c FROM metrics m WHERE m.host = h.host) l",
            lambda: "SELECT a, b FROM unnest(ARRAY['x', 'y']) WITH ORDINALITY AS u(a, b)",
            lambda: f"SELECT m.n, {self.pick(['e.value', 'e.key', 'e.*'])} FROM metrics m, {self.pick(['json', 'jsonb'])}_each_text({self.pick(['m.attrs::json', 'm.attrs::jsonb'])}) e WHERE m.n < 40".replace("jsonb_each_text(m.attrs::json)", "json_each_text(m.attrs::json)").replace("json_each_text(m.attrs::jsonb)", "jsonb_each_text(m.attrs::jsonb)"),
            lambda: "SELECT m.n, t FROM metrics m CROSS JOIN LATERAL jsonb_array_elements_text(m.attrs::jsonb->'tags') t",
            lambda: f"SELECT m.n, s FROM metrics m {self.pick(['JOIN', 'LEFT JOIN'])} LATERAL generate_series(1, m.small) s ON true",
            lambda: "SELECT h.host, l.ts, l.n FROM (SELECT DISTINCT host FROM metrics) h LEFT JOIN LATERAL (SELECT ts, n FROM metrics m WHERE m.host = h.host ORDER BY ts DESC, n LIMIT 2) l ON true",
            lambda: "SELECT m.n, x FROM metrics m, unnest(ARRAY[m.small, 1]) x WHERE m.n < 50",
            lambda: f"SELECT {self.pick(['json', 'jsonb'])}_agg(host ORDER BY n) FROM metrics WHERE n < 20",
            lambda: "SELECT n, jsonb_build_object('h', host, 'a', amount, 't', ts, 'e', attrs::jsonb->'env') FROM metrics",
            lambda: "SELECT n, json_build_object('h', host, 's', small, 'f', flag), to_json(ts), json_build_array(small, NULL, cpu) FROM metrics",
            lambda: f"SELECT json_object_keys(attrs::json) AS k, count(*) FROM metrics GROUP BY 1",
            lambda: f"SELECT n, (regexp_matches(host, '([a-z])', '{self.pick(['', 'g'])}'))[1] FROM metrics WHERE n < 50",
            lambda: "SELECT regexp_split_to_table(host, '-') AS part, count(*) FROM metrics GROUP BY 1",
            lambda: "SELECT m.n, p FROM metrics m, regexp_split_to_table(m.host, '-') p WHERE m.n < 50",
            lambda: "SELECT count(*) FROM metrics TABLESAMPLE BERNOULLI (100)",
            lambda: f"SELECT g.day, count(m.n) FROM (SELECT generate_series(date '2024-03-30', date '2024-04-02', interval '{self.pick(['1 day', '2 days'])}')::date AS day) g LEFT JOIN metrics m ON m.d = g.day GROUP BY 1",
            lambda: f"SELECT {self.pick(['date', 'timestamp'])} '2024-03-30' + generate_series(0, 3) * interval '1 day', generate_series(1, 4) + 1",
            lambda: "SELECT extract(doy from generate_series(timestamp '2024-03-30', timestamp '2024-04-02', '1 day'))",
        )

    def nested(self) -> str:
        return f"SELECT k, count(*), sum(v) FROM (SELECT {self.bucket()} AS k, {self.pick(['amount / 3', 'small', 'amount'])} AS v FROM metrics{self.where()}) q GROUP BY k"


def answer(connection, sql: str):
    """Returns the columns' types and the rows as texts, or the SQLSTATE and the message of an error."""
    import psycopg

    try:
        result = connection.execute(sql).pgresult
    except psycopg.Error as error:
        return (error.sqlstate or "", str(error).splitlines()[0])
    types = [result.ftype(at) for at in range(result.nfields)]
    texts = lambda row: [None if (value := result.get_value(row, at)) is None else value.decode() for at in range(result.nfields)]
    return types, [texts(row) for row in range(result.ntuples)]


def number(text: str):
    try:
        return float(text) if text in ("NaN", "Infinity", "-Infinity") else Decimal(text)
    except InvalidOperation:
        return None


def same(one: str | None, other: str | None, of: int) -> bool:
    if one == other or one is None or other is None:
        return one == other
    if of in NUMBERS:
        a, b = number(one), number(other)
        if isinstance(a, Decimal) and isinstance(b, Decimal):
            return abs(a - b) <= Decimal(NUMBERS_DIFFER) * max(abs(a), abs(b), Decimal("1e-6"))
    return False


def same_types(one: int, other: int) -> bool:
    """Whole constants are bigint, averages of integers double, and JSON is a text, as docs/serve-sql.md says."""
    return one == other or {one, other} <= {25, 114, 3802} or one in NUMBERS and other in NUMBERS or {one, other} <= {25, 1043} or {one, other} <= {DATE, TIMESTAMP}


def in_order(rows: list[list], types: list[int]) -> list[list]:
    def key(value, of):
        value = value if value is None or of not in NUMBERS else f"{float(value):.11g}"
        return (value is None, value or "")

    return sorted(rows, key=lambda row: [key(value, of) for value, of in zip(row, types)])


def finding(sql: str, wanted, given) -> str | None:
    """Returns what is wrong with coscan's answer."""
    if any(re.search(pattern, sql) for pattern in DIFFERENCES):
        return None
    refused, refuses = isinstance(wanted[0], str), isinstance(given[0], str)
    if refuses:
        # An error of both is right with any code of the same class.
        return None if refused and (wanted[0][:2] in (given[0][:2], "42") or given[0] == "0A000") else f"refused: {given}, PostgreSQL: {str(wanted)[:200]}"
    if refused:
        # PostgreSQL has no operator for some pairs of types.
        return None if wanted[0] in ("42883", "42804", "42725") else f"answered, PostgreSQL: {wanted}"
    if len(wanted[0]) != len(given[0]) or not all(map(same_types, wanted[0], given[0])):
        return f"other types: {given[0]} instead of {wanted[0]}"
    left, right = in_order(wanted[1], wanted[0]), in_order(given[1], wanted[0])
    if len(left) != len(right):
        return f"{len(right)} rows instead of {len(left)}"
    for a, b in zip(left, right):
        if not all(map(same, a, b, wanted[0])):
            return f"{b} instead of {a}"
    return None


def findings(seed: int, statements: int, coscan: Path, server: PostgresqlServer) -> list[str]:
    """Runs drawn statements, and returns what differs."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    draw, with_parameters, found = Draw(seed), random.Random(f"parameters {seed}"), []
    data = rows(draw.random)
    with tempfile.TemporaryDirectory() as folder, server.connect() as oracle:
        oracle.execute(f"DROP TABLE IF EXISTS metrics; {CREATED}")
        with oracle.cursor().copy("COPY metrics FROM STDIN") as copy:
            for row in data:
                copy.write_row(row)
        kinds = [pa.int32(), pa.timestamp("us"), pa.timestamp("us", "UTC"), pa.date32(), pa.string(), pa.float64(), pa.int64(), pa.decimal128(12, 2), pa.int32(), pa.bool_(), pa.string()]
        names = "n ts tz d host cpu bytes amount small flag attrs".split()
        columns = {name: pa.array([row[at] for row in data], kind) for at, (name, kind) in enumerate(zip(names, kinds))}
        path = Path(folder) / "metrics" / "0.parquet"
        path.parent.mkdir()
        pq.write_table(pa.table(columns), path, row_group_size=100)
        zone = draw.pick(ZONES)
        with Server(coscan, {"metrics": path.parent}, ["--share-results", draw.pick(["true", "false"])], Path(folder) / "log") as there:
            with there.connect() as connection:
                for each in (oracle, connection):
                    each.execute(f"SET TIME ZONE '{zone}'")
                for at in range(statements):
                    sql = draw.statement()
                    wrong = finding(sql, answer(oracle, sql), answer(connection, sql))
                    if wrong:
                        found.append(f"seed {seed}, statement {at}, zone {zone}: {wrong}\n  {sql}")
                    elif wrong := bound(with_parameters, oracle, connection, sql):
                        found.append(f"seed {seed}, statement {at}, zone {zone}, with parameters: {wrong}")
    return found


def bound(draw: random.Random, oracle, connection, sql: str) -> str | None:
    """Returns what is wrong with coscan's answer if some constants are parameters."""
    sql, values = parameters.replaced(draw, sql)
    if not values:
        return None
    wanted, given = parameters.answer(oracle, sql, values), parameters.answer(connection, sql, values)
    if not wanted[0] or any(re.search(pattern, sql) for pattern in DIFFERENCES):
        return None
    if given[0] and not all(map(same_types, wanted[0], given[0])):
        return f"parameters of types {given[0]} instead of {wanted[0]}\n  {sql}"
    wrong = finding(sql, wanted[1], given[1])
    return wrong and f"{wrong}\n  {sql}\n  {values}"


def check(seeds: range, statements: int, coscan: Path, server: PostgresqlServer) -> bool:
    """Runs the seeds and prints what differs. Returns whether nothing does."""
    count = 0
    for seed in seeds:
        found = findings(seed, statements, coscan, server)
        count += len(found)
        if found:
            print("\n".join(found), flush=True)
    print(f"{len(seeds) * statements} statements of dashboards: {count} answers differ from PostgreSQL's", flush=True)
    return not count


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--seeds", default="0..10", metavar="A..B")
    arguments.add_argument("--statements", type=int, default=STATEMENTS)
    arguments.add_argument("--coscan", type=Path, default=COSCAN)
    chosen = arguments.parse_args()
    first, end = map(int, chosen.seeds.split(".."))
    install_packages()
    install_server()
    with PostgresqlServer() as server:
        return 0 if check(range(first, end), chosen.statements, chosen.coscan, server) else 1


if __name__ == "__main__":
    sys.exit(main())
