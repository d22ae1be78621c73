//! PostgreSQL's own tables: those of `datafusion-pg-catalog`, with further columns, rows and tables that clients read.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::array::{ArrayRef, BooleanArray, Int32Array, StringArray, new_null_array};
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::catalog::view::ViewTable;
use datafusion::catalog::{MemTable, SchemaProvider, TableProvider};
use datafusion::common::metadata::FieldMetadata;
use datafusion::common::{Column, Result};
use datafusion::datasource::provider_as_source;
use datafusion::logical_expr::{Expr, LogicalPlanBuilder, lit};
use datafusion::scalar::ScalarValue;

use super::activity::{ACTIVITY, Activity};
use super::computed::{Computed, table_of};
use super::definitions::{INFORMATION_SCHEMA as EMPTY_OF_INFORMATION, PG_CATALOG as EMPTY, columns_of};
use super::settings::known::defaults;
use super::visible::{OWNER, OWNER_NUMBER, PUBLIC, USER_NUMBER, Visible};
use super::{Registry, columns};

/// Columns that the given tables lack, or have as text where clients need a list. Most are empty, because tables
/// have no options, rights or keys. Others have another name in the version that clients expect.
static COLUMNS: [(&str, &str, Content); 12] = [
    ("pg_class", "relowner", Content::Number(OWNER_NUMBER)),
    // PostgreSQL's number of rows that are not counted.
    ("pg_class", "reltuples", Content::Real(-1.0)),
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

const SETTINGS_TABLE: &str = "pg_settings";
const CLASSES: &str = "pg_class";
const NAMESPACES: &str = "pg_namespace";
const TABLES: &str = "pg_tables";
const VIEWS: &str = "pg_views";
const ATTRIBUTES: &str = "pg_attribute";

/// Tables of roles. The given ones lack the user.
const ROLES: [(&str, &[(&str, &str)]); 4] = [
    ("pg_authid", &[]),
    (
        "pg_roles",
        &[
            ("rolname", "rolname"),
            ("rolsuper", "rolsuper"),
            ("rolinherit", "rolinherit"),
            ("rolcreaterole", "rolcreaterole"),
            ("rolcreatedb", "rolcreatedb"),
            ("rolcanlogin", "rolcanlogin"),
            ("rolreplication", "rolreplication"),
            ("rolconnlimit", "rolconnlimit"),
            ("rolpassword", HIDDEN),
            ("rolvaliduntil", "rolvaliduntil"),
            ("rolbypassrls", "rolbypassrls"),
            ("rolconfig", NOTHING),
            ("oid", "oid"),
        ],
    ),
    ("pg_shadow", &LOGINS),
    ("pg_user", &LOGINS),
];

/// The columns of the roles that can log in.
const LOGINS: [(&str, &str); 9] = [
    ("usename", "rolname"),
    ("usesysid", "oid"),
    ("usecreatedb", "rolcreatedb"),
    ("usesuper", "rolsuper"),
    ("userepl", "rolreplication"),
    ("usebypassrls", "rolbypassrls"),
    ("passwd", HIDDEN),
    ("valuntil", "rolvaliduntil"),
    ("useconfig", NOTHING),
];

/// In place of a column: a password that is not shown, and a list that is NULL.
const HIDDEN: &str = "********";
const NOTHING: &str = "";

/// Returns true if this module adds a table of this name.
pub(crate) fn is_own_table(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    [ACTIVITY, "pg_shadow", "pg_user"].contains(&name.as_str())
        || EMPTY.iter().any(|(table, _)| *table == name)
}

/// Returns true if this table of `pg_catalog` is a view in PostgreSQL.
pub(super) fn is_view(name: &str) -> bool {
    let is_table = ["pg_parameter_acl", "pg_transform", "pg_ts_config_map", "pg_authid"].contains(&name);
    let given = ["pg_matviews", "pg_replication_slots", SETTINGS_TABLE, TABLES, VIEWS].contains(&name);
    let roles = ROLES.iter().any(|(roles, _)| *roles == name);
    !is_table && (given || roles || name.starts_with("pg_stat_") || EMPTY.iter().any(|(own, _)| *own == name))
}

/// Returns true if this table of `pg_catalog` or `information_schema` never has rows.
pub(crate) fn is_without_rows(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let empty = || EMPTY.iter().chain(&EMPTY_OF_INFORMATION).any(|(table, _)| *table == name);
    WITHOUT_ROWS.contains(&name.as_str()) || empty()
}

/// The values of an added or replaced column.
enum Content {
    Number(i32),
    Real(f32),
    NoText,
    NoList(DataType),
    /// The values of another column.
    Of(&'static str),
}

impl Content {
    fn of(&self, table: &str) -> Expr {
        match self {
            Content::Number(number) => lit(*number),
            Content::Real(number) => lit(*number),
            Content::NoText => lit(ScalarValue::Utf8(None)),
            Content::NoList(element) => lit(ScalarValue::new_null_list(element.clone(), true, 1)),
            Content::Of(other) => column(table, other),
        }
    }
}

fn column(table: &str, name: &str) -> Expr {
    Expr::Column(Column::new(Some(table), name))
}

/// The schema `pg_catalog` of a user.
#[derive(Debug)]
pub(super) struct PgCatalog {
    given: Arc<dyn SchemaProvider>,
    /// The tables that the user sees.
    visible: Visible,
    registry: Arc<Registry>,
}

impl PgCatalog {
    pub(super) fn new(given: Arc<dyn SchemaProvider>, visible: Visible, registry: Arc<Registry>) -> Self {
        PgCatalog { given, visible, registry }
    }
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
fn without_views(given: Arc<dyn TableProvider>, views: &Visible) -> Result<Arc<dyn TableProvider>> {
    let views = views.views(false).into_iter().map(|(name, _)| lit(name)).collect();
    let is_view = column(TABLES, "tablename").in_list(views, false);
    let keeps = column(TABLES, "schemaname").not_eq(lit(PUBLIC)).or(is_view.is_not_true());
    let schema = given.schema();
    let columns = schema.fields().iter().map(|field| match field.name().as_str() {
        "hasindex" => column(TABLES, "hasindex").alias("hasindexes"),
        name => column(TABLES, name),
    });
    let plan = LogicalPlanBuilder::scan(TABLES, provider_as_source(given), None)?;
    view_of(plan.filter(keeps)?.project(columns.collect::<Vec<_>>())?)
}

fn view_of(plan: LogicalPlanBuilder) -> Result<Arc<dyn TableProvider>> {
    Ok(Arc::new(ViewTable::new(plan.build()?, None)))
}

/// The views, as `pg_views` has them. Administrators see definitions, which may name tables that others do not see.
fn views(visible: &Visible) -> Arc<dyn TableProvider> {
    let names = ["schemaname", "viewname", "viewowner", "definition"];
    let fields = names.iter().map(|name| Field::new(*name, DataType::Utf8, true)).collect();
    let visible = visible.clone();
    Computed::table(fields, move |_, viewer| {
        let views = visible.views(viewer.is_some_and(|viewer| viewer.admin));
        let same = |text: &'static str| views.iter().map(|_| Some(text)).collect::<StringArray>();
        let columns = [
            same(PUBLIC),
            views.iter().map(|(name, _)| Some(name)).collect(),
            same(OWNER),
            views.iter().map(|(_, definition)| definition.as_ref()).collect(),
        ];
        let columns = columns.map(|column| Arc::new(column) as ArrayRef).to_vec();
        async move { Ok(columns) }
    })
}

/// A table of roles: the given roles and the user.
fn roles(
    of: &[(&'static str, &'static str)],
    logins: bool,
    given: Arc<dyn TableProvider>,
) -> Result<Arc<dyn TableProvider>> {
    const GIVEN: &str = "pg_authid";
    let schema = given.schema();
    let fields = schema.fields().iter().map(|field| field.as_ref().clone().with_nullable(true));
    let user = Computed::table(fields.collect(), |schema, viewer| {
        // The owner is one of the given roles.
        let admin = viewer.as_ref().is_some_and(|viewer| viewer.admin);
        let user: Vec<String> =
            viewer.iter().map(|viewer| viewer.user.clone()).filter(|user| user != OWNER).collect();
        let columns = schema.fields().iter().map(|field| -> ArrayRef {
            match field.name().as_str() {
                "oid" => Arc::new(user.iter().map(|_| Some(USER_NUMBER)).collect::<Int32Array>()),
                "rolname" => Arc::new(user.iter().map(Some).collect::<StringArray>()),
                "rolconnlimit" => Arc::new(user.iter().map(|_| Some(-1)).collect::<Int32Array>()),
                name if *field.data_type() == DataType::Boolean => {
                    let has = matches!(name, "rolinherit" | "rolcanlogin") || (admin && name == "rolsuper");
                    Arc::new(user.iter().map(|_| Some(has)).collect::<BooleanArray>())
                }
                _ => new_null_array(field.data_type(), user.len()),
            }
        });
        let columns = columns.collect::<Vec<_>>();
        async move { Ok(columns) }
    });
    let scan = |table| LogicalPlanBuilder::scan(GIVEN, provider_as_source(table), None);
    let mut plan = scan(given)?;
    // The given passwords are those of another server.
    let all = schema.fields().iter().map(|field| match field.name().as_str() {
        "rolpassword" => lit(ScalarValue::Utf8(None)).alias("rolpassword"),
        name => column(GIVEN, name),
    });
    plan = plan.project(all.collect::<Vec<_>>())?.union(scan(user)?.build()?)?.alias(GIVEN)?;
    if logins {
        plan = plan.filter(column(GIVEN, "rolcanlogin"))?;
    }
    if !of.is_empty() {
        let columns = of.iter().map(|(name, from)| {
            let of = match *from {
                HIDDEN => lit(HIDDEN),
                NOTHING => lit(ScalarValue::new_null_list(DataType::Utf8, true, 1)),
                from => column(GIVEN, from),
            };
            of.alias(*name)
        });
        plan = plan.project(columns.collect::<Vec<_>>())?;
    }
    view_of(plan)
}

/// The table with its missing columns.
fn completed(name: &str, table: Arc<dyn TableProvider>) -> Result<Arc<dyn TableProvider>> {
    let schema = table.schema();
    let (replaced, added): (Vec<_>, Vec<_>) = COLUMNS
        .iter()
        .filter(|(of, _, _)| *of == name)
        .partition(|(_, column, _)| schema.field_with_name(column).is_ok());
    if replaced.is_empty() && added.is_empty() {
        return Ok(table);
    }
    // Numbers of objects have a type of their own in the metadata.
    let given = schema.fields().iter().map(|field| {
        let other = replaced.iter().find(|(_, column, _)| column == field.name());
        match other {
            Some((_, _, content)) => {
                content.of(name).alias_with_metadata(field.name(), Some(FieldMetadata::from(field.as_ref())))
            }
            None => column(name, field.name()),
        }
    });
    let added = added.iter().map(|(_, column, content)| content.of(name).alias(*column));
    let columns = given.chain(added).collect::<Vec<_>>();
    view_of(LogicalPlanBuilder::scan(name, provider_as_source(table), None)?.project(columns)?)
}

#[async_trait]
impl SchemaProvider for PgCatalog {
    fn table_names(&self) -> Vec<String> {
        let own = EMPTY.iter().map(|(name, _)| *name).chain([ACTIVITY, "pg_shadow", "pg_user"]);
        self.given.table_names().into_iter().chain(own.map(str::to_owned)).collect()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        let name = name.to_ascii_lowercase();
        if let Some(fields) = columns_of(&EMPTY, &name) {
            let none = MemTable::try_new(Arc::new(Schema::new(fields)), vec![Vec::new()])?;
            return Ok(Some(Arc::new(none)));
        }
        if let Some((_, columns)) = ROLES.iter().find(|(table, _)| *table == name) {
            let Some(given) = self.given.table("pg_authid").await? else { return Ok(None) };
            return roles(columns, *columns == LOGINS, given).map(Some);
        }
        match name.as_str() {
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
                Some(given) => without_views(given, &self.visible).map(Some),
                None => Ok(None),
            },
            VIEWS => Ok(Some(views(&self.visible))),
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
        is_own_table(&name) || self.given.table_exist(&name)
    }
}
