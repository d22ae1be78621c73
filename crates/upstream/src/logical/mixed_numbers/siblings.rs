//! Numbers that an expression compares, or from which it selects one.

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr::{InList, InSubquery, ScalarFunction, SetComparison};
use datafusion::logical_expr::type_coercion::binary::type_union_coercion;
use datafusion::logical_expr::{Between, BinaryExpr, Case, Expr, ExprSchemable, Operator, Subquery, cast};

use super::plans::with_doubles;
use super::written::{Digits, as_written, has_decimal};

/// Casts the numbers of an expression to one kind where it needs one.
pub(crate) fn of_one_kind(mut expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let changed = match &mut expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if compares(*op) => {
            compared(vec![left, right], schema)
        }
        Expr::Between(Between { expr, low, high, .. }) => compared(vec![expr, low, high], schema),
        Expr::InList(InList { expr, list, .. }) => {
            compared(std::iter::once(expr.as_mut()).chain(list).collect(), schema)
        }
        Expr::InSubquery(InSubquery { expr, subquery, .. })
        | Expr::SetComparison(SetComparison { expr, subquery, .. }) => {
            compared_with_rows(expr, subquery, schema)?
        }
        Expr::Case(Case { expr, when_then_expr, else_expr }) => {
            let (mut whens, mut thens) = (Vec::new(), Vec::new());
            for (when, then) in when_then_expr.iter_mut() {
                whens.push(when.as_mut());
                thens.push(then.as_mut());
            }
            thens.extend(else_expr.as_deref_mut());
            let operand = expr.as_deref_mut();
            let whens = operand.is_some_and(|operand| {
                whens.push(operand);
                compared(whens, schema)
            });
            let mixed = whens | taken(thens, schema);
            let thens =
                when_then_expr.iter_mut().map(|(_, then)| then.as_mut()).chain(else_expr.as_deref_mut());
            mixed | with_type_of_all(thens.collect(), schema)
        }
        Expr::ScalarFunction(ScalarFunction { func, args }) => match func.name() {
            "nullif" => compared(args.iter_mut().collect(), schema),
            "coalesce" | "greatest" | "least" | "make_array" | "nvl" => {
                taken(args.iter_mut().collect(), schema)
            }
            "nvl2" => taken(args.iter_mut().skip(1).collect(), schema),
            _ => false,
        },
        _ => false,
    };
    Ok(Transformed::new_transformed(expr, changed))
}

fn compares(op: Operator) -> bool {
    use Operator::{Eq, Gt, GtEq, IsDistinctFrom, IsNotDistinctFrom, Lt, LtEq, NotEq};
    matches!(op, Eq | NotEq | Lt | LtEq | Gt | GtEq | IsDistinctFrom | IsNotDistinctFrom)
}

/// Casts compared numbers to one kind. Returns whether one changed.
pub(crate) fn compared(numbers: Vec<&mut Expr>, schema: &DFSchema) -> bool {
    let types = types(&numbers, schema);
    let has_decimal = |(number, of): (&&mut Expr, &DataType)| {
        of.is_decimal() || (of.is_floating() && has_decimal(number, schema))
    };
    let is_mixed = numbers.iter().zip(&types).any(has_decimal);
    is_mixed && mend(numbers, &types, schema)
}

/// Casts numbers from which one is selected to one kind. Returns whether one changed.
fn taken(numbers: Vec<&mut Expr>, schema: &DFSchema) -> bool {
    let types = types(&numbers, schema);
    types.iter().any(DataType::is_decimal) && mend(numbers, &types, schema)
}

/// Gives the first number the common type of all. Until DataFusion casts them, it takes the first number's
/// type for the type of the result. Parameters without a type get theirs later. Returns whether it changed.
fn with_type_of_all(mut numbers: Vec<&mut Expr>, schema: &DFSchema) -> bool {
    let types = types(&numbers, schema);
    if types[0].is_null() {
        return false;
    }
    let all = types.iter().skip(1).try_fold(types[0].clone(), |all, of| type_union_coercion(&all, of));
    match all.filter(|all| all.is_numeric() && *all != types[0]) {
        Some(all) => {
            *numbers[0] = cast(numbers[0].clone(), all);
            true
        }
        None => false,
    }
}

fn types(numbers: &[&mut Expr], schema: &DFSchema) -> Vec<DataType> {
    numbers.iter().map(|number| number.get_type(schema).unwrap_or(DataType::Null)).collect()
}

/// Casts floating-point numbers to decimals if all of them are written in the statement. Otherwise casts
/// decimals to doubles.
fn mend(numbers: Vec<&mut Expr>, types: &[DataType], schema: &DFSchema) -> bool {
    let mut digits = Digits::default();
    let mut is_written = true;
    let mut written = Vec::new();
    for (number, of) in numbers.iter().zip(types) {
        let is_literal = of.is_decimal() && matches!(number, Expr::Cast(_));
        match Some(number).filter(|_| of.is_floating() || is_literal) {
            Some(number) => {
                let decimal = as_written(number, schema);
                is_written &= decimal.is_some();
                digits = digits.with(decimal.as_ref().map_or(Digits::default(), |(_, digits)| *digits));
                written.push(decimal.map(|(decimal, _)| decimal));
            }
            None => {
                digits = digits.with(Digits::of(of).unwrap_or_default());
                written.push(None);
            }
        }
    }
    if is_written && digits.fit(types) {
        let mut changed = false;
        for (number, decimal) in numbers.into_iter().zip(written) {
            if let Some(decimal) = decimal
                && *number != decimal
            {
                *number = decimal;
                changed = true;
            }
        }
        return changed;
    }
    let has_double = types.iter().any(DataType::is_floating);
    let mut changed = false;
    for (number, of) in numbers.into_iter().zip(types) {
        if has_double && of.is_decimal() {
            *number = cast(number.clone(), DataType::Float64);
            changed = true;
        }
    }
    changed
}

/// Casts a number and the numbers that a subquery returns to one kind.
fn compared_with_rows(number: &mut Expr, subquery: &mut Subquery, schema: &DFSchema) -> Result<bool> {
    let of_rows = subquery.subquery.schema().field(0).data_type().clone();
    let of = number.get_type(schema).unwrap_or(DataType::Null);
    if of.is_decimal() && of_rows.is_floating() {
        *number = cast(number.clone(), DataType::Float64);
        return Ok(true);
    }
    if !of.is_floating() || !of_rows.is_decimal() {
        return Ok(false);
    }
    match as_written(number, schema) {
        Some((decimal, digits)) if digits.with(Digits::of(&of_rows).unwrap_or_default()).fit(&[of_rows]) => {
            *number = decimal;
        }
        _ => subquery.subquery = Arc::new(with_doubles(Arc::clone(&subquery.subquery), &[0])?),
    }
    Ok(true)
}
