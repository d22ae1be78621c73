//! Types of parameters whose client states none, as PostgreSQL finds them.
//!
//! Drivers ask for these types and encode values by them, so `LIMIT $1` has to be an integer. The query engine finds
//! the types of compared operands. This module adds the operands of other operators, while they are planned, and the
//! other positions, in the finished plan. Everywhere else, a parameter is a text. The first position with a type
//! decides.

use std::collections::BTreeMap;
use std::sync::Arc;

use coscan_upstream::plan_with_types;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, IntervalUnit};
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, DataFusionError, Result};
use datafusion::execution::SessionState;
use datafusion::logical_expr::expr::{
    AggregateFunction, InList, Placeholder, ScalarFunction, WindowFunction,
};
use datafusion::logical_expr::type_coercion::binary::type_union_resolution;
use datafusion::logical_expr::type_coercion::functions::fields_with_udf;
use datafusion::logical_expr::{BinaryExpr, Case, Expr, ExprSchemable, LogicalPlan, Operator};
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::BinaryOperator;

use super::QueryError;
use super::arguments::{is_untyped, type_of};
use super::ast::has_parameter;
use super::dialect::{
    check_outer_aggregates, with_marks, with_numerics, with_operand_types, with_plain_texts, with_records,
    with_rows_for, with_timestamps, with_typed_constants,
};
use super::types::CatalogTypes;

const NUMERIC: DataType = DataType::Decimal128(38, 10);
const INTERVAL: DataType = DataType::Interval(IntervalUnit::MonthDayNano);
const DOUBLE: DataType = DataType::Float64;
const INTEGER: DataType = DataType::Int64;

/// A type that is found may give another its type, as in `coalesce(nullif($1, 1), $2)`.
const ROUNDS_MAX: usize = 3;
/// Functions whose arguments have one type.
const OF_ONE_TYPE: [&str; 7] = ["coalesce", "greatest", "least", "nullif", "make_array", "ifnull", "nvl"];
/// Functions of one number, which PostgreSQL computes in double precision if the type is unknown.
const OF_A_NUMBER: [&str; 7] = ["abs", "ceil", "floor", "round", "trunc", "sign", "to_timestamp"];

/// The type of an untyped operand beside an operand of this type. `None` leaves the type to the query engine, which
/// takes that of the operand.
///
/// # Errors
///
/// If several operators fit.
pub(super) fn beside(
    op: &BinaryOperator,
    operand: &DataType,
    is_left: bool,
) -> Result<Option<DataType>, QueryError> {
    use BinaryOperator::{And, ArrowAt, AtArrow, Divide, Minus, Multiply, Or, PGOverlap, Plus, StringConcat};
    Ok(match (op, operand) {
        (And | Or, _) => Some(DataType::Boolean),
        (StringConcat | AtArrow | ArrowAt | PGOverlap, DataType::List(_)) => Some(operand.clone()),
        (StringConcat, _) => Some(DataType::Utf8),
        (Multiply, DataType::Interval(_)) => Some(DOUBLE),
        (Divide, DataType::Interval(_)) if !is_left => Some(DOUBLE),
        // Products and quotients have more digits than the operand.
        (Multiply | Divide, DataType::Decimal128(..)) => Some(NUMERIC),
        (Plus, DataType::Timestamp(..) | DataType::Time64(_)) => Some(INTERVAL),
        (Plus, DataType::Date32) => {
            let (left, right) = if is_left { ("unknown", "date") } else { ("date", "unknown") };
            return Err(QueryError::other("42725", format!("operator is not unique: {left} + {right}")));
        }
        (Minus, DataType::Timestamp(..) | DataType::Date32) => Some(operand.clone()),
        _ => None,
    })
}

/// The type of two operands that are both untyped parameters.
pub(super) fn of_both(op: &BinaryOperator) -> Option<DataType> {
    use BinaryOperator::{Eq, Gt, GtEq, Lt, LtEq, NotEq, StringConcat};
    match op {
        BinaryOperator::And | BinaryOperator::Or => Some(DataType::Boolean),
        StringConcat | Eq | NotEq | Lt | LtEq | Gt | GtEq => Some(DataType::Utf8),
        _ => None,
    }
}

/// The parameters of a plan, `$1` first, with the type of the first position that has one.
///
/// # Errors
///
/// If one is not numbered.
pub(crate) fn of(plan: &LogicalPlan) -> Result<BTreeMap<usize, Option<DataType>>, QueryError> {
    let mut known = BTreeMap::new();
    let mut wrong = None;
    each(plan, |_, expr| {
        let Expr::Placeholder(parameter) = expr else { return };
        match position(&parameter.id) {
            Ok(at) => {
                let of: &mut Option<DataType> = known.entry(at).or_default();
                *of = of.take().or_else(|| type_of(parameter).cloned());
            }
            Err(error) => wrong = Some(error),
        }
    })?;
    wrong.map_or(Ok(known), Err)
}

/// The number of a parameter, from zero.
///
/// # Errors
///
/// If it is none.
pub(crate) fn position(id: &str) -> Result<usize, QueryError> {
    let number =
        id.strip_prefix('$').and_then(|number| number.parse::<usize>().ok()).filter(|&number| number > 0);
    number
        .map(|number| number - 1)
        .ok_or_else(|| QueryError::other("42P02", format!("{id} is not a parameter: write $1, $2, ...")))
}

/// Plans a statement. Parameters have the stated types, and otherwise those of their positions.
///
/// # Errors
///
/// If the statement cannot be planned.
pub(super) async fn plan(
    state: &SessionState,
    statement: Statement,
    mut stated: Vec<Option<DataType>>,
) -> Result<LogicalPlan> {
    let mut rounds = if has_parameters(&statement) { ROUNDS_MAX } else { 0 };
    loop {
        let plan = once(state, statement.clone(), stated.clone()).await?;
        if rounds == 0 || !infer(&plan, &mut stated)? {
            check_outer_aggregates(&plan)?;
            return Ok(plan);
        }
        rounds -= 1;
    }
}

async fn once(
    state: &SessionState,
    mut statement: Statement,
    stated: Vec<Option<DataType>>,
) -> Result<LogicalPlan> {
    let planned = |statement| plan_with_types(state, statement, stated.clone(), Arc::new(CatalogTypes));
    let mut plan = planned(statement.clone()).await;
    while let Err(error) = &plan
        && let Some(with_rows) =
            with_rows_for(&statement, error).map_err(|error| DataFusionError::External(Box::new(error)))?
    {
        plan = planned(with_rows.clone()).await.and_then(with_records);
        statement = with_rows;
    }
    let plan = with_plain_texts(with_marks(with_operand_types(plan?)?)?)?;
    with_numerics(with_timestamps(with_typed_constants(plan)?)?)
}

fn has_parameters(statement: &Statement) -> bool {
    let Statement::Statement(ast) = statement else { return false };
    has_parameter(ast.as_ref())
}

/// Adds the types that follow from the positions of untyped parameters in a plan. Returns whether there are any.
fn infer(plan: &LogicalPlan, types: &mut Vec<Option<DataType>>) -> Result<bool> {
    let mut found = Found::default();
    plan.apply_with_subqueries(|node| {
        match node {
            LogicalPlan::Limit(limit) => {
                let bounds = limit.skip.iter().chain(&limit.fetch);
                bounds.for_each(|bound| found.add(bound, &INTEGER));
            }
            LogicalPlan::Filter(filter) => found.condition(&filter.predicate),
            LogicalPlan::Join(join) => join.filter.iter().for_each(|filter| found.condition(filter)),
            LogicalPlan::Union(union) => found.branches(&union.inputs),
            LogicalPlan::Values(values) => {
                for (at, column) in values.schema.fields().iter().enumerate() {
                    let rows = values.values.iter().filter_map(|row| row.get(at));
                    rows.for_each(|value| found.add(value, column.data_type()));
                }
            }
            _ => {}
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    each(plan, |schema, expr| found.within(expr, schema))?;
    let mut any = false;
    for (at, of) in found.0 {
        types.resize(types.len().max(at + 1), None);
        any |= types[at].is_none();
        types[at].get_or_insert(of);
    }
    Ok(any)
}

/// Calls `act` for each part of each expression, with the columns that it may use.
fn each(plan: &LogicalPlan, mut act: impl FnMut(&DFSchema, &Expr)) -> Result<()> {
    plan.apply_with_subqueries(|node| {
        let mut columns = DFSchema::empty();
        node.inputs().iter().for_each(|input| columns.merge(input.schema()));
        node.apply_expressions(|expr| {
            expr.apply(|part| {
                act(&columns, part);
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    Ok(())
}

/// Types by position.
#[derive(Default)]
struct Found(BTreeMap<usize, DataType>);

impl Found {
    fn add(&mut self, expr: &Expr, of: &DataType) {
        if let Expr::Alias(alias) = expr {
            return self.add(&alias.expr, of);
        }
        if let Expr::Placeholder(parameter) = expr
            && type_of(parameter).is_none()
        {
            self.put(parameter, of);
        }
    }

    fn put(&mut self, parameter: &Placeholder, of: &DataType) {
        if let (Ok(at), Some(of)) = (position(&parameter.id), usual(of)) {
            self.0.entry(at).or_insert(of);
        }
    }

    fn condition(&mut self, expr: &Expr) {
        self.add(expr, &DataType::Boolean);
        match expr {
            Expr::Not(of) => self.condition(of),
            Expr::BinaryExpr(BinaryExpr { left, op: Operator::And | Operator::Or, right }) => {
                self.condition(left);
                self.condition(right);
            }
            _ => {}
        }
    }

    /// The columns of a UNION have one type.
    fn branches(&mut self, inputs: &[Arc<LogicalPlan>]) {
        let columns = inputs.first().map_or(0, |first| first.schema().fields().len());
        for at in 0..columns {
            let of = |input: &Arc<LogicalPlan>| Some(input.schema().fields().get(at)?.data_type().clone());
            let Some(of) = common(inputs.iter().filter_map(of)) else { continue };
            for input in inputs {
                if let LogicalPlan::Projection(branch) = input.as_ref()
                    && let Some(expr) = branch.expr.get(at)
                {
                    self.add(expr, &of);
                }
            }
        }
    }

    /// These expressions have one type.
    fn alike<'a>(&mut self, exprs: impl IntoIterator<Item = &'a Expr> + Clone, schema: &DFSchema) {
        if !exprs.clone().into_iter().any(is_untyped) {
            return;
        }
        let types = exprs.clone().into_iter().filter_map(|expr| expr.get_type(schema).ok());
        if let Some(of) = common(types) {
            exprs.into_iter().for_each(|expr| self.add(expr, &of));
        }
    }

    fn within(&mut self, expr: &Expr, schema: &DFSchema) {
        match expr {
            Expr::Not(of)
            | Expr::IsTrue(of)
            | Expr::IsFalse(of)
            | Expr::IsUnknown(of)
            | Expr::IsNotTrue(of)
            | Expr::IsNotFalse(of)
            | Expr::IsNotUnknown(of) => self.condition(of),
            Expr::Case(case) => self.case(case, schema),
            Expr::InList(list) => self.list(list, schema),
            Expr::Between(between) => {
                self.alike([between.expr.as_ref(), between.low.as_ref(), between.high.as_ref()], schema);
            }
            Expr::ScalarFunction(call) => self.call(call, schema),
            Expr::AggregateFunction(AggregateFunction { func, params }) => {
                params.filter.iter().for_each(|filter| self.condition(filter));
                if func.name().starts_with("percentile") {
                    params.args.iter().for_each(|arg| self.add(arg, &DOUBLE));
                }
            }
            Expr::WindowFunction(call) => self.window(call, schema),
            _ => {}
        }
    }

    /// The values of a list have one type with the operand. The query engine takes that of the operand alone.
    fn list(&mut self, list: &InList, schema: &DFSchema) {
        let all = || list.list.iter().chain([list.expr.as_ref()]);
        let is_parameter = |expr: &&Expr| matches!(expr, Expr::Placeholder(_));
        let Some(of) =
            common(all().filter(|expr| !is_parameter(expr)).filter_map(|expr| expr.get_type(schema).ok()))
        else {
            return;
        };
        for expr in all() {
            if let Expr::Placeholder(parameter) = expr
                && type_of(parameter).is_none_or(|now| usual(now) != usual(&of))
            {
                self.put(parameter, &of);
            }
        }
    }

    fn case(&mut self, case: &Case, schema: &DFSchema) {
        let whens = case.when_then_expr.iter().map(|(when, _)| when.as_ref());
        match &case.expr {
            Some(of) => self.alike(whens.chain([of.as_ref()]), schema),
            None => whens.for_each(|when| self.condition(when)),
        }
        let thens = case.when_then_expr.iter().map(|(_, then)| then.as_ref());
        self.alike(thens.chain(case.else_expr.as_deref()), schema);
    }

    fn call(&mut self, call: &ScalarFunction, schema: &DFSchema) {
        if !call.args.iter().any(is_untyped) {
            return;
        }
        match (call.func.name(), &call.args[..]) {
            (name, args) if OF_ONE_TYPE.contains(&name) => self.alike(args, schema),
            (name, [of]) if OF_A_NUMBER.contains(&name) => self.add(of, &DOUBLE),
            ("round" | "trunc", [of, digits]) => {
                self.add(of, &NUMERIC);
                self.add(digits, &INTEGER);
            }
            ("generate_series" | "range", [from, to, step @ ..]) => {
                self.alike([from, to], schema);
                let is_time = from.get_type(schema).is_ok_and(|of| of.is_temporal());
                let of = if is_time { INTERVAL } else { INTEGER };
                step.iter().for_each(|step| self.add(step, &of));
            }
            ("width_bucket", [of, low, high, count]) => {
                self.alike([of, low, high], schema);
                self.add(count, &INTEGER);
            }
            ("array_element", [_, at]) => self.add(at, &INTEGER),
            (_, args) => self.coerced(call, args, schema),
        }
    }

    /// The types to which the query engine casts NULL in the place of the parameters.
    fn coerced(&mut self, call: &ScalarFunction, args: &[Expr], schema: &DFSchema) {
        let field = |arg: &Expr| -> Option<FieldRef> {
            Some(Arc::new(Field::new("", arg.get_type(schema).ok()?, true)))
        };
        let Some(fields) = args.iter().map(field).collect::<Option<Vec<_>>>() else { return };
        let Ok(coerced) = fields_with_udf(&fields, call.func.as_ref()) else { return };
        args.iter().zip(coerced).for_each(|(arg, field)| self.add(arg, field.data_type()));
    }

    fn window(&mut self, call: &WindowFunction, schema: &DFSchema) {
        match (call.fun.name(), &call.params.args[..]) {
            ("ntile", [count]) => self.add(count, &INTEGER),
            ("nth_value", [_, at]) => self.add(at, &INTEGER),
            ("lag" | "lead", [of, by, otherwise @ ..]) => {
                self.add(by, &INTEGER);
                otherwise.iter().for_each(|otherwise| self.alike([of, otherwise], schema));
            }
            _ => {}
        }
    }
}

/// The common type of values, without NULL.
pub(super) fn common(types: impl IntoIterator<Item = DataType>) -> Option<DataType> {
    let types: Vec<DataType> = types.into_iter().filter(|of| !of.is_null()).collect();
    type_union_resolution(&types).or_else(|| types.into_iter().next())
}

/// The type of a parameter in a position of this type. `None` for texts. Values have their own number of digits.
fn usual(of: &DataType) -> Option<DataType> {
    match of {
        DataType::Null | DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => None,
        DataType::Dictionary(_, of) => usual(of),
        DataType::Decimal128(..) | DataType::Decimal256(..) => Some(NUMERIC),
        of if of.is_integer() => Some(INTEGER),
        of if of.is_floating() => Some(DOUBLE),
        of => Some(of.clone()),
    }
}
