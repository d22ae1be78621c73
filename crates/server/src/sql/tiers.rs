//! Tiers of a server: opened once at its start, and attached to the session that opens tables and to those of all
//! users.
//!
//! `coscan-tier` implements tiers and the waiting of queries.

use std::path::PathBuf;

use coscan_datafusion::CoscanContext;
use coscan_tier::{TierConfig, TierError, Tiers};

use crate::error::ServeError;

/// Opens the tiers that these files define. Tables that `coscan` opens under their roots become tables of a tier.
/// `None` if there are no files: plans then stay the same.
///
/// # Errors
///
/// If a definition is wrong, or the cache of a tier cannot be used.
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
