//! Filters that joins fill: a hash join that has its build side knows which keys of the other side can match, and says so
//! to the scans below. Rows that cannot match are left behind here, before they are copied, sent to another partition and
//! looked up.
//!
//! No result depends on this: the join looks every row up again. So a filter is used only when it is final, rows of which
//! it cannot be computed stay in, numbers that are equal without having the same bits (zeros of both signs) are not asked of it, and a filter that drops too few rows for what it costs is given up. In a table that is
//! clustered by the key, rows with equal keys follow each other, and each key is looked up once.

use std::fmt;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use datafusion::arrow::array::{BooleanArray, BooleanBufferBuilder, RecordBatch, UInt32Array};
use datafusion::arrow::buffer::{BooleanBuffer, MutableBuffer};
use datafusion::arrow::compute::{filter_record_batch, partition, take_record_batch};
use datafusion::arrow::datatypes::{DataType, SchemaRef};
use datafusion::arrow::util::bit_util::set_bit;
use datafusion::common::{Result, ScalarValue};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{DynamicFilterTracking, Literal};
use datafusion::physical_expr::utils::{collect_columns, reassign_expr_columns};
use datafusion::physical_expr_common::physical_expr::snapshot_physical_expr;
use datafusion::physical_plan::metrics::Count;

use crate::file::row_filter::{Passing, matches};

/// After so many rows it is decided whether a filter is worth its cost.
const ROWS_ON_TRIAL: u64 = 16 << 10;

/// What a row costs that a join drops: it is copied, sent to another partition and looked up. Measured, in nanoseconds: 40
/// with TPC-H Q5, 100 with Q18.
const COST_OF_A_ROW: u64 = 50;

/// How well a filter does, in all files of a partition.
#[derive(Debug, Default)]
pub(crate) struct Trial {
    tested: AtomicU64,
    dropped: AtomicU64,
    /// Of the batch for which a row cost least, in picoseconds a row: in the others the thread may have been interrupted.
    cost: AtomicU64,
    given_up: AtomicBool,
    /// Whether rows with equal keys do not follow each other.
    scattered: AtomicBool,
}

impl Trial {
    fn goes_on(&self) -> bool {
        !self.given_up.load(Relaxed)
    }

    fn give_up(&self) {
        self.given_up.store(true, Relaxed);
    }

    fn count(&self, tested: usize, dropped: usize, took: Duration) {
        let cost = (took.as_nanos() as u64 * 1000).checked_div(tested as u64).unwrap_or(0).max(1);
        let lower = |least: u64| (least == 0 || cost < least).then_some(cost);
        let _ = self.cost.fetch_update(Relaxed, Relaxed, lower);
        let dropped = self.dropped.fetch_add(dropped as u64, Relaxed) + dropped as u64;
        let tested = self.tested.fetch_add(tested as u64, Relaxed) + tested as u64;
        let (spent, saved) = (tested * self.cost.load(Relaxed), dropped * COST_OF_A_ROW * 1000);
        if tested >= ROWS_ON_TRIAL && spent > saved {
            self.give_up();
        }
    }
}

/// A filter in terms of a file, and how well it does.
#[derive(Clone, Debug)]
pub(crate) struct JoinFilter {
    pub(crate) filter: Arc<dyn PhysicalExpr>,
    pub(crate) trial: Arc<Trial>,
    pub(crate) rows_dropped: Count,
}

/// The filters of one way to read row groups.
#[derive(Default)]
pub(crate) struct JoinFilters(Vec<OverBatch>);

/// A filter in terms of the scan's batches.
struct OverBatch {
    of: JoinFilter,
    /// The positions of its columns in a batch.
    columns: Vec<usize>,
    /// Over `columns` alone.
    filter: Arc<dyn PhysicalExpr>,
    /// When the filter is final: what it is; `None` if it says nothing.
    settled: OnceLock<Option<Arc<dyn PhysicalExpr>>>,
}

impl fmt::Debug for JoinFilters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|one| &one.filter)).finish()
    }
}

impl JoinFilters {
    /// Those of `filters` whose columns are in the batches of a scan, which has `roots` of the file's columns.
    pub(crate) fn new(filters: &[JoinFilter], roots: &[usize], batch_schema: &SchemaRef) -> Result<Self> {
        let mut over_batch = Vec::new();
        for of in filters {
            let columns = collect_columns(&of.filter);
            let columns: Option<Vec<usize>> =
                columns.iter().map(|column| roots.binary_search(&column.index()).ok()).collect();
            let Some(mut columns) = columns.filter(|columns| !columns.is_empty()) else { continue };
            columns.sort_unstable();
            let schema = Arc::new(batch_schema.project(&columns)?);
            if schema.fields().iter().any(|field| may_be_equal_with_other_bits(field.data_type())) {
                continue;
            }
            let filter = reassign_expr_columns(Arc::clone(&of.filter), &schema)?;
            over_batch.push(OverBatch { of: of.clone(), columns, filter, settled: OnceLock::new() });
        }
        Ok(JoinFilters(over_batch))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What is left of rows that passed the scan's own filter.
    pub(crate) fn narrow(&self, mut passing: Passing) -> Passing {
        for filter in &self.0 {
            passing = filter.narrow(passing);
        }
        passing
    }
}

/// A filter of a join looks for the bits of a value among those of the build side.
fn may_be_equal_with_other_bits(of: &DataType) -> bool {
    match of {
        DataType::Dictionary(_, values) => may_be_equal_with_other_bits(values),
        of => of.is_floating() || of.is_nested(),
    }
}

impl OverBatch {
    fn narrow(&self, passing: Passing) -> Passing {
        let (batch, bits) = match &passing {
            Passing::All(batch) => (batch, None),
            Passing::Some(batch, bits) => (batch, Some(bits)),
            Passing::None => return passing,
        };
        let Some(filter) = self.usable() else { return passing };
        let Ok(left) = self.left(filter, batch, bits) else {
            self.of.trial.give_up();
            return passing;
        };
        let (Passing::All(batch) | Passing::Some(batch, _)) = passing else { return passing };
        Passing::of(batch, Some(left))
    }

    /// The filter, if it is final, says something, and is worth its cost.
    fn usable(&self) -> Option<&Arc<dyn PhysicalExpr>> {
        if !self.of.trial.goes_on() {
            return None;
        }
        if self.settled.get().is_none() {
            if !matches!(DynamicFilterTracking::classify(&self.filter), DynamicFilterTracking::AllComplete) {
                return None;
            }
            let settled = snapshot_physical_expr(Arc::clone(&self.filter)).ok();
            let _ = self.settled.set(settled.filter(|filter| !is_true(filter)));
        }
        self.settled.get()?.as_ref()
    }

    /// Which rows of the batch, of those in `bits`, the filter leaves.
    fn left(
        &self,
        filter: &Arc<dyn PhysicalExpr>,
        batch: &RecordBatch,
        bits: Option<&BooleanBuffer>,
    ) -> Result<BooleanBuffer> {
        let begin = Instant::now();
        let keys = batch.project(&self.columns)?;
        let (tested, left) = match bits {
            None => (keys.num_rows(), self.looked_up(filter, &keys)?),
            // Other rows need not be looked up, nor need that work.
            Some(bits) => {
                let keys = filter_record_batch(&keys, &BooleanArray::new(bits.clone(), None))?;
                (keys.num_rows(), spread(bits, &self.looked_up(filter, &keys)?))
            }
        };
        let dropped = tested - left.count_set_bits();
        self.of.trial.count(tested, dropped, begin.elapsed());
        self.of.rows_dropped.add(dropped);
        Ok(left)
    }

    /// For which rows the filter is true.
    fn looked_up(&self, filter: &Arc<dyn PhysicalExpr>, keys: &RecordBatch) -> Result<BooleanBuffer> {
        if self.of.trial.scattered.load(Relaxed) || keys.num_rows() == 0 {
            return Ok(matches(filter, keys)?.values().clone());
        }
        let runs = partition(keys.columns())?.ranges();
        if runs.len() * 2 > keys.num_rows() {
            self.of.trial.scattered.store(true, Relaxed);
        }
        let first = UInt32Array::from_iter_values(runs.iter().map(|run| run.start as u32));
        let matches = matches(filter, &take_record_batch(keys, &first)?)?;
        let mut left = BooleanBufferBuilder::new(keys.num_rows());
        for (run, matches) in runs.iter().zip(matches.values()) {
            left.append_n(run.len(), matches);
        }
        Ok(left.finish())
    }
}

/// `bits` without those set bits whose place among the set ones is not in `left`.
fn spread(bits: &BooleanBuffer, left: &BooleanBuffer) -> BooleanBuffer {
    let mut spread = MutableBuffer::from_len_zeroed(bits.len().div_ceil(8));
    for (place, at) in bits.set_indices().enumerate() {
        if left.value(place) {
            set_bit(spread.as_slice_mut(), at);
        }
    }
    BooleanBuffer::new(spread.into(), 0, bits.len())
}

fn is_true(filter: &Arc<dyn PhysicalExpr>) -> bool {
    filter
        .downcast_ref::<Literal>()
        .is_some_and(|literal| literal.value() == &ScalarValue::Boolean(Some(true)))
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{ArrayRef, Int64Array};
    use datafusion::logical_expr::Operator;
    use datafusion::physical_expr::expressions::{DynamicFilterPhysicalExpr, binary, col, lit};

    use super::*;

    fn batch(rows: i64) -> RecordBatch {
        let value: ArrayRef = Arc::new(Int64Array::from_iter_values(0..rows));
        let key: ArrayRef = Arc::new(Int64Array::from_iter_values((0..rows).map(|row| row % 10)));
        RecordBatch::try_from_iter([("value", value), ("key", key)]).unwrap()
    }

    /// A filter on `key` that nobody has filled, and filters that hold it.
    fn unfilled() -> (Arc<DynamicFilterPhysicalExpr>, JoinFilters, Arc<Trial>) {
        let schema = batch(1).schema();
        let filter = Arc::new(DynamicFilterPhysicalExpr::new(vec![col("key", &schema).unwrap()], lit(true)));
        let trial = Arc::new(Trial::default());
        let of = JoinFilter {
            filter: Arc::clone(&filter) as _,
            trial: Arc::clone(&trial),
            rows_dropped: Count::new(),
        };
        (filter, JoinFilters::new(&[of], &[0, 1], &schema).unwrap(), trial)
    }

    fn compare(op: Operator, value: i64) -> Arc<dyn PhysicalExpr> {
        let schema = batch(1).schema();
        binary(col("key", &schema).unwrap(), op, lit(value), &schema).unwrap()
    }

    fn values(passing: Passing) -> Vec<i64> {
        let batch = passing.into_batch().unwrap();
        match batch.num_rows() {
            0 => Vec::new(),
            _ => batch.column(0).as_any().downcast_ref::<Int64Array>().unwrap().values().to_vec(),
        }
    }

    #[test]
    fn a_filter_counts_when_it_is_final() {
        let (filter, filters, _) = unfilled();
        assert_eq!(values(filters.narrow(Passing::All(batch(20)))).len(), 20);
        filter.update(compare(Operator::Eq, 3)).unwrap();
        assert_eq!(values(filters.narrow(Passing::All(batch(20)))).len(), 20, "it may change");
        filter.mark_complete();
        assert_eq!(values(filters.narrow(Passing::All(batch(20)))), [3, 13]);
    }

    #[test]
    fn rows_that_the_scan_ruled_out_stay_out() {
        let (filter, filters, _) = unfilled();
        filter.update(compare(Operator::Lt, 2)).unwrap();
        filter.mark_complete();
        let odd = BooleanBuffer::collect_bool(20, |row| row % 2 == 1);
        assert_eq!(values(filters.narrow(Passing::Some(batch(20), odd))), [1, 11]);
        let none = BooleanBuffer::collect_bool(20, |row| row == 5);
        assert!(matches!(filters.narrow(Passing::Some(batch(20), none)), Passing::None));
    }

    #[test]
    fn a_filter_that_costs_more_than_it_saves_is_given_up() {
        let trial = |dropped, took| {
            let trial = Trial::default();
            trial.count(ROWS_ON_TRIAL as usize, dropped, Duration::from_micros(took));
            trial.goes_on()
        };
        // 40 nanoseconds a row, of which one in two, one in ten, nine in ten are dropped.
        let took = ROWS_ON_TRIAL * 40 / 1000;
        assert!(!trial(ROWS_ON_TRIAL as usize / 2, took) && !trial(ROWS_ON_TRIAL as usize / 10, took));
        assert!(
            trial(ROWS_ON_TRIAL as usize / 10 * 9, took) && trial(ROWS_ON_TRIAL as usize / 10, took / 10)
        );

        let (filter, filters, trial) = unfilled();
        filter.update(compare(Operator::GtEq, 0)).unwrap();
        filter.mark_complete();
        assert_eq!(values(filters.narrow(Passing::All(batch(1000)))).len(), 1000);
        assert!(trial.goes_on(), "too few rows to tell");
        filters.narrow(Passing::All(batch(ROWS_ON_TRIAL as i64)));
        assert!(!trial.goes_on());
    }

    #[test]
    fn runs_of_equal_keys_are_looked_up_once() {
        let (filter, filters, trial) = unfilled();
        filter.update(compare(Operator::Lt, 2)).unwrap();
        filter.mark_complete();
        let clustered = |rows: i64| {
            let value: ArrayRef = Arc::new(Int64Array::from_iter_values(0..rows));
            let key: ArrayRef = Arc::new(Int64Array::from_iter_values((0..rows).map(|row| row / 3 % 10)));
            RecordBatch::try_from_iter([("value", value), ("key", key)]).unwrap()
        };
        assert_eq!(
            values(filters.narrow(Passing::All(clustered(40)))),
            [0, 1, 2, 3, 4, 5, 30, 31, 32, 33, 34, 35]
        );
        assert!(!trial.scattered.load(Relaxed));
        let odd = BooleanBuffer::collect_bool(40, |row| row % 2 == 1);
        assert_eq!(values(filters.narrow(Passing::Some(clustered(40), odd))), [1, 3, 5, 31, 33, 35]);
        assert_eq!(values(filters.narrow(Passing::All(batch(20)))), [0, 1, 10, 11]);
        assert!(trial.scattered.load(Relaxed));
    }

    #[test]
    fn rows_of_which_a_filter_cannot_be_computed_stay_in() {
        let (filter, filters, trial) = unfilled();
        let schema = batch(1).schema();
        let (one, key) = (lit(1i64), col("key", &schema).unwrap());
        let quotient = binary(one, Operator::Divide, key, &schema).unwrap();
        filter.update(binary(quotient, Operator::Gt, lit(0i64), &schema).unwrap()).unwrap();
        filter.mark_complete();
        assert_eq!(values(filters.narrow(Passing::All(batch(20)))).len(), 20);
        assert!(!trial.goes_on());
    }
}
