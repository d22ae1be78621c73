"""Reads and changes the footer of a Parquet file by the names of the format's fields.

It knows the places of fields, and not their meaning.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from .thrift import BINARY, I32, I64, LIST, STRUCT, Struct, read_struct, written_struct

MAGIC = b"PAR1"

#: Fields of FileMetaData.
SCHEMA, NUM_ROWS, ROW_GROUPS, KEY_VALUES, CREATED_BY, COLUMN_ORDERS = 2, 3, 4, 5, 6, 7
#: Fields of RowGroup.
COLUMNS, TOTAL_BYTE_SIZE, GROUP_ROWS, SORTING, GROUP_OFFSET, GROUP_COMPRESSED, ORDINAL = 1, 2, 3, 4, 5, 6, 7
#: Fields of ColumnChunk.
CHUNK_OFFSET, META, OFFSET_INDEX, OFFSET_INDEX_LENGTH, COLUMN_INDEX, COLUMN_INDEX_LENGTH = 2, 3, 4, 5, 6, 7
#: Fields of ColumnMetaData.
PHYSICAL, ENCODINGS, CHUNK_PATH, NUM_VALUES, COMPRESSED, DATA_PAGE, DICTIONARY_PAGE = 1, 2, 3, 5, 7, 9, 11
STATISTICS, ENCODING_STATS, BLOOM_OFFSET, BLOOM_LENGTH = 12, 13, 14, 15
#: Fields of Statistics.
OLD_MAX, OLD_MIN, NULL_COUNT, DISTINCT_COUNT, MAX, MIN, MAX_EXACT, MIN_EXACT = 1, 2, 3, 4, 5, 6, 7, 8
#: Fields of SchemaElement.
TYPE, TYPE_LENGTH, REPETITION, NAME, CHILDREN, CONVERTED, SCALE, PRECISION, FIELD_ID, LOGICAL = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10
#: Physical types.
BOOLEAN, INT32, INT64, INT96, FLOAT, DOUBLE, BYTE_ARRAY, FIXED = 0, 1, 2, 3, 4, 5, 6, 7
#: Repetitions.
REQUIRED, OPTIONAL, REPEATED = 0, 1, 2


@dataclass(frozen=True)
class Leaf:
    """A column of values: its position, its path, and its element of the schema."""

    at: int
    path: tuple[str, ...]
    element: Struct

    def physical(self) -> int:
        return get(self.element, TYPE)

    def is_flat(self) -> bool:
        return len(self.path) == 1 and get(self.element, REPETITION) != REPEATED


def get(fields: Struct, field: int, default=None):
    return fields[field][1] if field in fields else default


class Footer:
    """The metadata of a file, with the bytes before them."""

    def __init__(self, path: Path):
        data = path.read_bytes()
        length = int.from_bytes(data[-8:-4], "little")
        self.path, self.body = path, bytearray(data[: -8 - length])
        # Readers find some faults by the writer's name, so later changes must not set another one.
        self.keeps_writer = False
        # Whether something lies between column chunks or behind them that the footer does not state.
        self.has_gaps = False
        self.fields, _ = read_struct(data, len(data) - 8 - length)

    def save(self) -> None:
        metadata = written_struct(self.fields)
        self.path.write_bytes(bytes(self.body) + metadata + len(metadata).to_bytes(4, "little") + MAGIC)

    def append(self, data: bytes) -> int:
        """Appends bytes, and returns their place."""
        self.body += data
        return len(self.body) - len(data)

    def schema(self) -> list[Struct]:
        return get(self.fields, SCHEMA)[1]

    def groups(self) -> list[Struct]:
        return get(self.fields, ROW_GROUPS)[1]

    def chunks(self) -> Iterator[tuple[int, Struct, Leaf]]:
        """Yields each column chunk with its row group's number and its leaf."""
        leaves = self.leaves()
        for number, group in enumerate(self.groups()):
            for chunk, leaf in zip(get(group, COLUMNS)[1], leaves):
                yield number, chunk, leaf

    def leaves(self) -> list[Leaf]:
        found: list[Leaf] = []
        elements = iter(self.schema())

        def walk(path: tuple[str, ...]) -> None:
            element = next(elements)
            name = get(element, NAME, b"").decode(errors="replace")
            here = (*path, name)
            children = get(element, CHILDREN, 0)
            if not children and TYPE in element:
                found.append(Leaf(len(found), here, element))
            for _ in range(children):
                walk(here)

        root = next(elements)
        for _ in range(get(root, CHILDREN, 0)):
            walk(())
        return found

    def set_created_by(self, name: bytes | None) -> None:
        if self.keeps_writer:
            return
        if name is None:
            self.fields.pop(CREATED_BY, None)
        else:
            self.fields[CREATED_BY] = (BINARY, name)


def metadata(chunk: Struct) -> Struct:
    return get(chunk, META)


def statistics(chunk: Struct) -> Struct:
    """Returns the statistics of a chunk, empty ones if there are none. Changes reach the file only if it has some."""
    return get(metadata(chunk), STATISTICS, {})


def set_statistics(chunk: Struct, fields: Struct) -> None:
    metadata(chunk)[STATISTICS] = (STRUCT, fields)


def i32(value: int) -> tuple[int, int]:
    return I32, value


def i64(value: int) -> tuple[int, int]:
    return I64, value


def binary(value: bytes) -> tuple[int, bytes]:
    return BINARY, value


def structs(values: list[Struct]) -> tuple[int, tuple[int, list[Struct]]]:
    return LIST, (STRUCT, values)
