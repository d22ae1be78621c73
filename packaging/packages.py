"""Checks that the packages of the crates are complete, as users get them from a registry.

    make check                                # what they name is in them
    python3 packaging/packages.py --compile   # and they compile

Packs all crates and unpacks them beside each other, in a workspace of their own. There this tree's Cargo.lock has
to fit their manifests, and the files that their sources include have to be there. Tests may need files outside,
because tests are not run from a package. With --compile, libraries, programs and examples are checked in the
profile of this tree, which reuses compiled dependencies. `cargo package` would compile every dependency again in
a profile of its own.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CARGO = os.environ.get("CARGO", "cargo")
INCLUDE = re.compile(r'\binclude(?:_str|_bytes)?!\s*\(\s*(?:concat!\s*\(\s*)?"([^"]*)"')


def run(*arguments: str, cwd: Path = ROOT) -> str:
    """Returns the output of cargo. Ends the check if cargo fails."""
    done = subprocess.run([CARGO, *arguments], cwd=cwd, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(f"packages: cargo {arguments[0]} failed in {cwd}")
    return done.stdout


def profiles() -> str:
    """Returns the profiles in the workspace's manifest as text, because Python 3.10 has no TOML parser."""
    return "".join(re.findall(r"^\[profile\..*?(?=^\[(?!profile)|\Z)", (ROOT / "Cargo.toml").read_text(), re.S | re.M))


def unpack(packed: Path, place: Path, packages: list[dict]) -> list[Path]:
    """Makes a workspace at `place` from the packages alone. Returns their folders."""
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    names = [f"{package['name']}-{package['version']}" for package in packages]
    for name in names:
        with tarfile.open(packed / f"{name}.crate") as package:
            package.extractall(place)
        # A package's own lock file is for its installation.
        (place / name / "Cargo.lock").unlink(missing_ok=True)
    members = ", ".join(f'"{name}"' for name in names)
    patches = "".join(f'{package["name"]} = {{ path = "{name}" }}\n' for package, name in zip(packages, names))
    manifest = f'[workspace]\nresolver = "3"\nmembers = [{members}]\n\n[patch.crates-io]\n{patches}\n{profiles()}'
    (place / "Cargo.toml").write_text(manifest)
    shutil.copy(ROOT / "Cargo.lock", place / "Cargo.lock")
    return [place / name for name in names]


def missing(folder: Path) -> list[str]:
    """Returns the files that sources of a package include but that the package lacks. For a name that a macro
    composes, the folder is checked."""
    faults = []
    for source in [file for part in ("src", "examples") for file in (folder / part).rglob("*.rs")]:
        for name in INCLUDE.findall(source.read_text()):
            file = Path(os.path.normpath(source.parent / name))
            inside = file.is_relative_to(folder) and file.exists()
            if not inside:
                faults.append(f"{source.relative_to(folder.parent)} includes {name}, which is not in the package")
    return faults


def main() -> int:
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).resolve()
    packages = json.loads(run("metadata", "--locked", "--no-deps", "--format-version", "1"))["packages"]
    run("package", "--quiet", "--workspace", "--no-verify", "--allow-dirty", "--locked", "--target-dir", str(target))
    place = target / "unpacked"
    folders = unpack(target / "package", place, packages)
    faults = [fault for folder in folders for fault in missing(folder)]
    # The check itself must be able to fail.
    (folders[0] / "src" / "planted.rs").write_text('const X: &str = include_str!("../../outside.txt");\n')
    assert missing(folders[0]), "a file outside of a package was not noticed"
    (folders[0] / "src" / "planted.rs").unlink()
    run("metadata", "--locked", "--format-version", "1", cwd=place)
    if "--compile" in sys.argv[1:] and not faults:
        run("check", "--locked", "--release", "--workspace", "--lib", "--bins", "--examples", "--target-dir", str(target), cwd=place)
    shutil.rmtree(place)
    print("\n".join(faults) or f"{len(packages)} packages stand by themselves")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
