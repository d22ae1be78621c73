"""`coscan sql` and `coscan user add` on a pseudo-terminal: typed input and visible output."""

from __future__ import annotations

import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import tempfile
import termios
import time
import unittest
from fcntl import ioctl
from pathlib import Path

from .server import COSCAN, generate


PROMPT = "coscan> "


class Terminal:
    """A program on a terminal of its own."""

    def __init__(self, *command, rows: int = 30, columns: int = 120, **environment: str):
        self.pid, self.side = pty.fork()
        if self.pid == 0:
            os.environ.update(TERM="xterm", HOME=tempfile.gettempdir(), **environment)
            os.environ.pop("COSCAN_PASSWORD", None)
            os.execv(command[0], [str(part) for part in command])
        ioctl(self.side, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.all = ""

    def type(self, text: str) -> None:
        """Types text, without Enter."""
        os.write(self.side, text.encode())

    def read(self, seconds: float) -> bool:
        """Reads the next output. Returns true if there was any."""
        if not select.select([self.side], [], [], seconds)[0]:
            return False
        try:
            piece = os.read(self.side, 65536)
        except OSError:
            return False
        self.all += piece.decode(errors="replace")
        return bool(piece)

    def see(self, text: str, seconds: float = 300) -> str:
        """Waits for this output, and forgets the output up to it. Returns it without escape sequences."""
        end = time.monotonic() + seconds
        while text not in plain(self.all):
            if time.monotonic() > end:
                raise AssertionError(f"{text!r} is not shown within {seconds} s, but {plain(self.all)[-2000:]!r}")
            self.read(0.2)
        before, _, rest = plain(self.all).partition(text)
        self.all = rest
        return before + text

    def say(self, line: str, text: str) -> str:
        """Types a line, and waits for this output."""
        self.type(line + "\r")
        return self.see(text)

    def close(self) -> int:
        """Returns the exit code. A program that does not end is killed."""
        end = time.monotonic() + 300
        while time.monotonic() < end:
            self.read(0.05)
            ended, status = os.waitpid(self.pid, os.WNOHANG)
            if ended:
                os.close(self.side)
                return os.waitstatus_to_exitcode(status)
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.side)
        raise AssertionError(f"the program does not end, but shows {plain(self.all)[-2000:]!r}")


def plain(text: str) -> str:
    """Returns the text without escape sequences for the cursor and colours."""
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]|\x1b[=>]|\r", "", text)


class Shell(unittest.TestCase):
    """`coscan sql`."""

    @classmethod
    def setUpClass(cls):
        cls.data = Path(tempfile.mkdtemp())
        cls.addClassCleanup(shutil.rmtree, cls.data)
        generate(cls.data)

    def setUp(self):
        tables = [f"--table={name}={self.data / name}.parquet" for name in ("nation", "lineitem")]
        self.terminal = Terminal(COSCAN, "sql", *tables)
        self.addCleanup(self.leave)
        self.terminal.see(PROMPT)

    def ask(self, line: str) -> str:
        """Types a line, and returns the output up to the next prompt."""
        return self.terminal.say(line, PROMPT)

    def leave(self):
        # ^C ends any work of the program, and with it a partly typed line. This includes text typed before the
        # following prompt, so a test ends with no prompt still to come.
        self.terminal.all = ""
        self.terminal.type("\x03")
        self.terminal.see(PROMPT)
        self.terminal.type("\\q\r")
        self.assertEqual(self.terminal.close(), 0)

    def test_statements_and_names(self):
        self.assertIn("GERMANY", self.ask("SELECT n_name FROM nation WHERE n_nationkey = 7;"))
        self.terminal.say("SELECT count(*)", "...> ")
        self.assertRegex(self.ask("FROM NATION;"), r"25[^>]*\(1 row, [0-9.]+ s\)")
        self.assertIn("n_name", self.ask("SELECT n_nam FROM nation;").partition(";")[2])
        self.assertIn("nation", self.ask("SELECT * FROM natoin;").partition(";")[2])

    def test_lines_typed_ahead(self):
        """Several lines pasted at once, and lines typed while a statement runs."""
        self.terminal.type("SELECT 'first ' || 'line';\rSELECT 'second ' || 'line';\r")
        for line in ("first line", "second line"):
            self.terminal.see(line)
        self.terminal.see(PROMPT)
        self.terminal.type("SELECT count(*) FROM generate_series(1, 30000000) AS g(n) WHERE sqrt(n) < 0;\r")
        self.terminal.type("SELECT 'third ' || 'line';\r")
        self.terminal.see("third line")
        self.terminal.see(PROMPT)

    def test_completion(self):
        # A completed line is drawn again with its prompt.
        self.assertIn("25 ", self.terminal.say("SELECT count(*) FROM nat\t;", "(1 row"))
        self.terminal.see(PROMPT)
        self.assertIn("18 ", self.terminal.say("SELECT nation.n_nationk\t FROM nation WHERE n_nam\t = 'CHINA';", "(1 row"))
        self.terminal.see(PROMPT)

    def test_files(self):
        script, out = self.data / "script.sql", self.data / "out.txt"
        script.write_text("SELECT 40 + 2 AS answer;\n")
        self.assertIn("42", self.ask(f"\\i {script}"))
        self.ask(f"\\o {out}")
        self.assertNotIn("FRANCE", self.ask("SELECT n_name FROM nation WHERE n_nationkey = 6;"))
        self.ask("\\o")
        self.assertIn("here again", self.ask("SELECT 'here ' || 'again';"))
        self.assertIn("FRANCE", out.read_text())
        self.assertIn("No such file", self.ask("\\i /nowhere.sql"))

    def script(self, name: str, text: str) -> str:
        """Writes a program for the shell, and returns its path."""
        path = self.data / name
        path.write_text("#!/bin/sh\n" + text)
        path.chmod(0o755)
        return str(path)

    def restart(self, *arguments: str, **options: object) -> None:
        """Leaves the shell, and starts another one."""
        self.leave()
        self.terminal = Terminal(COSCAN, "sql", *arguments, **options)
        self.terminal.see(PROMPT)

    def test_the_sql_is_that_of_the_server(self):
        answer = self.ask("""SELECT '{"env": "test"}'::json ->> 'env', 1;""")
        self.assertIn("?column?", answer)
        self.assertIn("| test", answer)
        self.assertIn('syntax error at or near "SELEC"', self.ask("SELEC 1;"))
        columns = self.ask("\\d LineItem")
        for name, kind in [("l_orderkey", "bigint"), ("l_tax", "numeric(15,2)"), ("l_shipdate", "date")]:
            self.assertRegex(columns, rf"{name} +{re.escape(kind)}")
        table = self.ask("SELECT 7 AS number, 'x' AS word UNION ALL SELECT 12345, 'yz' ORDER BY 1;")
        self.assertIn("|      7 | x    |", table)
        listed = self.ask("SHOW TABLES;")
        self.assertTrue("lineitem" in listed and "pg_class" not in listed, listed)
        self.assertIn("| nation ", self.ask("SELECT 'nation'::regclass AS name;"))
        self.assertIn("| table_name |", self.ask("SELECT relname AS table_name FROM pg_class WHERE relname = 'nation';"))

    def test_connection_databases_and_copies(self):
        self.assertRegex(self.ask("\\conninfo"), r"in this process, as user .*policy relevance.*2 tables")
        self.assertIn("coscan", self.ask("\\l"))
        out = self.data / "copied"
        self.assertIn("25 rows", self.ask(f"\\copy nation TO {out}.csv"))
        lines = Path(f"{out}.csv").read_text().splitlines()
        self.assertEqual((lines[0].split(",")[:2], len(lines)), (["n_nationkey", "n_name"], 26))
        self.ask(f"\\copy (SELECT n_name FROM nation WHERE n_nationkey = 6) TO '{out}.ndjson'")
        self.assertEqual(Path(f"{out}.ndjson").read_text(), '{"n_name":"FRANCE"}\n')
        self.assertIn("writes no tables", self.ask("\\copy nation FROM x.csv"))
        self.assertIn("cannot write", self.ask("\\copy nation TO /nowhere/x.csv"))
        self.assertIn("on the terminal", self.ask("SELECT 'on the ' || 'terminal';"))

    def test_an_editor_changes_the_statement(self):
        editor = self.script("editor", "sed -i 's/before/edited/' \"$1\"\necho ';' >> \"$1\"\n")
        self.restart(EDITOR=editor, VISUAL=editor)
        self.ask("SELECT 'be' || 'fore it';")
        self.terminal.type("\\e\r")
        self.terminal.see("(1 row")
        self.terminal.see(PROMPT)
        self.terminal.type("SELECT 'before ' ||\r")
        self.terminal.see("...> ")
        self.terminal.type("'all' \\e\r")
        self.terminal.see("edited all")
        self.terminal.see(PROMPT)

    def test_watch(self):
        self.terminal.type("SELECT 'seen' AS watched \\watch 0.2\r")
        for _ in range(3):
            self.terminal.see("| seen ")
        self.terminal.type("\x03")
        self.terminal.see(PROMPT)
        self.assertIn("after it", self.ask("SELECT 'after ' || 'it';"))

    def test_a_large_result_comes_in_pages(self):
        pager = self.script("pager", "head -n 3\necho paged\n")
        self.restart(f"--table=nation={self.data / 'nation.parquet'}", rows=10, PAGER=pager)
        self.ask("\\pager on")
        paged = self.ask("SELECT n_name FROM nation;")
        self.assertIn("paged", paged)
        self.assertNotIn("VIETNAM", paged)
        self.ask("\\pager off")
        self.assertIn("VIETNAM", self.ask("SELECT n_name FROM nation;"))

    def test_progress_is_shown(self):
        """Progress is shown for statements that take longer than a second, and disappears before the result."""
        slow = "SELECT count(*) FROM lineitem, generate_series(1, 2000) AS g(n) WHERE sqrt(l_orderkey + n) < 0;"
        self.terminal.type(slow + "\r")
        self.assertRegex(self.terminal.see(" read"), r"\d+ of 15 chunks")
        self.assertRegex(self.terminal.see(PROMPT), r"(?s)\| +0 \|.*\(1 row, [0-9.]+ s\)")

    def test_commands_of_psql(self):
        self.assertRegex(self.ask("\\d"), r"(?s)lineitem +16.*nation +4")
        self.assertRegex(self.ask("\\d NATION"), r"n_nationkey +bigint +not null")
        self.assertNotIn("lineitem", self.ask("\\dt nat*"))
        self.assertIn("timing is off", self.ask("\\timing"))
        self.assertRegex(self.ask("SELECT 1 AS one;"), r"\(1 row\)")
        self.assertIn("timing is on", self.ask("\\timing on"))
        self.ask("\\x on")
        self.assertIn("n_name | GERMANY", self.ask("SELECT n_name FROM nation WHERE n_nationkey = 7;"))
        self.ask("\\x off")
        self.assertIn("no command", self.ask("\\nonsense"))

    def test_a_running_statement_is_cancelled(self):
        self.terminal.type("SELECT count(*) FROM generate_series(1, 1000000000000);\r")
        # On a slow machine the shell may not have begun the statement, and take the key as one for the line.
        for _ in range(100):
            time.sleep(1.5)
            self.terminal.type("\x03")
            try:
                self.terminal.see("cancelled", 5)
                break
            except AssertionError:
                continue
        else:
            self.fail("the statement goes on")
        self.terminal.see(PROMPT)
        self.assertIn("still here", self.ask("SELECT 'still ' || 'here';"))


class Password(unittest.TestCase):
    """`coscan user add`."""

    def test_a_password_is_not_shown(self):
        with tempfile.TemporaryDirectory() as folder:
            users = Path(folder) / "users.toml"
            terminal = Terminal(COSCAN, "user", "add", "ann", "--users", users)
            terminal.see("password: ")
            terminal.type("correct horse\r")
            while terminal.read(1):
                pass
            self.assertNotIn("correct", terminal.all)
            self.assertEqual(terminal.close(), 0)
            self.assertIn("[users.ann]", users.read_text())
            # A user that cancels changes nothing, and the terminal has its earlier modes.
            terminal = Terminal("/bin/sh", "-c", f"'{COSCAN}' user add bob --users '{users}'; stty -a")
            terminal.see("password: ")
            terminal.type("half\x03\r")
            modes = terminal.see("-echonl")
            for mode in ("isig", "echo"):
                self.assertRegex(modes, rf"(?<!-)\b{mode}\b")
            terminal.close()
            self.assertNotIn("bob", users.read_text())
            listed = subprocess.run([COSCAN, "user", "list", "--users", users], capture_output=True, text=True)
            self.assertIn("ann", listed.stdout)
