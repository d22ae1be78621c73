//! The tables that a user sees, with their columns, rows and bytes.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::{Extension, Json};
use coscan_datafusion::scanned_files;
use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::catalog::TableProvider;
use datafusion::common::Result;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use serde::Serialize;

use super::Http;
use crate::access::User;
use crate::sql::{shown, type_shown};

/// Rows and bytes that are not known after this time are left out, as from a slow store.
const PATIENCE: Duration = Duration::from_secs(5);

/// A table.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct TableAbout {
    pub(crate) name: String,
    pub(crate) columns: Vec<ColumnAbout>,
    rows: Option<usize>,
    /// Bytes of its files.
    pub(crate) bytes: Option<u64>,
    files: Option<usize>,
}

/// A column.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ColumnAbout {
    pub(crate) name: String,
    #[serde(rename = "type")]
    kind: String,
    #[serde(skip)]
    pub(crate) of: DataType,
}

/// The tables, in the order of their names.
pub(crate) async fn tables(
    State(http): State<Arc<Http>>,
    Extension(user): Extension<User>,
) -> Json<Vec<TableAbout>> {
    Json(of_user(&http, &user).await)
}

pub(super) async fn of_user(http: &Http, user: &User) -> Vec<TableAbout> {
    let tables = http.state.tables();
    let names = tables.names().into_iter().filter(|name| user.role.sees(name));
    let found = names.filter_map(|name| Some((tables.get(&name)?, name)));
    futures::future::join_all(found.map(|(table, name)| about(http, name, table))).await
}

async fn about(http: &Http, name: String, table: Arc<dyn TableProvider>) -> TableAbout {
    let column = |field: &Arc<Field>| ColumnAbout {
        name: shown(field.name()).to_string(),
        kind: type_shown(field),
        of: field.data_type().clone(),
    };
    let columns = table.schema().fields().iter().map(column).collect();
    let size = tokio::time::timeout(PATIENCE, size(http, table.as_ref())).await;
    let size = size.ok().and_then(Result::ok).unwrap_or_default();
    TableAbout { name, columns, rows: size.rows, bytes: size.bytes, files: size.files }
}

#[derive(Default)]
struct Size {
    rows: Option<usize>,
    bytes: Option<u64>,
    files: Option<usize>,
}

/// The size by a plan that reads the table, which is not run.
async fn size(http: &Http, table: &dyn TableProvider) -> Result<Size> {
    let state = http.state.session_context().state();
    let plan = table.scan(&state, Some(&vec![]), &[], None).await?;
    let known = StatisticsContext::new().compute(plan.as_ref(), &StatisticsArgs::new())?;
    let rows = known.num_rows.get_value().copied();
    let files = files(&plan);
    let bytes = files.as_ref().map(|files| files.iter().sum());
    Ok(Size { rows, bytes, files: files.map(|files| files.len()) })
}

/// The bytes of each file of a scan. `None` if the plan is no scan of files.
fn files(plan: &Arc<dyn ExecutionPlan>) -> Option<Vec<u64>> {
    let config = scanned_files(plan)?;
    Some(config.file_groups.iter().flat_map(|group| group.iter()).map(|file| file.object_meta.size).collect())
}
