//! The functions that the processes of a cluster have in common.
//!
//! A function is sent as its name, and a worker looks it up. So a name must stand for the same function in both
//! processes: the coordinator compares each function of a plan with the one that a worker would find.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use coscan_upstream::{Described, aggregate_functions, scalar_functions};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Result, plan_err};
use datafusion::execution::session_state::{SessionState, SessionStateBuilder};
use datafusion::execution::{SessionStateDefaults, TaskContext};
use datafusion::logical_expr::{AggregateUDF, HigherOrderUDF, ScalarUDF, WindowUDF};
use datafusion::prelude::SessionConfig;

use crate::sent::Sent;

/// Begins the description of a function that DataFusion has under a name for which the session has another.
const PLAIN: &str = "plain ";

static PLAIN_SCALAR: LazyLock<HashMap<String, Arc<ScalarUDF>>> = LazyLock::new(|| {
    let functions = SessionStateDefaults::default_scalar_functions();
    functions.into_iter().map(|function| (function.name().to_owned(), function)).collect()
});

static PLAIN_AGGREGATE: LazyLock<HashMap<String, Arc<AggregateUDF>>> = LazyLock::new(|| {
    let functions = SessionStateDefaults::default_aggregate_functions();
    functions.into_iter().map(|function| (function.name().to_owned(), function)).collect()
});

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
        // Plans have no aliases, and one would bring its function back when another takes the name.
        functions.scalar.retain(|name, function| function.name() == name);
        functions.aggregate.retain(|name, function| function.name() == name);
        functions.window.retain(|name, function| function.name() == name);
        functions.higher_order.retain(|name, function| function.name() == name);
        let scalar = scalar_functions().into_iter().map(|of| (of.name().to_owned(), of));
        functions.scalar.extend(scalar);
        let aggregate = aggregate_functions().into_iter().map(|of| (of.name().to_owned(), of));
        functions.aggregate.extend(aggregate);
        functions
    }

    /// Describes a scalar function with a result of this type that these functions do not have.
    pub(crate) fn described_scalar(&self, function: &ScalarUDF, of: &DataType) -> Option<String> {
        let plain = PLAIN_SCALAR.get(function.name()).is_some_and(|plain| plain.as_ref() == function);
        let described = || Described::scalar(function, of).map(|described| described.to_string());
        if plain { Some(format!("{PLAIN}{}", function.name())) } else { described() }
    }

    /// Describes an aggregate function that these functions do not have.
    pub(crate) fn described_aggregate(&self, function: &AggregateUDF) -> Option<String> {
        let plain = PLAIN_AGGREGATE.get(function.name()).is_some_and(|plain| plain.as_ref() == function);
        let usual = |name: &str| self.aggregate.get(name).cloned();
        let described = || Described::aggregate(function, usual).map(|described| described.to_string());
        if plain { Some(format!("{PLAIN}{}", function.name())) } else { described() }
    }

    /// Returns the functions for a plan: these, and those that were sent with it.
    pub(crate) fn with(&self, sent: &Sent) -> Result<Self> {
        let mut functions = self.clone();
        for text in &sent.functions {
            if let Some(name) = text.strip_prefix(PLAIN) {
                let scalar =
                    PLAIN_SCALAR.get(name).map(|of| functions.scalar.insert(name.to_owned(), Arc::clone(of)));
                let of = PLAIN_AGGREGATE.get(name);
                let aggregate = of.map(|of| functions.aggregate.insert(name.to_owned(), Arc::clone(of)));
                if scalar.is_none() && aggregate.is_none() {
                    return plan_err!("DataFusion has no function {name}");
                }
                continue;
            }
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
