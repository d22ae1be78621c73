//! Operations on integers as functions that fail on overflow.
//!
//! A function keeps its meaning through all rules of the optimizer. DataFusion folds constants by computing
//! them. A constant that overflows stays an expression, which fails if a row needs it.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result, internal_err};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::interval_arithmetic::{Interval, apply_operator};
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::{
    ColumnarValue, Expr, Operator, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};

use super::kernels;

/// Builds the operation on operands of an integer type, which fails on overflow.
pub(crate) fn checked(operation: Operation, operands: Vec<Expr>, of: DataType) -> Expr {
    Checked::new(operation, of).call(operands)
}

/// Returns whether an expression is a checked operation.
pub(crate) fn is_checked(expr: &Expr) -> bool {
    matches!(expr, Expr::ScalarFunction(function) if function.func.inner().is::<Checked>())
}

/// Returns the function of an operation with this name on this type.
pub(crate) fn named(name: &str, of: &DataType) -> Option<ScalarUDF> {
    let operations = [Operation::Add, Operation::Subtract, Operation::Multiply, Operation::Negate];
    let mut named = operations.into_iter().map(|operation| Checked::new(operation, of.clone()));
    named.find(|checked| checked.name() == name).map(ScalarUDF::new_from_impl)
}

/// A checked operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Operation {
    Add,
    Subtract,
    Multiply,
    Negate,
}

impl Operation {
    pub(crate) fn of(op: Operator) -> Option<Self> {
        Some(match op {
            Operator::Plus => Operation::Add,
            Operator::Minus => Operation::Subtract,
            Operator::Multiply => Operation::Multiply,
            _ => return None,
        })
    }

    /// Returns the operator for two operands.
    pub(crate) fn operator(self) -> Operator {
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

    /// Returns the column name of DataFusion's operation.
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

    /// An operation that does not wrap around preserves the order of its operands.
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
