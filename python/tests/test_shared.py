"""Engines that several processes share."""

from __future__ import annotations

import asyncio
import datetime
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import coscan
from conftest import ROWS
from coscan import aio

SLOW = "SELECT count(*) FROM numbers a CROSS JOIN numbers b WHERE a.n + b.n = -1"


@pytest.fixture(autouse=True)
def folder(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder for the sockets of a test, whose engines end soon."""
    folder = Path(f"/tmp/coscan-test-{os.getpid()}-{time.monotonic_ns()}")
    folder.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))
    monkeypatch.setenv("COSCAN_SHARED_IDLE_S", "0.5")
    yield folder
    for host in host_of(folder):
        os.kill(host, signal.SIGTERM)
    shutil.rmtree(folder)


def shared(numbers: Path, **settings: Any) -> coscan.Connection:
    con = coscan.connect("shared", buffer="64MB", small_table_bytes=0, **settings)
    con.register("numbers", numbers)
    return con


def host_of(folder: Path) -> list[int]:
    """The processes of the engines whose sockets are in this folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes()
        except OSError:
            continue
        if b"coscan.shared" in command and os.fsencode(folder) in command:
            found.append(int(process.name))
    return found


def ended(folder: Path) -> bool:
    deadline = time.monotonic() + 30
    while host_of(folder) and time.monotonic() < deadline:
        time.sleep(0.05)
    return not host_of(folder)


def test_a_shared_engine_answers_as_an_own_one(numbers: Path, con: coscan.Connection) -> None:
    rows: list[Any] = [
        "SELECT count(*), sum(n), max(text) FROM numbers WHERE k <> 3",
        "SELECT n, text FROM numbers WHERE n BETWEEN 1000 AND 1003 ORDER BY n DESC",
        "SELECT CAST(1.50 AS DECIMAL(9, 2)), DATE '2024-02-29', TIMESTAMP '2024-01-01 00:00:00.5', [1, NULL], X'00ff', NULL",
        "SELECT arrow_cast('x', 'Dictionary(Int8, Utf8)') AS d, {'a': 1, 'b': 'c'} AS s",
        "SELECT n FROM numbers WHERE false",
    ]
    with shared(numbers) as other:
        for sql in rows:
            query, own = other.sql(sql), con.sql(sql)
            assert (query.columns, query.types) == (own.columns, own.types)
            assert query.arrow().equals(own.arrow())
            assert query.fetchall() == own.fetchall()
        assert "CScan" in other.sql("SELECT sum(n) FROM numbers").explain()
        assert other.sql("SELECT count(*) FROM numbers").explain(analyze=True).count("output_rows") > 0
        assert len(other.sql_many([rows[0]] * 8)) == 8
        assert other.stats()["bytes_read"] > 0
        assert [table.columns for table in other.chunks().tables] == [["n", "text", "k"]]


def test_parameters_keep_their_types(numbers: Path) -> None:
    values = [7, "x", 1.5, Decimal("2.50"), b"\x00", datetime.date(2024, 2, 29), None, True, [1, 2]]
    with shared(numbers) as con:
        marks = ", ".join("?" for _ in values)
        assert con.sql(f"SELECT {marks}", values).fetchall() == [tuple(values)]
        assert con.sql("SELECT n FROM numbers WHERE n = $wanted", {"wanted": 41}).fetchall() == [(41,)]
        assert con.execute("SELECT ? + 1", [1]).fetchone() == (2,)


def test_tables_and_settings_are_those_of_a_connection(numbers: Path, tmp_path: Path) -> None:
    table = pa.table({"a": [1, 2, 3]})
    with shared(numbers) as one, coscan.connect("shared") as other:
        one.register("mine", table)
        assert one.sql("SELECT sum(a) FROM mine").fetchall() == [(6,)]
        assert (one.tables(), other.tables()) == (["mine", "numbers"], [])
        with pytest.raises(coscan.ProgrammingError, match="mine"):
            other.sql("SELECT * FROM mine")
        other.register("mine", pa.table({"a": ["x"]}))
        assert one.sql("SELECT max(a) FROM mine").fetchall() == [(3,)]
        one.sql("SET datafusion.execution.batch_size = 100")
        shown = "SELECT value FROM information_schema.df_settings WHERE name = 'datafusion.execution.batch_size'"
        assert one.sql(shown).fetchall() == [("100",)] != other.sql(shown).fetchall()
        one.deregister("mine")
        assert one.tables() == ["numbers"]
        empty = table.schema.empty_table()
        one.register("none", empty)
        assert one.sql("SELECT count(*) FROM none").fetchall() == [(0,)]
        with pytest.raises(coscan.SettingError, match="engine"):
            one.sql("SET coscan.buffer = '1GB'")


def test_paths_are_relative_to_the_folder_of_the_client(
    numbers: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared(numbers)
    monkeypatch.chdir(tmp_path)
    pq.write_table(pa.table({"a": [1, 2]}), "here.parquet")
    with coscan.connect("shared") as con:
        assert con.sql("SELECT sum(a) FROM 'here.parquet'").fetchall() == [(3,)]
        assert con.sql("SELECT sum(a) FROM '*.parquet'").fetchall() == [(3,)]
        con.register("here", "here.parquet")
        con.sql("CREATE EXTERNAL TABLE made STORED AS PARQUET LOCATION 'here.parquet'")
        con.sql("COPY (SELECT a, 'it''s' AS b FROM here)\n TO 'out/copied.parquet'")
        assert con.sql("SELECT count(*) FROM made JOIN 'out/copied.parquet' USING (a)").fetchall() == [(2,)]
    assert pq.read_table(tmp_path / "out").num_rows == 2


def test_errors_have_the_same_classes(numbers: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken.parquet"
    broken.write_bytes(b"PAR1 no file PAR1")
    with shared(numbers) as con:
        for error, sql in [
            (coscan.ParseError, "SELEC 1"),
            (coscan.ProgrammingError, "SELECT nothing FROM numbers"),
            (coscan.DataError, "SELECT 1 / (n - 399999) FROM numbers"),
            (coscan.DataError, "SELECT CAST(text AS INT) FROM numbers"),
            (coscan.SettingError, "SET coscan.nothing = 1"),
        ]:
            with pytest.raises(error):
                con.sql(sql).fetchall()
        with pytest.raises(coscan.FileError, match=r"broken\.parquet"):
            con.register("broken", broken)
        with pytest.raises(coscan.ProgrammingError, match="no table gone"):
            con.deregister("gone")
        assert con.sql("SELECT 1").fetchall() == [(1,)]
    with pytest.raises(coscan.InterfaceError, match="closed"):
        con.sql("SELECT 1")


def test_an_extension_needs_an_engine_of_its_own(numbers: Path) -> None:
    with shared(numbers) as con, pytest.raises(coscan.NotSupportedError, match="in the process itself"):
        coscan.Extension(con)


def test_an_engine_has_one_set_of_settings(numbers: Path, folder: Path) -> None:
    with pytest.raises(coscan.SettingError, match="policy"):
        coscan.connect("shared", policy="nothing")
    with shared(numbers):
        with pytest.raises(coscan.SettingError, match=r"runs with buffer = 64MB, not 32MB.*shared:NAME"):
            coscan.connect("shared", buffer="32MB")
        with pytest.raises(coscan.SettingError, match="threads"):
            coscan.connect("shared", threads=7)
        with coscan.connect("shared:other", buffer="32MB") as other:
            assert other.sql("SELECT 1").fetchall() == [(1,)]
            assert len(host_of(folder)) == 2
    for name in ("shared:", "shared:a/b", "other"):
        with pytest.raises(coscan.InterfaceError, match="shared:NAME"):
            coscan.connect(name)


def test_an_engine_ends_when_it_is_idle(numbers: Path, folder: Path) -> None:
    con = shared(numbers)
    first = host_of(folder)
    time.sleep(1.5)
    assert host_of(folder) == first and len(first) == 1
    query = con.sql("SELECT count(*) FROM numbers")
    con.close()
    time.sleep(1.5)
    # A statement that is kept keeps the connection.
    assert query.fetchall() == [(ROWS,)] and host_of(folder) == first
    del query
    assert ended(folder)
    assert [path.name for path in sorted((folder / "coscan").iterdir())] == ["default.lock", "default.log"]
    with shared(numbers) as con:
        assert con.sql("SELECT count(*) FROM numbers").fetchall() == [(ROWS,)]
        assert host_of(folder) != first


def test_an_engine_that_was_killed_is_a_clear_error(numbers: Path, folder: Path) -> None:
    con = shared(numbers)
    (host,) = host_of(folder)
    os.kill(host, signal.SIGKILL)
    with pytest.raises(coscan.OperationalError, match="shared engine does not answer"):
        con.sql("SELECT count(*) FROM numbers").fetchall()
    with shared(numbers) as con:
        assert con.sql("SELECT count(*) FROM numbers").fetchall() == [(ROWS,)]


@pytest.mark.parametrize("how", ["close", "kill", "cancel"])
def test_statements_end_with_their_client(numbers: Path, how: str) -> None:
    with shared(numbers) as con:
        program = f"""
import sys, time, coscan
con = coscan.connect("shared")
con.register("numbers", sys.argv[1])
rows = con.sql("{SLOW}")._native.start()
print("runs", flush=True)
sys.stdin.readline()
{"rows.cancel(); print('cancelled', flush=True); sys.stdin.readline()" if how == "cancel" else "rows.cancel(); con.close()"}
"""
        with subprocess.Popen(
            [sys.executable, "-c", program, numbers], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as client:
            assert client.stdin and client.stdout
            assert client.stdout.readline() == "runs\n"
            time.sleep(0.5)
            busy = processor_seconds(con)
            time.sleep(0.5)
            assert processor_seconds(con) > busy + 0.2
            if how == "kill":
                client.kill()
            else:
                client.stdin.write("\n")
                client.stdin.flush()
            time.sleep(1.0)
            busy = processor_seconds(con)
            time.sleep(0.5)
            assert processor_seconds(con) < busy + 0.2
            client.kill()


def processor_seconds(con: coscan.Connection) -> float:
    """What the engine's process has used."""
    (host,) = host_of(Path(os.environ["XDG_RUNTIME_DIR"]))
    fields = Path(f"/proc/{host}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_a_fork_is_a_clear_error(numbers: Path) -> None:
    with shared(numbers) as con:
        child = os.fork()
        if child == 0:
            for use in (lambda: con.sql("SELECT 1"), lambda: coscan.connect("shared")):
                try:
                    use()
                except coscan.ForkedError:
                    continue
                os._exit(1)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert con.sql("SELECT 1").fetchall() == [(1,)]


def test_rows_come_as_they_are_taken(numbers: Path) -> None:
    with shared(numbers) as con:
        sql = "SELECT a.n, a.text FROM numbers a CROSS JOIN numbers b"
        reader = con.sql(sql).reader()
        for _ in range(5):
            assert reader.read_next_batch().num_rows > 0
        reader.close()
        assert sum(len(batch) for batch in con.sql("SELECT text FROM numbers")) == ROWS
        large = con.sql("SELECT repeat('x', 20000000) AS t").fetchall()
        assert len(large[0][0]) == 20_000_000


def test_event_loops(numbers: Path) -> None:
    async def main() -> None:
        async with aio.connect("shared") as con:
            con.waiting.register("numbers", numbers)
            queries = [con.fetchall(f"SELECT count(*) FROM numbers WHERE k = {k}") for k in range(7)]
            counts = await asyncio.gather(*queries)
            assert sum(rows[0][0] for rows in counts) == ROWS
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(con.sql(SLOW), 0.3)
            assert await con.fetchall("SELECT 1") == [(1,)]

    asyncio.run(main())


def epoch(arguments: tuple[Path, int, int]) -> tuple[int, int]:
    """A worker of a data loader: one part of the rows, and then all of them."""
    numbers, worker, workers = arguments
    with coscan.connect("shared") as con:
        con.register("numbers", numbers)
        part = con.scan("numbers", ["n", "text"], in_order=True, batch_size=1000, shard=(worker, workers))
        whole = con.scan("numbers", ["n", "text"], batch_size=1000)
        return sum(sum(batch["n"].to_pylist()) for batch in part), sum(len(batch) for batch in whole)


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_workers_of_a_data_loader_share_reads(numbers: Path, method: str) -> None:
    with shared(numbers) as con, multiprocessing.get_context(method).Pool(4) as pool:
        done = pool.map(epoch, [(numbers, worker, 4) for worker in range(4)])
        assert sum(part for part, _ in done) == ROWS * (ROWS - 1) // 2
        assert [rows for _, rows in done] == [ROWS] * 4
        columns = pq.ParquetFile(numbers).metadata
        wanted = sum(
            columns.row_group(at).column(column).total_compressed_size
            for at in range(columns.num_row_groups)
            for column in range(2)
        )
        # Each of the four reads all rows once and its part once.
        assert con.stats()["bytes_read"] <= 1.2 * wanted


def test_the_first_processes_start_one_engine(numbers: Path, folder: Path) -> None:
    program = """
import sys, coscan
con = coscan.connect("shared", buffer="64MB")
con.register("numbers", sys.argv[1])
print(con.sql("SELECT count(*) FROM numbers").fetchall(), flush=True)
sys.stdin.readline()
"""
    clients = [
        subprocess.Popen(
            [sys.executable, "-c", program, numbers], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for _ in range(6)
    ]
    for client in clients:
        assert client.stdout and client.stdout.readline() == f"[({ROWS},)]\n"
    assert len(host_of(folder)) == 1
    for client in clients:
        client.communicate("\n")


def test_only_the_user_may_enter_the_folder(folder: Path) -> None:
    (folder / "coscan").mkdir(mode=0o755)
    with pytest.raises(coscan.OperationalError, match="other users may change"):
        coscan.connect("shared")
    (folder / "coscan").chmod(0o700)
    with coscan.connect("shared") as con:
        assert con.sql("SELECT 1").fetchall() == [(1,)]
        assert (folder / "coscan" / "default.socket").stat().st_mode & 0o077 == 0
