//! Miss ratios of every page replacement policy in pools of three sizes, on loops over 100 pages with one hot
//! page.
//!
//! `cargo run --release -p coscan-cache --example ratios`

use coscan_cache::table::table;
use coscan_cache::{CacheError, Size, Trace, simulate};
use coscan_pool::PagePolicyName;

fn main() -> Result<(), CacheError> {
    let references = (0..20).flat_map(|_| (1..=100).flat_map(|page| [page, 0]));
    let trace = Trace::of_pages(references);
    let policies: Vec<PagePolicyName> = PagePolicyName::ALL.to_vec();
    let points = simulate(&trace, &policies, &Size::list("10%,50%,90%")?, 1, None)?;
    println!("{}", table(&points, 100));
    Ok(())
}
