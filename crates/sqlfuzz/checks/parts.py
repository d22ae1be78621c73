"""SQL as text with parts inside, some of which may give way to something simpler: this is how failures are made small."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Part:
    """Text made of pieces. If `simpler` is given, a query may still be a query with that in its place."""

    pieces: tuple[Part | str, ...]
    simpler: str | None = None

    def __str__(self) -> str:
        return "".join(map(str, self.pieces))


def part(*pieces: Part | str, simpler: str | None = None) -> Part:
    return Part(pieces, simpler)


def optional(*pieces: Part | str) -> Part:
    """A part that may be left out."""
    return Part(pieces, "")


def listed(parts: list[Part], between: str = ", ") -> Part:
    """A list, of which all but the first may be left out."""
    return part(parts[0], *(optional(between, other) for other in parts[1:]))


def smaller(whole: Part) -> Iterator[Part]:
    """The part with one part of it replaced by what is simpler, the largest first."""
    if whole.simpler is not None:
        yield part(whole.simpler)
    for at, piece in enumerate(whole.pieces):
        if isinstance(piece, Part):
            for less in smaller(piece):
                yield replace(whole, pieces=(*whole.pieces[:at], less, *whole.pieces[at + 1 :]))


@dataclass(frozen=True)
class Query:
    """A query, and an ORDER BY of all of its columns with a LIMIT, or nothing. With an order, that of the rows is compared."""

    body: Part
    order: Part | None = None

    def __str__(self) -> str:
        return f"{self.body}{self.order or ''}"

    def smaller(self) -> Iterator[Query]:
        """The query without one of its parts."""
        if self.order:
            yield Query(self.body)
        for less in smaller(self.body):
            yield Query(less, self.order)


def shrink(query: Query, fails: Callable[[Query], bool], seconds: float) -> Query:
    """Leaves out parts as long as the query fails without them, and time is left."""
    end = time.monotonic() + seconds
    candidates = query.smaller()
    while time.monotonic() < end and (less := next(candidates, None)):
        if fails(less):
            query, candidates = less, less.smaller()
    return query
