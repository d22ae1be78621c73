//! Decoding of the pages of a point read to Arrow arrays, with the same decoder as for chunks, over bytes
//! with gaps.
//!
//! It works column by column, so that an error names the corrupt one. If the decoder asks for bytes that were
//! not read, that is an error; this module reads nothing.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::SchemaRef;
use bytes::Bytes;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder, RowSelection,
    RowSelectionPolicy,
};
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::metadata::ParquetMetaData;

use crate::decode::canonical_floats::with_canonical_floats;
use crate::decode::file_bytes::FileBytes;
use crate::decode::page_gate::PageGate;
use crate::error::{EngineError, SharedSource, panic_message};
use crate::files::decoding::leaves;
use crate::files::table::File;

/// The pages of one root column, by their offsets in the file.
#[derive(Clone, Debug)]
pub(crate) struct ColumnBytes {
    pub(crate) root: usize,
    /// Ascending, disjoint.
    pub(crate) pieces: Vec<(u64, Bytes)>,
}

/// The types to decode to.
#[derive(Debug)]
pub(crate) struct Target<'a> {
    pub(crate) file: &'a File,
    /// Footer and offset index with which the pages were chosen.
    pub(crate) metadata: &'a Arc<ParquetMetaData>,
    pub(crate) row_group: usize,
    pub(crate) schema: &'a SchemaRef,
    pub(crate) rows: &'a [Range<usize>],
    pub(crate) batch_rows: usize,
    /// The room that is reserved for pages, in bytes.
    pub(crate) room: u64,
}

/// Decodes the selected rows in batches: for every batch the arrays of all columns. `None` if a page takes
/// more room than reserved, because pages are larger than the footer states.
pub(crate) fn decode(
    target: &Target<'_>,
    columns: Vec<ColumnBytes>,
) -> Result<Option<Vec<Vec<ArrayRef>>>, EngineError> {
    let options = ArrowReaderOptions::new().with_schema(target.schema.clone());
    let decoding = ArrowReaderMetadata::try_new(target.metadata.clone(), options).map_err(|source| {
        EngineError::Schema { file: target.file.name().to_owned(), source: Arc::new(source) }
    })?;
    let mut batches: Vec<Vec<ArrayRef>> = Vec::new();
    for column in columns {
        let root = column.root;
        let leaves = leaves(target.metadata, root);
        let row_group = target.metadata.row_group(target.row_group);
        let gate = Arc::new(PageGate::new(row_group.columns()[leaves].iter(), false));
        gate.begin_slice(target.room);
        let step = AssertUnwindSafe(|| decode_column(target, &decoding, column, gate.clone()));
        let outcome: Result<Vec<ArrayRef>, SharedSource> = match catch_unwind(step) {
            Ok(outcome) => outcome.map_err(|error| Arc::new(error) as SharedSource),
            Err(panic) => {
                let message = format!("the decoder gave up: {}", panic_message(&*panic));
                Err(Arc::new(ParquetError::General(message)))
            }
        };
        if gate.refused().is_some() {
            return Ok(None);
        }
        let arrays = outcome.map_err(|source| EngineError::Corrupt {
            file: target.file.name().to_owned(),
            row_group: target.row_group,
            column: target.file.columns[root].name.clone(),
            source,
        })?;
        if batches.is_empty() {
            batches = vec![Vec::new(); arrays.len()];
        }
        for (batch, array) in batches.iter_mut().zip(arrays) {
            batch.push(array);
        }
    }
    Ok(Some(batches))
}

fn decode_column(
    target: &Target<'_>,
    decoding: &ArrowReaderMetadata,
    column: ColumnBytes,
    gate: Arc<PageGate>,
) -> ParquetResult<Vec<ArrayRef>> {
    let total = target.file.rows(target.row_group);
    let mask = ProjectionMask::roots(decoding.parquet_schema(), [column.root]);
    let input = FileBytes {
        pieces: column.pieces.into_iter().map(|(at, bytes)| (at, bytes.into())).collect(),
        cached: None,
        end: target.file.source.meta.size,
        detach: false,
        gate,
        what: "the selected pages",
    };
    let reader = ParquetRecordBatchReaderBuilder::new_with_metadata(input, decoding.clone())
        .with_row_groups(vec![target.row_group])
        .with_projection(mask)
        .with_batch_size(target.batch_rows)
        .with_row_selection(RowSelection::from_consecutive_ranges(target.rows.iter().cloned(), total))
        // Pages that were not read must be skipped, not decoded and filtered.
        .with_row_selection_policy(RowSelectionPolicy::Selectors)
        .build()?;
    let mut wanted: usize = target.rows.iter().map(ExactSizeIterator::len).sum();
    // Without a capacity, because only the file states the number of rows.
    let mut arrays = Vec::new();
    for batch in reader {
        let array = with_canonical_floats(batch?.column(0).clone())?;
        if array.len() != wanted.min(target.batch_rows) {
            return Err(ParquetError::EOF(format!("a batch has {} rows, {wanted} are left", array.len())));
        }
        wanted -= array.len();
        arrays.push(array);
    }
    match wanted {
        0 => Ok(arrays),
        missing => Err(ParquetError::EOF(format!("{missing} of the selected rows are missing"))),
    }
}
