//! The groups of a chunk, or of a border, and the state of their functions.
//!
//! As long as keys come in order, ascending or descending in each column, equal keys are neighbours: a group is a run of
//! rows, and nothing is looked up. The first key that is out of order makes a hash table of the groups there are, under
//! the same numbers.

use std::cmp::Ordering;
use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, DynComparator, RecordBatch, UInt32Array, make_comparator, new_empty_array,
};
use datafusion::arrow::compute::{SortOptions, concat, partition, take_arrays};
use datafusion::common::{Result, internal_err};
use datafusion::logical_expr::{EmitTo, GroupsAccumulator};
use datafusion::physical_plan::aggregates::group_values::{GroupValues, new_group_values};
use datafusion::physical_plan::aggregates::order::GroupOrdering;

use super::spec::AggregateSpec;

/// See the module's documentation.
pub(super) struct GroupTable {
    spec: Arc<AggregateSpec>,
    keys: Keys,
    accumulators: Vec<Box<dyn GroupsAccumulator>>,
    /// The group of each row of the batch at hand.
    indices: Vec<usize>,
}

enum Keys {
    Runs(Runs),
    Hashed(Box<dyn GroupValues>),
}

/// Groups with the state of their functions, to be merged elsewhere.
pub(super) struct GroupStates {
    keys: Vec<ArrayRef>,
    /// Of each function.
    states: Vec<Vec<ArrayRef>>,
}

impl GroupTable {
    /// No groups yet.
    pub(super) fn new(spec: &Arc<AggregateSpec>) -> Result<Self> {
        let keys = if spec.has_runs { Keys::Runs(Runs::default()) } else { Keys::Hashed(hashed(spec)?) };
        Ok(GroupTable {
            accumulators: spec.accumulators()?,
            spec: Arc::clone(spec),
            keys,
            indices: Vec::new(),
        })
    }

    /// Adds rows, of which `groups` are the keys.
    pub(super) fn add(&mut self, batch: &RecordBatch, groups: &[ArrayRef]) -> Result<()> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        let arguments = self.spec.arguments(batch)?;
        let total = self.assign(groups)?;
        for (accumulator, of) in self.accumulators.iter_mut().zip(&arguments) {
            accumulator.update_batch(&of.values, &self.indices, of.filter.as_ref(), total)?;
        }
        Ok(())
    }

    /// Adds groups that were made elsewhere.
    pub(super) fn merge(&mut self, other: &GroupStates) -> Result<()> {
        if other.keys.first().is_none_or(|keys| keys.is_empty()) {
            return Ok(());
        }
        let total = self.assign(&other.keys)?;
        for (accumulator, states) in self.accumulators.iter_mut().zip(&other.states) {
            accumulator.merge_batch(states, &self.indices, total)?;
        }
        Ok(())
    }

    /// Numbers the groups of these rows; returns how many groups there are.
    fn assign(&mut self, groups: &[ArrayRef]) -> Result<usize> {
        if let Keys::Runs(runs) = &mut self.keys {
            if runs.add(groups, &mut self.indices)? {
                return Ok(runs.len);
            }
            let mut table = hashed(&self.spec)?;
            for keys in &runs.keys {
                table.intern(keys, &mut self.indices)?;
            }
            if table.len() != runs.len {
                return internal_err!("{} runs of keys make {} groups", runs.len, table.len());
            }
            self.keys = Keys::Hashed(table);
        }
        let Keys::Hashed(table) = &mut self.keys else { return internal_err!("groups without a table") };
        table.intern(groups, &mut self.indices)?;
        Ok(table.len())
    }

    fn take_keys(&mut self) -> Result<Vec<ArrayRef>> {
        match &mut self.keys {
            Keys::Runs(runs) => std::mem::take(runs).into_keys(&self.spec),
            Keys::Hashed(table) => table.emit(EmitTo::All),
        }
    }

    /// The results of all groups, keys first.
    pub(super) fn into_results(mut self) -> Result<RecordBatch> {
        let mut columns = self.take_keys()?;
        for accumulator in &mut self.accumulators {
            columns.push(accumulator.evaluate(EmitTo::All)?);
        }
        Ok(RecordBatch::try_new(Arc::clone(&self.spec.output), columns)?)
    }

    /// All groups with the state of their functions.
    pub(super) fn into_states(mut self) -> Result<GroupStates> {
        let keys = self.take_keys()?;
        let states = self.accumulators.iter_mut().map(|accumulator| accumulator.state(EmitTo::All));
        Ok(GroupStates { keys, states: states.collect::<Result<_>>()? })
    }

    /// Whether there are no groups.
    pub(super) fn is_empty(&self) -> bool {
        match &self.keys {
            Keys::Runs(runs) => runs.len == 0,
            Keys::Hashed(table) => table.is_empty(),
        }
    }

    /// Bytes of memory.
    pub(super) fn size(&self) -> usize {
        let keys = match &self.keys {
            Keys::Runs(runs) => runs.bytes,
            Keys::Hashed(table) => table.size(),
        };
        let accumulators: usize = self.accumulators.iter().map(|accumulator| accumulator.size()).sum();
        keys + accumulators + self.indices.capacity() * size_of::<usize>()
    }

    /// Whether a hash table was needed.
    pub(super) fn is_hashed(&self) -> bool {
        matches!(self.keys, Keys::Hashed(_))
    }
}

fn hashed(spec: &AggregateSpec) -> Result<Box<dyn GroupValues>> {
    new_group_values(Arc::clone(&spec.group_schema), &GroupOrdering::None)
}

/// Keys that came in order.
#[derive(Default)]
struct Runs {
    /// The keys of the groups, as they came.
    keys: Vec<Vec<ArrayRef>>,
    len: usize,
    /// How each column ascends or descends where those before it are equal, once that has been seen.
    directions: Vec<Option<Ordering>>,
    bytes: usize,
}

impl Runs {
    /// Numbers the groups of these rows, if their keys go on in order; otherwise nothing happens.
    fn add(&mut self, groups: &[ArrayRef], indices: &mut Vec<usize>) -> Result<bool> {
        let runs = partition(groups)?.ranges();
        let starts = UInt32Array::from_iter_values(runs.iter().map(|run| run.start as u32));
        let mut firsts = take_arrays(groups, &starts, None)?;
        let mut directions = self.directions.clone();
        directions.resize(groups.len(), None);
        let mut continues = false;
        if let Some(last) = self.keys.last() {
            let comparators = comparators(last, &firsts)?;
            match step(&comparators, last[0].len() - 1, 0, &mut directions) {
                Step::Same => continues = true,
                Step::On => {}
                Step::OutOfOrder => return Ok(false),
            }
        }
        let comparators = comparators(&firsts, &firsts)?;
        for row in 1..runs.len() {
            if !matches!(step(&comparators, row - 1, row, &mut directions), Step::On) {
                return Ok(false);
            }
        }
        self.directions = directions;
        let mut group = if continues { self.len - 1 } else { self.len };
        indices.clear();
        for run in &runs {
            indices.resize(indices.len() + run.len(), group);
            group += 1;
        }
        self.len = group;
        if continues {
            firsts = firsts.iter().map(|keys| keys.slice(1, keys.len() - 1)).collect();
        }
        if !firsts[0].is_empty() {
            self.bytes += firsts.iter().map(|keys| keys.get_array_memory_size()).sum::<usize>();
            self.keys.push(firsts);
        }
        Ok(true)
    }

    fn into_keys(self, spec: &AggregateSpec) -> Result<Vec<ArrayRef>> {
        let fields = spec.group_schema.fields().iter().enumerate();
        let columns = fields.map(|(at, field)| {
            let parts: Vec<&dyn Array> = self.keys.iter().map(|keys| keys[at].as_ref()).collect();
            match parts.as_slice() {
                [] => Ok(new_empty_array(field.data_type())),
                parts => Ok(concat(parts)?),
            }
        });
        columns.collect()
    }
}

/// What a key is to the one before it.
enum Step {
    Same,
    On,
    OutOfOrder,
}

fn comparators(left: &[ArrayRef], right: &[ArrayRef]) -> Result<Vec<DynComparator>> {
    let columns = left.iter().zip(right);
    let comparators = columns.map(|(left, right)| make_comparator(left, right, SortOptions::default()));
    Ok(comparators.collect::<std::result::Result<_, _>>()?)
}

/// From one key to the next. A column's direction is the one in which it moved first.
fn step(comparators: &[DynComparator], from: usize, to: usize, directions: &mut [Option<Ordering>]) -> Step {
    for (compare, direction) in comparators.iter().zip(directions) {
        match compare(from, to) {
            Ordering::Equal => {}
            moved if direction.is_none_or(|direction| direction == moved) => {
                *direction = Some(moved);
                return Step::On;
            }
            _ => return Step::OutOfOrder,
        }
    }
    Step::Same
}
