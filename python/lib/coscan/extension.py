"""Cooperative scans for programs that use the package `datafusion`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack

from . import _coscan
from .connection import Connection, connect
from .settings import Settings

if TYPE_CHECKING:
    from datafusion import SessionContext


class Extension:
    """Gives the queries of a `datafusion.SessionContext` cooperative scans, with one line:

        ctx = SessionContext().with_extensions(coscan.Extension())

    Queries that read Parquet tables are planned and run by coscan's engine; results, tables and functions are those of the
    session. Sessions that get the same extension, or extensions of one connection, share reads. What coscan cannot plan,
    for example a table in a format of another library, runs as before; `reason` says why.

    `connection` is an existing connection. Without it, an engine is started with `settings`, as by `coscan.connect`.

    Needs the package `datafusion` of the version 55.
    """

    def __init__(self, connection: Connection | None = None, **settings: Unpack[Settings]) -> None:
        self.connection = connection if connection is not None else connect(**settings)
        """The connection whose engine runs the queries."""
        self._native = _coscan.Extension(self.connection._native)

    @property
    def planned(self) -> int:
        """The number of queries that coscan has planned."""
        return self._native.counts()[0]

    @property
    def left(self) -> int:
        """The number of statements that were left to the session."""
        return self._native.counts()[1]

    @property
    def reason(self) -> str | None:
        """Why the last of these was left."""
        return self._native.counts()[2]

    def __datafusion_session_components__(self, ctx: SessionContext) -> Any:
        return self._native.__datafusion_session_components__(ctx)

    def __datafusion_session_planner__(self, ctx: SessionContext, fallback: Any) -> Any:
        return self._native.__datafusion_session_planner__(ctx, fallback)
