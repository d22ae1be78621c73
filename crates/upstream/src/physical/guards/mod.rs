//! Conditions that guard others.
//!
//! `b <> 0 AND a / b > 1` must not divide by zero. DataFusion 55 evaluates both operands for all rows of a
//! batch, unless the first one is true for few or no rows. It turns a CASE over conditions into AND and OR, so
//! CASE is no guard either. It also moves a projection that computes `a / b` below the filter on `b`.
//!
//! - A filter evaluates conjuncts that cannot fail first, also if they compare columns that are cast to a wider type. Each of
//!   the others is evaluated for the rows that the conjuncts before it left.
//! - AND and OR evaluate an operand that may fail for the rows that the first operand leaves open
//!   ([`open_rows`]). Conditions in keys of sorts and in window functions are in projections
//!   (`logical/computed_keys`).
//! - A projection that may fail stays above a filter (`pushdown_barriers`).
//! - A cast of a dictionary is one of its rows. DataFusion casts all values, also those that no row has any more.

mod cannot_fail;
mod open_rows;
mod sent;

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Schema};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{DataFusionError, Result};
use datafusion::datasource::physical_plan::{FileScanConfigBuilder, FileSource, ParquetSource};
use datafusion::datasource::source::DataSourceExec;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, CastExpr, Column, Literal};
use datafusion::physical_expr::{PhysicalExpr, conjunction, split_conjunction};
use datafusion::physical_expr_common::physical_expr::is_volatile;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateInputMode, PhysicalGroupBy};
use datafusion::physical_plan::filter::{FilterExec, FilterExecBuilder};
use datafusion::physical_plan::joins::utils::JoinFilter;
use datafusion::physical_plan::joins::{
    HashJoinExec, NestedLoopJoinExec, NestedLoopJoinExecBuilder, SortMergeJoinExec,
};
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr, try_embed_projection};

pub use self::cannot_fail::{cannot_fail, compares, safest_first};
use self::open_rows::OpenRows;
pub use self::sent::{with_guards, without_guards};
use super::node_rule::NodeRule;

type Expr = Arc<dyn PhysicalExpr>;
type Plan = Arc<dyn ExecutionPlan>;

/// The rule for operands, and the rule for filters.
pub(crate) const NAMES: &[&str] = &["guarded_operands", "guarded_conjuncts"];

/// Adds the rule for operands before others. Their nodes do not look into the expressions that it changes.
pub(crate) fn with_guarded_operands(mut optimizer: PhysicalOptimizer) -> PhysicalOptimizer {
    optimizer.rules.insert(0, Arc::new(NodeRule { name: NAMES[0], change: with_guarded }));
    optimizer
}

/// Adds the rule for filters after others, which look for conditions in one filter.
pub(crate) fn with_guarded_conjuncts(builder: SessionStateBuilder) -> SessionStateBuilder {
    builder.with_physical_optimizer_rule(Arc::new(NodeRule { name: NAMES[1], change: in_turn }))
}

/// Splits a filter's predicate into predicates that rows pass one after the other. Each is evaluated for the
/// rows that the predicates before it left.
pub fn predicates_in_turn(predicate: &Expr, schema: &Schema) -> Result<Vec<Expr>> {
    let conjuncts = split_conjunction(predicate).into_iter().cloned();
    let (total, partial): (Vec<_>, Vec<_>) = conjuncts.partition(|of| cannot_fail(of, schema));
    let total = (!total.is_empty()).then(|| Ok(conjunction(total)));
    let partial = safest_first(partial, schema).into_iter().map(|of| guarded(of, schema).data());
    total.into_iter().chain(partial).collect()
}

/// Replaces each AND and OR whose second operand may fail, and each cast of a dictionary's texts.
pub fn guarded(expr: Expr, schema: &Schema) -> Result<Transformed<Expr>> {
    expr.transform_up(|expr| {
        if let Some(of) = expr.downcast_ref::<BinaryExpr>()
            && matches!(of.op(), Operator::And | Operator::Or)
            && !cannot_fail(of.right(), schema)
        {
            return Ok(Transformed::yes(Arc::new(OpenRows::new(of)?) as Expr));
        }
        if let Some(of) = expr.downcast_ref::<CastExpr>()
            && let DataType::Dictionary(_, values) = of.expr().data_type(schema)?
            && values.is_string()
            && !of.cast_type().is_string()
        {
            let rows = Arc::new(CastExpr::new(Arc::clone(of.expr()), *values, None));
            let options = Some(of.cast_options().clone());
            let cast = CastExpr::new(rows, of.cast_type().clone(), options);
            return Ok(Transformed::yes(Arc::new(cast) as Expr));
        }
        Ok(Transformed::no(expr))
    })
}

fn in_turn(node: Plan) -> Result<Transformed<Plan>> {
    let Some(filter) = node.downcast_ref::<FilterExec>() else { return in_scan(node) };
    let schema = filter.input().schema();
    let predicates = predicates_in_turn(filter.predicate(), &schema)?;
    let [first, others @ ..] = predicates.as_slice() else { return Ok(Transformed::no(node)) };
    let guarded = others.iter().try_fold(Arc::clone(first), |guard, predicate| {
        Ok::<Expr, DataFusionError>(Arc::new(OpenRows::and(guard, Arc::clone(predicate))?))
    })?;
    let stays = !others.is_empty() && (cannot_fail(first, &schema) || is_known_equality(first));
    let predicate = if stays { conjunction([Arc::clone(first), guarded]) } else { guarded };
    if predicate.eq(filter.predicate()) {
        return Ok(Transformed::no(node));
    }
    Ok(Transformed::yes(Arc::new(FilterExecBuilder::from(filter).with_predicate(predicate).build()?)))
}

/// A scan of DataFusion that filters rows tests them with one conjunct after the other.
fn in_scan(node: Plan) -> Result<Transformed<Plan>> {
    let scan = node
        .downcast_ref::<DataSourceExec>()
        .and_then(|scan| scan.downcast_to_file_source::<ParquetSource>());
    let Some((config, source)) = scan else { return Ok(Transformed::no(node)) };
    let predicate = source.filter().filter(|_| source.table_parquet_options().global.pushdown_filters);
    let Some(predicate) = predicate else { return Ok(Transformed::no(node)) };
    let in_turn = conjunction(predicates_in_turn(&predicate, source.table_schema().table_schema())?);
    if in_turn.eq(&predicate) {
        return Ok(Transformed::no(node));
    }
    let config =
        FileScanConfigBuilder::from(config.clone()).with_source(Arc::new(source.with_predicate(in_turn)));
    Ok(Transformed::yes(DataSourceExec::from_data_source(config.build())))
}

/// Returns whether the predicate is an equality that holds for all rows of a filter. It stays a conjunct, also if it is
/// computed twice: DataFusion has omitted sorts because of it, and may find these orders again.
fn is_known_equality(predicate: &Expr) -> bool {
    let is_equality = |of: &BinaryExpr| *of.op() == Operator::Eq;
    predicate.downcast_ref::<BinaryExpr>().is_some_and(is_equality) && !is_volatile(predicate)
}

fn with_guarded(node: Plan) -> Result<Transformed<Plan>> {
    let changed = if let Some(projection) = node.downcast_ref::<ProjectionExec>() {
        of_projection(projection)?
    } else if let Some(aggregate) = node.downcast_ref::<AggregateExec>() {
        of_aggregate(aggregate)?
    } else {
        of_join(&node)?
    };
    Ok(changed.map_or_else(|| Transformed::no(node), Transformed::yes))
}

fn of_projection(projection: &ProjectionExec) -> Result<Option<Plan>> {
    let schema = projection.input().schema();
    let mut changed = false;
    let columns = projection.expr().iter().map(|column| {
        let expr = guarded(Arc::clone(&column.expr), &schema)?;
        changed |= expr.transformed;
        Ok(ProjectionExpr { expr: expr.data, alias: column.alias.clone() })
    });
    let columns = columns.collect::<Result<Vec<_>>>()?;
    if !changed {
        return Ok(None);
    }
    Ok(Some(Arc::new(ProjectionExec::try_new(columns, Arc::clone(projection.input()))?)))
}

fn of_aggregate(aggregate: &AggregateExec) -> Result<Option<Plan>> {
    if aggregate.mode().input_mode() != AggregateInputMode::Raw {
        return Ok(None);
    }
    let schema = aggregate.input_schema();
    let mut changed = false;
    let functions = aggregate.aggr_expr().iter().map(|function| {
        let guarded = of_function(function, &schema)?;
        changed |= guarded.is_some();
        Ok(guarded.unwrap_or_else(|| Arc::clone(function)))
    });
    let functions = functions.collect::<Result<Vec<_>>>()?;
    let filters = aggregate.filter_expr().iter().map(|filter| {
        let Some(filter) = filter else { return Ok(None) };
        let filter = guarded(Arc::clone(filter), &schema)?;
        changed |= filter.transformed;
        Ok(Some(filter.data))
    });
    let filters = filters.collect::<Result<Vec<_>>>()?;
    let keys = aggregate.group_expr();
    let computed = keys.expr().iter().map(|(key, name)| {
        let key = guarded(Arc::clone(key), &schema)?;
        changed |= key.transformed;
        Ok((key.data, name.clone()))
    });
    let computed = computed.collect::<Result<Vec<_>>>()?;
    let nulls = keys.null_expr().to_vec();
    let keys = PhysicalGroupBy::new(computed, nulls, keys.groups().to_vec(), keys.has_grouping_set());
    if !changed {
        return Ok(None);
    }
    let input = Arc::clone(aggregate.input());
    let changed = AggregateExec::try_new(*aggregate.mode(), keys, functions, filters, input, schema)?;
    Ok(Some(Arc::new(changed)))
}

fn of_function(
    function: &AggregateFunctionExpr,
    schema: &Schema,
) -> Result<Option<Arc<AggregateFunctionExpr>>> {
    let mut changed = false;
    let arguments = function.expressions().into_iter().map(|argument| {
        let argument = guarded(argument, schema)?;
        changed |= argument.transformed;
        Ok(argument.data)
    });
    let arguments = arguments.collect::<Result<Vec<_>>>()?;
    let order = function.order_bys().iter().map(|key| Arc::clone(&key.expr)).collect();
    Ok(if changed { function.with_new_expressions(arguments, order).map(Arc::new) } else { None })
}

fn of_join(node: &Plan) -> Result<Option<Plan>> {
    if let Some(join) = node.downcast_ref::<HashJoinExec>() {
        let Some(filter) = of_join_filter(join.filter())? else { return Ok(None) };
        return Ok(Some(Arc::new(join.builder().with_filter(Some(filter)).build()?)));
    }
    if let Some(join) = node.downcast_ref::<NestedLoopJoinExec>() {
        let Some(filter) = of_join_filter(join.filter())? else { return Ok(None) };
        return Ok(Some(Arc::new(NestedLoopJoinExecBuilder::from(join).with_filter(Some(filter)).build()?)));
    }
    if let Some(join) = node.downcast_ref::<SortMergeJoinExec>() {
        let Some(filter) = of_join_filter(join.filter().as_ref())? else { return Ok(None) };
        return Ok(Some(Arc::new(SortMergeJoinExec::try_new(
            Arc::clone(join.left()),
            Arc::clone(join.right()),
            join.on().to_vec(),
            Some(filter),
            join.join_type(),
            join.sort_options().to_vec(),
            join.null_equality(),
        )?)));
    }
    Ok(None)
}

/// Returns the condition of a join with guards, and with conjuncts that cannot fail first; `None` if none is
/// needed.
fn of_join_filter(filter: Option<&JoinFilter>) -> Result<Option<JoinFilter>> {
    let Some(filter) = filter else { return Ok(None) };
    let schema = filter.schema();
    let conjuncts = split_conjunction(filter.expression()).into_iter().cloned();
    let (mut conjuncts, partial): (Vec<_>, Vec<_>) = conjuncts.partition(|of| cannot_fail(of, schema));
    conjuncts.extend(safest_first(partial, schema));
    let condition = guarded(conjunction(conjuncts), schema)?;
    let with = |condition| JoinFilter::new(condition, filter.column_indices().to_vec(), Arc::clone(schema));
    Ok(condition.transformed.then(|| with(condition.data)))
}

/// Lets a filter output the columns that a projection above it computes from, and only these.
pub(super) fn with_embedded_columns(node: Plan) -> Result<Transformed<Plan>> {
    let projection = node.downcast_ref::<ProjectionExec>().filter(|projection| computes(projection));
    let filter = projection.and_then(|projection| projection.input().downcast_ref::<FilterExec>());
    let Some((projection, filter)) = projection.zip(filter) else { return Ok(Transformed::no(node)) };
    let embedded = try_embed_projection(projection, filter)?;
    Ok(embedded.map_or_else(|| Transformed::no(node), Transformed::yes))
}

/// Returns whether the projection `above` must stay above `node`, a filter that may guard its expressions.
pub(super) fn stops_projection(above: &Plan, node: &Plan) -> bool {
    node.is::<FilterExec>() && above.downcast_ref::<ProjectionExec>().is_some_and(computes)
}

fn computes(projection: &ProjectionExec) -> bool {
    projection.expr().iter().any(|column| !column.expr.is::<Column>() && !column.expr.is::<Literal>())
}
