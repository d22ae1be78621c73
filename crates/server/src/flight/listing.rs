//! Catalogs, schemas and tables that a user sees, and the server's capabilities.

use std::sync::LazyLock;

use arrow_flight::sql::metadata::{SqlInfoData, SqlInfoDataBuilder};
use arrow_flight::sql::{
    CommandGetCatalogs, CommandGetDbSchemas, CommandGetSqlInfo, CommandGetTableTypes, CommandGetTables,
    SqlInfo,
};
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::Schema;
use datafusion::datasource::TableType;
use tonic::Status;

use super::stream::told;
use crate::sql::Session;

static SQL_INFO: LazyLock<Option<SqlInfoData>> = LazyLock::new(|| {
    let mut info = SqlInfoDataBuilder::new();
    info.append(SqlInfo::FlightSqlServerName, "coscan");
    info.append(SqlInfo::FlightSqlServerVersion, env!("CARGO_PKG_VERSION"));
    info.append(SqlInfo::FlightSqlServerArrowVersion, "1.3");
    info.append(SqlInfo::FlightSqlServerReadOnly, true);
    info.append(SqlInfo::FlightSqlServerSql, true);
    info.append(SqlInfo::FlightSqlServerSubstrait, false);
    info.append(SqlInfo::FlightSqlServerTransaction, 0_i32);
    info.append(SqlInfo::FlightSqlServerCancel, true);
    info.append(SqlInfo::SqlIdentifierQuoteChar, "\"");
    info.append(SqlInfo::SqlDdlCatalog, false);
    info.append(SqlInfo::SqlDdlSchema, false);
    info.append(SqlInfo::SqlDdlTable, false);
    info.append(SqlInfo::SqlAllTablesAreSelectable, true);
    info.build().ok()
});

fn internal(error: impl ToString) -> Status {
    Status::internal(error.to_string())
}

/// The requested information about this server.
pub(crate) fn sql_info(query: CommandGetSqlInfo) -> Result<RecordBatch, Status> {
    let info = SQL_INFO.as_ref().ok_or_else(|| Status::internal("there is no information"))?;
    query.into_builder(info).build().map_err(internal)
}

/// Catalogs: the only database.
pub(crate) fn catalogs(query: CommandGetCatalogs, session: &Session) -> Result<RecordBatch, Status> {
    let mut builder = query.into_builder();
    session.context().catalog_names().into_iter().for_each(|name| builder.append(name));
    builder.build().map_err(internal)
}

/// Schemas.
pub(crate) fn schemas(query: CommandGetDbSchemas, session: &Session) -> Result<RecordBatch, Status> {
    let mut builder = query.into_builder();
    for (catalog, schema) in names(session) {
        builder.append(catalog, schema);
    }
    builder.build().map_err(internal)
}

/// Tables, with their columns if those were asked for.
pub(crate) async fn tables(query: CommandGetTables, session: &Session) -> Result<RecordBatch, Status> {
    let with_columns = query.include_schema;
    let mut builder = query.into_builder();
    for (catalog, schema) in names(session) {
        let of = session.context().catalog(&catalog).and_then(|catalog| catalog.schema(&schema));
        let listed = !matches!(schema.as_str(), "pg_catalog" | "information_schema");
        let Some(of) = of.filter(|_| listed) else { continue };
        for name in of.table_names() {
            // A table that cannot be opened does not hide the others.
            let Ok(Some(table)) = of.table(&name).await else { continue };
            let kind = if table.table_type() == TableType::View { "VIEW" } else { "TABLE" };
            let columns = if with_columns { told(&table.schema()).as_ref().clone() } else { Schema::empty() };
            builder.append(&catalog, &schema, &name, kind, &columns).map_err(internal)?;
        }
    }
    builder.build().map_err(internal)
}

/// Kinds of tables.
pub(crate) fn table_types(query: CommandGetTableTypes) -> Result<RecordBatch, Status> {
    let mut builder = query.into_builder();
    ["TABLE", "VIEW"].into_iter().for_each(|kind| builder.append(kind));
    builder.build().map_err(internal)
}

fn names(session: &Session) -> Vec<(String, String)> {
    let context = session.context();
    let of = |name: String| {
        let schemas = context.catalog(&name).map(|catalog| catalog.schema_names()).unwrap_or_default();
        schemas.into_iter().map(move |schema| (name.clone(), schema))
    };
    context.catalog_names().into_iter().flat_map(of).collect()
}
