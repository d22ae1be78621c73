//! Conditions of joins that other queries do not wait for.
//!
//! A join whose condition rejects all pairs of rows makes no batch, and so neither yields nor ends when its query is
//! stopped: one such query would keep every thread for hours. So would a semijoin over few keys. A join computes its
//! condition for each part of the pairs. So the condition looks for a stop, and leaves the runtime's worker to other tasks
//! after a while.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::{DataType, FieldRef, Schema};
use datafusion::common::{JoinType, Result, internal_err};
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::lit;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::utils::JoinFilter;
use datafusion::physical_plan::joins::{
    HashJoinExec, NestedLoopJoinExec, NestedLoopJoinExecBuilder, SortMergeJoinExec,
};

use crate::interrupt::{aside, check_interrupt};

/// Returns a join with such a condition in place of a join with a condition.
pub(super) fn with_interruptible_condition(
    node: &Arc<dyn ExecutionPlan>,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    if let Some(join) = node.downcast_ref::<NestedLoopJoinExec>() {
        let Some(filter) = join.filter().and_then(interruptible) else { return Ok(None) };
        let join = NestedLoopJoinExecBuilder::from(join).with_filter(Some(filter)).build()?;
        return Ok(Some(Arc::new(join)));
    }
    if let Some(join) = node.downcast_ref::<HashJoinExec>() {
        let filter = match join.filter() {
            Some(filter) => interruptible(filter),
            None => (keeps_one_side(join.join_type()) && !join.null_aware).then(always),
        };
        let Some(filter) = filter else { return Ok(None) };
        return Ok(Some(Arc::new(join.builder().with_filter(Some(filter)).build()?)));
    }
    if let Some(join) = node.downcast_ref::<SortMergeJoinExec>() {
        let Some(filter) = join.filter().as_ref().and_then(interruptible) else { return Ok(None) };
        let join = SortMergeJoinExec::try_new(
            Arc::clone(join.left()),
            Arc::clone(join.right()),
            join.on().to_vec(),
            Some(filter),
            join.join_type(),
            join.sort_options().to_vec(),
            join.null_equality(),
        )?;
        return Ok(Some(Arc::new(join)));
    }
    Ok(None)
}

/// Whether a join looks at all pairs of equal keys, but makes at most one row of each row of one side: it may make none for
/// a long time, also without a condition.
fn keeps_one_side(join_type: &JoinType) -> bool {
    use JoinType::{Full, Inner, Left, LeftAnti, LeftMark, LeftSemi, Right, RightAnti, RightMark, RightSemi};
    match join_type {
        LeftSemi | RightSemi | LeftAnti | RightAnti | LeftMark | RightMark => true,
        Inner | Left | Right | Full => false,
    }
}

/// The condition that accepts all pairs.
fn always() -> JoinFilter {
    JoinFilter::new(Arc::new(Interruptible(lit(true))), Vec::new(), Arc::new(Schema::empty()))
}

/// Returns the condition, unless it is interruptible already.
fn interruptible(filter: &JoinFilter) -> Option<JoinFilter> {
    if filter.expression().is::<Interruptible>() {
        return None;
    }
    let condition = Arc::new(Interruptible(Arc::clone(filter.expression())));
    Some(JoinFilter::new(condition, filter.column_indices().to_vec(), Arc::clone(filter.schema())))
}

/// An expression with the same values; see the module's documentation.
#[derive(Debug)]
struct Interruptible(Arc<dyn PhysicalExpr>);

impl PhysicalExpr for Interruptible {
    fn data_type(&self, schema: &Schema) -> Result<DataType> {
        self.0.data_type(schema)
    }

    fn nullable(&self, schema: &Schema) -> Result<bool> {
        self.0.nullable(schema)
    }

    fn return_field(&self, schema: &Schema) -> Result<FieldRef> {
        self.0.return_field(schema)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        check_interrupt()?;
        aside(|| self.0.evaluate(batch))
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![&self.0]
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn PhysicalExpr>>,
    ) -> Result<Arc<dyn PhysicalExpr>> {
        match <[Arc<dyn PhysicalExpr>; 1]>::try_from(children) {
            Ok([condition]) => Ok(Arc::new(Interruptible(condition))),
            Err(children) => internal_err!("a join has one condition, not {}", children.len()),
        }
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt_sql(f)
    }
}

impl fmt::Display for Interruptible {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl PartialEq for Interruptible {
    fn eq(&self, other: &Self) -> bool {
        self.0.eq(&other.0)
    }
}

impl Eq for Interruptible {}

impl Hash for Interruptible {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}
