"""A failure as text: the statement, the files, the right answer, the answers of coscan and of others, and how to repeat it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from ..compare import difference, without_order
from .answers import rows
from .case import Case, Failure, Player, build, is_failure, judge, options_of
from .kinds import COSCAN
from .oracle import united
from .program import MODES, PLAIN, Refused
from .shrink import shrink
from .tables import Table

SHRINK_SECONDS = 30


def reported(failure: Failure, player: Player, seconds: float = SHRINK_SECONDS) -> str:
    """Describes the failure, shrunk if it occurs without other statements."""
    case, question, options = failure.case, failure.question, options_of(failure.mode)

    def fails(less: Case) -> bool:
        return player.outcome(less, question, options)[0] == failure.kind

    alone = any(fails(case) for _ in range(3))
    beside = "" if alone else " (only beside other statements)"
    small = shrink(case, question, fails, seconds) if alone else case
    folder = player.folder / f"{case.seed}-{failure.mode.replace(' ', '-')}-{case.questions.index(question)}"
    shutil.rmtree(folder, ignore_errors=True)
    world = build(small, folder, player.oracle)
    wanted = player.oracle.answer(question)
    given = player.program.ask(world.places, options, [question.text(COSCAN)])[0]
    if given is None or isinstance(wanted, str):
        wanted, given = failure.wanted, failure.given
    lines = [
        f"seed {case.seed}, {question.kind}, mode {failure.mode}{beside}: {failure.kind}",
        f"statement: {short(question.text(COSCAN))}",
        f"run: {short(player.program.shown(world.places, options, question.text(COSCAN)), 600)}",
        str(given)
        if isinstance(given, Refused)
        else str(difference(wanted, given) or "the small case is right this time").replace("DuckDB", "right"),
        f"files: {'; '.join(described(table) for table in small.tables)}",
        f"others: {others(failure, player, world, small)}",
    ]
    return "\n  ".join(short(line, 1200) for line in lines)


def short(text: str, most: int = 400) -> str:
    return text if len(text) <= most else f"{text[: most // 2]} .. {text[-most // 2 :]}"


def described(table: Table) -> str:
    files = []
    for file in table.files:
        order = f", sorted by {file.order.column}{', claimed' if file.order.is_claimed else ''}" if file.order else ""
        changes = f", {'+'.join(name for name, _ in file.mutations)}" if file.mutations else ""
        types = ", ".join(f"{field.name} {field.type}" for field in file.rows.schema)
        files.append(
            f"{file.path} ({types}) by {file.writer} {short(str(file.options), 300)}, "
            f"groups {short(str(list(file.groups)), 60)}{order}{changes}"
        )
    return " | ".join(files)


def others(failure: Failure, player: Player, world, case: Case) -> str:
    """Describes the answer of plain DataFusion, and whether other readers read these rows from the files."""
    question = failure.question
    wanted = player.oracle.answer(question)
    words = []
    if not isinstance(wanted, str):
        given = player.program.ask(world.places, PLAIN, [question.text(COSCAN)])[0]
        plain = "refuses" if isinstance(given, Refused) else "wrong" if difference(wanted, given) else "right"
        answers = {name: player.program.ask(world.places, MODES[name], [question.text(COSCAN)])[0] for name in MODES}
        modes = [name for name, given in answers.items() if is_failure(judge(world, question, wanted, given))]
        words.append(
            f"plain DataFusion: {plain}; fails in "
            f"{'every mode' if len(modes) == len(MODES) else ', '.join(modes) or 'no mode alone'}"
        )
    for name, read in READERS.items():
        words.append(f"{name}: {opinion(read, world, case, player)}")
    return "; ".join(words)


def by_pyarrow(path: Path, _file) -> pa.Table:
    return pq.ParquetFile(path, coerce_int96_timestamp_unit="us").read()


def by_duckdb(path: Path, _file) -> pa.Table:
    import duckdb

    with duckdb.connect(config={"threads": 1}) as database:
        quoted = str(path).replace("'", "''")
        return database.execute(f"FROM read_parquet('{quoted}', hive_partitioning = false)").fetch_arrow_table()


def by_polars(path: Path, _file) -> pa.Table:
    import polars

    with open(path, "rb") as data:
        return polars.read_parquet(data).to_arrow()


READERS = {"pyarrow": by_pyarrow, "DuckDB": by_duckdb, "polars": by_polars}


def opinion(read, world, case: Case, player: Player) -> str:
    """Returns whether a reader reads the intended rows of all files."""
    for table in case.tables:
        parts = []
        for file in table.files:
            path = world.folder / table.name / file.path
            try:
                parts.append(read(path, file))
            except BaseException as error:
                # Readers fail in many ways. A panic of polars raises something that is no `Exception`.
                if isinstance(error, KeyboardInterrupt):
                    raise
                return f"fails ({str(error).splitlines()[0][:80] if str(error) else type(error).__name__})"
        names = ", ".join(f'"{name}"' for name in table.schema.names)
        try:
            wanted = rows(player.oracle.database.execute(f"SELECT {names} FROM {table.name}").fetch_arrow_table())
            if difference(without_order(wanted), rows(united(table, parts).select(table.schema.names))):
                return "reads other rows"
        except Exception as error:
            return f"cannot be compared ({str(error).splitlines()[0][:80]})"
    return "same rows"
