"""The choice of cooperative scans, and their description in plans, views and recordings."""

from __future__ import annotations

import json
import subprocess

from .base import OFF, PARALLEL, SERIAL, SLOW, SLOW_SUM, Base
from .server import TARGET, Failed, finish


class Plans(Base):
    """The choice of cooperative scans, and their description."""

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
