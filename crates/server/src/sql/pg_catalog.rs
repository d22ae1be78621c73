//! PostgreSQL's own tables: those of `datafusion-pg-catalog`, with further columns and tables that clients read.
//!
//! The query engine's `information_schema` has other columns than PostgreSQL's, and other names of types. Its tables
//! that clients read are here as `pg_catalog.information_...`; `postgres::catalog` rewrites statements to them.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::array::{ArrayRef, RecordBatch, StringArray};
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::catalog::view::ViewTable;
use datafusion::catalog::{MemTable, SchemaProvider, TableProvider};
use datafusion::common::{Column, Result};
use datafusion::datasource::provider_as_source;
use datafusion::logical_expr::{Expr, LogicalPlanBuilder, TableType, lit};
use datafusion::scalar::ScalarValue;

use super::activity::{ACTIVITY, Activity};
use super::catalog::{PUBLIC, Visible};
use super::settings::known::defaults;
use super::{Registry, columns};

/// Columns that the given tables lack, or have as text where clients need a list. Most are empty, because tables
/// have no options, rights or keys. Others have another name in the version that clients expect.
const COLUMNS: [(&str, &str, Content); 10] = [
    ("pg_class", "relacl", Content::NoText),
    ("pg_class", "reloptions", Content::NoList(DataType::Utf8)),
    ("pg_collation", "colliculocale", Content::Of("colllocale")),
    ("pg_constraint", "conkey", Content::NoList(DataType::Int16)),
    ("pg_constraint", "confkey", Content::NoList(DataType::Int16)),
    ("pg_index", "indkey", Content::NoList(DataType::Int16)),
    ("pg_index", "indclass", Content::NoList(DataType::Int32)),
    ("pg_index", "indcollation", Content::NoList(DataType::Int32)),
    ("pg_index", "indoption", Content::NoList(DataType::Int16)),
    ("pg_statistic_ext", "stxkind", Content::NoList(DataType::Utf8)),
];

/// Given tables that never have rows. A subquery over one of them is known to be empty.
const WITHOUT_ROWS: [&str; 12] = [
    "pg_attrdef",
    "pg_enum",
    "pg_event_trigger",
    "pg_foreign_table",
    "pg_inherits",
    "pg_partitioned_table",
    "pg_policy",
    "pg_publication_rel",
    "pg_seclabel",
    "pg_sequence",
    "pg_statistic_ext",
    "pg_trigger",
];

/// Further tables without rows, with their columns.
const EMPTY: [(&str, &[&str]); 14] = [
    ("pg_user_mappings", &["umid", "srvid", "srvname", "umuser", "usename", "umoptions"]),
    ("pg_indexes", &["schemaname", "tablename", "indexname", "tablespace", "indexdef"]),
    ("pg_available_extensions", &["name", "default_version", "installed_version", "comment"]),
    ("pg_cursors", &["name", "statement", "is_holdable", "is_binary", "is_scrollable", "creation_time"]),
    (
        "pg_locks",
        &[
            "locktype",
            "database",
            "relation",
            "transactionid",
            "virtualtransaction",
            "pid",
            "mode",
            "granted",
        ],
    ),
    (
        "pg_policies",
        &["schemaname", "tablename", "policyname", "permissive", "roles", "cmd", "qual", "with_check"],
    ),
    ("pg_prepared_xacts", &["transaction", "gid", "prepared", "owner", "database"]),
    (
        "information_views",
        &[
            "table_catalog",
            "table_schema",
            "table_name",
            "view_definition",
            "check_option",
            "is_updatable",
            "is_insertable_into",
        ],
    ),
    (
        "information_role_table_grants",
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
const CLASSES: &str = "pg_class";
const NAMESPACES: &str = "pg_namespace";
const TABLES: &str = "pg_tables";
const VIEWS: &str = "pg_views";
const ATTRIBUTES: &str = "pg_attribute";

/// The replacement of a table of `information_schema`. `None` if the query engine's table suffices.
pub(crate) fn information_table(name: &str) -> Option<String> {
    let here = format!("information_{}", name.to_ascii_lowercase());
    (here == INFORMATION_COLUMNS || EMPTY.iter().any(|(table, _)| *table == here)).then_some(here)
}

/// Returns true if this module adds a table of this name.
pub(crate) fn is_own_table(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    name == ACTIVITY || EMPTY.iter().any(|(table, _)| *table == name)
}

/// Returns true if this table of `pg_catalog` never has rows.
pub(crate) fn is_without_rows(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    WITHOUT_ROWS.contains(&name.as_str()) || EMPTY.iter().any(|(table, _)| *table == name)
}

/// The values of an added column.
enum Content {
    NoText,
    NoList(DataType),
    /// The values of another column.
    Of(&'static str),
}

impl Content {
    fn of(&self, table: &str) -> Expr {
        match self {
            Content::NoText => lit(ScalarValue::Utf8(None)),
            Content::NoList(element) => lit(ScalarValue::new_null_list(element.clone(), true, 1)),
            Content::Of(other) => Expr::Column(Column::new(Some(table), *other)),
        }
    }
}

/// The schema `pg_catalog` of a user.
#[derive(Debug)]
pub(super) struct PgCatalog {
    given: Arc<dyn SchemaProvider>,
    /// The tables that the user sees.
    visible: Visible,
    database: String,
    registry: Arc<Registry>,
}

impl PgCatalog {
    pub(super) fn new(
        given: Arc<dyn SchemaProvider>,
        visible: Visible,
        database: &str,
        registry: Arc<Registry>,
    ) -> Self {
        PgCatalog { given, visible, database: database.to_owned(), registry }
    }

    /// The names of the views that the user sees.
    async fn views(&self) -> Result<Vec<String>> {
        let mut views = Vec::new();
        for name in self.visible.table_names() {
            if self.visible.table_type(&name).await? == Some(TableType::View) {
                views.push(name);
            }
        }
        Ok(views)
    }
}

pub(super) fn table_of(fields: Vec<Field>, columns: Vec<ArrayRef>) -> Result<Arc<dyn TableProvider>> {
    let schema = Arc::new(Schema::new(fields));
    let batch = RecordBatch::try_new(schema.clone(), columns)?;
    Ok(Arc::new(MemTable::try_new(schema, vec![vec![batch]])?))
}

/// The settings, as `pg_settings` has them.
fn settings() -> Result<Arc<dyn TableProvider>> {
    let known: Vec<_> = defaults().collect();
    let names: Vec<_> = known.iter().map(|(name, _)| Some(*name)).collect();
    let values: Vec<_> = known.iter().map(|(_, value)| Some(*value)).collect();
    let same = |text: Option<&'static str>| vec![text; known.len()];
    let columns = [
        ("name", names),
        ("setting", values.clone()),
        ("unit", same(None)),
        ("category", same(Some("Preset Options"))),
        ("short_desc", same(None)),
        ("extra_desc", same(None)),
        ("context", same(Some("internal"))),
        ("vartype", same(Some("string"))),
        ("source", same(Some("default"))),
        ("min_val", same(None)),
        ("max_val", same(None)),
        ("enumvals", same(None)),
        ("boot_val", values.clone()),
        ("reset_val", values),
        ("sourcefile", same(None)),
    ];
    let fields = columns.iter().map(|(name, _)| Field::new(*name, DataType::Utf8, true)).collect();
    let columns = columns.into_iter().map(|(_, values)| Arc::new(StringArray::from_iter(values)) as ArrayRef);
    table_of(fields, columns.collect())
}

/// The given tables, among which views are.
fn without_views(given: Arc<dyn TableProvider>, views: Vec<String>) -> Result<Arc<dyn TableProvider>> {
    let column = |name| Expr::Column(Column::new(Some(TABLES), name));
    let is_view = column("tablename").in_list(views.into_iter().map(lit).collect(), false);
    let keeps = column("schemaname").not_eq(lit(PUBLIC)).or(is_view.is_not_true());
    let plan = LogicalPlanBuilder::scan(TABLES, provider_as_source(given), None)?.filter(keeps)?.build()?;
    Ok(Arc::new(ViewTable::new(plan, None)))
}

/// The views, as `pg_views` has them. Definitions may name tables that the user does not see.
fn views(views: Vec<String>) -> Result<Arc<dyn TableProvider>> {
    let same = |text: Option<&'static str>| views.iter().map(|_| text).collect::<StringArray>();
    let columns = [
        ("schemaname", same(Some(PUBLIC))),
        ("viewname", views.iter().map(Some).collect()),
        ("viewowner", same(Some("postgres"))),
        ("definition", same(None)),
    ];
    let fields = columns.iter().map(|(name, _)| Field::new(*name, DataType::Utf8, true)).collect();
    table_of(fields, columns.into_iter().map(|(_, values)| Arc::new(values) as ArrayRef).collect())
}

/// The table with its missing columns.
fn completed(name: &str, table: Arc<dyn TableProvider>) -> Result<Arc<dyn TableProvider>> {
    let other = |column: &str| COLUMNS.iter().any(|(of, name_of, _)| *of == name && *name_of == column);
    let added = COLUMNS.iter().filter(|(of, _, _)| *of == name);
    let mut columns: Vec<Expr> = added.map(|(_, column, content)| content.of(name).alias(*column)).collect();
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
        let own = [INFORMATION_COLUMNS, ACTIVITY].map(str::to_owned);
        self.given.table_names().into_iter().chain(empty).chain(own).collect()
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
            INFORMATION_COLUMNS => columns::information(&self.visible, &self.database).await.map(Some),
            SETTINGS_TABLE => settings().map(Some),
            ACTIVITY => Ok(Some(Arc::new(Activity::new(self.registry.clone())))),
            ATTRIBUTES => {
                let given = self.given.table(ATTRIBUTES).await?;
                let (classes, namespaces) =
                    (self.given.table(CLASSES).await?, self.given.table(NAMESPACES).await?);
                let (Some(given), Some(classes), Some(namespaces)) = (given, classes, namespaces) else {
                    return Ok(None);
                };
                columns::attributes(given, classes, namespaces, &self.visible).await.map(Some)
            }
            TABLES => match self.given.table(TABLES).await? {
                Some(given) => without_views(given, self.views().await?).map(Some),
                None => Ok(None),
            },
            VIEWS => views(self.views().await?).map(Some),
            _ if WITHOUT_ROWS.contains(&name.as_str()) => {
                let Some(given) = self.given.table(&name).await? else { return Ok(None) };
                let none = MemTable::try_new(given.schema(), vec![Vec::new()])?;
                completed(&name, Arc::new(none)).map(Some)
            }
            _ => self.given.table(&name).await?.map(|table| completed(&name, table)).transpose(),
        }
    }

    fn table_exist(&self, name: &str) -> bool {
        let name = name.to_ascii_lowercase();
        name == INFORMATION_COLUMNS || is_own_table(&name) || self.given.table_exist(&name)
    }
}
