//! The errors. Every error names the file, row group, column or setting, and the remedy.
//!
//! Errors are `Clone`: one failed read is reported by every scan that needed it. There is no general variant:
//! a new kind of failure gets a name.

use std::sync::Arc;

use coscan_core::ConfigError;
use thiserror::Error;

/// A cause that several scans share.
pub type SharedSource = Arc<dyn std::error::Error + Send + Sync>;

/// A value that a setting cannot have.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("coscan.{setting}: '{value}' is not {wanted}")]
pub struct SettingError {
    /// The setting's name.
    pub setting: &'static str,
    /// The given value.
    pub value: String,
    /// The possible values, with the range.
    pub wanted: String,
}

/// The reason why an engine, a scan or a chunk failed.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum EngineError {
    /// A setting is impossible.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A setting cannot have the given value.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// A setting was changed that must be given before the engine starts.
    #[error("coscan.{setting} is fixed once the engine runs: give it at start")]
    FixedSetting {
        /// The setting's name.
        setting: &'static str,
    },
    /// A device profile cannot be used.
    #[error("coscan.device_profile: cannot use {path}: {reason}")]
    DeviceProfile {
        /// The file.
        path: String,
        /// The fault, and the remedy.
        reason: String,
    },
    /// The scan can never run in this buffer. Raise `coscan.buffer`, lower the number of workers or read
    /// fewer columns.
    #[error("{what} needs a buffer of at least {needed} bytes, coscan.buffer is {budget} bytes: raise it")]
    BufferTooSmall {
        /// The smallest buffer that would suffice, in bytes.
        needed: u64,
        /// The current buffer, in bytes.
        budget: u64,
        /// The part or scan that needs it.
        what: String,
    },
    /// A part could not be read, after all retries.
    #[error("cannot read {file}, row group {row_group}, column '{column}': {source}")]
    Read {
        /// The file's address.
        file: String,
        /// The row group, counted from zero.
        row_group: usize,
        /// The root column.
        column: String,
        /// The last error of the device or the store.
        source: SharedSource,
    },
    /// The bytes of a part contradict the file's metadata.
    #[error("corrupt data in {file}, row group {row_group}, column '{column}': {source}")]
    Corrupt {
        /// The file's address.
        file: String,
        /// The row group, counted from zero.
        row_group: usize,
        /// The root column.
        column: String,
        /// The decoder's error.
        source: SharedSource,
    },
    /// The footer of a file on this machine could not be read.
    #[error("cannot read the footer of {file}: {source}")]
    Footer {
        /// The file's path.
        file: String,
        /// The error of the system or the decoder.
        source: SharedSource,
    },
    /// The file is not the version that was opened. Open it again to read the new version.
    #[error("{file} was replaced while in use ({detail}): run the query again")]
    FileReplaced {
        /// The file's address.
        file: String,
        /// The difference.
        detail: String,
    },
    /// The table's description gives another size for the file than it has.
    #[error("{file} has {found} bytes, its table says {stated}: correct the table's list of files")]
    WrongSize {
        /// The file's address.
        file: String,
        /// The size of the file in bytes.
        found: u64,
        /// The size in the table's description, in bytes.
        stated: u64,
    },
    /// The schema to decode to does not fit the file.
    #[error("{file} cannot be decoded to the requested schema: {source}")]
    Schema {
        /// The file's address.
        file: String,
        /// The mismatch.
        source: SharedSource,
    },
    /// The request names something that does not exist: a bug of the caller.
    #[error("invalid scan request: {0}")]
    InvalidRequest(String),
    /// The scan was dropped, or the chunk is already released.
    #[error("the scan is closed")]
    Closed,
    /// A panic in the engine, after which its state cannot be trusted. Everything that was running has ended,
    /// and nothing can begin. Start another engine, and report the panic.
    #[error("the engine is broken because it panicked: {0}; start another one")]
    Broken(String),
    /// The engine could not start its I/O threads.
    #[error("cannot start the engine: {0}")]
    Start(Arc<std::io::Error>),
}

/// The message of a panic.
pub(crate) fn panic_message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".into())
}
