"""Fixed files: each is made here, with a statement and its right answer.

They have shapes that tables of `tables.py` lack: columns of one name, no columns, thousands of columns or row groups,
digits beyond a type, output as JSON.
"""

from __future__ import annotations

import json
import math
import resource
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from ..compare import Row, difference, in_total_order, without_order
from . import footer as f
from .footer import Footer
from .mutated_layout import PAGE_MAXES, PAGE_MINS, page_index, put_index, set_nan_bounds
from .mutated_statistics import drop_bounds
from .program import MODES, Program, Refused

MODES_OF_FIXED = ["default", "cooperative", "pushdown", "points", "one partition"]
#: Limit of the time for all of six thousand columns, relative to one of them. Normal is three times; it is twelve times
#: if names are built for each comparison of two columns.
TIMES_FOR_ALL = 8


@dataclass(frozen=True)
class Fixed:
    """A file, or a folder of files. With `may_refuse`, an error that contains this text is right, too."""

    name: str
    make: Callable[[Path], None]
    statement: str
    right: list[Row]
    may_refuse: str | None = None
    runs: int = 1


def two_of_a_name(folder: Path) -> None:
    pq.write_table(
        pa.Table.from_arrays([pa.array([1, 2]), pa.array([10, 20]), pa.array([100, 200])], ["id", "v", "v"]),
        folder / "0.parquet",
    )


def no_columns(folder: Path) -> None:
    pq.write_table(pa.table({"a": [1, 2, 3]}), folder / "0.parquet")
    footer = Footer(folder / "0.parquet")
    del footer.schema()[1:]
    footer.schema()[0][f.CHILDREN] = f.i32(0)
    for group in footer.groups():
        group[f.COLUMNS] = f.structs([])
    footer.fields.pop(f.COLUMN_ORDERS, None)
    footer.fields.pop(f.KEY_VALUES, None)
    footer.save()


def many_row_groups(folder: Path) -> None:
    """Writes one row group that is listed 33,000 times in the footer, and another one at the end."""
    with pq.ParquetWriter(folder / "0.parquet", pa.schema([("a", pa.int64())]), compression="none") as writer:
        writer.write_table(pa.table({"a": [1]}))
        writer.write_table(pa.table({"a": [7]}))
    footer = Footer(folder / "0.parquet")
    first, last = footer.groups()
    last.pop(f.ORDINAL, None)
    first.pop(f.ORDINAL, None)
    footer.groups()[:] = [first] * 33_000 + [last]
    footer.fields[f.NUM_ROWS] = f.i64(33_001)
    footer.save()


def digits_beyond_type(folder: Path) -> None:
    values = pa.array([Decimal("123456789.01"), Decimal("1.50")], pa.decimal128(18, 2))
    pq.write_table(pa.table({"d": values}), folder / "0.parquet", store_schema=False)
    footer = Footer(folder / "0.parquet")
    element = footer.schema()[1]
    element[f.PRECISION] = f.i32(5)
    element.pop(f.LOGICAL, None)
    for _, chunk, _ in footer.chunks():
        f.metadata(chunk).pop(f.STATISTICS, None)
    footer.save()


def column_that_files_lack(folder: Path) -> None:
    pq.write_table(pa.table({"z": [1] * 50}), folder / "f0.parquet")
    pq.write_table(pa.table({"k": list(range(100, 5000)), "z": [1] * 4900}), folder / "f1.parquet")
    pq.write_table(pa.table({"z": [1] * 50}), folder / "f2.parquet")
    pq.write_table(pa.table({"k": list(range(7, 100)), "z": [1] * 93}), folder / "f3.parquet")


def write_sorted(folder: Path, groups: list[list], type: pa.DataType) -> None:
    """Writes row groups that are declared to be sorted, with nulls at their ends."""
    with pq.ParquetWriter(folder / "0.parquet", pa.schema([("a", type)]), sorting_columns=[pq.SortingColumn(0)]) as writer:
        for values in groups:
            writer.write_table(pa.table({"a": pa.array(values, type)}))


def nulls_between_sorted_groups(folder: Path) -> None:
    write_sorted(folder, [[1, 2, None], [3, 4]], pa.int64())


def nan_as_the_least_value(folder: Path) -> None:
    write_sorted(folder, [[math.nan, 1.0, 2.0, 3.0]], pa.float64())


def groups_sorted_by_themselves(folder: Path) -> None:
    write_sorted(folder, [[1, 5, 9], [2, 3, 4], [0, 6, 7]], pa.int64())


def only_the_first_group_sorted(folder: Path) -> None:
    write_sorted(folder, [[1, 2], [4, 3]], pa.int64())
    footer = Footer(folder / "0.parquet")
    footer.groups()[1].pop(f.SORTING)
    footer.save()


def nan_in_pages(folder: Path) -> None:
    values = [1.0, math.nan, 2.0, 3.0]
    options = {"write_page_index": True, "write_batch_size": 2, "data_page_size": 1, "use_dictionary": False}
    pq.write_table(pa.table({"a": values}), folder / "0.parquet", **options)


def nan_bounds_of_pages(folder: Path) -> None:
    nan_in_pages(folder)
    footer = Footer(folder / "0.parquet")
    for _, chunk, leaf in footer.chunks():
        offsets, pages = page_index(footer, chunk)
        set_nan_bounds(pages, leaf, (PAGE_MINS, PAGE_MAXES))
        put_index(footer, chunk, offsets, pages)
    footer.save()


def no_dictionary_at_zero(folder: Path) -> None:
    pq.write_table(pa.table({"a": [1, 2]}), folder / "0.parquet", use_dictionary=False)
    footer = Footer(folder / "0.parquet")
    for _, chunk, _ in footer.chunks():
        f.metadata(chunk)[f.DICTIONARY_PAGE] = f.i64(0)
    footer.save()


def a_group_without_bounds(folder: Path) -> None:
    """The first row group has the least value and no bounds, as pyarrow writes them for texts of several KB."""
    with pq.ParquetWriter(folder / "0.parquet", pa.schema([("a", pa.string())])) as writer:
        writer.write_table(pa.table({"a": ["b", "c"]}))
        writer.write_table(pa.table({"a": ["m", "n"]}))
    footer = Footer(folder / "0.parquet")
    group, chunk, _ = next(iter(footer.chunks()))
    assert group == 0
    drop_bounds(f.statistics(chunk))
    footer.save()


def truncated_bounds(folder: Path) -> None:
    """Bounds that say that they are no values."""
    pq.write_table(pa.table({"a": ["abcdef", "xyzzy"]}), folder / "0.parquet")
    footer = Footer(folder / "0.parquet")
    for _, chunk, _ in footer.chunks():
        fields = f.statistics(chunk)
        drop_bounds(fields)
        fields[f.MIN], fields[f.MAX] = f.binary(b"ab"), f.binary(b"xz")
        fields[f.MIN_EXACT] = fields[f.MAX_EXACT] = (1, False)
    footer.save()


def unsigned_beside_signed(folder: Path) -> None:
    pq.write_table(pa.table({"a": pa.array([-1], pa.int32())}), folder / "0.parquet")
    pq.write_table(pa.table({"a": pa.array([4294967295], pa.uint32())}), folder / "1.parquet")


def a_required_column_that_a_file_lacks(folder: Path) -> None:
    required = pa.schema([pa.field("a", pa.int64(), nullable=False), pa.field("b", pa.int64())])
    pq.write_table(pa.table({"a": [1], "b": [1]}, schema=required), folder / "0.parquet")
    pq.write_table(pa.table({"b": [2]}), folder / "1.parquet")


def sorted_files_with_nulls(folder: Path) -> None:
    for at, values in enumerate(([1, 2, None], [3, 4])):
        table = pa.table({"a": pa.array(values, pa.int64())})
        pq.write_table(table, folder / f"{at}.parquet", sorting_columns=[pq.SortingColumn(0)])


FIXED = [
    Fixed("two columns of one name", two_of_a_name, "SELECT * FROM t", [(1, 10, 100), (2, 20, 200)], may_refuse="v"),
    Fixed("no columns", no_columns, "SELECT count(*) FROM t", [(3,)]),
    Fixed("many row groups", many_row_groups, "SELECT count(*), min(a), max(a), sum(a) FROM t", [(33_001, 1, 7, 33_007)]),
    Fixed(
        "digits beyond a type",
        digits_beyond_type,
        "SELECT d FROM t",
        [(Decimal("123456789.01"),), (Decimal("1.5"),)],
        may_refuse="d",
    ),
    Fixed("a column that files lack", column_that_files_lack, "SELECT min(k), max(k) FROM t", [(7, 4999)], runs=5),
    Fixed("a column that files lack", column_that_files_lack, "SELECT min(k), max(k) FROM t WHERE z = 1", [(7, 4999)], runs=5),
    Fixed("nulls between sorted groups", nulls_between_sorted_groups, "SELECT a FROM t ORDER BY a", [(1,), (2,), (3,), (4,), (None,)]),
    Fixed("NaN as the least value", nan_as_the_least_value, "SELECT a FROM t ORDER BY a", [(1.0,), (2.0,), (3.0,), (("NaN",),)]),
    Fixed("only the first group sorted", only_the_first_group_sorted, "SELECT a FROM t ORDER BY a", [(1,), (2,), (3,), (4,)]),
    Fixed("NaN in pages", nan_in_pages, "SELECT count(*) FROM t WHERE a > 2.5", [(2,)]),
    Fixed("NaN bounds of pages", nan_bounds_of_pages, "SELECT count(*) FROM t WHERE a < 2.5", [(2,)]),
    Fixed("no dictionary at zero", no_dictionary_at_zero, "SELECT a FROM t", [(1,), (2,)]),
    Fixed("a group without bounds", a_group_without_bounds, "SELECT min(a), max(a) FROM t", [("b", "n")]),
    Fixed("truncated bounds", truncated_bounds, "SELECT min(a), max(a) FROM t", [("abcdef", "xyzzy")]),
    Fixed("unsigned beside signed", unsigned_beside_signed, "SELECT a FROM t", [(-1,), (4294967295,)]),
    Fixed("a required column that a file lacks", a_required_column_that_a_file_lacks, "SELECT b FROM t WHERE a IS NULL", [(2,)]),
    Fixed("sorted files with nulls", sorted_files_with_nulls, "SELECT a FROM t ORDER BY a", [(1,), (2,), (3,), (4,), (None,)]),
    Fixed("groups sorted by themselves", groups_sorted_by_themselves, "SELECT a FROM t ORDER BY a LIMIT 2", [(0,), (1,)]),
]


def check(program: Program, folder: Path) -> list[str]:
    """Returns the failures as text."""
    shutil.rmtree(folder, ignore_errors=True)
    found = [words for at, fixed in enumerate(FIXED) for words in wrong(fixed, program, folder / str(at))]
    return found + wrong_json(program, folder / "json") + slow_columns(program, folder / "columns")


def wrong(fixed: Fixed, program: Program, folder: Path) -> list[str]:
    folder.mkdir(parents=True)
    fixed.make(folder)
    found = []
    for mode in MODES_OF_FIXED:
        for _ in range(fixed.runs):
            given = program.ask({"t": folder}, MODES[mode], [fixed.statement])[0]
            if isinstance(given, Refused):
                words = None if fixed.may_refuse and fixed.may_refuse in str(given) else str(given)
            else:
                right = in_total_order(fixed.right) if "ORDER BY" in fixed.statement else without_order(fixed.right)
                found_other = difference(right, given)
                words = str(found_other).replace("DuckDB", "right") if found_other else None
            if words:
                found.append(f"{fixed.name}, mode {mode}: {fixed.statement} over {folder}\n  {words}")
                break
    return found


def wrong_json(program: Program, folder: Path) -> list[str]:
    """Checks that map entries without a value are kept, and that keys need not be texts."""
    folder.mkdir(parents=True)
    by_text = pa.array([[("a", 1), ("b", None)]], pa.map_(pa.string(), pa.int64()))
    by_number = pa.array([[(1, "x"), (2, None)]], pa.map_(pa.int64(), pa.string()))
    pq.write_table(pa.table({"m": by_text, "n": by_number}), folder / "0.parquet")
    found = []
    for column, entries in (("m", {"a": 1, "b": None}), ("n", {"1": "x", "2": None})):
        command = [program.path, "sql", "-t", f"t={folder}", "--format", "ndjson", "-c", f"SELECT {column} FROM t"]
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
        given = json.loads(ended.stdout)[column] if ended.stdout.strip() else ended.stderr
        if given != entries:
            found.append(f"maps as JSON: SELECT {column} over {folder}\n  right: {entries}\n  coscan: {given}")
    return found


def slow_columns(program: Program, folder: Path) -> list[str]:
    """Checks that `SELECT *` takes little longer than one column, for any number of columns. The time is processor time."""
    folder.mkdir(parents=True)
    place = folder / "0.parquet"
    pq.write_table(pa.table({f"c{at}": [1] for at in range(6000)}), place)
    seconds = []
    for statement in ("SELECT c1 FROM t", "SELECT * FROM t"):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        _, error = program.call({"t": place}, [], [statement])
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        if error:
            return [f"6000 columns: {error}"]
        seconds.append(after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime)
    if seconds[1] > TIMES_FOR_ALL * seconds[0]:
        return [f"one and all of 6000 columns of {place}\n  {seconds[0]:.2f} and {seconds[1]:.2f} s"]
    return []
