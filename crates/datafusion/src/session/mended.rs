//! Faults of DataFusion 55 that are mended in every session.

use datafusion::execution::session_state::SessionStateBuilder;

use super::rounded::with_lasting_round;
use crate::rule::names::with_clear_names;

/// Mends what DataFusion 55 gives wrong rows for, whether scans are cooperative or not: rounded decimals that are keys of joins or
/// set operations, and filters above outer joins whose sides have columns of the same name. What it refuses without a reason,
/// groups by an expression whose null its optimizer has ruled out, it is told not to look at. [`install`](crate::install) does
/// it.
pub fn with_mended_planning(mut builder: SessionStateBuilder) -> SessionStateBuilder {
    let analyzer = builder.analyzer().take().unwrap_or_default();
    *builder.analyzer() = Some(with_lasting_round(analyzer));
    let optimizer = builder.physical_optimizers().take().unwrap_or_default();
    *builder.physical_optimizers() = Some(with_clear_names(optimizer));
    let mut config = builder.config().take().unwrap_or_default();
    config.options_mut().execution.skip_physical_aggregate_schema_check = true;
    builder.with_config(config)
}
