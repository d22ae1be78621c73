//! The log of a Delta table, read by `delta_kernel`.
//!
//! The kernel waits for its I/O, so it runs on threads for blocking work. Its requests go through the session's
//! store, on one thread for all tables.

use std::fmt;
use std::pin::pin;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use async_trait::async_trait;
use datafusion::arrow::error::ArrowError;
use datafusion::common::{DataFusionError, Result, exec_err, internal_err, plan_err};
use datafusion::datasource::listing::{ListingTableUrl, PartitionedFile};
use datafusion::object_store::path::Path;
use datafusion::object_store::{Error, ObjectMeta, ObjectStore, ObjectStoreExt};
use delta_kernel::history_manager::{HistoryCommitType, latest_version_as_of};
use delta_kernel::scan::state::DvInfo;
use delta_kernel::{Engine, KernelError, SnapshotRef};
use delta_kernel_default_engine::DefaultEngineBuilder;
use delta_kernel_default_engine::executor::tokio::TokioBackgroundExecutor;
use futures::{StreamExt, TryStreamExt, future};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;
use url::Url;

use super::escapes::Unescaped;
use super::{columns, files};
use crate::deleted_rows::without_rows;
use crate::options::Wanted;
use crate::snapshot::{DataFile, Deletes, Snapshot};
use crate::source::{Change, Source};

/// The name of the format in `STORED AS`.
pub(crate) const FORMAT: &str = "DELTA";

/// Digits of the number of a commit in the name of its file.
const VERSION_DIGITS: usize = 20;

/// The end of a Parquet file.
const PARQUET: &[u8] = b"PAR1";

/// Commits that are read at the same time for the history.
const COMMITS_AT_ONCE: usize = 16;

/// The log of a table.
pub(super) struct DeltaLog {
    /// The location, as the user wrote it.
    name: String,
    root: Url,
    wanted: Wanted,
    engine: Arc<dyn Engine>,
    store: Arc<dyn ObjectStore>,
    /// The folder of the log in the store.
    folder: Path,
    /// The last snapshot, from which the next one is read.
    last: Mutex<Option<SnapshotRef>>,
}

impl fmt::Debug for DeltaLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeltaLog").field("root", &self.root.as_str()).finish_non_exhaustive()
    }
}

impl DeltaLog {
    /// The log of the table at a location of a store.
    pub(super) fn new(
        name: &str,
        url: &ListingTableUrl,
        store: Arc<dyn ObjectStore>,
        wanted: Wanted,
    ) -> Result<Self> {
        let root = Url::parse(url.as_str()).map_err(|error| DataFusionError::External(Box::new(error)))?;
        static REQUESTS: OnceLock<Arc<TokioBackgroundExecutor>> = OnceLock::new();
        let requests = REQUESTS.get_or_init(|| Arc::new(TokioBackgroundExecutor::new()));
        let engine = DefaultEngineBuilder::new(Arc::new(Unescaped(Arc::clone(&store))))
            .with_task_executor(Arc::clone(requests))
            .build();
        let folder = url.prefix().clone().join("_delta_log");
        let (name, engine, last) = (name.to_owned(), Arc::new(engine), Mutex::new(None));
        Ok(DeltaLog { name, root, wanted, engine, store, folder, last })
    }

    /// Runs blocking work of the kernel, and names the table in its errors.
    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, ReadError> + Send + 'static,
    ) -> Result<T> {
        let done = tokio::task::spawn_blocking(work).await;
        let done = done.map_err(|error| DataFusionError::External(Box::new(error)))?;
        done.map_err(|ReadError(error)| error.context(format!("the Delta table {}", self.name)))
    }

    /// Names the damaged file in an error of reading the log.
    async fn explained(&self, error: DataFusionError) -> DataFusionError {
        use KernelError::{Arrow, MalformedJson, Parquet};
        let may_be_damage = match error.find_root() {
            DataFusionError::External(cause) => {
                matches!(cause.downcast_ref::<KernelError>(), Some(Arrow(_) | MalformedJson(_) | Parquet(_)))
            }
            _ => false,
        };
        if !may_be_damage {
            return error;
        }
        match self.damaged().await {
            Ok(Some(file)) => error.context(format!(
                "the file {file} is damaged: restore it, or read a version that does not need it (delta.version)"
            )),
            _ => error,
        }
    }

    /// The first damaged file of the log.
    async fn damaged(&self) -> Result<Option<Path>> {
        let files: Vec<ObjectMeta> = self.store.list(Some(&self.folder)).try_collect().await?;
        let each = |file: ObjectMeta| async move {
            let is_damaged = match file.location.extension() {
                Some("json") => !is_json(&self.store.get(&file.location).await?.bytes().await?),
                Some("parquet") => {
                    let end = file.size.saturating_sub(PARQUET.len() as u64)..file.size;
                    file.size == 0 || self.store.get_range(&file.location, end).await?[..] != *PARQUET
                }
                _ => false,
            };
            Ok::<_, DataFusionError>(is_damaged.then_some(file.location))
        };
        let damaged = futures::stream::iter(files.into_iter().map(each)).buffered(COMMITS_AT_ONCE);
        let mut damaged = pin!(damaged.try_filter_map(|file| future::ready(Ok(file))));
        damaged.try_next().await
    }
}

/// Returns whether all lines are JSON.
fn is_json(lines: &[u8]) -> bool {
    let mut lines = lines.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty());
    lines.all(|line| serde_json::from_slice::<IgnoredAny>(line).is_ok())
}

/// An error while a log is read, of the kernel or of this crate.
pub(super) struct ReadError(DataFusionError);

impl From<KernelError> for ReadError {
    fn from(error: KernelError) -> Self {
        match error {
            KernelError::Backtraced { source, .. } => ReadError::from(*source),
            KernelError::FileNotFound(path) => {
                let source = "a writer may have removed it".into();
                ReadError(DataFusionError::ObjectStore(Box::new(Error::NotFound { path, source })))
            }
            error => ReadError(DataFusionError::External(Box::new(error))),
        }
    }
}

impl From<DataFusionError> for ReadError {
    fn from(error: DataFusionError) -> Self {
        ReadError(error)
    }
}

impl From<ArrowError> for ReadError {
    fn from(error: ArrowError) -> Self {
        ReadError(error.into())
    }
}

/// What a commit says about itself. Without a time it is that of its file.
fn change(version: i64, commit: &[u8], modified: i64) -> Change {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Action {
        commit_info: Option<serde_json::Map<String, Value>>,
    }
    let actions = commit.split(|byte| *byte == b'\n');
    let mut info = actions.filter_map(|line| serde_json::from_slice::<Action>(line).ok()?.commit_info);
    let mut info = info.next().unwrap_or_default();
    let written = info.remove("inCommitTimestamp").or(info.get("timestamp").cloned());
    info.remove("timestamp");
    let operation = info.remove("operation").and_then(|text| text.as_str().map(str::to_owned));
    let details = (!info.is_empty()).then(|| Value::Object(info).to_string());
    Change { version, at: written.and_then(|at| at.as_i64()).or(Some(modified)), operation, details }
}

/// Finds the wanted version.
fn find(
    engine: &dyn Engine,
    root: &Url,
    wanted: Wanted,
    last: Option<SnapshotRef>,
) -> Result<SnapshotRef, ReadError> {
    let newest = || delta_kernel::Snapshot::builder_for(root.as_str());
    match (wanted, last) {
        (Wanted::Newest, Some(last)) => newer(engine, &last),
        (Wanted::Newest, None) => Ok(newest().build(engine)?),
        (Wanted::Version(version), _) => newest().at_version(version).build(engine).or_else(|error| {
            let last = newest().build(engine)?.version();
            if version > last {
                return Ok(plan_err!("it has no version {version}: the newest is {last}")?);
            }
            Err(error.into())
        }),
        (Wanted::Time(at), _) => {
            let last = newest().build(engine)?;
            let found = latest_version_as_of(&last, engine, at, HistoryCommitType::Recreatable)?;
            Ok(newest().at_version(found.version).build(engine)?)
        }
        (Wanted::Reference(name), _) => Ok(plan_err!("a Delta table has no version {name}")?),
    }
}

/// Finds the newest version after a known one. A listing that was read while a writer added versions may lack one
/// before the last: it is read again.
fn newer(engine: &dyn Engine, known: &SnapshotRef) -> Result<SnapshotRef, ReadError> {
    const LISTINGS: usize = 5;
    let build = || delta_kernel::Snapshot::builder_from(Arc::clone(known)).build(engine);
    let mut found = build();
    for _ in 1..LISTINGS {
        if !matches!(found, Err(KernelError::MissingVersion(_))) {
            break;
        }
        found = build();
    }
    Ok(found?)
}

/// Translates a snapshot of the kernel.
fn translate(
    engine: &dyn Engine,
    kernel: &SnapshotRef,
    known: Option<&Snapshot>,
) -> Result<Snapshot, ReadError> {
    let scan = files::scan(kernel)?;
    let columns = columns::columns(kernel, &scan)?;
    files::snapshot(engine, kernel.version(), &scan, columns, known)
}

#[async_trait]
impl Source for DeltaLog {
    async fn snapshot(&self, known: Option<&Arc<Snapshot>>) -> Result<Arc<Snapshot>> {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let (engine, root, wanted) = (Arc::clone(&self.engine), self.root.clone(), self.wanted.clone());
        let known = known.cloned();
        let read = move || {
            let kernel = find(&*engine, &root, wanted, last)?;
            let snapshot = match known {
                Some(known) if known.version == kernel.version() => known,
                known => Arc::new(translate(&*engine, &kernel, known.as_deref())?),
            };
            Ok((kernel, snapshot))
        };
        let (kernel, snapshot) = match self.blocking(read).await {
            Ok(read) => read,
            Err(error) => return Err(Box::pin(self.explained(error)).await),
        };
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(kernel);
        Ok(snapshot)
    }

    async fn without_deleted(&self, file: &DataFile, deletes: &Deletes) -> Result<PartitionedFile> {
        let path = &file.file.object_meta.location;
        let Some(rows) = file.rows else {
            return exec_err!("the log has deleted rows of {path}, but not the file's number of rows");
        };
        let Some(vector) = deletes.place::<DvInfo>().cloned() else {
            return internal_err!("{path} has deletes of another format");
        };
        let (engine, root) = (Arc::clone(&self.engine), self.root.clone());
        let read = move || Ok(vector.get_row_indexes(&*engine, &root)?.unwrap_or_default());
        let deleted = self.blocking(read).await?;
        if let Some(count) = deletes.count.filter(|&count| deleted.len() as u64 != count) {
            return exec_err!(
                "the log counts {count} deleted rows of {path}, and its vector has {}",
                deleted.len()
            );
        }
        let Some(left) = without_rows(&file.file, deleted, rows) else {
            return exec_err!("the vector of deleted rows of {path} exceeds the file's {rows} rows");
        };
        Ok(left)
    }

    fn name(&self) -> &str {
        &self.name
    }

    async fn history(&self) -> Result<Vec<Change>> {
        let files: Vec<ObjectMeta> = self.store.list(Some(&self.folder)).try_collect().await?;
        let versions = files.into_iter().filter_map(|file| {
            let number = file.location.filename()?.strip_suffix(".json")?;
            let is_number =
                number.len() == VERSION_DIGITS && number.bytes().all(|digit| digit.is_ascii_digit());
            Some((is_number.then(|| number.parse().ok())??, file))
        });
        let each = |(version, file): (i64, ObjectMeta)| async move {
            let text = self.store.get(&file.location).await?.bytes().await?;
            Ok::<_, DataFusionError>(change(version, &text, file.last_modified.timestamp_millis()))
        };
        futures::stream::iter(versions.map(each)).buffered(COMMITS_AT_ONCE).try_collect().await
    }

    fn place(&self) -> (&'static str, String) {
        (FORMAT, self.root.to_string())
    }
}
