//! Settings under which joins are planned wrong.
//!
//! With `datafusion.optimizer.preserve_file_partitions` a table in the folders of a key (`p=1/`, `p=2/`) has the property that it is
//! partitioned by the hash of `p`, while each partition of it has some of the folders. That serves groups and windows by `p`.
//! DataFusion 55 also relies on it where rows of another input have to meet in the same partition, and there they do not: joins by
//! sorting or of hash partitions lose rows, and groups above a UNION come more than once.
//!
//! Without `datafusion.optimizer.prefer_hash_join` joins sort their inputs. Zeros of both signs do not meet in them, semi joins by times
//! with a zone and other types of keys may fail, and a condition without columns is not tested in a full join.
//!
//! Statements with such joins are planned without the setting.

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::catalog::Session;
use datafusion::common::Result;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::execution::context::QueryPlanner;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::{ExprSchemable, Join, JoinType, LogicalPlan};
use datafusion::physical_plan::ExecutionPlan;

use crate::boxed;

/// A planner around another.
#[derive(Debug)]
pub(crate) struct JoinSettings {
    pub(crate) inner: Arc<dyn QueryPlanner + Send + Sync>,
}

impl QueryPlanner for JoinSettings {
    boxed!(JoinSettings::plan as create_physical_plan);
}

impl JoinSettings {
    async fn plan(&self, logical: &LogicalPlan, session: &dyn Session) -> Result<Arc<dyn ExecutionPlan>> {
        let options = &session.config_options().optimizer;
        let preserved = options.preserve_file_partitions > 0 && any(logical, inputs_meet)?;
        let sorted = !options.prefer_hash_join && any(logical, sorts_wrongly)?;
        match session.as_any().downcast_ref::<SessionState>() {
            Some(state) if preserved || sorted => {
                let mut state = state.clone();
                let options = &mut state.config_mut().options_mut().optimizer;
                options.preserve_file_partitions =
                    if preserved { 0 } else { options.preserve_file_partitions };
                options.prefer_hash_join |= sorted;
                self.inner.create_physical_plan(logical, &state).await
            }
            _ => self.inner.create_physical_plan(logical, session).await,
        }
    }
}

fn any(plan: &LogicalPlan, of: impl Fn(&LogicalPlan) -> bool) -> Result<bool> {
    let mut any = false;
    plan.apply_with_subqueries(|node| {
        any |= of(node);
        Ok(if any { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(any)
}

fn inputs_meet(node: &LogicalPlan) -> bool {
    node.inputs().len() > 1
}

fn sorts_wrongly(node: &LogicalPlan) -> bool {
    let LogicalPlan::Join(join) = node else { return false };
    let Join { left, on, filter, join_type, .. } = join;
    let compares = on.iter().all(|(key, _)| key.get_type(left.schema()).is_ok_and(|of| compares_sorted(&of)));
    let untested = filter.as_ref().is_some_and(|filter| filter.column_refs().is_empty());
    !on.is_empty() && (!compares || (untested && *join_type == JoinType::Full))
}

/// Whether a join that sorts its inputs compares keys of this type, each value with itself as equal.
pub fn compares_sorted(of: &DataType) -> bool {
    use DataType::{
        Binary, BinaryView, Boolean, Date32, Date64, Decimal128, FixedSizeBinary, LargeBinary, LargeUtf8,
        Null, Timestamp, Utf8, Utf8View,
    };
    match of {
        Boolean | Null | Decimal128(..) | Date32 | Date64 | Timestamp(_, None) => true,
        Utf8 | Utf8View | LargeUtf8 | Binary | BinaryView | LargeBinary | FixedSizeBinary(_) => true,
        of => of.is_integer(),
    }
}
