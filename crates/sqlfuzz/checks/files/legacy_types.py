"""Columns of types that Python's writers cannot write: times of 96 bits outside of 64-bit nanoseconds, and intervals.

Both are twelve bytes. They are written as bytes, and the footer is then changed to state the type.
"""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa

from . import footer as f
from .footer import Footer

#: Marks a field of a schema; the value is its storage.
STORED = b"stored"
INT96_COLUMN, INTERVAL_COLUMN = b"int96", b"interval"

JULIAN_1970 = 2_440_588
DAY_US = 86_400_000_000
INTERVAL = 21


def stored_as(field: pa.Field) -> bytes | None:
    return (field.metadata or {}).get(STORED)


def is_needed(schema: pa.Schema) -> bool:
    return any(stored_as(field) for field in schema)


def encoded(rows: pa.Table) -> pa.Table:
    """Returns the rows with the marked columns as bytes."""
    for at, field in enumerate(rows.schema):
        if how := stored_as(field):
            to_bytes = int96 if how == INT96_COLUMN else interval
            values = rows.column(at).cast(pa.int64()).to_pylist() if how == INT96_COLUMN else rows.column(at).to_pylist()
            data = pa.array([None if value is None else to_bytes(value) for value in values], pa.binary(12))
            rows = rows.set_column(at, pa.field(field.name, pa.binary(12), field.nullable), data)
    return rows


def int96(microseconds: int) -> bytes:
    days, rest = divmod(microseconds, DAY_US)
    return (rest * 1000).to_bytes(8, "little") + (days + JULIAN_1970).to_bytes(4, "little")


def interval(value) -> bytes:
    months, days, nanoseconds = value
    return b"".join(part.to_bytes(4, "little") for part in (months, days, nanoseconds // 10**6))


def mark(path: Path, schema: pa.Schema, seed: int) -> None:
    """States the types of the bytes in the footer."""
    footer, draw = Footer(path), random.Random(seed)
    marked = {field.name: stored_as(field) for field in schema if stored_as(field)}
    for leaf in footer.leaves():
        how = marked.get(leaf.path[0])
        if how == INT96_COLUMN:
            leaf.element[f.TYPE] = f.i32(f.INT96)
            leaf.element.pop(f.TYPE_LENGTH, None)
        elif how == INTERVAL_COLUMN:
            leaf.element[f.CONVERTED] = f.i32(INTERVAL)
            leaf.element.pop(f.LOGICAL, None)
            if draw.random() < 0.3:
                # The logical type of unknown values, which Drill writes beside the converted one.
                leaf.element[f.LOGICAL] = (f.STRUCT, {11: (f.STRUCT, {})})
    for _, chunk, leaf in footer.chunks():
        how = marked.get(leaf.path[0])
        if how:
            f.metadata(chunk).pop(f.STATISTICS, None)
            for field in (f.COLUMN_INDEX, f.COLUMN_INDEX_LENGTH):
                chunk.pop(field, None)
        if how == INT96_COLUMN:
            f.metadata(chunk)[f.PHYSICAL] = f.i32(f.INT96)
    footer.fields.pop(f.KEY_VALUES, None)
    footer.save()
