//! `x = ANY (array)` and `x < ALL (array)` with PostgreSQL's rules for NULL: the result is false only if no element
//! can be equal.
//!
//! A literal array becomes a list of values (`x IN (1, 2)`), which can skip files. A bound array does so when its
//! value is known. Other arrays are compared row by row. Statements write these comparisons as an operator of two
//! words: `dialect::arrays`.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Datum, Scalar};
use datafusion::arrow::compute::kernels::cmp;
use datafusion::arrow::datatypes::DataType;
use datafusion::arrow::error::ArrowError;
use datafusion::common::{DFSchema, Result, ScalarValue, not_impl_err, plan_err};
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::type_coercion::binary::comparison_coercion;
use datafusion::logical_expr::{
    Cast, ColumnarValue, Expr, ExprSchemable, Like, Operator, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, Volatility, binary_expr, cast, lit,
};

use crate::sql::arguments::bound;
use crate::sql::dialect::{ALL, ANY, array_elements};

/// A comparison with the elements of an array.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Quantified {
    op: Operator,
    /// Set for ALL.
    all: bool,
    name: String,
    signature: Signature,
}

/// The comparison for an operator of two words. `None` for other operators.
pub(super) fn planned(
    words: &[String],
    left: &Expr,
    right: &Expr,
    schema: &DFSchema,
) -> Result<Option<Expr>> {
    let [quantifier, op] = words else { return Ok(None) };
    if quantifier != ANY && quantifier != ALL {
        return Ok(None);
    }
    let Some(op) = operator(op) else {
        return not_impl_err!(
            "{op} {quantifier} (array) is not supported: write the comparisons with AND or OR"
        );
    };
    let of = Quantified::of(op, quantifier == ALL);
    let of_left = left.get_type(schema)?;
    let (right, given) = match right {
        Expr::Placeholder(_) => {
            let element = if of_left.is_null() { DataType::Utf8 } else { of_left.clone() };
            (bound(right, DataType::new_list(element, true)), None)
        }
        Expr::Literal(text, _) if text.data_type().is_string() || text.is_null() => {
            match text.try_as_str().flatten() {
                Some(text) => (right.clone(), Some(written(text, &of_left)?)),
                None => (right.clone(), Some(vec![lit(ScalarValue::Null)])),
            }
        }
        Expr::Cast(Cast { expr, field }) => match (expr.as_ref(), field.data_type()) {
            (Expr::Literal(text, _), DataType::List(of)) => match text.try_as_str().flatten() {
                Some(text) => (right.clone(), Some(written(text, of.data_type())?)),
                None => (right.clone(), None),
            },
            _ => (right.clone(), None),
        },
        Expr::ScalarFunction(list) if list.func.name() == "make_array" => {
            (right.clone(), Some(list.args.clone()))
        }
        _ => (right.clone(), None),
    };
    if let Some(elements) = given {
        return Ok(Some(of.among(left, elements)));
    }
    if kernel(op).is_none() {
        return not_impl_err!(
            "{op} {quantifier} (array) is supported for an array that is written down only: write ARRAY['a', 'b']"
        );
    }
    Ok(Some(ScalarUDF::from(of).call(vec![left.clone(), right])))
}

fn operator(written: &str) -> Option<Operator> {
    Some(match written {
        "=" => Operator::Eq,
        "<>" | "!=" => Operator::NotEq,
        "<" => Operator::Lt,
        "<=" => Operator::LtEq,
        ">" => Operator::Gt,
        ">=" => Operator::GtEq,
        "~" => Operator::RegexMatch,
        "~*" => Operator::RegexIMatch,
        "!~" => Operator::RegexNotMatch,
        "!~*" => Operator::RegexNotIMatch,
        "~~" => Operator::LikeMatch,
        "~~*" => Operator::ILikeMatch,
        "!~~" => Operator::NotLikeMatch,
        "!~~*" => Operator::NotILikeMatch,
        _ => return None,
    })
}

/// Compares values one by one.
type Compare = fn(&dyn Datum, &dyn Datum) -> Result<BooleanArray, ArrowError>;

/// The function that compares a value with each element. `None` for operators that are no plain comparison.
fn kernel(op: Operator) -> Option<Compare> {
    Some(match op {
        Operator::Eq => cmp::eq,
        Operator::NotEq => cmp::neq,
        Operator::Lt => cmp::lt,
        Operator::LtEq => cmp::lt_eq,
        Operator::Gt => cmp::gt,
        Operator::GtEq => cmp::gt_eq,
        _ => return None,
    })
}

/// The elements of an array that is written as a text. They have the type of the value that they are compared with.
fn written(text: &str, of: &DataType) -> Result<Vec<Expr>> {
    let typed = |text: Option<String>| match of {
        _ if text.is_none() => lit(ScalarValue::Null),
        DataType::Null => lit(ScalarValue::Utf8(text)),
        of => cast(lit(ScalarValue::Utf8(text)), of.clone()),
    };
    Ok(array_elements(text)?.into_iter().map(typed).collect())
}

impl Quantified {
    fn of(op: Operator, all: bool) -> Self {
        let name = format!("{} {op}", if all { ALL } else { ANY });
        Quantified { op, all, name, signature: Signature::user_defined(Volatility::Immutable) }
    }

    /// The comparison with known elements.
    fn among(&self, left: &Expr, elements: Vec<Expr>) -> Expr {
        match (self.op, self.all) {
            _ if elements.is_empty() => lit(self.all),
            (Operator::Eq, false) | (Operator::NotEq, true) => {
                Expr::InList(InList::new(Box::new(left.clone()), elements, self.all))
            }
            _ => self.halves(left, &elements),
        }
    }

    /// The comparisons as a balanced tree, which is not deep.
    fn halves(&self, left: &Expr, elements: &[Expr]) -> Expr {
        match elements {
            [one] => self.one(left.clone(), one.clone()),
            _ => {
                let (some, others) = elements.split_at(elements.len() / 2);
                let both = if self.all { Operator::And } else { Operator::Or };
                binary_expr(self.halves(left, some), both, self.halves(left, others))
            }
        }
    }

    fn one(&self, left: Expr, right: Expr) -> Expr {
        let like = |negated, any_case| {
            Expr::Like(Like::new(negated, Box::new(left.clone()), Box::new(right.clone()), None, any_case))
        };
        match self.op {
            Operator::LikeMatch => like(false, false),
            Operator::ILikeMatch => like(false, true),
            Operator::NotLikeMatch => like(true, false),
            Operator::NotILikeMatch => like(true, true),
            op => binary_expr(left, op, right),
        }
    }

    /// The result for one value.
    fn compared(&self, value: &ArrayRef, elements: &ArrayRef) -> Result<Option<bool>> {
        if elements.is_empty() {
            return Ok(Some(self.all));
        }
        let value = Scalar::new(value.clone());
        let Some(compare) = kernel(self.op) else { return not_impl_err!("{}", self.name) };
        let holds = compare(&value, elements)?;
        let decided = if self.all { holds.has_false() } else { holds.has_true() };
        Ok(match (decided, holds.null_count() > 0) {
            (true, _) => Some(!self.all),
            (false, true) => None,
            (false, false) => Some(self.all),
        })
    }
}

impl ScalarUDFImpl for Quantified {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let [left, DataType::List(of) | DataType::LargeList(of) | DataType::FixedSizeList(of, _)] = types
        else {
            return plan_err!("op ANY/ALL (array) requires array on right side");
        };
        let Some(both) = comparison_coercion(left, of.data_type()) else {
            return plan_err!("Cannot infer common type of {left} and the elements {}", of.data_type());
        };
        Ok(vec![both.clone(), DataType::new_list(both, true)])
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn simplify(&self, args: Vec<Expr>, _: &SimplifyContext) -> Result<ExprSimplifyResult> {
        let elements = match &args[..] {
            [_, Expr::Literal(ScalarValue::List(list), _)] if list.len() == 1 && !list.is_null(0) => {
                list.value(0)
            }
            _ => return Ok(ExprSimplifyResult::Original(args)),
        };
        let of = |at| ScalarValue::try_from_array(&elements, at).map(lit);
        let elements = (0..elements.len()).map(of).collect::<Result<Vec<_>>>()?;
        Ok(ExprSimplifyResult::Simplified(self.among(&args[0], elements)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let arrays = ColumnarValue::values_to_arrays(&args.args)?;
        let (values, lists) = (&arrays[0], arrays[1].as_list::<i32>());
        let row = |at: usize| match lists.is_null(at) {
            true => Ok(None),
            false => self.compared(&values.slice(at, 1), &lists.value(at)),
        };
        let rows = (0..values.len()).map(row).collect::<Result<BooleanArray>>()?;
        Ok(ColumnarValue::Array(Arc::new(rows)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::arrow::array::Int64Array;

    #[test]
    fn nulls_are_those_of_postgres() {
        let array = |values: &[Option<i64>]| Arc::new(Int64Array::from(values.to_vec())) as ArrayRef;
        for (op, all, value, elements, expected) in [
            (Operator::Eq, false, Some(1), &[Some(1), None][..], Some(true)),
            (Operator::Eq, false, Some(2), &[Some(1), None][..], None),
            (Operator::Eq, false, Some(2), &[Some(1)][..], Some(false)),
            (Operator::Eq, false, None, &[Some(1)][..], None),
            (Operator::Eq, false, None, &[][..], Some(false)),
            (Operator::NotEq, true, Some(2), &[Some(1), None][..], None),
            (Operator::NotEq, true, Some(1), &[Some(1), None][..], Some(false)),
            (Operator::Gt, true, None, &[][..], Some(true)),
            (Operator::Lt, false, Some(1), &[None, Some(2)][..], Some(true)),
        ] {
            let of = Quantified::of(op, all);
            let found = of.compared(&array(&[value]), &array(elements)).unwrap();
            assert_eq!(found, expected, "{value:?} {} {elements:?}", of.name);
        }
    }
}
