//! Partial aggregation right above a cooperative scan.
//!
//! Dashboards mostly ask for sums, averages, counts and extremes of decimals and integers for few groups.
//! Between a scan and DataFusion's aggregation, every scan would copy the rows that pass its filter and
//! convert every decimal to 128 bits. This aggregation reads the shared arrays in place: the scan marks the
//! rows that pass. Sums are computed in 64 bits, and moved to 128 bits before they may overflow. The output
//! state is that of DataFusion's own partial aggregation, so the operators that combine partitions do not
//! change.
//!
//! Queries that aggregate in the same way and filter differently share the sums of whole slices
//! (`shared_slices`). Each subtracts the rows that do not pass its filter.
//!
//! Strings that come as keys into a dictionary are numbered by their keys. If there are many groups, or
//! values do not fit, DataFusion's aggregation takes over for the rest of a partition (`rest`). Unsupported
//! aggregates (other functions, distinct, ordered, filtered) stay with DataFusion.

mod arithmetic;
mod exec;
mod groups;
mod key_values;
mod keys;
mod pieces;
mod rest;
mod slice_state;
mod totals;

use std::sync::Arc;

use datafusion::arrow::array::{RecordBatch, RecordBatchOptions};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{Column, Literal};

use arithmetic::Program;
pub use exec::{ScanAggregateExec, Sharing};
pub use slice_state::SliceState;

use crate::shared_slices::PerSlice;
use crate::short_decimals::{of_scan, shortened};

/// The supported functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Function {
    /// The number of rows with a value.
    Count,
    /// The sum of decimals or 64-bit integers.
    Sum,
    /// Count and sum of decimals, or of integers as floating-point numbers.
    Average,
    /// The minimum of decimals, integers or times.
    Least,
    /// The maximum of decimals, integers or times.
    Greatest,
}

/// A partial aggregation over a scan that marks rows.
#[derive(Debug)]
pub struct Aggregation {
    /// The columns to group by.
    keys: Vec<usize>,
    program: Program,
    sums: Vec<Sum>,
    /// Steps of integers whose sums become floating-point numbers.
    averaged: Vec<usize>,
    extremes: Vec<Extreme>,
    /// Sets of columns. A row with a null in one of them is neither counted nor added.
    column_sets: Vec<Vec<usize>>,
    /// The columns of the state, after the keys.
    states: Vec<State>,
    /// The column of marks, which tells the rows that pass.
    marks: usize,
    schema: SchemaRef,
}

#[derive(Debug, PartialEq)]
struct Sum {
    step: usize,
    column_set: usize,
    /// The scale of decimals; none for integers.
    scale: Option<i8>,
}

/// The minimum or the maximum.
#[derive(Debug)]
struct Extreme {
    step: usize,
    column_set: usize,
    greatest: bool,
    data_type: DataType,
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// The number of rows without nulls in a set of columns, or of all rows.
    Count(Option<usize>),
    /// The number of rows without nulls in a set of columns, in the form of an average's state: null if there
    /// are none. Otherwise DataFusion takes the group for one with values and divides by zero.
    AverageCount(usize),
    Sum(usize),
    Extreme(usize),
}

impl Aggregation {
    /// The aggregation of these functions of columns of `scan` by the key columns, with output `schema`;
    /// `None` if it is not supported.
    ///
    /// # Errors
    /// If an argument has no type over `scan`.
    pub fn new(
        keys: Vec<usize>,
        functions: &[(Function, Arc<dyn PhysicalExpr>)],
        scan: &Schema,
        schema: SchemaRef,
    ) -> Result<Option<Self>> {
        if keys.iter().any(|&key| !keys::is_key(scan.field(key).data_type())) {
            return Ok(None);
        }
        let mut aggregation = Aggregation {
            keys,
            program: Program::default(),
            sums: Vec::new(),
            averaged: Vec::new(),
            extremes: Vec::new(),
            column_sets: Vec::new(),
            states: Vec::new(),
            marks: scan.fields().len(),
            schema,
        };
        for (function, argument) in functions {
            if !aggregation.add(*function, argument, scan)? {
                return Ok(None);
            }
        }
        Ok(aggregation.makes_its_states().then_some(aggregation))
    }

    /// Returns whether the columns of the state have types that this aggregation produces.
    fn makes_its_states(&self) -> bool {
        let types = self.schema.fields().iter().skip(self.keys.len()).map(|field| field.data_type());
        let made = |(state, data_type): (&State, &DataType)| match (state, data_type) {
            (State::Count(_) | State::AverageCount(_), of) => {
                matches!(of, DataType::Int64 | DataType::UInt64)
            }
            // Partial sums of integers may have 128 bits.
            (State::Sum(sum), DataType::Decimal128(_, scale)) => {
                self.sums[*sum].scale.unwrap_or_default() == *scale
            }
            (State::Sum(sum), of) => {
                self.sums[*sum].scale.is_none() && matches!(of, DataType::Int64 | DataType::Float64)
            }
            (State::Extreme(extreme), of) => self.extremes[*extreme].data_type == *of,
        };
        types.len() == self.states.len() && self.states.iter().zip(types).all(made)
    }

    /// Adds a function. Returns false if its argument is not supported.
    fn add(&mut self, function: Function, argument: &Arc<dyn PhysicalExpr>, scan: &Schema) -> Result<bool> {
        match function {
            Function::Count => return Ok(self.add_count(argument)),
            Function::Least | Function::Greatest => {
                return self.add_extreme(function == Function::Greatest, argument, scan);
            }
            Function::Sum | Function::Average => {}
        }
        let Some(sum) = self.add_sum(argument, scan)? else { return Ok(false) };
        if function == Function::Average {
            self.states.push(State::AverageCount(self.sums[sum].column_set));
            if self.sums[sum].scale.is_none() {
                self.averaged.push(self.sums[sum].step);
            }
        }
        self.states.push(State::Sum(sum));
        Ok(true)
    }

    /// The batch with numeric group keys in their type's full width. A scan leaves them in as few bits as the
    /// values of a slice need, while groups span all slices.
    fn with_wide_keys(&self, batch: RecordBatch) -> Result<RecordBatch> {
        let wide = |(&key, field): (&usize, &Arc<Field>)| {
            let of = shortened(field.data_type()).unwrap_or_else(|| field.data_type().clone());
            let came_as = batch.column(key).data_type();
            (came_as.is_signed_integer() && *came_as != of).then_some((key, of))
        };
        let narrow: Vec<(usize, DataType)> =
            self.keys.iter().zip(self.schema.fields()).filter_map(wide).collect();
        if narrow.is_empty() {
            return Ok(batch);
        }
        let (schema, mut arrays, rows) = batch.into_parts();
        let mut fields = schema.fields().to_vec();
        for (key, of) in narrow {
            arrays[key] = of_scan(&arrays[key], &of)?;
            fields[key] = Arc::new(Field::clone(&fields[key]).with_data_type(of));
        }
        let schema = Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()));
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        Ok(RecordBatch::try_new_with_options(schema, arrays, &options)?)
    }

    /// Returns whether all columns that are read have the supported form. A scan leaves decimals in 128 bits
    /// where 64 bits do not hold them.
    fn reads(&self, batch: &RecordBatch) -> bool {
        let mut columns = self.keys.iter().copied().chain(self.program.columns());
        columns.all(|column| !matches!(batch.column(column).data_type(), DataType::Decimal128(..)))
    }

    /// Returns whether queries can share the states of slices: rows can be subtracted, and adding them costs
    /// more than reading the marks.
    fn is_shared(&self) -> bool {
        self.extremes.is_empty() && (!self.keys.is_empty() || !self.sums.is_empty())
    }

    fn add_count(&mut self, argument: &Arc<dyn PhysicalExpr>) -> bool {
        let set = match (argument.downcast_ref::<Column>(), argument.downcast_ref::<Literal>()) {
            (Some(column), _) => Some(self.column_set(vec![column.index()])),
            (_, Some(literal)) if !literal.value().is_null() => None,
            _ => return false,
        };
        self.states.push(State::Count(set));
        true
    }

    fn add_sum(&mut self, argument: &Arc<dyn PhysicalExpr>, scan: &Schema) -> Result<Option<usize>> {
        let Some((step, columns)) = self.program.add(argument, scan)? else { return Ok(None) };
        let scale = match argument.data_type(scan)? {
            DataType::Decimal128(_, scale) => Some(scale),
            _ => None,
        };
        let sum = Sum { step, column_set: self.column_set(columns), scale };
        Ok(Some(self.sums.iter().position(|known| *known == sum).unwrap_or_else(|| {
            self.sums.push(sum);
            self.sums.len() - 1
        })))
    }

    fn add_extreme(
        &mut self,
        greatest: bool,
        argument: &Arc<dyn PhysicalExpr>,
        scan: &Schema,
    ) -> Result<bool> {
        // Computed or cast values would have another type.
        if !argument.is::<Column>() {
            return Ok(false);
        }
        let Some((step, columns)) = self.program.add(argument, scan)? else { return Ok(false) };
        let (column_set, data_type) = (self.column_set(columns), argument.data_type(scan)?);
        self.states.push(State::Extreme(self.extremes.len()));
        self.extremes.push(Extreme { step, column_set, greatest, data_type });
        Ok(true)
    }

    fn column_set(&mut self, columns: Vec<usize>) -> usize {
        self.column_sets.iter().position(|known| *known == columns).unwrap_or_else(|| {
            self.column_sets.push(columns);
            self.column_sets.len() - 1
        })
    }
}

impl PerSlice for Aggregation {
    type State = SliceState;

    fn is_as(&self, other: &Self) -> bool {
        self.keys == other.keys
            && self.program == other.program
            && self.sums == other.sums
            && self.column_sets == other.column_sets
            && self.marks == other.marks
    }

    fn bytes(state: &SliceState) -> usize {
        state.bytes()
    }
}
