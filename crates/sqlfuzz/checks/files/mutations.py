"""Changes of footers that the format allows, or that readers must detect. The rows stay the same.

Each change is a function of the footer, dice, and the rows. It returns whether there was something to change.
Statistics are wrong only where a reader must not trust them: in a deprecated field, with an unknown order, or by a
writer with a known fault.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from .footer import Footer


@dataclass(frozen=True)
class Mutation:
    """A change. With `may_refuse`, an error is as right as the rows."""

    change: Callable[[Footer, random.Random, pa.Table], bool | None]
    may_refuse: bool = False
    weight: float = 2


MUTATIONS: dict[str, Mutation] = {}


def mutation(may_refuse: bool = False, weight: float = 2):
    """Registers a change under the name of its function."""

    def register(change):
        MUTATIONS[change.__name__] = Mutation(change, may_refuse, weight)
        return change

    return register


#: Changes for some types only, with the factor by which they are drawn more often for these.
OF_TYPES: dict[str, tuple[Callable[[pa.DataType], bool], float]] = {
    "nan_bounds": (pa.types.is_floating, 5),
    "zero_bounds": (pa.types.is_floating, 3),
    "cut_bounds": (lambda type: pa.types.is_string(type) or pa.types.is_binary(type), 2),
    "no_scale": (lambda type: pa.types.is_decimal(type) and type.scale == 0, 5),
    "legacy_names": (pa.types.is_nested, 4),
    "nothing_by_converted_type": (pa.types.is_null, 6),
}


def draw_mutations(draw: random.Random, schema: pa.Schema) -> tuple[tuple[str, int], ...]:
    names = list(MUTATIONS)
    chosen = draw.choices(names, [weight(name, schema) for name in names], k=draw.choice([0, 0, 0, 1, 1, 1, 2, 3]))
    return tuple((name, draw.randrange(1 << 30)) for name in dict.fromkeys(chosen))


def weight(name: str, schema: pa.Schema) -> float:
    allows, times = OF_TYPES.get(name, (lambda _: True, 1))
    return MUTATIONS[name].weight * times * any(allows(type) for type in schema.types)


def mutate(path, mutations, rows: pa.Table) -> list[str]:
    """Changes the footer of a file. Returns the names of the changes that found something to change."""
    if not mutations:
        return []
    footer, done = Footer(path), []
    for name, seed in mutations:
        if MUTATIONS[name].change(footer, random.Random(seed), rows) is not False:
            done.append(name)
    if done:
        footer.save()
    return done


def chosen_chunks(footer: Footer, draw: random.Random, of: Callable = lambda chunk, leaf: True) -> list:
    """Draws column chunks: all, those of a column, those of a row group, or any."""
    found = [(number, chunk, leaf) for number, chunk, leaf in footer.chunks() if of(chunk, leaf)]
    if not found:
        return []
    shape, one = draw.choice(["all", "all", "column", "group", "any"]), draw.choice(found)
    if shape == "column":
        return [each for each in found if each[2].at == one[2].at]
    if shape == "group":
        return [each for each in found if each[0] == one[0]]
    return [each for each in found if draw.random() < 0.5] or [one] if shape == "any" else found
