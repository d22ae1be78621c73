"""Statements that tools send to a PostgreSQL server when they connect and list objects.

Superset uses SQLAlchemy, and Metabase and DBeaver use pgJDBC in part. These are tested with the real libraries,
in `tests.py` and `Jdbc.java`. The tools' own statements are here, by the source file that contains them. Short
statements are unchanged; long ones are reworded, with the tables, functions, casts and operators of the original.
"""

# psql's describe.c has the statements; psql itself sends them.
PSQL_COMMANDS = [
    r"\l", r"\l+", r"\dn", r"\dn+", r"\d", r"\d+", r"\dt", r"\dt+", r"\d lineitem", r"\d+ lineitem", r"\dv", r"\dv+", r"\di",
    r"\di+", r"\dm", r"\ds", r"\dE", r"\df", r"\df+", r"\df count", r"\da", r"\do", r"\dT", r"\dT+", r"\dTS", r"\dC", r"\dD",
    r"\du", r"\du+", r"\dg", r"\dp", r"\z", r"\ddp", r"\drds", r"\db", r"\db+", r"\dx", r"\dd", r"\dL", r"\dy", r"\dc", r"\dO",
    r"\des", r"\det", r"\dew", r"\deu", r"\dF", r"\dFd", r"\dFp", r"\dFt", r"\dA", r"\dP", r"\dRp", r"\dRs", r"\dX", r"\dconfig",
    r"\conninfo", r"\encoding",
]

_SEARCH_PATH = (
    "quote_ident(table_schema) IN (SELECT CASE WHEN trim(s[i]) = '\"$user\"' THEN user ELSE trim(s[i]) END FROM "
    "generate_series(array_lower(string_to_array(current_setting('search_path'), ','), 1), "
    "array_upper(string_to_array(current_setting('search_path'), ','), 1)) AS i, "
    "string_to_array(current_setting('search_path'), ',') s)"
)

# grafana/grafana: public/app/plugins/datasource/grafana-postgresql-datasource/postgresMetaQuery.ts; the first is the
# check of the data source, pkg/tsdb/grafana-postgresql-datasource/sqleng/handler_checkhealth.go.
GRAFANA = [
    ("SELECT 1", "1"),
    ("SELECT current_setting('server_version_num')::int/100 as version", "1600"),
    ("SELECT extversion FROM pg_extension WHERE extname = 'timescaledb'", None),
    ('SELECT schema_name AS "name" FROM information_schema.schemata '
     "WHERE schema_name NOT IN ('information_schema', 'pg_catalog', 'pg_toast') ORDER BY schema_name", "public"),
    (f'SELECT CASE WHEN {_SEARCH_PATH} THEN quote_ident(table_name) ELSE quote_ident(table_schema) || \'.\' || '
     'quote_ident(table_name) END AS "table" FROM information_schema.tables WHERE quote_ident(table_schema) NOT IN '
     f"('information_schema', 'pg_catalog') ORDER BY CASE WHEN {_SEARCH_PATH} THEN 0 ELSE 1 END, 1", "lineitem"),
    ('SELECT quote_ident(column_name) AS "column", data_type AS "type" FROM information_schema.columns WHERE '
     "CASE WHEN array_length(parse_ident('lineitem'), 1) = 2 THEN quote_ident(table_schema) = (parse_ident('lineitem'))[1] AND "
     f"quote_ident(table_name) = (parse_ident('lineitem'))[2] ELSE quote_ident(table_name) = 'lineitem' AND {_SEARCH_PATH} END",
     "bigint"),
    ('SELECT quote_ident(table_name) AS "table" FROM information_schema.tables WHERE quote_ident(table_schema) = \'public\' ORDER BY 1',
     "lineitem"),
    # Expansions of a panel's macros __timeFilter and __timeGroup.
    ("SELECT floor(extract(epoch from o_orderdate)/604800)*604800 AS \"time\", count(*) FROM orders WHERE o_orderdate BETWEEN "
     "'1995-01-01T00:00:00Z' AND '1995-02-01T00:00:00Z' GROUP BY 1 ORDER BY 1", "788659200"),
]

# apache/superset: superset/db_engine_specs/postgres.py; the rest is SQLAlchemy's.
SUPERSET = [
    ("SELECT datname FROM pg_database WHERE datistemplate = false", "db"),
    ('set search_path = "public"', None),
    ("SELECT pg_backend_pid()", ""),
    ("EXPLAIN SELECT count(*) FROM lineitem", ""),
    # Its form of dates in filters, and its way to stop a query.
    ("SELECT DATE_TRUNC('month', o_orderdate) AS __timestamp, COUNT(*) AS count FROM public.orders "
     "WHERE o_orderdate >= TO_DATE('1995-01-01', 'YYYY-MM-DD') AND o_orderdate < TO_DATE('1995-02-01', 'YYYY-MM-DD') "
     "GROUP BY DATE_TRUNC('month', o_orderdate) ORDER BY count DESC LIMIT 1000", "datetime(1995, 1, 1"),
    ("SELECT count(*) > 0 FROM orders WHERE o_orderdate >= TO_TIMESTAMP('1995-01-01 00:00:00.000000', 'YYYY-MM-DD HH24:MI:SS.US')",
     "True"),
    # A column with seconds since 1970 as a time.
    ("SELECT min(TIMESTAMP '1970-01-01' + o_orderkey * interval '1 second') FROM orders", "datetime(1970, 1, 1, 0, 0, 1)"),
    ("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid = '1'", None),
]

# metabase/metabase: src/metabase/driver/postgres.clj (time zone, get-tables-sql, describe-fields-sql,
# describe-fks-sql, enum-types) and the privileges that it reads before it lists tables.
METABASE = [
    ("show timezone", "UTC"),
    ("SELECT nspname, typname FROM pg_type t JOIN pg_namespace n ON n.oid = t.typnamespace "
     "WHERE t.oid IN (SELECT DISTINCT enumtypid FROM pg_enum e)", None),
    ("SELECT n.nspname AS schema, c.relname AS name, CASE c.relkind WHEN 'r' THEN 'TABLE' WHEN 'v' THEN 'VIEW' ELSE NULL END AS type, "
     "d.description AS description, stat.n_live_tup AS estimated_row_count FROM pg_catalog.pg_class AS c "
     "INNER JOIN pg_catalog.pg_namespace AS n ON c.relnamespace = n.oid LEFT JOIN pg_catalog.pg_description AS d ON (c.oid = d.objoid) "
     "AND (d.objsubid = 0) AND (d.classoid = 'pg_class'::regclass) LEFT JOIN pg_stat_user_tables AS stat ON (n.nspname = stat.schemaname) "
     "AND (c.relname = stat.relname) WHERE (c.relnamespace = n.oid) AND (n.nspname !~ '^pg_') AND (n.nspname <> 'information_schema') "
     "AND c.relkind in ('r', 'p', 'v', 'f', 'm') AND (n.nspname IN ('public')) ORDER BY type, schema, name", "lineitem"),
    ("SELECT c.column_name AS name, CASE WHEN c.udt_schema IN ('public', 'pg_catalog') THEN FORMAT('%s', c.udt_name) "
     "ELSE FORMAT('\"%s\".\"%s\"', c.udt_schema, c.udt_name) END AS database_type, c.ordinal_position - 1 AS position, "
     "c.table_name, pk.column_name IS NOT NULL AS is_key, "
     "col_description(CAST(CAST(FORMAT('%I.%I', CAST(c.table_schema AS text), CAST(c.table_name AS text)) AS regclass) AS oid), "
     "c.ordinal_position) AS comment, ((column_default IS NULL) OR (LOWER(column_default) = 'null')) AND (is_nullable = 'NO') AND NOT "
     "(((column_default IS NOT NULL) AND (column_default LIKE '%nextval(%')) OR (is_identity <> 'NO')) AS required "
     "FROM information_schema.columns AS c LEFT JOIN (SELECT tc.table_schema, tc.table_name, kc.column_name "
     "FROM information_schema.table_constraints AS tc INNER JOIN information_schema.key_column_usage AS kc "
     "ON (tc.constraint_name = kc.constraint_name) AND (tc.table_schema = kc.table_schema) AND (tc.table_name = kc.table_name) "
     "WHERE tc.constraint_type = 'PRIMARY KEY') AS pk ON (c.table_schema = pk.table_schema) AND (c.table_name = pk.table_name) "
     "AND (c.column_name = pk.column_name) WHERE c.table_schema !~ '^information_schema|catalog_history|pg_' "
     "AND (c.table_schema IN ('public')) UNION ALL SELECT pa.attname, pt.typname, pa.attnum - 1, pc.relname, FALSE, NULL, FALSE "
     "FROM pg_catalog.pg_class AS pc INNER JOIN pg_catalog.pg_namespace AS pn ON pn.oid = pc.relnamespace "
     "INNER JOIN pg_catalog.pg_attribute AS pa ON pa.attrelid = pc.oid INNER JOIN pg_catalog.pg_type AS pt ON pt.oid = pa.atttypid "
     "WHERE (pc.relkind = 'm') AND (pa.attnum >= 1) ORDER BY 4, 3", "int8"),
    ("SELECT fk_ns.nspname, fk_table.relname, fk_column.attname, pk_table.relname FROM pg_constraint AS c "
     "INNER JOIN pg_class AS fk_table ON c.conrelid = fk_table.oid INNER JOIN pg_namespace AS fk_ns ON c.connamespace = fk_ns.oid "
     "INNER JOIN pg_attribute AS fk_column ON c.conrelid = fk_column.attrelid INNER JOIN pg_class AS pk_table ON c.confrelid = pk_table.oid "
     "WHERE fk_ns.nspname !~ '^information_schema|catalog_history|pg_' AND (c.contype = 'f'::char) AND (fk_column.attnum = ANY(c.conkey)) "
     "ORDER BY 1, 2", None),
    # describe-indexes-sql.
    ("SELECT TRIM(BOTH '\"' FROM pg_catalog.pg_get_indexdef(tmp.ci_oid, tmp.pos, FALSE)) AS field_name FROM (SELECT n.nspname AS "
     "table_schema, ct.relname AS table_name, ci.oid AS ci_oid, (information_schema._pg_expandarray(i.indkey)).n AS pos "
     "FROM pg_catalog.pg_class AS ct INNER JOIN pg_catalog.pg_namespace AS n ON ct.relnamespace = n.oid "
     "INNER JOIN pg_catalog.pg_index AS i ON ct.oid = i.indrelid INNER JOIN pg_catalog.pg_class AS ci ON ci.oid = i.indexrelid "
     "WHERE (pg_catalog.pg_get_expr(i.indpred, i.indrelid) IS NULL) AND n.nspname !~ '^information_schema|catalog_history|pg_') AS tmp "
     "WHERE tmp.pos = 1", None),
    # Questions with convert-timezone and datetime-diff.
    ("SELECT timezone('Asia/Tokyo', timezone('UTC', CAST('2024-01-01 12:00:00' AS timestamp)))", "datetime(2024, 1, 1, 21, 0)"),
    ("SELECT CAST(extract(year from age(date_trunc('day', CAST('2024-03-31' AS timestamp)), date_trunc('day', "
     "CAST('2022-01-30' AS timestamp)))) AS integer)", "(2,)"),
    ("SELECT count(*) FROM orders WHERE CAST(o_orderdate AS timestamp) AT TIME ZONE 'US/Pacific' < now()", "("),
    # regex-match-first, times cut to minutes, and other functions of dates.
    ("SELECT substring(o_orderpriority FROM '^[0-9]') AS first, count(*) FROM orders GROUP BY 1 ORDER BY 1 LIMIT 1", "('1', "),
    ("SELECT make_time((extract(hour from CAST('10:11:12' AS time)))::integer, (extract(minute from CAST('10:11:12' AS time)))::integer, "
     "0.0)", "time(10, 11)"),
    ("SELECT CAST(date_trunc('week', CAST(o_orderdate AS timestamp) + INTERVAL '1 day') AS date) + INTERVAL '-1 day', count(*) FROM orders "
     "GROUP BY 1 ORDER BY 1 LIMIT 1", "1991"),
    ("SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY o_totalprice) FROM orders", "("),
    ("SELECT FLOOR((o_totalprice / 50000.0)) * 50000.0 AS bin, count(*) FROM orders GROUP BY FLOOR((o_totalprice / 50000.0)) * 50000.0 "
     "ORDER BY 1 LIMIT 1", "("),
    ("SELECT has_table_privilege('\"public\".\"lineitem\"', 'SELECT'), has_any_column_privilege('\"public\".\"lineitem\"', 'select'), "
     "has_table_privilege('\"public\".\"lineitem\"', 'INSERT')", "True, True, False"),
]

# dbeaver/dbeaver: plugins/org.jkiss.dbeaver.ext.postgresql/src/org/jkiss/dbeaver/ext/postgresql/model/: PostgreDataSource,
# PostgreExecutionContext, PostgreDatabase, PostgreSchema, PostgreDataType and PostgreSetting.
DBEAVER = [
    ("SET extra_float_digits = 3", None),
    ("SET application_name = 'DBeaver 24 - Main'", None),
    ("SELECT current_schema(),session_user", "public"),
    ("SHOW search_path", "public"),
    ("SELECT version()", "PostgreSQL"),
    ("SELECT 1 FROM pg_catalog.pg_attribute s JOIN pg_catalog.pg_class p ON s.attrelid = p.oid JOIN pg_catalog.pg_namespace n "
     "ON p.relnamespace = n.oid WHERE p.relname = 'pg_type' AND n.nspname = 'pg_catalog' AND s.attname = 'typcategory'", None),
    ("SELECT db.oid,db.* FROM pg_catalog.pg_database db WHERE datname='db'", "db"),
    ("SELECT db.oid,db.* FROM pg_catalog.pg_database db WHERE 1 = 1 AND datallowconn AND NOT datistemplate ORDER BY db.datname", "db"),
    ("SELECT a.oid,a.* FROM pg_catalog.pg_roles a ORDER BY a.oid", None),
    ("SELECT am.oid,am.* FROM pg_catalog.pg_am am ORDER BY am.oid", "heap"),
    ("SELECT c.contoencoding as encid,pg_catalog.pg_encoding_to_char(c.contoencoding) as encname FROM pg_catalog.pg_conversion c "
     "GROUP BY c.contoencoding ORDER BY 2", "(6, "),
    ("SELECT l.oid,l.* FROM pg_catalog.pg_language l ORDER BY l.oid", "sql"),
    ("SELECT l.oid,l.*,p.pronamespace as handler_schema_id FROM pg_catalog.pg_foreign_data_wrapper l "
     "LEFT OUTER JOIN pg_catalog.pg_proc p ON p.oid=l.fdwhandler ORDER BY l.fdwname", None),
    ("SELECT l.oid,l.* FROM pg_catalog.pg_foreign_server l ORDER BY l.srvname", None),
    ("SELECT t.oid,t.* FROM pg_catalog.pg_tablespace t ORDER BY t.oid", "pg_default"),
    ("SELECT * FROM pg_catalog.pg_settings ORDER BY name", "max_index_keys"),
    ("SELECT n.oid,n.*,d.description FROM pg_catalog.pg_namespace n LEFT OUTER JOIN pg_catalog.pg_description d ON d.objoid=n.oid "
     "AND d.objsubid=0 AND d.classoid='pg_namespace'::regclass ORDER BY nspname", "public"),
    ("SELECT t.oid,t.*,c.relkind,format_type(nullif(t.typbasetype, 0), t.typtypmod) as base_type_name, d.description "
     "FROM pg_catalog.pg_type t LEFT OUTER JOIN pg_catalog.pg_type et ON et.oid=t.typelem LEFT OUTER JOIN pg_catalog.pg_class c "
     "ON c.oid=t.typrelid LEFT OUTER JOIN pg_catalog.pg_description d ON t.oid=d.objoid WHERE t.typname IS NOT NULL "
     "AND (c.relkind IS NULL OR c.relkind = 'c') AND (et.typcategory IS NULL OR et.typcategory <> 'C')", "int8"),
    ("SELECT c.oid,c.*,d.description,pg_catalog.pg_get_expr(c.relpartbound, c.oid) as partition_expr, "
     "pg_catalog.pg_get_partkeydef(c.oid) as partition_key FROM pg_catalog.pg_class c LEFT OUTER JOIN pg_catalog.pg_description d "
     "ON d.objoid=c.oid AND d.objsubid=0 AND d.classoid='pg_class'::regclass WHERE c.relkind not in ('i','I','c')", "lineitem"),
    ("SELECT c.relname,a.*,pg_catalog.pg_get_expr(ad.adbin, ad.adrelid, true) as def_value,dsc.description,dep.objid "
     "FROM pg_catalog.pg_attribute a INNER JOIN pg_catalog.pg_class c ON (a.attrelid=c.oid) LEFT OUTER JOIN pg_catalog.pg_attrdef ad "
     "ON (a.attrelid=ad.adrelid AND a.attnum = ad.adnum) LEFT OUTER JOIN pg_catalog.pg_description dsc ON (c.oid=dsc.objoid "
     "AND a.attnum = dsc.objsubid) LEFT OUTER JOIN pg_depend dep on dep.refobjid = a.attrelid AND dep.deptype = 'i' "
     "and dep.refobjsubid = a.attnum and dep.classid = dep.refclassid WHERE NOT a.attisdropped AND c.relname = 'lineitem' "
     "ORDER BY a.attnum", "l_orderkey"),
    ("SELECT c.oid,c.*,t.relname as tabrelname,rt.relnamespace as refnamespace,d.description FROM pg_catalog.pg_constraint c "
     "INNER JOIN pg_catalog.pg_class t ON t.oid=c.conrelid LEFT OUTER JOIN pg_catalog.pg_class rt ON rt.oid=c.confrelid "
     "LEFT OUTER JOIN pg_catalog.pg_description d ON d.objoid=c.oid AND d.objsubid=0 AND d.classoid='pg_constraint'::regclass "
     "ORDER BY c.oid", None),
    ("SELECT i.*,c.relnamespace FROM pg_catalog.pg_inherits i,pg_catalog.pg_class c WHERE i.inhrelid=16387 AND c.oid=i.inhparent "
     "ORDER BY i.inhseqno", None),
    ("SELECT i.*,i.indkey as keys,c.relname,c.relnamespace,c.relam,c.reltablespace,tc.relname as tabrelname,dsc.description,"
     "pg_catalog.pg_get_expr(i.indpred, i.indrelid) as pred_expr,pg_catalog.pg_get_expr(i.indexprs, i.indrelid, true) as expr,"
     "pg_catalog.pg_relation_size(i.indexrelid) as index_rel_size,pg_catalog.pg_stat_get_numscans(i.indexrelid) as index_num_scans "
     "FROM pg_catalog.pg_index i INNER JOIN pg_catalog.pg_class c ON c.oid=i.indexrelid INNER JOIN pg_catalog.pg_class tc "
     "ON tc.oid=i.indrelid LEFT OUTER JOIN pg_catalog.pg_description dsc ON i.indexrelid=dsc.objoid WHERE i.indrelid=16387 "
     "ORDER BY tabrelname, c.relname", None),
    ("SELECT x.oid,x.*,p.relnamespace as func_schema_id,d.description FROM pg_catalog.pg_trigger x LEFT OUTER JOIN pg_catalog.pg_class p "
     "ON p.oid=x.tgrelid LEFT OUTER JOIN pg_catalog.pg_description d ON d.objoid=x.oid AND d.objsubid=0 WHERE x.tgrelid=16387 "
     "AND NOT x.tgisinternal", None),
    # PostgreDependency and PostgreRule.
    ("SELECT DISTINCT dep.deptype, dep.classid, dep.objid, cl.relkind, attr.attname,pg_get_expr(ad.adbin, ad.adrelid) adefval, "
     "CASE WHEN cl.relkind IS NOT NULL THEN cl.relkind::text || COALESCE(dep.objsubid::text, '') WHEN tg.oid IS NOT NULL THEN 'T'::text "
     "WHEN co.oid IS NOT NULL THEN 'C'::text || contype::text ELSE '' END AS type, COALESCE(coc.relname, clrw.relname) AS ownertable, "
     "CASE WHEN cl.relname IS NOT NULL AND att.attname IS NOT NULL THEN cl.relname || '.' || att.attname ELSE COALESCE(cl.relname, "
     "co.conname, pr.proname, tg.tgname, ty.typname, la.lanname, rw.rulename, ns.nspname) END AS refname, COALESCE(nsc.nspname, "
     "nso.nspname, nsp.nspname, nst.nspname, nsrw.nspname) AS nspname FROM pg_depend dep LEFT JOIN pg_class cl ON dep.objid=cl.oid "
     "LEFT JOIN pg_attribute att ON dep.objid=att.attrelid AND dep.objsubid=att.attnum LEFT JOIN pg_namespace nsc ON cl.relnamespace=nsc.oid "
     "LEFT JOIN pg_proc pr ON dep.objid=pr.oid LEFT JOIN pg_namespace nsp ON pr.pronamespace=nsp.oid LEFT JOIN pg_trigger tg ON dep.objid=tg.oid "
     "LEFT JOIN pg_type ty ON dep.objid=ty.oid LEFT JOIN pg_namespace nst ON ty.typnamespace=nst.oid LEFT JOIN pg_constraint co ON dep.objid=co.oid "
     "LEFT JOIN pg_class coc ON co.conrelid=coc.oid LEFT JOIN pg_namespace nso ON co.connamespace=nso.oid LEFT JOIN pg_rewrite rw ON dep.objid=rw.oid "
     "LEFT JOIN pg_class clrw ON clrw.oid=rw.ev_class LEFT JOIN pg_namespace nsrw ON clrw.relnamespace=nsrw.oid LEFT JOIN pg_language la "
     "ON dep.objid=la.oid LEFT JOIN pg_namespace ns ON dep.objid=ns.oid LEFT JOIN pg_attrdef ad ON ad.oid=dep.objid LEFT JOIN pg_attribute attr "
     "ON attr.attrelid=ad.adrelid and attr.attnum=ad.adnum WHERE dep.refobjid=16387 ORDER BY type", None),
    ("SELECT r.oid,r.*,pg_get_ruledef(r.oid) FROM pg_catalog.pg_rewrite r WHERE r.ev_class=16387", None),
    ("SELECT r.rulename::name,r.ev_class::regclass::oid FROM pg_catalog.pg_rewrite r WHERE r.ev_class=16387", None),
    ("SELECT c.relname::name, c.relkind::\"char\" FROM pg_catalog.pg_class c WHERE c.relname = 'lineitem'", "lineitem"),
    ("SELECT pg_catalog.set_config('search_path', 'public', false)", "public"),
    ("select description from pg_shdescription join pg_database on objoid = pg_database.oid where datname = 'db'", None),
    ("SELECT * FROM pg_catalog.pg_policies WHERE schemaname='public' AND tablename='lineitem'", None),
    ("SELECT * FROM pg_catalog.pg_available_extensions ORDER BY name", None),
    ("SELECT * FROM information_schema.views", None),
    ("select c.oid,pg_catalog.pg_total_relation_size(c.oid) as total_rel_size,pg_catalog.pg_relation_size(c.oid) as rel_size "
     "FROM pg_class c WHERE c.relnamespace > 0", "(1"),
]

#: By tool: statements, and a part of each answer. `None`: any answer.
TOOLS = {"Grafana": GRAFANA, "Superset": SUPERSET, "Metabase": METABASE, "DBeaver": DBEAVER}
