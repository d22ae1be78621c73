//! `pg_cancel_backend` and `pg_terminate_backend`: stop what a session runs, for its own user and for administrators. The
//! connection stays with both.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::arrow::array::{AsArray, BooleanArray};
use datafusion::arrow::datatypes::{DataType, Int64Type};
use datafusion::common::Result;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use super::super::activity::Viewer;
use super::super::{Registry, Stop};

/// Its names.
pub(super) const NAMES: [&str; 2] = ["pg_cancel_backend", "pg_terminate_backend"];

/// The function, for whoever asks.
#[derive(Debug)]
pub(super) struct Cancel {
    name: &'static str,
    registry: Arc<Registry>,
    viewer: Viewer,
    signature: Signature,
}

impl Cancel {
    pub(super) fn udf(name: &'static str, registry: Arc<Registry>, viewer: Viewer) -> ScalarUDF {
        // A number that is written down is a bigint to the query engine.
        let signature = Signature::exact(vec![DataType::Int64], Volatility::Volatile);
        ScalarUDF::from(Cancel { name, registry, viewer, signature })
    }

    /// Stops what the session with this number runs; whether there is such a session that this user may stop.
    fn stop(&self, number: i64) -> bool {
        let sessions = self.registry.sessions();
        let found = sessions.iter().find(|s| i64::from(s.number()) == number && self.viewer.may_see(s));
        let Some(session) = found else { return false };
        let own = session.user.name == self.viewer.user;
        let why = if own { Stop::User } else { Stop::Administrator };
        session.stop(why);
        let queries = self.registry.queries().into_iter().filter(|query| query.session == session.id);
        queries.for_each(|query| query.cancel.stop(why));
        true
    }
}

impl PartialEq for Cancel {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.registry, &other.registry)
            && (self.name, &self.viewer.user, self.viewer.admin)
                == (other.name, &other.viewer.user, other.viewer.admin)
    }
}

impl Eq for Cancel {}

impl Hash for Cancel {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.viewer.user.hash(state);
    }
}

impl ScalarUDFImpl for Cancel {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let numbers = ColumnarValue::values_to_arrays(&args.args)?.swap_remove(0);
        let stopped = numbers.as_primitive::<Int64Type>().iter().map(|number| number.map(|n| self.stop(n)));
        Ok(ColumnarValue::Array(Arc::new(stopped.collect::<BooleanArray>())))
    }
}
