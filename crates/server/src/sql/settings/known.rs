//! The settings of PostgreSQL that clients set and read, with their defaults and the form of their values.

use Kind::{Fixed, Number, Text, Truth, Whole, Word};

/// The version that clients get. They choose features and catalog queries by it.
pub(crate) const POSTGRES_VERSION: &str = "16.6";

/// The form of a setting's values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Kind {
    /// On or off.
    Truth,
    /// An integer in this range, with units.
    Whole(i64, i64, &'static [Unit]),
    /// A number.
    Number,
    /// One of these words.
    Word(&'static [&'static str]),
    /// Any text.
    Text,
    /// A value that a session cannot change.
    Fixed,
}

/// A unit: its name, and its length in the setting's own unit as a fraction. The largest comes first.
pub(super) type Unit = (&'static str, i64, i64);

const PLAIN: &[Unit] = &[];
const MILLISECONDS: &[Unit] = &[
    ("d", 86_400_000, 1),
    ("h", 3_600_000, 1),
    ("min", 60_000, 1),
    ("s", 1000, 1),
    ("ms", 1, 1),
    ("us", 1, 1000),
];
const KILOBYTES: &[Unit] =
    &[("TB", 1 << 30, 1), ("GB", 1 << 20, 1), ("MB", 1 << 10, 1), ("kB", 1, 1), ("B", 1, 1 << 10)];
/// Pages of 8 kB.
const PAGES: &[Unit] =
    &[("TB", 1 << 27, 1), ("GB", 1 << 17, 1), ("MB", 1 << 7, 1), ("kB", 1, 8), ("B", 1, 8 << 10)];

/// Settings whose names begin so are accepted with any value: they are about logs, tests, connections and maintenance.
pub(super) const WITHOUT_EFFECT: [&str; 16] = [
    "allow_",
    "backend_",
    "client_connection_",
    "commit_",
    "debug_",
    "gin_",
    "ignore_",
    "jit_",
    "local_preload_",
    "log_",
    "session_preload_",
    "tcp_",
    "trace_",
    "track_",
    "vacuum_",
    "wal_",
];

/// Name, default and form.
#[rustfmt::skip]
pub(super) const KNOWN: &[(&str, &str, Kind)] = &[
    ("application_name", "", Text),
    ("array_nulls", "on", Truth),
    ("backslash_quote", "safe_encoding", Word(&["safe_encoding", "on", "off"])),
    ("backtrace_functions", "", Text),
    ("block_size", "8192", Fixed),
    ("bytea_output", "hex", Word(&["escape", "hex"])),
    ("check_function_bodies", "on", Truth),
    ("client_encoding", "UTF8", Text),
    ("client_min_messages", "notice", Word(&["debug5", "debug4", "debug3", "debug2", "debug1", "log", "notice", "warning", "error", "debug", "info"])),
    ("composite_type_mismatch", "error", Word(&["error", "warn", "disabled"])),
    ("compute_query_id", "auto", Word(&["auto", "regress", "on", "off"])),
    ("constraint_exclusion", "partition", Word(&["partition", "on", "off"])),
    ("cpu_index_tuple_cost", "0.005", Number),
    ("cpu_operator_cost", "0.0025", Number),
    ("cpu_tuple_cost", "0.01", Number),
    ("createrole_self_grant", "", Text),
    ("cursor_tuple_fraction", "0.1", Number),
    ("datestyle", "ISO, MDY", Text),
    ("default_statistics_target", "100", Whole(1, 10_000, PLAIN)),
    ("default_table_access_method", "heap", Text),
    ("default_tablespace", "", Text),
    ("default_text_search_config", "pg_catalog.english", Text),
    ("default_toast_compression", "pglz", Word(&["pglz", "lz4"])),
    ("default_transaction_deferrable", "off", Truth),
    ("default_transaction_isolation", "read committed", Word(&["serializable", "repeatable read", "read committed", "read uncommitted"])),
    ("default_transaction_read_only", "off", Truth),
    ("default_with_oids", "off", Truth),
    ("effective_cache_size", "4GB", Whole(1, 2_147_483_647, PAGES)),
    ("effective_io_concurrency", "1", Whole(0, 1000, PLAIN)),
    ("enable_async_append", "on", Truth),
    ("enable_bitmapscan", "on", Truth),
    ("enable_gathermerge", "on", Truth),
    ("enable_hashagg", "on", Truth),
    ("enable_hashjoin", "on", Truth),
    ("enable_incremental_sort", "on", Truth),
    ("enable_indexonlyscan", "on", Truth),
    ("enable_indexscan", "on", Truth),
    ("enable_material", "on", Truth),
    ("enable_memoize", "on", Truth),
    ("enable_mergejoin", "on", Truth),
    ("enable_nestloop", "on", Truth),
    ("enable_parallel_append", "on", Truth),
    ("enable_parallel_hash", "on", Truth),
    ("enable_partition_pruning", "on", Truth),
    ("enable_partitionwise_aggregate", "off", Truth),
    ("enable_partitionwise_join", "off", Truth),
    ("enable_presorted_aggregate", "on", Truth),
    ("enable_seqscan", "on", Truth),
    ("enable_sort", "on", Truth),
    ("enable_tidscan", "on", Truth),
    ("escape_string_warning", "on", Truth),
    ("extra_float_digits", "1", Whole(-15, 3, PLAIN)),
    ("force_parallel_mode", "off", Word(&["off", "on", "regress"])),
    ("from_collapse_limit", "8", Whole(1, 2_147_483_647, PLAIN)),
    ("geqo", "on", Truth),
    ("geqo_effort", "5", Whole(1, 10, PLAIN)),
    ("geqo_generations", "0", Whole(0, 2_147_483_647, PLAIN)),
    ("geqo_pool_size", "0", Whole(0, 2_147_483_647, PLAIN)),
    ("geqo_seed", "0", Number),
    ("geqo_selection_bias", "2", Number),
    ("geqo_threshold", "12", Whole(2, 2_147_483_647, PLAIN)),
    ("hash_mem_multiplier", "2", Number),
    ("idle_in_transaction_session_timeout", "0", Whole(0, 2_147_483_647, MILLISECONDS)),
    ("idle_session_timeout", "0", Whole(0, 2_147_483_647, MILLISECONDS)),
    ("in_hot_standby", "off", Fixed),
    ("integer_datetimes", "on", Fixed),
    ("intervalstyle", "postgres", Word(&["postgres", "postgres_verbose", "sql_standard", "iso_8601"])),
    ("is_superuser", "off", Fixed),
    ("jit", "on", Truth),
    ("jit_above_cost", "100000", Number),
    ("jit_expressions", "on", Truth),
    ("jit_inline_above_cost", "500000", Number),
    ("jit_optimize_above_cost", "500000", Number),
    ("jit_tuple_deforming", "on", Truth),
    ("join_collapse_limit", "8", Whole(1, 2_147_483_647, PLAIN)),
    ("lc_collate", "C", Fixed),
    ("lc_ctype", "C", Fixed),
    ("lc_messages", "C", Text),
    ("lc_monetary", "C", Text),
    ("lc_numeric", "C", Text),
    ("lc_time", "C", Text),
    ("lock_timeout", "0", Whole(0, 2_147_483_647, MILLISECONDS)),
    ("maintenance_io_concurrency", "10", Whole(0, 1000, PLAIN)),
    ("maintenance_work_mem", "64MB", Whole(1024, 2_147_483_647, KILOBYTES)),
    ("max_connections", "2000", Fixed),
    ("max_identifier_length", "63", Fixed),
    ("max_index_keys", "32", Fixed),
    ("max_parallel_maintenance_workers", "2", Whole(0, 1024, PLAIN)),
    ("max_parallel_workers", "8", Whole(0, 1024, PLAIN)),
    ("max_parallel_workers_per_gather", "2", Whole(0, 1024, PLAIN)),
    ("min_parallel_index_scan_size", "512kB", Whole(0, 715_827_882, PAGES)),
    ("min_parallel_table_scan_size", "8MB", Whole(0, 715_827_882, PAGES)),
    ("parallel_leader_participation", "on", Truth),
    ("parallel_setup_cost", "1000", Number),
    ("parallel_tuple_cost", "0.1", Number),
    ("password_encryption", "scram-sha-256", Word(&["md5", "scram-sha-256"])),
    ("plan_cache_mode", "auto", Word(&["auto", "force_generic_plan", "force_custom_plan"])),
    ("quote_all_identifiers", "off", Truth),
    ("random_page_cost", "4", Number),
    ("role", "none", Text),
    ("row_security", "on", Truth),
    ("scram_iterations", "4096", Whole(1, 2_147_483_647, PLAIN)),
    ("search_path", "\"$user\", public", Text),
    ("seq_page_cost", "1", Number),
    ("server_encoding", "UTF8", Fixed),
    ("server_version", POSTGRES_VERSION, Fixed),
    ("server_version_num", "160006", Fixed),
    ("session_authorization", "", Fixed),
    ("session_replication_role", "origin", Word(&["origin", "replica", "local"])),
    ("standard_conforming_strings", "on", Truth),
    ("statement_timeout", "0", Whole(0, 2_147_483_647, MILLISECONDS)),
    ("stats_fetch_consistency", "cache", Word(&["none", "cache", "snapshot"])),
    ("synchronize_seqscans", "on", Truth),
    ("synchronous_commit", "on", Word(&["local", "remote_write", "remote_apply", "on", "off"])),
    ("temp_buffers", "8MB", Whole(100, 1_073_741_823, PAGES)),
    ("temp_tablespaces", "", Text),
    ("timezone", "UTC", Text),
    ("timezone_abbreviations", "Default", Text),
    ("transaction_deferrable", "off", Truth),
    ("transaction_isolation", "read committed", Word(&["serializable", "repeatable read", "read committed", "read uncommitted"])),
    ("transaction_read_only", "off", Truth),
    ("transaction_timeout", "0", Whole(0, 2_147_483_647, MILLISECONDS)),
    ("transform_null_equals", "off", Truth),
    ("work_mem", "4MB", Whole(64, 2_147_483_647, KILOBYTES)),
    ("xmlbinary", "base64", Word(&["base64", "hex"])),
    ("xmloption", "content", Word(&["content", "document"])),
];

/// The settings with their defaults.
pub(crate) fn defaults() -> impl Iterator<Item = (&'static str, &'static str)> {
    KNOWN.iter().map(|(name, default, _)| (*name, *default))
}
