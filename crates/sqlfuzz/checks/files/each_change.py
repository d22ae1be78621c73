"""Makes every change of footers to one table and runs a few statements. Only the change's own dice are random."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa

from .case import Case
from .mutations import MUTATIONS
from .questions import Question
from .tables import File, Table

#: The dice of each change.
SEEDS = range(4)
MODES = ("default", "cooperative", "pushdown")
#: In the first row group, signed bytes have another least text than unsigned ones, and the same greatest.
ROWS = pa.table(
    {
        "a": pa.array([1, 2, None, 4, None, 6], pa.int64()),
        "s": ["xa", "xé", "y", None, "é", "z"],
        "u": pa.array([4294967295, 0, None, 2147483647, 7, None], pa.uint32()),
        "v": [float("nan"), 42.0, 1.0, 0.0, None, 3.0],
        "m": pa.array([[("k", None)], None, [("b", 2)], [], [("a", 1)], None], pa.map_(pa.string(), pa.int64())),
        "l": [[1], [], [3], None, [2, None], [4]],
        "n": pa.nulls(6),
        "d": pa.array([Decimal(7), None, Decimal(1), Decimal(-7), Decimal(0), None], pa.decimal128(9, 0)),
        "i": [0, 1, 2, 3, 4, 5],
    }
)
#: Many pages in two row groups.
OPTIONS = {"write_page_index": True, "write_batch_size": 1, "data_page_size": 1}
STATEMENTS = [
    "SELECT a, s, u, v, m, l, n, d, i FROM {}",
    "SELECT i FROM {} WHERE s IS NULL",
    "SELECT count(a), count(s), min(u), max(u), min(s), max(s), min(d), max(d) FROM {}",
    "SELECT i FROM {} WHERE u > 100",
    "SELECT i FROM {} WHERE v = 42.0",
    "SELECT i FROM {} WHERE s = 'xa' OR d < 0",
    "SELECT i, a FROM {} ORDER BY a NULLS FIRST, i LIMIT 2",
    "SELECT i FROM {} WHERE a NOT IN (9)",
]


def cases() -> list[Case]:
    # `fixed.py` has thousands of row groups.
    return [case(name, seed) for name in MUTATIONS if name != "many_groups" for seed in SEEDS]


def case(change: str, seed: int) -> Case:
    name = f"{change}_{seed}"
    # The old writers of short chunks wrote no page index.
    options = OPTIONS | {"write_page_index": change != "short_chunks"}
    file = File("0.parquet", ROWS, (3, 3), "pyarrow", options, ((change, seed),))
    questions = [Question(change, (statement.format(name),), "ORDER BY" in statement) for statement in STATEMENTS]
    return Case(name, (Table(name, ROWS.schema, (file,), "0.parquet"),), tuple(questions), MODES)
