"""The columns that an expression may use, each with its text and its kind."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass

from .tables import KINDS


@dataclass(frozen=True)
class Scope:
    """Columns: the text of each, and its column of `KINDS`."""

    columns: tuple[tuple[str, str], ...]

    @staticmethod
    def of(*aliases: str, written: str = "{alias}.{column}") -> Scope:
        """Returns all columns of these relations."""
        return Scope(tuple((written.format(alias=alias, column=column), column) for alias in aliases for column in KINDS))

    def __add__(self, other: Scope) -> Scope:
        return Scope(self.columns + other.columns)

    def named(self, columns: Container[str] = KINDS) -> list[str]:
        """Returns the texts of the columns that are among these."""
        return [written for written, column in self.columns if column in columns]

    def from_inside(self) -> Scope:
        """Returns the outer columns that a subquery can use, whose own columns have the names of `KINDS`."""
        return Scope(tuple((written, column) for written, column in self.columns if written not in KINDS))
