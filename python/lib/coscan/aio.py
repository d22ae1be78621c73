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


class AsyncConnection:
    """An engine with its tables. Cancelling a task ends its statement."""

    def __init__(self, waiting: connection.Connection) -> None:
        self.waiting = waiting
        """The same connection with functions that wait: `register`, `tables`, `stats`."""

    async def sql(self, query: str, params: Parameters | None = None) -> Result:
        """Runs a statement to its end."""
        planned = await self.waiting._native.plan_async(query, params)
        return Result(await planned.start().collect_async())

    async def fetchall(self, query: str, params: Parameters | None = None) -> list[tuple[Any, ...]]:
        """Runs a statement, and returns its rows as tuples."""
        return (await self.sql(query, params)).fetchall()

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

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.waiting.close()
