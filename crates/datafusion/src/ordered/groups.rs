//! The groups of a chunk, or of a border, and the state of their functions.
//!
//! While keys come in order, ascending or descending in each column, equal keys are adjacent. Then a group is
//! a run of rows, and no look-up is needed. The first key out of order turns the groups into a hash table,
//! with the same numbers.

use std::cmp::Ordering;
use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, BooleanArray, BooleanBufferBuilder, DynComparator, RecordBatch, make_comparator,
    new_empty_array,
};
use datafusion::arrow::buffer::BooleanBuffer;
use datafusion::arrow::compute::kernels::cmp::{distinct, lt};
use datafusion::arrow::compute::{FilterBuilder, SortOptions, concat};
use datafusion::common::{Result, internal_err};
use datafusion::logical_expr::{EmitTo, GroupsAccumulator};
use datafusion::physical_plan::aggregates::group_values::{GroupValues, new_group_values};
use datafusion::physical_plan::aggregates::order::GroupOrdering;

use super::borders::AtBorder;
use super::spec::AggregateSpec;

/// A table of groups; see the module's documentation.
pub(super) struct GroupTable {
    spec: Arc<AggregateSpec>,
    keys: Keys,
    accumulators: Vec<Box<dyn GroupsAccumulator>>,
    /// The group of each row of the current batch.
    indices: Vec<usize>,
}

enum Keys {
    Runs(Runs),
    Hashed(Box<dyn GroupValues>),
}

/// Groups with the state of their functions, to be merged into another table.
pub(super) struct GroupStates {
    keys: Vec<ArrayRef>,
    /// By function.
    states: Vec<Vec<ArrayRef>>,
}

impl GroupTable {
    /// Creates an empty table. Rows are expected in the order of the group `lead`.
    pub(super) fn new(spec: &Arc<AggregateSpec>, lead: usize) -> Result<Self> {
        let keys = if spec.has_runs { Keys::Runs(Runs::new(lead)) } else { Keys::Hashed(hashed(spec)?) };
        Ok(GroupTable {
            accumulators: spec.accumulators()?,
            spec: Arc::clone(spec),
            keys,
            indices: Vec::new(),
        })
    }

    /// Adds rows with the keys `groups`.
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

    /// Merges groups of another table.
    fn merge(&mut self, other: &GroupStates) -> Result<()> {
        if other.keys.first().is_none_or(|keys| keys.is_empty()) {
            return Ok(());
        }
        let total = self.assign(&other.keys)?;
        for (accumulator, states) in self.accumulators.iter_mut().zip(&other.states) {
            accumulator.merge_batch(states, &self.indices, total)?;
        }
        Ok(())
    }

    /// Assigns group numbers to these rows. Returns the number of groups.
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
            Keys::Runs(runs) => std::mem::replace(runs, Runs::new(0)).into_keys(&self.spec),
            Keys::Hashed(table) => table.emit(EmitTo::All),
        }
    }

    /// Returns the results of all groups, keys first.
    pub(super) fn into_results(mut self) -> Result<RecordBatch> {
        let mut columns = self.take_keys()?;
        for accumulator in &mut self.accumulators {
            columns.push(accumulator.evaluate(EmitTo::All)?);
        }
        Ok(RecordBatch::try_new(Arc::clone(&self.spec.output), columns)?)
    }

    /// Returns all groups with the state of their functions.
    pub(super) fn into_states(mut self) -> Result<GroupStates> {
        let keys = self.take_keys()?;
        let states = self.accumulators.iter_mut().map(|accumulator| accumulator.state(EmitTo::All));
        Ok(GroupStates { keys, states: states.collect::<Result<_>>()? })
    }

    /// Returns whether there are no groups.
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

    /// Returns whether a hash table was needed.
    pub(super) fn is_hashed(&self) -> bool {
        matches!(self.keys, Keys::Hashed(_))
    }
}

impl AtBorder for GroupTable {
    type More = GroupStates;

    fn add(&mut self, more: GroupStates) -> Result<()> {
        self.merge(&more)
    }

    fn size(&self) -> usize {
        GroupTable::size(self)
    }
}

fn hashed(spec: &AggregateSpec) -> Result<Box<dyn GroupValues>> {
    new_group_values(Arc::clone(&spec.group_schema), &GroupOrdering::None)
}

/// Keys in order: by the leading column, and among its equal values by the others.
struct Runs {
    lead: usize,
    /// The keys of the groups, in order of arrival.
    keys: Vec<Vec<ArrayRef>>,
    len: usize,
    /// The direction of each column within equal values of the columns before it, of which the leading one is
    /// first. Set as soon as the column has moved.
    directions: Vec<Option<Ordering>>,
    bytes: usize,
}

impl Runs {
    fn new(lead: usize) -> Self {
        Runs { lead, keys: Vec::new(), len: 0, directions: Vec::new(), bytes: 0 }
    }

    /// Assigns group numbers to these rows if their keys continue the order. Otherwise changes nothing.
    fn add(&mut self, groups: &[ArrayRef], indices: &mut Vec<usize>) -> Result<bool> {
        let mut directions = self.directions.clone();
        directions.resize(groups.len(), None);
        let mut continues = false;
        if let Some(last) = self.keys.last() {
            match step(&self.comparators(last, groups)?, last[0].len() - 1, 0, &mut directions) {
                Step::Same => continues = true,
                Step::On => {}
                Step::OutOfOrder => return Ok(false),
            }
        }
        let changes = Changes::of(groups, self.lead)?;
        if !changes.in_order_of_lead(&mut directions[0])? {
            let comparators = self.comparators(groups, groups)?;
            for row in changes.all.set_indices() {
                if !matches!(step(&comparators, row, row + 1, &mut directions), Step::On) {
                    return Ok(false);
                }
            }
        }
        self.directions = directions;
        let mut group = if continues { self.len - 1 } else { self.len };
        indices.clear();
        indices.push(group);
        indices.extend(changes.all.iter().map(|changes| {
            group += usize::from(changes);
            group
        }));
        if group + 1 > self.len {
            self.len = group + 1;
            let firsts = changes.firsts(groups, !continues)?;
            self.bytes += firsts.iter().map(|keys| keys.get_array_memory_size()).sum::<usize>();
            self.keys.push(firsts);
        }
        Ok(true)
    }

    /// Returns the comparators of the columns, the leading one first.
    fn comparators(&self, left: &[ArrayRef], right: &[ArrayRef]) -> Result<Vec<DynComparator>> {
        let others = (0..left.len()).filter(|&column| column != self.lead);
        let columns = std::iter::once(self.lead).chain(others);
        let comparators = columns.map(|at| make_comparator(&left[at], &right[at], SortOptions::default()));
        Ok(comparators.collect::<std::result::Result<_, _>>()?)
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

/// The relation of a key to the previous one.
enum Step {
    Same,
    On,
    OutOfOrder,
}

/// The places where keys change. Bit `i` compares the rows `i` and `i + 1`.
struct Changes {
    /// Changes in any column.
    all: BooleanBuffer,
    /// Changes in the leading column.
    lead: BooleanBuffer,
    /// The leading column without its last row, and without its first.
    before: ArrayRef,
    after: ArrayRef,
}

impl Changes {
    fn of(groups: &[ArrayRef], lead: usize) -> Result<Self> {
        let rows = groups[lead].len() - 1;
        let pair = |keys: &ArrayRef| (keys.slice(0, rows), keys.slice(1, rows));
        let (before, after) = pair(&groups[lead]);
        let of_lead = distinct(&before, &after)?.values().clone();
        let mut all = of_lead.clone();
        for (_, keys) in groups.iter().enumerate().filter(|(at, _)| *at != lead) {
            let (before, after) = pair(keys);
            all = &all | distinct(&before, &after)?.values();
        }
        Ok(Changes { all, lead: of_lead, before, after })
    }

    /// Returns whether the leading column alone proves the order of keys. It does if it changes wherever any
    /// column does, always in one direction, which must be `direction` if that is set. Sets `direction` on
    /// success only.
    fn in_order_of_lead(&self, direction: &mut Option<Ordering>) -> Result<bool> {
        let moves = self.lead.count_set_bits();
        if self.before.null_count() + self.after.null_count() > 0 || self.all.count_set_bits() != moves {
            return Ok(false);
        }
        let down = lt(&self.after, &self.before)?.true_count();
        let moved = match moves {
            0 => return Ok(true),
            _ if down == 0 => Ordering::Less,
            _ if down == moves => Ordering::Greater,
            _ => return Ok(false),
        };
        Ok(*direction.get_or_insert(moved) == moved)
    }

    /// Returns the keys of the rows where they change, and of the first row if it `begins` a group.
    fn firsts(&self, groups: &[ArrayRef], begins: bool) -> Result<Vec<ArrayRef>> {
        let mut firsts = BooleanBufferBuilder::new(self.all.len() + 1);
        firsts.append(begins);
        firsts.append_buffer(&self.all);
        let firsts = FilterBuilder::new(&BooleanArray::new(firsts.finish(), None)).optimize().build();
        Ok(groups.iter().map(|keys| firsts.filter(keys)).collect::<std::result::Result<_, _>>()?)
    }
}

/// Compares one key with the next. A column's direction is that of its first change.
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
