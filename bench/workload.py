"""Workloads: streams of queries over lineitem, made from a seed.

FAST is TPC-H Q6. SLOW is TPC-H Q1 with three more sums and without the averages, which engines round differently.
Both have a range of l_orderkey, as in "Cooperative Scans" (VLDB 2007, section 5). The file format is that of
`coscan bench --workload`. Nothing is run here.
"""

from __future__ import annotations

import datetime
import random
from dataclasses import dataclass
from typing import Any

VERSION = 1
PERCENTS = (1, 10, 50, 100)
KINDS = tuple(f"{work}-{percent:02}" for work in "FS" for percent in PERCENTS)
DASHBOARD_KIND = "F-100"

Json = dict[str, Any]


@dataclass(frozen=True)
class Table:
    """lineitem: its files, and its contents. Keys are `key_min..=key_max`."""

    files: tuple[str, ...]
    rows: int
    key_min: int
    key_max: int
    size_bytes: int


def mix(table: Table, seed: int, streams: int, queries: int, delay_s: float) -> Json:
    """The paper's workload: `streams` of `queries` of random kinds, starting `delay_s` apart."""
    rng = random.Random(f"mix {seed}")
    content = [
        [_query(f"{stream}.{at}", rng.choice(KINDS), table, rng) for at in range(queries)] for stream in range(streams)
    ]
    return _workload(f"mix{streams}x{queries}", seed, table, content, delay_s)


def dashboard(table: Table, seed: int, panels: int, delay_s: float) -> Json:
    """Full scans of equal cost with different parameters, one per stream, starting `delay_s` apart."""
    rng = random.Random(f"dashboard {seed}")
    content = [[_query(f"{panel}.0", DASHBOARD_KIND, table, rng)] for panel in range(panels)]
    return _workload(f"dashboard{panels}", seed, table, content, delay_s)


def alone(table: Table, kind: str, repetition: int) -> Json:
    """One query of a kind alone. Repetitions read different places."""
    rng = random.Random(f"alone {kind} {repetition}")
    return _workload(f"alone-{kind}", repetition, table, [[_query("0.0", kind, table, rng)]], 0.0)


def kinds_of(workload: Json) -> dict[str, str]:
    """The kind of every query by its id."""
    return {query["id"]: query["kind"] for stream in workload["streams"] for query in stream["queries"]}


def _workload(name: str, seed: int, table: Table, content: list[list[Json]], delay_s: float) -> Json:
    lineitem = {"format": "parquet", "files": list(table.files), "rows": table.rows, "sorted_by": ["l_orderkey"]}
    streams = [{"id": at, "start_s": round(at * delay_s, 6), "queries": queries} for at, queries in enumerate(content)]
    return {"version": VERSION, "name": name, "seed": seed, "tables": {"lineitem": lineitem}, "streams": streams}


def _query(query_id: str, kind: str, table: Table, rng: random.Random) -> Json:
    work, percent = kind.split("-")
    keys = table.key_max - table.key_min + 1
    wanted = max(1, keys * int(percent) // 100)
    low = table.key_min + rng.randint(0, keys - wanted)
    high = low + wanted
    sql = _fast(low, high, rng) if work == "F" else _slow(low, high, rng)
    return {"id": query_id, "kind": kind, "key_lo": low, "key_hi": high, "sql": sql}


def _fast(low: int, high: int, rng: random.Random) -> str:
    year = rng.randint(1993, 1997)
    discount = rng.randint(2, 9)
    quantity = rng.randint(24, 25)
    return (
        "SELECT sum(l_extendedprice * l_discount) AS revenue, count(*) AS cnt FROM lineitem "
        f"WHERE l_orderkey >= {low} AND l_orderkey < {high} "
        f"AND l_shipdate >= DATE '{year}-01-01' AND l_shipdate < DATE '{year + 1}-01-01' "
        f"AND l_discount BETWEEN 0.{discount - 1:02} AND 0.{discount + 1:02} AND l_quantity < {quantity}"
    )


def _slow(low: int, high: int, rng: random.Random) -> str:
    until = datetime.date(1998, 12, 1) - datetime.timedelta(days=rng.randint(60, 120))
    return (
        "SELECT l_returnflag, l_linestatus, sum(l_quantity) AS sum_qty, sum(l_extendedprice) AS sum_base, "
        "sum(l_extendedprice * (1 - l_discount)) AS sum_disc, "
        "sum(l_extendedprice * (1 - l_discount) * (1 + l_tax)) AS sum_charge, "
        "sum(l_discount) AS sum_d, sum(l_quantity * l_extendedprice) AS sum_qp, "
        "sum(l_extendedprice * l_tax) AS sum_tax, count(*) AS cnt FROM lineitem "
        f"WHERE l_orderkey >= {low} AND l_orderkey < {high} AND l_shipdate <= DATE '{until}' "
        "GROUP BY l_returnflag, l_linestatus ORDER BY l_returnflag, l_linestatus"
    )
