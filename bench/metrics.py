"""The quantities of the report, computed from times and counters of runs. Pure arithmetic.

They are those of Table 2 in "Cooperative Scans" (VLDB 2007) that every engine has, and the cost of a run in
bytes, CPU and memory.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from dataclasses import dataclass, field

from bench.results import Outcome
from bench.workload import Json, kinds_of

# Seconds of each kind of query alone.
Base = dict[str, float]


@dataclass(frozen=True)
class Cost:
    """The cost of a run from GO to DONE, and the number of processors that other programs kept busy in that time.

    Memory is a peak, of all resident memory and of memory without a file behind it.
    """

    bytes_read: float | None = None
    cpu_s: float | None = None
    rss_peak_bytes: float | None = None
    anonymous_peak_bytes: float | None = None
    others_cores: float | None = None


@dataclass(frozen=True)
class Measurement:
    """One run of a workload. A run with a failed query has a cost, but no times, because it did less work."""

    cost: Cost
    failed: int = 0
    stream_time_s: float | None = None
    normalised_latency: float | None = None
    slowdown: float | None = None
    total_time_s: float | None = None
    latency_s: float | None = None
    latency_max_s: float | None = None
    latencies_s: dict[str, list[float]] = field(default_factory=dict)


def measure(
    workload: Json, outcomes: dict[str, Outcome], cost: Cost, base: Base | None = None, own_base: Base | None = None
) -> Measurement:
    """Evaluates a run. Latencies are divided by `base`, slowdowns by `own_base`, if these are given."""
    failed = sum(outcome.error is not None for outcome in outcomes.values())
    if failed:
        return Measurement(cost, failed)
    stream_times = []
    for stream in workload["streams"]:
        ends = [outcomes[query["id"]].end_s for query in stream["queries"]]
        stream_times.append(max(ends) - stream["start_s"])
    latencies: dict[str, list[float]] = {}
    for query_id, kind in kinds_of(workload).items():
        latencies.setdefault(kind, []).append(outcomes[query_id].latency_s)
    everything = [latency for of_kind in latencies.values() for latency in of_kind]
    return Measurement(
        cost,
        stream_time_s=statistics.fmean(stream_times),
        normalised_latency=_relative(latencies, base),
        slowdown=_relative(latencies, own_base),
        total_time_s=max(outcome.end_s for outcome in outcomes.values()),
        latency_s=statistics.fmean(everything),
        latency_max_s=max(everything),
        latencies_s=latencies,
    )


def _relative(latencies: dict[str, list[float]], base: Base | None) -> float | None:
    """Returns the mean over queries of latency divided by base. None if a kind has no base."""
    if base is None or any(kind not in base for kind in latencies):
        return None
    return statistics.fmean(latency / base[kind] for kind, of_kind in latencies.items() for latency in of_kind)


@dataclass(frozen=True)
class Spread:
    """A quantity over several seeds."""

    median: float
    low: float
    high: float

    @staticmethod
    def of(values: Iterable[float | None]) -> Spread | None:
        """Returns the spread of the values. None if one is missing, because the other seeds do not replace it."""
        known = list(values)
        if not known or any(value is None for value in known):
            return None
        numbers = [value for value in known if value is not None]
        return Spread(statistics.median(numbers), min(numbers), max(numbers))


def ratios_to_best_other(values: dict[str, list[float | None]], families: dict[str, str]) -> dict[str, Spread | None]:
    """Returns every engine's value divided by the smallest value of an engine outside its family, seed by seed."""
    return {
        name: Spread.of(
            _ratio(own, [values[other][at] for other in values if families[other] != families[name]])
            for at, own in enumerate(of_seeds)
        )
        for name, of_seeds in values.items()
    }


def _ratio(own: float | None, others: list[float | None]) -> float | None:
    known = [other for other in others if other is not None and other > 0]
    return own / min(known) if own is not None and known else None
