"""PostgreSQL's own regression and isolation suites, on a server without the extension and on one where every scan of every
table cooperates. Both must give the same results, except for the name of the scan node in plans.

    python3 -m checks.regress [--suite regress|isolation] [--source FOLDER]

The suites come from the source package of the server's version, or of the nearest available version. An expected file that
is older than the server is harmless, because two runs are compared. $COSCAN_PG_SOURCE names an unpacked source tree
instead.
"""

from __future__ import annotations

import argparse
import difflib
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from .server import MAJOR, TARGET, Cluster, Missing, Server, _pg_config, exit_with, install_packages

EVERY_SCAN = {"coscan.min_table_size": 0, "coscan.always_register": "on", "coscan.chunk_size": 8, "coscan.max_scans": 256, "coscan.policy": "attach"}
SUITES = {
    "regress": ("pg_regress", "parallel_schedule"),
    "isolation": ("pg_isolation_regress", "isolation_schedule"),
}


def download(folder: Path) -> Path:
    """The source tree of the server, by apt from the sources of its packages; the system stays unchanged."""
    if not shutil.which("apt-get"):
        raise Missing("the regression suite comes with PostgreSQL's source: unpack it and name it in COSCAN_PG_SOURCE")
    lists = folder / "lists"
    (lists / "partial").mkdir(parents=True, exist_ok=True)
    parts = folder / "sources.list.d"
    parts.mkdir()
    for listed in [Path("/etc/apt/sources.list"), *Path("/etc/apt/sources.list.d").glob("*")]:
        if listed.suffix in (".list", ".sources") and listed.is_file():
            text = re.sub(r"^(deb|Types: deb)(?= |$)", r"\1-src", listed.read_text(), flags=re.MULTILINE)
            (parts / listed.name).write_text(text)
    options = ["-o", "Dir::Etc::SourceList=/nonexistent", "-o", f"Dir::Etc::SourceParts={parts}", "-o", f"Dir::State::Lists={lists}"]

    def apt(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([*arguments[:1], *options, *arguments[1:]], cwd=folder, capture_output=True, text=True, check=False)

    apt("apt-get", "update")
    versions = re.findall(r"^Version: (\S+)", apt("apt-cache", "showsrc", f"postgresql-{MAJOR}").stdout, re.MULTILINE)
    for version in sorted(versions, reverse=True):
        apt("apt-get", "--download-only", "source", f"postgresql-{MAJOR}={version}")
        archives = sorted(folder.glob("*.orig.tar.*"))
        if archives:
            subprocess.run(["tar", "xf", archives[-1], "--wildcards", "*/src/test/*", "*/contrib/spi/*"], cwd=folder, check=True)
            return next(folder.glob(f"postgresql-{MAJOR}*/"))
    raise Missing("the source package of PostgreSQL cannot be had: unpack it and name it in COSCAN_PG_SOURCE")


ADDED = re.compile(
    r"""["<]?(Policy|Custom[ -]Plan[ -]Provider|Chunks[ -](Read|Cached|Shared|Alone)|Chunk[ -]Waits|Waited)[">]?:?\s?.*
    | Chunks:\ read=.*
    | WARNING:\ +did\ not\ get\ seqscan\ plan\ for.*""",
    re.VERBOSE,
)


def normalise(text: str) -> list[str]:
    """The lines of a result without the additions of cooperative scans to plans, and without the name of their node. Some
    tests search for that name themselves and warn."""
    lines, dropped = [], 0
    for line in text.splitlines():
        if ADDED.fullmatch(line.strip()):
            # A plan in one value has continuation marks and counts as one row.
            dropped += not line.endswith("+") and "WARNING" not in line
            continue
        rows = re.fullmatch(r"\((\d+) rows?\)", line)
        if rows:
            line = f"({int(rows[1]) - dropped} rows)"
        if rows or not line.strip():
            dropped = 0
        line = line.replace("Custom Scan (Coscan) on", "Seq Scan on")
        line = re.sub(r"(?<=Node[- ]Type[>:\"])(.{0,3})Custom Scan", r"\1Seq Scan", line)
        lines.append(re.sub(r"\s+", " ", re.sub(r"-{3,}", "---", line)).strip().replace(" +", "+"))
    return lines


def run_suite(server: Server, suite: str, source: Path, name: str, settings: dict[str, object], preload: bool) -> tuple[Path, str]:
    """Runs a suite; returns the folder of its results and the program's summary."""
    program, schedule = SUITES[suite]
    folder = source / "src/test" / suite
    results = server.folder / f"results-{name}"
    results.mkdir()
    server.own(results)
    base = {"max_prepared_transactions": 4, "autovacuum": "on", "max_connections": 100}
    with Cluster(server, name, base | settings, preload=preload, port=5492) as cluster:
        runner = Path(_pg_config("--pgxs")).parent.parent / f"test/{suite}/{program}"
        command = [
            runner, f"--inputdir={folder}", f"--outputdir={results}", f"--bindir={server.bin}", f"--dlpath={folder}",
            f"--schedule={folder / schedule}", f"--host={server.folder}", f"--port={cluster.port}", "--user=postgres", "--max-concurrent-tests=20",
        ]
        drop = server.command("x")[:-1]
        environment = os.environ | {"PATH": f"{runner.parent}:{os.environ['PATH']}", "PGOPTIONS": ""}
        done = subprocess.run([*drop, *map(str, command)], cwd=results, env=environment, capture_output=True, text=True, check=False)
        crashed = "terminated by signal" in cluster.log_text()
        if crashed:
            (results / "server.log").write_text(cluster.log_text())
    if not (results / "results").exists():
        raise RuntimeError(f"{program} did not run\n{done.stdout}{done.stderr}")
    summary = next((line for line in done.stdout.splitlines() if "tests failed" in line or "tests passed" in line), "?").strip(" =")
    return results / "results", f"{summary}{', and a process crashed' if crashed else ''}"


def compare(without: Path, with_extension: Path) -> tuple[list[str], list[str]]:
    """The differences between two runs as text, and the files that differ only in the order of rows. These have queries
    without ORDER BY, for which a scan of several chunks joined another one."""
    found, reordered = [], []
    for path in sorted(without.glob("*.out")):
        other = with_extension / path.name
        a, b = (normalise(p.read_text(errors="replace")) if p.exists() else ["no result"] for p in (path, other))
        if a != b and sorted(a) == sorted(b):
            reordered.append(path.stem)
        elif a != b:
            found.append("\n".join(difflib.unified_diff(a, b, f"without/{path.name}", f"with/{path.name}", lineterm="", n=2)))
    return found, reordered


def build_library(server: Server, source: Path) -> None:
    """The C functions that the suite calls."""
    folder = source / "src/test/regress"
    include = _pg_config("--includedir-server")
    subprocess.run(["cc", "-O1", "-fPIC", "-w", "-shared", f"-I{include}", "-o", folder / "regress.so", folder / "regress.c"], check=True)
    for name in ("refint.so", "autoinc.so"):
        shutil.copy(Path(_pg_config("--pkglibdir")) / name, folder / name)
    server.own(source)


def run(suites: list[str], tree: Path | None = None, keep: Path | None = None) -> int:
    """Runs suites without and with the extension and prints the comparison; returns 1 if they differ."""
    tree = tree or (Path(os.environ["COSCAN_PG_SOURCE"]) if "COSCAN_PG_SOURCE" in os.environ else None)
    with tempfile.TemporaryDirectory(prefix="coscan-regress-") as temporary:
        folder = Path(temporary)
        folder.chmod(0o755)
        server = Server(folder / "server", TARGET)
        (folder / "source").mkdir()
        source = Path(shutil.copytree(tree / "src", folder / "source/src")).parent if tree else download(folder / "source")
        build_library(server, source)
        failed = False
        for suite in suites:
            without, said = run_suite(server, suite, source, f"{suite}-without", {}, preload=False)
            print(f"{suite}, without the extension: {said}", flush=True)
            with_extension, said = run_suite(server, suite, source, f"{suite}-with", EVERY_SCAN, preload=True)
            differences, reordered = compare(without, with_extension)
            print(f"{suite}, every scan cooperative: {said}; but for the name of the scan in plans {len(differences)} of "
                  f"{len(list(without.glob('*.out')))} results differ; in the order of rows: {', '.join(reordered) or 'none'}", flush=True)
            for difference in differences:
                print(difference)
            if keep:
                shutil.copytree(without, keep / f"{suite}-without", dirs_exist_ok=True)
                shutil.copytree(with_extension, keep / f"{suite}-with", dirs_exist_ok=True)
            failed |= bool(differences) or "crashed" in said
    return 1 if failed else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--suite", choices=[*SUITES, "all"], default="all")
    parser.add_argument("--source", type=Path, help="PostgreSQL's source tree")
    parser.add_argument("--keep", type=Path, help="write the results into this folder")
    options = parser.parse_args()
    install_packages()
    return run([*SUITES] if options.suite == "all" else [options.suite], options.source, options.keep)


if __name__ == "__main__":
    exit_with(main)
