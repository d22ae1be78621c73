//! Sums and counts of every group, and how they leave as the state of a partial aggregation.

use std::sync::Arc;

use datafusion::arrow::array::{
    ArrayRef, AsArray, Decimal128Array, Int64Array, RecordBatch, RecordBatchOptions, UInt64Array,
};
use datafusion::arrow::buffer::NullBuffer;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Result, internal_err};
use datafusion::execution::memory_pool::MemoryReservation;

use super::Aggregation;
use super::arithmetic::{BLOCK, Computed, Rows, Values};
use super::keys::Keys;

/// What a partition has added up.
pub(super) struct Totals {
    of: Arc<Aggregation>,
    keys: Keys,
    /// By group: its rows.
    rows: Vec<i64>,
    /// By group and set of columns: its rows with a null in one of them.
    with_null: Vec<i64>,
    /// By group and sum: what was added lately.
    recent: Vec<i64>,
    /// By group and sum: what was added before.
    earlier: Vec<i128>,
    /// By sum: how large anything in `recent` can be.
    grown: Vec<i128>,
    scratch: Scratch,
    /// The memory that groups and their states have in the pool of the session.
    reservation: MemoryReservation,
}

/// With more groups DataFusion's aggregation takes over, which knows what to do when there are millions.
const GROUPS_MAX: usize = 4096;

/// Memory is booked in multiples of this.
const RESERVED_BYTES: usize = 64 << 10;

/// Room that is used again for every block.
struct Scratch {
    values: Values,
    chosen: Vec<u32>,
    groups: Vec<u32>,
    positions: Vec<u32>,
    valid: Vec<u32>,
    valid_groups: Vec<u32>,
}

impl Totals {
    pub(super) fn new(of: Arc<Aggregation>, reservation: MemoryReservation) -> Self {
        let scratch = Scratch {
            values: of.program.values(),
            chosen: Vec::with_capacity(BLOCK),
            groups: Vec::with_capacity(BLOCK),
            positions: Vec::with_capacity(BLOCK),
            valid: Vec::with_capacity(BLOCK),
            valid_groups: Vec::with_capacity(BLOCK),
        };
        let mut totals = Totals {
            keys: Keys::new(&of.keys),
            rows: Vec::new(),
            with_null: Vec::new(),
            recent: Vec::new(),
            earlier: Vec::new(),
            grown: vec![0; of.sums.len()],
            scratch,
            reservation,
            of,
        };
        totals.grow();
        totals
    }

    /// How many groups there are.
    fn groups(&self) -> usize {
        self.keys.groups()
    }

    /// Adds the marked rows of a batch and returns how many of its rows were looked at. The rest is for somebody else:
    /// 64 bits may not hold what has to be computed for it, there are many groups by now, or no memory for more.
    pub(super) fn add(&mut self, batch: &RecordBatch) -> Result<usize> {
        if !self.of.reads(batch) {
            return Ok(0);
        }
        let Some(magnitudes) = self.of.program.magnitudes(batch) else { return Ok(0) };
        let rows = batch.num_rows() as i128;
        let grows = |step: usize| magnitudes[step] * rows;
        if self.of.sums.iter().any(|sum| grows(sum.step) > i128::from(i64::MAX)) {
            return Ok(0);
        }
        let full = |(sum, grown): (&super::Sum, &i128)| grown + grows(sum.step) > i128::from(i64::MAX);
        if self.of.sums.iter().zip(&self.grown).any(full) {
            self.settle();
        }
        self.of.sums.iter().zip(&mut self.grown).for_each(|(sum, grown)| *grown += grows(sum.step));
        let nulls: Vec<_> = self.of.column_sets.iter().map(|columns| nulls_of(batch, columns)).collect();
        for first in (0..batch.num_rows()).step_by(BLOCK) {
            let rows = BLOCK.min(batch.num_rows() - first);
            if self.groups() > GROUPS_MAX || !self.add_block(batch, &nulls, first, rows)? {
                return Ok(first);
            }
        }
        Ok(batch.num_rows())
    }

    /// Books what is in memory, and this many bytes more; false if the pool refuses.
    fn reserve(&self, more: usize) -> bool {
        let states = (self.rows.capacity() + self.with_null.capacity() + self.recent.capacity())
            * size_of::<i64>()
            + self.earlier.capacity() * size_of::<i128>();
        let bytes = (self.keys.bytes() + states + more).next_multiple_of(RESERVED_BYTES);
        // Asking takes a lock that all queries share.
        bytes == self.reservation.size() || self.reservation.try_resize(bytes).is_ok()
    }

    /// Moves what was added lately to what was added before.
    fn settle(&mut self) {
        for (earlier, recent) in self.earlier.iter_mut().zip(&mut self.recent) {
            *earlier += i128::from(std::mem::take(recent));
        }
        self.grown.fill(0);
    }

    fn grow(&mut self) {
        let groups = self.keys.groups();
        if groups > self.rows.len() || self.rows.is_empty() {
            self.rows.resize(groups, 0);
            self.with_null.resize(groups * self.of.column_sets.len(), 0);
            self.recent.resize(groups * self.of.sums.len(), 0);
            self.earlier.resize(groups * self.of.sums.len(), 0);
        }
    }

    /// Adds some rows; false if there is no memory for what they may add.
    fn add_block(
        &mut self,
        batch: &RecordBatch,
        nulls: &SetNulls,
        first: usize,
        rows: usize,
    ) -> Result<bool> {
        let marks = batch.column(self.of.marks).as_boolean().values().slice(first, rows);
        let Scratch { chosen, .. } = &mut self.scratch;
        chosen.clear();
        for (from, to) in marks.set_slices() {
            chosen.extend((first + from) as u32..(first + to) as u32);
        }
        if chosen.is_empty() {
            return Ok(true);
        }
        let long = self.keys.long_bytes(batch.columns(), chosen);
        if !self.reserve(long) {
            return Ok(false);
        }
        let Scratch { chosen, groups, .. } = &mut self.scratch;
        self.keys.number(batch.columns(), chosen, groups)?;
        self.grow();
        self.scratch.groups.iter().for_each(|group| self.rows[*group as usize] += 1);
        if self.of.sums.is_empty() && self.of.column_sets.is_empty() {
            return Ok(true);
        }
        self.add_values(batch, nulls, first, rows);
        Ok(true)
    }

    /// Adds the values of the chosen rows, whose groups are known. Where most rows are chosen it is faster to
    /// compute all than to pick them.
    fn add_values(&mut self, batch: &RecordBatch, nulls: &SetNulls, first: usize, rows: usize) {
        let of = Arc::clone(&self.of);
        let Scratch { values, chosen, groups, positions, valid, valid_groups } = &mut self.scratch;
        positions.clear();
        let block = if chosen.len() > rows / 2 {
            positions.extend(chosen.iter().map(|row| row - first as u32));
            Rows::Run(first, rows)
        } else {
            positions.extend(0..chosen.len() as u32);
            Rows::Chosen(chosen)
        };
        let values = of.program.compute(batch, block, values);
        let complete: Vec<usize> =
            (0..of.sums.len()).filter(|sum| nulls[of.sums[*sum].column_set].is_none()).collect();
        add_all(&mut self.recent, &of, &complete, &values, positions, groups);
        let with_nulls = nulls.iter().enumerate().filter_map(|(set, nulls)| Some((set, nulls.as_ref()?)));
        for (set, nulls) in with_nulls {
            valid.clear();
            valid_groups.clear();
            for ((row, position), group) in chosen.iter().zip(&*positions).zip(&*groups) {
                if nulls.is_null(*row as usize) {
                    self.with_null[*group as usize * of.column_sets.len() + set] += 1;
                } else {
                    valid.push(*position);
                    valid_groups.push(*group);
                }
            }
            let sums: Vec<usize> = (0..of.sums.len()).filter(|sum| of.sums[*sum].column_set == set).collect();
            add_all(&mut self.recent, &of, &sums, &values, valid, valid_groups);
        }
    }

    /// The state of the aggregation, a row for every group, and the room it takes.
    pub(super) fn finish(mut self) -> Result<(RecordBatch, MemoryReservation)> {
        self.settle();
        let all = 0..self.rows.len() as u32;
        let seen: Vec<u32> = match self.of.keys.is_empty() {
            true => all.collect(),
            false => all.filter(|group| self.rows[*group as usize] > 0).collect(),
        };
        let schema = &self.of.schema;
        let types: Vec<DataType> = schema.fields().iter().map(|field| field.data_type().clone()).collect();
        let (key_types, state_types) = types.split_at(self.of.keys.len());
        let mut arrays = self.keys.columns(key_types, &seen)?;
        for (state, data_type) in self.of.states.iter().zip(state_types) {
            arrays.push(match state {
                super::State::Count(set) => {
                    counts(seen.iter().map(|g| Some(self.valid(*set, *g))), data_type)?
                }
                super::State::AverageCount(set) => {
                    let valid = seen.iter().map(|group| self.valid(Some(*set), *group));
                    counts(valid.map(|count| (count > 0).then_some(count)), data_type)?
                }
                super::State::Sum(sum) => self.sums(*sum, &seen, data_type)?,
            });
        }
        let options = RecordBatchOptions::new().with_row_count(Some(seen.len()));
        let state = RecordBatch::try_new_with_options(Arc::clone(schema), arrays, &options)?;
        Ok((state, self.reservation))
    }

    /// The rows of a group without a null in any of a set of columns; of no set, all.
    fn valid(&self, set: Option<usize>, group: u32) -> i64 {
        let group = group as usize;
        let nulls = set.map_or(0, |set| self.with_null[group * self.of.column_sets.len() + set]);
        self.rows[group] - nulls
    }

    fn sums(&self, sum: usize, groups: &[u32], data_type: &DataType) -> Result<ArrayRef> {
        let set = self.of.sums[sum].column_set;
        let sums = groups.iter().map(|group| {
            let total = self.earlier[*group as usize * self.of.sums.len() + sum];
            (self.valid(Some(set), *group) > 0).then_some(total)
        });
        Ok(match data_type {
            DataType::Decimal128(precision, scale) => {
                Arc::new(sums.collect::<Decimal128Array>().with_precision_and_scale(*precision, *scale)?)
            }
            // As DataFusion adds 64-bit integers: what does not fit wraps around.
            DataType::Int64 => Arc::new(sums.map(|sum| sum.map(|sum| sum as i64)).collect::<Int64Array>()),
            other => return internal_err!("a sum of type {other}"),
        })
    }
}

fn counts(counts: impl Iterator<Item = Option<i64>>, data_type: &DataType) -> Result<ArrayRef> {
    Ok(match data_type {
        DataType::UInt64 => Arc::new(counts.map(|count| Some(count? as u64)).collect::<UInt64Array>()),
        DataType::Int64 => Arc::new(counts.collect::<Int64Array>()),
        other => return internal_err!("a count of type {other}"),
    })
}

/// By set of columns: where one of them is null, if anywhere.
type SetNulls = [Option<NullBuffer>];

/// Where one of these columns has no value. What an array calls null is not all of it: a column of type Null has no such
/// notes, a dictionary or runs may have null among their values.
fn nulls_of(batch: &RecordBatch, columns: &[usize]) -> Option<NullBuffer> {
    let nulls = columns.iter().map(|&column| batch.column(column).logical_nulls());
    let nulls = nulls.reduce(|a, b| NullBuffer::union(a.as_ref(), b.as_ref())).flatten();
    nulls.filter(|nulls| nulls.null_count() > 0)
}

/// Adds the values at `positions` to their groups for each of `sums`, four sums at a time.
fn add_all(
    totals: &mut [i64],
    of: &Aggregation,
    sums: &[usize],
    values: &Computed<'_>,
    positions: &[u32],
    groups: &[u32],
) {
    let stride = of.sums.len();
    let block = |sum: usize| values.of(of.sums[sum].step);
    let (fours, rest) = sums.as_chunks::<4>();
    for &four in fours {
        add(totals, stride, four, four.map(block), positions, groups);
    }
    for &one in rest {
        add(totals, stride, [one], [block(one)], positions, groups);
    }
}

fn add<const N: usize>(
    totals: &mut [i64],
    stride: usize,
    sums: [usize; N],
    values: [&[i64]; N],
    positions: &[u32],
    groups: &[u32],
) {
    for (position, group) in positions.iter().zip(groups) {
        let position = *position as usize;
        let of_group = &mut totals[*group as usize * stride..][..stride];
        for (sum, values) in sums.iter().zip(values) {
            of_group[*sum] = of_group[*sum].wrapping_add(values[position]);
        }
    }
}
