"""Faults that the comparisons must find: each takes the mend of one fault out of the program.

    python3 -m checks.planted                     # all of them
    python3 -m checks.planted nan-bounds --more 5 # this one, in five times as many cases

`planted/answers.txt` has a line for each: its name, the comparisons that must find it, the file below `crates`, the code
with the expression in {{ }}, and the wrong expression. All are planted in one scratch checkout of the last commit, and
`COSCAN_PLANTED` names the one that is switched on. Every step of `coscan_upstream::STEPS` that changes answers is left out once,
too.

For each fault the number of cases is printed after which a comparison finds it. A fault that none finds is a failure.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from .packages import TARGET

CRATES = Path(__file__).resolve().parents[2]
LIST = CRATES / "sqlfuzz/planted/answers.txt"
STEPS = CRATES / "upstream/src/session.rs"
SWITCH = """
pub(crate) fn planted(name: &str) -> bool {
    std::env::var("COSCAN_PLANTED").is_ok_and(|planted| planted == name)
}
"""
#: A step that changes how long a query takes, and no answer.
NO_ANSWER = "physical/build_sides.rs"
#: The comparisons: the module, and the seeds in which a fault is looked for; `None` for files that are not drawn.
COMPARISONS = {"sql": ("random_sql", 30), "postgresql": ("random_postgresql", 30), "fixed": ("files", None), "files": ("files", 120), "lake": ("lake", 30)}
#: The first seed: none that `make test` plays.
FIRST = 5_000_000


@dataclass(frozen=True)
class Fault:
    name: str
    comparisons: Sequence[str]


@dataclass(frozen=True)
class Line:
    name: str
    comparisons: Sequence[str]
    file: str
    code: str
    wrong: str

    def planted(self, source: str) -> str:
        """Returns the source with the fault behind its switch."""
        before, right, after = re.fullmatch(r"(.*?)\{\{(.*)\}\}(.*)", self.code).groups()
        switched = f'{before}(if crate::planted("{self.name}") {{ {self.wrong} }} else {{ {right} }}){after}'
        return replaced(source, before + right + after, switched, f"{self.name} in {self.file}")


def replaced(source: str, right: str, wrong: str, what: str) -> str:
    """Returns the source with other code in the first place that has this code."""
    if right not in source:
        sys.exit(f"{what} no longer applies: there is no {right}")
    return source.replace(right, wrong, 1)


def lines() -> list[Line]:
    parts = [line.split("\t") for line in LIST.read_text().splitlines()]
    return [Line(name, comparisons.split(","), file, code, wrong) for name, comparisons, file, code, wrong in parts]


def faults() -> list[Fault]:
    steps = dict.fromkeys(re.findall(r'^ +file: "(.*)",$', STEPS.read_text(), re.MULTILINE))
    left_out = [Fault(step, ["postgresql", "sql"]) for step in steps if step != NO_ANSWER]
    return [Fault(line.name, line.comparisons) for line in lines()] + left_out


def sources() -> dict[str, str]:
    """Returns the changed files, by their paths below `crates`."""
    changed: dict[str, str] = {}
    for line in lines():
        changed[line.file] = line.planted(changed.get(line.file) or (CRATES / line.file).read_text())
    steps = str(STEPS.relative_to(CRATES))
    left_out = "for step in STEPS.iter().filter(|step| !crate::planted(step.file)) {"
    changed[steps] = replaced(changed.get(steps, STEPS.read_text()), "for step in STEPS {", left_out, "leaving out a step")
    for library in {f"{file.split('/')[0]}/src/lib.rs" for file in changed}:
        changed[library] = changed.get(library, (CRATES / library).read_text()) + SWITCH
    return changed


def built() -> Path:
    """Builds the program with all faults in a scratch checkout, which stays, so that the next build compiles only what changed."""
    scratch = TARGET / "planted/answers"
    scratch.mkdir(parents=True, exist_ok=True)
    index = {**os.environ, "GIT_INDEX_FILE": str(scratch.with_suffix(".index"))}
    subprocess.run(["git", f"--work-tree={scratch}", "read-tree", "--reset", "-u", "HEAD"], cwd=CRATES.parent, env=index, check=True)
    for file, source in sources().items():
        (scratch / "crates" / file).write_text(source)
    # Another target directory, whose program no other check takes for its own.
    target = {**os.environ, "CARGO_TARGET_DIR": str(TARGET / "planted/target")}
    build = ["cargo", "build", "--config", ".cargo/checked.toml", "--locked", "--release", "--bin", "coscan"]
    subprocess.run(build, cwd=scratch, env=target, check=True)
    return TARGET / "planted/target/release/coscan"


class Broken(Exception):
    """A comparison ended without a count of its cases."""


def found(fault: str, comparison: str, program: Path, more: int) -> str | None:
    """Returns after how many cases the comparison finds the fault, or `None`."""
    module, seeds = COMPARISONS[comparison]
    which = ["--seeds", f"{FIRST}..{FIRST + seeds * more}", "--most", "1"] if seeds else ["--fixed"]
    command = [sys.executable, "-m", f"checks.{module}", *which]
    if comparison != "lake":
        command += ["--jobs", "1", "--shrink", "0"]
    environment = {**os.environ, "COSCAN_PLANTED": fault}
    run = subprocess.run(
        [*command, "--coscan", str(program)],
        cwd=CRATES / "sqlfuzz", env=environment, capture_output=True, text=True, check=False,
    )
    said = run.stdout + run.stderr
    cases = re.findall(r": (\d+) cases: ", said)
    if not cases:
        raise Broken(f"{comparison}: {said[-400:]}")
    if not run.returncode:
        return None
    return f"{comparison} after {cases[-1]} cases" if seeds else f"{comparison} files"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python3 -m checks.planted", description="faults that the comparisons must find")
    parser.add_argument("names", nargs="*", metavar="NAME", help="these faults [default: all]")
    parser.add_argument("--more", type=int, default=1, metavar="N", help="N times as many cases")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="faults at a time [default: 2]")
    parser.add_argument("--coscan", type=Path, help="the program with faults [default: it is built]")
    said = parser.parse_args()
    known = faults()
    if unknown := set(said.names) - {fault.name for fault in known}:
        parser.error(f"there is no fault {', '.join(sorted(unknown))}")
    program = said.coscan or built()
    if wrong := [what for comparison in COMPARISONS if (what := found("", comparison, program, 1))]:
        print(f"without a fault: {wrong}")
        return 2

    def look(fault: Fault) -> bool:
        answers = (found(fault.name, comparison, program, said.more) for comparison in fault.comparisons)
        try:
            first = next((answer for answer in answers if answer), None)
        except Broken as broken:
            print(f"{fault.name}: BROKEN, {broken}", flush=True)
            return False
        print(f"{fault.name}: {first or 'NOT FOUND by ' + ', '.join(fault.comparisons)}", flush=True)
        return first is not None

    chosen = [fault for fault in known if not said.names or fault.name in said.names]
    with ThreadPoolExecutor(said.jobs) as pool:
        return 0 if all(list(pool.map(look, chosen))) else 1


if __name__ == "__main__":
    sys.exit(main())
