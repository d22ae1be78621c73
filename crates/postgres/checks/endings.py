"""Scans that end abnormally, and failures of the fetcher or the server: everything is released, and no query is lost."""

from __future__ import annotations

import os
import signal
import time

from .base import PARALLEL, SERIAL, SLOW, SLOW_SUM, Base
from .server import Failed, finish


class Endings(Base):
    """Scans that end abnormally release everything."""

    def test_cancellation(self) -> None:
        self.ended_by("pg_cancel_backend", "canceling statement due to user request")

    def test_terminated_backend(self) -> None:
        self.ended_by("pg_terminate_backend", "terminat")

    def ended_by(self, function: str, error: str) -> None:
        session = self.cluster.psql(SERIAL + SLOW)
        self.cluster.sql(f"SELECT {function}({self.wait_for_scan()})")
        with self.assertRaisesRegex(Failed, error):
            finish(session)
        self.assert_at_rest()

    def test_statement_timeout(self) -> None:
        with self.assertRaisesRegex(Failed, "statement timeout"):
            self.cluster.sql(f"SET statement_timeout = 400; {SERIAL} {SLOW}")
        with self.assertRaisesRegex(Failed, "statement timeout"):
            self.cluster.sql(f"SET statement_timeout = 400; {PARALLEL} {SLOW}")
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
    """Failures of the fetcher and of whole servers."""

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
