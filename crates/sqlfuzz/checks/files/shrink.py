"""Shrinks a failure: leaves out tables, files, columns, rows, changes and options while it fails in the same way."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import pyarrow as pa

from .case import Case
from .questions import Question
from .tables import NUMBER, File, Table
from .writers import KEPT, PYARROW

Fails = Callable[[Case], bool]


def shrink(case: Case, question: Question, fails: Fails, seconds: float) -> Case:
    """Returns a smaller case in which the question still fails."""
    end = time.monotonic() + seconds
    candidates = smaller(case, question)
    while time.monotonic() < end and (less := next(candidates, None)):
        try:
            failed = fails(less)
        except (pa.ArrowException, KeyError, IndexError, OSError):
            failed = False
        if failed:
            case, candidates = less, smaller(less, question)
    return case


def smaller(case: Case, question: Question) -> Iterator[Case]:
    text = question.text()
    for at, table in enumerate(case.tables):
        if table.name not in text:
            yield replace(case, tables=case.tables[:at] + case.tables[at + 1 :])
            continue
        for less in smaller_table(table, text):
            yield replace(case, tables=(*case.tables[:at], less, *case.tables[at + 1 :]))


def smaller_table(table: Table, text: str) -> Iterator[Table]:
    for at in range(len(table.files)):
        if len(table.files) > 1 and not (table.location and table.location == table.files[at].path):
            yield replace(table, files=table.files[:at] + table.files[at + 1 :])
    if table.decoys:
        yield replace(table, decoys=())
    for column in table.schema.names:
        if not is_named(column, text) and all(file.writer != KEPT for file in table.files):
            files = tuple(without_column(file, column) for file in table.files)
            yield replace(table, schema=pa.schema([field for field in table.schema if field.name != column]), files=files)
    for at, file in enumerate(table.files):
        for less in smaller_file(file):
            yield replace(table, files=(*table.files[:at], less, *table.files[at + 1 :]))


def is_named(column: str, text: str) -> bool:
    """Returns whether the statement may need the column."""
    words = text.replace('"', " ").replace(",", " ").replace("(", " ").replace(")", " ").replace(".", " ").split()
    return column in words or "*" in words or column == NUMBER and len(words) < 4


def without_column(file: File, column: str) -> File:
    if column not in file.rows.schema.names or len(file.rows.schema.names) == 1:
        return file
    order = file.order if file.order and file.order.column != column else None
    options = dict(file.options)
    if isinstance(options.get("write_statistics"), list):
        options["write_statistics"] = [name for name in options["write_statistics"] if name != column]
    return replace(file, rows=file.rows.drop_columns([column]), order=order, options=options)


def smaller_file(file: File) -> Iterator[File]:
    for at in range(len(file.mutations)):
        yield replace(file, mutations=file.mutations[:at] + file.mutations[at + 1 :])
    if file.writer == KEPT:
        return
    if file.writer != PYARROW:
        yield replace(file, writer=PYARROW, options={})
    for name in file.options:
        yield replace(file, options={key: value for key, value in file.options.items() if key != name})
    if file.order:
        yield replace(file, order=None)
    # Row groups, their halves, and single rows of small ones.
    for at, rows in enumerate(file.groups):
        begin = sum(file.groups[:at])
        yield without_rows(file, at, begin, rows)
    for at, rows in enumerate(file.groups):
        begin = sum(file.groups[:at])
        if rows > 1:
            yield without_rows(file, at, begin, rows // 2)
            yield without_rows(file, at, begin + rows // 2, rows - rows // 2)
        if 2 < rows <= 8:
            for one in range(rows):
                yield without_rows(file, at, begin + one, 1)
    if len(file.groups) > 1 and not file.order:
        yield replace(file, groups=(sum(file.groups),))


def without_rows(file: File, group: int, begin: int, count: int) -> File:
    left = file.groups[group] - count
    groups = (*file.groups[:group], *([left] if left else []), *file.groups[group + 1 :]) or (0,)
    rows = pa.concat_tables([file.rows.slice(0, begin), file.rows.slice(begin + count)])
    return replace(file, rows=rows, groups=groups)
