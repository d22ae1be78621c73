//! Filters that are filled while the query runs, by joins, sorts and aggregations, go to the scans whose columns they
//! are about.
//!
//! DataFusion 55 looks for these scans by the names of columns. Where two columns of a node, or one of each side of a
//! semi join, have the same name, it may take the wrong one, and rows that are wanted would be dropped. So filters are
//! placed anew, by the positions of columns, through the nodes through which DataFusion passes them.

use std::sync::Arc;

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

use super::claims::UnclaimedExec;
use super::filter_pushdown::with_predicate;
use crate::file::join_filter::{equal_otherwise, is_true};
use crate::key_filter::KeyFiltersExec;
use crate::one_input::with_children;

/// A filter over the columns of a node.
type Filter = Arc<dyn PhysicalExpr>;

/// The node with the filters that it fills in the scans to which they belong, and in no others.
pub(super) fn by_position(node: Arc<dyn ExecutionPlan>) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    let fills = node.is::<HashJoinExec>() || node.is::<SortExec>() || node.is::<AggregateExec>();
    let filters = if fills { node.dynamic_expressions_produced() } else { Vec::new() };
    let mut children: Vec<_> = node.children().into_iter().cloned().collect();
    // A join filters its probe side, which is the last of its inputs.
    let (false, Some(input)) = (filters.is_empty(), children.pop()) else { return Ok(Transformed::no(node)) };
    let (mut below, mut changed) = (input, false);
    for filter in &filters {
        // What DataFusion has placed nowhere it was told not to.
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

/// Whether DataFusion can work with the least and the greatest of a join's keys. It ends the query if keys are lists of
/// structs, which it cannot compare, or integers in dictionaries, of which it would make an array, or if both sides have keys of
/// different types. Of floating-point numbers it leaves out zeros of the other sign, which the join takes to be equal, and where
/// nulls are equal, nulls that arrays of such types do not count. It looks for none of that if no scan has the filter.
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

/// `input` with a filter over its columns in the scans to which it belongs and in no others, and whether there are any.
pub(super) fn placed(
    input: Arc<dyn ExecutionPlan>,
    filter: &Filter,
) -> Result<(Arc<dyn ExecutionPlan>, bool)> {
    let mut placing = Placing { id: filter.expression_id(), scans: 0 };
    let own = (!collect_columns(filter).is_empty()).then(|| Arc::clone(filter));
    let plan = placing.in_plan(input, own)?.data;
    Ok((plan, placing.scans > 0))
}

/// `input` without a filter over its columns in any scan.
pub(super) fn removed(
    input: Arc<dyn ExecutionPlan>,
    filter: &Filter,
) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    Placing { id: filter.expression_id(), scans: 0 }.in_plan(input, None)
}

/// A filter that is being placed.
struct Placing {
    id: Option<u64>,
    /// In how many scans it is.
    scans: usize,
}

impl Placing {
    /// `node` with the filter in the scans below, or without it if it does not belong there.
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

    /// The scan with the filter, or without it; `None` if it stays as it is.
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
            // Where nothing else is left it stands for no filter.
            wanted.retain(|of| !is_true(of));
            wanted.push(filter);
        }
        if wanted.iter().eq(has.iter().copied()) {
            return Ok(None);
        }
        with_predicate(config, conjunction(wanted)).map(Some)
    }

    /// DataFusion tests rows below a sort by a filter that no scan has promised to apply.
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

/// The filter in terms of each input of a node, `None` where it does not hold or the node is none of those known here.
fn of_inputs(node: &Arc<dyn ExecutionPlan>, filter: Option<&Filter>) -> Result<Vec<Option<Filter>>> {
    // Fewer rows below a limit would let others through it.
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

/// A column of a join's output in terms of one of its sides. A column of the other side is there too if it is a key for which
/// the sides of a semi join are equal.
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

/// A filter over the output of a scan in terms of the table's columns.
fn over_table(filter: &Filter, source: &ParquetSource) -> Result<Option<Filter>> {
    let schema = source.table_schema().table_schema();
    over(filter, &|at| match source.projection() {
        Some(projection) => projection.iter().nth(at).map(|column| Arc::clone(&column.expr)),
        None => schema.fields().get(at).map(|field| Arc::new(Column::new(field.name(), at)) as Filter),
    })
}

/// The filter with each column replaced by what it is; `None` if that is not known, or another value each time.
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
