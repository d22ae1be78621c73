//! Output of a state in batches of as many rows as the next operators want.
//!
//! The strings of a batch are views of buffers that all rows share. An operator that keeps a few rows of a
//! large batch keeps all of its buffers. The coalescer of an exchange, which cuts large batches, makes room
//! for all their strings with each cut. So each batch gets buffers of its own. Until the last batch has left,
//! the whole state stays in the account.

use datafusion::arrow::array::RecordBatch;
use datafusion::common::Result;
use datafusion::execution::memory_pool::MemoryReservation;
use futures::Stream;
use futures::stream::unfold;

use crate::views::with_own_buffers;

/// The rows of `state`, in batches of `rows`. `reservation` is the memory of all.
pub(super) fn pieces(
    state: RecordBatch,
    reservation: MemoryReservation,
    rows: usize,
) -> impl Stream<Item = Result<RecordBatch>> + Send {
    let rows = rows.max(1);
    unfold((state, reservation, 0), move |(state, reservation, at)| async move {
        let left = state.num_rows().checked_sub(at).filter(|left| *left > 0)?;
        let piece = match left.min(rows) {
            whole if whole == state.num_rows() => Ok(state.clone()),
            part => with_own_buffers(&state.slice(at, part), |_, _| true),
        };
        Some((piece, (state, reservation, at + rows)))
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::arrow::array::{ArrayRef, AsArray, Int64Array, StringViewArray};
    use datafusion::arrow::compute::concat_batches;
    use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, UnboundedMemoryPool};
    use futures::{FutureExt, StreamExt, TryStreamExt};

    use super::*;

    #[test]
    fn pieces_are_the_rows_in_their_order_and_keep_no_others() {
        let text = |row: i64| format!("{row:04}").repeat(250);
        let texts: ArrayRef = Arc::new(StringViewArray::from_iter_values((0..1000).map(text)));
        let counts: ArrayRef = Arc::new(Int64Array::from_iter_values(0..1000));
        let state = RecordBatch::try_from_iter([("s", texts), ("n", counts)]).expect("a batch");
        let pool: Arc<dyn MemoryPool> = Arc::new(UnboundedMemoryPool::default());
        let reservation = MemoryConsumer::new("test").register(&pool);
        reservation.grow(1 << 20);
        let mut all = Vec::new();
        let mut pieces = Box::pin(pieces(state.clone(), reservation, 300));
        while let Some(piece) = pieces.next().now_or_never().flatten() {
            assert_eq!(pool.reserved(), 1 << 20);
            let piece = piece.expect("a piece");
            let bytes: usize =
                piece.column(0).as_string_view().data_buffers().iter().map(|b| b.capacity()).sum();
            assert!(bytes < piece.num_rows() * 1100, "{bytes} bytes for {} rows", piece.num_rows());
            all.push(piece);
        }
        drop(pieces);
        assert_eq!(pool.reserved(), 0);
        assert_eq!(all.iter().map(RecordBatch::num_rows).collect::<Vec<_>>(), [300, 300, 300, 100]);
        assert_eq!(concat_batches(&state.schema(), &all).expect("a batch"), state);
    }

    #[test]
    fn a_state_that_fits_is_passed_on_as_it_is_and_an_empty_one_not_at_all() {
        let pool: Arc<dyn MemoryPool> = Arc::new(UnboundedMemoryPool::default());
        for rows in [0, 5] {
            let counts: ArrayRef = Arc::new(Int64Array::from_iter_values(0..rows));
            let state = RecordBatch::try_from_iter([("n", counts)]).expect("a batch");
            let reservation = MemoryConsumer::new("test").register(&pool);
            let all = pieces(state.clone(), reservation, 300).try_collect::<Vec<_>>().now_or_never();
            let all = all.expect("nothing to wait for").expect("pieces");
            assert_eq!(all, if rows == 0 { vec![] } else { vec![state] });
        }
    }
}
