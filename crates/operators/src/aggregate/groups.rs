//! Sums and counts of groups. Rows can be added and subtracted.
//!
//! All sums are sums of integers. So the sums of some rows are those of all rows minus those of the others.

use std::sync::Arc;

use datafusion::arrow::array::{Array, AsArray, RecordBatch};
use datafusion::arrow::buffer::NullBuffer;
use datafusion::common::Result;

use super::arithmetic::{BLOCK, Computed, LookAt, Rows, Values};
use super::keys::Keys;
use super::slice_state::SliceState;
use super::{Aggregation, Extreme};

/// The maximum growth per batch for which the widths of types serve as bounds. Sums are then settled at most
/// once in a thousand batches.
const GROWTH_BY_WIDTH_MAX: i128 = 1 << 53;

/// Groups and their sums, counts and extremes.
pub(super) struct Groups {
    pub(super) of: Arc<Aggregation>,
    pub(super) keys: Keys,
    /// The number of rows, by group.
    pub(super) rows: Vec<i64>,
    /// The number of rows with a null in one of a set of columns, by group and set.
    pub(super) with_null: Vec<i64>,
    /// Recent sums, by group and sum.
    recent: Vec<i64>,
    /// Earlier sums, by group and sum.
    pub(super) earlier: Vec<i128>,
    /// The extreme so far, by group and extreme.
    pub(super) extremes: Vec<i64>,
    /// The maximum magnitude in `recent`, by sum.
    grown: Vec<i128>,
    scratch: Scratch,
}

/// Room that is reused for every block.
struct Scratch {
    values: Values,
    chosen: Vec<u32>,
    groups: Vec<u32>,
    positions: Vec<u32>,
    valid: Vec<u32>,
    valid_groups: Vec<u32>,
}

/// Contiguous rows of a batch, at most a block.
#[derive(Clone, Copy)]
pub(super) struct Block<'a> {
    batch: &'a RecordBatch,
    nulls: &'a SetNulls,
    pub(super) first: usize,
    rows: usize,
}

/// The rows with a null in one of a set of columns, if there are any, by set.
pub(super) type SetNulls = [Option<NullBuffer>];

/// The rows of a block.
#[derive(Clone, Copy)]
pub(super) enum Which {
    All,
    Marked,
    /// The rows without a mark.
    Others,
}

/// The blocks of a batch.
pub(super) fn blocks<'a>(batch: &'a RecordBatch, nulls: &'a SetNulls) -> impl Iterator<Item = Block<'a>> {
    let block = move |first| Block { batch, nulls, first, rows: BLOCK.min(batch.num_rows() - first) };
    (0..batch.num_rows()).step_by(BLOCK).map(block)
}

impl Groups {
    pub(super) fn new(of: Arc<Aggregation>) -> Self {
        let scratch = Scratch {
            values: of.program.values(),
            chosen: Vec::with_capacity(BLOCK),
            groups: Vec::with_capacity(BLOCK),
            positions: Vec::with_capacity(BLOCK),
            valid: Vec::with_capacity(BLOCK),
            valid_groups: Vec::with_capacity(BLOCK),
        };
        let mut groups = Groups {
            keys: Keys::new(&of.keys),
            rows: Vec::new(),
            with_null: Vec::new(),
            recent: Vec::new(),
            earlier: Vec::new(),
            extremes: Vec::new(),
            grown: vec![0; of.sums.len()],
            scratch,
            of,
        };
        groups.grow();
        groups
    }

    /// The number of groups.
    pub(super) fn count(&self) -> usize {
        self.keys.groups()
    }

    /// Bytes in memory.
    pub(super) fn bytes(&self) -> usize {
        let counts = self.rows.capacity() + self.with_null.capacity() + self.recent.capacity();
        let counts = counts + self.extremes.capacity();
        let sums = self.earlier.capacity();
        self.keys.bytes() + counts * size_of::<i64>() + sums * size_of::<i128>()
    }

    /// Prepares for rows by which sums may grow or shrink, at most by this much: see [`Aggregation::growth`].
    pub(super) fn expect(&mut self, growth: &[i128]) {
        let full = |(grown, more): (&i128, &i128)| grown + more > i128::from(i64::MAX);
        if self.grown.iter().zip(growth).any(full) {
            self.settle();
        }
        self.grown.iter_mut().zip(growth).for_each(|(grown, more)| *grown += more);
    }

    /// Moves recent sums to the earlier sums.
    pub(super) fn settle(&mut self) {
        for (earlier, recent) in self.earlier.iter_mut().zip(&mut self.recent) {
            *earlier += i128::from(std::mem::take(recent));
        }
        self.grown.fill(0);
    }

    /// Makes room for the current groups.
    fn grow(&mut self) {
        let groups = self.keys.groups();
        if groups > self.rows.len() || self.rows.is_empty() {
            self.rows.resize(groups, 0);
            self.with_null.resize(groups * self.of.column_sets.len(), 0);
            self.recent.resize(groups * self.of.sums.len(), 0);
            self.earlier.resize(groups * self.of.sums.len(), 0);
            let first = |extreme: &Extreme| if extreme.greatest { i64::MIN } else { i64::MAX };
            while self.extremes.len() < groups * self.of.extremes.len() {
                self.extremes.extend(self.of.extremes.iter().map(first));
            }
        }
    }

    /// Chooses rows of a block for the next operation. Returns false if there are none.
    pub(super) fn choose(&mut self, block: Block<'_>, which: Which) -> bool {
        let Block { batch, first, rows, .. } = block;
        let chosen = &mut self.scratch.chosen;
        chosen.clear();
        let marks = || batch.column(self.of.marks).as_boolean().values().slice(first, rows);
        let bits = match which {
            Which::All => {
                chosen.extend(first as u32..(first + rows) as u32);
                return rows > 0;
            }
            Which::Marked => marks(),
            Which::Others => !&marks(),
        };
        // One by one where contiguous rows are unlikely.
        if bits.count_set_bits() < rows / 4 {
            chosen.extend(bits.set_indices_u32().map(|row| first as u32 + row));
        } else {
            for (from, to) in bits.set_slices() {
                chosen.extend((first + from) as u32..(first + to) as u32);
            }
        }
        !chosen.is_empty()
    }

    /// The maximum bytes that long keys of the chosen rows may add. Keys of bounded size are not counted.
    pub(super) fn long_bytes(&self, block: Block<'_>) -> usize {
        self.keys.long_bytes(block.batch.columns(), &self.scratch.chosen)
    }

    /// Adds the chosen rows.
    pub(super) fn add(&mut self, block: Block<'_>) -> Result<()> {
        self.change::<true>(block)
    }

    /// Subtracts the chosen rows, which were added earlier.
    pub(super) fn take_away(&mut self, block: Block<'_>) -> Result<()> {
        self.change::<false>(block)
    }

    fn change<const ADD: bool>(&mut self, block: Block<'_>) -> Result<()> {
        let Scratch { chosen, groups, .. } = &mut self.scratch;
        self.keys.number(block.batch.columns(), chosen, groups)?;
        self.grow();
        let one = if ADD { 1 } else { -1 };
        self.scratch.groups.iter().for_each(|group| self.rows[*group as usize] += one);
        if !self.of.sums.is_empty() || !self.of.column_sets.is_empty() {
            self.change_values::<ADD>(block);
        }
        Ok(())
    }

    /// Adds or subtracts the values of the chosen rows, whose groups are known. If most rows are chosen,
    /// computing all is faster than picking them.
    fn change_values<const ADD: bool>(&mut self, block: Block<'_>) {
        let Block { batch, nulls, first, rows } = block;
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
        change_all::<ADD>(&mut self.recent, &of, &complete, &values, positions, groups);
        let extremes = || of.extremes.iter().enumerate();
        for (at, extreme) in extremes().filter(|(_, of)| nulls[of.column_set].is_none()) {
            extend(&mut self.extremes, &of, at, values.of(extreme.step), positions, groups);
        }
        let one = if ADD { 1 } else { -1 };
        let with_nulls = nulls.iter().enumerate().filter_map(|(set, nulls)| Some((set, nulls.as_ref()?)));
        for (set, nulls) in with_nulls {
            valid.clear();
            valid_groups.clear();
            for ((row, position), group) in chosen.iter().zip(&*positions).zip(&*groups) {
                if nulls.is_null(*row as usize) {
                    self.with_null[*group as usize * of.column_sets.len() + set] += one;
                } else {
                    valid.push(*position);
                    valid_groups.push(*group);
                }
            }
            let sums: Vec<usize> = (0..of.sums.len()).filter(|sum| of.sums[*sum].column_set == set).collect();
            change_all::<ADD>(&mut self.recent, &of, &sums, &values, valid, valid_groups);
            for (at, extreme) in extremes().filter(|(_, of)| of.column_set == set) {
                extend(&mut self.extremes, &of, at, values.of(extreme.step), valid, valid_groups);
            }
        }
    }

    /// Notes, by group, one of the rows that were added last.
    pub(super) fn note_rows(&self, rows: &mut Vec<u32>) {
        rows.resize(self.count(), 0);
        let Scratch { chosen, groups, .. } = &self.scratch;
        groups.iter().zip(chosen).for_each(|(group, row)| rows[*group as usize] = *row);
    }

    /// Adds the state of a slice; `batch` has its rows.
    pub(super) fn merge(&mut self, batch: &RecordBatch, state: &SliceState) -> Result<()> {
        let groups = &mut self.scratch.groups;
        self.keys.number(batch.columns(), &state.examples, groups)?;
        self.grow();
        let (sets, sums) = (self.of.column_sets.len(), self.of.sums.len());
        for (from, to) in self.scratch.groups.iter().enumerate() {
            let to = *to as usize;
            self.rows[to] += state.rows[from];
            for at in 0..sets {
                self.with_null[to * sets + at] += state.with_null[from * sets + at];
            }
            for at in 0..sums {
                self.earlier[to * sums + at] += state.sums[from * sums + at];
            }
        }
        Ok(())
    }
}

impl Aggregation {
    /// The rows of the batch with a null in one of a set of columns, by set.
    pub(super) fn nulls(&self, batch: &RecordBatch) -> Vec<Option<NullBuffer>> {
        self.column_sets.iter().map(|columns| nulls_of(batch, columns)).collect()
    }

    /// The maximum growth by rows of this batch, by sum; `None` if 64 bits may not hold it or an intermediate
    /// value.
    pub(super) fn growth(&self, batch: &RecordBatch) -> Option<Vec<i128>> {
        // Widths are known without looking at any value. They suffice if sums are settled rarely.
        let is_little = |growth: &Vec<i128>| growth.iter().all(|growth| *growth <= GROWTH_BY_WIDTH_MAX);
        let by_width = self.growth_by(batch, LookAt::Widths).filter(is_little);
        by_width.or_else(|| self.growth_by(batch, LookAt::Values))
    }

    fn growth_by(&self, batch: &RecordBatch, look_at: LookAt) -> Option<Vec<i128>> {
        let magnitudes = self.program.magnitudes(batch, look_at)?;
        let rows = batch.num_rows() as i128;
        // Integers up to this bound are exact as floating-point numbers.
        if self.averaged.iter().any(|step| magnitudes[*step] > 1 << f64::MANTISSA_DIGITS) {
            return None;
        }
        let growth = self.sums.iter().map(|sum| magnitudes[sum.step] * rows);
        growth.map(|growth| (growth <= i128::from(i64::MAX)).then_some(growth)).collect()
    }
}

/// The rows without a value in one of these columns. An array's null buffer does not show all of them: a
/// column of type Null has none, and a dictionary or runs may have null among their values.
fn nulls_of(batch: &RecordBatch, columns: &[usize]) -> Option<NullBuffer> {
    let nulls = columns.iter().map(|&column| batch.column(column).logical_nulls());
    let nulls = nulls.reduce(|a, b| NullBuffer::union(a.as_ref(), b.as_ref())).flatten();
    nulls.filter(|nulls| nulls.null_count() > 0)
}

/// Updates the extremes of groups with the values at `positions`.
fn extend(
    extremes: &mut [i64],
    of: &Aggregation,
    at: usize,
    values: &[i64],
    positions: &[u32],
    groups: &[u32],
) {
    let (stride, greatest) = (of.extremes.len(), of.extremes[at].greatest);
    for (position, group) in positions.iter().zip(groups) {
        let (known, value) = (&mut extremes[*group as usize * stride + at], values[*position as usize]);
        *known = if greatest { value.max(*known) } else { value.min(*known) };
    }
}

/// Adds or subtracts the values at `positions` for each of `sums`, four sums at a time.
fn change_all<const ADD: bool>(
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
        change::<ADD, 4>(totals, stride, four, four.map(block), positions, groups);
    }
    for &one in rest {
        change::<ADD, 1>(totals, stride, [one], [block(one)], positions, groups);
    }
}

fn change<const ADD: bool, const N: usize>(
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
            of_group[*sum] = match ADD {
                true => of_group[*sum].wrapping_add(values[position]),
                false => of_group[*sum].wrapping_sub(values[position]),
            };
        }
    }
}
