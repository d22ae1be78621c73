"""Kinds of columns: types, values drawn for them, and constants of them in SQL of both sides.

Values are what `pyarrow.array` takes: times are integers in the unit of their type.
"""

from __future__ import annotations

import datetime
import math
import random
import struct
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal

import pyarrow as pa

from .legacy_types import DAY_US, INT96_COLUMN, INTERVAL_COLUMN, STORED

COSCAN, DUCKDB = "coscan", "duckdb"

Values = Callable[[random.Random], list]


@dataclass(frozen=True)
class Kind:
    """A type with its values. `pool` draws a few distinct ones, including odd ones."""

    name: str
    type: pa.DataType
    pool: Values
    #: Whether it is compared, sorted and grouped by.
    is_ordered: bool = True
    #: Whether it may be added up.
    is_number: bool = False
    #: Its storage, if Python's writers cannot write it; see `legacy_types.py`.
    stored: bytes | None = None

    def field(self, name: str, nullable: bool = True) -> pa.Field:
        return pa.field(name, self.type, nullable, {STORED: self.stored} if self.stored else None)


def integers(bits: int, signed: bool) -> Values:
    least, most = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)

    def pool(draw: random.Random) -> list:
        spread = draw.choice([5, 100, 1 << 15, 1 << 40])
        low = draw.choice([0, 0, -spread // 2])
        values = [min(max(draw.randint(low, low + spread), least), most) for _ in range(draw.choice([2, 8, 60]))]
        odd = [least, most, 0, most // 2 + 1] if draw.random() < 0.4 else []
        return values + odd

    return pool


def floats(code: str) -> Values:
    def pool(draw: random.Random) -> list:
        low, high = draw.choice([(-50, 50), (-50, 50), (0, 50), (-50, 0)])
        values = [draw.choice([0.5, 1.0, 0.25]) * draw.randint(low, high) for _ in range(draw.choice([2, 8, 60]))]
        odd = draw.choice([[], [], [math.nan, -math.nan], [0.0, -0.0], [math.inf, -math.inf], [math.nan, -math.nan, 0.0, -0.0, math.inf, -math.inf]])
        return [struct.unpack(code, struct.pack(code, value))[0] for value in values] + odd

    return pool


def texts(draw: random.Random) -> list:
    letters = draw.choice(["ab", "abcdefgh", "aéz", "a\u00ff\u4e2d\U0001f600z", "%_a"])
    values = ["".join(draw.choices(letters, k=draw.randint(0, 4))) for _ in range(draw.choice([2, 8, 60]))]
    if draw.random() < 0.2:
        common = "x" * draw.choice([10, 70])
        values += [common + value for value in values[:4]]
    if draw.random() < 0.25:
        # Writers leave out long bounds, from 4 KiB on (Arrow C++), or truncate them.
        length = draw.choice([300, 4095, 4096, 5000])
        values += [draw.choice(letters) * length + "q" for _ in range(draw.choice([1, 2]))]
    return values


def blobs(draw: random.Random) -> list:
    values = [bytes(draw.choices([0, 1, 97, 127, 128, 255], k=draw.randint(0, 4))) for _ in range(draw.choice([2, 8, 30]))]
    return values + ([b"\xff" * 5000, b"\x00" * 4200] if draw.random() < 0.1 else [])


def fixed_blobs(draw: random.Random) -> list:
    return [bytes(draw.choices([0, 1, 97, 127, 128, 255], k=4)) for _ in range(draw.choice([2, 8, 30]))]


def decimals(precision: int, scale: int) -> Values:
    def pool(draw: random.Random) -> list:
        digits = draw.choice([1, 3, precision - 1])
        values = [draw.randint(-(10**digits), 10**digits) for _ in range(draw.choice([2, 8, 40]))]
        values += draw.choice([[], [0, 127, 128, 255, 256, -1, -128, -129]])
        return [Decimal(value).scaleb(-scale) for value in values if abs(value) < 10**precision]

    return pool


def moments(per_second: int, odd: bool = True) -> Values:
    """Returns times since 1970 in fractions of a second."""

    def pool(draw: random.Random) -> list:
        begin = draw.choice([0, 1_600_000_000, -2_000_000_000])
        values = [
            (begin + draw.randint(0, 400_000)) * per_second + draw.randrange(per_second) for _ in range(draw.choice([2, 8, 40]))
        ]
        far = [253_402_300_799 * per_second, -62_135_596_800 * per_second] if odd and draw.random() < 0.2 else []
        return values + far

    return pool


def days(draw: random.Random) -> list:
    values = [draw.choice([0, 18_000, -30_000]) + draw.randint(0, 500) for _ in range(draw.choice([2, 8, 40]))]
    return values + draw.choice([[], [2_932_896, -719_162]])


def of_day(parts: int) -> Values:
    return lambda draw: [draw.randrange(parts) for _ in range(draw.choice([2, 8, 40]))] + draw.choice([[], [0, parts - 1]])


def lists(draw: random.Random) -> list:
    return [None if n == 4 else draw.choices([1, 2, 3, None], k=n) for n in draw.choices(range(5), k=8)]


def structs(draw: random.Random) -> list:
    return [{"x": draw.choice([None, 1, 2, 3]), "y": draw.choice([None, "a", "b"])} for _ in range(8)]


def maps(draw: random.Random) -> list:
    return [list({draw.choice("abc"): draw.choice([None, 1, 2]) for _ in range(draw.randint(0, 3))}.items()) for _ in range(8)]


def lists_of_structs(draw: random.Random) -> list:
    return [draw.choices(structs(draw), k=draw.randint(0, 3)) for _ in range(8)]


def durations(draw: random.Random) -> list:
    return [draw.randint(-10_000_000, 10_000_000) for _ in range(8)]


def intervals(draw: random.Random) -> list:
    parts = [(draw.choice([0, 1, 314]), draw.choice([0, 26]), draw.choice([0, 1500]) * 10**6) for _ in range(6)]
    return [pa.MonthDayNano(each) for each in parts]


KINDS = {
    kind.name: kind
    for kind in [
        Kind("int8", pa.int8(), integers(8, True), is_number=True),
        Kind("int16", pa.int16(), integers(16, True), is_number=True),
        Kind("int32", pa.int32(), integers(32, True), is_number=True),
        Kind("int64", pa.int64(), integers(64, True), is_number=True),
        Kind("uint8", pa.uint8(), integers(8, False), is_number=True),
        Kind("uint16", pa.uint16(), integers(16, False), is_number=True),
        Kind("uint32", pa.uint32(), integers(32, False), is_number=True),
        Kind("uint64", pa.uint64(), integers(64, False), is_number=True),
        Kind("float16", pa.float16(), floats("<e"), is_number=True),
        Kind("float32", pa.float32(), floats("<f"), is_number=True),
        Kind("float64", pa.float64(), floats("<d"), is_number=True),
        Kind("bool", pa.bool_(), lambda draw: draw.choice([[True], [False], [True, False]])),
        Kind("text", pa.string(), texts),
        Kind("large text", pa.large_string(), texts),
        Kind("dictionary", pa.dictionary(pa.int32(), pa.string()), texts),
        Kind("blob", pa.binary(), blobs),
        Kind("fixed", pa.binary(4), fixed_blobs),
        Kind("decimal 5", pa.decimal128(5, 2), decimals(5, 2), is_number=True),
        Kind("decimal 18", pa.decimal128(18, 4), decimals(18, 4), is_number=True),
        Kind("decimal 38", pa.decimal128(38, 10), decimals(30, 10), is_number=True),
        Kind("date", pa.date32(), days),
        Kind("s", pa.timestamp("s"), moments(1)),
        Kind("ms", pa.timestamp("ms"), moments(1000)),
        Kind("us", pa.timestamp("us"), moments(10**6)),
        Kind("ns", pa.timestamp("ns"), moments(10**9, odd=False)),
        Kind("us UTC", pa.timestamp("us", "UTC"), moments(10**6)),
        Kind("ms of day", pa.time32("ms"), of_day(DAY_US // 1000)),
        Kind("us of day", pa.time64("us"), of_day(DAY_US)),
        Kind("duration", pa.duration("us"), durations, is_ordered=False),
        Kind("list", pa.list_(pa.int32()), lists, is_ordered=False),
        Kind("struct", pa.struct([("x", pa.int64()), ("y", pa.string())]), structs, is_ordered=False),
        Kind("map", pa.map_(pa.string(), pa.int32()), maps, is_ordered=False),
        Kind("structs", pa.list_(pa.struct([("x", pa.int64()), ("y", pa.string())])), lists_of_structs, is_ordered=False),
        Kind("int96", pa.timestamp("us"), moments(10**6), stored=INT96_COLUMN),
        Kind("interval", pa.month_day_nano_interval(), intervals, is_ordered=False, stored=INTERVAL_COLUMN),
        Kind("decimal 9", pa.decimal128(9, 0), decimals(9, 0), is_number=True),
        Kind("nothing", pa.null(), lambda draw: [None], is_ordered=False),
    ]
}

#: Drawn more often, because these have the most kinds of statistics.
COMMON = ["int64", "int32", "text", "float64", "uint32", "decimal 18", "us", "date"]


def draw_kind(draw: random.Random) -> Kind:
    return KINDS[draw.choice(COMMON if draw.random() < 0.5 else list(KINDS))]


@dataclass(frozen=True)
class Constant:
    """A value of a column's type in a statement."""

    value: object
    type: pa.DataType

    def text(self, dialect: str) -> str:
        return constant(self.value, self.type, dialect)


def constant(value, type: pa.DataType, dialect: str) -> str:
    if value is None:
        return "NULL"
    if pa.types.is_dictionary(type):
        type = type.value_type
    if pa.types.is_boolean(type):
        return "true" if value else "false"
    if pa.types.is_integer(type):
        return str(value)
    if pa.types.is_floating(type):
        return f"CAST('{value!r}' AS DOUBLE)"
    if pa.types.is_decimal(type):
        return f"CAST('{value:f}' AS DECIMAL({type.precision}, {type.scale}))"
    if pa.types.is_string(type) or pa.types.is_large_string(type):
        return "'" + value.replace("'", "''") + "'"
    if pa.types.is_date(type):
        return f"DATE '{datetime.date(1970, 1, 1) + datetime.timedelta(value)}'"
    if dialect == DUCKDB:
        return constant_of_duckdb(value, type)
    return constant_of_coscan(value, type)


def constant_of_duckdb(value, type: pa.DataType) -> str:
    if isinstance(value, bytes):
        return "'" + "".join(f"\\x{byte:02X}" for byte in value) + "'::BLOB"
    if pa.types.is_time(type):
        return f"TIME '{time_of_day(value, type)}'"
    if type.tz:
        return f"TIMESTAMPTZ '{moment(value, type, ' ')}+00'"
    return f"CAST('{moment(value, type, ' ')}' AS TIMESTAMP{'_NS' if type.unit == 'ns' else ''})"


def constant_of_coscan(value, type: pa.DataType) -> str:
    if pa.types.is_fixed_size_binary(type):
        return f"arrow_cast(X'{value.hex()}', 'FixedSizeBinary({type.byte_width})')"
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    unit = {"s": "Second", "ms": "Millisecond", "us": "Microsecond", "ns": "Nanosecond"}[type.unit]
    if pa.types.is_time(type):
        # Some writers store times of day in another unit, and DataFusion compares only times of one unit.
        return f"'{time_of_day(value, type)}'"
    zone = f'Some("{type.tz}")' if type.tz else "None"
    return f"arrow_cast('{moment(value, type, 'T')}{'Z' if type.tz else ''}', 'Timestamp({unit}, {zone})')"


def parts_of_second(type: pa.DataType) -> int:
    return {"s": 1, "ms": 1000, "us": 10**6, "ns": 10**9}[type.unit]


def moment(value: int, type: pa.DataType, between: str) -> str:
    parts = parts_of_second(type)
    seconds, rest = divmod(value, parts)
    when = datetime.datetime(1970, 1, 1) + datetime.timedelta(seconds=seconds)
    fraction = f".{rest * (10**9 // parts):09d}"[: len(str(parts))] if parts > 1 else ""
    return when.isoformat(between) + fraction


def time_of_day(value: int, type: pa.DataType) -> str:
    return moment(value, pa.timestamp(type.unit), " ")[11:]
