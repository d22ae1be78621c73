//! Decimal arithmetic in 64 bits where the values allow it.
//!
//! SQL gives `price * (1 - discount)` a type of up to 38 digits, 128 bits, whatever the values are. This
//! expression narrows the operands of a batch to 64 bits. If their smallest and largest values show that no
//! intermediate value can overflow, it computes everything in 64 bits and widens the result: the same values,
//! for a fraction of the time. Otherwise it evaluates the original expression. The type of results does not
//! change.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::arrow::array::{Array, AsArray, Decimal128Array, RecordBatch};
use datafusion::arrow::buffer::NullBuffer;
use datafusion::arrow::datatypes::{DataType, Decimal128Type, Schema};
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::logical_expr::{ColumnarValue, Operator};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::BinaryExpr;

use crate::short_decimals::values_in_64_bits;

/// `expr` with its decimal arithmetic in 64 bits where possible. Its operands may be evaluated twice.
///
/// # Errors
/// If `expr` has no type over `schema`.
pub fn narrowed(expr: Arc<dyn PhysicalExpr>, schema: &Schema) -> Result<Transformed<Arc<dyn PhysicalExpr>>> {
    expr.transform_down(|expr| {
        if expr.is::<NarrowDecimal>() {
            return Ok(Transformed::new(expr, false, TreeNodeRecursion::Jump));
        }
        match NarrowDecimal::new(&expr, schema)? {
            Some(narrow) => Ok(Transformed::new(Arc::new(narrow), true, TreeNodeRecursion::Jump)),
            None => Ok(Transformed::no(expr)),
        }
    })
}

/// An arithmetic expression over decimals of 128 bits.
#[derive(Debug)]
struct NarrowDecimal {
    original: Arc<dyn PhysicalExpr>,
    tree: Node,
    precision: u8,
    scale: i8,
}

/// A node of the computation. Its scale is that of its decimals.
#[derive(Debug)]
pub(crate) enum Node {
    Leaf(Arc<dyn PhysicalExpr>),
    Operation(Box<Operation>),
}

#[derive(Debug)]
pub(crate) struct Operation {
    pub(crate) op: Arithmetic,
    pub(crate) left: Node,
    pub(crate) right: Node,
    /// Powers of ten that bring the operands of a sum to one scale.
    pub(crate) left_factor: i64,
    pub(crate) right_factor: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arithmetic {
    Add,
    Subtract,
    Multiply,
}

impl NarrowDecimal {
    /// `None` if `expr` is not a sum, difference or product of decimals, or follows other rules than those of
    /// [`Operation`].
    fn new(expr: &Arc<dyn PhysicalExpr>, schema: &Schema) -> Result<Option<Self>> {
        if !expr.is::<BinaryExpr>() {
            return Ok(None);
        }
        let DataType::Decimal128(precision, scale) = expr.data_type(schema)? else { return Ok(None) };
        let Some((Node::Operation(tree), computed)) = Node::new(expr, schema)? else { return Ok(None) };
        let narrow =
            NarrowDecimal { original: Arc::clone(expr), tree: Node::Operation(tree), precision, scale };
        Ok((computed == scale).then_some(narrow))
    }
}

impl Node {
    /// The node of an expression and its scale; `None` if that is not a decimal of 128 bits.
    pub(crate) fn new(expr: &Arc<dyn PhysicalExpr>, schema: &Schema) -> Result<Option<(Self, i8)>> {
        let DataType::Decimal128(_, scale) = expr.data_type(schema)? else { return Ok(None) };
        let leaf = || -> Result<_> { Ok(Some((Node::Leaf(narrowed_below(expr, schema)?), scale))) };
        let Some(binary) = expr.downcast_ref::<BinaryExpr>() else { return leaf() };
        let op = match binary.op() {
            Operator::Plus => Arithmetic::Add,
            Operator::Minus => Arithmetic::Subtract,
            Operator::Multiply => Arithmetic::Multiply,
            _ => return leaf(),
        };
        let (left, right) = (Node::new(binary.left(), schema)?, Node::new(binary.right(), schema)?);
        let (Some((left, left_scale)), Some((right, right_scale))) = (left, right) else { return leaf() };
        let result = match op {
            Arithmetic::Multiply => left_scale.checked_add(right_scale),
            Arithmetic::Add | Arithmetic::Subtract => Some(left_scale.max(right_scale)),
        };
        let factor = |from: i8| match (op, result) {
            (Arithmetic::Multiply, _) => Some(1),
            (_, Some(to)) => 10i64.checked_pow(u32::from(to.abs_diff(from))),
            (_, None) => None,
        };
        let (Some(left_factor), Some(right_factor)) = (factor(left_scale), factor(right_scale)) else {
            return leaf();
        };
        if result != Some(scale) {
            return leaf();
        }
        let operation = Operation { op, left, right, left_factor, right_factor };
        Ok(Some((Node::Operation(Box::new(operation)), scale)))
    }
}

/// An expression that is not arithmetic itself, with the arithmetic in it narrowed.
fn narrowed_below(expr: &Arc<dyn PhysicalExpr>, schema: &Schema) -> Result<Arc<dyn PhysicalExpr>> {
    if expr.is::<BinaryExpr>() {
        return Ok(Arc::clone(expr));
    }
    let mut changed = false;
    let children = expr.children().into_iter().map(|child| {
        let child = narrowed(Arc::clone(child), schema)?;
        changed |= child.transformed;
        Ok(child.data)
    });
    let children = children.collect::<Result<_>>()?;
    if changed { Arc::clone(expr).with_new_children(children) } else { Ok(Arc::clone(expr)) }
}

/// The minimum and the maximum of some values.
#[derive(Clone, Copy)]
pub(crate) struct Bounds {
    pub(crate) min: i128,
    pub(crate) max: i128,
}

impl Bounds {
    /// The bounds of these values, if they fit 64 bits.
    fn checked(values: [i128; 4]) -> Option<Self> {
        let (min, max) = values.into_iter().fold((i128::MAX, i128::MIN), |(a, b), v| (a.min(v), b.max(v)));
        (i64::try_from(min).is_ok() && i64::try_from(max).is_ok()).then_some(Bounds { min, max })
    }

    /// The bounds of a result. Products and sums of 64-bit values fit 128 bits.
    pub(crate) fn of(op: Arithmetic, a: Bounds, b: Bounds) -> Option<Bounds> {
        let apply = |a: i128, b: i128| match op {
            Arithmetic::Add => a + b,
            Arithmetic::Subtract => a - b,
            Arithmetic::Multiply => a * b,
        };
        Bounds::checked([apply(a.min, b.min), apply(a.min, b.max), apply(a.max, b.min), apply(a.max, b.max)])
    }

    pub(crate) fn times(self, factor: i64) -> Option<Bounds> {
        let factor = Bounds { min: i128::from(factor), max: i128::from(factor) };
        Bounds::of(Arithmetic::Multiply, self, factor)
    }
}

/// Values in 64 bits.
enum Narrow {
    Scalar(i64),
    Array(Vec<i64>),
}

/// Values with their bounds and their nulls.
struct Operand {
    values: Narrow,
    bounds: Bounds,
    nulls: Option<NullBuffer>,
}

impl Operand {
    fn scalar(value: i64) -> Self {
        let wide = i128::from(value);
        Operand { values: Narrow::Scalar(value), bounds: Bounds { min: wide, max: wide }, nulls: None }
    }

    /// `None` if a value does not fit.
    fn array(array: &Decimal128Array) -> Option<Self> {
        let values = values_in_64_bits(array)?;
        let (min, max) = values.iter().fold((i64::MAX, i64::MIN), |(a, b), v| (a.min(*v), b.max(*v)));
        let (min, max) = if values.is_empty() { (0, 0) } else { (min, max) };
        let bounds = Bounds { min: i128::from(min), max: i128::from(max) };
        Some(Operand { values: Narrow::Array(values), bounds, nulls: array.nulls().cloned() })
    }
}

impl Node {
    /// The node's values, or `None` if they, or intermediate values, may not fit.
    fn compute(&self, batch: &RecordBatch) -> Result<Option<Operand>> {
        let operation = match self {
            Node::Leaf(expr) => {
                return Ok(match expr.evaluate(batch)? {
                    ColumnarValue::Array(array) => Operand::array(array.as_primitive::<Decimal128Type>()),
                    ColumnarValue::Scalar(ScalarValue::Decimal128(Some(value), ..)) => {
                        i64::try_from(value).ok().map(Operand::scalar)
                    }
                    ColumnarValue::Scalar(_) => None,
                });
            }
            Node::Operation(operation) => operation,
        };
        let Some(left) = operation.left.compute(batch)? else { return Ok(None) };
        let Some(right) = operation.right.compute(batch)? else { return Ok(None) };
        Ok(operation.apply(left, right))
    }
}

impl Operation {
    fn apply(&self, left: Operand, right: Operand) -> Option<Operand> {
        let (a, b) = (left.bounds.times(self.left_factor)?, right.bounds.times(self.right_factor)?);
        let bounds = Bounds::of(self.op, a, b)?;
        let nulls = NullBuffer::union(left.nulls.as_ref(), right.nulls.as_ref());
        let (f, g) = (self.left_factor, self.right_factor);
        // Cannot overflow; wrapping operations avoid the check.
        let values = match self.op {
            Arithmetic::Multiply => combine(left.values, right.values, |a, b| a.wrapping_mul(b)),
            Arithmetic::Add if f == 1 && g == 1 => {
                combine(left.values, right.values, |a, b| a.wrapping_add(b))
            }
            Arithmetic::Subtract if f == 1 && g == 1 => {
                combine(left.values, right.values, |a, b| a.wrapping_sub(b))
            }
            Arithmetic::Add => {
                combine(left.values, right.values, |a, b| a.wrapping_mul(f).wrapping_add(b.wrapping_mul(g)))
            }
            Arithmetic::Subtract => {
                combine(left.values, right.values, |a, b| a.wrapping_mul(f).wrapping_sub(b.wrapping_mul(g)))
            }
        };
        Some(Operand { values, bounds, nulls })
    }
}

fn combine(left: Narrow, right: Narrow, f: impl Fn(i64, i64) -> i64) -> Narrow {
    match (left, right) {
        (Narrow::Scalar(a), Narrow::Scalar(b)) => Narrow::Scalar(f(a, b)),
        (Narrow::Scalar(a), Narrow::Array(mut b)) => {
            b.iter_mut().for_each(|b| *b = f(a, *b));
            Narrow::Array(b)
        }
        (Narrow::Array(mut a), Narrow::Scalar(b)) => {
            a.iter_mut().for_each(|a| *a = f(*a, b));
            Narrow::Array(a)
        }
        (Narrow::Array(mut a), Narrow::Array(b)) => {
            a.iter_mut().zip(b).for_each(|(a, b)| *a = f(*a, b));
            Narrow::Array(a)
        }
    }
}

impl PhysicalExpr for NarrowDecimal {
    fn data_type(&self, _input_schema: &Schema) -> Result<DataType> {
        Ok(DataType::Decimal128(self.precision, self.scale))
    }

    fn nullable(&self, input_schema: &Schema) -> Result<bool> {
        self.original.nullable(input_schema)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        let Some(operand) = self.tree.compute(batch)? else { return self.original.evaluate(batch) };
        Ok(match operand.values {
            Narrow::Scalar(value) => {
                let value = Some(i128::from(value));
                ColumnarValue::Scalar(ScalarValue::Decimal128(value, self.precision, self.scale))
            }
            Narrow::Array(values) => {
                let wide = values.into_iter().map(i128::from).collect::<Vec<_>>().into();
                let array = Decimal128Array::new(wide, operand.nulls);
                ColumnarValue::Array(Arc::new(array.with_precision_and_scale(self.precision, self.scale)?))
            }
        })
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![&self.original]
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn PhysicalExpr>>,
    ) -> Result<Arc<dyn PhysicalExpr>> {
        // Over another expression, whose columns may differ, the narrowing does not hold.
        match <[Arc<dyn PhysicalExpr>; 1]>::try_from(children) {
            Ok([child]) if child.eq(&self.original) => Ok(self),
            Ok([child]) => Ok(child),
            Err(children) => {
                internal_err!("arithmetic stands for one expression, not for {}", children.len())
            }
        }
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.original.fmt_sql(f)
    }
}

impl fmt::Display for NarrowDecimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.original, f)
    }
}

impl PartialEq for NarrowDecimal {
    fn eq(&self, other: &Self) -> bool {
        self.original.eq(&other.original)
    }
}

impl Eq for NarrowDecimal {}

impl Hash for NarrowDecimal {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.original.hash(state);
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::ArrayRef;
    use datafusion::arrow::datatypes::{DECIMAL128_MAX_PRECISION, Field};
    use datafusion::physical_expr::expressions::{Literal, cast, col};

    use super::*;

    fn decimals(values: &[Option<i128>], precision: u8, scale: i8) -> ArrayRef {
        let array: Decimal128Array = values.iter().copied().collect();
        Arc::new(array.with_precision_and_scale(precision, scale).unwrap())
    }

    fn batch(price: &[Option<i128>], discount: &[Option<i128>]) -> RecordBatch {
        let fields = [("price", 15, 2), ("discount", 15, 2)]
            .map(|(name, p, s)| Field::new(name, DataType::Decimal128(p, s), true));
        let arrays = vec![decimals(price, 15, 2), decimals(discount, 15, 2)];
        RecordBatch::try_new(Arc::new(Schema::new(fields.to_vec())), arrays).unwrap()
    }

    fn binary(
        left: Arc<dyn PhysicalExpr>,
        op: Operator,
        right: Arc<dyn PhysicalExpr>,
    ) -> Arc<dyn PhysicalExpr> {
        Arc::new(BinaryExpr::new(left, op, right).with_fail_on_overflow(true))
    }

    fn one() -> Arc<dyn PhysicalExpr> {
        Arc::new(Literal::new(ScalarValue::Decimal128(Some(1), 20, 0)))
    }

    /// `price * (1 - discount) * (1 + discount) + price`.
    fn expression(schema: &Schema) -> Arc<dyn PhysicalExpr> {
        let column = |name| col(name, schema).unwrap();
        let less = binary(one(), Operator::Minus, column("discount"));
        let more = binary(one(), Operator::Plus, column("discount"));
        let product = binary(binary(column("price"), Operator::Multiply, less), Operator::Multiply, more);
        binary(product, Operator::Plus, column("price"))
    }

    /// The values computed in both ways, and whether 64 bits were enough.
    fn both(expr: &Arc<dyn PhysicalExpr>, batch: &RecordBatch) -> (ArrayRef, ArrayRef, bool) {
        let narrow = narrowed(Arc::clone(expr), &batch.schema()).unwrap();
        assert!(narrow.transformed);
        let array = |expr: &Arc<dyn PhysicalExpr>| {
            expr.evaluate(batch).unwrap().into_array(batch.num_rows()).unwrap()
        };
        let tree = &narrow.data.downcast_ref::<NarrowDecimal>().expect("it is arithmetic at the top").tree;
        (array(expr), array(&narrow.data), tree.compute(batch).unwrap().is_some())
    }

    #[test]
    fn values_types_and_nulls_are_the_same() {
        let price = [Some(123_456), None, Some(-99), Some(0), Some(10_000_000), Some(1)];
        let discount = [Some(5), Some(7), None, Some(100), Some(-3), Some(0)];
        let batch = batch(&price, &discount);
        let (wide, narrow, fits) = both(&expression(&batch.schema()), &batch);
        assert!(fits);
        assert_eq!(&wide, &narrow);
        assert_eq!(wide.data_type(), narrow.data_type());
        assert_eq!(narrow.null_count(), 2);
    }

    #[test]
    fn what_does_not_fit_is_computed_as_before() {
        // A product of 30 digits: too many for 64 bits, but not for 128.
        let largest = 10i128.pow(15) - 1;
        let batch = batch(&[Some(largest), Some(-largest)], &[Some(-largest), Some(5)]);
        let column = |name| col(name, &batch.schema()).unwrap();
        let product = binary(column("price"), Operator::Multiply, column("discount"));
        let (wide, narrow, fits) = both(&product, &batch);
        assert!(!fits);
        assert_eq!(&wide, &narrow);
    }

    #[test]
    fn the_largest_values_of_64_bits_are_no_overflow() {
        let schema = Schema::new(vec![Field::new("a", DataType::Decimal128(38, 0), false)]);
        let a = || col("a", &schema).unwrap();
        for (value, fits) in [(i128::from(i64::MAX) / 2, true), (i128::from(i64::MAX) / 2 + 1, false)] {
            let array = decimals(&[Some(value), Some(-value)], DECIMAL128_MAX_PRECISION, 0);
            let batch = RecordBatch::try_new(Arc::new(schema.clone()), vec![array]).unwrap();
            let (wide, narrow, narrow_enough) = both(&binary(a(), Operator::Plus, a()), &batch);
            assert_eq!(narrow_enough, fits, "{value}");
            assert_eq!(&wide, &narrow);
        }
    }

    #[test]
    fn random_values_agree() {
        let mut seed = 7u64;
        let mut next = |bits: u32| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let value = i128::from((seed as i64) >> (64 - bits));
            (!seed.is_multiple_of(11)).then_some(value % 10i128.pow(15))
        };
        let mut fitting = 0;
        for round in 0..200 {
            let bits = 2 + round % 50;
            let price: Vec<_> = (0..33).map(|_| next(bits)).collect();
            let discount: Vec<_> = (0..33).map(|_| next(bits / 2 + 2)).collect();
            let batch = batch(&price, &discount);
            let (wide, narrow, fits) = both(&expression(&batch.schema()), &batch);
            assert_eq!(&wide, &narrow, "round {round}");
            fitting += u32::from(fits);
        }
        assert!((40..180).contains(&fitting), "both ways are taken: {fitting} of 200 fit");
    }

    #[test]
    fn other_expressions_are_left_alone_and_searched() {
        let batch = batch(&[Some(3)], &[Some(4)]);
        let schema = batch.schema();
        let column = |name| col(name, &schema).unwrap();
        let quotient = binary(column("price"), Operator::Divide, column("discount"));
        assert!(!narrowed(quotient, &schema).unwrap().transformed);
        assert!(!narrowed(column("price"), &schema).unwrap().transformed);
        let product = binary(column("price"), Operator::Multiply, column("discount"));
        let text = cast(product, &schema, DataType::Float64).unwrap();
        let found = narrowed(Arc::clone(&text), &schema).unwrap();
        assert!(found.transformed);
        assert_eq!(found.data.to_string(), text.to_string(), "plans read as before");
        assert_eq!(
            found.data.evaluate(&batch).unwrap().into_array(1).unwrap().as_ref(),
            text.evaluate(&batch).unwrap().into_array(1).unwrap().as_ref()
        );
    }

    #[test]
    fn an_overflow_of_128_bits_is_still_an_error() {
        let schema = Schema::new(vec![Field::new("a", DataType::Decimal128(38, 0), false)]);
        let array = decimals(&[Some(10i128.pow(37))], DECIMAL128_MAX_PRECISION, 0);
        let batch = RecordBatch::try_new(Arc::new(schema.clone()), vec![array]).unwrap();
        let a = || col("a", &schema).unwrap();
        let square = narrowed(binary(a(), Operator::Multiply, a()), &schema).unwrap().data;
        assert!(square.evaluate(&batch).unwrap_err().to_string().contains("Overflow"));
    }
}
