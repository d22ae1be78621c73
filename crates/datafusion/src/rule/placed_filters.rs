//! Placement of filters that joins, sorts and aggregations fill during execution, in the scans of their
//! columns.
//!
//! DataFusion 55 finds these scans by column names. If two columns of a node, or one of each side of a semi
//! join, have the same name, it may choose the wrong scan, which then drops wanted rows. So this rewrite
//! places filters by the positions of columns, through the same nodes as DataFusion.

use std::sync::Arc;

use coscan_upstream::UnclaimedExec;
use coscan_upstream::one_input::with_children;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{JoinSide, JoinType, NullEquality, Result};
use datafusion::datasource::physical_plan::{FileScanConfig, FileSource, ParquetSource};
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{PhysicalExpr, conjunction, split_conjunction};
use datafusion::physical_expr_common::physical_expr::is_volatile;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::buffer::BufferExec;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::filter::{FilterExec, FilterExecBuilder};
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::joins::utils::build_join_schema;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::union::UnionExec;

use super::filter_pushdown::with_predicate;
use crate::file::join_filter::{equal_otherwise, is_true};
use crate::key_filter::KeyFiltersExec;

/// A filter over the columns of a node.
type Filter = Arc<dyn PhysicalExpr>;

/// Places the filters that the node fills in the scans to which they belong, and removes them from all
/// others.
pub(super) fn by_position(node: Arc<dyn ExecutionPlan>) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    let fills = node.is::<HashJoinExec>() || node.is::<SortExec>() || node.is::<AggregateExec>();
    let filters = if fills { node.dynamic_expressions_produced() } else { Vec::new() };
    let mut children: Vec<_> = node.children().into_iter().cloned().collect();
    // A join filters its probe side, which is the last of its inputs.
    let (false, Some(input)) = (filters.is_empty(), children.pop()) else { return Ok(Transformed::no(node)) };
    let (mut below, mut changed) = (input, false);
    for filter in &filters {
        // A filter in no scan stays out: settings of DataFusion may forbid it.
        let without = removed(below, filter)?;
        changed |= without.transformed;
        let wanted = without.transformed && keys_have_bounds(&node);
        below = if wanted { placed(without.data, filter)?.0 } else { without.data };
    }
    if !changed {
        return Ok(Transformed::no(node));
    }
    children.push(below);
    with_children(node, children).map(Transformed::yes)
}

/// Returns whether DataFusion can compute correct bounds of a join's keys, the least and the greatest. It
/// computes them if a scan has the filter.
///
/// It fails for lists of structs, which it cannot compare, for integers in dictionaries, of which it would
/// make an array, and if the two sides have keys of different types. Bounds of floating-point numbers exclude
/// zeros of the other sign, which the join takes to be equal. If nulls are equal, bounds exclude nulls that
/// arrays of such types do not count.
fn keys_have_bounds(node: &Arc<dyn ExecutionPlan>) -> bool {
    let Some(join) = node.downcast_ref::<HashJoinExec>() else { return true };
    let (left, right) = (join.left().schema(), join.right().schema());
    let nulls_meet = join.null_equality() == NullEquality::NullEqualsNull;
    let has_bounds = |of: DataType| match of {
        DataType::Null => false,
        DataType::Dictionary(..) | DataType::RunEndEncoded(..) if nulls_meet => false,
        DataType::Dictionary(_, values) => !values.is_integer() && !values.is_floating(),
        of => !of.is_nested() && !of.is_floating(),
    };
    let type_of_both = |a: &Filter, b: &Filter| {
        let (a, b) = (a.data_type(&left).ok()?, b.data_type(&right).ok()?);
        (a == b).then_some(a)
    };
    join.on().iter().all(|(a, b)| type_of_both(a, b).is_some_and(has_bounds))
}

/// Places a filter over the columns of `input` in the scans to which it belongs, and removes it from all
/// others. Returns whether there are such scans.
pub(super) fn placed(
    input: Arc<dyn ExecutionPlan>,
    filter: &Filter,
) -> Result<(Arc<dyn ExecutionPlan>, bool)> {
    let mut placing = Placing { id: filter.expression_id(), scans: 0 };
    let own = (!collect_columns(filter).is_empty()).then(|| Arc::clone(filter));
    let plan = placing.in_plan(input, own)?.data;
    Ok((plan, placing.scans > 0))
}

/// Removes a filter over the columns of `input` from all scans.
pub(super) fn removed(
    input: Arc<dyn ExecutionPlan>,
    filter: &Filter,
) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    Placing { id: filter.expression_id(), scans: 0 }.in_plan(input, None)
}

/// A filter during its placement.
struct Placing {
    id: Option<u64>,
    /// The number of scans that have it.
    scans: usize,
}

impl Placing {
    /// Places the filter in the scans below `node`, or removes it where it does not belong.
    fn in_plan(
        &mut self,
        node: Arc<dyn ExecutionPlan>,
        filter: Option<Filter>,
    ) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
        if let Some((config, source)) = parquet_scan(&node) {
            return Ok(match self.in_scan(config, source, filter)? {
                Some(config) => Transformed::yes(DataSourceExec::from_data_source(config) as _),
                None => Transformed::no(node),
            });
        }
        let filters = of_inputs(&node, filter.as_ref())?;
        let mut changed = false;
        let mut children = Vec::with_capacity(filters.len());
        for (child, filter) in node.children().into_iter().cloned().zip(filters) {
            let child = self.in_plan(child, filter)?;
            changed |= child.transformed;
            children.push(child.data);
        }
        let node = if changed { with_children(node, children)? } else { node };
        match self.not_in_filter(&node)? {
            Some(without) => Ok(Transformed::yes(without)),
            None => Ok(Transformed::new(node, changed, TreeNodeRecursion::Continue)),
        }
    }

    /// Adds the filter to the scan, or removes it; `None` if the scan stays as it is.
    fn in_scan(
        &mut self,
        config: &FileScanConfig,
        source: &ParquetSource,
        filter: Option<Filter>,
    ) -> Result<Option<FileScanConfig>> {
        let has = source.filter();
        let has: Vec<&Filter> = has.iter().flat_map(split_conjunction).collect();
        let mut wanted: Vec<Filter> = has.iter().copied().filter(|of| !self.is(of)).cloned().collect();
        let takes = config.limit.is_none() && source.table_schema().virtual_columns().is_empty();
        if let Some(filter) = filter.filter(|_| takes)
            && let Some(filter) = over_table(&filter, source)?
        {
            self.scans += 1;
            // A constant true only stands for an empty filter.
            wanted.retain(|of| !is_true(of));
            wanted.push(filter);
        }
        if wanted.iter().eq(has.iter().copied()) {
            return Ok(None);
        }
        with_predicate(config, conjunction(wanted)).map(Some)
    }

    /// DataFusion tests rows below a sort by a filter that no scan has promised to apply. Remove it there.
    fn not_in_filter(&self, node: &Arc<dyn ExecutionPlan>) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let Some(exec) = node.downcast_ref::<FilterExec>() else { return Ok(None) };
        let conjuncts = split_conjunction(exec.predicate());
        let rest: Vec<Filter> = conjuncts.iter().copied().filter(|of| !self.is(of)).cloned().collect();
        if rest.len() == conjuncts.len() {
            return Ok(None);
        }
        if rest.is_empty() && exec.projection().is_none() && exec.fetch().is_none() {
            return Ok(Some(Arc::clone(exec.input())));
        }
        let without = FilterExecBuilder::from(exec).with_predicate(conjunction(rest)).build()?;
        Ok(Some(Arc::new(without)))
    }

    fn is(&self, conjunct: &Filter) -> bool {
        self.id.is_some() && conjunct.expression_id() == self.id
    }
}

fn parquet_scan(node: &Arc<dyn ExecutionPlan>) -> Option<(&FileScanConfig, &ParquetSource)> {
    node.downcast_ref::<DataSourceExec>()?.downcast_to_file_source::<ParquetSource>()
}

/// Translates the filter to each input of a node; `None` where it does not hold or the node's type is unknown
/// here.
fn of_inputs(node: &Arc<dyn ExecutionPlan>, filter: Option<&Filter>) -> Result<Vec<Option<Filter>>> {
    // With fewer rows below a limit, other rows would pass it.
    let filter = filter.filter(|_| node.fetch().is_none());
    let through = |of: &dyn Fn(usize) -> Option<Filter>| match filter {
        Some(filter) => over(filter, of),
        None => Ok(None),
    };
    let input = |at: usize| node.children().first().and_then(|input| column(input, at));
    if let Some(join) = node.downcast_ref::<HashJoinExec>() {
        return Ok(vec![
            through(&|at| of_side(join, JoinSide::Left, at))?,
            through(&|at| of_side(join, JoinSide::Right, at))?,
        ]);
    }
    if node.is::<UnionExec>() {
        let children = node.children().into_iter();
        return children.map(|child| through(&|at| column(child, at))).collect();
    }
    let keeps = node.is::<SortExec>()
        || node.is::<CooperativeExec>()
        || node.is::<RepartitionExec>()
        || node.is::<CoalescePartitionsExec>()
        || node.is::<BufferExec>()
        || node.is::<KeyFiltersExec>()
        || node.is::<UnclaimedExec>();
    let filter = if keeps {
        through(&input)?
    } else if let Some(exec) = node.downcast_ref::<FilterExec>() {
        let of = |at: usize| match exec.projection() {
            Some(projection) => input(*projection.get(at)?),
            None => input(at),
        };
        through(&of)?
    } else if let Some(projection) = node.downcast_ref::<ProjectionExec>() {
        through(&|at| projection.expr().get(at).map(|column| Arc::clone(&column.expr)))?
    } else if let Some(aggregate) = node.downcast_ref::<AggregateExec>() {
        let groups = aggregate.group_expr();
        let whole = !groups.has_grouping_set() && aggregate.limit_options().is_none();
        let of = |at: usize| groups.expr().get(at).map(|(expr, _)| Arc::clone(expr));
        if whole { through(&of)? } else { None }
    } else {
        return Ok(vec![None; node.children().len()]);
    };
    Ok(vec![filter])
}

/// Translates a column of a join's output to one of its sides. A key column of the other side can be
/// translated, too, if the sides of a semi join are equal in it.
fn of_side(join: &HashJoinExec, side: JoinSide, at: usize) -> Option<Filter> {
    use JoinType::{Inner, Left, LeftAnti, LeftMark, LeftSemi, Right, RightAnti, RightMark, RightSemi};
    let at = match &join.projection {
        Some(projection) => *projection.get(at)?,
        None => at,
    };
    let kind = *join.join_type();
    let (_, columns) = build_join_schema(&join.left().schema(), &join.right().schema(), &kind);
    let of = columns.get(at)?;
    let keeps_rows = match side {
        JoinSide::Left => matches!(kind, Inner | Left | LeftSemi | LeftAnti | LeftMark),
        JoinSide::Right => matches!(kind, Inner | Right | RightSemi | RightAnti | RightMark),
        JoinSide::None => false,
    };
    let input = if side == JoinSide::Left { join.left() } else { join.right() };
    if of.side == side {
        return if keeps_rows { column(input, of.index) } else { None };
    }
    if of.side == JoinSide::None || !matches!(kind, LeftSemi | RightSemi) {
        return None;
    }
    join.on().iter().find_map(|(left, right)| {
        let (here, there) = if side == JoinSide::Left { (left, right) } else { (right, left) };
        let is_key = there.downcast_ref::<Column>().is_some_and(|there| there.index() == of.index);
        let here = here.downcast_ref::<Column>().filter(|_| is_key)?;
        let key = column(input, here.index())?;
        (!equal_otherwise(&key.data_type(&input.schema()).ok()?)).then_some(key)
    })
}

fn column(of: &Arc<dyn ExecutionPlan>, at: usize) -> Option<Filter> {
    let schema = of.schema();
    let field = schema.fields().get(at)?;
    Some(Arc::new(Column::new(field.name(), at)))
}

/// Translates a filter over the output of a scan to the table's columns.
fn over_table(filter: &Filter, source: &ParquetSource) -> Result<Option<Filter>> {
    let schema = source.table_schema().table_schema();
    over(filter, &|at| match source.projection() {
        Some(projection) => projection.iter().nth(at).map(|column| Arc::clone(&column.expr)),
        None => schema.fields().get(at).map(|field| Arc::new(Column::new(field.name(), at)) as Filter),
    })
}

/// Replaces each column of the filter by its source; `None` if that is unknown or volatile.
fn over(filter: &Filter, of: &dyn Fn(usize) -> Option<Filter>) -> Result<Option<Filter>> {
    let mut known = true;
    let over = Arc::clone(filter).transform_up(|expr| {
        let Some(column) = expr.downcast_ref::<Column>() else { return Ok(Transformed::no(expr)) };
        Ok(match of(column.index()).filter(|expr| !is_volatile(expr)) {
            Some(expr) => Transformed::yes(expr),
            None => {
                known = false;
                Transformed::new(expr, false, TreeNodeRecursion::Stop)
            }
        })
    });
    over.data().map(|over| known.then_some(over))
}
