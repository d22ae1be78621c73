-- Views of cooperative scans, and functions to reset counters and to switch policies.
\echo Use "CREATE EXTENSION coscan" to load this file. \quit

CREATE FUNCTION coscan_scans(
    OUT pid integer, OUT database oid, OUT relation oid, OUT policy text, OUT started timestamptz,
    OUT chunks bigint, OUT chunks_done bigint, OUT chunks_read bigint, OUT chunks_cached bigint,
    OUT chunks_shared bigint, OUT waits bigint, OUT waiting boolean, OUT alone boolean)
RETURNS SETOF record LANGUAGE c VOLATILE STRICT AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION coscan_scans() IS 'cooperative scans that are running';

CREATE FUNCTION coscan_chunks(
    OUT database oid, OUT relfilenode oid, OUT chunk bigint, OUT pages integer, OUT loaded boolean,
    OUT deliveries bigint)
RETURNS SETOF record LANGUAGE c VOLATILE STRICT AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION coscan_chunks() IS 'chunks that are being read or kept for scans';

CREATE FUNCTION coscan_stats(
    OUT scans bigint, OUT scans_without_slot bigint, OUT scans_alone bigint, OUT chunks_read bigint,
    OUT chunks_cached bigint, OUT chunks_shared bigint, OUT loads bigint, OUT pages_read bigint,
    OUT pages_hit bigint, OUT evictions bigint, OUT revocations bigint, OUT pins_yielded bigint,
    OUT load_errors bigint, OUT waits bigint, OUT decisions bigint, OUT decision_ms double precision,
    OUT restarts bigint, OUT buffer_bytes bigint, OUT chunk_bytes bigint, OUT fetcher_pid integer,
    OUT forced_policy text, OUT reset timestamptz)
RETURNS record LANGUAGE c VOLATILE STRICT AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION coscan_stats() IS 'counters since the start or the last reset, and the state of the fetcher';

CREATE FUNCTION coscan_stats_reset() RETURNS void LANGUAGE c VOLATILE STRICT AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION coscan_stats_reset() IS 'sets the counters of coscan_stats to zero';

CREATE FUNCTION coscan_switch_policy(policy text) RETURNS void LANGUAGE c VOLATILE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION coscan_switch_policy(text)
    IS 'puts all scans under one policy, those that run too; NULL lets sessions choose again';

CREATE FUNCTION coscan_inject_panic() RETURNS void LANGUAGE c VOLATILE STRICT AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION coscan_inject_panic() IS 'makes the manager panic, to test that no query is lost';

CREATE VIEW coscan_scans AS
    SELECT s.pid, d.datname AS database,
           CASE WHEN d.datname = current_database() THEN s.relation::regclass END AS relation,
           s.policy, s.started, s.chunks, s.chunks_done, s.chunks_read, s.chunks_cached, s.chunks_shared,
           s.waits, s.waiting, s.alone
    FROM coscan_scans() s LEFT JOIN pg_database d ON d.oid = s.database;

CREATE VIEW coscan_chunks AS
    SELECT d.datname AS database, c.oid::regclass AS relation, k.chunk, k.pages, k.loaded, k.deliveries
    FROM coscan_chunks() k LEFT JOIN pg_database d ON d.oid = k.database
    LEFT JOIN pg_class c ON c.relfilenode = k.relfilenode AND d.datname = current_database();

CREATE VIEW coscan_stats AS SELECT * FROM coscan_stats();

REVOKE ALL ON coscan_scans, coscan_chunks, coscan_stats FROM PUBLIC;
REVOKE ALL ON FUNCTION coscan_scans(), coscan_chunks(), coscan_stats(), coscan_stats_reset(),
    coscan_switch_policy(text), coscan_inject_panic() FROM PUBLIC;
GRANT SELECT ON coscan_scans, coscan_chunks, coscan_stats TO pg_monitor;
GRANT EXECUTE ON FUNCTION coscan_scans(), coscan_chunks(), coscan_stats() TO pg_monitor;
