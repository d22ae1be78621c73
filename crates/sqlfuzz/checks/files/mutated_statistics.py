"""Changes of row group statistics: missing, partial, deprecated, in an unknown order, NaN, truncated."""

from __future__ import annotations

import random
import struct

import pyarrow as pa

from . import footer as f
from .footer import Footer, Leaf, get
from .mutations import chosen_chunks, mutation


@mutation()
def no_statistics(footer: Footer, draw: random.Random, _rows: pa.Table) -> bool:
    chunks = chosen_chunks(footer, draw, has_statistics)
    for _, chunk, _ in chunks:
        f.metadata(chunk).pop(f.STATISTICS)
    return bool(chunks)


@mutation()
def empty_statistics(footer: Footer, draw: random.Random, _rows: pa.Table) -> bool:
    """Empty statistics, as parquet-mr 1.10 writes them for long values."""
    chunks = chosen_chunks(footer, draw)
    for _, chunk, _ in chunks:
        f.set_statistics(chunk, {})
    return bool(chunks)


@mutation(weight=4)
def no_null_count(footer: Footer, draw: random.Random, _rows: pa.Table) -> bool:
    chunks = chosen_chunks(footer, draw, lambda chunk, leaf: f.NULL_COUNT in f.statistics(chunk))
    for _, chunk, _ in chunks:
        f.statistics(chunk).pop(f.NULL_COUNT)
    return bool(chunks)


@mutation(weight=3)
def half_statistics(footer: Footer, draw: random.Random, _rows: pa.Table) -> bool:
    """Only a part of the fields is left."""
    kept = draw.choice(
        [{f.MIN, f.OLD_MIN}, {f.MAX, f.OLD_MAX}, {f.NULL_COUNT}, {f.MIN, f.OLD_MIN, f.NULL_COUNT}, {f.MAX, f.NULL_COUNT}]
    )
    chunks = chosen_chunks(footer, draw, has_statistics)
    for _, chunk, _ in chunks:
        f.set_statistics(chunk, {field: value for field, value in f.statistics(chunk).items() if field in kept})
    return bool(chunks)


@mutation(weight=3)
def no_bounds(footer: Footer, draw: random.Random, _rows: pa.Table) -> bool:
    """No bounds in one row group, as for long values."""
    chunks = chosen_chunks(footer, draw, has_bounds)
    for _, chunk, _ in draw.sample(chunks, min(1, len(chunks))):
        drop_bounds(f.statistics(chunk))
    return bool(chunks)


OLD_WRITERS = [
    b"parquet-mr version 1.6.0 (build abcd)",
    b"parquet-mr version 1.5.0",
    b"parquet-mr version 1.8.1 (build 4aba4da)",
    b"parquet-mr",
]


@mutation(weight=5)
def deprecated_bounds(footer: Footer, draw: random.Random, rows: pa.Table) -> bool:
    """Bounds as writers compared them that took bytes and unsigned numbers for signed. They are in the deprecated fields alone, or
    a program has copied them to the new ones."""
    chunks = chosen_chunks(footer, draw, lambda chunk, leaf: leaf.is_flat() and has_statistics(chunk, leaf))
    done, copied = False, draw.random() < 0.3
    for number, chunk, leaf in chunks:
        low, high = signed_bounds(footer, number, leaf, rows)
        if low is None:
            continue
        fields = f.statistics(chunk)
        drop_bounds(fields)
        fields[f.OLD_MIN], fields[f.OLD_MAX] = f.binary(low), f.binary(high)
        if copied:
            fields[f.MIN], fields[f.MAX] = f.binary(low), f.binary(high)
        done = True
    if done:
        if not copied:
            footer.fields.pop(f.COLUMN_ORDERS, None)
        footer.set_created_by(draw.choice(OLD_WRITERS[:-1] if has_gaps(footer) else OLD_WRITERS))
    return done


def has_gaps(footer: Footer) -> bool:
    """Whether there is something else between column chunks, or behind them: polars writes their metadata there. A reader takes it for
    pages if it does not know that the writer's sizes are right (PARQUET-816)."""
    return footer.has_gaps or f.get(footer.fields, f.CREATED_BY, b"").startswith(b"Polars")


@mutation(weight=3)
def unknown_order(footer: Footer, draw: random.Random, rows: pa.Table) -> bool:
    """Bounds in an order that the footer does not name, or that readers do not know yet."""
    leaves, done = footer.leaves(), False
    for number, chunk, leaf in list(footer.chunks()):
        fields = f.statistics(chunk)
        if leaf.is_flat() and has_bounds(chunk, leaf):
            low, high = signed_bounds(footer, number, leaf, rows)
            if low is not None:
                fields[f.MIN], fields[f.MAX] = f.binary(low), f.binary(high)
                for field in (f.OLD_MIN, f.OLD_MAX):
                    fields.pop(field, None)
                done = True
    if draw.random() < 0.5:
        footer.fields.pop(f.COLUMN_ORDERS, None)
    else:
        footer.fields[f.COLUMN_ORDERS] = f.structs([{9: (f.STRUCT, {})} for _ in leaves])
    return done


@mutation(weight=4)
def nan_bounds(footer: Footer, draw: random.Random, _rows: pa.Table) -> bool:
    """NaN bounds, as old writers wrote for columns with a NaN. They say nothing."""
    both = (f.MIN, f.MAX)
    which = draw.choice([(f.MIN,), (f.MAX,), both, both, (f.OLD_MIN, f.OLD_MAX, *both), (f.OLD_MIN, f.OLD_MAX)])
    chunks = chosen_chunks(footer, draw, lambda chunk, leaf: is_float(leaf) and has_bounds(chunk, leaf))
    for _, chunk, leaf in chunks:
        nan = {f.FLOAT: struct.pack("<f", float("nan")), f.DOUBLE: struct.pack("<d", float("nan"))}.get(
            leaf.physical(), b"\x00\x7e"
        )
        fields = f.statistics(chunk)
        if f.MIN not in which:
            drop_bounds(fields)
        fields |= {field: f.binary(nan) for field in which}
    return bool(chunks)


@mutation()
def zero_bounds(footer: Footer, draw: random.Random, _rows: pa.Table) -> bool:
    """A lower bound of 0.0 or an upper one of -0.0 where there may be zeros of both signs."""
    done = False
    for _, chunk, leaf in footer.chunks():
        fields = f.statistics(chunk)
        if leaf.physical() not in (f.FLOAT, f.DOUBLE) or not has_bounds(chunk, leaf):
            continue
        code = "<f" if leaf.physical() == f.FLOAT else "<d"
        for field, zero in ((f.MIN, 0.0), (f.MAX, -0.0), (f.OLD_MIN, 0.0), (f.OLD_MAX, -0.0)):
            # Another change may have left too few bytes.
            bound = get(fields, field, b"")
            if len(bound) == struct.calcsize(code) and struct.unpack(code, bound)[0] == 0:
                fields[field] = f.binary(struct.pack(code, zero))
                done = True
    return done


@mutation(weight=3)
def cut_bounds(footer: Footer, draw: random.Random, _rows: pa.Table) -> bool:
    """Truncated bounds of texts and bytes, with a greater upper one. They may be marked as inexact or not."""
    length, says_so = draw.choice([0, 1, 2, 10, 64]), draw.random() < 0.7
    chunks = chosen_chunks(footer, draw, lambda chunk, leaf: leaf.physical() == f.BYTE_ARRAY and has_bounds(chunk, leaf))
    chunks = [each for each in chunks if f.CONVERTED not in each[2].element or get(each[2].element, f.CONVERTED) == 0]
    for _, chunk, _ in chunks:
        fields = f.statistics(chunk)
        low, high = bounds_of(chunk)
        drop_bounds(fields)
        fields[f.MIN] = f.binary(low[:length])
        greater = next_after(high[:length])
        if len(high) > length and greater:
            fields[f.MAX] = f.binary(greater)
        elif len(high) <= length:
            fields[f.MAX] = f.binary(high)
        if says_so:
            fields[f.MIN_EXACT] = (1, len(low) <= length)
            fields[f.MAX_EXACT] = (1, len(high) <= length)
    return bool(chunks)


#: These counted no nulls of dictionaries, which they used for texts and bytes (ARROW-12513).
MISCOUNTING = [b"parquet-cpp-arrow version 4.0.1", b"parquet-cpp-arrow version 5.0.0", b"parquet-cpp-arrow version 4.0.0"]


@mutation(weight=4)
def miscounted_nulls(footer: Footer, draw: random.Random, _rows: pa.Table) -> bool:
    if footer.keeps_writer:
        return False
    footer.set_created_by(draw.choice(MISCOUNTING))
    footer.keeps_writer = True
    chunks = chosen_chunks(
        footer, draw, lambda chunk, leaf: leaf.physical() == f.BYTE_ARRAY and get(f.statistics(chunk), f.NULL_COUNT, 0) > 0
    )
    for _, chunk, _ in chunks:
        f.statistics(chunk)[f.NULL_COUNT] = f.i64(0)
    return bool(chunks)


@mutation()
def impossible_null_count(footer: Footer, draw: random.Random, _rows: pa.Table) -> bool:
    """An impossible count says nothing: -1 means "not known" in parquet-mr, and there are no more nulls than values."""
    chunks = chosen_chunks(footer, draw, has_statistics)
    for _, chunk, _ in chunks:
        f.statistics(chunk)[f.NULL_COUNT] = f.i64(draw.choice([-1, -1, -5, 10**6, 10**6]))
    return bool(chunks)


@mutation(weight=3)
def exchanged_bounds(footer: Footer, draw: random.Random, _rows: pa.Table) -> bool:
    """The least value in the place of the greatest one. A lower bound above the upper one says nothing."""
    chunks = chosen_chunks(footer, draw, has_bounds)
    done = False
    for _, chunk, _ in chunks:
        low, high = bounds_of(chunk)
        if low != high:
            fields = f.statistics(chunk)
            drop_bounds(fields)
            fields[f.MIN], fields[f.MAX] = f.binary(high), f.binary(low)
            done = True
    return done


def bounds_of(chunk) -> tuple[bytes, bytes]:
    fields = f.statistics(chunk)
    return get(fields, f.MIN, b""), get(fields, f.MAX, b"")


@mutation()
def short_bounds(footer: Footer, draw: random.Random, _rows: pa.Table) -> bool:
    """Bounds of numbers with too few bytes, or none."""
    sized = (f.INT32, f.INT64, f.FLOAT, f.DOUBLE)
    chunks = chosen_chunks(footer, draw, lambda chunk, leaf: leaf.physical() in sized and has_bounds(chunk, leaf))
    for _, chunk, _ in chunks:
        fields = f.statistics(chunk)
        for field in draw.choice([(f.MIN, f.MAX), (f.MIN, f.OLD_MIN), (f.MAX, f.OLD_MAX)]):
            fields[field] = f.binary(draw.choice([b"", b"\x01"]))
    return bool(chunks)


def has_statistics(chunk, _leaf=None) -> bool:
    return bool(f.statistics(chunk))


def has_bounds(chunk, _leaf=None) -> bool:
    fields = f.statistics(chunk)
    return f.MIN in fields and f.MAX in fields


def is_float(leaf: Leaf) -> bool:
    half = leaf.physical() == f.FIXED and 15 in get(leaf.element, f.LOGICAL, {})
    return leaf.physical() in (f.FLOAT, f.DOUBLE) or half


def drop_bounds(fields: f.Struct) -> None:
    for field in (f.MIN, f.MAX, f.OLD_MIN, f.OLD_MAX, f.MIN_EXACT, f.MAX_EXACT):
        fields.pop(field, None)


def next_after(data: bytes) -> bytes | None:
    """Returns the least text greater than all texts with this prefix. UTF-8 sequences are not split."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    for at in range(len(text) - 1, -1, -1):
        if ord(text[at]) < 0x7F:
            return (text[:at] + chr(ord(text[at]) + 1)).encode()
    return None


def signed_bounds(footer: Footer, number: int, leaf: Leaf, rows: pa.Table) -> tuple[bytes | None, bytes | None]:
    """Returns the bounds of writers that compared bytes, and unsigned numbers, as signed."""
    counts = [get(group, f.GROUP_ROWS) for group in footer.groups()]
    if leaf.path[0] not in rows.schema.names or sum(counts) != rows.num_rows:
        return None, None
    column = rows.column(leaf.path[0])
    values = [value for value in column.slice(sum(counts[:number]), counts[number]).to_pylist() if value is not None]
    if not values:
        return None, None
    type = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    stored = stored_values(values, type, leaf)
    if stored is None:
        return None, None
    # Python's bytes are unsigned. With a flipped first bit their order is that of signed ones.
    signed = sorted(stored, key=lambda data: [byte ^ 0x80 for byte in data])
    if leaf.physical() in (f.INT32, f.INT64):
        signed = sorted(stored, key=lambda data: int.from_bytes(data, "little", signed=True))
    return signed[0], signed[-1]


def stored_values(values: list, type: pa.DataType, leaf: Leaf) -> list[bytes] | None:
    """Returns the values as stored in statistics, for the types with two orders and some with one."""
    physical = leaf.physical()
    if physical == f.BYTE_ARRAY and (pa.types.is_string(type) or pa.types.is_large_string(type)):
        return [value.encode() for value in values]
    if pa.types.is_binary(type) or pa.types.is_fixed_size_binary(type):
        return list(values) if isinstance(values[0], bytes) else None
    if pa.types.is_decimal(type) and physical == f.FIXED:
        length = get(leaf.element, f.TYPE_LENGTH)
        return [int(value.scaleb(type.scale)).to_bytes(length, "big", signed=True) for value in values]
    if pa.types.is_integer(type) and physical in (f.INT32, f.INT64):
        length = 4 if physical == f.INT32 else 8
        return [(value & (1 << 8 * length) - 1).to_bytes(length, "little") for value in values]
    return None
