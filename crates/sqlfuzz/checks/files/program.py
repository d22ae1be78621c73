"""The tested program: runs statements on `coscan sql` in several modes.

Answers come as Arrow files, so that values keep their types. The statements of a call run concurrently in one process.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from ..compare import Row
from .answers import rows

#: Time limit of a call, in seconds.
PATIENCE = 600

#: The error for data that Arrow files cannot hold.
ONE_DICTIONARY = "Dictionary replacement detected"

COOPERATIVE = ["--small-table-bytes", "0"]
PUSHDOWN = ["--set", "datafusion.execution.parquet.pushdown_filters=true"]
PARTITIONS = "datafusion.execution.target_partitions"

#: The program's options by the name of a mode. No mode changes an answer.
MODES: dict[str, list[str]] = {
    "default": [],
    "cooperative": COOPERATIVE,
    "pushdown": [*COOPERATIVE, *PUSHDOWN],
    "small pushdown": PUSHDOWN,
    "points": [*COOPERATIVE, "--point-threshold", "1000000"],
    "no points": [*COOPERATIVE, "--point-threshold", "0"],
    "ordered": [*COOPERATIVE, "--order-aware", "always"],
    "one partition": [*COOPERATIVE, "--set", f"{PARTITIONS}=1"],
    "three partitions": [*COOPERATIVE, *PUSHDOWN, "--set", f"{PARTITIONS}=3", "--set", "datafusion.execution.batch_size=16"],
    "small chunks": [*COOPERATIVE, "--chunk-size", "1KB", "--slice-rows", "16"],
    "no statistics": [*COOPERATIVE, "--set", "datafusion.execution.collect_statistics=false"],
}
#: DataFusion without coscan, for a further opinion.
PLAIN = ["--enabled", "false"]


class Refused(Exception):
    """An error of the program, in its words."""


Given = list[Row] | Refused


@dataclass(frozen=True)
class Program:
    path: Path

    def command(self, tables: Mapping[str, Path], options: Sequence[str], statements: Sequence[str]) -> list[str]:
        named = [word for name, place in tables.items() for word in ("-t", f"{name}={place}")]
        return [str(self.path), "sql", *options, *named, "--format", "csv", *(w for s in statements for w in ("-c", s))]

    def shown(self, tables: Mapping[str, Path], options: Sequence[str], statement: str) -> str:
        """Returns a command line that shows the answer."""
        return shlex.join(self.command(tables, options, [statement]))

    def ask(self, tables: Mapping[str, Path], options: Sequence[str], statements: Sequence[str]) -> list[Given]:
        """Answers concurrent statements. Statements without an answer are asked again alone, for the error."""
        with tempfile.TemporaryDirectory() as folder:
            places = [Path(folder) / f"{at}.arrow" for at in range(len(statements))]
            copies = [copy(at, statement, place) for at, (statement, place) in enumerate(zip(statements, places))]
            output, error = self.call(tables, options, copies)
            if len(statements) == 1:
                return [
                    self.ask_as_parquet(tables, options, statements[0])
                    if ONE_DICTIONARY in error
                    else Refused(error)
                    if error
                    else read(places[0])
                ]
            found = [read(place) if done(at) in output else None for at, place in enumerate(places)]
        return [
            self.ask(tables, options, [statement])[0] if answer is None or isinstance(answer, Refused) else answer
            for statement, answer in zip(statements, found)
        ]

    def ask_as_parquet(self, tables: Mapping[str, Path], options: Sequence[str], statement: str) -> Given:
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder) / "0.parquet"
            _, error = self.call(tables, options, [f"COPY ({statement}) TO '{place}' STORED AS PARQUET"])
            return Refused(error) if error else rows(pq.read_table(place)) if place.exists() else []

    def call(self, tables: Mapping[str, Path], options: Sequence[str], statements: Sequence[str]) -> tuple[str, str]:
        """Returns the program's output, and its error or nothing."""
        try:
            ended = subprocess.run(
                self.command(tables, options, statements),
                capture_output=True,
                timeout=PATIENCE,
                text=True,
                errors="replace",
                check=False,
            )
        except subprocess.TimeoutExpired:
            return "", f"no answer within {PATIENCE} s"
        if ended.returncode == 0:
            return ended.stdout, ""
        said = ended.stderr.strip().splitlines() or [f"status {ended.returncode}, after the output {ended.stdout[-200:]!r}"]
        return ended.stdout, said[-1].replace("statement 1: ", "")


def copy(at: int, statement: str, place: Path) -> str:
    """Returns statements that write the answer to a file. A failed one may leave a file, too, so a second statement
    marks it complete.
    """
    return f"COPY ({statement}) TO '{place}' STORED AS ARROW; SELECT '{done(at)}'"


def done(at: int) -> str:
    return f"done {at};"


def read(place: Path) -> Given:
    """Returns the rows of an answer. Without a row there may be no file."""
    if not place.exists():
        return []
    try:
        with pa.memory_map(str(place)) as data:
            return rows(pa.ipc.open_file(data).read_all())
    except (pa.ArrowException, KeyError) as error:
        return Refused(f"pyarrow does not read the answer: {error!r}")


def outline(error: Refused) -> str:
    """Returns an error's words, without names and numbers, by which errors are distinguished."""
    return "error: " + re.sub(r"\d+|'[^']*'|\"[^\"]*\"|\S*/\S*", "_", str(error))[:200]
