//! Tables of lake formats: folders in which a log says which files are the table.
//!
//! Such a folder also has files that were removed from the table, so it is never read as a folder of files.
//! The formats themselves are factories of the session, such as those of `coscan-lake`.

use std::pin::pin;
use std::sync::Arc;

use datafusion::catalog::{Session, TableProvider};
use datafusion::common::{DFSchema, Result, plan_err};
use datafusion::datasource::listing::ListingTableUrl;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::CreateExternalTable;
use datafusion::object_store::ObjectStore;
use futures::{StreamExt, TryStreamExt, future};

use super::location::Location;

/// A format.
#[derive(Clone, Copy, Debug)]
struct LakeFormat {
    /// Its name for people.
    name: &'static str,
    /// The beginning of a location that names it.
    prefix: &'static str,
    /// The folder of the log in a table, and the end of the name of a file in it. `None` if there is no log.
    log: Option<(&'static str, &'static str)>,
    /// The session's factory of its tables.
    factory: &'static str,
}

const FORMATS: [LakeFormat; 3] = [
    LakeFormat { name: "Delta", prefix: "delta:", log: Some(("_delta_log", "")), factory: "DELTA" },
    LakeFormat {
        name: "Iceberg",
        prefix: "iceberg:",
        log: Some(("metadata", ".metadata.json")),
        factory: "ICEBERG",
    },
    LakeFormat { name: "DuckLake", prefix: "ducklake:", log: None, factory: "DUCKLAKE" },
];

/// Returns the table of a command whose location is one of a lake format; `None` for other locations.
///
/// # Errors
/// If the session has no factory for the format, or the factory makes no table.
pub(crate) async fn lake_table(
    state: &dyn Session,
    command: &CreateExternalTable,
) -> Result<Option<Arc<dyn TableProvider>>> {
    let [text] = &command.locations[..] else { return Ok(None) };
    let named = FORMATS.iter().find_map(|format| Some((*format, text.strip_prefix(format.prefix)?)));
    let (format, location) = match named {
        Some((format, location)) => (format, location.to_owned()),
        None => match found(state, text).await? {
            Some(found) => found,
            None => match found_version(state, text).await? {
                Some(found) => found,
                None => return Ok(None),
            },
        },
    };
    let own = state.as_any().downcast_ref::<SessionState>();
    let Some(factory) = own.and_then(|state| state.table_factories().get(format.factory)) else {
        return plan_err!(
            "{text} is a {} table, and this session has no reader of them: add one with coscan_lake::install. \
             The files of the folder alone would include removed ones; {text}/*.parquet reads them all",
            format.name
        );
    };
    let command = CreateExternalTable {
        locations: vec![location],
        file_type: format.factory.to_owned(),
        ..command.clone()
    };
    factory.create(state, &command).await.map(Some)
}

/// Returns the table at a location, as [`lake_table`] does.
pub(crate) async fn lake_table_at(
    state: &SessionState,
    text: &str,
) -> Result<Option<Arc<dyn TableProvider>>> {
    let schema = Arc::new(DFSchema::empty());
    let command = CreateExternalTable::builder(text, text, super::factory::PARQUET, schema).build();
    lake_table(state, &command).await
}

/// Returns the URL of a folder on this machine or in a store, for a location that SQL names.
///
/// # Errors
/// If it is no URL, or a pattern of names.
pub fn folder_url(text: &str) -> Result<ListingTableUrl> {
    let location = Location::parse(text)?;
    if location.is_pattern() {
        return plan_err!("{text} is a pattern of names, not a folder");
    }
    let url = location.url();
    if url.is_collection() { Ok(url.clone()) } else { ListingTableUrl::parse(format!("{url}/")) }
}

/// Looks for a folder with a log at a location that ends in a version (`@v7`) or in `@history`.
async fn found_version(state: &dyn Session, text: &str) -> Result<Option<(LakeFormat, String)>> {
    let Some((folder, version)) = text.rsplit_once('@') else { return Ok(None) };
    let number = version.strip_prefix('v').unwrap_or_default();
    let is_number = !number.is_empty() && number.bytes().all(|digit| digit.is_ascii_digit());
    if !is_number && version != "history" {
        return Ok(None);
    }
    let found = found(state, folder).await?;
    Ok(found.map(|(format, folder)| (format, format!("{}@{version}", folder.trim_end_matches('/')))))
}

/// Looks for the log of a format in a folder. Returns the folder's URL.
async fn found(state: &dyn Session, text: &str) -> Result<Option<(LakeFormat, String)>> {
    let Ok(location) = Location::parse(text) else { return Ok(None) };
    // Servers that speak HTTP alone do not list.
    let lists = !location.url().scheme().starts_with("http");
    let is_file = location.may_be_file() && text.ends_with(".parquet");
    if location.is_pattern() || location.is_presigned() || is_file || !lists {
        return Ok(None);
    }
    let Ok(store) = state.runtime_env().object_store(location.url()) else { return Ok(None) };
    let logs = FORMATS.iter().map(|format| has_log(store.as_ref(), &location, format));
    let found = future::join_all(logs).await.into_iter().position(|has_log| has_log);
    Ok(found.map(|at| (FORMATS[at], location.url().as_str().to_owned())))
}

/// Returns whether the folder has a log. A store that cannot list has no folders.
async fn has_log(store: &dyn ObjectStore, location: &Location, format: &LakeFormat) -> bool {
    let Some((folder, end)) = format.log else { return false };
    let folder = location.url().prefix().clone().join(folder);
    let found = store.list(Some(&folder)).try_filter(|file| {
        let is_log = file.location.filename().is_some_and(|name| name.ends_with(end));
        future::ready(is_log)
    });
    matches!(pin!(found).next().await, Some(Ok(_)))
}
