"""The run of a seed: draws and writes tables, and runs statements on coscan in several modes and on the oracle.

Several seeds run at a time, because the start of the program takes longer than a statement.
"""

from __future__ import annotations

import random
import shutil
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa

from ..compare import Answer, difference
from . import legacy_types
from .answers import plain_column
from .kinds import COSCAN
from .mutations import MUTATIONS, mutate
from .oracle import Oracle, column_of, plain_type, read_rows, united
from .program import MODES, PLAIN, Given, Program, Refused, outline
from .questions import Question, Questions
from .tables import File, Table, draw_table
from .writers import KEPT, PYARROW, write, write_plainly

STATEMENTS = 16
#: Modes per seed, drawn from all.
MODES_OF_SEED = 4

RIGHT, WRONG = "right", "wrong"


@dataclass(frozen=True)
class Case:
    """Tables and statements over them."""

    seed: int | str
    tables: tuple[Table, ...]
    questions: tuple[Question, ...]
    modes: tuple[str, ...]


@dataclass
class World:
    """A case with its files written. With `may_refuse`, an error is as right as the rows."""

    case: Case
    folder: Path
    places: dict[str, Path]
    done: list[str]
    may_refuse: bool


@dataclass
class Failure:
    """A statement that was answered wrongly in a mode."""

    case: Case
    question: Question
    mode: str
    kind: str
    wanted: Answer
    given: Given
    changes: list[str] = field(default_factory=list)


def draw_case(seed: int, statements: int = STATEMENTS, modes: Sequence[str] | None = None, without: Sequence[str] = ()) -> Case:
    """Draws a seed. `without` leaves out changes of footers by name; everything else is drawn the same."""
    draw = random.Random(seed)
    table = draw_table(draw, f"t{seed}")
    tables = (table, draw_table(draw, f"u{seed}")) if draw.random() < 0.3 else (table,)
    other = tables[-1] if draw.random() < 0.5 or len(tables) > 1 else None
    questions = Questions(draw, table, values_of(table), other).drawn(statements)
    chosen = tuple(modes or ["default", "cooperative", *draw.sample(list(MODES)[2:], MODES_OF_SEED - 2)])
    return Case(seed, tuple(unchanged(table, without) for table in tables), tuple(questions), chosen)


def unchanged(table: Table, without: Sequence[str]) -> Table:
    files = [replace(file, mutations=tuple(one for one in file.mutations if one[0] not in without)) for file in table.files]
    return replace(table, files=tuple(files))


def values_of(table: Table) -> dict[str, list]:
    """Returns the values of each column, for constants."""
    found: dict[str, list] = {field.name: [] for field in table.schema}
    for file in table.files:
        for name, column in zip(file.rows.schema.names, file.rows.columns):
            if name in found:
                found[name] += stored(column)
    return found


def stored(column: pa.ChunkedArray) -> list:
    """Returns the values as `Kind.pool` draws them: times are integers."""
    type = column.type
    if pa.types.is_dictionary(type):
        column = column.cast(type.value_type)
    if pa.types.is_timestamp(type):
        return column.cast(pa.int64()).to_pylist()
    if pa.types.is_date(type) or pa.types.is_time32(type):
        return column.cast(pa.int32()).to_pylist()
    return column.cast(pa.int64()).to_pylist() if pa.types.is_time64(type) else column.to_pylist()


def build(case: Case, folder: Path, oracle: Oracle) -> World:
    """Writes the files, gives the rows to the oracle, and changes the footers."""
    # An interrupted run leaves its files.
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    places, done, may_refuse = {}, [], False
    for table in case.tables:
        parts = []
        for file in table.files:
            path = folder / table.name / file.path
            write(path, file)
            if not is_as_meant(path, file, len(table.files) > 1):
                write_plainly(path, file.rows)
            parts.append(read_rows(path, file))
            changed = mutate(path, file.mutations, parts[-1])
            done += changed
            may_refuse |= any(MUTATIONS[name].may_refuse for name in changed)
        for decoy in table.decoys:
            write(folder / table.name / decoy.path, replace(decoy, writer=PYARROW, options={}))
        oracle.put(table.name, united(table, parts))
        places[table.name] = folder / table.name / table.location if table.location else folder / table.name
    return World(case, folder, places, done, may_refuse)


def is_as_meant(path: Path, file: File, is_one_of_several: bool = False) -> bool:
    """Returns whether the file has the intended rows before its footer is changed. Some writers lack a type and write
    another. pyarrow 26 does not read all that it writes: a map in pages of a few bytes may lack its last row.

    Files of one table may have types that differ only in width.
    """
    if file.writer == KEPT or legacy_types.is_needed(file.rows.schema):
        return True
    try:
        read = read_rows(path, file)
        columns = [column_of(read, field) for field in file.rows.schema]
        if is_one_of_several and not all(
            same_family(read.schema.field(field.name).type, field.type) for field in file.rows.schema
        ):
            return False
        if file.writer == PYARROW:
            return True
        wanted = [plain_type(column, column.type) for column in file.rows.columns]
        return all(plain_column(one) == plain_column(other) for one, other in zip(wanted, columns))
    except (pa.ArrowException, OSError, ValueError):
        return False


def same_family(one: pa.DataType, other: pa.DataType) -> bool:
    """Returns whether one type holds the values of the other."""
    return family(one) == family(other)


def family(type: pa.DataType) -> str:
    if pa.types.is_dictionary(type):
        return family(type.value_type)
    names = ["signed_integer", "unsigned_integer", "floating", "decimal", "timestamp", "time", "date", "large_string", "string"]
    known = next((name for name in names if getattr(pa.types, f"is_{name}")(type)), str(type))
    return known.removeprefix("large_")


def judge(world: World, question: Question, wanted: Answer, given: Given) -> str:
    """Returns the outcome of a statement."""
    if isinstance(given, Refused):
        is_overflow = "sum(" in question.text() and "verflow" in str(given)
        return "refused, as it may be" if world.may_refuse or is_overflow else outline(given)
    return WRONG if difference(wanted, given) else RIGHT


def is_failure(outcome: str) -> bool:
    return outcome == WRONG or outcome.startswith("error: ")


class Player:
    """Runs seeds with a program."""

    def __init__(self, program: Program, folder: Path):
        self.program, self.folder, self.oracle = program, folder, Oracle()
        self.outcomes: Counter[str] = Counter()

    def play(self, cases: Sequence[Case]) -> list[Failure]:
        """Runs all statements of the cases in all of their modes. Keeps files only of failures."""
        worlds = [build(case, self.folder / str(case.seed), self.oracle) for case in cases]
        answers = {case.seed: [self.oracle.answer(question) for question in case.questions] for case in cases}
        failures: list[Failure] = []
        for mode in MODES:
            there = [world for world in worlds if mode in world.case.modes]
            if there:
                failures += self.play_mode(there, mode, answers)
        failed = {failure.case.seed for failure in failures}
        for world in worlds:
            for table in world.case.tables:
                self.oracle.drop(table.name)
            if world.case.seed not in failed:
                shutil.rmtree(world.folder)
        return failures

    def play_mode(self, worlds: list[World], mode: str, answers: dict[int | str, list]) -> list[Failure]:
        asked = [
            (world, question, wanted)
            for world in worlds
            for question, wanted in zip(world.case.questions, answers[world.case.seed])
            if self.is_asked(wanted)
        ]
        given = self.ask(worlds, MODES[mode], [question.text(COSCAN) for _, question, _ in asked], asked)
        failures = []
        for (world, question, wanted), answer in zip(asked, given):
            outcome = judge(world, question, wanted, answer)
            self.outcomes[outcome] += 1
            if is_failure(outcome):
                failures.append(Failure(world.case, question, mode, outcome, wanted, answer, world.done))
        return failures

    def is_asked(self, wanted: Answer | str) -> bool:
        if isinstance(wanted, str):
            self.outcomes[wanted] += 1
        return not isinstance(wanted, str)

    def ask(self, worlds: list[World], options: list[str], statements: list[str], asked: list) -> list[Given]:
        """Asks all questions concurrently; table by table, if one table cannot be opened."""
        places = {name: place for world in worlds for name, place in world.places.items()}
        error = self.program.call(places, options, ["SELECT 1"])[1] if len(worlds) > 1 else ""
        if not error:
            return self.program.ask(places, options, statements) if statements else []
        given: list[Given] = []
        for world in worlds:
            of_world = [text for text, (owner, _, _) in zip(statements, asked) if owner is world]
            error = self.program.call(world.places, options, ["SELECT 1"])[1]
            given += [Refused(error)] * len(of_world) if error else self.program.ask(world.places, options, of_world)
        return given

    def outcome(self, case: Case, question: Question, options: Sequence[str]) -> tuple[str, Answer | None, Given]:
        """Returns the outcome of one statement over files written again, without other statements beside it."""
        folder = self.folder / "again"
        shutil.rmtree(folder, ignore_errors=True)
        world = build(case, folder, self.oracle)
        wanted = self.oracle.answer(question)
        if isinstance(wanted, str):
            return wanted, None, []
        given = self.program.ask(world.places, options, [question.text(COSCAN)])[0]
        return judge(world, question, wanted, given), wanted, given


def options_of(mode: str) -> list[str]:
    return PLAIN if mode == "plain" else MODES[mode]
