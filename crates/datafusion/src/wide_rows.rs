//! Smaller batches where wide values are repeated.
//!
//! Joins and UNNEST repeat the values of a row, and no operator reserves memory for the batch that it emits: 8,192 rows
//! of a text of three megabytes are 24 GB. So the inputs of joins and of UNNEST are measured. If their rows are too wide
//! for the number of rows of a batch, the run ends with an error before anything is repeated, and [`Narrow`] tells the
//! number of rows that fits. The host may run the statement again with it. UNNEST makes all rows of a list at once, so it
//! gets long lists in parts.
//!
//! Most operators repeat a view without its text. Cross joins and nested loops copy the text.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use coscan_upstream::one_input::{OneInput, OneInputExec, with_children};
use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, GenericListArray, OffsetSizeTrait, RecordBatch, RecordBatchOptions,
};
use datafusion::arrow::buffer::{OffsetBuffer, ScalarBuffer};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{DataFusionError, Result, resources_datafusion_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::{CrossJoinExec, NestedLoopJoinExec};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::unnest::UnnestExec;
use futures::{StreamExt, TryStreamExt, stream};

use crate::interrupt::check_interrupt;
use crate::slices::sliced;

/// Rows of which a batch would have more bytes are too wide for it.
const TOO_WIDE: usize = 256 << 20;

/// Bytes of a batch of wide rows, in a further run and after UNNEST.
const BYTES: usize = 32 << 20;

/// The root of a plan that runs on several machines, which know no other nodes than their own.
const CLUSTER: &str = "ClusterExec";

/// The joins that build batches of repeated rows.
const JOINS: [&str; 5] =
    ["HashJoinExec", "SortMergeJoinExec", "NestedLoopJoinExec", "CrossJoinExec", "PiecewiseMergeJoinExec"];

/// The number of rows of a batch for which the rows of a run are narrow enough. Clones share it.
#[derive(Clone, Debug)]
pub struct Narrow(Arc<AtomicUsize>);

impl Default for Narrow {
    fn default() -> Self {
        Narrow(Arc::new(AtomicUsize::new(usize::MAX)))
    }
}

impl Narrow {
    /// The rows that a batch may have at most, if the run has ended because its rows were too wide.
    pub fn rows(&self) -> Option<usize> {
        Some(self.0.load(Ordering::Relaxed)).filter(|&rows| rows < usize::MAX)
    }
}

/// The plan with small batches where an operator makes many rows of a batch, or wide ones. Batches have up to `batch_rows`
/// rows. If rows are too wide for it, the run ends with an error, and `narrow` says so.
///
/// # Errors
///
/// If a node cannot be made again with another input.
pub(crate) fn in_small_batches(
    plan: Arc<dyn ExecutionPlan>,
    batch_rows: usize,
    narrow: &Narrow,
) -> Result<Arc<dyn ExecutionPlan>> {
    measured(sliced(plan, batch_rows)?, batch_rows, narrow)
}

/// Measures the inputs of joins and of UNNEST.
fn measured(
    plan: Arc<dyn ExecutionPlan>,
    batch_rows: usize,
    narrow: &Narrow,
) -> Result<Arc<dyn ExecutionPlan>> {
    if plan.name() == CLUSTER {
        return Ok(plan);
    }
    let measure = |node: Arc<dyn ExecutionPlan>| {
        let lists = match node.downcast_ref::<UnnestExec>() {
            Some(unnest) => Some(Lists::of(unnest)),
            None if JOINS.contains(&node.name()) => None,
            None => return Ok(Transformed::no(node)),
        };
        let views = node.is::<CrossJoinExec>() || node.is::<NestedLoopJoinExec>();
        let inputs = node.children().into_iter().map(|input| -> Arc<dyn ExecutionPlan> {
            if !input.schema().fields().iter().any(|field| may_be_wide(field.data_type())) {
                return Arc::clone(input);
            }
            let (input, lists, narrow) = (Arc::clone(input), lists.clone(), narrow.clone());
            Arc::new(OneInputExec(Measured { input, lists, views, batch_rows, narrow }))
        });
        let inputs: Vec<_> = inputs.collect();
        let unchanged = inputs.iter().zip(node.children()).all(|(input, before)| Arc::ptr_eq(input, before));
        if unchanged {
            return Ok(Transformed::no(node));
        }
        with_children(node, inputs).map(Transformed::yes)
    };
    plan.transform_up(measure).data()
}

/// The lists that an UNNEST takes apart.
#[derive(Clone)]
struct Lists {
    columns: Vec<usize>,
    /// Whether their elements may come in parts: an UNNEST of lists in lists aligns whole lists.
    in_parts: bool,
}

impl Lists {
    fn of(unnest: &UnnestExec) -> Self {
        let lists = unnest.list_column_indices();
        Lists {
            columns: lists.iter().map(|list| list.index_in_input_schema).collect(),
            in_parts: lists.iter().all(|list| list.depth == 1),
        }
    }
}

/// Ends the run if the rows of its input are too wide, and cuts long lists.
struct Measured {
    input: Arc<dyn ExecutionPlan>,
    /// `None` below a join.
    lists: Option<Lists>,
    /// Whether views are copied with their texts.
    views: bool,
    batch_rows: usize,
    narrow: Narrow,
}

impl OneInput for Measured {
    const NAME: &'static str = "MeasuredExec";

    const PASSES_FILTERS: bool = true;

    fn input(&self) -> &Arc<dyn ExecutionPlan> {
        &self.input
    }

    fn over(node: &Arc<OneInputExec<Self>>, input: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
        let Measured { lists, views, batch_rows, narrow, .. } = &node.0;
        let (lists, narrow) = (lists.clone(), narrow.clone());
        Arc::new(OneInputExec(Measured { input, lists, views: *views, batch_rows: *batch_rows, narrow }))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        // Load control gives wide rows of files smaller batches than the session has.
        let batch_rows = self.batch_rows.min(context.session_config().batch_size());
        let input = self.input.execute(partition, context)?;
        let (schema, views) = (input.schema(), self.views);
        let (lists, narrow) = (self.lists.clone(), self.narrow.clone());
        let measure = move |batch: RecordBatch| {
            let lists = lists.as_ref();
            check(&copied(&batch, lists, views), batch.num_rows(), batch_rows, &narrow)?;
            match lists.filter(|lists| lists.in_parts) {
                Some(lists) => in_parts(&batch, &lists.columns),
                None => Ok(vec![batch]),
            }
        };
        let parts = input
            .map(move |batch| measure(batch?))
            .map_ok(|parts| stream::iter(parts).map(Ok::<_, DataFusionError>));
        let batches = parts.try_flatten().and_then(|batch| async move {
            check_interrupt()?;
            Ok(batch)
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, batches)))
    }
}

/// The columns whose values are copied for each row of the result.
fn copied(batch: &RecordBatch, lists: Option<&Lists>, views: bool) -> Vec<ArrayRef> {
    let is_copied = |at: usize, of: &DataType| {
        lists.is_none_or(|lists| !lists.columns.contains(&at))
            && (views || !matches!(of, DataType::Utf8View | DataType::BinaryView))
    };
    let columns = batch.columns().iter().enumerate();
    let columns = columns.filter(|(at, column)| is_copied(*at, column.data_type()));
    columns.map(|(_, column)| Arc::clone(column)).collect()
}

/// Returns an error if `batch_rows` rows like these are too many.
fn check(columns: &[ArrayRef], rows: usize, batch_rows: usize, narrow: &Narrow) -> Result<()> {
    // Arrays with little memory have no wide values.
    let memory: usize = columns.iter().map(|column| column.get_array_memory_size()).sum();
    if memory < TOO_WIDE / batch_rows.max(1) {
        return Ok(());
    }
    let row = columns.iter().map(|column| bytes_of(column)).fold(0, usize::saturating_add) / rows.max(1);
    if batch_rows <= 1 || row.saturating_mul(batch_rows) <= TOO_WIDE {
        return Ok(());
    }
    let fit = (BYTES / row).clamp(1, batch_rows - 1);
    narrow.0.fetch_min(fit, Ordering::Relaxed);
    Err(resources_datafusion_err!(
        "rows of about {row} bytes come to a join or to unnest(), whose batches have up to {batch_rows} rows: make them \
         shorter, or set datafusion.execution.batch_size to {fit}"
    ))
}

fn may_be_wide(of: &DataType) -> bool {
    match of {
        DataType::Struct(fields) => fields.iter().any(|field| may_be_wide(field.data_type())),
        DataType::Dictionary(..) => false,
        of => of.is_nested() || of.is_string() || of.is_binary(),
    }
}

/// Bytes of an array's values, also if the array is a slice.
fn bytes_of(array: &dyn Array) -> usize {
    fn of_lists(array: &dyn Array, offsets: &[impl OffsetSizeTrait]) -> usize {
        match offsets {
            [first, .., last] => {
                let (first, last) = (first.as_usize(), last.as_usize());
                bytes_of(&array.slice(first, last - first))
            }
            _ => 0,
        }
    }
    match array.data_type() {
        DataType::Utf8View => array.as_string_view().lengths().map(|length| length as usize).sum(),
        DataType::BinaryView => array.as_binary_view().lengths().map(|length| length as usize).sum(),
        DataType::List(_) => {
            of_lists(array.as_list::<i32>().values(), array.as_list::<i32>().value_offsets())
        }
        DataType::LargeList(_) => {
            of_lists(array.as_list::<i64>().values(), array.as_list::<i64>().value_offsets())
        }
        DataType::Map(..) => of_lists(array.as_map().entries(), array.as_map().value_offsets()),
        DataType::Struct(_) => array.as_struct().columns().iter().map(|column| bytes_of(column)).sum(),
        DataType::Dictionary(..) => 0,
        _ => array.to_data().get_slice_memory_size().unwrap_or(0),
    }
}

/// A batch in parts of which UNNEST makes up to [`BYTES`]. A row whose list is too long for that comes several times,
/// each time with a part of its list.
fn in_parts(batch: &RecordBatch, lists: &[usize]) -> Result<Vec<RecordBatch>> {
    let columns: Vec<&ArrayRef> = lists.iter().filter_map(|&at| batch.columns().get(at)).collect();
    let lengths: Option<Vec<Vec<usize>>> = columns.iter().map(|column| lengths(column)).collect();
    let Some(lengths) = lengths else { return Ok(vec![batch.clone()]) };
    let longest = |row: usize| lengths.iter().filter_map(|of| of.get(row).copied()).max().unwrap_or(0);
    let is_other = |at: &usize| !lists.contains(at);
    let others = batch.columns().iter().enumerate().filter(|(at, _)| is_other(at)).map(|(_, column)| column);
    let others: Vec<&ArrayRef> = others.collect();
    let all: usize = others.iter().map(|column| bytes_of(column)).sum();
    let most = (0..batch.num_rows()).map(longest).max().unwrap_or(0);
    if all.saturating_mul(most) <= BYTES {
        return Ok(vec![batch.clone()]);
    }
    let (mut parts, mut begin, mut sum) = (Vec::new(), 0, 0_usize);
    for row in 0..batch.num_rows() {
        let own: usize = others.iter().map(|column| bytes_of(&column.slice(row, 1))).sum();
        let (elements, fit) = (longest(row), (BYTES / own.max(1)).max(1));
        let makes = own.saturating_mul(elements);
        if elements > fit || sum.saturating_add(makes) > BYTES {
            if row > begin {
                parts.push(batch.slice(begin, row - begin));
            }
            (begin, sum) = (row, 0);
        }
        if elements > fit {
            let of_row = batch.slice(row, 1);
            for from in (0..elements).step_by(fit) {
                parts.push(with_elements(&of_row, lists, from, fit)?);
            }
            begin = row + 1;
        } else {
            sum += makes;
        }
    }
    if begin < batch.num_rows() {
        parts.push(batch.slice(begin, batch.num_rows() - begin));
    }
    Ok(parts)
}

/// The lengths of an array's lists, zero for NULL. `None` for lists that cannot be cut.
fn lengths(array: &ArrayRef) -> Option<Vec<usize>> {
    let of: Vec<usize> = match array.data_type() {
        DataType::List(_) => array.as_list::<i32>().offsets().lengths().collect(),
        DataType::LargeList(_) => array.as_list::<i64>().offsets().lengths().collect(),
        _ => return None,
    };
    Some(
        of.into_iter().enumerate().map(|(row, length)| if array.is_null(row) { 0 } else { length }).collect(),
    )
}

/// A batch of one row with `count` elements of its lists.
fn with_elements(row: &RecordBatch, lists: &[usize], from: usize, count: usize) -> Result<RecordBatch> {
    fn part<O: OffsetSizeTrait>(list: &GenericListArray<O>, from: usize, count: usize) -> ArrayRef {
        let (begin, length) = match list.value_offsets() {
            [begin, end, ..] => (begin.as_usize(), end.as_usize() - begin.as_usize()),
            _ => (0, 0),
        };
        let ends = [begin + from.min(length), begin + (from + count).min(length)].map(O::usize_as);
        let field = match list.data_type() {
            DataType::List(field) | DataType::LargeList(field) => Arc::clone(field),
            _ => unreachable!("a list has the type of a list"),
        };
        let offsets = OffsetBuffer::new(ScalarBuffer::from(ends.to_vec()));
        Arc::new(GenericListArray::new(field, offsets, Arc::clone(list.values()), list.nulls().cloned()))
    }
    let columns = row.columns().iter().enumerate().map(|(at, column)| match column.data_type() {
        DataType::List(_) if lists.contains(&at) => part(column.as_list::<i32>(), from, count),
        DataType::LargeList(_) if lists.contains(&at) => part(column.as_list::<i64>(), from, count),
        _ => Arc::clone(column),
    });
    let options = RecordBatchOptions::new().with_row_count(Some(row.num_rows()));
    Ok(RecordBatch::try_new_with_options(row.schema(), columns.collect(), &options)?)
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{Int64Array, ListArray, StringArray};
    use datafusion::arrow::datatypes::Int64Type;

    use super::*;

    #[test]
    fn long_lists_beside_wide_values_are_cut() {
        let lists =
            vec![Some(vec![Some(1), None]), None, Some((0..100).map(Some).collect()), Some(Vec::new())];
        let lists: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>(lists));
        let wide = "x".repeat(1 << 20);
        let texts: ArrayRef = Arc::new(StringArray::from(vec!["a", "b", wide.as_str(), "d"]));
        let batch = RecordBatch::try_from_iter([("list", lists), ("text", texts)]).unwrap();
        let parts = in_parts(&batch, &[0]).unwrap();
        assert_eq!(parts.len(), 6, "two rows, four parts of the third, and the last");
        let elements = parts.iter().flat_map(|part| {
            let list = part.column(0).as_list::<i32>();
            list.iter().flatten().flat_map(|list| list.as_primitive::<Int64Type>().iter().collect::<Vec<_>>())
        });
        let elements: Int64Array = elements.collect();
        let expected = [Some(1), None].into_iter().chain((0..100).map(Some));
        assert_eq!(elements, expected.collect::<Int64Array>());
        assert!(parts.iter().all(|part| part.column(0).len() == part.num_rows()));
        assert_eq!(in_parts(&batch.slice(0, 2), &[0]).unwrap().len(), 1);
    }

    #[test]
    fn wide_rows_end_the_run() {
        let narrow = Narrow::default();
        let wide: ArrayRef = Arc::new(StringArray::from(vec!["x".repeat(1 << 20)]));
        assert!(check(&[Arc::clone(&wide)], 1, 100, &narrow).is_ok());
        assert_eq!(narrow.rows(), None);
        assert!(check(&[wide], 1, 8192, &narrow).is_err());
        assert_eq!(narrow.rows(), Some(31));
        let many: ArrayRef = Arc::new(StringArray::from(vec!["x".repeat(1000); 8192]));
        assert!(check(&[many], 8192, 8192, &narrow).is_ok());
    }
}
