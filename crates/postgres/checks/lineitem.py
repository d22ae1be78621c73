"""A lineitem table, made by the server itself, and the two kinds of Query 1 of the 2004 report.

Columns and widths are those of TPC-H, and values resemble it. That suffices for scans.
"""

from __future__ import annotations

from .server import Cluster

ROWS_PER_GB = 7_400_000

TABLE = """
CREATE TABLE lineitem (
    l_orderkey bigint, l_partkey bigint, l_suppkey int, l_linenumber int, l_quantity numeric(12,2), l_extendedprice numeric(12,2),
    l_discount numeric(12,2), l_tax numeric(12,2), l_returnflag char(1), l_linestatus char(1), l_shipdate date, l_commitdate date,
    l_receiptdate date, l_shipinstruct varchar(25), l_shipmode varchar(10), l_comment varchar(44));
INSERT INTO lineitem
    SELECT i / 4, h % 200000, h % 10000, i % 7, 1 + h % 50, 900 + h % 100000 / 10.0, h % 11 / 100.0, h % 9 / 100.0,
        substr('ANR', 1 + h % 3, 1), substr('OF', 1 + h % 2, 1), d, d + 30, d + h % 30, 'DELIVER IN PERSON', 'TRUCK',
        repeat('carefully final ', 2)
    FROM (SELECT i, abs(hashint8(i)) AS h, date '1992-01-02' + (abs(hashint8(i + 7)) % 2500) AS d FROM generate_series(1, {rows}::bigint) i) x;
CREATE EXTENSION IF NOT EXISTS coscan;
"""

QUERY_1 = """SELECT l_returnflag, l_linestatus, sum(l_quantity), sum(l_extendedprice), sum(l_extendedprice * (1 - l_discount)),
    sum(l_extendedprice * (1 - l_discount) * (1 + l_tax)), avg(l_quantity), avg(l_extendedprice), avg(l_discount), count(*)
    FROM lineitem WHERE l_shipdate < date '1992-01-02' + {days} GROUP BY 1, 2"""


def query_1(percent: float) -> str:
    """Query 1 over a percentage of the rows: with few rows the disk limits it, with many the processor."""
    return QUERY_1.format(days=max(1, round(25 * percent)))


def load(cluster: Cluster, gigabytes: float) -> int:
    """Makes the table; returns its size in bytes."""
    cluster.sql(TABLE.format(rows=round(ROWS_PER_GB * gigabytes)), timeout=3600)
    cluster.sql("VACUUM (FREEZE, ANALYZE) lineitem; CHECKPOINT", timeout=3600)
    return table_bytes(cluster)


def table_bytes(cluster: Cluster) -> int:
    return int(cluster.one("SELECT pg_relation_size('lineitem')"))
