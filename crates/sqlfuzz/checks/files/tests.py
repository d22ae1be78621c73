"""Tests of the machinery: it writes what it reads, compares answers by value, and finds a planted wrong answer."""

from __future__ import annotations

import random
import stat
import tempfile
import unittest
from collections import Counter
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from . import footer as f
from . import legacy_types
from .answers import rows
from .campaign import worth_showing
from .case import Case, Player, build, draw_case
from .footer import Footer, get
from .kinds import COSCAN, DUCKDB, KINDS, constant
from .mutations import MUTATIONS, mutate
from .oracle import Oracle, read_rows
from .program import Program
from .questions import Question
from .shrink import shrink
from .tables import File, Table
from .thrift import BINARY, BYTE, DOUBLE, I16, I64, LIST, STRUCT, TRUE, read_struct, written_struct


def table_of(values: dict, name: str = "t", **file) -> Table:
    """Returns a table of one file."""
    written = pa.table(values)
    return Table(name, written.schema, (File("0.parquet", written, (written.num_rows,), "pyarrow", **file),), "0.parquet")


class Thrift(unittest.TestCase):
    def test_structs_are_read_as_they_were_written(self):
        fields = {
            1: (TRUE, True),
            2: (TRUE, False),
            3: (BYTE, 7),
            4: (I16, -3),
            5: (I64, -(1 << 62)),
            6: (DOUBLE, 1.5),
            40: (BINARY, b"x"),
            41: (LIST, (I64, list(range(-3, 20)))),
            42: (LIST, (TRUE, [True, False])),
            43: (STRUCT, {900: (BINARY, b"")}),
        }
        data = written_struct(fields)
        self.assertEqual(read_struct(data), (fields, len(data)))

    def test_footers_are_the_same_bytes_again(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "t.parquet"
            written = pa.table({"a": [1, 2, None], "b": [["x"], [], None], "c": [1.5, None, 2.5]})
            pq.write_table(written, path, row_group_size=2, write_page_index=True, sorting_columns=[pq.SortingColumn(0)])
            before = path.read_bytes()
            Footer(path).save()
            self.assertEqual(path.read_bytes(), before)

    def test_chunks_have_their_leaves(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "t.parquet"
            pq.write_table(pa.table({"a": [1], "b": [["x"]], "c": [{"d": 1, "e": {"g": "y"}}]}), path)
            for _, chunk, leaf in Footer(path).chunks():
                self.assertEqual([name.decode() for name in get(f.metadata(chunk), f.CHUNK_PATH)[1]], list(leaf.path))


class Answers(unittest.TestCase):
    def test_values_of_other_types_are_the_same(self):
        first = pa.table(
            {"t": pa.array([1, None], pa.timestamp("s")), "n": [1, 2], "s": pa.array(["a", None]).dictionary_encode()}
        )
        second = pa.table({"t": pa.array([10**9, None], pa.timestamp("ns")), "n": [Decimal(1), Decimal(2)], "s": ["a", None]})
        self.assertEqual(rows(first), rows(second))

    def test_nested_values(self):
        values = pa.table(
            {
                "l": [[1, None], [], None],
                "s": [{"x": 1.5, "y": None}, None, {"x": float("nan"), "y": "b"}],
                "m": pa.array([[("k", None)], [], None], pa.map_(pa.string(), pa.int32())),
            }
        )
        wanted = [((1, None), ("row", 1.5, None), (("k", None),)), ((), None, ()), (None, ("row", ("NaN",), "b"), None)]
        self.assertEqual(rows(values), wanted)
        self.assertEqual(rows(values.slice(1)), wanted[1:])

    def test_dates_are_midnights_and_far_times_are_no_others(self):
        values = pa.table({"d": pa.array([1], pa.date32()), "t": pa.array([253_402_300_799], pa.timestamp("s"))})
        self.assertEqual(rows(values), [(("moment", 86_400 * 10**9), ("moment", 253_402_300_799 * 10**9))])

    def test_constants_of_every_kind_are_values_of_it(self):
        import duckdb

        for kind in KINDS.values():
            if kind.is_ordered:
                for value in kind.pool(random.Random(1))[:5]:
                    duckdb.sql(f"SELECT {constant(value, kind.type, DUCKDB)}").fetch_arrow_table()
                    self.assertTrue(constant(value, kind.type, COSCAN))


class Changes(unittest.TestCase):
    def test_each_changes_something(self):
        """Each is applied to a table of all types and to one of few, in many pages."""
        draw = random.Random(1)
        kinds = {name: kind for name, kind in KINDS.items() if not kind.stored}
        values = {name: (kind.pool(draw) * 60)[:60] for name, kind in kinds.items()}
        values["float64"] = [0.0, None, -0.0] * 20
        large = pa.table({name: pa.array(values[name], kind.type) for name, kind in kinds.items()})
        small = pa.table({"i": list(range(60))})
        with tempfile.TemporaryDirectory() as folder:
            for name in MUTATIONS:
                written = small if name == "many_groups" else large
                path = Path(folder) / f"{name}.parquet"
                indexed = name != "short_chunks"
                pq.write_table(written, path, row_group_size=30, write_batch_size=4, data_page_size=1, write_page_index=indexed)
                self.assertTrue(any(mutate(path, [(name, seed)], written) for seed in range(20)), name)

    def test_signed_bounds_are_what_old_writers_wrote(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "t.parquet"
            values = pa.table({"s": ["a", "é", "z"], "u": pa.array([4294967295, 0, 2147483647], pa.uint32())})
            pq.write_table(values, path)
            footer = Footer(path)
            MUTATIONS["deprecated_bounds"].change(footer, random.Random(3), values)
            found = [
                (get(f.statistics(chunk), f.OLD_MIN), get(f.statistics(chunk), f.OLD_MAX)) for _, chunk, _ in footer.chunks()
            ]
            self.assertIn(found[0], [("é".encode(), b"z"), (b"a", "é".encode())])
            self.assertTrue(found[0] == ("é".encode(), b"z") or found[1] == (b"\xff\xff\xff\xff", b"\xff\xff\xff\x7f"))

    def test_times_of_96_bits_and_intervals(self):
        far = [253_402_300_799_000_000, None, -62_135_596_800_000_000]
        fields = [KINDS["int96"].field("t"), KINDS["interval"].field("v")]
        intervals = [pa.MonthDayNano((314, 26, 1_500_000_000)), None, pa.MonthDayNano((0, 0, 0))]
        values = pa.table([pa.array(far, fields[0].type), pa.array(intervals, fields[1].type)], schema=pa.schema(fields))
        with tempfile.TemporaryDirectory() as folder:
            file = File("0.parquet", values, (3,), "pyarrow")
            case = Case(0, (Table("t", values.schema, (file,), "0.parquet"),), (), ())
            path = build(case, Path(folder) / "0", Oracle()).places["t"]
            read = pq.ParquetFile(path, coerce_int96_timestamp_unit="us").read(["t"])
            self.assertEqual(rows(read), rows(values.select(["t"])))
            self.assertEqual(get(Footer(path).leaves()[1].element, f.CONVERTED), legacy_types.INTERVAL)


#: A program with coscan's interface: it reads the file, and adds a row to the answer.
WRONG_PROGRAM = """#!{python}
import re, sys
sys.path[:0] = {path}
import pyarrow as pa, pyarrow.parquet as pq
words = sys.argv[1:]
files = dict(words[at + 1].split("=", 1) for at, word in enumerate(words) if word == "-t")
for at, word in enumerate(words):
    pattern = r"COPY \\(SELECT i FROM (\\w+)(.*)\\) TO '(.*)' STORED AS ARROW; SELECT '(.*)'"
    if word == "-c" and (parts := re.match(pattern, words[at + 1])):
        rows = pq.ParquetFile(files[parts[1]]).read().select(["i"])
        if "WHERE" in parts[2]:
            rows = rows.slice(0, rows.num_rows - 1)
        if "refuse" in parts[2]:
            sys.exit("an error")
        with pa.ipc.new_file(parts[3], rows.schema) as out:
            out.write_table(rows)
        print(parts[4])
"""


class Machine(unittest.TestCase):
    def setUp(self):
        import sys

        self.folder = tempfile.TemporaryDirectory()
        program = Path(self.folder.name) / "coscan"
        program.write_text(WRONG_PROGRAM.format(python=sys.executable, path=sys.path))
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        self.player = Player(Program(program), Path(self.folder.name) / "files")

    def tearDown(self):
        self.folder.cleanup()

    def case(self, *statements: str) -> Case:
        table = table_of({"i": [1, 2, 3], "x": [None, 1, None]})
        return Case(5, (table,), tuple(Question("test", (statement,)) for statement in statements), ("default",))

    def test_a_right_answer_is_right_and_files_are_removed(self):
        self.assertEqual(self.player.play([self.case("SELECT i FROM t")]), [])
        self.assertEqual(self.player.outcomes, {"right": 1})
        self.assertEqual(list(self.player.folder.iterdir()), [])

    def test_a_wrong_answer_is_found_and_its_files_are_kept(self):
        failures = self.player.play([self.case("SELECT i FROM t", "SELECT i FROM t WHERE i > 0")])
        self.assertEqual(
            [(failure.question.text(), failure.kind) for failure in failures], [("SELECT i FROM t WHERE i > 0", "wrong")]
        )
        self.assertTrue((self.player.folder / "5" / "t" / "0.parquet").exists())
        self.assertEqual(worth_showing(failures * 3, Counter()), failures)

    def test_an_error_is_found(self):
        failures = self.player.play([self.case("SELECT i FROM t WHERE 'refuse' <> ''")])
        self.assertEqual([failure.kind for failure in failures], ["error: an error"])

    def test_a_failure_is_made_smaller(self):
        case = self.case("SELECT i FROM t WHERE i > 0")
        [failure] = self.player.play([case])

        def fails(less: Case) -> bool:
            return self.player.outcome(less, failure.question, [])[0] == failure.kind

        small = shrink(case, failure.question, fails, 20)
        [file] = small.tables[0].files
        self.assertEqual((file.rows.num_rows, file.rows.schema.names), (1, ["i"]))

    def test_a_seed_is_always_the_same(self):
        for seed in range(20):
            first, second = draw_case(seed), draw_case(seed)
            self.assertEqual(
                [question.text() for question in first.questions], [question.text() for question in second.questions]
            )
            files = [
                [(file.path, file.groups, file.writer, file.options, file.mutations, rows(file.rows)) for file in table.files]
                for case in (first, second)
                for table in case.tables
            ]
            self.assertEqual(files[: len(files) // 2], files[len(files) // 2 :])

    def test_writers_write_what_they_were_given(self):
        table = table_of({"i": [1, 2, 3], "s": ["a", None, "b"]})
        for writer in ("pyarrow", "duckdb", "polars", "fastparquet"):
            file = replace(table.files[0], writer=writer)
            with tempfile.TemporaryDirectory() as folder:
                case = Case(0, (replace(table, files=(file,)),), (), ())
                path = build(case, Path(folder) / "0", Oracle()).places["t"]
                self.assertEqual(rows(read_rows(path, file)), rows(file.rows))
                name = {"pyarrow": b"parquet-cpp-arrow", "fastparquet": b"fastparquet-python"}.get(writer, writer.encode())
                self.assertIn(name.lower(), get(Footer(path).fields, f.CREATED_BY, b"").lower())
