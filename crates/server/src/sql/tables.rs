//! The tables of a server: opened once, visible to every session, changed while the server runs.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use coscan_datafusion::{CoscanContext, in_any_case};
use datafusion::catalog::TableProvider;
use datafusion::common::TableReference;
use datafusion::logical_expr::LogicalPlan;

use crate::config::ServeConfig;
use crate::error::ServeError;

/// The tables by name.
#[derive(Default)]
pub struct Tables {
    known: RwLock<BTreeMap<String, Table>>,
    /// The locations of tables of other catalogs that were opened, by name.
    others: Mutex<BTreeMap<String, String>>,
    /// Counts changes at their beginning.
    changes: AtomicU64,
    /// Held during checks for changes. A timer, a signal and a reload may start them at the same time, and tables
    /// are opened under one name.
    looking: tokio::sync::Mutex<()>,
    any_case: bool,
}

#[derive(Clone)]
struct Table {
    provider: Arc<dyn TableProvider>,
    /// The location in the configuration or in a watched folder. `None` for tables made by SQL.
    location: Option<String>,
    /// The clustering declared in the configuration.
    clustered_with: Option<String>,
}

impl fmt::Debug for Tables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.names()).finish()
    }
}

/// The reason why a table keeps its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotRenamed {
    /// There is no such table.
    Missing,
    /// Its name is in the configuration.
    Configured,
    /// Another table has the new name.
    Taken,
}

/// The sources of tables.
#[derive(Clone, Debug)]
pub(crate) struct Sources {
    /// Names and locations of tables.
    pub(crate) tables: BTreeMap<String, String>,
    /// Folders that contain tables.
    pub(crate) watch: Vec<PathBuf>,
    /// Declared clustering, by name.
    pub(crate) clustered_with: BTreeMap<String, String>,
}

impl Sources {
    pub(crate) fn of(config: &ServeConfig) -> Self {
        Sources {
            tables: config.tables.clone(),
            watch: config.watch.clone(),
            clustered_with: config.clustered_with.clone(),
        }
    }
}

/// The changes found by a check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TablesChange {
    /// Tables that are new or have another location.
    pub opened: Vec<String>,
    /// Tables that are gone.
    pub closed: Vec<String>,
}

impl Tables {
    /// No tables yet. A name that no table has is found in another case, if only one fits.
    pub(crate) fn in_any_case() -> Self {
        Tables { any_case: true, ..Tables::default() }
    }

    /// The names, in order.
    pub fn names(&self) -> Vec<String> {
        self.read().keys().cloned().collect()
    }

    /// Names and locations of tables, in the order of names. `None` for tables made by SQL.
    pub fn locations(&self) -> Vec<(String, Option<String>)> {
        self.read().iter().map(|(name, table)| (name.clone(), table.location.clone())).collect()
    }

    /// The table of this name.
    pub fn get(&self, name: &str) -> Option<Arc<dyn TableProvider>> {
        let known = self.read();
        let name = match self.any_case {
            true => in_any_case(name, known.keys().map(String::as_str))?,
            false => name,
        };
        known.get(name).map(|table| table.provider.clone())
    }

    /// The plan of a view. `None` for other tables.
    pub(crate) fn view(&self, name: &str) -> Option<LogicalPlan> {
        let view = self.get(name)?;
        view.get_logical_plan().map(std::borrow::Cow::into_owned)
    }

    /// The text with names of tables in place of their paths and addresses, for users who may not see these.
    pub(crate) fn without_paths(&self, text: &str) -> String {
        let own = self.locations().into_iter().filter_map(|(name, location)| Some((name, location?)));
        let others = self.others.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let forms = |(name, location): (String, String)| {
            forms_of(&location).into_iter().map(move |path| (path, name.clone()))
        };
        let mut paths: Vec<(String, String)> = own.chain(others).flat_map(forms).collect();
        // A path may begin with that of another table.
        paths.sort_by_key(|(path, _)| std::cmp::Reverse(path.len()));
        paths.iter().fold(text.to_owned(), |text, (path, name)| match text.contains(path.as_str()) {
            true => text.replace(path.as_str(), &format!("<{name}>")),
            false => text,
        })
    }

    /// Notes the location of a table of another catalog.
    pub(crate) fn note(&self, name: &str, table: &dyn TableProvider) {
        let location = table.get_table_definition().and_then(|text| text.split_once("LOCATION '"));
        if let Some((_, location)) = location {
            let mut others = self.others.lock().unwrap_or_else(PoisonError::into_inner);
            others.insert(name.to_owned(), location.trim_end_matches('\'').to_owned());
        }
    }

    /// Number of times that tables may have changed. The meaning of a name holds while this number stays the same.
    pub(crate) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    pub(crate) fn insert(
        &self,
        name: String,
        provider: Arc<dyn TableProvider>,
    ) -> Option<Arc<dyn TableProvider>> {
        let table = Table { provider, location: None, clustered_with: None };
        self.write().insert(name, table).map(|old| old.provider)
    }

    pub(crate) fn remove(&self, name: &str) -> Option<Arc<dyn TableProvider>> {
        self.write().remove(name).map(|old| old.provider)
    }

    /// Gives a view or another table made by SQL another name.
    pub(crate) fn rename(&self, from: &str, to: &str) -> Result<(), NotRenamed> {
        let mut known = self.write();
        let table = known.get(from).ok_or(NotRenamed::Missing)?;
        if table.location.is_some() {
            return Err(NotRenamed::Configured);
        }
        if known.contains_key(to) {
            return Err(NotRenamed::Taken);
        }
        if let Some(table) = known.remove(from) {
            known.insert(to.to_owned(), table);
        }
        Ok(())
    }

    /// Opens the tables of the configuration and of watched folders, and closes those that are gone. A table that
    /// cannot be opened is an error in the first check (`strict`). Later it is only logged, and the earlier table
    /// stays.
    pub(crate) async fn look(
        &self,
        sources: &Sources,
        coscan: &CoscanContext,
        strict: bool,
    ) -> Result<TablesChange, ServeError> {
        let _looking = self.looking.lock().await;
        let mut wanted = BTreeMap::new();
        for folder in &sources.watch {
            match in_folder(folder) {
                Ok(found) => wanted.extend(found),
                Err(error) if strict => return Err(ServeError::file("the watched folder", folder, error)),
                Err(error) => {
                    tracing::warn!(folder = %folder.display(), %error, "a watched folder cannot be read");
                    return Ok(TablesChange::default());
                }
            }
        }
        wanted.extend(sources.tables.clone());
        let declared = |name: &String| sources.clustered_with.get(name).cloned();
        if strict && let Some(name) = sources.clustered_with.keys().find(|name| !wanted.contains_key(*name)) {
            let problem = format!("there is no table {name}: give its place with table or watch");
            return Err(ServeError::setting("clustered-with", problem));
        }
        let mut change = TablesChange::default();
        for (name, location) in &wanted {
            let clustered_with = declared(name);
            let is_it = |table: &Table| {
                table.location.as_ref() == Some(location) && table.clustered_with == clustered_with
            };
            if self.read().get(name).is_some_and(is_it) {
                continue;
            }
            match open(coscan, name, location, clustered_with.as_deref()).await {
                Ok(provider) => {
                    let table = Table { provider, location: Some(location.clone()), clustered_with };
                    self.write().insert(name.clone(), table);
                    change.opened.push(name.clone());
                }
                Err(problem) if strict => {
                    return Err(ServeError::Table {
                        name: name.clone(),
                        location: location.clone(),
                        problem,
                    });
                }
                Err(problem) => tracing::warn!(table = name, location, problem, "a table cannot be opened"),
            }
        }
        let mut known = self.write();
        known.retain(|name, table| {
            let stays = table.location.is_none() || wanted.contains_key(name);
            if !stays {
                change.closed.push(name.clone());
            }
            stays
        });
        Ok(change)
    }

    fn read(&self) -> RwLockReadGuard<'_, BTreeMap<String, Table>> {
        self.known.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, BTreeMap<String, Table>> {
        let known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        // The count changes before the tables: a session that reads the new count and then a table waits for the
        // lock.
        self.changes.fetch_add(1, Ordering::Release);
        known
    }
}

/// The forms in which plans and errors show a location: as it was given, as an absolute path, and as the path in its store.
fn forms_of(location: &str) -> Vec<String> {
    let place = match location.split_once("://") {
        Some((_, rest)) => rest.split_once('/').map_or(String::new(), |(_, path)| path.to_owned()),
        None => std::fs::canonicalize(location)
            .map_or_else(|_| location.to_owned(), |path| path.display().to_string()),
    };
    // A pattern shows in the folder before its first wildcard.
    let fixed = |path: &str| path.split(['*', '?', '[']).next().unwrap_or_default().to_owned();
    let in_store = place.trim_start_matches('/').to_owned();
    let forms = [location.to_owned(), fixed(location), fixed(&place), fixed(&in_store)];
    forms
        .into_iter()
        .map(|form| form.trim_end_matches('/').to_owned())
        .filter(|form| form.len() > 2)
        .collect()
}

/// Opens a file, folder, pattern or URL under the table's name, which declarations of other tables use.
async fn open(
    coscan: &CoscanContext,
    name: &str,
    location: &str,
    clustered_with: Option<&str>,
) -> Result<Arc<dyn TableProvider>, String> {
    let told = |error: datafusion::common::DataFusionError| {
        error.strip_backtrace().split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let _ = coscan.ctx.deregister_table(TableReference::bare(name));
    let options: Vec<_> =
        clustered_with.map(|declared| ("coscan.clustered_with", declared)).into_iter().collect();
    coscan.register_parquet_with(name, location, &options).await.map_err(told)?;
    let table = coscan.ctx.deregister_table(TableReference::bare(name)).map_err(told)?;
    table.ok_or_else(|| "it was not opened".to_owned())
}

/// The tables of a watched folder, by name: Parquet files, and subfolders with Parquet files. Names that begin with
/// a dot or an underscore are ignored, because they are still being written.
fn in_folder(folder: &Path) -> std::io::Result<BTreeMap<String, String>> {
    let mut found = BTreeMap::new();
    let mut paths: Vec<PathBuf> =
        std::fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<std::io::Result<_>>()?;
    // Of several paths with one name, the same one is always used.
    paths.sort();
    for path in paths {
        let Some(file_name) = path.file_name().and_then(|name| name.to_str()) else { continue };
        if file_name.starts_with(['.', '_']) {
            continue;
        }
        let is_table = if path.is_dir() { holds_parquet(&path, 4) } else { is_parquet(&path) };
        let name: String = path
            .file_stem()
            .and_then(|stem| stem.to_str())
            .unwrap_or_default()
            .chars()
            .map(|c| if c.is_alphanumeric() { c.to_ascii_lowercase() } else { '_' })
            .collect();
        if let Some(location) = path.to_str()
            && is_table
            && !name.is_empty()
        {
            match found.entry(name) {
                Entry::Vacant(free) => drop(free.insert(location.to_owned())),
                Entry::Occupied(taken) => tracing::warn!(
                    table = taken.key(),
                    shown = taken.get(),
                    left_out = location,
                    "two tables of a watched folder have the same name: rename one"
                ),
            }
        }
    }
    Ok(found)
}

fn holds_parquet(folder: &Path, levels: usize) -> bool {
    let Ok(entries) = std::fs::read_dir(folder) else { return false };
    let paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.iter().any(|path| is_parquet(path))
        || (levels > 0 && paths.iter().any(|path| path.is_dir() && holds_parquet(path, levels - 1)))
}

fn is_parquet(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "parquet") && path.is_file()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_a_location_is_known() {
        let forms = forms_of("s3://bucket/some/table/");
        assert!(
            forms.contains(&"s3://bucket/some/table".to_owned()) && forms.contains(&"some/table".to_owned())
        );
        let forms = forms_of("/data/year=*/x.parquet");
        assert!(forms.contains(&"/data/year=".to_owned()) && forms.contains(&"data/year=".to_owned()));
        assert!(forms_of("/").is_empty());
    }

    #[test]
    fn a_folder_holds_a_table_per_subfolder_and_file() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir_all(at("Line-Item/year=2024")).unwrap();
        std::fs::create_dir_all(at("empty")).unwrap();
        std::fs::create_dir_all(at("_writing")).unwrap();
        for file in [
            "Line-Item/year=2024/a.parquet",
            "trips.parquet",
            ".hidden.parquet",
            "notes.txt",
            "_writing/a.parquet",
        ] {
            std::fs::write(at(file), "").unwrap();
        }
        let names: Vec<_> = in_folder(folder.path()).unwrap().into_keys().collect();
        assert_eq!(names, ["line_item", "trips"]);
        std::fs::write(at("line_item.parquet"), "").unwrap();
        assert!(in_folder(folder.path()).unwrap()["line_item"].ends_with("Line-Item"), "the first in order");
        assert!(in_folder(&at("nowhere")).is_err());
    }
}
