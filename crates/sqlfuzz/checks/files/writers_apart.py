"""Writers in separate programs: parquet-java and pyarrow in old versions, and Go's.

    python3 -m checks.files --build-writers          # builds what can be built here: needs Maven and a JDK, Go, old Pythons

Each runs as a process that takes jobs, a line each, and answers with a line. Writers that are not built are not drawn.
`make files-test` does not need them and reads their files from `golden/`.
"""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa

from . import legacy_types
from .environment import TARGET

SOURCES = Path(__file__).parent / "foreign"
BUILT = TARGET / "files-writers"

JAVA = ["1.8.1", "1.10.1", "1.12.3", "1.16.0"]
#: Versions of pyarrow, each with a version of Python for which it has packages.
OLD_PYARROW = {"0.9.0": "3.6", "0.17.1": "3.7", "1.0.1": "3.7", "3.0.0": "3.7", "4.0.1": "3.8", "5.0.0": "3.8", "8.0.0": "3.8"}
GO = ["arrow-go", "parquet-go"]
NAMES = [f"java {version}" for version in JAVA] + [f"pyarrow {version}" for version in OLD_PYARROW] + GO


def command(name: str) -> list[str] | None:
    """Returns the command of the writer, if it is built."""
    if name in GO:
        program = BUILT / "go" / "rows"
        return [str(program)] if program.exists() else None
    if name.startswith("java"):
        place = BUILT / name.replace(" ", "-")
        if not (place / "Rows.class").exists():
            return None
        return ["java", "-Xshare:auto", "-cp", f"{place}:{(place / 'classpath').read_text().strip()}", "Rows"]
    python = BUILT / name.replace(" ", "-") / "bin" / "python"
    return [str(python), str(SOURCES / "old_pyarrow.py")] if python.exists() else None


def built() -> list[str]:
    return [name for name in NAMES if command(name)]


class Writers:
    """The running processes."""

    def __init__(self) -> None:
        self.running: dict[str, subprocess.Popen] = {}

    def job(self, name: str, line: str) -> None:
        """Lets the writer write a file, or raises its error."""
        if name not in self.running or self.running[name].poll() is not None:
            self.running[name] = subprocess.Popen(
                command(name), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
            )
        process = self.running[name]
        process.stdin.write(line + "\n")
        process.stdin.flush()
        answer = process.stdout.readline().strip()
        if answer != "written":
            raise ValueError(f"{name}: {answer or 'ended'}")


WRITERS = Writers()


def with_writers_apart(case, names: list[str]):
    """Returns the case with other writers in place of pyarrow."""

    def other(table, file):
        draw = random.Random(f"{case.seed}/{table.name}/{file.path}")
        if file.writer != "pyarrow" or legacy_types.is_needed(file.rows.schema) or draw.random() < 0.1:
            return file
        name = draw.choice(names)
        return replace(file, writer=name, options=draw_options(draw, name), order=None)

    tables = [replace(table, files=tuple(other(table, file) for file in table.files)) for table in case.tables]
    return replace(case, tables=tuple(tables))


def draw_options(draw: random.Random, name: str) -> dict:
    codec = draw.choice(["UNCOMPRESSED", "SNAPPY", "GZIP"])
    if name.startswith("pyarrow"):
        options = {"compression": codec.lower() if codec != "UNCOMPRESSED" else "none", "use_dictionary": draw.random() < 0.7}
        options |= {"version": draw.choice(["1.0", "2.0"]), "row_group_size": draw.choice([5, 40, 10_000])}
        return options | ({"use_deprecated_int96_timestamps": True} if draw.random() < 0.2 else {})
    return {
        "version": draw.choice(["1", "2"]),
        "page": draw.choice([64, 1 << 20]),
        "group": draw.choice([5, 40, 10_000]),
        "dictionary": draw.random() < 0.7,
        "codec": codec,
        "decimals": draw.choice(["int", "fixed", "binary"]),
        "lists": draw.choice([2, 3]),
        "times": draw.choice(["int64", "int96"]),
    }


def write(path: Path, file) -> None:
    """Writes the file by the writer that it names."""
    options = file.options
    with (
        tempfile.NamedTemporaryFile("w", suffix=".rows") as given,
        tempfile.NamedTemporaryFile("w", suffix=".schema") as schema,
    ):
        if file.writer.startswith("java"):
            message, kinds, columns = java_columns(file.rows, options)
            put_rows(given, [kinds], columns)
            schema.write(message)
            schema.flush()
            parts = [
                path,
                given.name,
                schema.name,
                f"PARQUET_{options['version']}_0",
                1000 if options["group"] < 100 else 1 << 20,
                options["page"],
                str(options["dictionary"]).lower(),
                options["codec"],
            ]
        else:
            kinds = [kind_of(field.type) for field in file.rows.schema]
            columns = [texts_of(column, kind) for column, kind in zip(file.rows.columns, kinds)]
            put_rows(given, [file.rows.schema.names, kinds], columns)
            parts = [path, given.name]
            if file.writer in GO:
                parts += [
                    file.writer,
                    options["version"],
                    options["page"],
                    options["group"],
                    str(options["dictionary"]).lower(),
                    options["codec"],
                ]
            else:
                parts.append(json.dumps(options))
        WRITERS.job(file.writer, "\t".join(map(str, parts)))


def put_rows(out, heads: list[list[str]], columns: list[list[str]]) -> None:
    for line in [*heads, *zip(*columns)]:
        out.write("\t".join(line) + "\n")
    out.flush()


def kind_of(type: pa.DataType) -> str:
    if pa.types.is_dictionary(type):
        return "dictionary"
    if pa.types.is_decimal(type):
        return f"decimal {type.precision} {type.scale}"
    if pa.types.is_timestamp(type) and not type.tz and type.unit in ("ms", "us"):
        return type.unit
    names = {
        pa.string(): "text",
        pa.large_string(): "text",
        pa.binary(): "bytes",
        pa.binary(4): "fixed",
        pa.date32(): "date",
        pa.float32(): "float",
        pa.float64(): "double",
        pa.bool_(): "bool",
        pa.list_(pa.int32()): "list",
    }
    if pa.types.is_integer(type):
        return str(type)
    if type not in names:
        raise ValueError(f"{type} is written by Python only")
    return names[type]


def texts_of(column: pa.ChunkedArray, kind: str) -> list[str]:
    """Returns the values as text: "-" for null, others begin with "="."""
    if kind in ("ms", "us"):
        column = column.cast(pa.int64())
    if kind == "date":
        column = column.cast(pa.int32())
    return ["-" if value is None else f"={text_of(value)}" for value in column.to_pylist()]


def text_of(value) -> str:
    if isinstance(value, bool):
        return "1" if value else "0"
    if isinstance(value, str):
        return value.encode().hex()
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, list):
        if None in value:
            raise ValueError("lists with nulls are written by Python only")
        return ",".join(map(str, value))
    return repr(value) if isinstance(value, float) else str(value)


#: The primitive type and mark of a kind in parquet-java's schemas, and the form of its values for the program.
JAVA_TYPES = {
    "int8": ("int32", "INT_8", "i32"),
    "int16": ("int32", "INT_16", "i32"),
    "int32": ("int32", "", "i32"),
    "int64": ("int64", "", "i64"),
    "uint8": ("int32", "UINT_8", "i32"),
    "uint16": ("int32", "UINT_16", "i32"),
    "uint32": ("int32", "UINT_32", "i32"),
    "uint64": ("int64", "UINT_64", "i64"),
    "float": ("float", "", "f32"),
    "double": ("double", "", "f64"),
    "bool": ("boolean", "", "bool"),
    "text": ("binary", "UTF8", "bytes"),
    "dictionary": ("binary", "ENUM", "bytes"),
    "bytes": ("binary", "", "bytes"),
    "fixed": ("fixed_len_byte_array(4)", "", "bytes"),
    "date": ("int32", "DATE", "i32"),
    "ms": ("int64", "TIMESTAMP_MILLIS", "i64"),
    "us": ("int64", "TIMESTAMP_MICROS", "i64"),
}


def java_columns(rows: pa.Table, options: dict) -> tuple[str, list[str], list[list[str]]]:
    """Returns the schema for parquet-java, types of values, and values."""
    fields, kinds, columns = [], [], []
    for at, field in enumerate(rows.schema):
        kind = kind_of(field.type)
        values = texts_of(rows.column(at), kind)
        repetition = "required" if "-" not in values and options["dictionary"] else "optional"
        if kind == "list":
            inner = "repeated int32 array;" if options["lists"] == 2 else "repeated group list { optional int32 element; }"
            fields.append(f"{repetition} group {field.name} (LIST) {{ {inner} }}")
            kinds.append("list")
        elif kind.startswith("decimal"):
            primitive, given, values = java_decimal(field.type, options["decimals"], rows.column(at))
            fields.append(f"{repetition} {primitive} {field.name} (DECIMAL({field.type.precision},{field.type.scale}));")
            kinds.append(given)
        elif kind in ("ms", "us") and options["times"] == "int96":
            values = ["-" if value == "-" else f"={int(value[1:]) * (1000 if kind == 'ms' else 1)}" for value in values]
            fields.append(f"{repetition} int96 {field.name};")
            kinds.append("int96")
        else:
            primitive, mark, given = JAVA_TYPES[kind]
            fields.append(f"{repetition} {primitive} {field.name}{f' ({mark})' if mark else ''};")
            kinds.append(given)
        columns.append(values)
    return f"message rows {{ {' '.join(fields)} }}", kinds, columns


def java_decimal(type: pa.DataType, how: str, column: pa.ChunkedArray) -> tuple[str, str, list[str]]:
    numbers = [None if value is None else int(value.scaleb(type.scale)) for value in column.to_pylist()]
    if how == "int" and type.precision <= 18:
        primitive, given = ("int32", "i32") if type.precision <= 9 else ("int64", "i64")
        return primitive, given, ["-" if number is None else f"={number}" for number in numbers]

    def data(number: int) -> bytes:
        length = 16 if how == "fixed" else number.bit_length() // 8 + 1
        return number.to_bytes(length, "big", signed=True)

    primitive = "fixed_len_byte_array(16)" if how == "fixed" else "binary"
    if how == "int":
        primitive, how = "fixed_len_byte_array(16)", "fixed"
    return primitive, "bytes", ["-" if number is None else f"={data(number).hex()}" for number in numbers]


@dataclass(frozen=True)
class Step:
    """A step of building a writer, and whether it was done."""

    name: str
    failed: str = ""


def build_all() -> list[Step]:
    steps = [build_java(version) for version in JAVA]
    steps += [build_pyarrow(version, python) for version, python in OLD_PYARROW.items()]
    return [*steps, build_go()]


def tried(name: str, *commands: list, cwd: Path | None = None) -> Step:
    try:
        for line in commands:
            subprocess.run(line, check=True, capture_output=True, cwd=cwd)
    except (OSError, subprocess.CalledProcessError) as error:
        return Step(name, f"{error}: {(getattr(error, 'stderr', None) or b'')[-300:]}")
    return Step(name)


def build_java(version: str) -> Step:
    place = BUILT / f"java-{version}"
    place.mkdir(parents=True, exist_ok=True)
    get = ["mvn", "-q", "-B", f"-Dparquet={version}", "dependency:build-classpath", f"-Dmdep.outputFile={place / 'classpath'}"]
    step = tried(f"java {version}", get, cwd=SOURCES / "java")
    if step.failed:
        return step
    classpath = (place / "classpath").read_text().strip()
    return tried(step.name, ["javac", "-nowarn", "-cp", classpath, "-d", place, SOURCES / "java" / "Rows.java"])


def build_pyarrow(version: str, python: str) -> Step:
    place, name = BUILT / f"pyarrow-{version}", f"pyarrow {version}"
    found = shutil.which(f"python{python}") or next(
        map(str, (Path.home() / ".pyenv/versions").glob(f"{python}.*/bin/python")), None
    )
    if found is None:
        return Step(name, f"Python {python} is missing")
    return tried(name, [found, "-m", "venv", place], [place / "bin" / "pip", "install", "--quiet", f"pyarrow=={version}"])


def build_go() -> Step:
    (BUILT / "go").mkdir(parents=True, exist_ok=True)
    return tried("Go's", ["go", "build", "-o", BUILT / "go" / "rows", "."], cwd=SOURCES / "go")


def build_and_tell() -> int:
    """Builds all writers and prints the results. Returns the status for the command."""
    steps = build_all()
    for step in steps:
        print(f"{step.name}: {step.failed or 'built'}")
    return 1 if any(step.failed for step in steps) else 0
