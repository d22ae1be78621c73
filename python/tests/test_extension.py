"""Sessions of the package `datafusion` with cooperative scans."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest
from datafusion import SessionConfig, SessionContext, udf

import coscan
from conftest import ROWS


@pytest.fixture
def extension() -> coscan.Extension:
    return coscan.Extension(buffer="64MB", small_table_bytes=0, share_results=False)


@pytest.fixture
def ctx(numbers: Path, extension: coscan.Extension) -> SessionContext:
    ctx = SessionContext().with_extensions(extension)
    ctx.register_parquet("numbers", str(numbers))
    return ctx


QUERIES = [
    "SELECT count(*), sum(n), min(text), max(text), avg(k) FROM numbers",
    "SELECT k, count(*) AS c, sum(n) FROM numbers WHERE n % 3 = 1 GROUP BY k ORDER BY k",
    "SELECT n, text FROM numbers ORDER BY n DESC LIMIT 5",
    "SELECT a.k, count(DISTINCT b.n) FROM numbers a JOIN numbers b ON a.n = b.n + 1 GROUP BY a.k ORDER BY 1",
    "SELECT n, row_number() OVER (PARTITION BY k ORDER BY n) AS r, sum(n) OVER (PARTITION BY k ORDER BY n) FROM numbers "
    "WHERE n < 100 ORDER BY n",
    "SELECT upper(text), substr(text, 5), n::double / 3, CASE WHEN k > 3 THEN 'high' ELSE 'low' END FROM numbers "
    "WHERE text LIKE '%99' ORDER BY n LIMIT 10",
    "SELECT count(*) FROM numbers WHERE n > (SELECT avg(n) FROM numbers)",
    "SELECT k FROM numbers WHERE k IN (SELECT n FROM numbers WHERE n < 3) GROUP BY k ORDER BY k",
    "WITH t AS (SELECT k, max(n) AS m FROM numbers GROUP BY k) SELECT * FROM t UNION ALL SELECT 9, 9 ORDER BY 1",
    "SELECT date_trunc('month', to_timestamp(n * 1000)) AS m, count(*) FROM numbers GROUP BY m ORDER BY m LIMIT 5",
]


@pytest.mark.parametrize("query", QUERIES)
def test_answers_are_those_of_the_session(
    ctx: SessionContext, extension: coscan.Extension, numbers: Path, query: str
) -> None:
    plain = SessionContext()
    plain.register_parquet("numbers", str(numbers))
    found = ctx.sql(query).to_arrow_table()
    assert (extension.planned, extension.left) == (1, 0), extension.reason
    assert found.to_pylist() == plain.sql(query).to_arrow_table().to_pylist()
    assert found.schema.names == plain.sql(query).to_arrow_table().schema.names


def test_sessions_share_reads(numbers: Path, extension: coscan.Extension) -> None:
    def one(k: int) -> int:
        ctx = SessionContext().with_extensions(extension)
        ctx.register_parquet("numbers", str(numbers))
        return ctx.sql(f"SELECT sum(n) AS s FROM numbers WHERE k = {k % 7}").to_pydict()["s"][0]

    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(one, range(21))) == [sum(range(k % 7, ROWS, 7)) for k in range(21)]
    assert extension.planned == 21
    assert extension.connection.stats()["bytes_read"] < 2 * numbers.stat().st_size


def test_plans_show_cooperative_scans(ctx: SessionContext) -> None:
    plan = ctx.sql("EXPLAIN SELECT sum(n) FROM numbers").to_pydict()["plan"]
    assert any("CScan" in text for text in plan)


def test_the_frames_api_is_planned(ctx: SessionContext, extension: coscan.Extension) -> None:
    from datafusion import col, lit
    from datafusion import functions as f

    frame = ctx.table("numbers").filter(col("k") == lit(2)).aggregate([], [f.sum(col("n")).alias("s")])
    assert frame.to_pydict() == {"s": [sum(range(2, ROWS, 7))]}
    assert extension.planned == 1


def test_tables_in_memory_join_files(ctx: SessionContext, extension: coscan.Extension) -> None:
    ctx.register_record_batches("names", [[pa.record_batch({"k": [1, 2], "name": ["one", "two"]})]])
    query = "SELECT name, count(*) AS c FROM numbers JOIN names USING (k) GROUP BY name ORDER BY name"
    expected = {"name": ["one", "two"], "c": [len(range(1, ROWS, 7)), len(range(2, ROWS, 7))]}
    assert ctx.sql(query).to_pydict() == expected
    assert (extension.planned, extension.left) == (1, 0), extension.reason


def test_functions_of_the_user(ctx: SessionContext, extension: coscan.Extension) -> None:
    import pyarrow.compute as pc

    twice = udf(lambda values: pc.multiply(values, 2), [pa.int64()], pa.int64(), "immutable", name="twice")
    ctx.register_udf(twice)
    assert ctx.sql("SELECT sum(twice(n)) AS s FROM numbers").to_pydict() == {"s": [ROWS * (ROWS - 1)]}


@pytest.mark.parametrize(
    ("name", "kind"), [("upper", pa.string()), ("abs", pa.int64()), ("round", pa.float64()), ("md5", pa.string())]
)
def test_functions_of_the_user_hide_those_of_datafusion(ctx: SessionContext, name: str, kind: pa.DataType) -> None:
    import pyarrow as pa

    same = udf(lambda values: pa.nulls(len(values), kind), [kind], kind, "immutable", name=name)
    ctx.register_udf(same)
    argument = {pa.string(): "text", pa.int64(): "n", pa.float64(): "CAST(n AS DOUBLE)"}[kind]
    assert ctx.sql(f"SELECT count({name}({argument})) AS c FROM numbers").to_pydict() == {"c": [0]}


def test_what_reads_no_file_is_left(ctx: SessionContext, extension: coscan.Extension) -> None:
    assert ctx.sql("SELECT 1 AS a").to_pydict() == {"a": [1]}
    assert (extension.planned, extension.left) == (0, 1)
    assert extension.reason == "the query reads no Parquet file"


def test_settings_of_the_session_are_used(numbers: Path, extension: coscan.Extension) -> None:
    config = SessionConfig().set("datafusion.execution.batch_size", "100")
    ctx = SessionContext(config).with_extensions(extension)
    ctx.register_parquet("numbers", str(numbers))
    batches = ctx.sql("SELECT n FROM numbers WHERE k = 1").collect()
    assert max(batch.num_rows for batch in batches) <= 100


def test_errors_reach_the_caller(ctx: SessionContext) -> None:
    with pytest.raises(Exception, match="row"):
        ctx.sql("SELECT CAST(text AS INT) FROM numbers").collect()


def test_repeated_runs_of_one_frame(ctx: SessionContext) -> None:
    frame = ctx.sql("SELECT max(n) AS m FROM numbers")
    assert [frame.to_pydict() for _ in range(3)] == [{"m": [ROWS - 1]}] * 3
