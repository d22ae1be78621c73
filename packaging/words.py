"""Finds words and headers that are hard to read, in comments of Rust files and in Markdown.

    make words                                      # the whole tree
    python3 packaging/words.py --count              # numbers by folder
    python3 packaging/words.py crates/engine docs   # some folders or files

The words, their replacements and the files that may have them are the table in CONTRIBUTING.md, "Style". Code, code spans, links and
string literals do not count. A header is the first sentence of a module's documentation or a heading of Markdown. It must not begin
with a question word, unless it is a question.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TABLE = re.compile(r"<!-- words -->\n(.*?)<!-- end of words -->", re.S)

# Code of Rust that is not a comment may contain comment marks in literals only.
RUST = re.compile(
    r"""(?P<comment>//[^\n]*|/\*.*?\*/)
    | (?<![\w'])b?r(?P<hashes>\#*)".*?"(?P=hashes)
    | (?<![\w'])[bc]?"(?:\\.|[^"\\])*"
    | b?'(?:\\'|\\[^\n']*|[^'\\\n])'""",
    re.S | re.X,
)
# Within a paragraph.
CODE_SPAN = re.compile(r"(`+)(?!`)(?:[^`\0\n]|`(?!\1)|\n(?!\s*\n))*?(?<!`)\1(?!`)")
LINK_TARGET = re.compile(r"\]\([^)\n]*\)|<!--.*?-->|<?https?://[^\s>]*>?", re.S)
HEADING = re.compile(r"^#{1,6} +(?P<header>.*)$", re.M)
CLAUSE = re.compile(r"(?P<word>What|Which|How|When|Whether|Where|Who|Whose|Whom|Why)\b(?!-)")
# It cannot stand between the words of a phrase.
NOTHING = "\0"


@dataclass(frozen=True)
class Word:
    """A phrase, its replacement, and the files that may have it."""

    phrase: str
    replacement: str
    allowed_in: frozenset[str]


@dataclass(frozen=True)
class Finding:
    """A word or header at a line of a file."""

    file: str
    line: int
    word: str
    replacement: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.word} -> {self.replacement}"


class Known:
    """The words of a table, found together: a search for each of them would take ten times as long."""

    def __init__(self, table: Iterable[Word]) -> None:
        self.words = {word.phrase.lower(): word for word in table}
        phrases = (r"\s+".join(map(re.escape, phrase.split())) for phrase in self.words)
        # "No longer than 5 s" is a bound.
        self.pattern = re.compile(r"\b(?:" + "|".join(phrases) + r")\b(?!\s+than\b)")

    def __iter__(self) -> Iterator[Word]:
        return iter(self.words.values())

    def find(self, prose: str) -> Iterator[tuple[int, Word]]:
        """The words in a text, in any case and across ends of lines, with their lines."""
        prose = prose.lower()
        for match in self.pattern.finditer(prose):
            yield prose.count("\n", 0, match.start()) + 1, self.words[" ".join(match[0].split())]


def words(style: str) -> Known:
    """The words of the table in the text of CONTRIBUTING.md."""
    table = TABLE.search(style)
    if table is None:
        sys.exit("words: CONTRIBUTING.md has no table between <!-- words --> and <!-- end of words -->")
    rows = [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in table[1].splitlines()[2:]]
    return Known(
        Word(phrase, replacement, frozenset(re.findall(r"`([^`]+)`", files)))
        for phrases, replacement, files in rows
        for phrase in re.findall(r"`([^`]+)`", phrases)
    )


def blank(text: str, filler: str = NOTHING) -> str:
    """As many characters and lines, without content."""
    return re.sub(r"\S", filler, text)


def without_code(prose: str) -> str:
    """Markdown without blocks of code, code spans and targets of links, with everything else in its place."""
    lines, fence, before = [], "", ""
    for line in prose.split("\n"):
        text = line.strip()
        mark = text[:3]
        if fence or mark in ("```", "~~~"):
            fence = "" if fence and text.startswith(fence) else fence or mark
            line = blank(line)
        elif line.startswith("    ") and not before.strip(" " + NOTHING):
            line = blank(line)
        lines.append(line)
        before = line
    prose = CODE_SPAN.sub(lambda span: blank(span[0]), "\n".join(lines))
    return LINK_TARGET.sub(lambda target: blank(target[0]), prose)


def comments(source: str) -> str:
    """The comments of a Rust file, as Markdown, each word in its place."""
    parts, end = [], 0
    for token in RUST.finditer(source):
        parts.append(blank(source[end : token.start()]))
        comment = token["comment"]
        mark = re.match(r"//[/!]?|/\*[*!]?", token[0])
        parts.append(blank(token[0]) if comment is None or mark is None else " " * mark.end() + comment[mark.end() :])
        end = token.end()
    parts.append(blank(source[end:]))
    # The text of a comment begins at its margin, so that blocks of code in it are found; lines of code end each of them.
    texts, fenced = [], False
    for line in "".join(parts).split("\n"):
        if NOTHING in line:
            fenced = False
        elif line.strip().startswith("```"):
            fenced = not fenced
            line = blank(line)
        elif fenced:
            line = blank(line)
        texts.append(line)
    prose = CODE_SPAN.sub(lambda span: blank(span[0]), "\n".join(texts))
    return LINK_TARGET.sub(lambda target: blank(target[0]), prose)


def module_header(source: str) -> Iterator[tuple[int, str]]:
    """The first sentence of a module's documentation with its line, if there is one."""
    lines = source.split("\n")
    for at, line in enumerate(lines):
        if line.startswith("//!"):
            paragraph = []
            for text in lines[at:]:
                if not text.startswith("//!") or not text[3:].strip():
                    break
                paragraph.append(text[3:].strip())
            # A sentence ends before a space: file names have dots, too.
            yield at + 1, re.split(r"(?<=[.?!:])\s", " ".join(paragraph), maxsplit=1)[0]
            return
        if line.strip() and not line.startswith(("//", "#![")):
            return


def headings(prose: str) -> Iterator[tuple[int, str]]:
    """The headings of Markdown with their lines."""
    for heading in HEADING.finditer(prose):
        yield prose.count("\n", 0, heading.start()) + 1, heading["header"].strip()


def findings(file: str, text: str, known: Known) -> list[Finding]:
    """The words and headers in a file of this name, in the order of its lines."""
    rust = file.endswith(".rs")
    prose = comments(text) if rust else without_code(text)
    found = []
    for line, header in module_header(text) if rust else headings(prose):
        clause = CLAUSE.match(header.lstrip("*_"))
        if clause and not header.endswith("?"):
            found.append(Finding(file, line, f'header begins with "{clause["word"]}"', "a noun phrase or an imperative"))
    for line, word in known.find(prose):
        if file not in word.allowed_in:
            found.append(Finding(file, line, word.phrase, word.replacement))
    return sorted(found, key=lambda finding: (finding.line, finding.word))


def files(root: Path, below: list[str]) -> list[str]:
    """The Rust and Markdown files of the tree, by their paths from the root, without those that git ignores."""
    try:
        command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        names = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout.split("\0")
    except (OSError, subprocess.CalledProcessError):
        # A copy without git: the folders that .gitignore names are at the top.
        paths = (path.relative_to(root) for path in root.rglob("*"))
        names = [str(path) for path in paths if path.parts[0] not in ("target", "data") and path.parts[0][0] != "."]
    folders = tuple(path.rstrip("/") + "/" for path in below) or ("",)
    chosen = {name for name in names if name in below or name.startswith(folders)}
    return sorted(name for name in chosen if name.endswith((".rs", ".md")) and (root / name).is_file())


def folder(file: str) -> str:
    """The folder that a file is counted for: a crate, or a folder of the root."""
    parents = file.split("/")[:-1]
    return "/".join(parents[: 2 if parents[:1] == ["crates"] else 1]) or "."


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", action="store_true", help="print numbers by folder instead of lines")
    parser.add_argument("--root", type=Path, default=ROOT, help="the checkout; default: this one")
    parser.add_argument("paths", nargs="*", metavar="PATH", help="folders or files below the root; default: all")
    options = parser.parse_args(arguments)
    known = words((options.root / "CONTRIBUTING.md").read_text(encoding="utf-8"))
    found = [
        finding
        for file in files(options.root, options.paths)
        for finding in findings(file, (options.root / file).read_text(encoding="utf-8"), known)
    ]
    if options.count:
        for name, count in sorted(Counter(folder(finding.file) for finding in found).items()):
            print(f"{count:6} {name}")
    else:
        print("".join(f"{finding}\n" for finding in found), end="")
    if found:
        print(f"words: {len(found)} found; CONTRIBUTING.md, \"Style\", has the rules", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
