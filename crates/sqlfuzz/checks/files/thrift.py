"""Thrift's compact protocol without a schema. Structures that are read are written again byte for byte.

A struct is a dictionary from field to (type, value), a list is (type of its elements, values). Only the features that
Parquet's metadata use are supported: no maps.
"""

from __future__ import annotations

import struct

TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, STRUCT = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12

Struct = dict[int, tuple[int, object]]


class Reader:
    """Reads values one after another from bytes."""

    def __init__(self, data: bytes, at: int = 0):
        self.data, self.at = data, at

    def byte(self) -> int:
        self.at += 1
        return self.data[self.at - 1]

    def varint(self) -> int:
        number = shift = 0
        while True:
            byte = self.byte()
            number |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return number

    def integer(self) -> int:
        number = self.varint()
        return (number >> 1) ^ -(number & 1)

    def bytes(self, length: int) -> bytes:
        self.at += length
        return bytes(self.data[self.at - length : self.at])

    def value(self, kind: int) -> object:
        match kind:
            case 1 | 2:
                return kind == TRUE
            case 3:
                return self.byte()
            case 4 | 5 | 6:
                return self.integer()
            case 7:
                return struct.unpack("<d", self.bytes(8))[0]
            case 8:
                return self.bytes(self.varint())
            case 9 | 10:
                return self.list()
            case 12:
                return self.struct()
        raise ValueError(f"type {kind} is not in Parquet's metadata")

    def list(self) -> tuple[int, list[object]]:
        head = self.byte()
        kind, length = head & 15, head >> 4
        if length == 15:
            length = self.varint()
        if kind in (TRUE, FALSE):
            return kind, [self.byte() == TRUE for _ in range(length)]
        return kind, [self.value(kind) for _ in range(length)]

    def struct(self) -> Struct:
        fields: Struct = {}
        last = 0
        while head := self.byte():
            kind, delta = head & 15, head >> 4
            last = last + delta if delta else self.integer()
            fields[last] = (TRUE if kind == FALSE else kind, self.value(kind))
        return fields


def varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def integer(number: int) -> bytes:
    return varint(number << 1 if number >= 0 else ((-number) << 1) - 1)


def written(kind: int, value) -> bytes:
    """Returns the value as bytes."""
    match kind:
        case 3:
            return bytes([value])
        case 4 | 5 | 6:
            return integer(value)
        case 7:
            return struct.pack("<d", value)
        case 8:
            return varint(len(value)) + value
        case 9 | 10:
            return written_list(*value)
        case 12:
            return written_struct(value)
    raise ValueError(f"type {kind} is not in Parquet's metadata")


def written_list(kind: int, values: list) -> bytes:
    head = bytes([len(values) << 4 | kind]) if len(values) < 15 else bytes([0xF0 | kind]) + varint(len(values))
    if kind in (TRUE, FALSE):
        return head + bytes(TRUE if value else FALSE for value in values)
    return head + b"".join(written(kind, value) for value in values)


def written_struct(fields: Struct) -> bytes:
    out, last = bytearray(), 0
    for field in sorted(fields):
        kind, value = fields[field]
        if kind in (TRUE, FALSE):
            kind = TRUE if value else FALSE
        delta = field - last
        out += bytes([delta << 4 | kind]) if 0 < delta < 16 else bytes([kind]) + integer(field)
        last = field
        if kind not in (TRUE, FALSE):
            out += written(kind, value)
    out.append(0)
    return bytes(out)


def read_struct(data: bytes, at: int = 0) -> tuple[Struct, int]:
    """Returns a struct, and the place of its end."""
    reader = Reader(data, at)
    return reader.struct(), reader.at
