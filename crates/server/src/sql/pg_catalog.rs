//! PostgreSQL's own tables: those of `datafusion-pg-catalog`, with the columns and tables that clients also ask for.
//!
//! `information_schema` of the query engine has other columns than PostgreSQL's and types by other names. Tables of it that
//! clients read are here, too, as `pg_catalog.information_...`; statements are pointed at them by `postgres::catalog`.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::array::{ArrayRef, Int32Array, RecordBatch, StringArray};
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::catalog::view::ViewTable;
use datafusion::catalog::{MemTable, SchemaProvider, TableProvider};
use datafusion::common::{Column, Result};
use datafusion::datasource::provider_as_source;
use datafusion::logical_expr::{Expr, LogicalPlanBuilder, lit};
use datafusion::scalar::ScalarValue;

use super::catalog::PUBLIC;
use super::functions::SETTINGS;

/// Columns that are not in the tables given, or are text there where clients need a list; all of them say nothing, because
/// tables have neither options nor rights of their own nor keys.
const COLUMNS: [(&str, &str, Nothing); 9] = [
    ("pg_class", "relacl", Nothing::Text),
    ("pg_class", "reloptions", Nothing::List(DataType::Utf8)),
    ("pg_constraint", "conkey", Nothing::List(DataType::Int16)),
    ("pg_constraint", "confkey", Nothing::List(DataType::Int16)),
    ("pg_index", "indkey", Nothing::List(DataType::Int16)),
    ("pg_index", "indclass", Nothing::List(DataType::Int32)),
    ("pg_index", "indcollation", Nothing::List(DataType::Int32)),
    ("pg_index", "indoption", Nothing::List(DataType::Int16)),
    ("pg_statistic_ext", "stxkind", Nothing::List(DataType::Utf8)),
];

/// Tables that are not given and have no rows, with their columns.
const EMPTY: [(&str, &[&str]); 8] = [
    ("pg_user_mappings", &["umid", "srvid", "srvname", "umuser", "usename", "umoptions"]),
    (
        "pg_stat_activity",
        &["datid", "datname", "pid", "usesysid", "usename", "application_name", "state", "query"],
    ),
    ("pg_indexes", &["schemaname", "tablename", "indexname", "tablespace", "indexdef"]),
    (
        "information_table_constraints",
        &[
            "constraint_catalog",
            "constraint_schema",
            "constraint_name",
            "table_catalog",
            "table_schema",
            "table_name",
            "constraint_type",
            "is_deferrable",
            "initially_deferred",
            "enforced",
        ],
    ),
    (
        "information_key_column_usage",
        &[
            "constraint_catalog",
            "constraint_schema",
            "constraint_name",
            "table_catalog",
            "table_schema",
            "table_name",
            "column_name",
            "ordinal_position",
            "position_in_unique_constraint",
        ],
    ),
    (
        "information_constraint_column_usage",
        &[
            "table_catalog",
            "table_schema",
            "table_name",
            "column_name",
            "constraint_catalog",
            "constraint_schema",
            "constraint_name",
        ],
    ),
    (
        "information_referential_constraints",
        &[
            "constraint_catalog",
            "constraint_schema",
            "constraint_name",
            "unique_constraint_catalog",
            "unique_constraint_schema",
            "unique_constraint_name",
            "match_option",
            "update_rule",
            "delete_rule",
        ],
    ),
    (
        "information_table_privileges",
        &[
            "grantor",
            "grantee",
            "table_catalog",
            "table_schema",
            "table_name",
            "privilege_type",
            "is_grantable",
            "with_hierarchy",
        ],
    ),
];

const INFORMATION_COLUMNS: &str = "information_columns";
const SETTINGS_TABLE: &str = "pg_settings";

/// Where a table of `information_schema` is; nothing if that of the query engine will do.
pub(crate) fn information_table(name: &str) -> Option<String> {
    let here = format!("information_{}", name.to_ascii_lowercase());
    (here == INFORMATION_COLUMNS || EMPTY.iter().any(|(table, _)| *table == here)).then_some(here)
}

enum Nothing {
    Text,
    List(DataType),
}

impl From<&Nothing> for ScalarValue {
    fn from(nothing: &Nothing) -> Self {
        match nothing {
            Nothing::Text => ScalarValue::Utf8(None),
            Nothing::List(element) => ScalarValue::new_null_list(element.clone(), true, 1),
        }
    }
}

/// The schema `pg_catalog` of a user.
#[derive(Debug)]
pub(super) struct PgCatalog {
    given: Arc<dyn SchemaProvider>,
    /// The tables that the user sees.
    visible: Arc<dyn SchemaProvider>,
    database: String,
}

impl PgCatalog {
    pub(super) fn new(
        given: Arc<dyn SchemaProvider>,
        visible: Arc<dyn SchemaProvider>,
        database: &str,
    ) -> Self {
        PgCatalog { given, visible, database: database.to_owned() }
    }

    /// The columns of the user's tables, as PostgreSQL's `information_schema.columns` has them.
    async fn information_columns(&self) -> Result<Arc<dyn TableProvider>> {
        let mut texts: [Vec<Option<String>>; 18] = Default::default();
        let mut positions = Vec::new();
        for table in self.visible.table_names() {
            let Some(provider) = self.visible.table(&table).await? else { continue };
            for (at, field) in provider.schema().fields().iter().enumerate() {
                let (data_type, udt) = type_names(field.data_type());
                let row = [
                    Some(self.database.as_str()),
                    Some(PUBLIC),
                    Some(table.as_str()),
                    Some(field.name()),
                    None,
                    Some(if field.is_nullable() { "YES" } else { "NO" }),
                    Some(&data_type),
                    None,
                    None,
                    None,
                    Some(self.database.as_str()),
                    Some("pg_catalog"),
                    Some(&udt),
                    Some("NO"),
                    None,
                    Some("NEVER"),
                    None,
                    Some("NO"),
                ];
                texts.iter_mut().zip(row).for_each(|(column, value)| column.push(value.map(str::to_owned)));
                positions.push(i32::try_from(at + 1).unwrap_or(i32::MAX));
            }
        }
        const NAMES: [&str; 18] = [
            "table_catalog",
            "table_schema",
            "table_name",
            "column_name",
            "column_default",
            "is_nullable",
            "data_type",
            "character_set_name",
            "collation_name",
            "domain_name",
            "udt_catalog",
            "udt_schema",
            "udt_name",
            "is_identity",
            "identity_generation",
            "is_generated",
            "generation_expression",
            "is_updatable",
        ];
        let mut fields: Vec<Field> =
            NAMES.iter().map(|name| Field::new(*name, DataType::Utf8, true)).collect();
        let mut columns: Vec<ArrayRef> =
            texts.into_iter().map(|column| Arc::new(StringArray::from(column)) as ArrayRef).collect();
        let rows = positions.len();
        fields.insert(4, Field::new("ordinal_position", DataType::Int32, false));
        columns.insert(4, Arc::new(Int32Array::from(positions)));
        // Not said: lengths, precisions and scales.
        for name in ["character_maximum_length", "numeric_precision", "numeric_scale", "datetime_precision"] {
            fields.push(Field::new(name, DataType::Int32, true));
            columns.push(Arc::new(Int32Array::new_null(rows)));
        }
        table_of(fields, columns)
    }
}

fn table_of(fields: Vec<Field>, columns: Vec<ArrayRef>) -> Result<Arc<dyn TableProvider>> {
    let schema = Arc::new(Schema::new(fields));
    let batch = RecordBatch::try_new(schema.clone(), columns)?;
    Ok(Arc::new(MemTable::try_new(schema, vec![vec![batch]])?))
}

/// A type's name in SQL, and its short name.
fn type_names(data_type: &DataType) -> (String, String) {
    let short =
        arrow_pg::datatypes::into_pg_type(data_type).map_or("text".to_owned(), |of| of.name().to_owned());
    let long = match short.as_str() {
        "int2" => "smallint",
        "int4" => "integer",
        "int8" => "bigint",
        "float4" => "real",
        "float8" => "double precision",
        "bool" => "boolean",
        "varchar" => "character varying",
        "timestamp" => "timestamp without time zone",
        "timestamptz" => "timestamp with time zone",
        "time" => "time without time zone",
        array if array.starts_with('_') => "ARRAY",
        other => other,
    };
    (long.to_owned(), short.clone())
}

/// The settings, as `pg_settings` has them.
fn settings() -> Result<Arc<dyn TableProvider>> {
    let names = SETTINGS.map(|(name, _)| name);
    let values = SETTINGS.map(|(_, value)| value);
    let same = |text: &'static str| [text; SETTINGS.len()];
    let columns = [
        ("name", names.map(Some)),
        ("setting", values.map(Some)),
        ("unit", [None; SETTINGS.len()]),
        ("category", same("Preset Options").map(Some)),
        ("short_desc", [None; SETTINGS.len()]),
        ("extra_desc", [None; SETTINGS.len()]),
        ("context", same("internal").map(Some)),
        ("vartype", same("string").map(Some)),
        ("source", same("default").map(Some)),
        ("min_val", [None; SETTINGS.len()]),
        ("max_val", [None; SETTINGS.len()]),
        ("enumvals", [None; SETTINGS.len()]),
        ("boot_val", values.map(Some)),
        ("reset_val", values.map(Some)),
        ("sourcefile", [None; SETTINGS.len()]),
    ];
    let fields = columns.iter().map(|(name, _)| Field::new(*name, DataType::Utf8, true)).collect();
    let columns = columns.into_iter().map(|(_, values)| Arc::new(StringArray::from_iter(values)) as ArrayRef);
    table_of(fields, columns.collect())
}

/// The table with the columns that it lacks.
fn completed(name: &str, table: Arc<dyn TableProvider>) -> Result<Arc<dyn TableProvider>> {
    let other = |column: &str| COLUMNS.iter().any(|(of, name_of, _)| *of == name && *name_of == column);
    let added = COLUMNS.iter().filter(|(of, _, _)| *of == name);
    let mut columns: Vec<Expr> =
        added.map(|(_, column, nothing)| lit(ScalarValue::from(nothing)).alias(*column)).collect();
    if columns.is_empty() {
        return Ok(table);
    }
    let schema = table.schema();
    let given = schema.fields().iter().filter(|field| !other(field.name()));
    columns.splice(0..0, given.map(|field| Expr::Column(Column::new(Some(name), field.name()))));
    let plan = LogicalPlanBuilder::scan(name, provider_as_source(table), None)?.project(columns)?.build()?;
    Ok(Arc::new(ViewTable::new(plan, None)))
}

#[async_trait]
impl SchemaProvider for PgCatalog {
    fn table_names(&self) -> Vec<String> {
        let empty = EMPTY.iter().map(|(name, _)| (*name).to_owned());
        self.given.table_names().into_iter().chain(empty).chain([INFORMATION_COLUMNS.to_owned()]).collect()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        let name = name.to_ascii_lowercase();
        if let Some((_, columns)) = EMPTY.iter().find(|(table, _)| *table == name) {
            let fields =
                columns.iter().map(|column| Field::new(*column, DataType::Utf8, true)).collect::<Vec<_>>();
            let none = columns.iter().map(|_| Arc::new(StringArray::new_null(0)) as ArrayRef).collect();
            return table_of(fields, none).map(Some);
        }
        match name.as_str() {
            INFORMATION_COLUMNS => self.information_columns().await.map(Some),
            SETTINGS_TABLE => settings().map(Some),
            _ => self.given.table(&name).await?.map(|table| completed(&name, table)).transpose(),
        }
    }

    fn table_exist(&self, name: &str) -> bool {
        let name = name.to_ascii_lowercase();
        name == INFORMATION_COLUMNS
            || EMPTY.iter().any(|(table, _)| *table == name)
            || self.given.table_exist(&name)
    }
}
