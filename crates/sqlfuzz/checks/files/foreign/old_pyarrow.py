"""Writes Parquet files with the pyarrow of the environment that runs it. Each line of the input is a job: see
`writers_apart.py`.

It uses only features of pyarrow 0.9 and Python 3.6.
"""

import binascii
import datetime
import decimal
import json
import sys

import pyarrow as pa
import pyarrow.parquet as pq


def types(name):
    """Returns the type of a column by its name."""
    if name.startswith("decimal"):
        _, precision, scale = name.split(" ")
        return pa.decimal128(int(precision), int(scale))
    return {
        "int8": pa.int8(), "int16": pa.int16(), "int32": pa.int32(), "int64": pa.int64(), "uint8": pa.uint8(), "uint16": pa.uint16(),
        "uint32": pa.uint32(), "uint64": pa.uint64(), "float": pa.float32(), "double": pa.float64(), "bool": pa.bool_(),
        "text": pa.string(), "bytes": pa.binary(), "fixed": pa.binary(4), "date": pa.date32(), "ms": pa.timestamp("ms"),
        "us": pa.timestamp("us"), "list": pa.list_(pa.int32()), "dictionary": pa.string(),
    }[name]


EPOCH = datetime.datetime(1970, 1, 1)


def value(name, text):
    if text == "-":
        return None
    text = text[1:]
    if name in ("text", "dictionary"):
        return binascii.unhexlify(text).decode("utf-8")
    if name in ("bytes", "fixed"):
        return binascii.unhexlify(text)
    if name in ("float", "double"):
        return float(text)
    if name == "bool":
        return text == "1"
    if name.startswith("decimal"):
        return decimal.Decimal(text)
    if name == "date":
        return (EPOCH + datetime.timedelta(int(text))).date()
    if name in ("ms", "us"):
        return EPOCH + datetime.timedelta(microseconds=int(text) * (1000 if name == "ms" else 1))
    if name == "list":
        return [int(each) for each in text.split(",")] if text else []
    return int(text)


def write(job):
    place, rows, options = job.split("\t")
    with open(rows) as lines:
        names = lines.readline().rstrip("\n").split("\t")
        kinds = lines.readline().rstrip("\n").split("\t")
        values = [line.rstrip("\n").split("\t") for line in lines]
    arrays = []
    for at, kind in enumerate(kinds):
        array = pa.array([value(kind, row[at]) for row in values], types(kind))
        arrays.append(array.dictionary_encode() if kind == "dictionary" else array)
    pq.write_table(pa.Table.from_arrays(arrays, names=names), place, **json.loads(options))


for line in sys.stdin:
    try:
        write(line.rstrip("\n"))
        print("written", flush=True)
    except Exception as error:
        print("refused: " + str(error).replace("\n", " "), flush=True)
