//! A dry run: what a plan would restore, how often media would change, how long that would take and what it would cost.
//!
//! Nothing is restored. What a plan needs is taken from its scans as planned; dynamic filters can only make it less.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use datafusion::common::Result;
use datafusion::physical_plan::ExecutionPlan;

use crate::error::TierError;
use crate::fragment::Fragment;
use crate::plan::combine::CombineExec;
use crate::plan::merge::MergeCombineExec;
use crate::plan::resolve::needed_fragments;
use crate::tier::Tier;

/// What a plan asks of one tier.
#[derive(Clone, Debug)]
pub struct Forecast {
    /// The tier's name.
    pub tier: String,
    /// Fragments of all scans, each once.
    pub fragments: usize,
    /// Their bytes.
    pub bytes: u64,
    /// Fragments in the cache now.
    pub cached: usize,
    /// Fragments that have to be restored, in the order of names.
    pub restores: Vec<Fragment>,
    /// Their files as people name them, in the same order.
    pub files: Vec<String>,
    /// Their bytes.
    pub restore_bytes: u64,
    /// Changes of medium.
    pub switches: u64,
    /// How long restores take, as far as the definition's numbers are right and nobody else asks.
    pub time: Duration,
    /// What they cost.
    pub price: f64,
    /// What of the limit on cost is left; none: there is no limit.
    pub left: Option<f64>,
}

/// The forecasts of a plan, one for each tier that it reads.
///
/// # Errors
///
/// If a tier cannot be asked which files are online.
pub async fn forecast(plan: &Arc<dyn ExecutionPlan>) -> Result<Vec<Forecast>> {
    let mut wanted = BTreeMap::new();
    collect(plan, &mut wanted);
    let mut forecasts = Vec::new();
    for (tier, mut fragments) in wanted.into_values() {
        fragments.sort();
        fragments.dedup();
        forecasts.push(of(&tier, fragments).await?);
    }
    Ok(forecasts)
}

fn collect(plan: &Arc<dyn ExecutionPlan>, wanted: &mut BTreeMap<String, (Tier, Vec<Fragment>)>) {
    let scan = plan.downcast_ref::<CombineExec>().map(CombineExec::scan);
    if let Some(scan) = scan.or_else(|| plan.downcast_ref::<MergeCombineExec>().map(MergeCombineExec::scan)) {
        let entry = wanted.entry(scan.tier.config().name.clone());
        let (_, fragments) = entry.or_insert_with(|| (scan.tier.clone(), Vec::new()));
        fragments.extend(needed_fragments(scan));
    }
    plan.children().into_iter().for_each(|child| collect(child, wanted));
}

async fn of(tier: &Tier, fragments: Vec<Fragment>) -> Result<Forecast, TierError> {
    let cached = fragments.iter().filter(|fragment| tier.fetcher().cache.contains(fragment)).count();
    let restores = tier.to_restore(fragments.iter().cloned()).await?;
    let bytes = |of: &[Fragment]| of.iter().map(|fragment| fragment.bytes).sum();
    let (switches, time) = tier.outlook(&restores);
    let config = tier.config();
    Ok(Forecast {
        tier: config.name.clone(),
        fragments: fragments.len(),
        bytes: bytes(&fragments),
        cached,
        restore_bytes: bytes(&restores),
        files: restores.iter().map(|fragment| config.shown(fragment)).collect(),
        switches,
        time,
        price: config.prices(restores.iter().map(|fragment| fragment.bytes)),
        left: config.cost_limit.map(|limit| (limit - tier.fetcher().spent()).max(0.0)),
        restores,
    })
}
