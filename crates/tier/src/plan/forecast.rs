//! A dry run: a plan's restores, changes of medium, duration and cost.
//!
//! Nothing is restored. The fragments come from the scans as planned; dynamic filters can only reduce them. A copy
//! of the scheduler plays the lists in the order in which the plan submits them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use datafusion::common::Result;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::scalar_subquery::ScalarSubqueryExec;

use crate::error::TierError;
use crate::fragment::Fragment;
use crate::list::Subqueries;
use crate::plan::combine::CombineExec;
use crate::plan::merge::MergeCombineExec;
use crate::plan::resolve::{PARTIAL_LIST, needed, needed_fragments};
use crate::plan::schedule::PassesExec;
use crate::plan::together::builds_left;
use crate::tier::Tier;

/// The demand of a plan on one tier.
#[derive(Clone, Debug)]
pub struct Forecast {
    /// The tier's name.
    pub tier: String,
    /// Number of fragments of all scans, each counted once.
    pub fragments: usize,
    /// Their bytes.
    pub bytes: u64,
    /// Number of fragments in the cache at present.
    pub cached: usize,
    /// The fragments that have to be restored, in the order of names.
    pub restores: Vec<Fragment>,
    /// Their files as messages name them, in the same order.
    pub files: Vec<String>,
    /// Their bytes.
    pub restore_bytes: u64,
    /// Number of changes of medium.
    pub switches: u64,
    /// Duration of the restores, if the definition's numbers are right and no other query restores.
    pub time: Duration,
    /// The price of the restores.
    pub price: f64,
    /// The rest of the cost limit. `None`: there is no limit.
    pub left: Option<f64>,
}

/// The forecasts of a plan, one per tier that it reads.
///
/// # Errors
///
/// If a tier cannot state which files are online.
pub async fn forecast(plan: &Arc<dyn ExecutionPlan>) -> Result<Vec<Forecast>> {
    let steps = steps(plan);
    let mut tiers: BTreeMap<&str, &Tier> = BTreeMap::new();
    for list in steps.iter().flatten() {
        tiers.insert(&list.tier.config().name, &list.tier);
    }
    let mut forecasts = Vec::new();
    for (name, tier) in tiers {
        let lists = |step: &Vec<List>| -> Vec<Subqueries> {
            let own = step.iter().filter(|list| list.tier.config().name == name);
            own.map(|list| list.subqueries.clone()).collect()
        };
        forecasts.push(of(tier, steps.iter().map(lists).collect()).await?);
    }
    Ok(forecasts)
}

/// A list that a plan submits.
struct List {
    tier: Tier,
    subqueries: Subqueries,
}

/// The lists of a plan, in the order in which it submits them. The lists of one step run at the same time, and a
/// step starts when the previous one is done. A join reads its build side to the end before it reads its probe side.
fn steps(plan: &Arc<dyn ExecutionPlan>) -> Vec<Vec<List>> {
    if let Some(combine) = plan.downcast_ref::<CombineExec>() {
        return parts(combine);
    }
    if let Some(passes) = plan.downcast_ref::<PassesExec>() {
        let tier = passes.scans().first().map(|scan| scan.tier.clone());
        return tier.map(|tier| vec![List { tier, subqueries: passes.wanted() }]).into_iter().collect();
    }
    if let Some(merge) = plan.downcast_ref::<MergeCombineExec>() {
        let scan = merge.scan();
        return vec![vec![List { tier: scan.tier.clone(), subqueries: vec![vec![needed_fragments(scan)]] }]];
    }
    let builds = |at: usize| match plan.is::<ScalarSubqueryExec>() {
        true => at > 0,
        false => builds_left(plan) && at == 0,
    };
    let (mut first, mut then) = (Vec::new(), Vec::new());
    for (at, child) in plan.children().into_iter().enumerate() {
        let into = if builds(at) { &mut first } else { &mut then };
        together(into, steps(child));
    }
    first.extend(then);
    first
}

/// The lists of a scan. There are several if a resolver may rule out fragments.
fn parts(combine: &CombineExec) -> Vec<Vec<List>> {
    let scan = combine.scan();
    let mut parts: BTreeMap<usize, Subqueries> = BTreeMap::new();
    for at in needed(scan) {
        let part = if combine.resolver().is_some() { at / PARTIAL_LIST } else { 0 };
        parts.entry(part).or_default().push(vec![vec![scan.fragments[at].fragment.clone()]]);
    }
    parts.into_values().map(|subqueries| vec![List { tier: scan.tier.clone(), subqueries }]).collect()
}

/// Adds steps of a plan that runs at the same time.
fn together(into: &mut Vec<Vec<List>>, steps: Vec<Vec<List>>) {
    into.resize_with(into.len().max(steps.len()), Vec::new);
    for (lists, more) in into.iter_mut().zip(steps) {
        lists.extend(more);
    }
}

async fn of(tier: &Tier, steps: Vec<Vec<Subqueries>>) -> Result<Forecast, TierError> {
    let all = steps.iter().flatten().flatten().flatten().flatten();
    let fragments: BTreeSet<Fragment> = all.cloned().collect();
    let cached = fragments.iter().filter(|fragment| tier.fetcher().cache.contains(fragment)).count();
    let restores = tier.to_restore(fragments.iter().cloned()).await?;
    let (switches, time) = tier.rehearse(of_these(steps, &restores));
    let config = tier.config();
    Ok(Forecast {
        tier: config.name.clone(),
        fragments: fragments.len(),
        bytes: fragments.iter().map(|fragment| fragment.bytes).sum(),
        cached,
        restore_bytes: restores.iter().map(|fragment| fragment.bytes).sum(),
        files: restores.iter().map(|fragment| config.shown(fragment)).collect(),
        switches,
        time,
        price: config.prices(restores.iter().map(|fragment| fragment.bytes)),
        left: config.cost_limit.map(|limit| (limit - tier.fetcher().spent()).max(0.0)),
        restores,
    })
}

/// The same lists with only these fragments. Fragments that are there take no time.
fn of_these(steps: Vec<Vec<Subqueries>>, fragments: &[Fragment]) -> Vec<Vec<Subqueries>> {
    let fragments: BTreeSet<&Fragment> = fragments.iter().collect();
    let mut of_these = Vec::new();
    for mut lists in steps {
        for subqueries in &mut lists {
            for subquery in subqueries.iter_mut() {
                subquery.iter_mut().for_each(|input| input.retain(|fragment| fragments.contains(fragment)));
            }
            subqueries.retain(|subquery| subquery.iter().any(|input| !input.is_empty()));
        }
        of_these.push(lists);
    }
    of_these
}
