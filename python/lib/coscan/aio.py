"""Connections for programs with an event loop. Nothing here waits in the loop's thread.

>>> import asyncio
>>> from coscan import aio
>>> async def main():
...     async with aio.connect(buffer="64MB") as con:
...         return await asyncio.gather(*(con.fetchall(f"SELECT {n}") for n in (1, 2)))
>>> asyncio.run(main())
[[(1,)], [(2,)]]
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, Unpack

from . import connection
from .connection import Parameters
from .result import Result
from .settings import Settings

if TYPE_CHECKING:
    import pyarrow


def connect(
    engine: str | None = None,
    *,
    threads: int | None = None,
    memory: int | None = None,
    session: Mapping[str, object] | None = None,
    **settings: Unpack[Settings],
) -> AsyncConnection:
    """Starts an engine in this process, or connects to a shared one; see `coscan.connect`."""
    return AsyncConnection(connection.connect(engine, threads=threads, memory=memory, session=session, **settings))


_ROWS = 4096
"""Rows that become Python's values before other tasks have their turn."""


class AsyncConnection:
    """An engine with its tables. Cancelling a task ends its statement."""

    def __init__(self, waiting: connection.Connection) -> None:
        self.waiting = waiting
        """The same connection with functions that wait."""

    async def sql(self, query: str, params: Parameters | None = None) -> Result:
        """Runs a statement to its end."""
        planned = await self.waiting._native.plan_async(query, params)
        return Result(await planned.start().collect_async())

    async def fetchall(self, query: str, params: Parameters | None = None) -> list[tuple[Any, ...]]:
        """Runs a statement, and returns its rows as tuples."""
        table = (await self.sql(query, params))._native
        rows: list[tuple[Any, ...]] = []
        while some := table.rows_behind(len(rows), _ROWS):
            rows += some
            await asyncio.sleep(0)
        return rows

    async def batches(self, query: str, params: Parameters | None = None) -> AsyncIterator[pyarrow.RecordBatch]:
        """Runs a statement, and gives its record batches as they are computed. The statement waits while the loop is
        busy."""
        import pyarrow

        planned = await self.waiting._native.plan_async(query, params)
        rows = planned.start()
        try:
            while (batch := await rows.next_async()) is not None:
                yield pyarrow.record_batch(batch)
        finally:
            rows.cancel()

    async def register(
        self,
        name: str,
        source: object,
        *,
        storage_options: Mapping[str, object] | None = None,
        options: Mapping[str, object] | None = None,
    ) -> None:
        """Makes `source` a table with this name; see `coscan.Connection.register`."""
        await asyncio.to_thread(self.waiting.register, name, source, storage_options=storage_options, options=options)

    async def attach(self, name: str, address: str) -> None:
        """Adds a catalog of lake tables; see `coscan.Connection.attach`."""
        await asyncio.to_thread(self.waiting.attach, name, address)

    async def deregister(self, name: str) -> None:
        """Forgets a table."""
        await asyncio.to_thread(self.waiting.deregister, name)

    async def tables(self) -> list[str]:
        """The names of the tables."""
        return await asyncio.to_thread(self.waiting.tables)

    async def stats(self) -> dict[str, Any]:
        """What the engine has done since its start."""
        return await asyncio.to_thread(self.waiting.stats)

    def close(self) -> None:
        """Closes the connection. Its engine ends after the statements that run."""
        self.waiting.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
