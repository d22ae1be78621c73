//! Permissions: the plans that a user may run.
//!
//! A user without administrator rights may run queries, look at plans, and change settings that affect only its own
//! session. Such a session has no function and no name that opens a file; `tests/server/access.rs` checks this. Plans that
//! write, create or load are refused here.

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, TableReference};
use datafusion::execution::context::SQLOptions;
use datafusion::logical_expr::{Expr, LogicalPlan, Statement, TableType};

use super::QueryError;
use super::visible::{DEFINITIONS, INFORMATION_SCHEMA, PUBLIC, sees_other};
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

/// Checks that the role may run this plan. `is_own` tells whether a name without a schema is no table of the server: a
/// function, or a relation of PostgreSQL's catalogs.
pub(crate) fn check(
    plan: &LogicalPlan,
    role: &Role,
    is_own: &dyn Fn(&str) -> bool,
) -> std::result::Result<(), QueryError> {
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
    let mut hidden = false;
    let explained = plan.apply_with_subqueries(|node| {
        let inner = match node {
            LogicalPlan::Explain(of) => &of.plan,
            LogicalPlan::Analyze(of) => &of.input,
            _ => return Ok(TreeNodeRecursion::Continue),
        };
        hidden |= reads_hidden(inner, role, is_own)?;
        Ok(TreeNodeRecursion::Jump)
    });
    explained.map_err(QueryError::from)?;
    if hidden {
        return Err(QueryError::Denied(
            "permission denied: the plan of this view shows tables that this user may not see; ask a user with admin = true for \
             the plan"
                .to_owned(),
        ));
    }
    if shows_definitions(plan).map_err(QueryError::from)? {
        return Err(QueryError::Denied(
            "permission denied: definitions of tables show their paths, and need a role with admin = true"
                .to_owned(),
        ));
    }
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
        Ok(TreeNodeRecursion::Continue)
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

/// Returns true if the plan reads a table that the role does not see, as a view may.
fn reads_hidden(plan: &LogicalPlan, role: &Role, is_own: &dyn Fn(&str) -> bool) -> Result<bool> {
    let mut hidden = false;
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::TableScan(scan) = node {
            let name = &scan.table_name;
            // WITH RECURSIVE reads its own rows under its name.
            let is_recursive = || scan.source.table_type() == TableType::Temporary;
            let is_no_table = || name.schema().is_none() && (is_recursive() || is_own(name.table()));
            hidden |= !sees(role, name) && !is_no_table();
        }
        Ok(if hidden { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(hidden)
}

/// Returns whether the role sees a table. Every user sees those about the server.
fn sees(role: &Role, name: &TableReference) -> bool {
    let table = name.table();
    match (name.catalog(), name.schema()) {
        (_, None | Some(PUBLIC)) => role.sees(table),
        (_, Some("pg_catalog" | INFORMATION_SCHEMA)) => true,
        // Of another catalog, by its name in the database or by its own.
        (Some(catalog), Some(schema)) => {
            sees_other(role, &format!("{catalog}.{schema}"), table)
                || schema.contains('.') && sees_other(role, schema, table)
        }
        (None, Some(schema)) => sees_other(role, schema, table),
    }
}

/// Returns true if the plan reads definitions of tables, as SHOW CREATE TABLE does.
fn shows_definitions(plan: &LogicalPlan) -> Result<bool> {
    let (mut reads, mut refers) = (false, false);
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::TableScan(scan) = node {
            let schema = scan.table_name.schema();
            reads |= schema == Some(INFORMATION_SCHEMA) && scan.table_name.table() == DEFINITIONS;
        }
        node.apply_expressions(|expr| {
            refers |=
                expr.exists(|part| Ok(matches!(part, Expr::Column(column) if column.name == "definition")))?;
            Ok(TreeNodeRecursion::Continue)
        })
    })?;
    Ok(reads && refers)
}

/// Returns true if users without administrator rights may set this variable.
fn may_set(variable: &str) -> bool {
    let variable = variable.to_ascii_lowercase();
    OWN_SETTINGS.iter().any(|own| match own.strip_suffix('.') {
        Some(_) => variable.starts_with(own),
        None => variable == *own,
    })
}
