//! `pg_cancel_backend` and `pg_terminate_backend`: stop a session's statement, for the session's own user and for
//! administrators. Both keep the connection.

use std::sync::Arc;

use datafusion::arrow::array::{AsArray, BooleanArray};
use datafusion::arrow::datatypes::{DataType, Int64Type};
use datafusion::logical_expr::{ColumnarValue, ScalarUDF, Signature, Volatility};

use super::super::activity::Viewer;
use super::super::{Registry, Stop};
use super::declared::holding;

/// The names of the function.
pub(super) const NAMES: [&str; 2] = ["pg_cancel_backend", "pg_terminate_backend"];

/// The function for a user.
pub(super) fn udf(name: &str, registry: Arc<Registry>, viewer: Viewer) -> ScalarUDF {
    // A literal number is a bigint in the query engine.
    let signature = Signature::exact(vec![DataType::Int64], Volatility::Volatile);
    holding(name, signature, DataType::Boolean, move |args| {
        let numbers = ColumnarValue::values_to_arrays(args)?.swap_remove(0);
        let numbers = numbers.as_primitive::<Int64Type>().iter();
        let stopped = numbers.map(|number| number.map(|number| stop(&registry, &viewer, number)));
        Ok(ColumnarValue::Array(Arc::new(stopped.collect::<BooleanArray>())))
    })
}

/// Stops the statement of the session with this number. Returns true if there is such a session and the user may
/// stop it.
fn stop(registry: &Registry, viewer: &Viewer, number: i64) -> bool {
    let sessions = registry.sessions();
    let found = sessions.iter().find(|s| i64::from(s.number()) == number && viewer.may_see(s));
    let Some(session) = found else { return false };
    let own = session.user.name == viewer.user;
    let why = if own { Stop::User } else { Stop::Administrator };
    session.stop(why);
    let queries = registry.queries().into_iter().filter(|query| query.session == session.id);
    queries.for_each(|query| query.cancel.stop(why));
    true
}
