//! The totals of a partition, and their output as the state of a partial aggregation.
//!
//! If other queries aggregate the same slices in the same way, the totals of all rows of a slice are computed
//! once. Each query then subtracts the rows that do not pass its own filter, if these are few.

use std::sync::Arc;

use datafusion::arrow::array::{
    ArrayRef, AsArray, Decimal128Array, Float64Array, Int64Array, RecordBatch, RecordBatchOptions,
    UInt64Array,
};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Result, internal_err};
use datafusion::execution::memory_pool::MemoryReservation;

use super::Aggregation;
use super::groups::{Groups, Which, blocks};
use super::key_values::Fixed;
use super::slice_state::{SliceMaker, SliceState};
use crate::shared_slices::{Found, Part};
use crate::short_decimals::shortened;
use crate::slice_name::SliceName;

/// The totals of a partition.
pub(super) struct Totals {
    groups: Groups,
    /// The memory of groups and their states in the pool of the session.
    reservation: MemoryReservation,
    /// The states shared with other queries, if any, and their maker.
    shared: Option<(Part<Aggregation>, SliceMaker)>,
    /// A slice that another query is aggregating. Its state may be complete when the next batch has been
    /// added.
    deferred: Option<RecordBatch>,
}

/// The number of groups beyond which DataFusion's aggregation takes over, which handles millions.
const GROUPS_MAX: usize = 4096;

/// The unit in which memory is booked.
const RESERVED_BYTES: usize = 64 << 10;

/// The state of a slice is used if at most `1 / LEFT_OUT_TAKEN` of its rows do not pass. Otherwise
/// subtracting them would cost as much as adding the others.
const LEFT_OUT_TAKEN: usize = 3;

/// The state of a slice is made for other queries if at most `1 / LEFT_OUT_MADE` of its rows do not pass:
/// these rows are added and subtracted again.
const LEFT_OUT_MADE: usize = 8;

impl Totals {
    pub(super) fn new(
        of: Arc<Aggregation>,
        reservation: MemoryReservation,
        part: Option<Part<Aggregation>>,
    ) -> Self {
        let maker = || SliceMaker::new(Arc::clone(&of), reservation.new_empty());
        let shared = part.map(|part| (part, maker()));
        Totals { groups: Groups::new(of), reservation, shared, deferred: None }
    }

    /// Adds the marked rows of a batch, and returns those that DataFusion's aggregation must take: 64 bits
    /// may not hold an intermediate value, there are many groups, or memory is refused. One batch may be left
    /// for the next call or for [`Self::add_deferred`].
    pub(super) fn add(&mut self, batch: RecordBatch) -> Result<Vec<RecordBatch>> {
        let batch = self.groups.of.with_wide_keys(batch)?;
        let mut refused = Vec::new();
        if self.is_in_work(&batch) {
            refused.extend(self.add_deferred()?);
            self.deferred = Some(batch);
        } else {
            refused.extend(self.add_now(batch)?);
            if refused.is_empty() {
                refused.extend(self.add_deferred()?);
            }
        }
        if !refused.is_empty() {
            refused.extend(self.deferred.take());
        }
        Ok(refused)
    }

    /// Adds the deferred batch, if there is one, and returns those of its rows that DataFusion's aggregation
    /// must take.
    pub(super) fn add_deferred(&mut self) -> Result<Option<RecordBatch>> {
        self.deferred.take().map_or(Ok(None), |batch| self.add_now(batch))
    }

    fn add_now(&mut self, batch: RecordBatch) -> Result<Option<RecordBatch>> {
        if !self.groups.of.reads(&batch) {
            return Ok(Some(batch));
        }
        if self.add_slice(&batch)? {
            return Ok(None);
        }
        let (added, rows) = (self.add_rows(&batch)?, batch.num_rows());
        Ok((added < rows).then(|| batch.slice(added, rows - added)))
    }

    /// The name of a batch's slice, and the number of its rows that do not pass. `None` if the batch is not a
    /// slice, or if using its state would take longer than adding its rows.
    fn slice_of(&self, batch: &RecordBatch) -> Option<(SliceName, usize)> {
        let name = SliceName::of(batch)?;
        let rows = batch.num_rows();
        let left_out = rows - batch.column(self.groups.of.marks).as_boolean().true_count();
        (left_out <= rows / LEFT_OUT_TAKEN && self.groups.count() <= GROUPS_MAX).then_some((name, left_out))
    }

    /// Returns whether another query is aggregating this slice.
    fn is_in_work(&self, batch: &RecordBatch) -> bool {
        let Some((part, _)) = &self.shared else { return false };
        self.groups.of.reads(batch) && self.slice_of(batch).is_some_and(|(name, _)| part.is_in_work(name))
    }

    /// Adds rows one by one. Returns the number of rows of the batch that were processed.
    fn add_rows(&mut self, batch: &RecordBatch) -> Result<usize> {
        let Some(growth) = self.groups.of.growth(batch) else { return Ok(0) };
        self.groups.expect(&growth);
        let nulls = self.groups.of.nulls(batch);
        for block in blocks(batch, &nulls) {
            if self.groups.count() > GROUPS_MAX {
                return Ok(block.first);
            }
            if self.groups.choose(block, Which::Marked) {
                let long = self.groups.long_bytes(block);
                if !self.reserve(long) {
                    return Ok(block.first);
                }
                self.groups.add(block)?;
            }
        }
        Ok(batch.num_rows())
    }

    /// Adds the marked rows of a batch with the state of its slice. Returns false if nothing was added,
    /// because the batch is not a slice that other queries aggregate too, or because that would take longer.
    fn add_slice(&mut self, batch: &RecordBatch) -> Result<bool> {
        if self.shared.is_none() {
            return Ok(false);
        }
        let Some((name, left_out)) = self.slice_of(batch) else { return Ok(false) };
        let Some((part, maker)) = &mut self.shared else { return Ok(false) };
        let state = match part.find(name, left_out <= batch.num_rows() / LEFT_OUT_MADE) {
            Found::State(state) => state,
            Found::Wanted(claim) => match maker.state(batch)? {
                Some(state) => claim.made(state),
                None => return Ok(false),
            },
            Found::Nothing => return Ok(false),
        };
        self.add_state(batch, &state, left_out > 0)
    }

    /// Adds the state of a slice and subtracts the unmarked rows. Returns false if there is no memory for its
    /// keys.
    fn add_state(&mut self, slice: &RecordBatch, state: &SliceState, some_left_out: bool) -> Result<bool> {
        // The state has all keys of the rows that are subtracted.
        let long = self.groups.keys.long_bytes(slice.columns(), &state.examples);
        if !self.reserve(long) {
            return Ok(false);
        }
        self.groups.merge(slice, state)?;
        if some_left_out {
            self.groups.expect(&state.growth);
            let nulls = self.groups.of.nulls(slice);
            for block in blocks(slice, &nulls) {
                if self.groups.choose(block, Which::Others) {
                    self.groups.take_away(block)?;
                }
            }
        }
        Ok(true)
    }

    /// Books the current memory, and this many bytes more. Returns false if the pool refuses.
    fn reserve(&self, more: usize) -> bool {
        let bytes = (self.groups.bytes() + more).next_multiple_of(RESERVED_BYTES);
        // A request to the pool takes a lock that all queries share.
        bytes == self.reservation.size() || self.reservation.try_resize(bytes).is_ok()
    }

    /// The state of the aggregation, one row per group, and its memory.
    pub(super) fn finish(mut self) -> Result<(RecordBatch, MemoryReservation)> {
        self.groups.settle();
        let of = Arc::clone(&self.groups.of);
        let all = 0..self.groups.rows.len() as u32;
        let seen: Vec<u32> = match of.keys.is_empty() {
            true => all.collect(),
            false => all.filter(|group| self.groups.rows[*group as usize] > 0).collect(),
        };
        let types: Vec<DataType> = of.schema.fields().iter().map(|field| field.data_type().clone()).collect();
        let (key_types, state_types) = types.split_at(of.keys.len());
        let mut arrays = self.groups.keys.columns(key_types, &seen)?;
        for (state, data_type) in of.states.iter().zip(state_types) {
            arrays.push(match state {
                super::State::Count(set) => {
                    counts(seen.iter().map(|g| Some(self.valid(*set, *g))), data_type)?
                }
                super::State::AverageCount(set) => {
                    let valid = seen.iter().map(|group| self.valid(Some(*set), *group));
                    counts(valid.map(|count| (count > 0).then_some(count)), data_type)?
                }
                super::State::Sum(sum) => self.sums(*sum, &seen, data_type)?,
                super::State::Extreme(extreme) => self.extremes(*extreme, &seen, data_type)?,
            });
        }
        let options = RecordBatchOptions::new().with_row_count(Some(seen.len()));
        let state = RecordBatch::try_new_with_options(Arc::clone(&of.schema), arrays, &options)?;
        Ok((state, self.reservation))
    }

    /// The rows of a group without a null in any of a set of columns; all rows if there is no set.
    fn valid(&self, set: Option<usize>, group: u32) -> i64 {
        let (groups, group) = (&self.groups, group as usize);
        let nulls = set.map_or(0, |set| groups.with_null[group * groups.of.column_sets.len() + set]);
        groups.rows[group] - nulls
    }

    fn sums(&self, sum: usize, groups: &[u32], data_type: &DataType) -> Result<ArrayRef> {
        let Groups { of, earlier, .. } = &self.groups;
        let set = of.sums[sum].column_set;
        let sums = groups.iter().map(|group| {
            let total = earlier[*group as usize * of.sums.len() + sum];
            (self.valid(Some(set), *group) > 0).then_some(total)
        });
        Ok(match data_type {
            DataType::Decimal128(precision, scale) => {
                Arc::new(sums.collect::<Decimal128Array>().with_precision_and_scale(*precision, *scale)?)
            }
            // DataFusion's own partial sums of integers wrap around. Sums that fail on overflow ask for 128
            // bits.
            DataType::Int64 => Arc::new(sums.map(|sum| sum.map(|sum| sum as i64)).collect::<Int64Array>()),
            // The sum of floating-point numbers that are integers, rounded once.
            DataType::Float64 => {
                Arc::new(sums.map(|sum| sum.map(|sum| sum as f64)).collect::<Float64Array>())
            }
            other => return internal_err!("a sum of type {other}"),
        })
    }

    fn extremes(&self, extreme: usize, groups: &[u32], data_type: &DataType) -> Result<ArrayRef> {
        let Groups { of, extremes, .. } = &self.groups;
        let set = of.extremes[extreme].column_set;
        let (mut values, mut numbers) = (Fixed::default(), Vec::with_capacity(groups.len()));
        values.push(None);
        for (before, group) in groups.iter().enumerate() {
            let value = extremes[*group as usize * of.extremes.len() + extreme];
            values.push(Some(value as u64));
            let has_value = self.valid(Some(set), *group) > 0;
            numbers.push(if has_value { before as u32 + 1 } else { 0 });
        }
        let short = shortened(data_type).unwrap_or_else(|| data_type.clone());
        Ok(cast(&values.array(&short, &numbers)?, data_type)?)
    }
}

fn counts(counts: impl Iterator<Item = Option<i64>>, data_type: &DataType) -> Result<ArrayRef> {
    Ok(match data_type {
        DataType::UInt64 => Arc::new(counts.map(|count| Some(count? as u64)).collect::<UInt64Array>()),
        DataType::Int64 => Arc::new(counts.collect::<Int64Array>()),
        other => return internal_err!("a count of type {other}"),
    })
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::BooleanArray;
    use datafusion::arrow::datatypes::{Field, Int64Type, Schema};
    use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, UnboundedMemoryPool};
    use datafusion::physical_expr::expressions::col;
    use datafusion::physical_plan::metrics::Count;
    use fastrand::Rng;

    use super::*;
    use crate::Function;
    use crate::shared_slices::{Claim, Room, SharedSlices};
    use crate::short_decimals::of_scan;

    #[derive(Debug)]
    struct Ample;

    impl Room for Ample {
        fn resize(&self, _: u64) -> bool {
            true
        }
    }

    /// Queries that sum up one column.
    struct World {
        shared: Arc<SharedSlices<Aggregation>>,
        aggregation: Arc<Aggregation>,
        pool: Arc<dyn MemoryPool>,
    }

    impl World {
        fn new() -> Self {
            let schema = Schema::new(vec![Field::new("a", DataType::Int64, true)]);
            let sums = Arc::new(Schema::new(vec![Field::new("sum", DataType::Int64, true)]));
            let functions = [(Function::Sum, col("a", &schema).unwrap())];
            let aggregation = Aggregation::new(Vec::new(), &functions, &schema, sums).unwrap().unwrap();
            let pool = Arc::new(UnboundedMemoryPool::default());
            World { shared: Arc::default(), aggregation: Arc::new(aggregation), pool }
        }

        fn part(&self) -> Part<Aggregation> {
            let member = self.shared.join(&self.aggregation, &(Arc::new(Ample) as _));
            Part { member, taken: Count::new(), made: Count::new() }
        }

        fn query(&self) -> Totals {
            let reservation = MemoryConsumer::new("test").register(&self.pool);
            Totals::new(Arc::clone(&self.aggregation), reservation, Some(self.part()))
        }
    }

    /// Slice number `slice`, of which all rows are marked.
    fn slice(slice: u64, values: [i64; 4]) -> RecordBatch {
        let values: ArrayRef = Arc::new(Int64Array::from(values.to_vec()));
        let marks: ArrayRef = Arc::new(BooleanArray::from(vec![true; 4]));
        let batch = RecordBatch::try_from_iter([("a", values), ("marks", marks)]).unwrap();
        let noted = name(slice).noted(&batch.schema(), 4);
        batch.with_schema(noted).unwrap()
    }

    fn name(slice: u64) -> SliceName {
        SliceName([1, 2, 3, slice])
    }

    fn claimed(part: &Part<Aggregation>, slice: u64) -> Claim<'_, Aggregation> {
        match part.find(name(slice), true) {
            Found::Wanted(claim) => claim,
            _ => panic!("others may want slice {slice}"),
        }
    }

    fn state(sum: i128) -> SliceState {
        SliceState {
            examples: vec![0],
            rows: vec![4],
            with_null: vec![0],
            sums: vec![sum],
            growth: vec![sum],
        }
    }

    fn sum(totals: Totals) -> i64 {
        totals.finish().unwrap().0.column(0).as_primitive::<Int64Type>().value(0)
    }

    #[test]
    fn a_slice_that_another_query_adds_up_is_taken_when_that_is_done() {
        let world = World::new();
        let (other, mut totals) = (world.part(), world.query());
        let claim = claimed(&other, 1);
        assert!(totals.add(slice(1, [1, 2, 3, 4])).unwrap().is_empty());
        // A value that differs from the rows' sum, so that the test can tell them apart.
        claim.made(state(1000));
        assert!(totals.add(slice(2, [1, 1, 1, 1])).unwrap().is_empty());
        assert_eq!(totals.add_deferred().unwrap(), None, "nothing is left");
        assert_eq!(sum(totals), 1004);
    }

    #[test]
    fn a_slice_that_stays_in_work_is_added_row_by_row() {
        let world = World::new();
        let (other, mut totals) = (world.part(), world.query());
        let _claims = [1, 2, 3].map(|slice| claimed(&other, slice));
        for (number, values) in [(1, [1; 4]), (2, [10; 4]), (4, [100; 4]), (3, [1000; 4])] {
            assert!(totals.add(slice(number, values)).unwrap().is_empty());
        }
        assert_eq!(totals.add_deferred().unwrap(), None);
        assert_eq!(sum(totals), 4444);
    }

    #[test]
    fn what_was_left_is_handed_over_with_what_cannot_be_added() {
        let world = World::new();
        let (other, mut totals) = (world.part(), world.query());
        let _claim = claimed(&other, 1);
        let (left, large) = (slice(1, [1, 2, 3, 4]), slice(2, [i64::MAX; 4]));
        assert!(totals.add(left.clone()).unwrap().is_empty());
        assert_eq!(totals.add(large.clone()).unwrap(), [large, left]);
        assert_eq!(totals.add_deferred().unwrap(), None);
    }

    /// A column of a scan, in its type and in as few bits as hold the values.
    fn column(rng: &mut Rng, of: &DataType) -> (ArrayRef, ArrayRef) {
        let (bits, of_bits) =
            [(8, DataType::Int8), (16, DataType::Int16), (32, DataType::Int32)][rng.usize(..3)].clone();
        let range = if rng.bool() { -3..3 } else { -(1 << (bits - 1))..1 << (bits - 1) };
        let value = |rng: &mut Rng| (rng.u8(..5) > 0).then(|| rng.i64(range.clone()));
        let wide: ArrayRef = Arc::new((0..50).map(|_| value(rng)).collect::<Int64Array>());
        let narrow = cast(&wide, &of_bits);
        let short = shortened(of).unwrap_or_else(|| of.clone());
        (of_scan(&wide, &short).unwrap(), narrow.unwrap())
    }

    #[test]
    fn numbers_in_fewer_bits_add_up_to_the_same() {
        let (key, value) = (DataType::Decimal128(10, 2), DataType::Decimal128(15, 2));
        let types = [&key, &DataType::Date32, &value, &DataType::Int64];
        let names = ["key", "day", "value", "integer"];
        let fields = names.iter().zip(types).map(|(name, of)| Field::new(*name, of.clone(), true));
        let scan = Schema::new(fields.collect::<Vec<_>>());
        let of = |name: &str| col(name, &scan).unwrap();
        let functions = [
            (Function::Sum, of("value")),
            (Function::Count, of("integer")),
            (Function::Sum, of("integer")),
            (Function::Least, of("day")),
            (Function::Greatest, of("value")),
        ];
        let states =
            [DataType::Decimal128(25, 2), DataType::Int64, DataType::Int64, DataType::Date32, value.clone()];
        let mut rng = Rng::with_seed(5);
        for keys in [vec![], vec![0], vec![1], vec![0, 1], vec![3]] {
            let of_state = keys.iter().map(|key| types[*key]).chain(&states);
            let state =
                Schema::new(of_state.map(|of| Field::new("any", of.clone(), true)).collect::<Vec<_>>());
            let aggregation = Aggregation::new(keys.clone(), &functions, &scan, Arc::new(state));
            let aggregation = Arc::new(aggregation.unwrap().unwrap());
            let pool: Arc<dyn MemoryPool> = Arc::new(UnboundedMemoryPool::default());
            let totals = || {
                let reservation = MemoryConsumer::new("test").register(&pool);
                Totals::new(Arc::clone(&aggregation), reservation, None)
            };
            let (mut of_wide, mut of_narrow) = (totals(), totals());
            for _ in 0..40 {
                let columns = types.map(|of| column(&mut rng, of));
                let marks: ArrayRef = Arc::new((0..50).map(|_| Some(rng.bool())).collect::<BooleanArray>());
                let add = |totals: &mut Totals, pick: &dyn Fn(&(ArrayRef, ArrayRef)) -> ArrayRef| {
                    let arrays = names.iter().copied().zip(columns.iter().map(pick));
                    let arrays = arrays.chain([("marks", Arc::clone(&marks))]);
                    let batch = RecordBatch::try_from_iter_with_nullable(
                        arrays.map(|(name, array)| (name, array, true)),
                    );
                    assert!(totals.add(batch.unwrap()).unwrap().is_empty());
                };
                add(&mut of_wide, &|(wide, _)| Arc::clone(wide));
                // Slices differ in the number of bits they need.
                let some = rng.u8(..16);
                add(&mut of_narrow, &|(wide, narrow)| {
                    let at = columns.iter().position(|(of, _)| Arc::ptr_eq(of, wide)).unwrap();
                    Arc::clone(if some >> at & 1 == 1 { narrow } else { wide })
                });
            }
            assert_eq!(of_narrow.finish().unwrap().0, of_wide.finish().unwrap().0, "by {keys:?}");
        }
    }
}
