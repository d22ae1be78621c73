//! Lists the files of a table.
//!
//! The store is asked each time, so that new and replaced files are seen. If filters determine the first keys
//! of all rows, the folders of these keys are listed level by level, and only those of the wanted values are
//! entered. Objects without bytes, such as folder markers of object stores, are ignored. Folders of this
//! machine are listed by [`super::local_listing`].

use std::sync::Arc;

use datafusion::catalog::Session;
use datafusion::common::{Result, plan_err};
use datafusion::error::DataFusionError;
use datafusion::object_store::path::Path;
use datafusion::object_store::{self, ObjectMeta, ObjectStore, ObjectStoreExt};
use futures::TryStreamExt;

use super::keys::{Wanted, stated};
use super::local_listing;
use super::location::Location;
use crate::stores::is_plain_local;

/// A file of a table.
#[derive(Clone, Debug)]
pub(crate) struct Listed {
    pub(crate) meta: ObjectMeta,
    /// The keys and values that its folders state, from the table's folder on.
    pub(crate) keys: Vec<(String, String)>,
}

/// Returns the files at a location in the order of their paths, except those in folders of other values than
/// the `wanted` ones of the first keys. With `subfolders` it also visits folders that state no key.
pub(crate) async fn files_at(
    store: &Arc<dyn ObjectStore>,
    location: &Location,
    wanted: &[Wanted],
    subfolders: bool,
) -> Result<Vec<Listed>> {
    let mut files = if location.is_on_this_machine() && is_plain_local(store) {
        local_listing::files_at(location, wanted, subfolders).await?
    } else {
        objects_at(store.as_ref(), location, wanted, subfolders).await?
    };
    files.sort_unstable_by(|a, b| a.meta.location.cmp(&b.meta.location));
    Ok(files)
}

async fn objects_at(
    store: &dyn ObjectStore,
    location: &Location,
    wanted: &[Wanted],
    subfolders: bool,
) -> Result<Vec<Listed>> {
    let root = location.url().prefix();
    if location.may_be_file() {
        match store.head(root).await {
            Ok(meta) => return Ok(vec![Listed { meta, keys: Vec::new() }]),
            // It may still be a folder.
            Err(object_store::Error::NotFound { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let mut files = Vec::new();
    for folder in folders_with(store, location, wanted, subfolders).await? {
        let listed = store.list(not_empty(&folder)).try_filter_map(|meta| {
            let found = found(location, meta, subfolders);
            async move { Ok(found) }
        });
        files.extend(listed.try_collect::<Vec<Listed>>().await.map_err(DataFusionError::from)?);
    }
    Ok(files)
}

/// Returns the folders below which all files with the wanted values are. Each level costs a request per
/// folder.
async fn folders_with(
    store: &dyn ObjectStore,
    location: &Location,
    wanted: &[Wanted],
    subfolders: bool,
) -> Result<Vec<Path>> {
    let (mut folders, mut whole) = (vec![location.url().prefix().clone()], Vec::new());
    for value in wanted {
        let mut next = Vec::new();
        for folder in &folders {
            for below in store.list_with_delimiter(not_empty(folder)).await?.common_prefixes {
                let name = below.filename().unwrap_or_default();
                if value.is_stated_by(name) {
                    next.push(below);
                } else if !name.contains('=') && location.enters_others(subfolders) {
                    // Its folders may state the keys.
                    whole.push(below);
                }
            }
        }
        folders = next;
    }
    folders.append(&mut whole);
    Ok(folders)
}

fn not_empty(prefix: &Path) -> Option<&Path> {
    Some(prefix).filter(|prefix| !prefix.as_ref().is_empty())
}

/// Returns the object, if it is a file of the table.
fn found(location: &Location, meta: ObjectMeta, subfolders: bool) -> Option<Listed> {
    let parts = location.parts(&meta.location).filter(|_| meta.size > 0)?;
    if !location.has(&parts, subfolders) {
        return None;
    }
    let keys = keys_of(&parts);
    Some(Listed { meta, keys })
}

/// Returns the keys and values that the folders of a path state; its last part is the file's name.
pub(crate) fn keys_of(parts: &[&str]) -> Vec<(String, String)> {
    let folders = parts.split_last().map_or(&[][..], |(_, folders)| folders);
    folders.iter().filter_map(|name| stated(name)).collect()
}

/// Returns the location and its files at the creation of a table.
///
/// # Errors
/// If there are none, or the named file is empty.
pub(crate) async fn first_files(
    store: &Arc<dyn ObjectStore>,
    location: Location,
    subfolders: bool,
) -> Result<(Location, Vec<Listed>)> {
    let files = files_at(store, &location, &[], subfolders).await?;
    if let [only] = files.as_slice()
        && only.meta.size == 0
    {
        return plan_err!("{} is empty, which no Parquet file is", location.text());
    }
    if !files.is_empty() {
        return Ok((location, files));
    }
    if let Some(pattern) = location.as_pattern() {
        let files = files_at(store, &pattern, &[], subfolders).await?;
        if !files.is_empty() {
            return Ok((pattern, files));
        }
    }
    Ok((location, files))
}

/// Returns the files of a table at a path or URL, as `CREATE EXTERNAL TABLE` finds them.
///
/// # Errors
/// If it is no path, pattern or URL, or its store fails.
pub async fn table_files(state: &dyn Session, location: &str) -> Result<Vec<ObjectMeta>> {
    let location = Location::parse(location)?;
    let store = state.runtime_env().object_store(location.url())?;
    let subfolders = !state.config_options().execution.listing_table_ignore_subdirectory;
    let (_, files) = first_files(&store, location, subfolders).await?;
    Ok(files.into_iter().map(|file| file.meta).collect())
}

/// Returns the names of the keys that all these files have.
///
/// # Errors
/// If files have different keys.
pub(crate) fn common_keys(files: &[Listed]) -> Result<Vec<String>> {
    let names = |file: &Listed| file.keys.iter().map(|(key, _)| key.clone()).collect::<Vec<_>>();
    let Some((first, others)) = files.split_first() else { return Ok(Vec::new()) };
    let of_first = names(first);
    if let Some(other) = others.iter().find(|other| names(other) != of_first) {
        return plan_err!(
            "files of a table must be in folders of the same keys: {} has the keys {of_first:?}, {} has {:?}",
            first.meta.location,
            other.meta.location,
            names(other)
        );
    }
    if let Some(twice) = of_first.iter().enumerate().find(|(at, key)| of_first[..*at].contains(key)) {
        return plan_err!("{} has two folders of the key {}", first.meta.location, twice.1);
    }
    Ok(of_first)
}
