"""What tools ask a PostgreSQL server when they connect and draw their trees of tables.

Each list holds statements of that tool, as its sources or its log of statements have them; comments say where they are from.
"""

# psql 15 describe.c
# Not there: \dt+, \d+, \df and \du, which need functions and array subqueries that the query engine does not have.
PSQL_COMMANDS = [r"\l", r"\dn", r"\d", r"\dt", r"\d lineitem", r"\dv", r"\conninfo"]

# Grafana, pkg/tsdb/grafana-postgresql-datasource and its query editor (postgresMetaQuery.ts): written from what is known of
# them, not copied.
GRAFANA = [
    "SELECT 1",
    "SELECT current_setting('server_version_num')::int/100 as version",
    "SELECT CASE WHEN COUNT(*) > 0 THEN 1 ELSE 0 END FROM pg_extension WHERE extname = 'timescaledb'",
    "SELECT quote_ident(table_name) AS table FROM information_schema.tables "
    "WHERE quote_ident(table_schema) NOT IN ('information_schema', 'pg_catalog') AND table_type = 'BASE TABLE' ORDER BY 1",
    "SELECT quote_ident(column_name) AS column, data_type AS type FROM information_schema.columns "
    "WHERE quote_ident(table_name) = 'lineitem'",
]

# SQLAlchemy 2 (what Superset connects with): dialects/postgresql/base.py, initialize() and get_table_names().
SUPERSET = [
    "select pg_catalog.version()",
    "select current_schema()",
    "show standard_conforming_strings",
    "show transaction isolation level",
    "SELECT nspname FROM pg_catalog.pg_namespace WHERE nspname NOT LIKE 'pg\\_%' ORDER BY nspname",
    "SELECT pg_catalog.pg_class.relname FROM pg_catalog.pg_class JOIN pg_catalog.pg_namespace "
    "ON pg_catalog.pg_namespace.oid = pg_catalog.pg_class.relnamespace WHERE pg_catalog.pg_class.relkind = ANY "
    "(ARRAY['r', 'p', 'f', 'v', 'm']) AND pg_catalog.pg_class.relpersistence != 't' "
    "AND pg_catalog.pg_table_is_visible(pg_catalog.pg_class.oid) AND pg_catalog.pg_namespace.nspname != 'pg_catalog'",
]

# Metabase: driver/postgres.clj, written from what is known of it; the rest it asks through JDBC's metadata (see Jdbc.java).
METABASE = [
    "SELECT version()",
    "SELECT current_setting('TIMEZONE')",
    "SELECT n.nspname AS schema, c.relname AS name FROM pg_catalog.pg_class c "
    "JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind IN ('r', 'p', 'v', 'f', 'm') "
    "AND n.nspname NOT LIKE 'pg_%' AND n.nspname <> 'information_schema'",
    "SELECT nspname FROM pg_namespace WHERE nspname NOT LIKE 'pg_%' AND nspname <> 'information_schema'",
]

# DBeaver: PostgreDataSource, PostgreDatabase and PostgreSchema, written from what is known of them.
DBEAVER = [
    "SET extra_float_digits = 3",
    "SET application_name = 'DBeaver 24 - Main'",
    "SELECT current_schema(), session_user",
    "SELECT version()",
    "SELECT db.oid, db.* FROM pg_catalog.pg_database db WHERE 1 = 1 AND datallowconn AND NOT datistemplate ORDER BY db.datname",
    "SELECT * FROM pg_catalog.pg_settings",
    "SELECT n.oid, n.* FROM pg_catalog.pg_namespace n ORDER BY nspname",
    "SELECT c.oid, c.relname, c.relkind FROM pg_catalog.pg_class c WHERE c.relkind NOT IN ('i', 'I', 'c')",
    "SELECT c.relname, a.* FROM pg_catalog.pg_attribute a INNER JOIN pg_catalog.pg_class c ON (a.attrelid = c.oid) "
    "WHERE NOT a.attisdropped ORDER BY a.attnum",
]

TOOLS = {"Grafana": GRAFANA, "Superset": SUPERSET, "Metabase": METABASE, "DBeaver": DBEAVER}
