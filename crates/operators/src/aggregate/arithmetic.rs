//! The arguments of sums, computed in 64 bits, one block of rows at a time.
//!
//! The arguments of all sums are compiled to one list of steps, in which common subexpressions are computed
//! once. The number of bits of a slice's values tells in advance whether 64 bits hold every intermediate
//! value.

use std::sync::Arc;

use datafusion::arrow::array::{Array, AsArray, RecordBatch};
use datafusion::arrow::datatypes::{
    DataType, Date32Type, Date64Type, Decimal64Type, Int8Type, Int16Type, Int32Type, Int64Type, Schema,
    TimeUnit, TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
    TimestampSecondType,
};
use datafusion::common::{Result, ScalarValue};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{CastExpr, Column, Literal};
use num_traits::PrimInt;

use crate::narrow::{Arithmetic, Bounds, Node, Operation};
use crate::short_decimals::shortened;

/// The number of rows that are computed together. Their values stay in the processor's first cache.
pub(super) const BLOCK: usize = 1024;

/// One value for every computed row; any value beyond these.
type Block = [i64; BLOCK];

/// A list of steps, in which every step needs only earlier ones.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Program {
    steps: Vec<Step>,
}

#[derive(Debug, PartialEq)]
enum Step {
    /// A column of the scan.
    Column(usize),
    Constant(i64),
    Operation {
        op: Arithmetic,
        left: usize,
        right: usize,
        left_factor: i64,
        right_factor: i64,
    },
}

/// The source of bounds on values.
#[derive(Clone, Copy, Debug)]
pub(super) enum LookAt {
    /// The widths of the types of columns.
    Widths,
    /// The values themselves.
    Values,
}

/// The values of every step of a program.
pub(super) struct Values {
    blocks: Vec<Block>,
}

impl Program {
    /// Adds the steps that compute `expr`, over a scan of `schema`. Returns its step, and its columns,
    /// ascending. `None` if the expression is not supported.
    pub(super) fn add(
        &mut self,
        expr: &Arc<dyn PhysicalExpr>,
        schema: &Schema,
    ) -> Result<Option<(usize, Vec<usize>)>> {
        let mut columns = Vec::new();
        let step = match column_of(expr, schema) {
            Some(column) => self.column(column, schema, &mut columns),
            None => match Node::new(expr, schema)? {
                Some((node, _)) => self.node(&node, schema, &mut columns),
                None => None,
            },
        };
        columns.sort_unstable();
        columns.dedup();
        Ok(step.filter(|_| !columns.is_empty()).map(|step| (step, columns)))
    }

    fn node(&mut self, node: &Node, schema: &Schema, columns: &mut Vec<usize>) -> Option<usize> {
        let Operation { op, left, right, left_factor, right_factor } = match node {
            Node::Operation(operation) => operation.as_ref(),
            Node::Leaf(leaf) => {
                if let Some(column) = leaf.downcast_ref::<Column>() {
                    return self.column(column, schema, columns);
                }
                let ScalarValue::Decimal128(Some(value), ..) = leaf.downcast_ref::<Literal>()?.value() else {
                    return None;
                };
                return Some(self.step(Step::Constant(i64::try_from(*value).ok()?)));
            }
        };
        let (left, right) = (self.node(left, schema, columns)?, self.node(right, schema, columns)?);
        let (left_factor, right_factor) = (*left_factor, *right_factor);
        Some(self.step(Step::Operation { op: *op, left, right, left_factor, right_factor }))
    }

    fn column(&mut self, column: &Column, schema: &Schema, columns: &mut Vec<usize>) -> Option<usize> {
        let index = column.index();
        if !is_read(schema.field(index).data_type()) {
            return None;
        }
        columns.push(index);
        Some(self.step(Step::Column(index)))
    }

    fn step(&mut self, step: Step) -> usize {
        self.steps.iter().position(|known| *known == step).unwrap_or_else(|| {
            self.steps.push(step);
            self.steps.len() - 1
        })
    }

    /// The columns that the program reads.
    pub(super) fn columns(&self) -> impl Iterator<Item = usize> {
        self.steps.iter().filter_map(|step| match step {
            Step::Column(column) => Some(*column),
            _ => None,
        })
    }

    /// Room for the values of a block.
    pub(super) fn values(&self) -> Values {
        Values { blocks: vec![[0; BLOCK]; self.steps.len()] }
    }

    /// The maximum magnitude of each step's values in this batch; `None` if a value may not fit 64 bits.
    pub(super) fn magnitudes(&self, batch: &RecordBatch, look_at: LookAt) -> Option<Vec<i128>> {
        let mut bounds: Vec<Bounds> = Vec::with_capacity(self.steps.len());
        for step in &self.steps {
            let next = match step {
                Step::Column(column) => column_values(batch, *column).bounds(look_at),
                Step::Constant(value) => Bounds { min: i128::from(*value), max: i128::from(*value) },
                Step::Operation { op, left, right, left_factor, right_factor } => {
                    let (left, right) = (bounds[*left], bounds[*right]);
                    Bounds::of(*op, left.times(*left_factor)?, right.times(*right_factor)?)?
                }
            };
            bounds.push(next);
        }
        Some(bounds.iter().map(|bounds| bounds.max.max(-bounds.min)).collect())
    }

    /// Computes all steps for some rows of `batch`, at most a block of them.
    pub(super) fn compute<'a>(
        &'a self,
        batch: &'a RecordBatch,
        rows: Rows<'_>,
        values: &'a mut Values,
    ) -> Computed<'a> {
        let (run, len) = match rows {
            Rows::Run(first, rows) => (Some((first, rows)), rows),
            Rows::Chosen(rows) => (None, rows.len()),
        };
        for (at, step) in self.steps.iter().enumerate() {
            let (before, rest) = values.blocks.split_at_mut(at);
            // Often few rows are chosen.
            let out = &mut rest[0][..len];
            match (step, rows) {
                (Step::Column(column), rows) => column_values(batch, *column).write(rows, out),
                (Step::Constant(value), _) => out.fill(*value),
                (Step::Operation { op, left, right, left_factor, right_factor }, _) => {
                    let of =
                        |step: usize| of_run(&self.steps[step], batch, run).unwrap_or(&before[step][..len]);
                    apply(*op, (of(*left), *left_factor), (of(*right), *right_factor), out);
                }
            }
        }
        Computed { program: self, batch, run, values }
    }
}

/// The values of a block.
pub(super) struct Computed<'a> {
    program: &'a Program,
    batch: &'a RecordBatch,
    /// The first row and the number of rows, if they are contiguous in the batch.
    run: Option<(usize, usize)>,
    values: &'a Values,
}

impl Computed<'_> {
    /// The values of a step, at least as many as there are rows.
    pub(super) fn of(&self, step: usize) -> &[i64] {
        let in_place = of_run(&self.program.steps[step], self.batch, self.run);
        in_place.unwrap_or(&self.values.blocks[step])
    }
}

/// The values of a column in place.
fn of_run<'a>(step: &Step, batch: &'a RecordBatch, run: Option<(usize, usize)>) -> Option<&'a [i64]> {
    match (step, run) {
        (Step::Column(column), Some((first, rows))) => {
            column_values(batch, *column).in_place().map(|values| &values[first..first + rows])
        }
        _ => None,
    }
}

/// The rows of a batch that a block consists of.
#[derive(Clone, Copy)]
pub(super) enum Rows<'a> {
    /// The first row and the number of rows.
    Run(usize, usize),
    /// The given rows.
    Chosen(&'a [u32]),
}

/// Cannot overflow; wrapping operations avoid the check.
fn apply(op: Arithmetic, (left, f): (&[i64], i64), (right, g): (&[i64], i64), out: &mut [i64]) {
    let each = |out: &mut [i64], f: &dyn Fn(i64, i64) -> i64| {
        out.iter_mut().zip(left.iter().zip(right)).for_each(|(out, (a, b))| *out = f(*a, *b));
    };
    match op {
        Arithmetic::Multiply => {
            out.iter_mut().zip(left.iter().zip(right)).for_each(|(out, (a, b))| *out = a.wrapping_mul(*b));
        }
        Arithmetic::Add if f == 1 && g == 1 => {
            out.iter_mut().zip(left.iter().zip(right)).for_each(|(out, (a, b))| *out = a.wrapping_add(*b));
        }
        Arithmetic::Subtract if f == 1 && g == 1 => {
            out.iter_mut().zip(left.iter().zip(right)).for_each(|(out, (a, b))| *out = a.wrapping_sub(*b));
        }
        Arithmetic::Add => each(out, &|a, b| a.wrapping_mul(f).wrapping_add(b.wrapping_mul(g))),
        Arithmetic::Subtract => each(out, &|a, b| a.wrapping_mul(f).wrapping_sub(b.wrapping_mul(g))),
    }
}

/// The column that an expression stands for, if the expression only widens integers, or casts them to
/// floating-point numbers for an average.
fn column_of<'a>(expr: &'a Arc<dyn PhysicalExpr>, schema: &Schema) -> Option<&'a Column> {
    let Some(cast) = expr.downcast_ref::<CastExpr>() else { return expr.downcast_ref() };
    let column = cast.expr().downcast_ref::<Column>()?;
    let widens = schema.field(column.index()).data_type().is_signed_integer()
        && matches!(cast.cast_type(), DataType::Int64 | DataType::Float64);
    widens.then_some(column)
}

/// Returns whether a scan that marks rows gives columns of this type as integers of at most 64 bits.
fn is_read(data_type: &DataType) -> bool {
    matches!(shortened(data_type), Some(DataType::Decimal64(..)))
        || data_type.is_signed_integer()
        || matches!(data_type, DataType::Date32 | DataType::Date64 | DataType::Timestamp(..))
}

/// The values of a column.
#[derive(Clone, Copy)]
enum ColumnValues<'a> {
    Of64(&'a [i64]),
    Of32(&'a [i32]),
    Of16(&'a [i16]),
    Of8(&'a [i8]),
}

fn column_values(batch: &RecordBatch, column: usize) -> ColumnValues<'_> {
    let array = batch.column(column);
    match array.data_type() {
        DataType::Int64 => ColumnValues::Of64(array.as_primitive::<Int64Type>().values()),
        DataType::Int32 => ColumnValues::Of32(array.as_primitive::<Int32Type>().values()),
        DataType::Int16 => ColumnValues::Of16(array.as_primitive::<Int16Type>().values()),
        DataType::Int8 => ColumnValues::Of8(array.as_primitive::<Int8Type>().values()),
        DataType::Date32 => ColumnValues::Of32(array.as_primitive::<Date32Type>().values()),
        DataType::Date64 => ColumnValues::Of64(array.as_primitive::<Date64Type>().values()),
        DataType::Timestamp(unit, _) => ColumnValues::Of64(match unit {
            TimeUnit::Second => array.as_primitive::<TimestampSecondType>().values(),
            TimeUnit::Millisecond => array.as_primitive::<TimestampMillisecondType>().values(),
            TimeUnit::Microsecond => array.as_primitive::<TimestampMicrosecondType>().values(),
            TimeUnit::Nanosecond => array.as_primitive::<TimestampNanosecondType>().values(),
        }),
        _ => ColumnValues::Of64(array.as_primitive::<Decimal64Type>().values()),
    }
}

impl<'a> ColumnValues<'a> {
    /// The values in place, if they have 64 bits.
    fn in_place(self) -> Option<&'a [i64]> {
        if let ColumnValues::Of64(values) = self { Some(values) } else { None }
    }

    /// Writes the values of some rows, unless they can be read in place.
    fn write(self, rows: Rows<'_>, out: &mut [i64]) {
        match (self, rows) {
            (ColumnValues::Of64(_), Rows::Run(..)) => {}
            (ColumnValues::Of64(values), rows) => write(values, rows, out),
            (ColumnValues::Of32(values), rows) => write(values, rows, out),
            (ColumnValues::Of16(values), rows) => write(values, rows, out),
            (ColumnValues::Of8(values), rows) => write(values, rows, out),
        }
    }

    /// Bounds of all values, from the highest bit in which one of them differs from its sign. They are looser
    /// than the extremes, and take a fraction of the time.
    fn bounds(self, look_at: LookAt) -> Bounds {
        let bits = match (self, look_at) {
            (ColumnValues::Of64(values), LookAt::Values) => bits(values),
            (ColumnValues::Of32(values), LookAt::Values) => bits(values),
            (ColumnValues::Of64(_), LookAt::Widths) => 64,
            (ColumnValues::Of32(_), LookAt::Widths) => 32,
            (ColumnValues::Of16(_), _) => 16,
            (ColumnValues::Of8(_), _) => 8,
        };
        let limit = 1i128 << bits.saturating_sub(1);
        Bounds { min: -limit, max: limit }
    }
}

fn write<T: Copy + Into<i64>>(values: &[T], rows: Rows<'_>, out: &mut [i64]) {
    match rows {
        Rows::Run(first, rows) => {
            out.iter_mut().zip(&values[first..first + rows]).for_each(|(out, value)| *out = (*value).into());
        }
        Rows::Chosen(rows) => {
            out.iter_mut().zip(rows).for_each(|(out, row)| *out = values[*row as usize].into());
        }
    }
}

/// The number of bits, including the sign, that hold all of these values.
fn bits<T: PrimInt>(values: &[T]) -> u32 {
    let differing = values.iter().fold(T::zero(), |bits, value| bits | (*value ^ (*value << 1)));
    T::zero().leading_zeros() - differing.leading_zeros()
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{ArrayRef, Decimal64Array};
    use datafusion::arrow::datatypes::Field;
    use datafusion::logical_expr::Operator;
    use datafusion::physical_expr::expressions::{BinaryExpr, col, lit};

    use super::*;

    fn binary(l: Arc<dyn PhysicalExpr>, op: Operator, r: Arc<dyn PhysicalExpr>) -> Arc<dyn PhysicalExpr> {
        Arc::new(BinaryExpr::new(l, op, r))
    }

    fn schema() -> Schema {
        let field = |name| Field::new(name, DataType::Decimal128(15, 2), true);
        Schema::new(vec![field("price"), field("discount")])
    }

    fn batch(price: Vec<i64>, discount: Vec<i64>) -> RecordBatch {
        let array = |values: Vec<i64>| -> ArrayRef {
            Arc::new(Decimal64Array::from(values).with_precision_and_scale(15, 2).unwrap())
        };
        RecordBatch::try_from_iter([("price", array(price)), ("discount", array(discount))]).unwrap()
    }

    /// price * (1 - discount)
    fn discounted() -> Arc<dyn PhysicalExpr> {
        let schema = schema();
        let one = lit(ScalarValue::Decimal128(Some(1), 20, 0));
        let rate = binary(one, Operator::Minus, col("discount", &schema).unwrap());
        binary(col("price", &schema).unwrap(), Operator::Multiply, rate)
    }

    #[test]
    fn what_occurs_twice_is_computed_once() {
        let mut program = Program::default();
        let (first, columns) = program.add(&discounted(), &schema()).unwrap().unwrap();
        let steps = program.steps.len();
        assert_eq!(columns, [0, 1]);
        let again = binary(discounted(), Operator::Plus, discounted());
        let (sum, _) = program.add(&again, &schema()).unwrap().unwrap();
        assert_eq!(program.steps.len(), steps + 1);
        assert!(sum != first);
    }

    #[test]
    fn values_are_those_of_the_expression() {
        let mut program = Program::default();
        let (step, _) = program.add(&discounted(), &schema()).unwrap().unwrap();
        let batch = batch(vec![1000, 2500, -300, 7], vec![5, 0, 100, -1]);
        let mut values = program.values();
        let run = program.compute(&batch, Rows::Run(1, 3), &mut values);
        assert_eq!(run.of(step)[..3], [250_000, 0, 707]);
        assert_eq!(run.of(0), [2500, -300, 7], "a column is not copied");
        let chosen = program.compute(&batch, Rows::Chosen(&[3, 0]), &mut values);
        assert_eq!(chosen.of(step)[..2], [707, 95_000]);
        let magnitudes = program.magnitudes(&batch, LookAt::Values).unwrap();
        assert!(magnitudes[step] >= 250_000);
    }

    #[test]
    fn what_may_not_fit_is_told_before() {
        let mut program = Program::default();
        let product = binary(discounted(), Operator::Multiply, col("price", &schema()).unwrap());
        program.add(&product, &schema()).unwrap().unwrap();
        assert!(program.magnitudes(&batch(vec![1 << 27], vec![1]), LookAt::Values).is_some());
        assert!(program.magnitudes(&batch(vec![1 << 27, 1 << 30], vec![1, 1]), LookAt::Values).is_none());
    }

    #[test]
    fn bits_bound_values() {
        for values in [vec![], vec![0], vec![-1], vec![5, -9], vec![i64::MAX], vec![i64::MIN, 3]] {
            let Bounds { min, max } = ColumnValues::Of64(&values).bounds(LookAt::Values);
            for value in values {
                assert!((min..=max).contains(&i128::from(value)), "{value} in {min}..={max}");
            }
        }
        for values in [vec![], vec![0], vec![-1, 9], vec![i32::MAX], vec![i32::MIN, 3]] {
            let Bounds { min, max } = ColumnValues::Of32(&values).bounds(LookAt::Values);
            assert!(values.iter().all(|value| (min..=max).contains(&i128::from(*value))), "{values:?}");
        }
        assert!(ColumnValues::Of64(&[127, -128]).bounds(LookAt::Values).max <= 256);
        assert!(ColumnValues::Of32(&[127, -128]).bounds(LookAt::Values).max <= 256);
        let (of_8, of_16) = (ColumnValues::Of8(&[1]), ColumnValues::Of16(&[1]));
        let (of_32, of_64) = (ColumnValues::Of32(&[1]), ColumnValues::Of64(&[1]));
        for (values, least) in [
            (of_8, i128::from(i8::MIN)),
            (of_16, i128::from(i16::MIN)),
            (of_32, i128::from(i32::MIN)),
            (of_64, i128::from(i64::MIN)),
        ] {
            let Bounds { min, max } = values.bounds(LookAt::Widths);
            assert!(min <= least && max >= -1 - least, "{least}");
        }
    }

    #[test]
    fn quotients_and_constants_alone_are_left_alone() {
        let mut program = Program::default();
        let quotient = binary(discounted(), Operator::Divide, discounted());
        assert!(program.add(&quotient, &schema()).unwrap().is_none());
        assert!(program.add(&lit(ScalarValue::Decimal128(Some(1), 20, 0)), &schema()).unwrap().is_none());
    }
}
