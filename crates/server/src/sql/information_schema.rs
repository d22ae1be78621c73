//! `information_schema` of a database, with PostgreSQL's columns and names of types.
//!
//! The query engine's schema of this name has other columns. Of its tables, those about settings and functions are
//! kept, and its `views` as [`DEFINITIONS`], which SHOW CREATE TABLE reads.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::array::{ArrayRef, Int32Array, StringArray, new_null_array};
use datafusion::arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::catalog::{MemTable, SchemaProvider, TableProvider};
use datafusion::common::Result;
use datafusion::datasource::TableType;

use super::columns::Described;
use super::computed::Computed;
use super::definitions::{INFORMATION_SCHEMA as EMPTY, WITH_ROWS, columns_of};
use super::pg_catalog::is_view;
use super::visible::{DEFINITIONS, INFORMATION_SCHEMA, OWNER, PG_CATALOG, PUBLIC, Relation, Visible};

/// The query engine's tables that are kept.
const KEPT: [&str; 4] = ["df_settings", "parameters", "routines", DEFINITIONS];

/// The schema of one database, as a role sees it.
#[derive(Debug)]
pub(super) struct InformationSchema {
    visible: Visible,
    database: String,
    /// The names of the tables of `pg_catalog`.
    catalog: Vec<String>,
    /// The query engine's schema.
    given: Arc<dyn SchemaProvider>,
}

impl InformationSchema {
    pub(super) fn new(
        visible: Visible,
        database: &str,
        catalog: Vec<String>,
        given: Arc<dyn SchemaProvider>,
    ) -> Self {
        InformationSchema { visible, database: database.to_owned(), catalog, given }
    }

    /// The relations of the schemas that are in every database.
    fn fixed(&self) -> Vec<Relation> {
        let own = SchemaProvider::table_names(self).into_iter();
        let own = own.map(|name| (INFORMATION_SCHEMA.to_owned(), name, TableType::View));
        let of_catalog = self.catalog.iter().map(|name| {
            let of = if is_view(name) { TableType::View } else { TableType::Base };
            (PG_CATALOG.to_owned(), name.clone(), of)
        });
        own.chain(of_catalog).collect()
    }
}

/// The columns of a table. `of` is the text of a row in a column. Columns of other types are NULL.
fn texts<R>(schema: &Schema, rows: &[R], of: impl Fn(&R, &str) -> Option<String>) -> Vec<ArrayRef> {
    let column = |field: &Arc<Field>| -> ArrayRef {
        match field.data_type().is_string() {
            true => Arc::new(rows.iter().map(|row| of(row, field.name())).collect::<StringArray>()),
            false => new_null_array(field.data_type(), rows.len()),
        }
    };
    schema.fields().iter().map(column).collect()
}

/// A column of a table.
struct Row<'a> {
    schema: &'a str,
    table: &'a str,
    position: usize,
    field: &'a Field,
    of: Described,
}

fn columns(schema: &Schema, database: &str, tables: &[(String, String, SchemaRef)]) -> Vec<ArrayRef> {
    let mut rows = Vec::new();
    for (schema, table, columns) in tables {
        for (at, field) in columns.fields().iter().enumerate() {
            rows.push(Row { schema, table, position: at + 1, field, of: Described::of(field) });
        }
    }
    let mut found = texts(schema, &rows, |row, column| {
        let text: &str = match column {
            "table_catalog" | "udt_catalog" => database,
            "table_schema" => row.schema,
            "table_name" => row.table,
            "column_name" => row.field.name(),
            "is_nullable" if row.field.is_nullable() => "YES",
            "data_type" => &row.of.name,
            "udt_schema" => PG_CATALOG,
            "udt_name" => &row.of.short,
            "dtd_identifier" => return Some(row.position.to_string()),
            "is_generated" => "NEVER",
            "is_nullable" | "is_self_referencing" | "is_identity" | "identity_cycle" | "is_updatable" => "NO",
            _ => return None,
        };
        Some(text.to_owned())
    });
    for (column, field) in found.iter_mut().zip(schema.fields()) {
        let number = |row: &Row| match field.name().as_str() {
            "ordinal_position" => i32::try_from(row.position).ok(),
            "character_octet_length" => row.of.octets,
            "numeric_precision" => row.of.precision,
            "numeric_precision_radix" => row.of.radix,
            "numeric_scale" => row.of.scale,
            "datetime_precision" => row.of.of_seconds,
            _ => None,
        };
        if field.data_type().is_integer() {
            *column = Arc::new(rows.iter().map(number).collect::<Int32Array>());
        }
    }
    found
}

fn tables(schema: &Schema, database: &str, of: &[Relation]) -> Vec<ArrayRef> {
    texts(schema, of, |(schema, name, of), column| {
        let text: &str = match column {
            "table_catalog" => database,
            "table_schema" => schema,
            "table_name" => name,
            "table_type" => match of {
                TableType::View => "VIEW",
                TableType::Base => "BASE TABLE",
                TableType::Temporary => "LOCAL TEMPORARY",
            },
            "is_insertable_into" | "is_typed" => "NO",
            _ => return None,
        };
        Some(text.to_owned())
    })
}

/// The views with their definitions, which only administrators see: they may name tables that others do not see.
fn views(schema: &Schema, database: &str, of: &[(String, Option<String>)]) -> Vec<ArrayRef> {
    texts(schema, of, |(name, definition), column| {
        let text: &str = match column {
            "table_catalog" => database,
            "table_schema" => PUBLIC,
            "table_name" => name,
            "view_definition" => return definition.clone(),
            "check_option" => "NONE",
            column if column.starts_with("is_") => "NO",
            _ => return None,
        };
        Some(text.to_owned())
    })
}

#[async_trait]
impl SchemaProvider for InformationSchema {
    fn table_names(&self) -> Vec<String> {
        let own = WITH_ROWS.iter().chain(&EMPTY).map(|(name, _)| *name);
        own.chain(KEPT).map(str::to_owned).collect()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        let name = name.to_ascii_lowercase();
        if let Some(fields) = columns_of(&EMPTY, &name) {
            let none = MemTable::try_new(Arc::new(Schema::new(fields)), vec![Vec::new()])?;
            return Ok(Some(Arc::new(none)));
        }
        let Some(fields) = columns_of(&WITH_ROWS, &name) else {
            return match name.as_str() {
                DEFINITIONS => self.given.table("views").await,
                _ if KEPT.contains(&name.as_str()) => self.given.table(&name).await,
                _ => Ok(None),
            };
        };
        let (visible, database) = (self.visible.clone(), self.database.clone());
        Ok(Some(match name.as_str() {
            "columns" => Computed::table(fields, move |schema, _| {
                let (visible, database) = (visible.clone(), database.clone());
                async move { Ok(columns(&schema, &database, &visible.columns().await)) }
            }),
            "tables" => {
                let fixed = self.fixed();
                Computed::table(fields, move |schema, _| {
                    let (visible, database, fixed) = (visible.clone(), database.clone(), fixed.clone());
                    async move {
                        let mut of = visible.relations().await;
                        of.extend(fixed);
                        Ok(tables(&schema, &database, &of))
                    }
                })
            }
            "views" => Computed::table(fields, move |schema, viewer| {
                let found = visible.views(viewer.is_some_and(|viewer| viewer.admin));
                let columns = views(&schema, &database, &found);
                async move { Ok(columns) }
            }),
            "schemata" => Computed::table(fields, move |schema, _| {
                let columns = texts(&schema, &visible.schemas(), |name: &String, column| match column {
                    "catalog_name" => Some(database.clone()),
                    "schema_name" => Some(name.clone()),
                    "schema_owner" => Some(OWNER.to_owned()),
                    _ => None,
                });
                async move { Ok(columns) }
            }),
            "enabled_roles" => Computed::table(fields, move |schema, viewer| {
                let columns = texts(&schema, &Vec::from_iter(viewer), |viewer, _| Some(viewer.user.clone()));
                async move { Ok(columns) }
            }),
            // The database, or its one encoding.
            _ => Computed::table(fields, move |schema, _| {
                let columns = texts(&schema, &[()], |_, column| {
                    let text: &str = match column {
                        "catalog_name" | "default_collate_catalog" => &database,
                        "character_set_name" | "form_of_use" => "UTF8",
                        "character_repertoire" => "UCS",
                        _ => return None,
                    };
                    Some(text.to_owned())
                });
                async move { Ok(columns) }
            }),
        }))
    }

    fn table_exist(&self, name: &str) -> bool {
        let name = name.to_ascii_lowercase();
        KEPT.contains(&name.as_str()) || WITH_ROWS.iter().chain(&EMPTY).any(|(own, _)| *own == name)
    }
}
