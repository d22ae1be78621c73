"""Results of queries with cooperative scans, compared with the same statements without, in clusters of several kinds."""

from __future__ import annotations

import random
import time
import unittest

from .base import OFF, PARALLEL, SERIAL, SETTINGS, SHAPES, SLOW, SLOW_SUM, Base, server
from .server import Cluster, Failed, finish


class Results(Base):
    """The same rows as without the extension."""

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        cls.expected = {shape: sorted(cls.cluster.sql(OFF + SERIAL + shape)) for shape in SHAPES}

    def test_shapes_under_every_policy(self) -> None:
        for policy in self.policies():
            # All shapes under the most common policies, a sample under the others.
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
        choose, policies = random.Random(1), self.policies()
        sessions = []
        for number in range(64):
            shape = choose.choice(SHAPES[:20])
            policy = choose.choice(policies)
            mode = PARALLEL if number % 16 == 0 else SERIAL
            sessions.append((shape, self.cluster.psql(f"SET coscan.policy = '{policy}'; {mode} {shape}")))
        for shape, session in sessions:
            self.assertEqual(sorted(finish(session, 300)), self.expected[shape])
        self.assertGreater(self.stat("chunks_shared"), 0)
        self.assert_at_rest()

    def test_policies_switch_while_scans_run(self) -> None:
        sessions = [self.cluster.psql(SERIAL + SLOW) for _ in range(4)]
        self.wait_for_scan()
        for policy in (*self.policies(), None, "relevance"):
            self.cluster.sql(f"SELECT coscan_switch_policy({policy!r})".replace("None", "NULL"))
            time.sleep(0.1)
        self.assertEqual(set(self.cluster.sql("SELECT policy FROM coscan_scans")) | {"relevance"}, {"relevance"})
        for session in sessions:
            self.assertEqual(finish(session), [SLOW_SUM])
        self.cluster.sql("SELECT coscan_switch_policy(NULL)")
        self.assert_at_rest()

    def test_the_policy_of_the_only_scan_of_a_table_switches(self) -> None:
        session = self.cluster.psql(SERIAL + SLOW)
        self.wait_for_scan()
        for policy in self.policies():
            self.cluster.sql(f"SELECT coscan_switch_policy('{policy}')")
            self.cluster.wait_until(f"bool_and(policy = '{policy}') FROM coscan_scans")
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
    """A hot standby serves cooperative scans, and they do not delay the replay."""

    settings = {"wal_level": "replica", "max_wal_senders": 4, "hot_standby_feedback": "on"}

    def test_scans_and_replay(self) -> None:
        programs = server()
        data = programs.folder / "standby-copy"
        programs.run("pg_basebackup", "-h", programs.folder, "-p", self.cluster.port, "-U", "postgres", "-D", data, "-R", "-c", "fast")
        settings = SETTINGS | {"max_standby_streaming_delay": -1, "hot_standby_feedback": "on", "primary_conninfo": f"host={programs.folder} port={self.cluster.port} user=postgres"}
        with Cluster(programs, "standby-copy", settings, port=5491) as standby:
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
    """Without the library the server behaves as usual, and the functions say what is missing."""

    def test_not_preloaded(self) -> None:
        with Cluster(server(), "absent", {"shared_buffers": "16MB"}, preload=False) as cluster:
            with self.assertRaisesRegex(Failed, "coscan is not running"):
                cluster.sql("CREATE EXTENSION coscan; SELECT * FROM coscan_stats")
