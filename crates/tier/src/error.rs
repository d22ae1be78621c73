//! Errors of slow tiers, with advice on what to do.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use datafusion::common::DataFusionError;

/// An error of a tier. Cheap to clone: all queries that want a fragment get the error of its failure.
#[derive(Clone, Debug, thiserror::Error)]
pub enum TierError {
    /// A wrong definition.
    #[error("tier {tier}: {setting} {problem}")]
    Config {
        /// The tier's name or the path of its definition.
        tier: String,
        /// The key in the definition.
        setting: String,
        /// The fault of the value, and the allowed values.
        problem: String,
    },
    /// No tier of that name is defined.
    #[error("there is no tier '{name}': define it in a file and pass that with --tier; known are: {known}")]
    UnknownTier {
        /// The name.
        name: String,
        /// The names of the defined tiers.
        known: String,
    },
    /// A table lies outside the root of its tier.
    #[error(
        "{location} does not lie under {root}, the root of tier {tier}: correct the table's location or 'root'"
    )]
    OutsideRoot {
        /// The tier's name.
        tier: String,
        /// The table's location.
        location: String,
        /// The root of the tier's files.
        root: String,
    },
    /// The restore did not finish in time.
    #[error(
        "{file}: not restored after {} s, the tier's 'timeout': see whether the archive works ({last}), then run the query \
         again, which goes on waiting for the same restore",
        after.as_secs_f64()
    )]
    RestoreTimeout {
        /// The fragment's file.
        file: String,
        /// The time waited.
        after: Duration,
        /// The last known state of the restore.
        last: String,
    },
    /// The store refuses to restore.
    #[error("{file}: the store refuses to restore it ({answer}): {advice}")]
    RestoreRefused {
        /// The fragment's file.
        file: String,
        /// The store's answer.
        answer: String,
        /// Advice.
        advice: &'static str,
    },
    /// A command of a folder tier failed.
    #[error(
        "{file}: '{command}' failed ({outcome}): run it by hand, correct [folder] of tier {tier}, and run the query again"
    )]
    Command {
        /// The tier's name.
        tier: String,
        /// The fragment's file.
        file: String,
        /// The command with its arguments.
        command: String,
        /// Its exit code and its output, or its running time.
        outcome: String,
    },
    /// A fragment is larger than the cache.
    #[error(
        "{file} has {bytes} bytes and the fragment cache {budget}: raise 'cache_bytes' of tier {tier} to at least {}, better six \
         times the largest file",
        bytes
    )]
    FragmentTooLarge {
        /// The tier's name.
        tier: String,
        /// The fragment's file.
        file: String,
        /// Its bytes.
        bytes: u64,
        /// The cache's bytes.
        budget: u64,
    },
    /// Fragments that a scan in order needs at the same time do not fit into the cache together.
    #[error(
        "{table} is read in order{}, for which {files} files ({bytes} bytes with room for others) have to be in the fragment cache \
         together, which has {budget}: raise 'cache_bytes' of tier {tier} to at least {bytes}, or declare the table without WITH ORDER",
        match beside { 0 => String::new(), others => format!(" and merged with {others} more tables") }
    )]
    TogetherTooLarge {
        /// The tier's name.
        tier: String,
        /// The table's first file.
        table: String,
        /// Number of other tables that are read in order at the same time.
        beside: usize,
        /// Number of files.
        files: usize,
        /// Their bytes.
        bytes: u64,
        /// The cache's bytes.
        budget: u64,
    },
    /// Fragments that a join needs at the same time do not fit into the cache together.
    #[error(
        "the files that are joined with each other have {bytes} bytes and the fragment cache {budget}: raise 'cache_bytes' of tier \
         {tier} to at least {bytes}, better six times the largest file"
    )]
    CombinationTooLarge {
        /// The tier's name.
        tier: String,
        /// Their bytes.
        bytes: u64,
        /// The cache's bytes.
        budget: u64,
    },
    /// The disk under the cache is full, although the cache keeps its budget.
    #[error(
        "{file}: no room left on the disk of the fragment cache {}: free {bytes} bytes there or lower 'cache_bytes' of tier {tier}",
        dir.display()
    )]
    DiskFull {
        /// The tier's name.
        tier: String,
        /// The fragment's file.
        file: String,
        /// The cache's folder.
        dir: PathBuf,
        /// Bytes that the fragment needs.
        bytes: u64,
    },
    /// Another process uses the cache.
    #[error(
        "{}: another process uses this fragment cache: wait for it, stop it, or give this one a 'cache' of its own",
        dir.display()
    )]
    CacheInUse {
        /// The cache's folder.
        dir: PathBuf,
    },
    /// A restore from before a restart finished and expired while no process ran.
    #[error(
        "{file}: the restored copy is gone again; it is asked for again, and paid again, when a query wants it"
    )]
    Expired {
        /// The fragment's file.
        file: String,
    },
    /// The file is not the one that the query was planned for.
    #[error(
        "{file} was replaced while it was restored ({found}, planned was {planned}): run the query again"
    )]
    Replaced {
        /// The fragment's file.
        file: String,
        /// The planned version.
        planned: String,
        /// The version found.
        found: String,
    },
    /// The restored file is shorter or longer than its directory entry says.
    #[error("{file}: {found} bytes came instead of {expected}: the tier's copy is damaged or was replaced")]
    Truncated {
        /// The fragment's file.
        file: String,
        /// Bytes according to the directory.
        expected: u64,
        /// Bytes received.
        found: u64,
    },
    /// A recall ended, but the file is not there.
    #[error(
        "{file}: its recall ended, but after {} s, the tier's 'timeout', {last}: let 'recall' of tier {tier} end when the file can be \
         read, or add 'online', a command that tells when it can",
        after.as_secs_f64()
    )]
    NotThere {
        /// The tier's name.
        tier: String,
        /// The fragment's file.
        file: String,
        /// Duration of all attempts.
        after: Duration,
        /// The last known state of the file.
        last: String,
    },
    /// The restored bytes are not the file's, although length and time are right.
    #[error(
        "{file}: what was restored is not this file: {problem}: see whether the tier's copy is whole, and run the query again"
    )]
    Damaged {
        /// The fragment's file.
        file: String,
        /// The fault of the bytes.
        problem: &'static str,
    },
    /// A cached copy that cannot be decoded was dropped.
    #[error(
        "{file}: its restored copy cannot be decoded and was dropped from the cache ({why}): run the query again, which restores \
         the file again"
    )]
    Dropped {
        /// The fragment's file.
        file: String,
        /// The decoder's error.
        why: String,
    },
    /// A file without bytes.
    #[error(
        "{file} has no bytes: a file of tier {tier} that is not online has to keep its length and its modification time"
    )]
    Empty {
        /// The tier's name.
        tier: String,
        /// The file.
        file: String,
    },
    /// The restore would exceed the cost limit.
    #[error(
        "tier {tier}: this would cost {wanted:.4} more, with {spent:.4} spent in the last {days} days and 'cost_limit' {limit:.4}: \
         see `coscan tier status`, then raise 'cost_limit' or choose a cheaper 'speed'"
    )]
    CostLimit {
        /// The tier's name.
        tier: String,
        /// The price of this request.
        wanted: f64,
        /// The amount spent.
        spent: f64,
        /// The period in days.
        days: u32,
        /// The limit.
        limit: f64,
    },
    /// A file's footer is needed but not known, and the file is not online.
    #[error(
        "the footer of {file} is not known and the file is not online: run `coscan tier footers --tier {definition} {}` once, which \
         restores every file of the table, or name the columns: CREATE EXTERNAL TABLE t (..) STORED AS PARQUET ..",
        file.rsplit_once('/').map_or("FOLDER", |(folder, _)| folder)
    )]
    FooterUnknown {
        /// The file.
        file: String,
        /// The file with the tier's definition.
        definition: String,
    },
    /// Another process uses the cache and did not carry out a request.
    #[error("tier {tier}: the process that has the cache could not do it: {why}")]
    Refused {
        /// The tier's name.
        tier: String,
        /// The answer of that process.
        why: String,
    },
    /// Another process used the cache and ended before it carried out a request.
    #[error("tier {tier}: the process that had the cache ended: run the command again")]
    OwnerEnded {
        /// The tier's name.
        tier: String,
    },
    /// An error of the operating system.
    #[error("cannot {doing} {}: {source}", path.display())]
    Io {
        /// The attempted operation.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// The cause.
        source: Arc<io::Error>,
    },
    /// An error of the store.
    #[error("{file}: {source}")]
    Store {
        /// The file.
        file: String,
        /// The store's error.
        source: Arc<object_store::Error>,
    },
    /// The task of the restore ended without a result.
    #[error("{file}: its restore was given up: {why}")]
    Abandoned {
        /// The file.
        file: String,
        /// The reason.
        why: String,
    },
}

impl TierError {
    /// Makes an error of the operating system.
    pub(crate) fn io(doing: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> TierError {
        let path = path.into();
        move |source| TierError::Io { doing, path, source: Arc::new(source) }
    }

    /// Makes an error of the store.
    pub(crate) fn store(file: impl ToString) -> impl FnOnce(object_store::Error) -> TierError {
        let file = file.to_string();
        move |source| TierError::Store { file, source: Arc::new(source) }
    }

    /// The file that the error is about, for a change of its name.
    pub(crate) fn file_mut(&mut self) -> Option<&mut String> {
        match self {
            TierError::RestoreTimeout { file, .. }
            | TierError::RestoreRefused { file, .. }
            | TierError::Command { file, .. }
            | TierError::FragmentTooLarge { file, .. }
            | TierError::TogetherTooLarge { table: file, .. }
            | TierError::DiskFull { file, .. }
            | TierError::Expired { file }
            | TierError::Replaced { file, .. }
            | TierError::Truncated { file, .. }
            | TierError::NotThere { file, .. }
            | TierError::Damaged { file, .. }
            | TierError::Dropped { file, .. }
            | TierError::Empty { file, .. }
            | TierError::FooterUnknown { file, .. }
            | TierError::Store { file, .. }
            | TierError::Abandoned { file, .. } => Some(file),
            TierError::Config { .. }
            | TierError::UnknownTier { .. }
            | TierError::OutsideRoot { .. }
            | TierError::CombinationTooLarge { .. }
            | TierError::CacheInUse { .. }
            | TierError::CostLimit { .. }
            | TierError::Refused { .. }
            | TierError::OwnerEnded { .. }
            | TierError::Io { .. } => None,
        }
    }

    /// The tier's error at the bottom of a query's error, if there is one. It says by itself what happened and what
    /// to do.
    pub fn inside(error: &DataFusionError) -> Option<&TierError> {
        let mut next: Option<&(dyn std::error::Error + 'static)> = Some(error);
        while let Some(error) = next {
            if let Some(found) = error.downcast_ref() {
                return Some(found);
            }
            next = match error.downcast_ref() {
                Some(DataFusionError::External(inner)) => Some(inner.as_ref()),
                Some(DataFusionError::Shared(inner)) => Some(inner.as_ref()),
                _ => error.source(),
            };
        }
        None
    }

    /// Returns true if another attempt may succeed without action by the user.
    pub(crate) fn is_transient(&self) -> bool {
        // A query that wants an expired fragment requests its restore again.
        matches!(
            self,
            TierError::Command { .. }
                | TierError::Store { .. }
                | TierError::Truncated { .. }
                | TierError::Damaged { .. }
                | TierError::Expired { .. }
        )
    }
}

impl From<TierError> for DataFusionError {
    fn from(error: TierError) -> Self {
        DataFusionError::External(Box::new(error))
    }
}

impl From<TierError> for object_store::Error {
    fn from(error: TierError) -> Self {
        object_store::Error::Generic { store: "tier", source: Box::new(error) }
    }
}
