"""The DB-API (PEP 249), also as pandas uses it."""

from __future__ import annotations

import pandas as pd
import pytest

import coscan
from conftest import ROWS
from coscan import dbapi


def test_the_module() -> None:
    for module in (coscan, dbapi):
        assert (module.apilevel, module.threadsafety, module.paramstyle) == ("2.0", 2, "qmark")
        assert issubclass(module.ProgrammingError, module.DatabaseError)
        assert issubclass(module.DatabaseError, module.Error)
        assert issubclass(module.InterfaceError, module.Error)
        assert not issubclass(module.Warning, module.Error)


def test_a_cursor(con: coscan.Connection) -> None:
    with con.cursor() as cursor:
        assert cursor.description is None
        with pytest.raises(coscan.InterfaceError, match="execute"):
            cursor.fetchone()
        cursor.execute("SELECT n, text FROM numbers WHERE n < ? ORDER BY n", [10])
        assert cursor.description == [
            ("n", "Int64", None, None, None, None, None),
            ("text", "Utf8View", None, None, None, None, None),
        ]
        assert cursor.fetchone() == (0, "row 0")
        assert cursor.fetchmany() == [(1, "row 1")]
        assert cursor.fetchmany(3) == [(n, f"row {n}") for n in (2, 3, 4)]
        assert next(iter(cursor)) == (5, "row 5")
        assert cursor.fetchall() == [(n, f"row {n}") for n in range(6, 10)]
        assert cursor.fetchall() == []
        assert cursor.fetchone() is None
        assert cursor.rowcount == -1
    with pytest.raises(coscan.InterfaceError, match="closed"):
        cursor.execute("SELECT 1")


def test_types_and_constructors() -> None:
    for module in (coscan, dbapi):
        cursor = coscan.connect().execute("SELECT 1 AS n, 'x' AS s, DATE '2020-01-01' AS d, X'00' AS b")
        assert cursor.description is not None
        kinds = [module.NUMBER, module.STRING, module.DATETIME, module.BINARY]
        for at, column in enumerate(cursor.description):
            assert [kind == column[1] for kind in kinds] == [at == other for other in range(4)]
            assert column[1] != module.ROWID
        assert module.Date(2020, 1, 2) == module.Timestamp(2020, 1, 2).date()
        assert module.Timestamp.combine(module.DateFromTicks(5), module.TimeFromTicks(5)) == module.TimestampFromTicks(5)
        assert module.Binary(b"x") == b"x"


def test_errors_of_cursors(con: coscan.Connection) -> None:
    cursor = con.execute("SELECT CAST(text AS INT) FROM numbers")
    with pytest.raises(coscan.ProgrammingError, match="-1"):
        cursor.fetchmany(-1)
    with pytest.raises(coscan.DataError):
        cursor.fetchall()
    with pytest.raises(coscan.InterfaceError, match="failed"):
        cursor.fetchall()
    assert cursor.execute("SELECT 1").fetchall() == [(1,)]
    with coscan.connect() as other:
        of_closed = other.execute("SELECT 1")
    with pytest.raises(coscan.InterfaceError, match="closed"):
        of_closed.fetchall()
    cursor.close()
    with pytest.raises(coscan.InterfaceError, match="closed"):
        cursor.executemany("SELECT 1", [])


def test_rows_cross_batches(con: coscan.Connection) -> None:
    cursor = con.execute("SELECT n FROM numbers")
    total = 0
    while rows := cursor.fetchmany(10_007):
        total += len(rows)
    assert total == ROWS


def test_many_sets_of_parameters(con: coscan.Connection) -> None:
    con.sql("CREATE TABLE t (a INT)")
    con.cursor().executemany("INSERT INTO t VALUES (?)", [[1], [2], [3]])
    assert con.sql("SELECT sum(a) FROM t").fetchall() == [(6,)]


def test_transactions(con: coscan.Connection) -> None:
    con.commit()
    with pytest.raises(coscan.NotSupportedError, match="transactions"):
        con.rollback()


def test_pandas_reads_by_it(con: coscan.Connection) -> None:
    with pytest.warns(UserWarning, match="SQLAlchemy"):
        frame = pd.read_sql("SELECT k, count(*) AS c FROM numbers GROUP BY k ORDER BY k", con)
    assert frame["c"].sum() == ROWS
    assert con.execute("SELECT 1 AS a").fetch_arrow_table().to_pydict() == {"a": [1]}
