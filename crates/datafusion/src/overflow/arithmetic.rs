//! Operations on integers as functions that fail on overflow.
//!
//! As functions they keep what they are through all rules of the optimizer: DataFusion folds constants by computing them, and a
//! constant that overflows stays an expression, which fails if a row needs it.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result, internal_err};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::interval_arithmetic::{Interval, apply_operator};
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::{
    BinaryExpr, ColumnarValue, Expr, ExprSchemable, Operator, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility,
};

use super::{kernels, ranges};

/// The expression as a function, if it is an operation on integers that may overflow.
pub(super) fn checked_operation(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let integer = |operand: &Expr| operand.get_type(schema).ok().filter(DataType::is_integer);
    let (operation, operands) = match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            let operation = Operation::of(op).filter(|_| may_overflow(&left, op, &right, schema));
            let of = integer(&left).filter(|of| integer(&right).as_ref() == Some(of));
            let (Some(operation), Some(of)) = (operation, of) else {
                return Ok(Transformed::no(Expr::BinaryExpr(BinaryExpr { left, op, right })));
            };
            (Checked::new(operation, of), vec![*left, *right])
        }
        Expr::Negative(operand) => {
            let least = |of: &DataType| ranges::of_type(of).map(|range| *range.start());
            let of = integer(&operand).filter(DataType::is_signed_integer);
            let range = ranges::of_expr(&operand, schema);
            match of.filter(|of| range.is_none_or(|range| Some(*range.start()) == least(of))) {
                Some(of) => (Checked::new(Operation::Negate, of), vec![*operand]),
                None => return Ok(Transformed::no(Expr::Negative(operand))),
            }
        }
        expr => return Ok(Transformed::no(expr)),
    };
    Ok(Transformed::yes(operation.call(operands)))
}

/// Whether results of the operation may leave the type of its left operand.
fn may_overflow(left: &Expr, op: Operator, right: &Expr, schema: &DFSchema) -> bool {
    let whole = left.get_type(schema).ok().and_then(|of| ranges::of_type(&of));
    let (Some(whole), Some(results)) = (whole, ranges::of_operation(left, op, right, schema)) else {
        return true;
    };
    results.start() < whole.start() || results.end() > whole.end()
}

/// `left op right` of 64-bit integers, which fails on overflow.
pub(super) fn checked(left: Expr, operation: Operation, right: Expr, of: DataType) -> Expr {
    Checked::new(operation, of).call(vec![left, right])
}

/// What is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Operation {
    Add,
    Subtract,
    Multiply,
    Negate,
}

impl Operation {
    fn of(op: Operator) -> Option<Self> {
        Some(match op {
            Operator::Plus => Operation::Add,
            Operator::Minus => Operation::Subtract,
            Operator::Multiply => Operation::Multiply,
            _ => return None,
        })
    }

    /// The operator of two operands.
    pub(super) fn operator(self) -> Operator {
        match self {
            Operation::Add => Operator::Plus,
            Operation::Subtract | Operation::Negate => Operator::Minus,
            Operation::Multiply => Operator::Multiply,
        }
    }
}

/// The operation on integers of one type.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Checked {
    operation: Operation,
    of: DataType,
    signature: Signature,
}

impl Checked {
    fn new(operation: Operation, of: DataType) -> Self {
        let operands = if operation == Operation::Negate { 1 } else { 2 };
        Checked { operation, of, signature: Signature::any(operands, Volatility::Immutable) }
    }

    fn call(self, operands: Vec<Expr>) -> Expr {
        Expr::ScalarFunction(ScalarFunction::new_udf(Arc::new(ScalarUDF::new_from_impl(self)), operands))
    }
}

impl ScalarUDFImpl for Checked {
    fn name(&self) -> &str {
        match self.operation {
            Operation::Add => "checked_add",
            Operation::Subtract => "checked_subtract",
            Operation::Multiply => "checked_multiply",
            Operation::Negate => "checked_negate",
        }
    }

    /// The name of the column that DataFusion's operation has.
    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        match args {
            [left, right] => {
                Ok(format!("{} {} {}", left.schema_name(), self.operation.operator(), right.schema_name()))
            }
            [operand] => Ok(format!("(- {})", operand.schema_name())),
            _ => internal_err!("{} has one operand or two, not {}", self.name(), args.len()),
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(self.of.clone())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let nullable = args.arg_fields.iter().any(|field| field.is_nullable());
        Ok(Arc::new(Field::new(self.name(), self.of.clone(), nullable)))
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        kernels::compute(self.operation, &args.args, &self.of)
    }

    fn evaluate_bounds(&self, inputs: &[&Interval]) -> Result<Interval> {
        match inputs {
            [left, right] => apply_operator(&self.operation.operator(), left, right),
            [operand] => operand.arithmetic_negate(),
            _ => Interval::make_unbounded(&self.of),
        }
    }

    /// What does not wrap around keeps the order of its operands.
    fn output_ordering(&self, inputs: &[ExprProperties]) -> Result<SortProperties> {
        Ok(match (self.operation, inputs) {
            (Operation::Add, [left, right]) => left.sort_properties.add(&right.sort_properties),
            (Operation::Subtract, [left, right]) => left.sort_properties.sub(&right.sort_properties),
            (Operation::Negate, [operand]) => -operand.sort_properties,
            (_, inputs) => {
                match inputs.iter().all(|input| input.sort_properties == SortProperties::Singleton) {
                    true => SortProperties::Singleton,
                    false => SortProperties::Unordered,
                }
            }
        })
    }
}
