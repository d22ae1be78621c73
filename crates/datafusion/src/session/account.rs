//! The query account of a scan, which the session's configuration carries to the leaves of the plan.
//!
//! A query without an account runs, but its scans cannot be told apart from those of other queries.

use std::sync::Arc;

use coscan_engine::QueryAccount;
use datafusion::dataframe::DataFrame;

/// Counts the scans of `query` under `account`, and gives them its weight. Every execution needs its own
/// account to be told apart from others.
pub fn with_account(query: DataFrame, account: Arc<QueryAccount>) -> DataFrame {
    let (mut state, plan) = query.into_parts();
    state.config_mut().set_extension(account);
    DataFrame::new(state, plan)
}
