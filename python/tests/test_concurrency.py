"""Threads, many statements at once, event loops, cancellation."""

from __future__ import annotations

import asyncio
import gc
import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import coscan
from conftest import ROWS
from coscan import aio

SUMS = {k: sum(range(k, ROWS, 7)) for k in range(7)}
SLOW = "SELECT count(*) FROM numbers a CROSS JOIN numbers b WHERE a.n + b.n = -1"
"""A statement that takes minutes."""


def query_of(k: int) -> str:
    return f"SELECT sum(n) FROM numbers WHERE k = {k}"


def test_threads_share_reads(numbers: Path) -> None:
    with coscan.connect(buffer="64MB", small_table_bytes=0, share_results=False) as con:
        con.register("numbers", numbers)
        with ThreadPoolExecutor(16) as threads:
            found = list(threads.map(lambda k: con.sql(query_of(k % 7)).fetchall(), range(64)))
        assert found == [[(SUMS[k % 7],)] for k in range(64)]
        assert con.stats()["bytes_read"] < 2 * os.path.getsize(numbers)


def test_many_statements_at_once(con: coscan.Connection) -> None:
    results = con.sql_many([query_of(k) for k in range(7)])
    assert [result.fetchall() for result in results] == [[(SUMS[k],)] for k in range(7)]
    given = con.sql_many(["SELECT $1 + 1", "SELECT 5"], [[4], None])
    assert [result.fetchall() for result in given] == [[(5,)], [(5,)]]
    with pytest.raises(coscan.ProgrammingError, match="parameters for 1"):
        con.sql_many(["SELECT 1", "SELECT 2"], [None])


def test_the_first_error_ends_the_other_statements(con: coscan.Connection) -> None:
    begin = time.monotonic()
    with pytest.raises(coscan.DataError):
        con.sql_many(["SELECT CAST(text AS INT) FROM numbers", SLOW])
    assert time.monotonic() - begin < 60
    wait_until_idle(con)


def wait_until_idle(con: coscan.Connection) -> None:
    """Waits until the engine has no scan. A statement that goes on would keep one for minutes."""
    deadline = time.monotonic() + 60
    while con.stats()["scans"]:
        assert time.monotonic() < deadline, "a statement still runs"
        time.sleep(0.01)


def test_other_threads_run_while_one_waits(con: coscan.Connection) -> None:
    rows = con.sql(SLOW)._native.start()
    with ThreadPoolExecutor(1) as thread:
        waiting = thread.submit(rows.collect)
        for k in range(7):
            assert con.sql(query_of(k)).fetchall() == [(SUMS[k],)]
        assert waiting.running()
        rows.cancel()
        with pytest.raises(coscan.OperationalError, match="cancelled"):
            waiting.result(timeout=60)


def test_a_reader_that_stops_ends_its_statement(con: coscan.Connection) -> None:
    for batch in con.sql("SELECT a.n FROM numbers a CROSS JOIN numbers b"):
        assert batch.num_rows
        break
    gc.collect()
    wait_until_idle(con)
    reader = con.sql("SELECT a.n FROM numbers a CROSS JOIN numbers b").reader()
    reader.read_next_batch()
    del reader
    gc.collect()
    wait_until_idle(con)


def test_a_statement_waits_for_its_reader(con: coscan.Connection) -> None:
    rows = con.sql("SELECT a.n FROM numbers a CROSS JOIN numbers b")._native.start()
    assert rows.next_batch() is not None
    before = memory_bytes()
    time.sleep(1)
    assert memory_bytes() - before < 200 << 20
    rows.cancel()
    assert rows.next_batch() is None


def memory_bytes() -> int:
    """The memory of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def test_ten_thousand_statements_leave_nothing(con: coscan.Connection) -> None:
    def run(count: int) -> None:
        for at in range(count):
            assert con.sql("SELECT ? + 1", [at]).fetchall() == [(at + 1,)]

    run(2_000)
    gc.collect()
    before = memory_bytes()
    run(10_000)
    gc.collect()
    assert memory_bytes() - before < 32 << 20


@settings(max_examples=20, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 6), st.sampled_from(["all", "some", "none"])), min_size=1, max_size=12))
def test_statements_that_end_early_do_not_disturb_others(numbers: Path, plan: list[tuple[int, str]]) -> None:
    with coscan.connect(buffer="16MB", small_table_bytes=0, share_results=False) as con:
        con.register("numbers", numbers)

        def one(step: tuple[int, str]) -> object:
            k, taken = step
            query = con.sql(f"SELECT n FROM numbers WHERE k = {k}")
            if taken == "all":
                return sum(n for (n,) in query.fetchall()) == SUMS[k]
            rows = query._native.start()
            if taken == "some":
                rows.next_batch()
            return True

        with ThreadPoolExecutor(len(plan)) as threads:
            assert all(threads.map(one, plan))


def test_event_loops(numbers: Path) -> None:
    async def main() -> None:
        async with aio.connect(buffer="64MB", small_table_bytes=0) as con:
            await con.register("numbers", numbers)
            assert await con.tables() == ["numbers"]
            assert len(await con.fetchall("SELECT n FROM numbers")) == ROWS
            found = await asyncio.gather(*(con.fetchall(query_of(k)) for k in range(7)))
            assert found == [[(SUMS[k],)] for k in range(7)]
            assert (await con.sql("SELECT ? AS a", [5])).arrow().to_pydict() == {"a": [5]}
            total = 0
            async for batch in con.batches("SELECT n FROM numbers"):
                total += batch.num_rows
            assert total == ROWS
            with pytest.raises(coscan.ProgrammingError, match="nothing"):
                await con.sql("SELECT nothing")
            with pytest.raises(coscan.DataError):
                await con.sql("SELECT CAST(text AS INT) FROM numbers")

    asyncio.run(main())


def test_a_cancelled_task_ends_its_statement(numbers: Path) -> None:
    async def main() -> None:
        async with aio.connect(buffer="64MB", small_table_bytes=0) as con:
            con.waiting.register("numbers", numbers)
            task = asyncio.create_task(con.sql(SLOW))
            while not con.waiting.stats()["scans"]:
                await asyncio.sleep(0.01)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            deadline = time.monotonic() + 60
            while con.waiting.stats()["scans"]:
                assert time.monotonic() < deadline
                await asyncio.sleep(0.01)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(con.sql(SLOW), 0.2)

    asyncio.run(main())


def test_the_loop_goes_on_while_statements_run(numbers: Path) -> None:
    async def main() -> None:
        async with aio.connect(buffer="64MB", small_table_bytes=0) as con:
            con.waiting.register("numbers", numbers)
            task = asyncio.create_task(con.sql(SLOW))
            for _ in range(20):
                await asyncio.sleep(0.005)
            assert not task.done()
            task.cancel()

    asyncio.run(main())
