//! One version of a table, in the terms of all formats.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, UInt64Array};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::stats::Precision;
use datafusion::common::{Result, Statistics};
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::table_schema::TableSchema;
use tokio::sync::OnceCell;

/// One version of a table.
#[derive(Debug)]
pub(crate) struct Snapshot {
    /// The number of the version.
    pub(crate) version: u64,
    /// The columns, as queries see them.
    pub(crate) schema: SchemaRef,
    /// The columns as files name them, with the constants of files at the end.
    pub(crate) stored: TableSchema,
    /// The position of each column in `stored`.
    pub(crate) positions: Vec<usize>,
    /// Columns that cannot be read, with the reason. By position.
    pub(crate) unreadable: Vec<Option<String>>,
    /// The files.
    pub(crate) files: Vec<DataFile>,
    /// The bounds of the columns in the files, by position.
    pub(crate) bounds: Vec<Bounds>,
}

/// A file of a snapshot.
#[derive(Clone, Debug)]
pub(crate) struct DataFile {
    /// The file with its constants and without its deleted rows.
    pub(crate) file: PartitionedFile,
    /// Its rows, deleted ones included.
    pub(crate) rows: Option<u64>,
    /// Its deleted rows.
    pub(crate) deletes: Option<Deletes>,
}

/// The deleted rows of a file.
#[derive(Clone, Debug)]
pub(crate) struct Deletes {
    /// The place where they are listed. Two lists with one place are equal.
    pub(crate) place: DeletesPlace,
    /// Their number.
    pub(crate) count: u64,
    /// The file with the rows that are left, once the list was read.
    pub(crate) left: Arc<OnceCell<PartitionedFile>>,
}

/// The place where deleted rows are listed.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum DeletesPlace {
    /// A vector of a Delta table.
    Delta(Box<delta_kernel::scan::state::DvInfo>),
}

/// Facts about one column in all files. An absent array or value is not known.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bounds {
    /// Lower bounds.
    pub(crate) min: Option<ArrayRef>,
    /// Upper bounds.
    pub(crate) max: Option<ArrayRef>,
    /// Numbers of nulls.
    pub(crate) nulls: Option<UInt64Array>,
}

impl Snapshot {
    /// Returns the statistics of these files together.
    pub(crate) fn statistics(&self, files: &[usize]) -> Statistics {
        let mut rows = Some(0);
        let mut bytes = 0;
        for &at in files {
            let DataFile { file, rows: all, deletes } = &self.files[at];
            let deleted = deletes.as_ref().map_or(0, |deletes| deletes.count);
            let left = all.and_then(|all| all.checked_sub(deleted));
            rows = rows.zip(left).map(|(sum, left)| sum + left);
            bytes += file.object_meta.size;
        }
        let mut statistics = Statistics::new_unknown(self.stored.table_schema());
        statistics.num_rows = rows.map_or(Precision::Absent, |rows| Precision::Exact(rows as usize));
        statistics.total_byte_size = Precision::Inexact(bytes as usize);
        statistics
    }

    /// Fails if one of these columns cannot be read.
    pub(crate) fn check_readable(&self, columns: &[usize]) -> Result<()> {
        let reason = columns.iter().find_map(|&column| self.unreadable[column].as_ref());
        match reason {
            Some(reason) => datafusion::common::not_impl_err!("{reason}"),
            None => Ok(()),
        }
    }
}
