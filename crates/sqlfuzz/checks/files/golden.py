"""Small files of writers in separate programs, kept in `golden/`. They are read without those programs.

    python3 -m checks.files --write-golden          # writes them again, by the writers that are built: see `writers_apart.py`

A case is one of them with statements. Every other seed also changes its footer.
"""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from .case import MODES_OF_SEED, Case, values_of
from .kinds import KINDS
from .mutations import draw_mutations
from .program import MODES
from .questions import Questions
from .tables import File, Table
from .writers_apart import built, draw_options, write

FOLDER = Path(__file__).parent / "golden"
ROWS = 120
#: Kinds of columns of the files, as far as their writer supports them.
COLUMNS = {
    "s": "text",
    "n": "int32",
    "u": "uint32",
    "f": "float64",
    "m": "decimal 18",
    "w": "decimal 38",
    "t": "us",
    "d": "date",
    "o": "bool",
}


def cases(seeds: range, statements: int, modes) -> list[Case]:
    """Returns a case for each seed, with the files in turn."""
    paths, found = sorted(FOLDER.glob("*.parquet")), []
    for seed in seeds:
        path, draw = paths[seed % len(paths)], random.Random(f"golden {seed}")
        read = pq.ParquetFile(path, coerce_int96_timestamp_unit="us").read()
        changes = draw_mutations(draw, read.schema) if seed >= len(paths) else ()
        file = File("0.parquet", read, (read.num_rows,), "kept", {"path": str(path)}, changes)
        table = Table(f"g{seed}", read.schema, (file,), "0.parquet")
        questions = Questions(draw, table, values_of(table), table).drawn(statements)
        chosen = tuple(modes or ["default", "cooperative", *draw.sample(list(MODES)[2:], MODES_OF_SEED - 2)])
        found.append(Case(f"{seed}-{path.stem}", (table,), tuple(questions), chosen))
    return found


def write_all() -> None:
    FOLDER.mkdir(exist_ok=True)
    for name in built():
        draw = random.Random(name)
        values = {column: draw_column(draw, KINDS[kind]) for column, kind in COLUMNS.items()}
        values["i"] = pa.array(range(ROWS), pa.int64())
        options = draw_options(draw, name)
        options |= (
            {"row_group_size": 40}
            if name.startswith("pyarrow")
            else {"group": 40, "page": 1024 if name == "parquet-go" else 64, "codec": "SNAPPY"}
        )
        while True:
            try:
                path = FOLDER / f"{name.replace(' ', '-')}.parquet"
                path.unlink(missing_ok=True)
                write(path, File("", pa.table(values), (ROWS,), name, options))
                (FOLDER / f".{path.name}.crc").unlink(missing_ok=True)
                break
            except ValueError as error:
                # Old writers lack some types.
                print(f"{name}: {error}")
                del values[next(column for column in ("t", "w", "m", "d", "u", "f", "o") if column in values)]
        print(f"{name}: {', '.join(values)}, {path.stat().st_size} bytes")


def draw_column(draw: random.Random, kind) -> pa.Array:
    pool = [value for value in kind.pool(draw) if not isinstance(value, str) or len(value) < 100]
    return pa.array([None if draw.random() < 0.2 else draw.choice(pool) for _ in range(ROWS)], kind.type)
