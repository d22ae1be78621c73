"""The runs and their order: parts, seeds, engines, and the time of each kind of query alone.

A part is a workload in a place. Every run has a process of its own, and the answers of all engines are compared.
"""

from __future__ import annotations

import os
import statistics
from dataclasses import dataclass, field
from pathlib import Path

from bench import limits, metrics, process, results, workload
from bench.engines import Engine
from bench.limits import Limits, NoLimits
from bench.metrics import Base, Cost, Measurement
from bench.process import Place
from bench.results import Outcome
from bench.setup import say
from bench.workload import Json, Table

PARTS = ("disk-mix", "cached-mix", "cached-dashboard", "disk-dashboard")
DEFAULT_PARTS = PARTS[:3]
PANELS = (1, 4, 16)
PANEL_DELAY_S = 0.3
MIX = "mix"
# Seconds between streams, and seconds of a cold F-100, in the paper.
PAPER_DELAY_S = 3.0
PAPER_F100_S = 20.37
# Repetitions of short queries for their base time.
BASE_REPETITIONS = 3


@dataclass(frozen=True)
class Options:
    """The options of the command line."""

    parts: tuple[str, ...]
    seeds: tuple[int, ...]
    streams: int
    queries: int
    threads: int
    time_limit_s: float
    limits: Limits
    read_ahead_kib: int
    own_base: bool


@dataclass
class Part:
    """The results of a part. `runs`: measurements per engine and seed, by the name of the workload."""

    name: str
    skipped: str | None = None
    base_engine: str | None = None
    base: Base = field(default_factory=dict)
    delay_s: float | None = None
    runs: dict[str, list[dict[str, Measurement]]] = field(default_factory=dict)
    # Failed queries and unfinished runs, as text.
    failures: list[str] = field(default_factory=list)


@dataclass
class Bench:
    """A whole comparison."""

    options: Options
    table: Table
    engines: list[Engine]
    parts: list[Part] = field(default_factory=list)
    # Answers that differ between engines, as text.
    differences: list[str] = field(default_factory=list)
    # Runs that did not finish for other reasons than lack of memory.
    breakdowns: list[str] = field(default_factory=list)
    _answers: dict[tuple[str, int], tuple[str, dict[str, Outcome]]] = field(default_factory=dict)

    def run(self) -> None:
        """Runs every part that can run here."""
        for name in self.options.parts:
            self.parts.append(self._part(name))
            self._answers.clear()

    @property
    def failed(self) -> bool:
        """Returns true if there are errors beyond slowness."""
        return bool(self.differences or self.breakdowns)

    def _part(self, name: str) -> Part:
        setting, shape = name.split("-")
        part = Part(name)
        place = Place(self.options.threads, self.options.time_limit_s)
        if setting == "cached":
            self._fill(part, place, shape)
            return part
        try:
            device = limits.require_limits(Path(self.table.files[0]))
        except NoLimits as reason:
            part.skipped = str(reason)
            say(f"{name}: skipped: {reason}")
            return part
        place = Place(self.options.threads, self.options.time_limit_s, device, self.options.limits)
        with limits.read_ahead(device, self.options.read_ahead_kib):
            self._fill(part, place, shape)
        return part

    def _fill(self, part: Part, place: Place, shape: str) -> None:
        workloads = self._mixes(part, place) if shape == "mix" else self._dashboards()
        for engine in self.engines:
            own_base = None
            if self.options.own_base and shape == "mix":
                own_base = self._base(part, engine, place)
            part.runs[engine.name] = [{} for _ in workloads]
            # An engine that hangs or dies once is not run again.
            broken = False
            for at, of_seed in enumerate(workloads):
                for key, content in of_seed.items():
                    if broken:
                        part.runs[engine.name][at][key] = Measurement(Cost(), _query_count(content))
                        continue
                    outcomes, cost = self._run(part, engine, content, place)
                    broken = outcomes is None
                    part.runs[engine.name][at][key] = (
                        Measurement(cost, _query_count(content))
                        if outcomes is None
                        else metrics.measure(content, outcomes, cost, part.base, own_base)
                    )

    def _mixes(self, part: Part, place: Place) -> list[dict[str, Json]]:
        options, first = self.options, self.engines[0]
        part.base = self._base(part, first, place)
        part.base_engine = first.name
        part.delay_s = part.base.get("F-100", PAPER_F100_S) * PAPER_DELAY_S / PAPER_F100_S
        return [
            {MIX: workload.mix(self.table, seed, options.streams, options.queries, part.delay_s)}
            for seed in options.seeds
        ]

    def _dashboards(self) -> list[dict[str, Json]]:
        return [
            {str(panels): workload.dashboard(self.table, seed, panels, PANEL_DELAY_S) for panels in PANELS}
            for seed in self.options.seeds
        ]

    def _base(self, part: Part, engine: Engine, place: Place) -> Base:
        """Returns the time of each kind alone in a fresh process: the median of its repetitions."""
        base: Base = {}
        say(f"{engine.name}: {part.name}: every kind of query alone")
        for kind in workload.KINDS:
            repetitions = BASE_REPETITIONS if int(kind.split("-")[1]) <= 10 else 1
            seconds = []
            for repetition in range(repetitions):
                outcomes, _ = self._run(part, engine, workload.alone(self.table, kind, repetition), place)
                if outcomes is None:
                    return base
                seconds += [outcome.latency_s for outcome in outcomes.values() if outcome.error is None]
            if seconds:
                base[kind] = statistics.median(seconds)
        return base

    def _run(self, part: Part, engine: Engine, content: Json, place: Place) -> tuple[dict[str, Outcome] | None, Cost]:
        """Does one run, compares its answers, and records its failures."""
        what = f"{part.name}, {content['name']}, seed {content['seed']}"
        run = process.run(engine, content, place)
        if run.failure is not None:
            text = f"{engine.name}: {what}: {run.failure}"
            say(text)
            part.failures.append(text)
            if not run.out_of_memory:
                self.breakdowns.append(text)
            return None, run.cost
        if len(run.outcomes) > 1:
            say(f"{engine.name}: {what}: {max(outcome.end_s for outcome in run.outcomes.values()):.1f} s")
        errors = [outcome.error for outcome in run.outcomes.values() if outcome.error is not None]
        if errors:
            part.failures.append(f"{engine.name}: {what}: {len(errors)} queries failed: {errors[0]}")
        self._compare(engine, content, run.outcomes, what)
        return run.outcomes, run.cost

    def _compare(self, engine: Engine, content: Json, outcomes: dict[str, Outcome], what: str) -> None:
        key = (content["name"], content["seed"])
        other, expected = self._answers.setdefault(key, (engine.name, {}))
        for difference in results.differences(expected, outcomes):
            text = f"{engine.name} answers otherwise than {other}: {what}: {difference}"
            say(text)
            self.differences.append(text)
        for query_id, outcome in outcomes.items():
            if outcome.rows is not None:
                expected.setdefault(query_id, outcome)


def usable_threads() -> int:
    """Returns the number of processors that this program may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _query_count(content: Json) -> int:
    return sum(len(stream["queries"]) for stream in content["streams"])
