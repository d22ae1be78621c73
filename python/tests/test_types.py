"""Every Arrow type: tables come back as they went in, and values as pyarrow converts them."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import coscan

INT64 = st.integers(-(2**63), 2**63 - 1)
MICROSECONDS = st.integers(-62_135_596_800_000_000, 253_402_300_799_999_999 - 86_400_000_000)
"""The years 1 to 9999, less a day for zones."""
DAYS = st.integers(-719_162, 2_932_896)


def whole(bits: int, signed: bool = True) -> st.SearchStrategy[int]:
    low = -(2 ** (bits - 1)) if signed else 0
    return st.integers(low, low + 2**bits - 1)


def decimals(precision: int, scale: int) -> st.SearchStrategy[Any]:
    largest = 10**precision - 1
    return st.integers(-largest, largest).map(
        lambda n: Decimal((int(n < 0), tuple(int(digit) for digit in str(abs(n))), -scale))
    )


TEXT = st.text(st.characters(codec="utf-8"), max_size=20)
BYTES = st.binary(max_size=20)
FLOATS = st.floats(allow_nan=False)

SIMPLE: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.null(), st.none()),
    (pa.bool_(), st.booleans()),
    (pa.int8(), whole(8)),
    (pa.int16(), whole(16)),
    (pa.int32(), whole(32)),
    (pa.int64(), whole(64)),
    (pa.uint8(), whole(8, signed=False)),
    (pa.uint16(), whole(16, signed=False)),
    (pa.uint32(), whole(32, signed=False)),
    (pa.uint64(), whole(64, signed=False)),
    (pa.float16(), st.floats(width=16, allow_nan=False)),
    (pa.float32(), st.floats(width=32, allow_nan=False)),
    (pa.float64(), FLOATS),
    (pa.string(), TEXT),
    (pa.large_string(), TEXT),
    (pa.string_view(), TEXT),
    (pa.binary(), BYTES),
    (pa.large_binary(), BYTES),
    (pa.binary_view(), BYTES),
    (pa.binary(4), st.binary(min_size=4, max_size=4)),
    (pa.decimal32(7, 2), decimals(7, 2)),
    (pa.decimal64(15, 4), decimals(15, 4)),
    (pa.decimal128(38, 10), decimals(38, 10)),
    (pa.decimal256(70, 3), decimals(70, 3)),
    (pa.date32(), DAYS),
    (pa.date64(), DAYS.map(lambda days: days * 86_400_000)),
    (pa.time32("s"), st.integers(0, 86_399)),
    (pa.time32("ms"), st.integers(0, 86_399_999)),
    (pa.time64("us"), st.integers(0, 86_399_999_999)),
    (pa.time64("ns"), st.integers(0, 86_399_999_999).map(lambda value: value * 1000)),
    (pa.timestamp("s"), MICROSECONDS.map(lambda value: value // 1_000_000)),
    (pa.timestamp("ms"), MICROSECONDS.map(lambda value: value // 1_000)),
    (pa.timestamp("us"), MICROSECONDS),
    (pa.timestamp("ns"), st.integers(-(2**63) // 1000 + 1, 2**63 // 1000 - 1).map(lambda value: value * 1000)),
    (pa.timestamp("us", "UTC"), MICROSECONDS),
    (pa.timestamp("us", "+02:00"), MICROSECONDS.filter(lambda value: value > -62_135_500_000_000_000)),
    (pa.timestamp("ms", "Europe/Berlin"), st.integers(-2_000_000_000_000, 4_000_000_000_000)),
    (pa.duration("s"), st.integers(-86_399_999_913_600, 86_399_999_999_999)),
    (pa.duration("ms"), st.integers(-(2**62) // 1000, 2**62 // 1000)),
    (pa.duration("us"), st.integers(-(2**62), 2**62)),
]

NESTED: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.list_(pa.int32()), st.lists(st.none() | whole(32), max_size=4)),
    (pa.large_list(pa.string()), st.lists(st.none() | TEXT, max_size=4)),
    (pa.list_(pa.float64(), 2), st.lists(FLOATS, min_size=2, max_size=2)),
    (
        pa.struct([("a", pa.int64()), ("b", pa.list_(pa.string()))]),
        st.fixed_dictionaries({"a": st.none() | INT64, "b": st.none() | st.lists(TEXT, max_size=3)}),
    ),
    (pa.map_(pa.string(), pa.int64()), st.lists(st.tuples(TEXT, st.none() | INT64), max_size=3)),
    (pa.dictionary(pa.int8(), pa.string()), st.sampled_from(["a", "b", "c"])),
    (pa.list_(pa.struct([("x", pa.date32())])), st.lists(st.fixed_dictionaries({"x": DAYS}), max_size=3)),
]


@pytest.fixture(scope="module")
def con() -> coscan.Connection:
    return coscan.connect(buffer="16MB")


@pytest.mark.parametrize(("kind", "values"), SIMPLE + NESTED, ids=[str(kind) for kind, _ in SIMPLE + NESTED])
def test_types_make_the_round_trip(con: coscan.Connection, kind: pa.DataType, values: st.SearchStrategy[Any]) -> None:
    @settings(max_examples=30, deadline=None)
    @given(st.lists(st.none() | values, max_size=12))
    def check(items: list[Any]) -> None:
        array = pa.array(items, kind)
        table = pa.table({"v": array})
        con.register("t", table)
        query = con.sql("SELECT v FROM t")
        back = query.arrow()
        assert back.schema.field("v").type == kind
        assert back["v"].combine_chunks().equals(array) or back["v"].to_pylist() == array.to_pylist()
        assert [value for (value,) in query.fetchall()] == expected(array)

    check()


def expected(array: pa.Array) -> list[Any]:
    """The values as pyarrow converts them, which has types of its own only for nanoseconds."""
    if pa.types.is_timestamp(array.type) and array.type.unit == "ns":
        return array.cast(pa.timestamp("us", array.type.tz)).to_pylist()
    if pa.types.is_time64(array.type) and array.type.unit == "ns":
        return array.cast(pa.time64("us")).to_pylist()
    return array.to_pylist()


def test_types_that_pyarrow_cannot_build_from_values(con: coscan.Connection) -> None:
    ends = pa.array([2, 5], pa.int32())
    runs = pa.RunEndEncodedArray.from_arrays(ends, pa.array(["a", None]))
    con.register("t", pa.table({"v": runs}))
    assert con.sql("SELECT v FROM t").fetchall() == [("a",), ("a",), (None,), (None,), (None,)]
    months = pa.array([pa.MonthDayNano([1, 2, 3_000]), pa.MonthDayNano([0, 2, 3_000]), None])
    con.register("t", pa.table({"v": months}))
    query = con.sql("SELECT v FROM t")
    assert query.arrow()["v"].to_pylist() == months.to_pylist()
    assert query.fetchall() == [(coscan.Interval(1, 2, 3_000),), (dt.timedelta(days=2, microseconds=3),), (None,)]


def test_times_that_python_does_not_have_are_errors(con: coscan.Connection) -> None:
    for query in (
        "SELECT DATE '2000-01-01' + INTERVAL '9000 years'",
        "SELECT arrow_cast(300000000000000000, 'Timestamp(Microsecond, None)')",
    ):
        with pytest.raises(coscan.DataError, match="years 1 to 9999"):
            con.sql(query).fetchall()


def test_pandas_takes_views_and_small_decimals(con: coscan.Connection) -> None:
    table = pa.table({"s": pa.array(["a", None], pa.string_view()), "d": pa.array([1, None], pa.decimal64(10, 2))})
    con.register("t", table)
    frame = con.sql("SELECT * FROM t").df()
    assert frame["s"].tolist()[0] == "a"
    assert str(frame["d"].tolist()[0]) == "1.00"


@pytest.mark.parametrize(
    ("sql", "of", "values"),
    [
        ("select 1 as x union all select 2.5::float8", pa.float64(), [1.0, 2.5]),
        ("select 1 as x union all select 2.5", None, [Decimal(1), Decimal("2.5")]),
        ("select null as x union all select 'a'", pa.string(), [None, "a"]),
        ("select max(x) as x from (select 1 as x union all select 2.5::float8)", pa.float64(), [2.5]),
        (
            "select date '2020-01-01' as x union all select timestamp '2020-01-01 05:00:00'",
            None,
            [dt.datetime(2020, 1, 1), dt.datetime(2020, 1, 1, 5)],
        ),
    ],
)
def test_the_types_of_a_union_are_those_of_its_rows(sql: str, of: pa.DataType | None, values: list[Any]) -> None:
    query = coscan.connect().sql(sql)
    table = query.arrow()
    assert of is None or table.schema.field("x").type == of
    assert sorted(table["x"].to_pylist(), key=lambda value: (value is not None, value)) == values
    assert len(query.pl()) == len(values)
