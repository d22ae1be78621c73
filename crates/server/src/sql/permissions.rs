//! Permissions: the plans that a user may run.
//!
//! A user without administrator rights may run queries, look at plans, and change settings that affect only its own
//! session. Such a session has no function and no name that opens a file; `tests/server/access.rs` checks this. Plans that
//! write, create or load are refused here.

use datafusion::execution::context::SQLOptions;
use datafusion::logical_expr::{LogicalPlan, Statement};

use super::QueryError;
use crate::access::Role;

/// Settings, or prefixes of settings, that every user may set. They change the format of results or the plans of
/// this session.
const OWN_SETTINGS: [&str; 10] = [
    "coscan.enabled",
    "coscan.order_aware",
    "coscan.point_threshold",
    "coscan.share_aggregates",
    "coscan.share_filters",
    "coscan.share_results",
    "coscan.small_table_bytes",
    "datafusion.execution.time_zone",
    "datafusion.explain.",
    "datafusion.optimizer.",
];

/// Checks that the role may run this plan.
pub(crate) fn check(plan: &LogicalPlan, role: &Role) -> Result<(), QueryError> {
    if role.admin {
        return Ok(());
    }
    let options = SQLOptions::new().with_allow_ddl(false).with_allow_dml(false);
    options.verify_plan(plan).map_err(|error| {
        let what = error.strip_backtrace().replace("Error during planning: ", "");
        QueryError::Denied(format!(
            "permission denied: this user may only read ({what}). Creating tables and writing files needs a role with admin = \
             true"
        ))
    })?;
    let mut denied = None;
    let visited = plan.apply_with_subqueries(|node| {
        if let LogicalPlan::Statement(Statement::SetVariable(set)) = node
            && !may_set(&set.variable)
        {
            denied = Some(set.variable.clone());
        }
        if let LogicalPlan::Statement(Statement::ResetVariable(reset)) = node
            && !may_set(&reset.variable)
        {
            denied = Some(reset.variable.clone());
        }
        Ok(datafusion::common::tree_node::TreeNodeRecursion::Continue)
    });
    visited.map_err(QueryError::from)?;
    match denied {
        Some(variable) => Err(QueryError::Denied(format!(
            "permission denied to set parameter \"{variable}\": it affects other users or the machine, and needs a role with \
             admin = true"
        ))),
        None => Ok(()),
    }
}

/// Returns true if users without administrator rights may set this variable.
fn may_set(variable: &str) -> bool {
    let variable = variable.to_ascii_lowercase();
    OWN_SETTINGS.iter().any(|own| match own.strip_suffix('.') {
        Some(_) => variable.starts_with(own),
        None => variable == *own,
    })
}
