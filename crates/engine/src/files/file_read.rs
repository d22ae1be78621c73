//! A request's read of one file: its columns, and their decoded types.

use std::sync::Arc;

use crate::files::decoding::Decoding;
use crate::files::table::{File, FileHandle};
use coscan_core::ColumnNo;

/// The read of one file.
#[derive(Debug)]
pub(crate) struct FileRead {
    pub(crate) file: Arc<File>,
    /// Keeps the file known.
    pub(crate) _handle: FileHandle,
    pub(crate) roots: Vec<usize>,
    pub(crate) columns: Vec<ColumnNo>,
    pub(crate) decoding: Arc<Decoding>,
}
