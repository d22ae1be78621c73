"""The live page in a real browser: headless Chromium over a server with TPC-H data.

    python3 crates/server/checks/page.py --coscan target/release/coscan [--shots FOLDER] [--only NAME]

Needs Playwright for Python and Chromium (pip install playwright; apt-get install chromium, or `playwright install
chromium`). If one is missing, the checks are skipped with exit code 0; with COSCAN_REQUIRE_ALL=1 this is a
failure.
"""

import argparse
import base64
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

PASSWORD = "correct horse"
#: Statements of a dashboard. They read the same table with different conditions.
PANELS = [
    "SELECT l_returnflag, l_linestatus, sum(l_quantity), sum(l_extendedprice * (1 - l_discount)) FROM lineitem "
    "WHERE l_quantity < {n} GROUP BY 1, 2",
    "SELECT sum(l_extendedprice * l_discount) FROM lineitem WHERE l_discount < 0.0{d} AND l_tax < 0.07",
    "SELECT l_shipmode, count(*), avg(l_tax) FROM lineitem WHERE l_suppkey % 7 < {d} GROUP BY 1",
    "SELECT o_orderpriority, count(*), sum(o_totalprice) FROM orders WHERE o_custkey % 9 < {d} GROUP BY 1",
    "SELECT l_partkey % 100, sum(l_quantity) FROM lineitem WHERE l_orderkey % 5 < {d} GROUP BY 1",
]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    """A server on a port of its own, which can be stopped and started again."""

    def __init__(self, coscan, folder):
        self.coscan, self.folder, self.port = coscan, Path(folder), free_port()
        data = self.folder / "data"
        self.run("generate", "tpch", "--scale-factor", "0.2", "--tables", "lineitem,orders,nation,part,customer",
                 "--row-group-rows", "12000", "--out", str(data))
        self.users = self.folder / "users.toml"
        for name, role in [("ann", "read"), ("root", "admin")]:
            self.run("user", "add", name, "--role", role, "--users", str(self.users), stdin=PASSWORD + "\n")
        self.process = None

    def run(self, *arguments, stdin=None):
        done = subprocess.run([self.coscan, *arguments], input=stdin, text=True, capture_output=True)
        if done.returncode != 0:
            raise SystemExit(f"{' '.join(arguments)}: {done.stderr.strip()}")

    def start(self, read_limit="25MB"):
        data = self.folder / "data"
        tables = [f"--table={path.stem}={path}" for path in sorted(data.glob("*.parquet"))]
        self.log = open(self.folder / "server.log", "a")
        self.process = subprocess.Popen(
            [self.coscan, "serve", *tables, "--listen", f"127.0.0.1:{self.port}", "--users", str(self.users),
             "--read-limit", read_limit, "--buffer", "24MB", "--small-table-bytes", "0"],
            stdout=self.log, stderr=self.log)
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            try:
                with urllib.request.urlopen(f"{self.url}/readyz", timeout=2) as answer:
                    if answer.status == 200:
                        return
            except (OSError, urllib.error.URLError):
                time.sleep(0.1)
        raise SystemExit("the server does not start:\n" + (self.folder / "server.log").read_text()[-2000:])

    def kill(self):
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def sql(self, statement, user="root"):
        request = urllib.request.Request(
            f"{self.url}/api/sql", data=json.dumps({"sql": statement}).encode(),
            headers={"content-type": "application/json", "x-coscan": "check", **credentials(user)})
        with urllib.request.urlopen(request, timeout=300) as answer:
            return json.load(answer)


def credentials(user):
    return {"authorization": "Basic " + base64.b64encode(f"{user}:{PASSWORD}".encode()).decode()}


class Load:
    """Clients that repeat their queries until stopped."""

    def __init__(self, server, clients):
        self.server, self.over, self.done, self.errors = server, threading.Event(), 0, []
        self.threads = [threading.Thread(target=self.client, args=(n,), daemon=True) for n in range(clients)]
        for thread in self.threads:
            thread.start()

    def client(self, number):
        turn = number
        while not self.over.is_set():
            statement = PANELS[turn % len(PANELS)].format(n=10 + turn % 35, d=2 + turn % 5)
            try:
                self.server.sql(statement, "ann" if number % 2 else "root")
                self.done += 1
            except (OSError, urllib.error.URLError, ValueError) as error:
                self.errors.append(str(error))
                time.sleep(0.2)
            turn += 1

    def stop(self):
        self.over.set()
        for thread in self.threads:
            thread.join(60)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()


class Page:
    """A browser's page, with all messages of its console."""

    def __init__(self, browser, server, user="root", theme="dark", size=(1440, 1000)):
        self.context = browser.new_context(
            viewport={"width": size[0], "height": size[1]}, color_scheme=theme,
            http_credentials={"username": user, "password": PASSWORD})
        self.page = self.context.new_page()
        self.said = []
        self.page.on("console", lambda message: self.said.append(f"{message.type}: {message.text}"))
        self.page.on("pageerror", lambda error: self.said.append(f"error: {error}"))
        self.page.goto(server.url)
        self.page.wait_for_selector("#link.live", timeout=90000)

    def errors(self):
        return [text for text in self.said if text.startswith(("error", "warning"))]

    def canvas(self, selector):
        """Returns the pictures of canvases, for comparison."""
        return self.page.eval_on_selector_all(selector, "all => all.map(canvas => canvas.toDataURL()).join()")

    def text(self, selector):
        return self.page.inner_text(selector)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.context.close()


def wait(what, condition, seconds=90):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return
        time.sleep(0.1)
    raise AssertionError(f"not within {seconds} s: {what}")


def check_page_needs_a_password(browser, server, _):
    context = browser.new_context()
    for path in ["/", "/page.js", "/api/about"]:
        answer = context.request.get(server.url + path)
        assert answer.status == 401, (path, answer.status)
        assert "lineitem" not in answer.text()
    context.close()


def check_map_changes_while_queries_run(browser, server, _):
    with Page(browser, server) as page:
        page.page.wait_for_selector(".table canvas")
        idle = page.canvas(".table canvas")
        with Load(server, 6) as load:
            wait("queries are listed", lambda: page.page.locator("#queries li.query").count() >= 3)
            seen = {idle}
            wait("five pictures of the map", lambda: seen.add(page.canvas(".table canvas")) or len(seen) >= 5)
            wait("progress", lambda: any("chunks" in text for text in page.page.locator("#queries .words").all_inner_texts()))
            page.page.locator("#queries li.query").first.focus()
            dots = page.canvas("#loads canvas")
            wait("the loads move", lambda: page.canvas("#loads canvas") != dots)
            wait("bytes are saved", lambda: page.text(".figure.star b") not in ("–", "0 B"))
        assert load.done > 0 and not load.errors, load.errors[:3]
        wait("the list empties", lambda: page.page.locator("#queries li.query").count() == 0, 120)
        assert page.errors() == [], page.errors()


def check_a_result_that_is_taken_is_told(browser, server, _):
    statement = "SELECT count(*) FROM lineitem, nation b, nation c WHERE l_suppkey % 7 + b.n_nationkey < c.n_nationkey"
    answers = []
    ask = lambda: answers.append(server.sql(statement)["rows"])
    with Page(browser, server) as page:
        threads = [threading.Thread(target=ask, daemon=True) for _ in range(2)]
        for thread in threads:
            thread.start()
        words = lambda: page.page.locator("#queries .words").all_inner_texts()
        wait("who takes a result says so", lambda: any("takes its result from query" in text for text in words()), 120)
        for thread in threads:
            thread.join(120)
        assert len(answers) == 2 and answers[0] == answers[1], answers
        assert page.errors() == [], page.errors()


def check_policy_and_buffer(browser, server, _):
    with Page(browser, server) as page, Page(browser, server, "ann") as reader, Load(server, 4):
        wait("the policies", lambda: page.page.locator("#policy option").count() > 3)
        assert reader.page.is_disabled("#policy") and reader.page.is_disabled("#buffer")
        page.page.select_option("#policy", "normal")
        wait("others see the policy", lambda: reader.page.input_value("#policy") == "normal")
        before = reader.text("#buffer-size")
        page.page.focus("#buffer")
        for _ in range(30):
            page.page.keyboard.press("ArrowRight")
        wait("others see the buffer", lambda: reader.text("#buffer-size") != before)
        page.page.select_option("#policy", "relevance")
        wait("others see it again", lambda: reader.page.input_value("#policy") == "relevance")
        assert page.text("#said") == ""
        assert page.errors() == [] and reader.errors() == [], page.errors() + reader.errors()


def check_query_box(browser, server, _):
    with Page(browser, server, "ann") as page:
        page.page.fill("#sql", "SELECT n_name, n_nationkey, NULL AS nothing FROM nation ORDER BY n_nationkey")
        page.page.focus("#sql")
        page.page.keyboard.press("Control+Enter")
        page.page.wait_for_selector("#result tbody tr")
        assert page.page.locator("#result tbody tr").count() == 25
        assert page.text("#result tbody tr:first-child td:first-child") == "ALGERIA"
        assert "25 rows" in page.text("#outcome")
        page.page.fill("#sql", "SELECT '<img src=x onerror=alert(1)>' AS markup")
        page.page.click("button[type=submit]")
        page.page.wait_for_selector("#result td:has-text('<img')")
        page.page.fill("#sql", "SELECT count(*) FROM lineitem WHERE l_tax < 0.05")
        page.page.click("#explain")
        page.page.wait_for_selector(".plan .shared:has-text('shared scan')")
        page.page.click("#analyze")
        page.page.wait_for_selector(".plan .shared:has-text('shared scan of lineitem')")
        shares = [int(text.split("%")[0]) for text in page.page.locator(".plan td:nth-child(3) span").all_inner_texts()]
        assert 90 <= sum(shares) <= 110, shares
        page.page.locator(".plan summary.shared").first.click()
        assert "chunks_delivered" in page.text(".plan details[open]")
        page.page.fill("#sql", "SELECT * FROM linitem")
        page.page.click("button[type=submit]")
        page.page.wait_for_selector("#outcome.wrong:has-text('linitem')")
        # The browser's own message about status 400 is no error of the page.
        ours = [text for text in page.errors() if "400" not in text]
        assert ours == [], ours


def check_start(browser, server, _):
    with Page(browser, server, "ann") as page:
        if page.page.get_attribute("#start", "open") is None:
            page.page.click("#start summary")
        wait("the tables", lambda: page.page.locator("#start .tables li").count() == 5)
        words = page.text("#start .tables")
        assert "25 rows" in words and "16 columns" in words and "MB" in words, words
        line = page.text("#connection")
        assert f"port={server.port} user=ann" in line and line.startswith("psql"), line
        page.page.click("#copy")
        wait("the copy is confirmed", lambda: page.text("#copy") in ("Copied", "Selected"))
        page.page.click("#samples")
        wait("the samples end", lambda: page.page.locator("#start ol li").count() == 8)
        wait("what they shared", lambda: "over lineitem" in page.text("#start .outcome"))
        assert page.page.locator("#start ol .wrong").count() == 0, page.text("#start ol")
        wait("they are among the last statements", lambda: page.page.locator("#finished li").count() >= 8)
        page.page.click("#start .tables button:has-text('nation')")
        assert page.page.input_value("#sql") == "SELECT * FROM nation LIMIT 10"
        assert page.errors() == [], page.errors()


def check_last_statements(browser, server, _):
    server.sql("SELECT count(*) AS secret FROM nation", "root")
    try:
        server.sql("SELECT 'x'::integer AS wrong", "ann")
        raise AssertionError("a text is no integer")
    except urllib.error.HTTPError as error:
        assert error.code == 400, error
    with Page(browser, server, "ann") as page, Page(browser, server, "root") as admin:
        first = "#finished li:first-child"
        wait("the last statement", lambda: "wrong" in page.text(f"{first} code"))
        assert "invalid input syntax" in page.text(f"{first} .words"), page.text(first)
        assert page.text("#finished li:nth-child(2) code") == "a statement of another user"
        assert "secret" in admin.text("#finished li:nth-child(2) code")
        page.page.click(f"{first} button")
        assert page.page.input_value("#sql") == "SELECT 'x'::integer AS wrong"
        assert page.errors() == [] and admin.errors() == [], page.errors() + admin.errors()


def check_savings(browser, server, _):
    with Page(browser, server) as page, Load(server, 4):
        rows = lambda: page.page.locator("#savings tbody tr").all_inner_texts()
        wait("figures of the policy", lambda: any("relevance" in row and "×" in row for row in rows()))
        before = page.canvas("#savings canvas")
        page.page.select_option("#policy", "elevator")
        wait("figures of both policies", lambda: "elevator" in rows()[0] and "relevance" in rows()[1])
        wait("the drawing goes on", lambda: page.canvas("#savings canvas") != before)
        page.page.select_option("#policy", "relevance")
        wait("three spans", lambda: len(rows()) >= 3)
        assert page.errors() == [], page.errors()
    # Another browser sees what happened before it came.
    with Page(browser, server) as page:
        wait("the spans", lambda: page.page.locator("#savings tbody tr").count() >= 3)


def check_comparison(browser, server, _):
    with Page(browser, server, "ann") as page:
        page.page.fill("#sql", "SELECT sum(l_tax) FROM lineitem WHERE l_tax < 0.05")
        page.page.click("#compare")
        wait("both runs", lambda: page.page.locator("#result .plan tbody tr").count() == 2)
        alone, shared = page.page.locator("#result .plan tbody tr").all_inner_texts()
        assert "without sharing" in alone and "with sharing" in shared and "read" in alone, (alone, shared)
        assert page.text("#outcome") == "the same rows"
        assert page.errors() == [], page.errors()


def check_chart_file_and_completion(browser, server, _):
    with Page(browser, server, "ann") as page:
        page.page.fill("#sql", "SELECT n_nationkey AS key, n_nationkey * 2 AS twice, n_name FROM nation ORDER BY 1")
        page.page.click("button[type=submit]")
        page.page.click("#forms button:has-text('Chart')")
        page.page.wait_for_selector("#result .chart canvas")
        page.page.click("#forms button:has-text('Table')")
        page.page.wait_for_selector("#result tbody tr")
        with page.page.expect_download() as download:
            page.page.click("#forms a")
        lines = Path(download.value.path()).read_text().splitlines()
        assert lines[0] == "key,twice,n_name" and lines[1] == "0,0,ALGERIA" and len(lines) == 26, lines[:3]
        page.page.fill("#sql", "")
        page.page.focus("#sql")
        page.page.keyboard.type("SELECT n_reg")
        page.page.wait_for_selector("#words li:has-text('n_regionkey')")
        page.page.keyboard.press("Tab")
        assert page.page.input_value("#sql") == "SELECT n_regionkey"
        page.page.keyboard.type(" FROM nat")
        page.page.keyboard.press("ArrowDown")
        page.page.keyboard.press("Enter")
        assert page.page.input_value("#sql") == "SELECT n_regionkey FROM nation"
        page.page.click("#schema summary:has-text('nation')")
        page.page.wait_for_selector("#schema details[open] li:has-text('bigint')")
        assert page.errors() == [], page.errors()


def check_operators_that_work(browser, server, _):
    statement = ("SELECT count(*) FROM (SELECT DISTINCT l_suppkey AS s FROM lineitem) a, "
                 "(SELECT DISTINCT l_partkey AS p FROM lineitem) b WHERE (s * p) % 7 < 3")
    with Page(browser, server) as page:
        thread = threading.Thread(target=lambda: server.sql(statement), daemon=True)
        thread.start()
        words = lambda: page.page.locator("#queries .words").all_inner_texts()
        wait("the operator that works", lambda: any("scans done, nested loop join works" in text for text in words()), 120)
        thread.join(120)
        assert page.errors() == [], page.errors()


def check_one_colour_a_query(browser, server, _):
    with Page(browser, server) as page, Load(server, 4):
        wait("queries", lambda: page.page.locator("#queries li.query").count() > 0)
        wait("dots", lambda: page.page.locator("#loads canvas").evaluate("canvas => canvas.clientWidth") > 0)
        # The last dot, by the keyboard.
        page.page.focus("#loads canvas")
        wait("a dot is said", lambda: page.page.keyboard.press("ArrowLeft") or "chunk" in page.text("#loads .hint").split(":")[0])
        chosen = lambda: page.page.locator("#queries li[aria-current=true]").count() == 1
        first = page.page.locator("#queries li.query").first
        wait("one is chosen", lambda: chosen() or (first.focus(), page.page.keyboard.press("Enter")) and chosen())
        assert page.errors() == [], page.errors()


def check_many_tables(browser, server, _):
    tables = ["lineitem", "orders", "nation", "part", "customer"]
    for table in tables:
        server.sql(f"SELECT max({table[0]}_comment || '.') FROM {table}")
    names = lambda: [name.split()[0] for name in page.page.locator("#maps summary").all_inner_texts()]
    opened = lambda: page.page.locator("#maps details[open]").count()
    with Page(browser, server) as page:
        wait("the maps", lambda: sorted(names()) == sorted(tables))
        wait("idle ones are folded", lambda: opened() == 0)
        with Load(server, 2):
            wait("the one in use is open and first", lambda: names()[0] == "lineitem" and 1 <= opened() <= 2)
        page.page.locator("#maps summary").last.click()
        assert 2 <= opened() <= 3, "one's own choice"
        assert page.errors() == [], page.errors()


def check_keyboard(browser, server, _):
    # The engine knows a table after its first query.
    server.sql("SELECT count(l_tax) FROM lineitem WHERE l_tax < 1")
    with Page(browser, server) as page:
        page.page.wait_for_selector(".table canvas")
        page.page.focus(".table canvas")
        for key in ["ArrowRight", "ArrowRight", "ArrowDown"]:
            page.page.keyboard.press(key)
        wait("the cell is said", lambda: "chunk 1:" in page.text("#cell"))
        theme = page.page.get_attribute("html", "data-theme")
        page.page.keyboard.press("t")
        assert page.page.get_attribute("html", "data-theme") != theme
        reached = set()
        for _ in range(80):
            page.page.keyboard.press("Tab")
            reached.add(page.page.evaluate("document.activeElement.id || document.activeElement.tagName"))
        assert {"sql", "CANVAS"} <= reached, reached


def check_lost_connection_recovers(browser, server, _):
    with Page(browser, server) as page:
        server.kill()
        page.page.wait_for_selector("#link.lost", timeout=90000)
        server.start()
        page.page.wait_for_selector("#link.live", timeout=90000)
        with Load(server, 3):
            wait("queries are seen again", lambda: page.page.locator("#queries li.query").count() > 0)
        faults = [text for text in page.errors() if "ERR_" not in text and "Failed to" not in text]
        assert faults == [], faults


FRAMES = """milliseconds => new Promise(done => {
  const times = []; let last = performance.now(); const end = last + milliseconds;
  const tick = now => { times.push(now - last); last = now; now < end ? requestAnimationFrame(tick) : done(times); };
  requestAnimationFrame(tick);
})"""

#: Makes every frame take this much longer.
SLOW = """milliseconds => {
  const slow = () => { const end = performance.now() + milliseconds; while (performance.now() < end); requestAnimationFrame(slow); };
  requestAnimationFrame(slow);
}"""

#: Maximum processor time of the page's main thread per frame or message: that of one frame at sixty a second.
FRAME_MS = 1000 / 60


def cost_of_steps(page, milliseconds=5000):
    """Returns the processor time of the page's main thread per step. A step is a drawn frame or a message of the
    server.

    This is processor time, not wall-clock time: other work on the machine makes frames rare, but not expensive.
    Messages come ten times a second, so with rare frames more messages fall on each."""
    client = page.context.new_cdp_session(page.page)
    client.send("Performance.enable", {"timeDomain": "threadTicks"})
    messages = []
    client.on("Network.eventSourceMessageReceived", lambda message: messages.append(message["timestamp"]))
    client.send("Network.enable")
    taken = lambda: {m["name"]: m["value"] for m in client.send("Performance.getMetrics")["metrics"]}
    before = taken()
    times = page.page.evaluate(FRAMES, milliseconds)
    after = taken()
    client.detach()
    steps = len(times) + len(messages)
    per_step = lambda name: round(1000 * (after[name] - before[name]) / steps, 2)
    times.sort()
    return {"frames": len(times), "frame_ms_p50": round(times[len(times) // 2], 1),
            "frame_ms_p95": round(times[len(times) * 95 // 100], 1), "messages": len(messages),
            "main_thread_cpu_ms_per_step": per_step("TaskDuration"), "script_cpu_ms_per_step": per_step("ScriptDuration")}


def check_two_hundred_queries(browser, server, shots):
    # At this rate the queries need more than a minute for their columns, whatever the machine.
    server.kill()
    server.start(read_limit="500kB")
    try:
        with Page(browser, server) as page, Load(server, 200):
            wait("200 queries", lambda: page.page.locator("#queries li.query").count() == 200, 60)
            said = cost_of_steps(page)
            print("   200 queries:", json.dumps(said), flush=True)
            assert said["messages"] > 0, said
            assert said["main_thread_cpu_ms_per_step"] < FRAME_MS, said
            if shots:
                page.page.screenshot(path=str(shots / "many.png"))
            assert page.errors() == [], page.errors()
            server.kill()
    finally:
        server.kill()
        server.start()
    # The measurement detects a slow script, even if the script gets only a part of a processor.
    with Page(browser, server) as page:
        page.page.evaluate(SLOW, 6 * FRAME_MS)
        slow = cost_of_steps(page, 2000)
        assert slow["main_thread_cpu_ms_per_step"] > FRAME_MS, f"a slow script was not seen: {slow}"


def check_both_themes_and_small_screens(browser, server, shots):
    for name, theme, size in [("dark", "dark", (1440, 1000)), ("light", "light", (1440, 1000)), ("small", "dark", (375, 812))]:
        with Page(browser, server, theme=theme, size=size) as page, Load(server, 9):
            page.page.wait_for_selector(".table canvas")
            wait("queries", lambda: page.page.locator("#queries li.query").count() > 3)
            time.sleep(6)
            wide = page.page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
            assert wide, f"{name}: the page is wider than the screen"
            ground = page.page.evaluate("getComputedStyle(document.body).backgroundColor")
            assert ground == ("rgb(244, 245, 247)" if theme == "light" else "rgb(13, 16, 22)"), ground
            if shots:
                if name == "small":
                    # Rows outside the visible part of a list are not drawn.
                    page.page.set_viewport_size({"width": size[0], "height": 2150})
                    time.sleep(1)
                page.page.screenshot(path=str(shots / f"{name}.png"))
            assert page.errors() == [], page.errors()


CHECKS = [
    check_page_needs_a_password, check_start, check_query_box, check_last_statements, check_comparison,
    check_chart_file_and_completion, check_map_changes_while_queries_run, check_policy_and_buffer, check_savings,
    check_operators_that_work, check_one_colour_a_query, check_a_result_that_is_taken_is_told, check_keyboard,
    check_both_themes_and_small_screens, check_two_hundred_queries, check_lost_connection_recovers, check_many_tables,
]


def left_out(why):
    print(f"left out, the page in a browser: {why}")
    sys.exit(1 if os.environ.get("COSCAN_REQUIRE_ALL") == "1" else 0)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--coscan", required=True)
    parser.add_argument("--shots", type=Path, help="folder for pictures of the page")
    parser.add_argument("--only", default="", help="only checks with this in their names")
    options = parser.parse_args()
    try:
        from playwright.sync_api import Error, sync_playwright
    except ImportError:
        left_out("Playwright is missing (pip install playwright)")
    if options.shots:
        options.shots.mkdir(parents=True, exist_ok=True)
    failed = 0
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        found = next(filter(None, map(shutil.which, ["chromium", "chromium-browser", "google-chrome"])), None)
        try:
            browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        except Error:
            left_out("Chromium is missing (apt-get install chromium)")
        server = Server(options.coscan, folder)
        server.start()
        try:
            for check in CHECKS:
                if options.only not in check.__name__:
                    continue
                started = time.monotonic()
                try:
                    check(browser, server, options.shots)
                    print(f"ok {check.__name__} ({time.monotonic() - started:.1f} s)", flush=True)
                except Exception as error:  # noqa: BLE001  each check is reported by itself
                    failed += 1
                    print(f"FAILED {check.__name__}: {error}", flush=True)
        finally:
            server.kill()
            browser.close()
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
