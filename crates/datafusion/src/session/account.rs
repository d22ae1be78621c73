//! Which query a scan belongs to: the session's configuration carries an account to the leaves of the plan.
//!
//! A query without an account runs all the same, but its scans cannot be told from those of other queries.

use std::sync::Arc;

use coscan_engine::QueryAccount;
use datafusion::dataframe::DataFrame;

/// The same query, with its scans counted under `account`, and with its weight. Every execution needs an account of its
/// own to be told from others.
pub fn with_account(query: DataFrame, account: Arc<QueryAccount>) -> DataFrame {
    let (mut state, plan) = query.into_parts();
    state.config_mut().set_extension(account);
    DataFrame::new(state, plan)
}
