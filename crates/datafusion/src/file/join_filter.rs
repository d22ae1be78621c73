//! Filters that joins fill. A hash join that has its build side knows which keys of the other side can match,
//! and tells the scans below. Rows that cannot match are dropped here, before they are copied, sent to
//! another partition and looked up.
//!
//! Results do not depend on this, because the join looks up every remaining row. So a filter is used only
//! when it is final. Rows for which it cannot be computed are kept. Numbers that are equal but differ in
//! bits, such as zeros of both signs, are kept, too. A filter that drops too few rows for its cost is
//! abandoned.
//!
//! In a table that is clustered by the key, rows with equal keys follow each other, and each key is looked up
//! once. In other tables the filter's answer about an integer is [kept](crate::file::known_keys).

use std::fmt;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use datafusion::arrow::array::{BooleanArray, BooleanBufferBuilder, RecordBatch, UInt32Array};
use datafusion::arrow::buffer::BooleanBuffer;
use datafusion::arrow::compute::{filter_record_batch, partition, take_record_batch};
use datafusion::arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::tree_node::TreeNode;
use datafusion::common::{Result, ScalarValue};
use datafusion::execution::memory_pool::MemoryPool;
use datafusion::physical_expr::expressions::{DynamicFilterTracking, Literal};
use datafusion::physical_expr::utils::{collect_columns, reassign_expr_columns};
use datafusion::physical_expr::{PhysicalExpr, split_conjunction};
use datafusion::physical_expr_common::physical_expr::snapshot_physical_expr;
use datafusion::physical_plan::metrics::Count;

use crate::file::conditions::spread;
use crate::file::known_keys::{Asked, Bounds, KnownKeys, keeps};
use crate::file::packed::unpacked_batch;
use crate::file::row_filter::Passing;
use crate::key_filter::InKeys;

/// Rows after which a filter is compared with its cost.
const ROWS_ON_TRIAL: u64 = 64 << 10;

/// Further rows of trial, at most, where the filter's answers are kept. After that, few of its keys are new.
const MORE_ROWS_ON_TRIAL: u64 = 1 << 20;

/// Cost of a row that a join drops, in nanoseconds: the row is copied, sent to another partition and looked
/// up. Measured: 40 with TPC-H Q5, 100 with Q18.
const COST_OF_A_ROW: u64 = 50;

/// Answers are kept as soon as the tested rows reach one `ROWS_FOR_KEYS`th of the possible keys. For fewer
/// rows it is not worth the memory.
const ROWS_FOR_KEYS: u64 = 64;

/// The benefit of a filter, in all files of a partition.
#[derive(Debug, Default)]
pub(crate) struct Trial {
    tested: AtomicU64,
    dropped: AtomicU64,
    /// Rows for which the filter was evaluated.
    asked: AtomicU64,
    cost_of_asking: Cost,
    cost_of_a_test: Cost,
    given_up: AtomicBool,
    /// Whether rows with equal keys do not follow each other.
    scattered: AtomicBool,
    /// The pool that grants the memory for keys.
    pool: Option<Arc<dyn MemoryPool>>,
    /// The filter's answers; `None` if it has too many keys.
    known: OnceLock<Option<KnownKeys>>,
}

/// The least cost of a row in any batch, in picoseconds. In other batches the thread may have been
/// interrupted.
#[derive(Debug, Default)]
struct Cost(AtomicU64);

impl Cost {
    fn note(&self, rows: usize, took: Duration) {
        let Some(cost) = (took.as_nanos() as u64 * 1000).checked_div(rows as u64) else { return };
        let lower = |least: u64| (least == 0 || cost.max(1) < least).then_some(cost.max(1));
        let _ = self.0.fetch_update(Relaxed, Relaxed, lower);
    }

    fn of(&self, rows: u64) -> u64 {
        rows * self.0.load(Relaxed)
    }
}

impl Trial {
    /// Creates the trial of a filter whose keys take their memory from `pool`.
    pub(crate) fn new(pool: Arc<dyn MemoryPool>) -> Self {
        Trial { pool: Some(pool), ..Trial::default() }
    }

    fn goes_on(&self) -> bool {
        !self.given_up.load(Relaxed)
    }

    fn give_up(&self) {
        self.given_up.store(true, Relaxed);
    }

    /// Returns the kept answers of the filter, if keeping them is worth it.
    fn known(&self, bounds: Option<Bounds>) -> Option<&KnownKeys> {
        let (bounds, pool) = (bounds?, self.pool.as_ref()?);
        if let Some(known) = self.known.get() {
            return known.as_ref();
        }
        let keys = bounds.keys()?;
        if self.tested.load(Relaxed) < keys / ROWS_FOR_KEYS {
            return None;
        }
        self.known.get_or_init(|| KnownKeys::new(bounds, pool)).as_ref()
    }

    /// Counts a batch with `tested` tested rows, of which `dropped` were dropped.
    fn count(&self, tested: usize, dropped: usize, asked: Asked, took: Duration) {
        self.cost_of_asking.note(asked.rows, asked.took);
        self.cost_of_a_test.note(tested, took.saturating_sub(asked.took));
        let add = |to: &AtomicU64, rows: usize| to.fetch_add(rows as u64, Relaxed) + rows as u64;
        let (dropped, tested) = (add(&self.dropped, dropped), add(&self.tested, tested));
        let spent = self.cost_of_asking.of(add(&self.asked, asked.rows)) + self.cost_of_a_test.of(tested);
        let more = self.known.get().and_then(Option::as_ref).map_or(0, KnownKeys::keys);
        if tested >= ROWS_ON_TRIAL + more.min(MORE_ROWS_ON_TRIAL) && spent > dropped * COST_OF_A_ROW * 1000 {
            self.give_up();
        }
    }
}

/// A filter in terms of a file, and its trial.
#[derive(Clone, Debug)]
pub(crate) struct JoinFilter {
    pub(crate) filter: Arc<dyn PhysicalExpr>,
    pub(crate) trial: Arc<Trial>,
    pub(crate) rows_dropped: Count,
}

/// The filters of one variant of reading row groups.
#[derive(Default)]
pub(crate) struct JoinFilters(Vec<OverBatch>);

/// A filter in terms of the scan's batches.
struct OverBatch {
    of: JoinFilter,
    /// The positions of its columns in a batch. `schema` has their requested types.
    columns: Vec<usize>,
    schema: SchemaRef,
    /// Over `columns` alone.
    filter: Arc<dyn PhysicalExpr>,
    /// Whether answers can be kept: there is one column, of integers, and the answer depends on nothing else.
    kept: bool,
    /// The final filter, once it is final; `None` if it is always true.
    settled: OnceLock<Option<Settled>>,
}

/// A filter that is final.
struct Settled {
    filter: Arc<dyn PhysicalExpr>,
    /// The keys for which it may be true, if they are integers.
    bounds: Option<Bounds>,
    /// Whether an evaluation costs no more than a kept answer.
    cheap: bool,
}

impl fmt::Debug for JoinFilters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|one| &one.filter)).finish()
    }
}

impl JoinFilters {
    /// Selects the filters whose columns are in the batches of a scan, which has `roots` of the file's
    /// columns.
    pub(crate) fn new(filters: &[JoinFilter], roots: &[usize], batch_schema: &SchemaRef) -> Result<Self> {
        let mut over_batch = Vec::new();
        for of in filters {
            let columns = collect_columns(&of.filter);
            let columns: Option<Vec<usize>> =
                columns.iter().map(|column| roots.binary_search(&column.index()).ok()).collect();
            let Some(mut columns) = columns.filter(|columns| !columns.is_empty()) else { continue };
            columns.sort_unstable();
            let schema = Arc::new(batch_schema.project(&columns)?);
            if schema.fields().iter().any(|field| equal_otherwise(field.data_type())) {
                continue;
            }
            let filter = reassign_expr_columns(Arc::clone(&of.filter), &schema)?;
            let kept =
                matches!(&schema.fields()[..], [key] if keeps(key.data_type())) && !has_constant(&of.filter)?;
            let settled = OnceLock::new();
            over_batch.push(OverBatch { of: of.clone(), columns, schema, filter, kept, settled });
        }
        Ok(JoinFilters(over_batch))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Narrows rows that passed the scan's own filter.
    pub(crate) fn narrow(&self, mut passing: Passing) -> Passing {
        for filter in &self.0 {
            passing = filter.narrow(passing);
        }
        passing
    }
}

/// Returns whether a filter contains constants in place of columns: values of the file's folder, or of a
/// column that the file lacks. Kept answers are for all files, so they must not depend on such values.
fn has_constant(filter: &Arc<dyn PhysicalExpr>) -> Result<bool> {
    filter.exists(|part| Ok(part.is::<Literal>()))
}

/// Returns whether a join's filter may miss equal values of this type. It compares bits with those of the
/// build side, and finds nulls only in arrays that count them, but some joins take nulls to be equal.
pub(crate) fn equal_otherwise(of: &DataType) -> bool {
    match of {
        DataType::Null | DataType::Dictionary(..) => true,
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
        Passing::of(batch, left)
    }

    /// Returns the filter if it is final, not always true, and worth its cost.
    fn usable(&self) -> Option<&Settled> {
        if !self.of.trial.goes_on() {
            return None;
        }
        if self.settled.get().is_none() {
            if !matches!(DynamicFilterTracking::classify(&self.filter), DynamicFilterTracking::AllComplete) {
                return None;
            }
            let settled = snapshot_physical_expr(Arc::clone(&self.filter)).ok();
            let settled = settled.filter(|filter| !is_true(filter)).map(|filter| {
                // Bounds and lists beside a set of keys add no information about a row.
                let keys = split_conjunction(&filter).into_iter().find(|conjunct| conjunct.is::<InKeys>());
                if let Some(filter) = keys.cloned() {
                    return Settled { filter, bounds: None, cheap: true };
                }
                let bounds = if self.kept { Bounds::of(&filter) } else { None };
                Settled { filter, bounds, cheap: false }
            });
            let _ = self.settled.set(settled);
        }
        self.settled.get()?.as_ref()
    }

    /// Returns the rows of the batch, within `bits`, that the filter keeps.
    fn left(
        &self,
        filter: &Settled,
        batch: &RecordBatch,
        bits: Option<&BooleanBuffer>,
    ) -> Result<BooleanBuffer> {
        let begin = Instant::now();
        let keys = batch.project(&self.columns)?;
        // Rows that are out already are neither copied nor looked up.
        let keys = match bits {
            Some(bits) => filter_record_batch(&keys, &BooleanArray::new(bits.clone(), None))?,
            None => keys,
        };
        let keys = unpacked_batch(keys, &self.schema)?;
        let (left, asked) = self.looked_up(filter, &keys)?;
        let left = match bits {
            Some(bits) => spread(bits, &left),
            None => left,
        };
        let tested = keys.num_rows();
        let dropped = tested - left.count_set_bits();
        self.of.trial.count(tested, dropped, asked, begin.elapsed());
        self.of.rows_dropped.add(dropped);
        Ok(left)
    }

    /// Returns the rows for which the filter is true.
    fn looked_up(&self, settled: &Settled, keys: &RecordBatch) -> Result<(BooleanBuffer, Asked)> {
        let filter = &settled.filter;
        if keys.num_rows() == 0 || settled.cheap {
            return Asked::about(filter, keys);
        }
        if self.of.trial.scattered.load(Relaxed) {
            return match self.of.trial.known(settled.bounds) {
                Some(known) => known.matches(filter, keys),
                None => Asked::about(filter, keys),
            };
        }
        let runs = partition(keys.columns())?.ranges();
        if runs.len() * 2 > keys.num_rows() {
            self.of.trial.scattered.store(true, Relaxed);
        }
        let first = UInt32Array::from_iter_values(runs.iter().map(|run| run.start as u32));
        let (matches, asked) = Asked::about(filter, &take_record_batch(keys, &first)?)?;
        let mut left = BooleanBufferBuilder::new(keys.num_rows());
        for (run, matches) in runs.iter().zip(&matches) {
            left.append_n(run.len(), matches);
        }
        Ok((left.finish(), asked))
    }
}

/// Returns whether a filter is always true.
pub(crate) fn is_true(filter: &Arc<dyn PhysicalExpr>) -> bool {
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

    /// A filter on `key` that is not filled, and filters that hold it.
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
            let asked = Asked { rows: ROWS_ON_TRIAL as usize, took: Duration::from_micros(took) };
            trial.count(asked.rows, dropped, asked, asked.took);
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
