//! Additions of a host to every session of an engine, such as a planner for several machines.

use std::sync::Arc;

use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::prelude::SessionConfig;

/// What a host adds to sessions.
pub trait SessionLayer: Send + Sync {
    /// Adds to a session under construction that has coscan's rules and planners.
    fn add_to(&self, builder: SessionStateBuilder) -> SessionStateBuilder;
}

/// The layer of a session configuration. Sessions whose configuration is a copy have it, too.
struct Layer(Arc<dyn SessionLayer>);

/// Sets the layer of sessions that are [installed](crate::install) with this configuration.
pub fn set_session_layer(config: &mut SessionConfig, layer: Arc<dyn SessionLayer>) {
    config.set_extension(Arc::new(Layer(layer)));
}

/// Adds the layer of the configuration, if it has one.
pub(crate) fn with_layer(mut builder: SessionStateBuilder) -> SessionStateBuilder {
    let layer = builder.config().as_ref().and_then(SessionConfig::get_extension::<Layer>);
    match layer {
        Some(layer) => layer.0.add_to(builder),
        None => builder,
    }
}
