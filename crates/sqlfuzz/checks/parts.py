"""SQL as text with nested parts. Some parts can be replaced by something simpler, which is how failures are shrunk."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Part:
    """Text made of pieces. If `simpler` is given, a query may remain a query with that in the part's place."""

    pieces: tuple[Part | str, ...]
    simpler: str | None = None

    def __str__(self) -> str:
        return "".join(map(str, self.pieces))


def part(*pieces: Part | str, simpler: str | None = None) -> Part:
    return Part(pieces, simpler)


def optional(*pieces: Part | str) -> Part:
    """Returns a part that may be left out."""
    return Part(pieces, "")


def listed(parts: list[Part], between: str = ", ") -> Part:
    """Returns a list of which all items but the first may be left out."""
    return part(parts[0], *(optional(between, other) for other in parts[1:]))


def smaller(whole: Part) -> Iterator[Part]:
    """Yields the part with one of its parts simplified, the largest first."""
    if whole.simpler is not None:
        yield part(whole.simpler)
    for at, piece in enumerate(whole.pieces):
        if isinstance(piece, Part):
            for less in smaller(piece):
                yield replace(whole, pieces=(*whole.pieces[:at], less, *whole.pieces[at + 1 :]))


@dataclass(frozen=True)
class Query:
    """A query, and an ORDER BY of all of its columns with a LIMIT, or nothing. With an order, the order of rows is compared."""

    body: Part
    order: Part | None = None

    def __str__(self) -> str:
        return f"{self.body}{self.order or ''}"

    def smaller(self) -> Iterator[Query]:
        """Yields the query without one of its parts."""
        if self.order:
            yield Query(self.body)
        for less in smaller(self.body):
            yield Query(less, self.order)


def shrink(query: Query, fails: Callable[[Query], bool], seconds: float) -> Query:
    """Leaves out parts while the query still fails and time is left."""
    end = time.monotonic() + seconds
    candidates = query.smaller()
    while time.monotonic() < end and (less := next(candidates, None)):
        if fails(less):
            query, candidates = less, less.smaller()
    return query
