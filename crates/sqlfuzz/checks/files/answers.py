"""Conversion of Arrow tables to rows of plain values. Equal values are equal in Python, whatever their types.

Times are nanoseconds as integers, so that no value is out of range. Texts and binary values stay unchanged, and a
dictionary becomes its values. The name of a column does not count, nor which of several types with the same values it
has.
"""

from __future__ import annotations

import math

import pyarrow as pa

from ..compare import Row

NANOSECONDS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}


def rows(table: pa.Table) -> list[Row]:
    columns = [plain_column(column) for column in table.columns]
    return list(zip(*columns)) if columns else [()] * table.num_rows


def plain_column(column) -> list:
    if isinstance(column, pa.ChunkedArray):
        return [value for chunk in column.chunks for value in plain_array(chunk)]
    return plain_array(column)


def plain_array(array: pa.Array) -> list:
    type = array.type
    if isinstance(array, pa.ExtensionArray):
        return plain_array(array.storage)
    if pa.types.is_dictionary(type):
        return plain_array(array.dictionary_decode())
    if pa.types.is_timestamp(type):
        return scaled(array, "moment", type)
    if pa.types.is_time(type):
        return scaled(array, "time", type)
    if pa.types.is_duration(type):
        return scaled(array, "interval", type)
    if pa.types.is_date(type):
        ns = 86_400 * 10**9 if pa.types.is_date32(type) else 10**6
        return [None if value is None else ("moment", value * ns) for value in integers(array)]
    if type == pa.month_day_nano_interval():
        return [None if value is None else interval(*value) for value in array.to_pylist()]
    if pa.types.is_floating(type):
        return [("NaN",) if value is not None and math.isnan(value) else value for value in array.to_pylist()]
    if pa.types.is_struct(type):
        fields = zip(*(plain_array(field) for field in array.flatten()))
        valid = array.is_valid().to_pylist()
        return [("row", *values) if there else None for there, values in zip(valid, fields)]
    if pa.types.is_map(type):
        entries = list(zip(plain_array(array.keys), plain_array(array.items)))
        return listed(array, entries, array.keys)
    if pa.types.is_list(type) or pa.types.is_large_list(type):
        return listed(array, plain_array(array.values), array.values)
    if pa.types.is_fixed_size_list(type) or "view" in str(type) and "list" in str(type):
        return [None if value is None else tuple(value) for value in array.to_pylist()]
    return array.to_pylist()


def listed(array: pa.Array, values: list, _of: pa.Array) -> list:
    offsets, valid = array.offsets.to_pylist(), array.is_valid().to_pylist()
    return [tuple(values[begin:end]) if there else None for there, begin, end in zip(valid, offsets, offsets[1:])]


def integers(array: pa.Array) -> list:
    return array.view(pa.int32() if array.type.bit_width == 32 else pa.int64()).to_pylist()


def scaled(array: pa.Array, word: str, type: pa.DataType) -> list:
    factor = NANOSECONDS[type.unit]
    if word == "interval":
        return [None if value is None else interval(0, 0, value * factor) for value in integers(array)]
    return [None if value is None else (word, value * factor) for value in integers(array)]


def interval(months: int, days: int, nanoseconds: int) -> tuple:
    return "interval", months, days, nanoseconds
