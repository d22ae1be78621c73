//! Stores the footers of a table's files before the first query. Each file has to be restored once for this.

use datafusion::common::Result;
use datafusion::prelude::SessionContext;

use crate::fragment::Fragment;
use crate::table::files_below;
use crate::tier::requests::have_footers_kept;
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
    let Some(tier) = tiers.around(location) else {
        let known: Vec<&str> = tiers.all().map(|tier| tier.config().root.as_str()).collect();
        return datafusion::common::plan_err!(
            "{location} lies in no tier; their roots are {}",
            known.join(", ")
        );
    };
    let listed = files_below(&address(tier.config(), location)?, &ctx.state()).await?;
    let fetcher = tier.fetcher();
    let fragments = listed.iter().map(|meta| Fragment::of(meta, fetcher.driver.tags_survive()));
    let missing: Vec<Fragment> = fragments.filter(|fragment| !fetcher.cache.has_footer(fragment)).collect();
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
