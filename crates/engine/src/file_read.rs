//! How a request reads one file: which columns, decoded to which types.

use std::sync::Arc;

use crate::decoding::Decoding;
use crate::table::{File, FileHandle};
use coscan_core::ColumnNo;

/// How to read one file.
#[derive(Debug)]
pub(crate) struct FileRead {
    pub(crate) file: Arc<File>,
    /// Keeps the file known.
    pub(crate) _handle: FileHandle,
    pub(crate) roots: Vec<usize>,
    pub(crate) columns: Vec<ColumnNo>,
    pub(crate) decoding: Arc<Decoding>,
}
