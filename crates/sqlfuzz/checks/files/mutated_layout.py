"""Changes of row groups, page indexes and bloom filters: missing, broken or meaningless counts, places and indexes."""

from __future__ import annotations

import random

import pyarrow as pa

from . import footer as f
from .footer import Footer, get
from .mutations import chosen_chunks, mutation
from .thrift import I64, LIST, read_struct, written_struct

#: Fields of ColumnIndex and OffsetIndex.
NULL_PAGES, PAGE_MINS, PAGE_MAXES, BOUNDARY_ORDER, PAGE_NULL_COUNTS = 1, 2, 3, 4, 5
PAGE_LOCATIONS = 1


@mutation(weight=3)
def file_rows(footer: Footer, draw: random.Random, _rows: pa.Table) -> None:
    """The file's number of rows differs from that of its row groups: parquet-rs 0.3 and old Impala wrote 0."""
    footer.fields[f.NUM_ROWS] = f.i64(draw.choice([0, 0, 1, get(footer.fields, f.NUM_ROWS) + 5]))


@mutation(may_refuse=True, weight=1)
def group_rows(footer: Footer, draw: random.Random, _rows: pa.Table) -> bool:
    """A row group's number of rows is wrong, which no reader can detect."""
    groups = footer.groups()
    if not groups:
        return False
    draw.choice(groups)[f.GROUP_ROWS] = f.i64(draw.choice([-1, -100, 0]))
    return True


@mutation()
def sizes_and_offsets(footer: Footer, draw: random.Random, _rows: pa.Table) -> bool:
    """Numbers that readers do not need, with the values of different writers: sizes of row groups, offsets, ordinals."""
    for at, group in enumerate(footer.groups()):
        how = draw.choice(["zero", "gone", "odd"])
        if how == "gone":
            for field in (f.GROUP_OFFSET, f.GROUP_COMPRESSED, f.ORDINAL):
                group.pop(field, None)
        else:
            group[f.TOTAL_BYTE_SIZE] = f.i64(0 if how == "zero" else 1 << 40)
            group[f.GROUP_OFFSET] = f.i64(0 if how == "zero" else 7)
            group[f.ORDINAL] = (4, 0 if how == "zero" else at * 3 % 100)
        for chunk in get(group, f.COLUMNS)[1]:
            chunk[f.CHUNK_OFFSET] = f.i64(0 if how == "zero" else 5)
    return bool(footer.groups())


@mutation(weight=0.3)
def many_groups(footer: Footer, draw: random.Random, _rows: pa.Table) -> bool:
    """More row groups than ordinals can number, with empty ones at the end."""
    if not footer.groups() or len(footer.leaves()) > 2:
        return False
    empty = {f.COLUMNS: f.structs([]), f.TOTAL_BYTE_SIZE: f.i64(0), f.GROUP_ROWS: f.i64(0)}
    columns = [
        {
            f.CHUNK_OFFSET: f.i64(4),
            f.META: (
                f.STRUCT,
                {
                    **{
                        field: value
                        for field, value in f.metadata(chunk).items()
                        if field not in (f.STATISTICS, f.DICTIONARY_PAGE)
                    },
                    f.NUM_VALUES: f.i64(0),
                    6: f.i64(0),
                    f.COMPRESSED: f.i64(0),
                },
            ),
        }
        for chunk in get(footer.groups()[0], f.COLUMNS)[1]
    ]
    footer.groups().extend([empty | {f.COLUMNS: f.structs(columns)}] * 33_000)
    return True


@mutation(weight=3)
def no_page_index(footer: Footer, draw: random.Random, _rows: pa.Table) -> bool:
    """No index, or one of its two halves."""
    fields = draw.choice([OFFSET_HALF, COLUMN_HALF, OFFSET_HALF + COLUMN_HALF])
    chunks = chosen_chunks(footer, draw, has_page_index)
    for _, chunk, _ in chunks:
        for field in fields:
            chunk.pop(field, None)
    footer.has_gaps |= bool(chunks)
    return bool(chunks)


OFFSET_HALF = [f.OFFSET_INDEX, f.OFFSET_INDEX_LENGTH]
COLUMN_HALF = [f.COLUMN_INDEX, f.COLUMN_INDEX_LENGTH]


@mutation(weight=3)
def page_index_elsewhere(footer: Footer, draw: random.Random, _rows: pa.Table) -> bool:
    """An index with a wrong place or length."""
    place, length = draw.choice([OFFSET_HALF, COLUMN_HALF])
    chunks = chosen_chunks(footer, draw, has_page_index)
    how = draw.choice(["beyond", "negative", "short", "none", "data"])
    for _, chunk, _ in chunks:
        if how == "beyond":
            chunk[place] = f.i64(get(chunk, place, 0) + 10**6)
        elif how == "negative":
            chunk[place] = f.i64(-8)
        elif how == "data":
            chunk[place] = f.i64(4)
        else:
            chunk[length] = f.i32(0 if how == "none" else max(get(chunk, length, 0) - 3, 0))
    return bool(chunks)


@mutation(weight=3)
def pages_missing_from_index(footer: Footer, draw: random.Random, _rows: pa.Table) -> bool:
    """The index has fewer pages than the chunk, or its halves have different numbers of pages."""
    halves = draw.choice([("offset",), ("column",), ("offset", "column")])
    at, done = draw.choice([0, -1]), False
    for _, chunk, _ in chosen_chunks(footer, draw, has_page_index):
        offsets, pages = page_index(footer, chunk)
        if len(get(offsets, PAGE_LOCATIONS)[1]) < 2:
            continue
        if "offset" in halves:
            del get(offsets, PAGE_LOCATIONS)[1][at]
        if "column" in halves:
            for field in (NULL_PAGES, PAGE_MINS, PAGE_MAXES, PAGE_NULL_COUNTS):
                if field in pages:
                    del get(pages, field)[1][at]
        put_index(footer, chunk, offsets, pages)
        done = True
    return done


@mutation(weight=3)
def page_index_changed(footer: Footer, draw: random.Random, _rows: pa.Table) -> bool:
    """An index without counts of nulls, without an order of pages, or with NaN bounds."""
    how, done = draw.choice(["no null counts", "no order", "not a number", "places"]), False
    footer.has_gaps = True
    for _, chunk, leaf in chosen_chunks(footer, draw, has_page_index):
        offsets, pages = page_index(footer, chunk)
        if how == "no null counts":
            pages.pop(PAGE_NULL_COUNTS, None)
        elif how == "no order":
            pages[BOUNDARY_ORDER] = f.i32(0)
        elif how == "places":
            for page in get(offsets, PAGE_LOCATIONS)[1]:
                page[1] = f.i64(get(page, 1) + draw.choice([0, 1 << 30]))
        elif leaf.physical() in (f.FLOAT, f.DOUBLE):
            set_nan_bounds(pages, leaf, draw.choice([(PAGE_MINS,), (PAGE_MAXES,), (PAGE_MINS, PAGE_MAXES)]))
        else:
            continue
        put_index(footer, chunk, offsets, pages)
        done = True
    return done


def page_index(footer: Footer, chunk: f.Struct) -> tuple[f.Struct, f.Struct]:
    """Returns the places of a chunk's pages, and their statistics."""
    offsets, pages = (read_struct(bytes(footer.body), get(chunk, of))[0] for of in (f.OFFSET_INDEX, f.COLUMN_INDEX))
    return offsets, pages


def set_nan_bounds(pages: f.Struct, leaf: f.Leaf, fields: tuple[int, ...]) -> None:
    nan = b"\x00\x00\xc0\x7f" if leaf.physical() == f.FLOAT else b"\x00\x00\x00\x00\x00\x00\xf8\x7f"
    empty = get(pages, NULL_PAGES)[1]
    for field in fields:
        pages[field] = (LIST, (f.BINARY, [b"" if none else nan for none in empty]))
    pages[BOUNDARY_ORDER] = f.i32(0)


@mutation(weight=1)
def bloom_filter_elsewhere(footer: Footer, draw: random.Random, _rows: pa.Table) -> bool:
    """A bloom filter that is missing."""
    chunks = chosen_chunks(footer, draw)
    for _, chunk, _ in chunks:
        f.metadata(chunk)[f.BLOOM_OFFSET] = f.i64(draw.choice([10**7, 4, -1]))
        f.metadata(chunk).pop(f.BLOOM_LENGTH, None)
    return bool(chunks)


@mutation()
def short_chunks(footer: Footer, draw: random.Random, _rows: pa.Table) -> bool:
    """Sizes without the header of the dictionary, as parquet-mr before 1.2.9 wrote them. Readers allow 100 more bytes.

    It wrote nothing between column chunks, and no page indexes.
    """
    if footer.keeps_writer:
        return False
    starts, ends = {len(footer.body)}, set()
    for _, chunk, _ in footer.chunks():
        if has_page_index(chunk):
            return False
        fields = f.metadata(chunk)
        start = get(fields, f.DICTIONARY_PAGE, get(fields, f.DATA_PAGE))
        starts.add(start)
        ends.add(start + get(fields, f.COMPRESSED))
    if not ends <= starts:
        return False
    chunks = chosen_chunks(footer, draw, lambda chunk, leaf: f.DICTIONARY_PAGE in f.metadata(chunk))
    for _, chunk, _ in chunks:
        fields = f.metadata(chunk)
        start = get(fields, f.DICTIONARY_PAGE)
        header = read_struct(bytes(footer.body), start)[1] - start
        fields[f.COMPRESSED] = (I64, get(fields, f.COMPRESSED) - header)
    footer.set_created_by(draw.choice([b"parquet-mr version 1.2.8", b"parquet-mr", b"parquet-mr version 1.2.5 (build x)"]))
    footer.keeps_writer = True
    return bool(chunks)


def has_page_index(chunk, _leaf=None) -> bool:
    return f.OFFSET_INDEX in chunk and f.COLUMN_INDEX in chunk


def put_index(footer: Footer, chunk: f.Struct, offsets: f.Struct, pages: f.Struct) -> None:
    for data, (place, length) in ((written_struct(offsets), OFFSET_HALF), (written_struct(pages), COLUMN_HALF)):
        chunk[place] = f.i64(footer.append(data))
        chunk[length] = f.i32(len(data))
