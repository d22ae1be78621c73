//! `pg_cancel_backend` stops a session's statement, and `pg_terminate_backend` also ends its connection. The session's own
//! user and administrators may do so.

use std::sync::Arc;

use datafusion::arrow::array::{AsArray, BooleanArray};
use datafusion::arrow::datatypes::{DataType, Int64Type};
use datafusion::logical_expr::{ColumnarValue, ScalarUDF, Signature, Volatility};

use super::super::activity::Viewer;
use super::super::{Registry, Stop};
use super::declared::holding;

/// The names of the functions.
pub(super) const NAMES: [&str; 2] = ["pg_cancel_backend", "pg_terminate_backend"];

/// The function for a user.
pub(super) fn udf(name: &str, registry: Arc<Registry>, viewer: Viewer) -> ScalarUDF {
    // A literal number is a bigint in the query engine.
    let signature = Signature::exact(vec![DataType::Int64], Volatility::Volatile);
    let terminates = name == NAMES[1];
    holding(name, signature, DataType::Boolean, move |args| {
        let numbers = ColumnarValue::values_to_arrays(args)?.swap_remove(0);
        let numbers = numbers.as_primitive::<Int64Type>().iter();
        let stopped = numbers.map(|number| number.map(|number| stop(&registry, &viewer, number, terminates)));
        Ok(ColumnarValue::Array(Arc::new(stopped.collect::<BooleanArray>())))
    })
}

/// Stops the statement of the session with this number, or ends the session. Returns true if there is such a session and the user may
/// stop it.
fn stop(registry: &Registry, viewer: &Viewer, number: i64, terminates: bool) -> bool {
    let sessions = registry.sessions();
    let found = sessions.iter().find(|s| i64::from(s.number()) == number && viewer.may_see(s));
    let Some(session) = found else { return false };
    let own = session.user.name == viewer.user;
    let why = if own { Stop::User } else { Stop::Administrator };
    match terminates {
        true => registry.terminate(session, why),
        false => registry.stop(session, why),
    }
    true
}
