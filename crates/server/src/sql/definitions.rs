//! PostgreSQL's relations that never have rows here, with their columns: statistics, keys, rights and kinds of objects
//! that the server does not have.
//!
//! The columns of the relations of `information_schema` with rows are here, too. A column is a name and its type in
//! PostgreSQL. Texts and names have no type in the list.

use datafusion::arrow::datatypes::{DataType, Field, IntervalUnit, TimeUnit};
use datafusion_pg_catalog::pg_catalog::oid_field::{OID_ALIAS_TYPE_NAMES, oid_field};

/// The columns of one of `relations`, by its name. `None` for an unknown relation.
pub(super) fn columns_of(relations: &[(&str, &str)], name: &str) -> Option<Vec<Field>> {
    let (_, columns) = relations.iter().find(|(relation, _)| *relation == name)?;
    Some(columns.split(", ").map(field).collect())
}

fn field(column: &str) -> Field {
    let (name, of) = column.split_once(' ').unwrap_or((column, ""));
    match of {
        of if OID_ALIAS_TYPE_NAMES.contains(&of) => oid_field(name, of, true),
        of => Field::new(name, type_of(of), true),
    }
}

/// The type of this name. Types that the server does not have are texts.
fn type_of(name: &str) -> DataType {
    match name {
        "bool" => DataType::Boolean,
        "float4" => DataType::Float32,
        "float8" => DataType::Float64,
        "int2" => DataType::Int16,
        "int4" | "oid" | "xid" => DataType::Int32,
        "int8" => DataType::Int64,
        "interval" => DataType::Interval(IntervalUnit::MonthDayNano),
        "timestamptz" => DataType::Timestamp(TimeUnit::Microsecond, Some("+00:00".into())),
        _ => match name.strip_prefix('_') {
            Some(element) => DataType::new_list(type_of(element), true),
            None => DataType::Utf8,
        },
    }
}

/// Those of `pg_catalog`.
pub(super) const PG_CATALOG: [(&str, &str); 65] = [
    (
        "pg_available_extension_versions",
        "name, version, installed bool, superuser bool, trusted bool, relocatable bool, schema, \
         requires _name, comment",
    ),
    ("pg_available_extensions", "name, default_version, installed_version, comment"),
    (
        "pg_backend_memory_contexts",
        "name, ident, parent, level int4, total_bytes int8, total_nblocks int8, free_bytes int8, \
         free_chunks int8, used_bytes int8",
    ),
    ("pg_config", "name, setting"),
    (
        "pg_cursors",
        "name, statement, is_holdable bool, is_binary bool, is_scrollable bool, creation_time timestamptz",
    ),
    ("pg_file_settings", "sourcefile, sourceline int4, seqno int4, name, setting, applied bool, error"),
    ("pg_group", "groname, grosysid oid, grolist _oid"),
    (
        "pg_hba_file_rules",
        "line_number int4, type, database _text, user_name _text, address, netmask, auth_method, \
         options _text, error",
    ),
    ("pg_ident_file_mappings", "line_number int4, map_name, sys_name, pg_username, error"),
    ("pg_indexes", "schemaname, tablename, indexname, tablespace, indexdef"),
    (
        "pg_locks",
        "locktype, database oid, relation oid, page int4, tuple int2, virtualxid, transactionid xid, \
         classid oid, objid oid, objsubid int2, virtualtransaction, pid int4, mode, granted bool, \
         fastpath bool, waitstart timestamptz",
    ),
    ("pg_parameter_acl", "oid oid, parname, paracl _aclitem"),
    ("pg_policies", "schemaname, tablename, policyname, permissive, roles _name, cmd, qual, with_check"),
    (
        "pg_prepared_statements",
        "name, statement, prepare_time timestamptz, parameter_types _regtype, from_sql bool, \
         generic_plans int8, custom_plans int8",
    ),
    ("pg_prepared_xacts", "transaction xid, gid, prepared timestamptz, owner, database"),
    ("pg_publication_tables", "pubname, schemaname, tablename, attnames _name, rowfilter"),
    ("pg_replication_origin_status", "local_id oid, external_id, remote_lsn pg_lsn, local_lsn pg_lsn"),
    ("pg_rules", "schemaname, tablename, rulename, definition"),
    (
        "pg_seclabels",
        "objoid oid, classoid oid, objsubid int4, objtype, objnamespace oid, objname, provider, label",
    ),
    (
        "pg_sequences",
        "schemaname, sequencename, sequenceowner, data_type regtype, start_value int8, min_value int8, \
         max_value int8, increment_by int8, cycle bool, cache_size int8, last_value int8",
    ),
    ("pg_shmem_allocations", "name, off int8, size int8, allocated_size int8"),
    (
        "pg_stat_all_indexes",
        "relid oid, indexrelid oid, schemaname, relname, indexrelname, idx_scan int8, idx_tup_read int8, \
         idx_tup_fetch int8",
    ),
    (
        "pg_stat_all_tables",
        "relid oid, schemaname, relname, seq_scan int8, seq_tup_read int8, idx_scan int8, \
         idx_tup_fetch int8, n_tup_ins int8, n_tup_upd int8, n_tup_del int8, n_tup_hot_upd int8, \
         n_live_tup int8, n_dead_tup int8, n_mod_since_analyze int8, n_ins_since_vacuum int8, \
         last_vacuum timestamptz, last_autovacuum timestamptz, last_analyze timestamptz, \
         last_autoanalyze timestamptz, vacuum_count int8, autovacuum_count int8, analyze_count int8, \
         autoanalyze_count int8",
    ),
    (
        "pg_stat_archiver",
        "archived_count int8, last_archived_wal, last_archived_time timestamptz, failed_count int8, \
         last_failed_wal, last_failed_time timestamptz, stats_reset timestamptz",
    ),
    (
        "pg_stat_bgwriter",
        "checkpoints_timed int8, checkpoints_req int8, checkpoint_write_time float8, \
         checkpoint_sync_time float8, buffers_checkpoint int8, buffers_clean int8, maxwritten_clean int8, \
         buffers_backend int8, buffers_backend_fsync int8, buffers_alloc int8, stats_reset timestamptz",
    ),
    (
        "pg_stat_database",
        "datid oid, datname, numbackends int4, xact_commit int8, xact_rollback int8, blks_read int8, \
         blks_hit int8, tup_returned int8, tup_fetched int8, tup_inserted int8, tup_updated int8, \
         tup_deleted int8, conflicts int8, temp_files int8, temp_bytes int8, deadlocks int8, \
         checksum_failures int8, checksum_last_failure timestamptz, blk_read_time float8, \
         blk_write_time float8, session_time float8, active_time float8, idle_in_transaction_time float8, \
         sessions int8, sessions_abandoned int8, sessions_fatal int8, sessions_killed int8, \
         stats_reset timestamptz",
    ),
    (
        "pg_stat_database_conflicts",
        "datid oid, datname, confl_tablespace int8, confl_lock int8, confl_snapshot int8, \
         confl_bufferpin int8, confl_deadlock int8",
    ),
    (
        "pg_stat_progress_analyze",
        "pid int4, datid oid, datname, relid oid, phase, sample_blks_total int8, sample_blks_scanned int8, \
         ext_stats_total int8, ext_stats_computed int8, child_tables_total int8, child_tables_done int8, \
         current_child_table_relid oid",
    ),
    (
        "pg_stat_progress_basebackup",
        "pid int4, phase, backup_total int8, backup_streamed int8, tablespaces_total int8, \
         tablespaces_streamed int8",
    ),
    (
        "pg_stat_progress_cluster",
        "pid int4, datid oid, datname, relid oid, command, phase, cluster_index_relid oid, \
         heap_tuples_scanned int8, heap_tuples_written int8, heap_blks_total int8, heap_blks_scanned int8, \
         index_rebuild_count int8",
    ),
    (
        "pg_stat_progress_copy",
        "pid int4, datid oid, datname, relid oid, command, type, bytes_processed int8, bytes_total int8, \
         tuples_processed int8, tuples_excluded int8",
    ),
    (
        "pg_stat_progress_create_index",
        "pid int4, datid oid, datname, relid oid, index_relid oid, command, phase, lockers_total int8, \
         lockers_done int8, current_locker_pid int8, blocks_total int8, blocks_done int8, \
         tuples_total int8, tuples_done int8, partitions_total int8, partitions_done int8",
    ),
    (
        "pg_stat_progress_vacuum",
        "pid int4, datid oid, datname, relid oid, phase, heap_blks_total int8, heap_blks_scanned int8, \
         heap_blks_vacuumed int8, index_vacuum_count int8, max_dead_tuples int8, num_dead_tuples int8",
    ),
    (
        "pg_stat_recovery_prefetch",
        "stats_reset timestamptz, prefetch int8, hit int8, skip_init int8, skip_new int8, skip_fpw int8, \
         skip_rep int8, wal_distance int4, block_distance int4, io_depth int4",
    ),
    (
        "pg_stat_replication",
        "pid int4, usesysid oid, usename, application_name, client_addr inet, client_hostname, \
         client_port int4, backend_start timestamptz, backend_xmin xid, state, sent_lsn pg_lsn, \
         write_lsn pg_lsn, flush_lsn pg_lsn, replay_lsn pg_lsn, write_lag interval, flush_lag interval, \
         replay_lag interval, sync_priority int4, sync_state, reply_time timestamptz",
    ),
    (
        "pg_stat_replication_slots",
        "slot_name, spill_txns int8, spill_count int8, spill_bytes int8, stream_txns int8, \
         stream_count int8, stream_bytes int8, total_txns int8, total_bytes int8, stats_reset timestamptz",
    ),
    (
        "pg_stat_slru",
        "name, blks_zeroed int8, blks_hit int8, blks_read int8, blks_written int8, blks_exists int8, \
         flushes int8, truncates int8, stats_reset timestamptz",
    ),
    (
        "pg_stat_ssl",
        "pid int4, ssl bool, version, cipher, bits int4, client_dn, client_serial numeric, issuer_dn",
    ),
    (
        "pg_stat_subscription",
        "subid oid, subname, pid int4, relid oid, received_lsn pg_lsn, last_msg_send_time timestamptz, \
         last_msg_receipt_time timestamptz, latest_end_lsn pg_lsn, latest_end_time timestamptz",
    ),
    (
        "pg_stat_subscription_stats",
        "subid oid, subname, apply_error_count int8, sync_error_count int8, stats_reset timestamptz",
    ),
    (
        "pg_stat_sys_indexes",
        "relid oid, indexrelid oid, schemaname, relname, indexrelname, idx_scan int8, idx_tup_read int8, \
         idx_tup_fetch int8",
    ),
    (
        "pg_stat_sys_tables",
        "relid oid, schemaname, relname, seq_scan int8, seq_tup_read int8, idx_scan int8, \
         idx_tup_fetch int8, n_tup_ins int8, n_tup_upd int8, n_tup_del int8, n_tup_hot_upd int8, \
         n_live_tup int8, n_dead_tup int8, n_mod_since_analyze int8, n_ins_since_vacuum int8, \
         last_vacuum timestamptz, last_autovacuum timestamptz, last_analyze timestamptz, \
         last_autoanalyze timestamptz, vacuum_count int8, autovacuum_count int8, analyze_count int8, \
         autoanalyze_count int8",
    ),
    (
        "pg_stat_user_functions",
        "funcid oid, schemaname, funcname, calls int8, total_time float8, self_time float8",
    ),
    (
        "pg_stat_user_indexes",
        "relid oid, indexrelid oid, schemaname, relname, indexrelname, idx_scan int8, idx_tup_read int8, \
         idx_tup_fetch int8",
    ),
    (
        "pg_stat_wal",
        "wal_records int8, wal_fpi int8, wal_bytes numeric, wal_buffers_full int8, wal_write int8, \
         wal_sync int8, wal_write_time float8, wal_sync_time float8, stats_reset timestamptz",
    ),
    (
        "pg_stat_wal_receiver",
        "pid int4, status, receive_start_lsn pg_lsn, receive_start_tli int4, written_lsn pg_lsn, \
         flushed_lsn pg_lsn, received_tli int4, last_msg_send_time timestamptz, \
         last_msg_receipt_time timestamptz, latest_end_lsn pg_lsn, latest_end_time timestamptz, slot_name, \
         sender_host, sender_port int4, conninfo",
    ),
    (
        "pg_stat_xact_all_tables",
        "relid oid, schemaname, relname, seq_scan int8, seq_tup_read int8, idx_scan int8, \
         idx_tup_fetch int8, n_tup_ins int8, n_tup_upd int8, n_tup_del int8, n_tup_hot_upd int8",
    ),
    (
        "pg_stat_xact_sys_tables",
        "relid oid, schemaname, relname, seq_scan int8, seq_tup_read int8, idx_scan int8, \
         idx_tup_fetch int8, n_tup_ins int8, n_tup_upd int8, n_tup_del int8, n_tup_hot_upd int8",
    ),
    (
        "pg_stat_xact_user_functions",
        "funcid oid, schemaname, funcname, calls int8, total_time float8, self_time float8",
    ),
    (
        "pg_stat_xact_user_tables",
        "relid oid, schemaname, relname, seq_scan int8, seq_tup_read int8, idx_scan int8, \
         idx_tup_fetch int8, n_tup_ins int8, n_tup_upd int8, n_tup_del int8, n_tup_hot_upd int8",
    ),
    (
        "pg_statio_all_indexes",
        "relid oid, indexrelid oid, schemaname, relname, indexrelname, idx_blks_read int8, \
         idx_blks_hit int8",
    ),
    ("pg_statio_all_sequences", "relid oid, schemaname, relname, blks_read int8, blks_hit int8"),
    (
        "pg_statio_all_tables",
        "relid oid, schemaname, relname, heap_blks_read int8, heap_blks_hit int8, idx_blks_read int8, \
         idx_blks_hit int8, toast_blks_read int8, toast_blks_hit int8, tidx_blks_read int8, \
         tidx_blks_hit int8",
    ),
    (
        "pg_statio_sys_indexes",
        "relid oid, indexrelid oid, schemaname, relname, indexrelname, idx_blks_read int8, \
         idx_blks_hit int8",
    ),
    ("pg_statio_sys_sequences", "relid oid, schemaname, relname, blks_read int8, blks_hit int8"),
    (
        "pg_statio_sys_tables",
        "relid oid, schemaname, relname, heap_blks_read int8, heap_blks_hit int8, idx_blks_read int8, \
         idx_blks_hit int8, toast_blks_read int8, toast_blks_hit int8, tidx_blks_read int8, \
         tidx_blks_hit int8",
    ),
    (
        "pg_statio_user_indexes",
        "relid oid, indexrelid oid, schemaname, relname, indexrelname, idx_blks_read int8, \
         idx_blks_hit int8",
    ),
    ("pg_statio_user_sequences", "relid oid, schemaname, relname, blks_read int8, blks_hit int8"),
    (
        "pg_statio_user_tables",
        "relid oid, schemaname, relname, heap_blks_read int8, heap_blks_hit int8, idx_blks_read int8, \
         idx_blks_hit int8, toast_blks_read int8, toast_blks_hit int8, tidx_blks_read int8, \
         tidx_blks_hit int8",
    ),
    (
        "pg_stats",
        "schemaname, tablename, attname, inherited bool, null_frac float4, avg_width int4, \
         n_distinct float4, most_common_vals anyarray, most_common_freqs _float4, \
         histogram_bounds anyarray, correlation float4, most_common_elems anyarray, \
         most_common_elem_freqs _float4, elem_count_histogram _float4",
    ),
    (
        "pg_stats_ext",
        "schemaname, tablename, statistics_schemaname, statistics_name, statistics_owner, attnames _name, \
         exprs _text, kinds _char, inherited bool, n_distinct pg_ndistinct, dependencies pg_dependencies, \
         most_common_vals _text, most_common_val_nulls _bool, most_common_freqs _float8, \
         most_common_base_freqs _float8",
    ),
    (
        "pg_stats_ext_exprs",
        "schemaname, tablename, statistics_schemaname, statistics_name, statistics_owner, expr, \
         inherited bool, null_frac float4, avg_width int4, n_distinct float4, most_common_vals anyarray, \
         most_common_freqs _float4, histogram_bounds anyarray, correlation float4, \
         most_common_elems anyarray, most_common_elem_freqs _float4, elem_count_histogram _float4",
    ),
    ("pg_transform", "oid oid, trftype oid, trflang oid, trffromsql regproc, trftosql regproc"),
    ("pg_ts_config_map", "mapcfg oid, maptokentype int4, mapseqno int4, mapdict oid"),
    ("pg_user_mappings", "umid oid, srvid oid, srvname, umuser oid, usename, umoptions _text"),
];

/// Those of `information_schema`.
pub(super) const INFORMATION_SCHEMA: [(&str, &str); 55] = [
    ("administrable_role_authorizations", "grantee, role_name, is_grantable"),
    ("applicable_roles", "grantee, role_name, is_grantable"),
    (
        "attributes",
        "udt_catalog, udt_schema, udt_name, attribute_name, ordinal_position int4, attribute_default, \
         is_nullable, data_type, character_maximum_length int4, character_octet_length int4, \
         character_set_catalog, character_set_schema, character_set_name, collation_catalog, \
         collation_schema, collation_name, numeric_precision int4, numeric_precision_radix int4, \
         numeric_scale int4, datetime_precision int4, interval_type, interval_precision int4, \
         attribute_udt_catalog, attribute_udt_schema, attribute_udt_name, scope_catalog, scope_schema, \
         scope_name, maximum_cardinality int4, dtd_identifier, is_derived_reference_attribute",
    ),
    (
        "check_constraint_routine_usage",
        "constraint_catalog, constraint_schema, constraint_name, specific_catalog, specific_schema, \
         specific_name",
    ),
    ("check_constraints", "constraint_catalog, constraint_schema, constraint_name, check_clause"),
    (
        "collation_character_set_applicability",
        "collation_catalog, collation_schema, collation_name, character_set_catalog, character_set_schema, \
         character_set_name",
    ),
    ("collations", "collation_catalog, collation_schema, collation_name, pad_attribute"),
    ("column_column_usage", "table_catalog, table_schema, table_name, column_name, dependent_column"),
    (
        "column_domain_usage",
        "domain_catalog, domain_schema, domain_name, table_catalog, table_schema, table_name, column_name",
    ),
    ("column_options", "table_catalog, table_schema, table_name, column_name, option_name, option_value"),
    (
        "column_privileges",
        "grantor, grantee, table_catalog, table_schema, table_name, column_name, privilege_type, \
         is_grantable",
    ),
    (
        "column_udt_usage",
        "udt_catalog, udt_schema, udt_name, table_catalog, table_schema, table_name, column_name",
    ),
    (
        "constraint_column_usage",
        "table_catalog, table_schema, table_name, column_name, constraint_catalog, constraint_schema, \
         constraint_name",
    ),
    (
        "constraint_table_usage",
        "table_catalog, table_schema, table_name, constraint_catalog, constraint_schema, constraint_name",
    ),
    ("data_type_privileges", "object_catalog, object_schema, object_name, object_type, dtd_identifier"),
    (
        "domain_constraints",
        "constraint_catalog, constraint_schema, constraint_name, domain_catalog, domain_schema, \
         domain_name, is_deferrable, initially_deferred",
    ),
    ("domain_udt_usage", "udt_catalog, udt_schema, udt_name, domain_catalog, domain_schema, domain_name"),
    (
        "domains",
        "domain_catalog, domain_schema, domain_name, data_type, character_maximum_length int4, \
         character_octet_length int4, character_set_catalog, character_set_schema, character_set_name, \
         collation_catalog, collation_schema, collation_name, numeric_precision int4, \
         numeric_precision_radix int4, numeric_scale int4, datetime_precision int4, interval_type, \
         interval_precision int4, domain_default, udt_catalog, udt_schema, udt_name, scope_catalog, \
         scope_schema, scope_name, maximum_cardinality int4, dtd_identifier",
    ),
    (
        "element_types",
        "object_catalog, object_schema, object_name, object_type, collection_type_identifier, data_type, \
         character_maximum_length int4, character_octet_length int4, character_set_catalog, \
         character_set_schema, character_set_name, collation_catalog, collation_schema, collation_name, \
         numeric_precision int4, numeric_precision_radix int4, numeric_scale int4, \
         datetime_precision int4, interval_type, interval_precision int4, domain_default, udt_catalog, \
         udt_schema, udt_name, scope_catalog, scope_schema, scope_name, maximum_cardinality int4, \
         dtd_identifier",
    ),
    (
        "foreign_data_wrapper_options",
        "foreign_data_wrapper_catalog, foreign_data_wrapper_name, option_name, option_value",
    ),
    (
        "foreign_data_wrappers",
        "foreign_data_wrapper_catalog, foreign_data_wrapper_name, authorization_identifier, library_name, \
         foreign_data_wrapper_language",
    ),
    ("foreign_server_options", "foreign_server_catalog, foreign_server_name, option_name, option_value"),
    (
        "foreign_servers",
        "foreign_server_catalog, foreign_server_name, foreign_data_wrapper_catalog, \
         foreign_data_wrapper_name, foreign_server_type, foreign_server_version, authorization_identifier",
    ),
    (
        "foreign_table_options",
        "foreign_table_catalog, foreign_table_schema, foreign_table_name, option_name, option_value",
    ),
    (
        "foreign_tables",
        "foreign_table_catalog, foreign_table_schema, foreign_table_name, foreign_server_catalog, \
         foreign_server_name",
    ),
    (
        "key_column_usage",
        "constraint_catalog, constraint_schema, constraint_name, table_catalog, table_schema, table_name, \
         column_name, ordinal_position int4, position_in_unique_constraint int4",
    ),
    (
        "referential_constraints",
        "constraint_catalog, constraint_schema, constraint_name, unique_constraint_catalog, \
         unique_constraint_schema, unique_constraint_name, match_option, update_rule, delete_rule",
    ),
    (
        "role_column_grants",
        "grantor, grantee, table_catalog, table_schema, table_name, column_name, privilege_type, \
         is_grantable",
    ),
    (
        "role_routine_grants",
        "grantor, grantee, specific_catalog, specific_schema, specific_name, routine_catalog, \
         routine_schema, routine_name, privilege_type, is_grantable",
    ),
    (
        "role_table_grants",
        "grantor, grantee, table_catalog, table_schema, table_name, privilege_type, is_grantable, \
         with_hierarchy",
    ),
    ("role_udt_grants", "grantor, grantee, udt_catalog, udt_schema, udt_name, privilege_type, is_grantable"),
    (
        "role_usage_grants",
        "grantor, grantee, object_catalog, object_schema, object_name, object_type, privilege_type, \
         is_grantable",
    ),
    (
        "routine_column_usage",
        "specific_catalog, specific_schema, specific_name, routine_catalog, routine_schema, routine_name, \
         table_catalog, table_schema, table_name, column_name",
    ),
    (
        "routine_privileges",
        "grantor, grantee, specific_catalog, specific_schema, specific_name, routine_catalog, \
         routine_schema, routine_name, privilege_type, is_grantable",
    ),
    (
        "routine_routine_usage",
        "specific_catalog, specific_schema, specific_name, routine_catalog, routine_schema, routine_name",
    ),
    (
        "routine_sequence_usage",
        "specific_catalog, specific_schema, specific_name, routine_catalog, routine_schema, routine_name, \
         sequence_catalog, sequence_schema, sequence_name",
    ),
    (
        "routine_table_usage",
        "specific_catalog, specific_schema, specific_name, routine_catalog, routine_schema, routine_name, \
         table_catalog, table_schema, table_name",
    ),
    (
        "sequences",
        "sequence_catalog, sequence_schema, sequence_name, data_type, numeric_precision int4, \
         numeric_precision_radix int4, numeric_scale int4, start_value, minimum_value, maximum_value, \
         increment, cycle_option",
    ),
    (
        "sql_features",
        "feature_id, feature_name, sub_feature_id, sub_feature_name, is_supported, is_verified_by, comments",
    ),
    (
        "sql_implementation_info",
        "implementation_info_id, implementation_info_name, integer_value int4, character_value, comments",
    ),
    ("sql_parts", "feature_id, feature_name, is_supported, is_verified_by, comments"),
    ("sql_sizing", "sizing_id int4, sizing_name, supported_value int4, comments"),
    (
        "table_constraints",
        "constraint_catalog, constraint_schema, constraint_name, table_catalog, table_schema, table_name, \
         constraint_type, is_deferrable, initially_deferred, enforced, nulls_distinct",
    ),
    (
        "table_privileges",
        "grantor, grantee, table_catalog, table_schema, table_name, privilege_type, is_grantable, \
         with_hierarchy",
    ),
    (
        "transforms",
        "udt_catalog, udt_schema, udt_name, specific_catalog, specific_schema, specific_name, group_name, \
         transform_type",
    ),
    (
        "triggered_update_columns",
        "trigger_catalog, trigger_schema, trigger_name, event_object_catalog, event_object_schema, \
         event_object_table, event_object_column",
    ),
    (
        "triggers",
        "trigger_catalog, trigger_schema, trigger_name, event_manipulation, event_object_catalog, \
         event_object_schema, event_object_table, action_order int4, action_condition, action_statement, \
         action_orientation, action_timing, action_reference_old_table, action_reference_new_table, \
         action_reference_old_row, action_reference_new_row, created timestamptz",
    ),
    ("udt_privileges", "grantor, grantee, udt_catalog, udt_schema, udt_name, privilege_type, is_grantable"),
    (
        "usage_privileges",
        "grantor, grantee, object_catalog, object_schema, object_name, object_type, privilege_type, \
         is_grantable",
    ),
    (
        "user_defined_types",
        "user_defined_type_catalog, user_defined_type_schema, user_defined_type_name, \
         user_defined_type_category, is_instantiable, is_final, ordering_form, ordering_category, \
         ordering_routine_catalog, ordering_routine_schema, ordering_routine_name, reference_type, \
         data_type, character_maximum_length int4, character_octet_length int4, character_set_catalog, \
         character_set_schema, character_set_name, collation_catalog, collation_schema, collation_name, \
         numeric_precision int4, numeric_precision_radix int4, numeric_scale int4, \
         datetime_precision int4, interval_type, interval_precision int4, source_dtd_identifier, \
         ref_dtd_identifier",
    ),
    (
        "user_mapping_options",
        "authorization_identifier, foreign_server_catalog, foreign_server_name, option_name, option_value",
    ),
    ("user_mappings", "authorization_identifier, foreign_server_catalog, foreign_server_name"),
    (
        "view_column_usage",
        "view_catalog, view_schema, view_name, table_catalog, table_schema, table_name, column_name",
    ),
    (
        "view_routine_usage",
        "table_catalog, table_schema, table_name, specific_catalog, specific_schema, specific_name",
    ),
    ("view_table_usage", "view_catalog, view_schema, view_name, table_catalog, table_schema, table_name"),
];

/// Relations of `information_schema` with rows; `information_schema` makes these.
pub(super) const WITH_ROWS: [(&str, &str); 7] = [
    (
        "character_sets",
        "character_set_catalog, character_set_schema, character_set_name, character_repertoire, \
         form_of_use, default_collate_catalog, default_collate_schema, default_collate_name",
    ),
    (
        "columns",
        "table_catalog, table_schema, table_name, column_name, ordinal_position int4, column_default, \
         is_nullable, data_type, character_maximum_length int4, character_octet_length int4, \
         numeric_precision int4, numeric_precision_radix int4, numeric_scale int4, \
         datetime_precision int4, interval_type, interval_precision int4, character_set_catalog, \
         character_set_schema, character_set_name, collation_catalog, collation_schema, collation_name, \
         domain_catalog, domain_schema, domain_name, udt_catalog, udt_schema, udt_name, scope_catalog, \
         scope_schema, scope_name, maximum_cardinality int4, dtd_identifier, is_self_referencing, \
         is_identity, identity_generation, identity_start, identity_increment, identity_maximum, \
         identity_minimum, identity_cycle, is_generated, generation_expression, is_updatable",
    ),
    ("enabled_roles", "role_name"),
    ("information_schema_catalog_name", "catalog_name"),
    (
        "schemata",
        "catalog_name, schema_name, schema_owner, default_character_set_catalog, \
         default_character_set_schema, default_character_set_name, sql_path",
    ),
    (
        "tables",
        "table_catalog, table_schema, table_name, table_type, self_referencing_column_name, \
         reference_generation, user_defined_type_catalog, user_defined_type_schema, \
         user_defined_type_name, is_insertable_into, is_typed, commit_action",
    ),
    (
        "views",
        "table_catalog, table_schema, table_name, view_definition, check_option, is_updatable, \
         is_insertable_into, is_trigger_updatable, is_trigger_deletable, is_trigger_insertable_into",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_have_their_types() {
        let columns = columns_of(&PG_CATALOG, "pg_sequences").unwrap();
        assert_eq!(columns[0], Field::new("schemaname", DataType::Utf8, true));
        assert_eq!(columns[4], Field::new("start_value", DataType::Int64, true));
        assert!(columns_of(&INFORMATION_SCHEMA, "pg_sequences").is_none());
        let columns = columns_of(&PG_CATALOG, "pg_policies").unwrap();
        assert_eq!(columns[4].data_type(), &DataType::new_list(DataType::Utf8, true));
    }
}
