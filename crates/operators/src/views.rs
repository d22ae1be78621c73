//! Strings of a batch with buffers of their own.
//!
//! Views of strings keep the buffers of all batches that they come from, and a whole buffer for one value in
//! it. An operator that keeps few of many rows copies their strings. The caller decides for which batches
//! that is worthwhile.

use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, GenericByteViewArray, RecordBatch, RecordBatchOptions,
};
use datafusion::arrow::datatypes::{ByteViewType, DataType};
use datafusion::common::Result;

/// The batch with its strings copied into buffers of their own, in the columns of views for which `is_copied`
/// returns true. `is_copied` gets the bytes of a column's buffers, and a function for the bytes that its
/// values use, which looks at every value.
///
/// # Errors
///
/// If Arrow refuses the batch, which does not happen for columns of the same types and lengths.
pub fn with_own_buffers(
    batch: &RecordBatch,
    is_copied: impl Fn(usize, &dyn Fn() -> usize) -> bool,
) -> Result<RecordBatch> {
    let own = |column: &ArrayRef| -> ArrayRef {
        match column.data_type() {
            DataType::Utf8View if says(column.as_string_view(), &is_copied) => {
                Arc::new(column.as_string_view().gc())
            }
            DataType::BinaryView if says(column.as_binary_view(), &is_copied) => {
                Arc::new(column.as_binary_view().gc())
            }
            _ => Arc::clone(column),
        }
    };
    let columns = batch.columns().iter().map(own).collect();
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(batch.schema(), columns, &options)?)
}

fn says<T: ByteViewType + ?Sized>(
    array: &GenericByteViewArray<T>,
    is_copied: &impl Fn(usize, &dyn Fn() -> usize) -> bool,
) -> bool {
    let kept = array.data_buffers().iter().map(|buffer| buffer.capacity()).sum();
    is_copied(kept, &|| array.total_buffer_bytes_used())
}

/// Returns whether two arrays are the same views of strings in the same memory. While both exist, neither's
/// memory is reused.
pub fn same_views(a: &ArrayRef, b: &ArrayRef) -> bool {
    fn place(array: &ArrayRef) -> Option<(*const u128, usize)> {
        let views = match array.data_type() {
            DataType::Utf8View => array.as_string_view().views(),
            DataType::BinaryView => array.as_binary_view().views(),
            _ => return None,
        };
        Some((views.as_ptr(), views.len()))
    }
    Arc::ptr_eq(a, b) || a.data_type() == b.data_type() && place(a).is_some_and(|a| Some(a) == place(b))
}
