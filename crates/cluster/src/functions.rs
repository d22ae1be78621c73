//! The functions that the processes of a cluster have in common.
//!
//! A function is sent as its name, and a worker looks it up. So a name must stand for the same function in both
//! processes: the coordinator compares each function of a plan with the one that a worker would find.

use std::collections::HashMap;
use std::sync::Arc;

use coscan_upstream::{Described, aggregate_functions, scalar_functions};
use datafusion::common::{Result, plan_err};
use datafusion::execution::TaskContext;
use datafusion::execution::session_state::{SessionState, SessionStateBuilder};
use datafusion::logical_expr::{AggregateUDF, HigherOrderUDF, ScalarUDF, WindowUDF};
use datafusion::prelude::SessionConfig;

use crate::sent::Sent;

/// Functions by name.
#[derive(Clone, Debug)]
pub(crate) struct Functions {
    pub(crate) scalar: HashMap<String, Arc<ScalarUDF>>,
    pub(crate) aggregate: HashMap<String, Arc<AggregateUDF>>,
    pub(crate) window: HashMap<String, Arc<WindowUDF>>,
    pub(crate) higher_order: HashMap<String, Arc<HigherOrderUDF>>,
}

impl Functions {
    /// The functions of a session and of corrected plans.
    pub(crate) fn of(session: &SessionState) -> Self {
        let mut functions = Functions {
            scalar: session.scalar_functions().clone(),
            aggregate: session.aggregate_functions().clone(),
            window: session.window_functions().clone(),
            higher_order: session.higher_order_functions().clone(),
        };
        let scalar = scalar_functions().into_iter().map(|of| (of.name().to_owned(), of));
        functions.scalar.extend(scalar);
        let aggregate = aggregate_functions().into_iter().map(|of| (of.name().to_owned(), of));
        functions.aggregate.extend(aggregate);
        functions
    }

    /// Returns the functions for a plan: these, and those that were sent with it.
    pub(crate) fn with(&self, sent: &Sent) -> Result<Self> {
        let mut functions = self.clone();
        for text in &sent.functions {
            let described = Described::parse(text)?;
            let usual = |name: &str| self.aggregate.get(name).cloned();
            if let Some(function) = described.to_scalar() {
                functions.scalar.insert(function.name().to_owned(), Arc::new(function));
            } else if let Some(function) = described.to_aggregate(usual) {
                functions.aggregate.insert(function.name().to_owned(), Arc::new(function));
            } else {
                return plan_err!("'{text}' describes no function of this version");
            }
        }
        Ok(functions)
    }

    /// Adds the functions to a session under construction.
    pub(crate) fn add_to(self, mut builder: SessionStateBuilder) -> SessionStateBuilder {
        builder.scalar_functions().get_or_insert_default().extend(self.scalar.into_values());
        builder.aggregate_functions().get_or_insert_default().extend(self.aggregate.into_values());
        builder.window_functions().get_or_insert_default().extend(self.window.into_values());
        builder.higher_order_functions().get_or_insert_default().extend(self.higher_order.into_values());
        builder
    }

    /// The context in which a worker would decode a plan.
    pub(crate) fn context(self, session: &SessionState, config: SessionConfig) -> TaskContext {
        TaskContext::new(
            None,
            session.session_id().to_owned(),
            config,
            self.scalar,
            self.higher_order,
            self.aggregate,
            self.window,
            Arc::clone(session.runtime_env()),
        )
    }
}
