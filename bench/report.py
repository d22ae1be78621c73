"""The comparison as text tables and as JSON. Nothing is measured or decided here."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from bench.metrics import Measurement, Spread, ratios_to_best_other
from bench.plan import MIX, PANELS, Bench, Part
from bench.workload import KINDS

SeedRuns = dict[str, Measurement]


@dataclass(frozen=True)
class Column:
    """A quantity of every engine. `of` takes the runs of one seed. Tables divide the quantity by `unit`.

    `compared_on`: the settings in which ratios are meaningful. From the page cache, for example, almost nothing
    is read.
    """

    key: str
    title: str
    of: Callable[[SeedRuns], float | None]
    digits: int = 2
    unit: float = 1.0
    compared_on: tuple[str, ...] = ("disk", "cached")


def _costs(prefix: str, run: str) -> list[Column]:
    return [
        Column(f"{prefix}bytes_read", "read MB", lambda runs: runs[run].cost.bytes_read, 0, 1e6, compared_on=("disk",)),
        Column(f"{prefix}cpu_s", "CPU s", lambda runs: runs[run].cost.cpu_s, 1),
        Column(f"{prefix}rss_peak_bytes", "RSS MB", lambda runs: runs[run].cost.rss_peak_bytes, 0, 1e6),
        Column(f"{prefix}anonymous_peak_bytes", "own MB", lambda runs: runs[run].cost.anonymous_peak_bytes, 0, 1e6),
        Column(f"{prefix}others_cores", "others", lambda runs: runs[run].cost.others_cores, 1, compared_on=()),
    ]


# If other programs keep more processors busy, ratios are unreliable.
OTHERS_CORES_MAX = 0.2


MIX_COLUMNS = [
    Column("stream_time_s", "stream s", lambda runs: runs[MIX].stream_time_s),
    Column("normalised_latency", "norm. latency", lambda runs: runs[MIX].normalised_latency),
    Column("total_time_s", "total s", lambda runs: runs[MIX].total_time_s),
    *_costs("", MIX),
]
SLOWDOWN = Column("slowdown", "own slowdown", lambda runs: runs[MIX].slowdown)


def _of_panels(panels: int) -> Column:
    return Column(f"latency_s_{panels}", f"latency s, {panels}", lambda runs: runs[str(panels)].latency_s)


def _growth(runs: SeedRuns) -> float | None:
    few, many = runs[str(PANELS[0])].latency_s, runs[str(PANELS[-1])].latency_s
    return many / few if few and many else None


DASHBOARD_COLUMNS = [
    *(_of_panels(panels) for panels in PANELS),
    Column(f"latency_{PANELS[-1]}_by_{PANELS[0]}", f"{PANELS[-1]} by {PANELS[0]}", _growth),
    *_costs(f"{PANELS[-1]}_", str(PANELS[-1])),
]


def columns(bench: Bench, part: Part) -> list[Column]:
    """Returns the quantities of a part, in the order of its table."""
    if part.name.endswith("dashboard"):
        return DASHBOARD_COLUMNS
    if bench.options.own_base:
        return [*MIX_COLUMNS[:2], SLOWDOWN, *MIX_COLUMNS[2:]]
    return MIX_COLUMNS


def to_text(bench: Bench, left_out: dict[str, str]) -> str:
    """Returns the report as text."""
    options, table = bench.options, bench.table
    count = len(options.seeds)
    seeds = f"seed {options.seeds[0]}" if count == 1 else f"{count} seeds: medians (and ranges)"
    lines = [
        f"lineitem {table.size_bytes / 1e6:.0f} MB, {table.rows} rows; {options.threads} threads; {seeds}",
        *(f"Left out: {name}: {why}" for name, why in left_out.items()),
    ]
    for part in bench.parts:
        lines += ["", *_part_text(bench, part)]
    if bench.differences:
        lines += ["", "THE ENGINES DO NOT AGREE", *bench.differences]
    elif len(bench.engines) > 1:
        lines += ["", "All engines that answered gave the same answers."]
    return "\n".join(lines) + "\n"


def _part_text(bench: Bench, part: Part) -> list[str]:
    if part.skipped is not None:
        return [f"== {part.name}: skipped: {part.skipped}"]
    lines = [f"== {part.name}: {_describe(bench, part)}", ""]
    shown = columns(bench, part)
    rows = [["", *(column.title for column in shown), "failed"]]
    for name, runs in part.runs.items():
        cells = [_cell(Spread.of(map(column.of, runs)), column.digits, column.unit) for column in shown]
        rows.append([name, *cells, str(_failed(runs))])
    lines += [*_aligned(rows), "", "Relative to the best other engine (below 1: better than all of them)", ""]
    compared = [column for column in shown if _comparable(part, column)]
    rows = [["", *(column.title for column in compared)]]
    ratios = [_ratios(bench, part, column) for column in compared]
    rows += [[name, *(_cell(of_column[name], 2) for of_column in ratios)] for name in part.runs]
    lines += _aligned(rows)
    if part.base:
        lines += ["", "Average latency by kind of query (s)", "", *_aligned(_latencies(part))]
    if _disturbed(part):
        lines += ["", 'THE MACHINE WAS BUSY with other programs (processors: column "others"): times say little.']
    return lines + (["", *part.failures] if part.failures else [])


def _disturbed(part: Part) -> bool:
    costs = [measurement.cost for runs in part.runs.values() for run in runs for measurement in run.values()]
    return any((cost.others_cores or 0) > OTHERS_CORES_MAX for cost in costs)


def _describe(bench: Bench, part: Part) -> str:
    options = bench.options
    if part.name.startswith("disk"):
        where = (
            f"reads limited to {options.limits.read_bytes_per_s / 1e6:.0f} MB/s, memory with page cache to "
            f"{options.limits.memory_bytes / 1e6:.0f} MB, page cache empty at the start"
        )
    else:
        where = "everything in the page cache"
    if part.delay_s is None:
        return f"{', '.join(map(str, PANELS))} full scans at once; {where}"
    return (
        f"{options.streams} streams of {options.queries} queries, {part.delay_s:.2f} s apart; {where}; "
        f"latencies are normalised by the query alone on {part.base_engine}"
    )


def _comparable(part: Part, column: Column) -> bool:
    return part.name.split("-")[0] in column.compared_on


def _ratios(bench: Bench, part: Part, column: Column) -> dict[str, Spread | None]:
    families = {engine.name: engine.family for engine in bench.engines}
    return ratios_to_best_other({name: [column.of(run) for run in runs] for name, runs in part.runs.items()}, families)


def _latencies(part: Part) -> list[list[str]]:
    rows = [["", *KINDS], ["alone", *(_number(part.base.get(kind), 2) for kind in KINDS)]]
    for name, runs in part.runs.items():
        rows.append([name, *(_number(_latency(runs, kind), 2) for kind in KINDS)])
    return rows


def _latency(runs: Sequence[SeedRuns], kind: str) -> float | None:
    seconds = [latency for run in runs for m in run.values() for latency in m.latencies_s.get(kind, [])]
    return statistics.fmean(seconds) if seconds else None


def _failed(runs: Sequence[SeedRuns]) -> int:
    return sum(measurement.failed for run in runs for measurement in run.values())


def _number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def _cell(spread: Spread | None, digits: int, unit: float = 1.0) -> str:
    if spread is None:
        return "-"
    median, low, high = (f"{value / unit:.{digits}f}" for value in (spread.median, spread.low, spread.high))
    return median if low == high else f"{median} ({low}-{high})"


def _aligned(rows: list[list[str]]) -> list[str]:
    """Formats rows, with the first column left-aligned and the others right-aligned."""
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    return [
        "  ".join([row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:]))])
        for row in rows
    ]


def to_json(bench: Bench, left_out: dict[str, str]) -> dict[str, Any]:
    """Returns the report as JSON. All units are bytes and seconds."""
    options = bench.options
    return {
        "scenario": "bench-side-by-side",
        "seeds": list(options.seeds),
        "streams": options.streams,
        "queries": options.queries,
        "threads": options.threads,
        "table": {"rows": bench.table.rows, "bytes": bench.table.size_bytes},
        "limits": {
            "memory_bytes": options.limits.memory_bytes,
            "read_bytes_per_s": options.limits.read_bytes_per_s,
            "read_ahead_kib": options.read_ahead_kib,
        },
        "left_out": left_out,
        "parts": {part.name: _part_json(bench, part) for part in bench.parts},
        "differences": bench.differences,
        "breakdowns": bench.breakdowns,
    }


def _part_json(bench: Bench, part: Part) -> dict[str, Any]:
    if part.skipped is not None:
        return {"skipped": part.skipped}
    engines: dict[str, Any] = {name: {"failed": _failed(runs)} for name, runs in part.runs.items()}
    for column in columns(bench, part):
        ratios = _ratios(bench, part, column) if _comparable(part, column) else {}
        for name, runs in part.runs.items():
            engines[name][column.key] = _spread_json(Spread.of(map(column.of, runs)))
            engines[name].setdefault("ratio_to_best_other", {})[column.key] = _spread_json(ratios.get(name))
    for name, runs in part.runs.items():
        latencies = {kind: _latency(runs, kind) for kind in KINDS}
        engines[name]["latency_s"] = {kind: value for kind, value in latencies.items() if value is not None}
    return {
        "base_engine": part.base_engine,
        "base_s": part.base,
        "delay_s": part.delay_s,
        "engines": engines,
        "failures": part.failures,
        "disturbed": _disturbed(part),
    }


def _spread_json(spread: Spread | None) -> dict[str, float] | None:
    return None if spread is None else {"median": spread.median, "min": spread.low, "max": spread.high}
