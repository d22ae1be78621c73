//! Numbers that are integers in the query engine and have fractions in PostgreSQL: their types, and the quotients and
//! products of them, also where they come out of a subquery, a view or a branch.
//!
//! - The sum of bigint is numeric.
//! - A part of a time is divided with a fraction.
//! - A column of UNION and a CASE of integers and numerics are numeric. The query engine takes the type of the first branch
//!   until the whole statement is planned.
//!
//! This changes the planned statement, because a type may depend on all that is below.

use std::sync::Arc;

use coscan_upstream::with_current_types;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, Result};
use datafusion::logical_expr::expr::{AggregateFunction, Alias, WindowFunction};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    Aggregate, BinaryExpr, Case, Cast, Expr, ExprSchemable, LogicalPlan, Operator, Projection, Union, Values,
    WindowFunctionDefinition, binary_expr, cast,
};

use super::integers::{Whole, whole};
use super::numbers::computed;
use crate::sql::functions::{digits_of, float_quotient, product, quotient};

/// The type of a sum of bigint. It holds a sum of 2^63 of them.
const SUM: DataType = DataType::Decimal128(38, 0);
/// Digits of the widest number.
const DIGITS: u8 = 38;
/// Limit of the changes of subqueries within subqueries. Each pass settles the references of one level at least.
const PASSES_MAX: usize = 16;

/// The plan with PostgreSQL's types of such numbers.
pub(crate) fn with_numerics(mut plan: LogicalPlan) -> Result<LogicalPlan> {
    for _ in 0..PASSES_MAX {
        let changed = pass(plan)?;
        if !changed.transformed {
            return Ok(changed.data);
        }
        let current = with_current_types(changed.data)?;
        plan = current.data;
        if !current.transformed {
            break;
        }
    }
    Ok(plan)
}

fn pass(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let mut has_changed = false;
    plan.transform_up_with_subqueries(|node| {
        let mut node = in_node(node)?;
        has_changed |= node.transformed;
        if has_changed {
            node.data = node.data.recompute_schema()?;
        }
        let sums = sums(&node.data);
        if !sums.is_empty() {
            node = Transformed::yes(with_types(Arc::new(node.data), &sums)?);
        }
        has_changed |= node.transformed;
        Ok(node)
    })
}

fn in_node(node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    match node {
        LogicalPlan::Union(union) => return of_union(union),
        // Both terms keep the types with which the recursive one was planned.
        LogicalPlan::RecursiveQuery(mut of) => {
            let (first, second) =
                (other_types(&of.static_term, &of.schema), other_types(&of.recursive_term, &of.schema));
            let changed = !first.is_empty() || !second.is_empty();
            of.static_term = Arc::new(with_types(of.static_term, &first)?);
            of.recursive_term = Arc::new(with_types(of.recursive_term, &second)?);
            return Ok(Transformed::new_transformed(LogicalPlan::RecursiveQuery(of), changed));
        }
        LogicalPlan::Values(of) => return of_values(of),
        _ => {}
    }
    if !has_candidates(&node)? {
        return Ok(Transformed::no(node));
    }
    let names = NamePreserver::new(&node);
    let inputs: Vec<LogicalPlan> = node.inputs().into_iter().cloned().collect();
    let inputs: Vec<&LogicalPlan> = inputs.iter().collect();
    let schema = merge_schema(&inputs);
    node.map_expressions(|expr| in_expression(expr, &names, &schema, &inputs))
}

/// Returns whether a node has an expression that may change.
fn has_candidates(node: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    node.apply_expressions(|expr| {
        found = found || expr.exists(|part| Ok(is_candidate(part)))?;
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}

fn is_candidate(expr: &Expr) -> bool {
    match expr {
        Expr::BinaryExpr(of) => matches!(of.op, Operator::Divide | Operator::Multiply),
        Expr::ScalarFunction(of) => [quotient(), product()].contains(&of.func),
        Expr::Case(_) => true,
        expr => sum_cast(expr).is_some(),
    }
}

/// A whole expression, or a key of a grouping set, under its name.
fn in_expression(
    expr: Expr,
    names: &NamePreserver,
    schema: &DFSchema,
    inputs: &[&LogicalPlan],
) -> Result<Transformed<Expr>> {
    if let Expr::GroupingSet(_) = &expr {
        return expr.map_children(|key| in_expression(key, names, schema, inputs));
    }
    // The type of the sum has changed since an earlier pass.
    if let Some(column) = sum_cast(&expr)
        && !column.get_type(schema)?.is_integer()
    {
        return Ok(Transformed::yes(column.clone()));
    }
    let name = names.save(&expr);
    let changed = expr.transform_up(|expr| {
        Ok(match replaced(&expr, schema, inputs) {
            Some(other) => Transformed::yes(other),
            None => Transformed::no(expr),
        })
    })?;
    Ok(match changed.transformed {
        true => changed.update_data(|expr| name.restore(expr)),
        false => changed,
    })
}

/// PostgreSQL's quotient, product or choice.
fn replaced(expr: &Expr, schema: &DFSchema, inputs: &[&LogicalPlan]) -> Option<Expr> {
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op: op @ (Operator::Divide | Operator::Multiply), right }) => {
            let divides = *op == Operator::Divide;
            let is_whole = |of: &Expr| of.get_type(schema).is_ok_and(|of| of.is_integer());
            let is_fraction = |of: &Expr| whole(of, inputs) == Whole::Fraction;
            if divides && is_whole(left) && is_whole(right) && (is_fraction(left) || is_fraction(right)) {
                Some(float_quotient().call(vec![*left.clone(), *right.clone()]))
            } else {
                computed(left, divides, right, schema)
            }
        }
        // An operand may have become a floating-point number.
        Expr::ScalarFunction(of) => match &of.args[..] {
            [left, right] if is_floating(left, schema) || is_floating(right, schema) => {
                if of.func == quotient() {
                    Some(float_quotient().call(of.args.clone()))
                } else if of.func == product() {
                    Some(binary_expr(left.clone(), Operator::Multiply, right.clone()))
                } else {
                    None
                }
            }
            _ => None,
        },
        Expr::Case(of) => of_case(of, schema),
        _ => None,
    }
}

fn is_floating(of: &Expr, schema: &DFSchema) -> bool {
    of.get_type(schema).is_ok_and(|of| of.is_floating())
}

/// The type of integers and decimals together. `None` if they are of one type, or others are among them.
fn common(types: &[DataType]) -> Option<DataType> {
    let (mut before, mut behind) = (0, 0);
    let mut first = None;
    let mut differ = false;
    for of in types.iter().filter(|of| !of.is_null()) {
        let (digits, scale) = match of {
            DataType::Decimal128(digits, scale) => (*digits, u8::try_from(*scale).ok()?),
            of => (digits_of(of)?, 0),
        };
        before = before.max(digits.saturating_sub(scale));
        behind = behind.max(scale);
        differ |= *first.get_or_insert(of) != of;
    }
    let has_decimal = types.iter().any(DataType::is_decimal);
    let scale = i8::try_from(behind).ok()?;
    (differ && has_decimal).then(|| DataType::Decimal128((before + behind).min(DIGITS), scale))
}

/// CASE with results of one type.
fn of_case(of: &Case, schema: &DFSchema) -> Option<Expr> {
    let results = of.when_then_expr.iter().map(|(_, then)| then.as_ref()).chain(of.else_expr.as_deref());
    let types: Vec<DataType> = results.map(|of| of.get_type(schema)).collect::<Result<_>>().ok()?;
    let to = common(&types)?;
    let mut types = types.into_iter();
    let mut casted = |of: &Expr| match types.next() {
        Some(known) if known != to && !known.is_null() => Box::new(cast(of.clone(), to.clone())),
        _ => Box::new(of.clone()),
    };
    let when_then_expr = of.when_then_expr.iter().map(|(when, then)| (when.clone(), casted(then))).collect();
    let else_expr = of.else_expr.as_deref().map(casted);
    Some(Expr::Case(Case { expr: of.expr.clone(), when_then_expr, else_expr }))
}

/// The union with columns of one type.
fn of_union(union: Union) -> Result<Transformed<LogicalPlan>> {
    let type_of = |input: &LogicalPlan, at: usize| {
        input.schema().fields().get(at).map_or(DataType::Null, |field| field.data_type().clone())
    };
    let mut changed = false;
    let mut columns = Vec::new();
    for (at, field) in union.schema.fields().iter().enumerate() {
        let types: Vec<DataType> = union.inputs.iter().map(|input| type_of(input, at)).collect();
        // An input may have another type than when the union was planned.
        changed |= types.first().is_some_and(|of| of != field.data_type() && of.is_numeric());
        columns.extend(common(&types).map(|to| (at, to)));
    }
    if columns.is_empty() && !changed {
        return Ok(Transformed::no(LogicalPlan::Union(union)));
    }
    let mut inputs = Vec::new();
    for input in union.inputs {
        let others = columns.iter().filter(|(at, to)| {
            let of = type_of(&input, *at);
            of != *to && !of.is_null()
        });
        let others: Vec<(usize, DataType)> = others.cloned().collect();
        inputs.push(if others.is_empty() { input } else { Arc::new(with_types(input, &others)?) });
    }
    Ok(Transformed::yes(LogicalPlan::Union(Union::try_new_with_loose_types(inputs)?)))
}

/// Rows of values in the types with which they were planned.
fn of_values(mut of: Values) -> Result<Transformed<LogicalPlan>> {
    let (empty, mut changed) = (DFSchema::empty(), false);
    for row in &mut of.values {
        for (value, field) in row.iter_mut().zip(of.schema.fields()) {
            if matches!(value, Expr::ScalarSubquery(_)) && value.get_type(&empty)? != *field.data_type() {
                *value = cast(value.clone(), field.data_type().clone());
                changed = true;
            }
        }
    }
    Ok(Transformed::new_transformed(LogicalPlan::Values(of), changed))
}

/// The columns that have other types than in a schema, with those types.
fn other_types(plan: &LogicalPlan, schema: &DFSchema) -> Vec<(usize, DataType)> {
    let columns = plan.schema().fields().iter().zip(schema.fields()).enumerate();
    let others = columns.filter(|(_, (now, before))| {
        now.data_type() != before.data_type()
            && now.data_type().is_numeric()
            && before.data_type().is_numeric()
    });
    others.map(|(at, (_, before))| (at, before.data_type().clone())).collect()
}

/// The plan with the same columns, some of them in other types.
fn with_types(plan: Arc<LogicalPlan>, types: &[(usize, DataType)]) -> Result<LogicalPlan> {
    if types.is_empty() {
        return Ok(Arc::unwrap_or_clone(plan));
    }
    let fields = plan.schema().iter().enumerate();
    // Only the aggregation below knows the number of a grouping set.
    let shown = fields.filter(|(_, (_, field))| field.name() != Aggregate::INTERNAL_GROUPING_ID);
    let columns = shown.map(|(at, (qualifier, field))| {
        let column = Expr::Column(Column::from((qualifier, field)));
        match types.iter().find(|(of, _)| *of == at) {
            Some((_, to)) => cast(column, to.clone()).alias_qualified(qualifier.cloned(), field.name()),
            None => column,
        }
    });
    let columns = columns.collect();
    Ok(LogicalPlan::Projection(Projection::try_new(columns, plan)?))
}

/// The columns of a node that are sums of bigint, with their type.
fn sums(node: &LogicalPlan) -> Vec<(usize, DataType)> {
    let (exprs, input) = match node {
        LogicalPlan::Aggregate(of) => (&of.aggr_expr, &of.input),
        LogicalPlan::Window(of) => (&of.window_expr, &of.input),
        _ => return Vec::new(),
    };
    let fields = node.schema().fields();
    let first = fields.len().saturating_sub(exprs.len());
    let found = exprs.iter().enumerate().filter(|(at, expr)| {
        let is_whole = fields.get(first + at).is_some_and(|field| field.data_type().is_integer());
        is_whole && summed(expr).is_some_and(|of| whole(of, &[input.as_ref()]) != Whole::Integer)
    });
    found.map(|(at, _)| (first + at, SUM)).collect()
}

/// The argument of a sum.
fn summed(expr: &Expr) -> Option<&Expr> {
    let (name, args) = match expr {
        Expr::Alias(alias) => return summed(&alias.expr),
        Expr::AggregateFunction(AggregateFunction { func, params }) => (func.name(), &params.args),
        Expr::WindowFunction(of) => {
            let WindowFunction { fun, params } = of.as_ref();
            match fun {
                WindowFunctionDefinition::AggregateUDF(func) => (func.name(), &params.args),
                WindowFunctionDefinition::WindowUDF(_) => return None,
            }
        }
        _ => return None,
    };
    args.first().filter(|_| name == "sum")
}

/// The column of a sum that `with_types` has cast.
fn sum_cast(expr: &Expr) -> Option<&Expr> {
    let Expr::Alias(Alias { expr, relation, name, .. }) = expr else { return None };
    let Expr::Cast(Cast { expr, field }) = expr.as_ref() else { return None };
    match expr.as_ref() {
        Expr::Column(column) => {
            let is_same = column.relation == *relation && column.name == *name && *field.data_type() == SUM;
            is_same.then_some(expr.as_ref())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_and_decimals_have_one_type() {
        use DataType::{Decimal128, Float64, Int32, Int64, Null};
        for (types, to) in [
            (vec![Int64, Decimal128(2, 1)], Some(Decimal128(21, 1))),
            (vec![Null, Decimal128(5, 3), Int32], Some(Decimal128(13, 3))),
            (vec![Decimal128(38, 20), Int64], Some(Decimal128(38, 20))),
            (vec![Decimal128(5, 3), Decimal128(5, 3)], None),
            (vec![Int64, Int32], None),
            (vec![Float64, Decimal128(5, 3)], None),
        ] {
            assert_eq!(common(&types), to, "{types:?}");
        }
    }
}
