"""The check of words finds what is planted, and only there."""

import contextlib
import io
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

# Not a package: its name would hide the library `packaging` from programs that run at the root.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import words  # noqa: E402

STYLE = (words.ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
KNOWN = words.words(STYLE)


def found(file, text):
    """Lines and words in a file."""
    return [(finding.line, finding.word) for finding in words.findings(file, text, KNOWN)]


class Words(unittest.TestCase):
    def test_every_word_of_the_table_is_found_in_comments_and_documents(self):
        self.assertGreater(len(list(KNOWN)), 20)
        for word in KNOWN:
            with self.subTest(word.phrase):
                for mark in ("//", "///", "//!"):
                    source = f"{mark} A thing.\nfn f() {{}} // It is {word.phrase}, here.\n"
                    self.assertEqual(found("a.rs", source), [(2, word.phrase)])
                text = f"# Title\n\nA line.\n{word.phrase.capitalize()} is written.\n"
                self.assertEqual(found("a.md", text), [(4, word.phrase)])

    def test_the_table_has_the_words_that_readers_complained_about(self):
        phrases = {word.phrase for word in KNOWN}
        self.assertLessEqual({"whoever", "nobody", "anew", "for ever", "struck off", "goes with", "no longer"}, phrases)
        self.assertTrue(all(word.replacement for word in KNOWN))

    def test_a_phrase_may_cross_the_end_of_a_line(self):
        self.assertEqual(found("a.rs", "struct S {\n    /// It waits for\n    /// ever.\n}\n"), [(2, "for ever")])
        self.assertEqual(found("a.md", "- It waits for\n  ever.\n"), [(1, "for ever")])
        self.assertEqual(found("a.rs", "a(); // for\nb(); // ever\n"), [], "two comments are two texts")

    def test_code_and_strings_do_not_count(self):
        for source in (
            'let nobody = "nobody // whoever";\n',
            'let text = r#"nobody " // anew"#;\n',
            "let (quote, nobody) = ('\"', 1); let other = '\"'; // Two quotes.\n",
            "fn f<'a>(nobody: &'a str, whoever: &'a str) {} // Two names.\n",
            '"a\\" // nobody"\n',
            "let (quote, backslash, text) = ('\\'', '\\\\', \"// nobody\");\n",
            "/// Calls `nobody`, or ``whoever``.\n",
            "/// ```\n/// let nobody = 1; // whoever\n/// ```\n",
            "/// See [this](nobody.md) and <https://nobody.example/anew>.\n",
        ):
            with self.subTest(source):
                self.assertEqual(found("a.rs", source), [])
        for text in (
            "Run `nobody`.\n",
            "```\nnobody\n```\n",
            "Run\n\n    nobody --whoever\n    anew\n\nand wait.\n",
            "[this](nobody.md#anew)\n",
            "<!-- nobody -->\n",
        ):
            with self.subTest(text):
                self.assertEqual(found("a.md", text), [])

    def test_words_after_code_are_found(self):
        self.assertEqual(found("a.md", "```\nnobody\n```\nNobody.\n"), [(4, "nobody")])
        self.assertEqual(found("a.md", "- one\n    nobody is code only after an empty line\n"), [(2, "nobody")])
        self.assertEqual(found("a.rs", "/// ```\n/// nobody\n/// ```\n/// Nobody.\nfn f() {}\n"), [(4, "nobody")])
        self.assertEqual(found("a.rs", "let a = b'\"'; let b = \"\\\\\"; // nobody\n"), [(1, "nobody")])
        self.assertEqual(found("a.rs", "/* nobody */ fn f() {} /* anew\n anew */\n"), [(1, "anew"), (1, "nobody"), (2, "anew")])

    def test_a_single_backtick_hides_nothing(self):
        self.assertEqual(found("a.rs", "// One ` here.\nfn f() {}\n// Nobody, and ` there.\n"), [(3, "nobody")])
        self.assertEqual(found("a.md", "One ` here.\n\nNobody, and ` there.\n"), [(3, "nobody")])
        self.assertEqual(found("a.md", "A span `of two\nlines, nobody` ends.\n"), [])

    def test_words_are_words(self):
        self.assertEqual(found("a.md", "Renewed for every one; forever, understanding hand; no longer\nthan 5 s.\n"), [])

    def test_history_belongs_into_the_changelog(self):
        text = "It no longer fails. Nobody waits.\n"
        self.assertEqual(found("CHANGELOG.md", text), [(1, "nobody")])
        self.assertEqual(found("docs/CHANGELOG.md", text), [(1, "no longer"), (1, "nobody")])


class Headers(unittest.TestCase):
    def test_clauses_are_found(self):
        for clause in ("What", "Which", "How", "When", "Whether", "Where", "Who", "Why"):
            with self.subTest(clause):
                finding = f'header begins with "{clause}"'
                self.assertEqual(found("a.rs", f"//! {clause} chunks leave.\n//!\n//! More.\n"), [(1, finding)])
                self.assertEqual(found("a.rs", f"#![no_std]\n\n//! {clause} chunks leave: a table\n"), [(3, finding)])
                self.assertEqual(found("a.md", f"# Chunks\n\n## {clause} chunks leave\n"), [(3, finding)])

    def test_questions_and_other_headers_may_stay(self):
        for source in (
            "//! Which chunk next,\n//! and for whom? One policy, one file.\n",
            "//! Chunk eviction.\n//!\n//! What leaves is chosen here.\n",
            "//! Whatever.\n",
            "/// What an item is.\nfn f() {}\n",
            "fn f() {}\n// What a comment says.\n",
        ):
            with self.subTest(source):
                self.assertEqual(found("a.rs", source), [])
        for text in (
            "## What does it cost?\n",
            "## How-to guides\n",
            "What leaves is text.\n",
            "```sh\n# What a comment of a shell says\n```\n",
        ):
            with self.subTest(text):
                self.assertEqual(found("a.md", text), [])

    def test_a_name_of_a_file_ends_no_sentence(self):
        self.assertEqual(found("a.rs", "//! What `a.rs` has. Is it much?\n"), [(1, 'header begins with "What"')])


class Command(unittest.TestCase):
    def run_on(self, files, *arguments, git=True):
        """The exit code and output of the check in a checkout with these files, or in a copy without git."""
        with tempfile.TemporaryDirectory() as root:
            for name, text in {"CONTRIBUTING.md": STYLE, **files}.items():
                path = Path(root, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
            if git:
                subprocess.run(["git", "init", "--quiet", root], check=True)
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(io.StringIO()):
                code = words.main(["--root", root, *arguments])
            return code, printed.getvalue()

    def test_findings_are_printed_and_fail(self):
        code, printed = self.run_on({"crates/a/src/lib.rs": "//! A crate.\n\n// Nobody waits.\n", "docs/b.md": "# Why\n"})
        self.assertEqual(code, 1)
        self.assertEqual(
            printed.splitlines(),
            [
                "crates/a/src/lib.rs:3: nobody -> no query, no caller, no user",
                'docs/b.md:1: header begins with "Why" -> a noun phrase or an imperative',
            ],
        )

    def test_the_style_guide_passes_itself(self):
        self.assertEqual(self.run_on({"a.rs": "// Fine.\n"}), (0, ""))

    def test_counts_are_by_folder(self):
        files = {
            "crates/a/src/b.rs": "// anew\n// anew\n",
            "crates/b/src/b.rs": "// anew\n",
            "docs/records/c.md": "anew\n",
            "d.md": "anew\n",
            ".gitignore": "/target\n",
            "target/e.md": "anew\n",
            "f.txt": "anew\n",
        }
        for git in (True, False):
            code, printed = self.run_on(files, "--count", git=git)
            self.assertEqual((code, printed.split()), (1, ["1", ".", "2", "crates/a", "1", "crates/b", "1", "docs"]))
            code, printed = self.run_on(files, "--count", "docs", "crates/b/", "d.md", git=git)
            self.assertEqual((code, printed.split()), (1, ["1", ".", "1", "crates/b", "1", "docs"]))

    def test_a_missing_table_is_an_error(self):
        with self.assertRaises(SystemExit) as stopped:
            words.words("# Style\n")
        self.assertIn("CONTRIBUTING.md has no table", str(stopped.exception))


if __name__ == "__main__":
    unittest.main()
