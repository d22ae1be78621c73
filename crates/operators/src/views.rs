//! Strings of a batch with buffers of their own.
//!
//! Views of strings keep the buffers of all batches that they come from, and all of a buffer for one value in it. Who keeps few
//! rows of many copies their strings. Which batches are worth it is for the caller to say.

use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, GenericByteViewArray, RecordBatch, RecordBatchOptions,
};
use datafusion::arrow::datatypes::{ByteViewType, DataType};
use datafusion::common::Result;

/// The batch with its strings copied into buffers of their own, in the columns of views for which `is_copied` says so. It is told
/// how many bytes the buffers of a column have, and can ask how many of them its values use, which looks at every value.
///
/// # Errors
///
/// Arrow refuses the batch, which it never does for columns of the same types and lengths.
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
/// memory is another's.
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
