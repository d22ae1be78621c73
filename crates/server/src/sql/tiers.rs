//! Tiers of a server: opened once when it starts, known to the session that opens tables and to those of all users.
//!
//! What a tier is and how queries wait for it is `coscan-tier`'s business.

use std::path::PathBuf;

use coscan_datafusion::CoscanContext;
use coscan_tier::{TierConfig, TierError, Tiers};

use crate::error::ServeError;

/// Opens the tiers that these files define, and makes tables that `coscan` opens under their roots tables of a tier.
/// Nothing if there are none: plans stay as they are.
///
/// # Errors
///
/// A definition does not hold, or the cache of a tier cannot be used.
pub(crate) fn open_tiers(
    definitions: &[PathBuf],
    coscan: &CoscanContext,
) -> Result<Option<Tiers>, ServeError> {
    if definitions.is_empty() {
        return Ok(None);
    }
    let configs = definitions.iter().map(|path| TierConfig::read(path));
    let tiers = Tiers::open(configs.collect::<Result<Vec<_>, TierError>>()?)?;
    let attached = tiers.attach(&coscan.ctx, Some(coscan.engine.clone()));
    attached.map_err(|error| ServeError::Engine(error.strip_backtrace()))?;
    Ok(Some(tiers))
}
