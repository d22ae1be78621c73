"""Changes of schemas, writer names and key-value metadata to those of other writers. The rows stay the same."""

from __future__ import annotations

import base64
import random

import pyarrow as pa

from . import footer as f
from .footer import Footer, get
from .legacy_types import INTERVAL
from .mutations import mutation
from .thrift import I16, I64, Struct

#: Converted types.
UTF8, MAP, MAP_KEY_VALUE, LIST, DECIMAL, NOTHING = 0, 1, 2, 3, 5, 24
#: Fields of KeyValue.
KV_KEY, KV_VALUE = 1, 2

WRITERS = [
    None,
    b"",
    b"\xff\xfe",
    b"parquet-rs version 0.3.0",
    b"impala version 3.0.0-RELEASE (build x)",
    b"parquet-mr version 1.12.3 (build x)",
    b"fastparquet-python version 0.8.2 (build 0)",
    b"Polars",
    b"DuckDB",
    b"parquet-cpp version 1.0.0",
    b"parquet-mr version 1.10.0",
    b"x" * 100_000,
]


@mutation()
def created_by(footer: Footer, draw: random.Random, _rows: pa.Table) -> None:
    footer.set_created_by(draw.choice(WRITERS))


@mutation(weight=3)
def key_values(footer: Footer, draw: random.Random, rows: pa.Table) -> None:
    """The user's metadata: not UTF-8, without values, empty, huge, duplicated."""
    entries = {
        "bytes": {KV_KEY: f.binary(b"k"), KV_VALUE: f.binary(b"\xff\xfe\x00")},
        "bytes as key": {KV_KEY: f.binary(b"\xff"), KV_VALUE: f.binary(b"v")},
        "no value": {KV_KEY: f.binary(b"k")},
        "empty": {KV_KEY: f.binary(b""), KV_VALUE: f.binary(b"")},
        "huge": {KV_KEY: f.binary(b"k"), KV_VALUE: f.binary(b"v" * 1_000_000)},
    }
    chosen = draw.sample(list(entries.values()), draw.choice([0, 1, 2])) * draw.choice([1, 2])
    # Parquet itself has no durations: without Arrow's schema they are whole numbers.
    needed = any("duration" in str(type) for type in rows.schema.types)
    kept = get(footer.fields, f.KEY_VALUES, (12, []))[1] if draw.random() < 0.7 or needed else []
    footer.fields[f.KEY_VALUES] = f.structs(chosen + kept)


@mutation(may_refuse=True, weight=1)
def arrow_schema_broken(footer: Footer, draw: random.Random, _rows: pa.Table) -> None:
    """The Arrow schema is unreadable or meaningless: pyarrow and polars refuse it, DuckDB reads the rows."""
    value = draw.choice([b"", b"!", base64.b64encode(b"\x00" * 40), base64.b64encode(b"\xff\xff\xff\xff\x10\x00\x00\x00abc")])
    footer.fields[f.KEY_VALUES] = f.structs([{KV_KEY: f.binary(b"ARROW:schema"), KV_VALUE: f.binary(value)}])


@mutation()
def no_logical_types(footer: Footer, draw: random.Random, _rows: pa.Table) -> bool:
    """Converted types alone, as before version 2.4 of the format."""
    elements = [element for element in footer.schema() if f.CONVERTED in element and f.LOGICAL in element]
    for element in elements:
        element.pop(f.LOGICAL)
    return bool(elements)


@mutation()
def no_converted_types(footer: Footer, draw: random.Random, _rows: pa.Table) -> bool:
    """Logical types alone. There is none for intervals."""
    with_both = [element for element in footer.schema() if f.CONVERTED in element and f.LOGICAL in element]
    elements = [element for element in with_both if get(element, f.CONVERTED) != INTERVAL]
    for element in elements:
        element.pop(f.CONVERTED)
        if DECIMAL_FIELD not in get(element, f.LOGICAL):
            element.pop(f.SCALE, None)
            element.pop(f.PRECISION, None)
    return bool(elements)


#: The field of LogicalType.
DECIMAL_FIELD = 5


@mutation()
def no_scale(footer: Footer, draw: random.Random, _rows: pa.Table) -> bool:
    """Decimals of scale 0 without the field."""
    elements = [e for e in footer.schema() if get(e, f.CONVERTED) == DECIMAL and get(e, f.SCALE, 0) == 0]
    for element in elements:
        element.pop(f.SCALE, None)
        element.pop(f.LOGICAL, None)
    return bool(elements)


@mutation()
def nothing_by_converted_type(footer: Footer, draw: random.Random, rows: pa.Table) -> bool:
    """A column of nulls with fastparquet's mark: a converted type that was withdrawn."""
    leaves = [leaf for leaf in footer.leaves() if leaf.is_flat() and leaf.path[0] in rows.schema.names]
    leaves = [leaf for leaf in leaves if pa.types.is_null(rows.schema.field(leaf.path[0]).type)]
    for leaf in leaves:
        leaf.element.pop(f.LOGICAL, None)
        leaf.element[f.CONVERTED] = f.i32(NOTHING)
    return bool(leaves)


@mutation()
def unknown_logical_type(footer: Footer, draw: random.Random, _rows: pa.Table) -> bool:
    """A logical type that readers do not know yet. The column has its stored type."""
    leaves = [leaf for leaf in footer.leaves() if f.LOGICAL not in leaf.element and f.CONVERTED not in leaf.element]
    for leaf in draw.sample(leaves, min(1, len(leaves))):
        leaf.element[f.LOGICAL] = (f.STRUCT, {draw.choice([40, 99]): (f.STRUCT, {1: f.i32(5)})})
    return bool(leaves)


@mutation(weight=3)
def legacy_names(footer: Footer, draw: random.Random, _rows: pa.Table) -> bool:
    """Lists and maps with the names and marks of Hive, Impala and old parquet-mr."""
    lists, entries = (
        draw.choice([("bag", "array_element"), ("bag", "array"), ("list", "item")]),
        draw.choice(["map", "entries"]),
    )
    marks_entries, marks_maps = draw.random() < 0.5, draw.random() < 0.3
    renamed: dict[tuple[int, ...], bytes] = {}

    def change(element: Struct, children: list[tuple[int, Struct]]) -> None:
        converted = get(element, f.CONVERTED)
        if converted == LIST and len(children) == 1:
            renamed[children[0][0]] = lists[0].encode()
            for at, _ in children_of(footer, children[0][0]):
                renamed[at] = lists[1].encode()
        elif converted == MAP and len(children) == 1:
            renamed[children[0][0]] = entries.encode()
            if marks_entries:
                children[0][1][f.CONVERTED] = f.i32(MAP_KEY_VALUE)
                children[0][1].pop(f.LOGICAL, None)
            if marks_maps:
                element[f.CONVERTED] = f.i32(MAP_KEY_VALUE)
                element.pop(f.LOGICAL, None)

    for at, element in enumerate(footer.schema()):
        if at and get(element, f.CHILDREN, 0):
            change(element, children_of(footer, at))
    for at, name in renamed.items():
        footer.schema()[at][f.NAME] = f.binary(name)
    put_paths(footer)
    return bool(renamed)


@mutation(weight=1)
def odd_elements(footer: Footer, draw: random.Random, _rows: pa.Table) -> None:
    """Field numbers, a name and a repetition of the root, which no reader needs."""
    root, *others = footer.schema()
    root[f.NAME] = f.binary(draw.choice([b"", b"hive_schema", b"m", "\u00e9".encode()]))
    root[f.REPETITION] = f.i32(draw.choice([f.REQUIRED, f.REPEATED]))
    for element in others:
        element[f.FIELD_ID] = f.i32(draw.choice([-1, 0, 7]))


@mutation(weight=1)
def narrow_lists(footer: Footer, draw: random.Random, _rows: pa.Table) -> bool:
    """Lists of counts whose elements are declared as 16-bit integers; the bytes are the same."""
    done = False
    for _, chunk, _ in footer.chunks():
        sizes = get(f.metadata(chunk), SIZE_STATISTICS, {})
        for field in (2, 3):
            if get(sizes, field, (None, []))[0] == I64:
                sizes[field] = (sizes[field][0], (I16, get(sizes, field)[1]))
                done = True
    return done


SIZE_STATISTICS = 16


def children_of(footer: Footer, at: int) -> list[tuple[int, Struct]]:
    """Returns the children of an element, with their places."""
    schema, found, place = footer.schema(), [], at + 1
    for _ in range(get(schema[at], f.CHILDREN, 0)):
        found.append((place, schema[place]))
        place = end_of(schema, place)
    return found


def end_of(schema: list[Struct], at: int) -> int:
    end = at + 1
    for _ in range(get(schema[at], f.CHILDREN, 0)):
        end = end_of(schema, end)
    return end


def put_paths(footer: Footer) -> None:
    """Gives chunks the paths of the schema."""
    for _, chunk, leaf in footer.chunks():
        f.metadata(chunk)[f.CHUNK_PATH] = (9, (f.BINARY, [name.encode() for name in leaf.path]))
