//! Stores the footers of a table's files before the first query. Each file has to be restored once for this.

use datafusion::common::Result;
use datafusion::prelude::SessionContext;

use crate::fragment::Fragment;
use crate::table::files_below;
use crate::tier::Tier;
use crate::tier::requests::{forget, have_footers_kept};
use crate::tiers::{Tiers, address};

/// Restores the files below `location` whose footers are not kept, and keeps their footers. The order is the one
/// with the least cost. If another process has the tier, that process does the work. `progress` gets the number of
/// files left and their bytes, before the first file and after each.
///
/// # Errors
///
/// If the location is in no tier, or a file cannot be restored.
pub async fn keep_footers(
    ctx: &SessionContext,
    tiers: &Tiers,
    location: &str,
    mut progress: impl FnMut(usize, u64),
) -> Result<()> {
    let (tier, fragments) = listed(ctx, tiers, location).await?;
    let cache = &tier.fetcher().cache;
    let missing: Vec<Fragment> =
        fragments.into_iter().filter(|fragment| !cache.has_footer(fragment)).collect();
    let (mut left, mut bytes) = (missing.len(), missing.iter().map(|fragment| fragment.bytes).sum::<u64>());
    progress(left, bytes);
    if !tier.is_ours() {
        return Ok(have_footers_kept(tier, missing, progress).await?);
    }
    let list =
        tier.submit("footers", missing.iter().map(|fragment| vec![vec![fragment.clone()]]).collect()).await?;
    while let Some(ready) = list.next().await? {
        for at in &ready {
            left -= 1;
            bytes -= missing[*at as usize].bytes;
            progress(left, bytes);
        }
        list.done(ready);
    }
    Ok(())
}

/// Drops the copies and the kept footers of the files below `location`. A footer that was kept of a wrong copy makes the right
/// copy look damaged. If another process has the tier, that process does it.
///
/// # Errors
///
/// If the location is in no tier, or a query wants one of the copies.
pub async fn forget_footers(ctx: &SessionContext, tiers: &Tiers, location: &str) -> Result<()> {
    let (tier, fragments) = listed(ctx, tiers, location).await?;
    Ok(forget(tier, &fragments).await?)
}

/// Lists the files below a location, and returns their tier.
async fn listed<'a>(
    ctx: &SessionContext,
    tiers: &'a Tiers,
    location: &str,
) -> Result<(&'a Tier, Vec<Fragment>)> {
    let Some(tier) = tiers.around(location) else {
        let known: Vec<&str> = tiers.all().map(|tier| tier.config().root.as_str()).collect();
        return datafusion::common::plan_err!(
            "{location} lies in no tier; their roots are {}",
            known.join(", ")
        );
    };
    let files = files_below(&address(tier.config(), location)?, &ctx.state()).await?;
    let tags = tier.fetcher().driver.tags_survive();
    Ok((tier, files.iter().map(|meta| Fragment::of(meta, tags)).collect()))
}
