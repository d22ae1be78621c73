//! Which query a scan belongs to: the session's configuration carries an account to the leaves of the plan.
//!
//! Without one a query runs all the same; only nobody can tell its scans from those of others.

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
