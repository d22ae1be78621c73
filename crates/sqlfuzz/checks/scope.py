"""The columns that an expression may use, each as it is written, and what it is."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass

from .tables import KINDS


@dataclass(frozen=True)
class Scope:
    """Columns: how each is written, and which column of `KINDS` it is one of."""

    columns: tuple[tuple[str, str], ...]

    @staticmethod
    def of(*aliases: str, written: str = "{alias}.{column}") -> Scope:
        """All columns of these relations."""
        return Scope(tuple((written.format(alias=alias, column=column), column) for alias in aliases for column in KINDS))

    def __add__(self, other: Scope) -> Scope:
        return Scope(self.columns + other.columns)

    def named(self, columns: Container[str] = KINDS) -> list[str]:
        """How the columns that are one of these are written."""
        return [written for written, column in self.columns if column in columns]

    def from_inside(self) -> Scope:
        """What a subquery can speak of, whose own columns have the names of `KINDS`."""
        return Scope(tuple((written, column) for written, column in self.columns if written not in KINDS))
