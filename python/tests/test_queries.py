"""Statements, and the forms in which their rows come."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from uuid import UUID

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import coscan
from conftest import ROWS

TOP = "SELECT n, text FROM numbers WHERE k = 3 ORDER BY n LIMIT 2"
TOP_ROWS = [(3, "row 3"), (10, "row 10")]


def test_rows_come_in_every_form(con: coscan.Connection) -> None:
    query = con.sql(TOP)
    assert query.columns == ["n", "text"]
    assert query.fetchall() == TOP_ROWS
    expected = {"n": [3, 10], "text": ["row 3", "row 10"]}
    assert query.arrow().to_pydict() == expected
    assert query.pl().to_dict(as_series=False) == expected
    assert query.df().to_dict("list") == expected
    assert pa.table(query).to_pydict() == expected
    assert pl.DataFrame(query).to_dict(as_series=False) == expected
    assert query.reader().read_all().to_pydict() == expected
    assert pa.Table.from_batches(query.to_batches()).to_pydict() == expected
    assert pa.Table.from_batches(list(query)).to_pydict() == expected
    result = query.collect()
    assert len(result) == 2
    assert list(result) == TOP_ROWS
    assert pa.table(result).to_pydict() == expected
    assert pa.schema(query).names == pa.schema(result).names == ["n", "text"]


def test_a_query_is_lazy_and_runs_again(con: coscan.Connection) -> None:
    before = con.stats()["bytes_read"]
    query = con.sql("SELECT sum(n) AS s FROM numbers")
    assert con.stats()["bytes_read"] == before
    for _ in range(2):
        assert query.fetchall() == [(ROWS * (ROWS - 1) // 2,)]


def test_statements_that_change_something_are_carried_out_at_once(con: coscan.Connection, tmp_path: Path) -> None:
    con.sql("CREATE TABLE copy AS SELECT n FROM numbers WHERE n < 5")
    assert con.tables() == ["copy", "numbers"]
    path = tmp_path / "copy.parquet"
    written = con.sql(f"COPY (SELECT n FROM copy) TO '{path}'")
    assert pq.read_table(path).num_rows == 5
    assert written.fetchall() == [(5,)]
    assert written.fetchall() == [(5,)], "the second look does not write again"
    con.sql("SET datafusion.execution.batch_size = 3")
    assert max(batch.num_rows for batch in con.sql(f"SELECT * FROM '{path}'")) <= 3


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        7,
        -(2**63),
        2**64 - 1,
        10**30,
        1.5,
        "it's",
        b"\x00\xff",
        Decimal("12.340"),
        Decimal("-0.001"),
        Decimal("1E+5"),
        dt.date(1, 1, 1),
        dt.date(2026, 2, 28),
        dt.time(23, 59, 59, 999_999),
        dt.datetime(1969, 12, 31, 23, 59, 59, 1),
        dt.datetime(2026, 7, 1, 12, tzinfo=dt.timezone(dt.timedelta(hours=2))),
        dt.timedelta(days=-3, microseconds=5),
        coscan.Interval(14, 3, 5_000),
        [1, 2, None],
        ["a", "b"],
        [1, 2.5],
        [1, Decimal("1.5")],
        [Decimal("1.25"), Decimal("123.5"), None],
        [1, 2**63],
        [[], [1], [2.5]],
        [dt.datetime(2020, 1, 1), dt.datetime(2020, 1, 1, 5)],
        {"a": 1, "b": [None, "x"]},
        [{"a": 1}, {"a": 2.5}],
        Decimal(10**40),
    ],
    ids=repr,
)
def test_parameters_keep_their_values(con: coscan.Connection, value: object) -> None:
    for query, given in [("SELECT ? AS v", [value]), ("SELECT $1 AS v", (value,)), ("SELECT $v AS v", {"v": value})]:
        ((found,),) = con.sql(query, given).fetchall()
        assert found == value
        assert value is None or type(found) is type(value) or isinstance(value, int)


@pytest.mark.parametrize(
    "expression, given, wanted",
    [
        ("$a || $b", {"a": "x", "b": "y"}, "xy"),
        ("$1 || $2", ["x", "y"], "xy"),
        ("timestamp '2024-03-01 00:00:00' - ?", [dt.timedelta(days=1)], dt.datetime(2024, 2, 29)),
        ("timestamp '2024-03-01 00:00:00' - $at", {"at": dt.datetime(2024, 2, 29)}, dt.timedelta(days=1)),
        ("array[1, ?]", [2], [1, 2]),
        ("CASE WHEN ? THEN ? ELSE 0.5 END", [True, Decimal("1.05")], Decimal("1.05")),
        ("coalesce(?, ?)", [None, 7], 7),
        ("$b + $a * 10", {"a": 1, "b": 2, "unused": 3}, 12),
    ],
)
def test_parameters_have_the_types_of_their_values(
    con: coscan.Connection, expression: str, given: list[object] | dict[str, object], wanted: object
) -> None:
    assert con.sql(f"SELECT {expression} AS v", given).fetchall() == [(wanted,)]


def test_parameters_of_other_libraries(con: coscan.Connection) -> None:
    uuid = UUID(int=1)
    found = con.sql("SELECT ?, ?, ?", [np.int32(5), np.float64(2.5), uuid]).fetchall()
    assert found == [(5, 2.5, str(uuid))]
    at, span = pd.Timestamp("2020-01-01 00:00:00.123456"), pd.Timedelta(days=1)
    with_nanoseconds = np.datetime64("2020-01-01T00:00:00.123456789")
    found = con.sql("SELECT ?, ?, ?, ?, ?", [at, span, pd.NaT, pd.NA, with_nanoseconds]).fetchall()
    assert found == [(at.to_pydatetime(), dt.timedelta(days=1), None, None, at.to_pydatetime())]
    for values in (np.array([1.0, 2.5]), pd.Series([1.0, 2.5]), pa.array([1.0, 2.5]), (1.0, 2.5)):
        assert con.sql("SELECT ? AS v", [values]).fetchall() == [([1.0, 2.5],)]
    for value in (bytearray(b"ab"), memoryview(b"ab"), pa.scalar(b"ab")):
        assert con.sql("SELECT ? AS v", [value]).fetchall() == [(b"ab",)]


def test_lists_of_a_date_and_a_time_keep_the_time(con: coscan.Connection) -> None:
    given = [dt.date(2020, 1, 1), dt.datetime(2020, 1, 1, 5)]
    wanted = [dt.datetime(2020, 1, 1), dt.datetime(2020, 1, 1, 5)]
    assert con.sql("SELECT ? AS v", [given]).fetchall() == [(wanted,)]
    assert con.sql("SELECT 2.5 = any(?) AS v", [[1, 2.5]]).fetchall() == [(True,)]


@pytest.mark.parametrize(
    "values",
    [[1, "a"], [True, 2], [dt.datetime(2020, 1, 1), dt.datetime(2020, 1, 1, tzinfo=dt.UTC)], [1, [1]]],
    ids=repr,
)
def test_lists_of_values_without_a_common_type(con: coscan.Connection, values: list[object]) -> None:
    with pytest.raises(coscan.DataError, match="one type"):
        con.sql("SELECT ?", [values])


def test_a_list_within_itself(con: coscan.Connection) -> None:
    values: list[object] = []
    values.append(values)
    with pytest.raises(coscan.DataError, match="depth"):
        con.sql("SELECT ?", [values])


def test_question_marks_in_texts_are_no_parameters(con: coscan.Connection) -> None:
    query = """SELECT '?' AS "a?", ? AS b, -- ?
        'ä?' || ? /* ? */ AS c"""
    assert con.sql(query, [1, "z"]).fetchall() == [("?", 1, "ä?z")]


def test_parameters_in_conditions_and_limits(con: coscan.Connection) -> None:
    query = "SELECT n FROM numbers WHERE n BETWEEN ? AND ? ORDER BY n LIMIT ?"
    assert con.sql(query, [5, 100, 2]).fetchall() == [(5,), (6,)]


def test_wrong_parameters(con: coscan.Connection) -> None:
    with pytest.raises(coscan.ProgrammingError, match="Fraction"):
        from fractions import Fraction

        con.sql("SELECT ?", [Fraction(1, 3)])
    with pytest.raises(coscan.DataError, match="76 digits"):
        con.sql("SELECT ?", [10**80])
    with pytest.raises(coscan.ProgrammingError, match="names"):
        con.sql("SELECT $1", {1: 5})
    with pytest.raises(coscan.NotSupportedError, match="zone"):
        con.sql("SELECT ?", [dt.time(1, tzinfo=dt.UTC)])
    for query, given, named in [
        ("SELECT ? + ?", [1], "2 parameters"),
        ("SELECT ?", [1, 2], "1 parameters"),
        ("SELECT 1", [1], "0 parameters"),
        ("SELECT $b", {"a": 1}, r"\$b"),
        ("SELECT ?", None, "no value"),
    ]:
        with pytest.raises(coscan.ProgrammingError, match=named):
            con.sql(query, given)


@pytest.mark.parametrize(
    ("column", "given", "found"),
    [
        ("int", 1, 1),
        ("int", None, None),
        ("decimal(10, 2)", 1, Decimal("1.00")),
        ("double", 1, 1.0),
        ("real", 1.5, 1.5),
        ("varchar", "x", "x"),
        ("date", dt.date(2020, 1, 1), dt.date(2020, 1, 1)),
        ("timestamp", dt.datetime(2020, 1, 1, 5), dt.datetime(2020, 1, 1, 5)),
    ],
)
def test_values_that_are_inserted_get_the_types_of_the_columns(column: str, given: object, found: object) -> None:
    con = coscan.connect()
    con.sql(f"CREATE TABLE q (id INT, a {column})")
    con.sql("INSERT INTO q VALUES (?, ?), (2, NULL)", [1, given])
    con.sql("INSERT INTO q (a, id) SELECT ?, ?", [given, 3])
    query = con.sql("SELECT a FROM q ORDER BY id")
    assert query.fetchall() == [(found,), (None,), (found,)]
    assert query.arrow()["a"].to_pylist() == [found, None, found]


def test_values_that_do_not_fit_into_the_column() -> None:
    con = coscan.connect()
    con.sql("CREATE TABLE q (a INT)")
    with pytest.raises(coscan.DatabaseError, match=r"(?i)cast|convert|integer"):
        con.sql("INSERT INTO q VALUES (?)", ["x"])
    assert con.sql("SELECT * FROM q").fetchall() == []


def test_sources_of_tables(con: coscan.Connection, tmp_path: Path) -> None:
    parts = [tmp_path / f"part-{at}.parquet" for at in range(3)]
    for at, part in enumerate(parts):
        pq.write_table(pa.table({"a": [at, at + 10]}), part)
    table = pa.table({"a": [0, 1, 2, 10, 11, 12]})
    sources = {
        "one pattern": f"{tmp_path}/part-*.parquet",
        "a folder": tmp_path,
        "files": parts,
        "addresses": [part.as_uri() for part in parts],
        "a dataset": ds.dataset([str(part) for part in parts]),
        "a table": table,
        "a stream": table.to_reader(),
        "a batch": table.to_batches()[0],
        "polars": pl.DataFrame(table),
        "pandas": table.to_pandas(),
        "a result": con.sql("SELECT unnest([0, 1, 2, 10, 11, 12]) AS a").collect(),
        "a query": con.sql("SELECT unnest([0, 1, 2, 10, 11, 12]) AS a"),
    }
    for name, source in sources.items():
        con.register(name, source)
        assert con.sql(f'SELECT a FROM "{name}" ORDER BY a').arrow().to_pydict() == table.to_pydict(), name
    con.deregister("a table")
    assert "a table" not in con.tables()
    with pytest.raises(coscan.ProgrammingError, match="no table"):
        con.deregister("a table")


def test_datasets_that_are_more_than_their_files_are_refused(con: coscan.Connection, tmp_path: Path) -> None:
    folder = tmp_path / "by_k"
    pq.write_to_dataset(pa.table({"a": [1, 2], "k": [1, 2]}), folder, partition_cols=["k"])
    other = pa.schema([("a", pa.int32())])
    for source, reason in [
        (ds.dataset(folder).filter(ds.field("a") == 1), "filter"),
        (ds.dataset(folder, partitioning="hive"), "columns k"),
        (ds.dataset(folder, schema=other), "another schema"),
    ]:
        with pytest.raises(coscan.NotSupportedError, match=reason):
            con.register("t", source)
    con.register("t", folder)
    assert sorted(con.sql("SELECT a FROM t").fetchall()) == [(1,), (2,)]


def test_columns_of_nulls_of_polars(con: coscan.Connection) -> None:
    con.register("t", pl.DataFrame({"a": [1, 2], "n": [None, None], "l": [[None], []]}))
    assert con.sql("SELECT a, n FROM t").fetchall() == [(1, None), (2, None)]


@pytest.mark.parametrize(
    ("expression", "wanted"),
    [
        ("2^3", 8),
        ("'abc' SIMILAR TO 'a%'", True),
        ("to_char(DATE '2020-01-01', 'YYYY')", "2020"),
        ("INTERVAL '24 hours' = INTERVAL '1 day'", True),
        ("round(2.5::float8)", 2),
        ("0.1 + 0.2", Decimal("0.3")),
        ("TIMESTAMP '9999-12-31'", dt.datetime(9999, 12, 31)),
        ("INTERVAL '1 day' * 2", dt.timedelta(days=2)),
        ("'1' + 1", 2),
        ("pg_typeof(1.5)", "numeric"),
        ("current_user", "coscan"),
        ("[1, 2]", [1, 2]),
        ("{'a': 1}", {"a": 1}),
    ],
)
def test_the_sql_is_that_of_the_command(con: coscan.Connection, expression: str, wanted: object) -> None:
    assert con.sql(f"SELECT {expression}").fetchall() == [(wanted,)]


def test_errors_as_in_postgresql(con: coscan.Connection) -> None:
    with pytest.raises(coscan.DataError, match=r"(?i)divide by zero"):
        con.sql("SELECT 1.0 / n FROM (SELECT 0.0 AS n) AS t").fetchall()
    with pytest.raises(coscan.ParseError):
        con.sql("SELEC 1")


def test_columns_of_one_name(con: coscan.Connection) -> None:
    query = con.sql("SELECT 1 AS a, 2 AS a, count(*) FROM numbers WHERE n < ?", [3])
    assert query.columns == ["a", "a", "count"]
    assert query.fetchall() == [(1, 2, 3)]
    assert query.arrow().column_names == ["a", "a", "count"]
    assert [field.name for batch in query for field in batch.schema] == ["a", "a", "count"]
    assert query.pl().columns == ["a", "a_1", "count"]
    with pytest.raises(coscan.ProgrammingError, match="two columns"):
        con.register("t", query)


def test_spans_against_durations(con: coscan.Connection) -> None:
    day = dt.timedelta(days=1)
    con.register("spans", pa.table({"du": pa.array([day, 2 * day], pa.duration("us"))}))
    assert con.sql("SELECT du FROM spans WHERE du = ?", [day]).fetchall() == [(day,)]
    assert con.sql("SELECT du FROM spans WHERE du > ?", [day]).fetchall() == [(2 * day,)]
    assert con.sql("SELECT du FROM spans WHERE du = INTERVAL '24 hours'").fetchall() == [(day,)]


def test_a_table_is_replaced(con: coscan.Connection) -> None:
    con.register("t", pa.table({"a": [1]}))
    con.register("t", pa.table({"b": [2]}))
    assert con.sql("SELECT * FROM t").arrow().to_pydict() == {"b": [2]}


def test_what_cannot_be_a_table(con: coscan.Connection, tmp_path: Path) -> None:
    with pytest.raises(coscan.ProgrammingError, match=r"builtins\.int"):
        con.register("t", 5)
    with pytest.raises(coscan.ProgrammingError, match="needs a file"):
        con.register("t", [])
    with pytest.raises(coscan.DatabaseError, match="missing"):
        con.register("t", tmp_path / "missing.parquet")
    broken = tmp_path / "broken.parquet"
    broken.write_bytes(b"PAR1 but not really PAR1")
    with pytest.raises(coscan.DatabaseError, match="broken"):
        con.register("t", broken)


def test_buffers_of_registered_tables_are_not_copied(con: coscan.Connection) -> None:
    table = pa.table({"a": pa.array(range(1000), pa.int64())})
    con.register("t", table)
    out = con.sql("SELECT a FROM t").arrow()
    assert out["a"].chunk(0).buffers()[1].address == table["a"].chunk(0).buffers()[1].address


def test_results_are_not_copied(con: coscan.Connection) -> None:
    result = con.sql("SELECT n FROM numbers").collect()
    first, second = (pa.table(result)["n"].chunk(0).buffers()[1].address for _ in range(2))
    polars = pl.DataFrame(result)["n"].get_chunks()[0].to_numpy(allow_copy=False).ctypes.data
    assert first == second == polars


@pytest.mark.parametrize(
    ("query", "error", "words"),
    [
        ("SELEC 1", coscan.ParseError, "SELEC"),
        ("SELECT nothing FROM numbers", coscan.ProgrammingError, "nothing"),
        ("SELECT * FROM nowhere", coscan.ProgrammingError, "nowhere"),
        ("SELECT n / 0 FROM numbers", coscan.DataError, "zero"),
        ("SELECT CAST('x' AS INT)", coscan.DataError, "x"),
        ("SELECT CAST(text AS INT) FROM numbers", coscan.DataError, "row"),
        ("SET coscan.nothing = 1", coscan.SettingError, "nothing"),
        ("SET coscan.buffer = 'much'", coscan.SettingError, "much"),
        ("SELECT * FROM 'nowhere/at all.parquet'", coscan.ProgrammingError, "nowhere"),
    ],
)
def test_errors_have_classes_and_words(
    con: coscan.Connection, query: str, error: type[coscan.Error], words: str
) -> None:
    with pytest.raises(error, match=words) as raised:
        con.sql(query).fetchall()
    assert "\n" not in str(raised.value)
    assert isinstance(raised.value, coscan.Error)


def test_settings(numbers: Path) -> None:
    with pytest.raises(coscan.SettingError, match="nothing"):
        coscan.connect(nothing=1)  # type: ignore[call-arg]
    with pytest.raises(coscan.SettingError, match="buffer"):
        coscan.connect(buffer="-1")
    with pytest.raises(coscan.SettingError, match="datafusion"):
        coscan.connect(session={"datafusion.nothing": 1})
    with coscan.connect(policy="normal", buffer=8 << 20, share_results=False, threads=1) as con:
        assert con.stats()["policy"] == "normal"
        assert con.stats()["buffer_bytes"] == 8 << 20
        shown = con.sql("SHOW coscan.share_results").fetchall()
        assert shown == [("coscan.share_results", "false")]


def test_too_little_memory_is_an_error_of_its_own(numbers: Path) -> None:
    with coscan.connect(buffer="4kB", small_table_bytes=0) as con:
        con.register("numbers", numbers)
        with pytest.raises(MemoryError, match="buffer"):
            con.sql("SELECT sum(n) FROM numbers").fetchall()


def test_a_replaced_file_is_an_error_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"a": np.random.default_rng(1).integers(0, 1 << 60, 2_000_000)}), path, row_group_size=20_000)
    with coscan.connect(buffer="4MB", small_table_bytes=0, read_limit="20MB") as con:
        con.register("t", path)
        batches = iter(con.sql("SELECT a FROM t"))
        next(batches)
        pq.write_table(pa.table({"a": [1]}), path)
        with pytest.raises(coscan.FileReplacedError, match=r"t\.parquet"):
            list(batches)


def test_explain(con: coscan.Connection) -> None:
    query = con.sql("SELECT k, count(*) FROM numbers GROUP BY k")
    assert "CScan" in query.explain()
    assert "output_rows" in query.explain(analyze=True)


def test_display(con: coscan.Connection, capsys: pytest.CaptureFixture[str]) -> None:
    query = con.sql("SELECT n, '<b>' || text AS t FROM numbers ORDER BY n")
    query.show(2)
    assert capsys.readouterr().out.splitlines()[3:5] == ["| 0 | <b>row 0 |", "| 1 | <b>row 1 |"]
    html = query._repr_html_()
    assert html.count("<tr>") == 21
    assert "&lt;b&gt;row 0" in html
    assert "the first 20 rows" in html
    assert "the first" not in query.collect()._first(3).text()
    assert repr(query) == "<coscan.Query of n Int64, t Utf8View>"
    assert repr(con.sql("SELECT 1 AS a").collect()) == "<coscan.Result of 1 rows, 1 columns>"


def test_a_closed_connection(numbers: Path) -> None:
    con = coscan.connect()
    con.register("numbers", numbers)
    query = con.sql("SELECT count(*) FROM numbers")
    rows = con.execute("SELECT n FROM numbers")
    con.close()
    assert con.closed
    with pytest.raises(coscan.InterfaceError, match="closed"):
        con.sql("SELECT 1")
    for use in (con.tables, con.stats, con.cursor):
        with pytest.raises(coscan.InterfaceError, match="closed"):
            use()
    assert query.fetchall() == [(ROWS,)], "a query that was planned keeps its engine"
    with pytest.raises(coscan.InterfaceError, match="closed"):
        rows.fetchall()


def test_statistics(con: coscan.Connection) -> None:
    con.sql("SELECT sum(n) FROM numbers").fetchall()
    stats = con.stats()
    assert stats["bytes_read"] > 0
    assert stats["loads"] > 0
    seen = next(con.watch(every=0.01))
    assert seen["bytes_per_second"] >= 0
