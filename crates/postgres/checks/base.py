"""The server of all tests, and the cluster of a class of tests, with its tables.

A cluster has small chunks and little memory, and registers every scan, so that small tables behave like big ones.
"""

from __future__ import annotations

import atexit
import functools
import shutil
import tempfile
import unittest
from pathlib import Path

from .server import TARGET, Cluster, Missing, Server, install_packages

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


@functools.cache
def server() -> Server:
    """The server's programs with the extension; they are removed after the tests."""
    try:
        install_packages()
    except Missing as missing:
        raise unittest.SkipTest(str(missing)) from missing
    folder = Path(tempfile.mkdtemp(prefix="coscan-postgres-"))
    folder.chmod(0o755)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Server(folder, TARGET)


class Base(unittest.TestCase):
    """One cluster for the tests of a class."""

    cluster: Cluster
    settings: dict[str, object] = {}
    tables = TABLES

    @classmethod
    def setUpClass(cls) -> None:
        cls.cluster = Cluster(server(), cls.__name__.lower(), SETTINGS | cls.settings)
        cls.cluster.create("-k")
        cls.cluster.start()
        cls.addClassCleanup(cls.cluster.__exit__)
        cls.cluster.sql(cls.tables)

    def assert_at_rest(self) -> None:
        """Asserts that all slots and frames are free, and that the fetcher serves."""
        self.cluster.wait_until("count(*) = 0 FROM coscan_scans")
        self.assertEqual(self.cluster.one("SELECT count(*) FROM coscan_chunks"), "0")
        self.cluster.wait_until("fetcher_pid IS NOT NULL FROM coscan_stats")

    def wait_for_scan(self) -> int:
        """Waits until a scan has chunks; returns the backend's process id."""
        self.cluster.wait_until("count(*) > 0 FROM coscan_scans WHERE chunks_done > 2")
        return int(self.cluster.sql("SELECT pid FROM coscan_scans ORDER BY chunks_done DESC LIMIT 1")[0])

    def policies(self) -> list[str]:
        """All policies, in the registry's order."""
        return self.cluster.sql("SELECT unnest(enumvals) FROM pg_settings WHERE name = 'coscan.policy'")

    def stat(self, name: str) -> int:
        return int(float(self.cluster.one(f"SELECT {name} FROM coscan_stats")))

    def plan(self, sql: str) -> str:
        return "\n".join(self.cluster.sql(f"{SERIAL} EXPLAIN (COSTS OFF) {sql}"))
