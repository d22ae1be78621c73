"""What users and administrators may do while scans cooperate, against the same statements without.

    python3 -m unittest crates.postgres.checks.tests        (see `make postgres-test`)

The cluster has small chunks, little memory, and registers every scan, so that small tables show what big ones do.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

from .server import Cluster, Failed, Missing, Server, finish, install_packages

TARGET = Path(os.environ.get("CARGO_TARGET_DIR", "target")).resolve()
POLICIES = ("normal", "attach", "elevator", "relevance", "relevance-2004", "pbm", "pbm-sampling")
SETTINGS = {
    "shared_buffers": "24MB",
    "coscan.buffer_size": "6MB",
    "coscan.chunk_size": 32,
    "coscan.min_table_size": 0,
    "coscan.always_register": "on",
    "max_prepared_transactions": 4,
    "max_parallel_workers": 8,
    "max_worker_processes": 16,
}
TABLES = """
CREATE EXTENSION coscan;
CREATE TABLE big (id int, grp int, amount numeric, note text);
INSERT INTO big SELECT i, i % 97, i * 1.01, repeat(chr(65 + i % 26), 150) FROM generate_series(1, 120000) i;
CREATE TABLE small AS SELECT i AS grp, 'group ' || i AS name FROM generate_series(0, 96) i;
CREATE TABLE empty (id int);
CREATE TABLE wide (id int, body text);
INSERT INTO wide SELECT i, (SELECT string_agg(md5((i * 1000 + j)::text), '') FROM generate_series(1, 200) j) FROM generate_series(1, 800) i;
CREATE TABLE parted (id int, grp int, note text) PARTITION BY RANGE (id);
CREATE TABLE parted_1 PARTITION OF parted FOR VALUES FROM (0) TO (20000);
CREATE TABLE parted_2 PARTITION OF parted FOR VALUES FROM (20000) TO (60000);
CREATE TABLE parted_3 PARTITION OF parted DEFAULT;
INSERT INTO parted SELECT i, i % 97, repeat('p', 100) FROM generate_series(1, 80000) i;
CREATE TABLE parent (id int, note text);
CREATE TABLE child (more int) INHERITS (parent);
INSERT INTO parent SELECT i, repeat('a', 100) FROM generate_series(1, 20000) i;
INSERT INTO child SELECT i, repeat('b', 100), i FROM generate_series(1, 20000) i;
CREATE MATERIALIZED VIEW sums AS SELECT grp, count(*) AS n FROM big GROUP BY grp;
CREATE UNLOGGED TABLE unlogged AS SELECT * FROM big WHERE id <= 30000;
CREATE TABLE gone AS SELECT i AS id, repeat('d', 100) AS note FROM generate_series(1, 30000) i;
DELETE FROM gone WHERE id % 3 = 0;
UPDATE gone SET note = 'changed' WHERE id % 3 = 1;
CREATE FUNCTION slow(i int) RETURNS int LANGUAGE plpgsql VOLATILE AS
    'BEGIN IF i % 3000 = 0 THEN PERFORM pg_sleep(0.05); END IF; RETURN i; END';
VACUUM ANALYZE;
"""
SLOW = "SELECT sum(slow(id)::bigint) FROM big"
SLOW_SUM = str(120000 * 120001 // 2)
SHAPES = (
    "SELECT count(*) FROM big",
    "SELECT * FROM empty",
    "SELECT sum(amount), min(note), max(id) FROM big WHERE grp = 5",
    "SELECT id, amount * 2 FROM big WHERE id % 1000 = 7 AND note LIKE 'B%'",
    "SELECT grp, count(*), avg(amount) FROM big GROUP BY grp",
    "SELECT name, count(*) FROM big JOIN small USING (grp) GROUP BY name",
    "SELECT count(*) FROM big a JOIN big b ON a.id = b.id + 1 WHERE a.grp = 3",
    "SELECT count(*) FROM big a WHERE EXISTS (SELECT FROM small s WHERE s.grp = a.grp AND s.grp > 90)",
    "SELECT s.grp, (SELECT count(*) FROM parent p WHERE p.id = s.grp * 7) FROM small s WHERE s.grp < 6",
    "SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_material = off; "
    "SELECT count(*) FROM (SELECT * FROM small WHERE grp < 5) s JOIN unlogged u ON u.id % 97 = s.grp",
    "SELECT grp, x.id FROM small, LATERAL (SELECT id FROM parent WHERE id % 97 = grp ORDER BY id DESC LIMIT 2) x",
    "SELECT count(*), sum(length(body)) FROM wide",
    "SELECT md5(body) FROM wide WHERE id % 100 = 0",
    "SELECT count(*), sum(id) FROM parted",
    "SELECT count(*) FROM parted WHERE id BETWEEN 15000 AND 25000",
    "SELECT tableoid::regclass, count(*), max(id) FROM parted GROUP BY 1",
    "SELECT p.grp, count(*) FROM parted p JOIN small USING (grp) WHERE p.id > 70000 GROUP BY 1",
    "SELECT tableoid::regclass, count(*) FROM parent GROUP BY 1",
    "SELECT ctid, id FROM big WHERE id % 9999 = 0",
    "SELECT xmin::text <> '0', big FROM big WHERE id = 77777",
    "SELECT id, rank() OVER (ORDER BY id DESC) FROM big WHERE grp = 11 ORDER BY id LIMIT 5",
    "SELECT DISTINCT grp FROM big ORDER BY grp",
    "SELECT id FROM big WHERE grp = 1 UNION ALL SELECT id FROM parent WHERE id < 10 EXCEPT SELECT id FROM child WHERE id < 5",
    "WITH RECURSIVE r(n) AS (SELECT min(id) FROM big UNION ALL SELECT n * 3 FROM r WHERE n < 100) SELECT * FROM r",
    "WITH m AS MATERIALIZED (SELECT * FROM big WHERE grp = 2) SELECT count(*) FROM m a, m b WHERE a.id = b.id",
    "SELECT sum(n) FROM sums",
    "SELECT count(*), min(note) FROM unlogged",
    "SELECT count(*), count(*) FILTER (WHERE note = 'changed') FROM gone",
    "SELECT count(*) FROM (SELECT id FROM big OFFSET 100) x",
    "SELECT count(*) FROM big FULL JOIN parent USING (id)",
    "BEGIN ISOLATION LEVEL SERIALIZABLE; SELECT count(*) FROM big; COMMIT",
    "BEGIN; CREATE TABLE copy AS SELECT * FROM big; SELECT count(*), sum(id) FROM copy; ROLLBACK",
    "BEGIN; INSERT INTO big SELECT id + 1000000, grp, amount, note FROM big; SELECT count(*), sum(id) FROM big; ROLLBACK",
    "BEGIN; UPDATE parent SET note = b.note FROM big b WHERE b.id = parent.id AND b.grp = 4; "
    "SELECT count(*) FROM parent WHERE note LIKE 'A%' OR note LIKE 'B%'; ROLLBACK",
    "BEGIN; DELETE FROM parent USING big b WHERE b.id = parent.id AND b.grp < 50; SELECT count(*) FROM parent; ROLLBACK",
    "PREPARE p(int) AS SELECT count(*) FROM big WHERE grp = $1; EXECUTE p(1); EXECUTE p(2); SET plan_cache_mode = force_generic_plan; EXECUTE p(3)",
)
PARALLEL = "SET min_parallel_table_scan_size = 0; SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET max_parallel_workers_per_gather = 3;"
SERIAL = "SET max_parallel_workers_per_gather = 0;"
OFF = "SET coscan.enabled = off;"


def setUpModule() -> None:
    try:
        install_packages()
    except Missing as missing:
        raise unittest.SkipTest(str(missing)) from missing
    global FOLDER, SERVER
    FOLDER = Path(tempfile.mkdtemp(prefix="coscan-postgres-"))
    FOLDER.chmod(0o755)
    SERVER = Server(FOLDER, TARGET)


def tearDownModule() -> None:
    shutil.rmtree(FOLDER, ignore_errors=True)


class Base(unittest.TestCase):
    """One cluster for the tests of a class."""

    cluster: Cluster
    settings: dict[str, object] = {}
    tables = TABLES

    @classmethod
    def setUpClass(cls) -> None:
        cls.cluster = Cluster(SERVER, cls.__name__.lower(), SETTINGS | cls.settings)
        cls.cluster.create("-k")
        cls.cluster.start()
        cls.addClassCleanup(cls.cluster.__exit__)
        cls.cluster.sql(cls.tables)

    def assert_at_rest(self) -> None:
        """No scan holds a slot, no frame is held, and the fetcher serves."""
        self.cluster.wait_until("count(*) = 0 FROM coscan_scans")
        self.assertEqual(self.cluster.one("SELECT count(*) FROM coscan_chunks"), "0")
        self.cluster.wait_until("fetcher_pid IS NOT NULL FROM coscan_stats")

    def wait_for_scan(self) -> int:
        """Waits until a scan has chunks; the backend's process id."""
        self.cluster.wait_until("count(*) > 0 FROM coscan_scans WHERE chunks_done > 2")
        return int(self.cluster.sql("SELECT pid FROM coscan_scans ORDER BY chunks_done DESC LIMIT 1")[0])

    def stat(self, name: str) -> int:
        return int(float(self.cluster.one(f"SELECT {name} FROM coscan_stats")))

    def plan(self, sql: str) -> str:
        return "\n".join(self.cluster.sql(f"{SERIAL} EXPLAIN (COSTS OFF) {sql}"))


class Results(Base):
    """The same rows as without the extension."""

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        cls.expected = {shape: sorted(cls.cluster.sql(OFF + SERIAL + shape)) for shape in SHAPES}

    def test_shapes_under_every_policy(self) -> None:
        for policy in POLICIES:
            # All shapes under those that most sessions will use, a sample under the others.
            for shape in SHAPES if policy in ("attach", "relevance") else SHAPES[::4]:
                with self.subTest(policy=policy, shape=shape):
                    rows = self.cluster.sql(f"SET coscan.policy = '{policy}'; {SERIAL} {shape}")
                    self.assertEqual(sorted(rows), self.expected[shape])
        self.assert_at_rest()

    def test_shapes_in_parallel_plans(self) -> None:
        for leader in ("on", "off"):
            for shape in SHAPES if leader == "on" else SHAPES[::4]:
                with self.subTest(leader=leader, shape=shape):
                    rows = self.cluster.sql(f"SET parallel_leader_participation = {leader}; {PARALLEL} {shape}")
                    self.assertEqual(sorted(rows), self.expected[shape])
        self.assert_at_rest()

    def test_parallel_rescans(self) -> None:
        shape = (
            "SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_material = off; SET enable_memoize = off;"
            "SELECT sum((SELECT count(*) FROM unlogged WHERE id > o.grp * 100)) FROM small o WHERE grp < 5"
        )
        self.assertEqual(self.cluster.sql(PARALLEL + shape), self.cluster.sql(OFF + SERIAL + shape))
        self.assert_at_rest()

    def test_64_sessions_at_once(self) -> None:
        choose = random.Random(1)
        sessions = []
        for number in range(64):
            shape = choose.choice(SHAPES[:20])
            policy = choose.choice(POLICIES)
            mode = PARALLEL if number % 16 == 0 else SERIAL
            sessions.append((shape, self.cluster.psql(f"SET coscan.policy = '{policy}'; {mode} {shape}")))
        for shape, session in sessions:
            self.assertEqual(sorted(finish(session, 300)), self.expected[shape])
        self.assertGreater(self.stat("chunks_shared"), 0)
        self.assert_at_rest()

    def test_policies_switch_while_scans_run(self) -> None:
        sessions = [self.cluster.psql(SERIAL + SLOW) for _ in range(4)]
        self.wait_for_scan()
        for policy in (*POLICIES, None, "relevance"):
            self.cluster.sql(f"SELECT coscan_switch_policy({policy!r})".replace("None", "NULL"))
            time.sleep(0.1)
        self.assertEqual(set(self.cluster.sql("SELECT policy FROM coscan_scans")) | {"relevance"}, {"relevance"})
        for session in sessions:
            self.assertEqual(finish(session), [SLOW_SUM])
        self.cluster.sql("SELECT coscan_switch_policy(NULL)")
        self.assert_at_rest()

    def test_the_table_grows_while_scans_run(self) -> None:
        self.cluster.sql("CREATE TABLE growing AS SELECT * FROM big WHERE id <= 60000")
        first = self.cluster.psql(SERIAL + "SELECT count(slow(id)) FROM growing")
        self.wait_for_scan()
        self.cluster.sql("INSERT INTO growing SELECT * FROM big WHERE id > 60000")
        self.assertEqual(self.cluster.sql(SERIAL + "SELECT count(*), sum(id) FROM growing"), [f"120000|{SLOW_SUM}"])
        self.assertEqual(finish(first), ["60000"])
        self.cluster.sql("DROP TABLE growing")

    def test_budgets_change_while_scans_run(self) -> None:
        session = self.cluster.psql(SERIAL + SLOW)
        self.wait_for_scan()
        for size in ("1MB", "11MB", "6MB"):
            self.cluster.settings["coscan.buffer_size"] = size
            self.cluster.reload()
            time.sleep(0.3)
        self.assertEqual(finish(session), [SLOW_SUM])


class Plans(Base):
    """Which scans cooperate, and what is said of them."""

    settings = {"coscan.trace": "run"}

    def test_big_plain_heap_scans_do(self) -> None:
        for sql in ("SELECT * FROM big", "SELECT count(*) FROM parted", "SELECT * FROM sums", "SELECT * FROM unlogged",
                    "SELECT * FROM big ORDER BY id LIMIT 3", "INSERT INTO empty SELECT id FROM big"):
            self.assertIn("Custom Scan (Coscan) on", self.plan(sql), sql)

    def test_others_do_not(self) -> None:
        for sql in (
            "SELECT * FROM big LIMIT 3", "SELECT * FROM big ORDER BY id FETCH FIRST 3 ROWS WITH TIES", "SELECT * FROM big FOR UPDATE",
            "SELECT * FROM big FOR KEY SHARE", "UPDATE big SET id = id", "DELETE FROM big", "SELECT * FROM pg_class",
            "SELECT * FROM big TABLESAMPLE SYSTEM (10)", "DECLARE c CURSOR FOR SELECT * FROM big",
        ):
            self.assertNotIn("Coscan", self.plan(sql), sql)
        rows = self.cluster.sql("CREATE TEMP TABLE mine AS SELECT * FROM big; EXPLAIN SELECT * FROM mine")
        self.assertNotIn("Coscan", "\n".join(rows))
        rows = self.cluster.sql("SET coscan.min_table_size = '1GB'; EXPLAIN SELECT * FROM big")
        self.assertNotIn("Coscan", "\n".join(rows))
        rows = self.cluster.sql(f"SET coscan.parallel = off; {PARALLEL} EXPLAIN SELECT count(*) FROM big")
        self.assertNotIn("Coscan", "\n".join(rows))

    def test_cursors_go_back_and_forth(self) -> None:
        sql = "SET synchronize_seqscans = off; BEGIN; DECLARE c SCROLL CURSOR FOR SELECT id FROM big; FETCH 3 c; FETCH BACKWARD 2 c; MOVE 5000 c; FETCH 1 c; FETCH PRIOR c; COMMIT"
        self.assertEqual(self.cluster.sql(sql), self.cluster.sql(OFF + sql))

    def test_cached_plans_follow_the_setting(self) -> None:
        rows = self.cluster.sql(f"""{SERIAL} SET plan_cache_mode = force_generic_plan; PREPARE p AS SELECT count(*) FROM big;
            EXECUTE p; SET coscan.enabled = off; SELECT coscan_stats_reset(); EXECUTE p; SELECT scans FROM coscan_stats""")
        self.assertEqual([row for row in rows if row], ["120000", "120000", "0"])

    def test_explain_says_where_chunks_came_from(self) -> None:
        chunks = int(self.cluster.one("SELECT ceil(pg_relation_size('big') / 262144.0)"))
        rows = "\n".join(self.cluster.sql(f"SET coscan.policy = attach; {SERIAL} EXPLAIN (ANALYZE, BUFFERS) SELECT count(*) FROM big"))
        self.assertRegex(rows, r"Policy: attach")
        counts = dict(pair.split("=") for pair in rows.split("Chunks: ")[1].split("\n")[0].split()[:4])
        self.assertEqual(sum(map(int, counts.values())), chunks, rows)
        rows = "\n".join(self.cluster.sql(f"{SERIAL} EXPLAIN (ANALYZE, FORMAT JSON) SELECT count(*) FROM big"))
        for key in ("Policy", "Chunks Read", "Chunks Shared", "Chunk Waits", "Waited"):
            self.assertIn(f'"{key}"', rows)

    def test_a_cached_table_needs_no_fetcher(self) -> None:
        rows = self.cluster.sql(f"""SET coscan.always_register = off; {SERIAL} SELECT count(*) FROM small; SELECT coscan_stats_reset();
            SELECT count(*) FROM small; SELECT scans FROM coscan_stats""")
        self.assertEqual([row for row in rows if row], ["97", "97", "0"])

    def test_what_is_recorded_can_be_replayed(self) -> None:
        chunks = int(self.cluster.one("SELECT ceil(pg_relation_size('big') / 262144.0)"))
        for session in [self.cluster.psql(f"SET coscan.policy = 'pbm'; {SERIAL} SELECT count(*) FROM big") for _ in range(3)]:
            finish(session)
        self.assert_at_rest()
        trace = self.cluster.data / "run-pbm.jsonl"
        lines = [json.loads(line) for line in trace.read_text().splitlines()]
        self.assertEqual((lines[0]["policy"], lines[0]["buffer_bytes"]), ("pbm", 6 << 20))
        self.assertEqual(sum("deliver" in line for line in lines), 3 * chunks)
        coscan = TARGET / "release/coscan"
        if coscan.exists():
            done = subprocess.run([coscan, "sim", "replay", trace, "--policy", "attach"], capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("chunk loads", done.stdout)

    def test_views_and_their_rights(self) -> None:
        session = self.cluster.psql(f"SET coscan.policy = elevator; {SERIAL} {SLOW}")
        self.wait_for_scan()
        row = self.cluster.sql("SELECT relation, policy, chunks_done BETWEEN 0 AND chunks, waits >= 0, alone FROM coscan_scans")
        self.assertEqual(row, ["big|elevator|t|t|f"])
        self.cluster.wait_until("count(*) > 0 FROM coscan_chunks WHERE relation = 'big'::regclass AND loaded AND pages > 0")
        self.assertEqual(finish(session), [SLOW_SUM])
        self.cluster.sql("CREATE ROLE nobody_special; CREATE ROLE watcher IN ROLE pg_monitor")
        self.assertEqual(len(self.cluster.sql("SET ROLE watcher; SELECT scans FROM coscan_stats")), 1)
        for sql in ("SELECT * FROM coscan_stats", "SELECT * FROM coscan_scans", "SELECT coscan_switch_policy('attach')", "SELECT coscan_stats_reset()"):
            with self.assertRaisesRegex(Failed, "permission denied"):
                self.cluster.sql(f"SET ROLE nobody_special; {sql}")
        with self.assertRaisesRegex(Failed, "there is no coscan policy"):
            self.cluster.sql("SELECT coscan_switch_policy('nonsense')")
        with self.assertRaisesRegex(Failed, "invalid value for parameter"):
            self.cluster.sql("SET coscan.policy = 'nonsense'")


class Endings(Base):
    """Scans that do not end as they should leave nothing behind."""

    def test_cancellation(self) -> None:
        session = self.cluster.psql(SERIAL + SLOW)
        self.cluster.sql(f"SELECT pg_cancel_backend({self.wait_for_scan()})")
        with self.assertRaisesRegex(Failed, "canceling statement due to user request"):
            finish(session)
        self.assert_at_rest()

    def test_statement_timeout(self) -> None:
        with self.assertRaisesRegex(Failed, "statement timeout"):
            self.cluster.sql(f"SET statement_timeout = 400; {SERIAL} {SLOW}")
        with self.assertRaisesRegex(Failed, "statement timeout"):
            self.cluster.sql(f"SET statement_timeout = 400; {PARALLEL} {SLOW}")
        self.assert_at_rest()

    def test_terminated_backend(self) -> None:
        session = self.cluster.psql(SERIAL + SLOW)
        self.cluster.sql(f"SELECT pg_terminate_backend({self.wait_for_scan()})")
        with self.assertRaisesRegex(Failed, "terminat"):
            finish(session)
        self.assert_at_rest()

    def test_a_client_that_goes_away(self) -> None:
        session = self.cluster.psql("SET client_connection_check_interval = 100; " + SERIAL + SLOW)
        self.wait_for_scan()
        session.kill()
        session.communicate()
        self.assert_at_rest()

    def test_errors_in_subtransactions(self) -> None:
        rows = self.cluster.sql(f"""{SERIAL} DO $$ DECLARE n int := 0; BEGIN
            FOR k IN 1..20 LOOP
                BEGIN
                    PERFORM 1 / (id - 4000 * k) FROM big;
                EXCEPTION WHEN division_by_zero THEN n := n + 1;
                END;
            END LOOP;
            ASSERT n = 20;
        END $$;
        BEGIN; SAVEPOINT a; SELECT count(*) FROM big; ROLLBACK TO a; SELECT count(*) FROM big; RELEASE a; SELECT count(*) FROM big; COMMIT""")
        self.assertEqual(rows, ["120000"] * 3)
        self.assert_at_rest()

    def test_a_table_dropped_by_the_transaction_that_scanned_it(self) -> None:
        started = time.monotonic()
        for _ in range(5):
            self.cluster.sql(f"{SERIAL} BEGIN; CREATE TABLE brief AS SELECT * FROM big; SELECT count(*) FROM brief; TRUNCATE brief; SELECT count(*) FROM brief; DROP TABLE brief; COMMIT")
        self.assertLess(time.monotonic() - started, 60)
        self.assert_at_rest()

    def test_prepared_transactions(self) -> None:
        rows = self.cluster.sql(f"{SERIAL} BEGIN; SELECT count(*) FROM big; INSERT INTO empty VALUES (1); PREPARE TRANSACTION 'x'; SELECT count(*) FROM big; COMMIT PREPARED 'x'; TRUNCATE empty")
        self.assertEqual(rows, ["120000", "120000"])
        self.assert_at_rest()

    def test_ddl_waits_for_the_scan_and_no_longer(self) -> None:
        statements = ("DROP TABLE victim", "TRUNCATE victim", "VACUUM FULL victim", "ALTER TABLE victim ALTER note TYPE varchar(200)", "CLUSTER victim USING victim_id")
        for statement in statements:
            with self.subTest(statement):
                self.cluster.sql("DROP TABLE IF EXISTS victim; CREATE TABLE victim AS SELECT * FROM big; CREATE INDEX victim_id ON victim (id)")
                session = self.cluster.psql(f"{SERIAL} SELECT sum(slow(id)::bigint) FROM victim")
                self.wait_for_scan()
                ddl = self.cluster.psql(statement)
                self.assertEqual(finish(session), [SLOW_SUM])
                finish(ddl, 60)
                if "DROP" not in statement:
                    left = "0" if "TRUNCATE" in statement else "120000"
                    self.assertEqual(self.cluster.sql(f"{SERIAL} SELECT count(*) FROM victim"), [left])
        self.assert_at_rest()

    def test_vacuum_gets_pages_for_itself(self) -> None:
        self.cluster.sql("CREATE TABLE frozen AS SELECT * FROM big; DELETE FROM frozen WHERE id % 2 = 0")
        session = self.cluster.psql(f"{SERIAL} BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(pg_sleep(0.01)) FROM frozen WHERE id % 150 = 1")
        self.wait_for_scan()
        started = time.monotonic()
        self.cluster.sql("VACUUM (FREEZE, DISABLE_PAGE_SKIPPING) frozen", timeout=30)
        self.assertLess(time.monotonic() - started, 30)
        finish(session)
        self.cluster.sql("DROP TABLE frozen")

    def test_rows_changed_meanwhile_are_checked_again(self) -> None:
        self.cluster.sql("CREATE TABLE target AS SELECT grp, 0 AS n FROM small")
        first = self.cluster.psql("BEGIN; UPDATE target SET n = 1 WHERE grp = 5; SELECT pg_sleep(1.5); COMMIT")
        time.sleep(0.5)
        rows = self.cluster.sql(f"{SERIAL} SET enable_hashjoin = off; SET enable_mergejoin = off; UPDATE target t SET n = t.n + 10 FROM unlogged b WHERE b.id = 5 AND b.grp = t.grp RETURNING t.n, b.id")
        finish(first)
        self.assertEqual(rows, ["11|5"])
        self.cluster.sql("DROP TABLE target")

    def test_an_error_in_a_parallel_worker(self) -> None:
        for _ in range(3):
            with self.assertRaisesRegex(Failed, "division by zero"):
                self.cluster.sql(PARALLEL + "SELECT sum(1 / (id - 60000)) FROM big")
        self.assert_at_rest()

    def test_limits_end_parallel_scans_early(self) -> None:
        rows = self.cluster.sql(PARALLEL + "SELECT count(*) FROM (SELECT DISTINCT grp FROM big LIMIT 10) x")
        self.assertEqual(rows, ["10"])
        self.assert_at_rest()


class Trouble(Base):
    """The fetcher in trouble, and whole servers."""

    def test_a_panic_loses_no_query(self) -> None:
        before = self.stat("restarts")
        sessions = [self.cluster.psql(SERIAL + SLOW) for _ in range(4)] + [self.cluster.psql(PARALLEL + SLOW)]
        self.wait_for_scan()
        self.cluster.sql("SELECT coscan_inject_panic()")
        for session in sessions:
            self.assertEqual(finish(session), [SLOW_SUM])
        self.cluster.wait_until(f"restarts > {before} FROM coscan_stats")
        self.assertIn("the coscan manager panicked", self.cluster.log_text())
        self.assertNotIn("terminating any other active server processes", self.cluster.log_text())
        self.assertEqual(self.cluster.sql(SERIAL + SLOW), [SLOW_SUM])
        self.assert_at_rest()

    def test_an_ended_fetcher_loses_no_query(self) -> None:
        for number in (signal.SIGTERM, signal.SIGTERM):
            sessions = [self.cluster.psql(SERIAL + SLOW) for _ in range(3)]
            self.wait_for_scan()
            pid = self.cluster.signal_fetcher(number)
            for session in sessions:
                self.assertEqual(finish(session), [SLOW_SUM])
            self.cluster.wait_until(f"fetcher_pid <> {pid} FROM coscan_stats")
        self.assert_at_rest()

    def test_a_stopped_fetcher_holds_nobody_up(self) -> None:
        session = self.cluster.psql(SERIAL + SLOW)
        self.wait_for_scan()
        pid = self.cluster.signal_fetcher(signal.SIGSTOP)
        try:
            time.sleep(14)
            row = self.cluster.sql("SELECT state FROM pg_stat_activity WHERE query LIKE '%slow(id)%' AND pid <> pg_backend_pid()")
            self.assertEqual(row, ["active"])
        finally:
            os.kill(pid, signal.SIGCONT)
        self.assertEqual(finish(session), [SLOW_SUM])
        self.assert_at_rest()

    def test_killed_processes_restart_the_server(self) -> None:
        for victim in ("fetcher", "backend"):
            with self.subTest(victim):
                session = self.cluster.psql(SERIAL + SLOW)
                backend = self.wait_for_scan()
                if victim == "fetcher":
                    self.cluster.signal_fetcher(signal.SIGKILL)
                else:
                    os.kill(backend, signal.SIGKILL)
                with self.assertRaises(Failed):
                    finish(session)
                self.cluster.wait_until("fetcher_pid IS NOT NULL FROM coscan_stats")
                self.assertEqual(self.cluster.sql(SERIAL + SLOW), [SLOW_SUM])
        self.assert_at_rest()

    def test_a_damaged_page_is_the_readers_error(self) -> None:
        self.cluster.sql("CREATE TABLE damaged AS SELECT * FROM big; CHECKPOINT")
        path = self.cluster.data / self.cluster.one("SELECT pg_relation_filepath('damaged')")
        self.cluster.stop()
        with path.open("r+b") as file:
            file.seek(100 * 8192 + 4000)
            file.write(b"damage" * 10)
        self.cluster.start()
        for _ in range(3):
            with self.assertRaisesRegex(Failed, "invalid page in block 100"):
                self.cluster.sql(SERIAL + "SELECT count(*) FROM damaged")
        self.assertGreater(self.stat("load_errors"), 0)
        self.assertEqual(self.stat("restarts"), 0)
        self.assertEqual(self.cluster.sql(SERIAL + SLOW), [SLOW_SUM])
        self.cluster.sql("DROP TABLE damaged")
        self.assert_at_rest()

    def test_a_clean_stop_while_scans_run(self) -> None:
        session = self.cluster.psql(SERIAL + SLOW)
        self.wait_for_scan()
        self.cluster.stop("fast")
        with self.assertRaises(Failed):
            finish(session)
        self.cluster.start()
        self.assertEqual(self.cluster.sql(SERIAL + "SELECT count(*) FROM big"), ["120000"])


class Tiny(Base):
    """A megabyte of shared buffers and two slots."""

    settings = {"shared_buffers": "1MB", "coscan.max_scans": 2, "coscan.buffer_size": -1, "max_connections": 30}

    def test_results(self) -> None:
        self.assertGreater(self.stat("buffer_bytes"), 0)
        sessions = [self.cluster.psql(SERIAL + SLOW) for _ in range(8)]
        for session in sessions:
            self.assertEqual(finish(session), [SLOW_SUM])
        self.assertGreater(self.stat("scans_without_slot"), 0)
        self.assertGreater(self.stat("chunks_read"), 0)
        self.assertEqual(self.cluster.sql(SERIAL + "SELECT count(*) FROM big a JOIN big b USING (id)"), ["120000"])
        self.assert_at_rest()


class Standby(Base):
    """A hot standby serves cooperative scans, and they do not hold up what is replayed."""

    settings = {"wal_level": "replica", "max_wal_senders": 4, "hot_standby_feedback": "on"}

    def test_scans_and_replay(self) -> None:
        data = FOLDER / "standby-copy"
        SERVER.run("pg_basebackup", "-h", FOLDER, "-p", self.cluster.port, "-U", "postgres", "-D", data, "-R", "-c", "fast")
        settings = SETTINGS | {"max_standby_streaming_delay": -1, "hot_standby_feedback": "on", "primary_conninfo": f"host={FOLDER} port={self.cluster.port} user=postgres"}
        with Cluster(SERVER, "standby-copy", settings, port=5491) as standby:
            standby.wait_until("pg_is_in_recovery() AND fetcher_pid IS NOT NULL FROM coscan_stats")
            sessions = [standby.psql(SERIAL + SLOW) for _ in range(3)]
            standby.wait_until("count(*) > 0 FROM coscan_scans")
            self.cluster.sql("CREATE TABLE later AS SELECT 1 AS one; DELETE FROM gone WHERE id % 5 = 0; VACUUM gone")
            standby.wait_until("to_regclass('later') IS NOT NULL")
            for session in sessions:
                self.assertEqual(finish(session), [SLOW_SUM])
            self.assertGreater(int(standby.one("SELECT chunks_shared + chunks_read + chunks_cached FROM coscan_stats")), 0)
            for shape in SHAPES[:8]:
                self.assertEqual(sorted(standby.sql(SERIAL + shape)), sorted(self.cluster.sql(OFF + SERIAL + shape)))


class Absent(unittest.TestCase):
    """Without the library nothing is different, and the functions say what is missing."""

    def test_not_preloaded(self) -> None:
        with Cluster(SERVER, "absent", {"shared_buffers": "16MB"}, preload=False) as cluster:
            with self.assertRaisesRegex(Failed, "coscan is not running"):
                cluster.sql("CREATE EXTENSION coscan; SELECT * FROM coscan_stats")


if __name__ == "__main__":
    unittest.main()
