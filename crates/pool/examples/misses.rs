//! Misses of each page replacement policy on a loop that is a little longer than the pool, with one hot page
//! in it.
//!
//! `cargo run --release -p coscan-pool --example misses`

use coscan_pool::{Future, PagePolicyName, PageSetup, PageSetupError, PageSlot};

const FRAMES: usize = 90;
const PAGES: u32 = 100;
const ROUNDS: u32 = 20;

fn main() -> Result<(), PageSetupError> {
    let each = |page| [PageSlot(page), PageSlot(0)];
    let references: Vec<PageSlot> = (0..ROUNDS).flat_map(|_| (1..=PAGES).flat_map(each)).collect();
    let future = Future::new(references.clone().into())?;
    for policy in PagePolicyName::ALL {
        let setup = PageSetup { future: Some(future.clone()), ..PageSetup::new(FRAMES) };
        let misses = policy.build(&setup)?.replay(&references, FRAMES);
        println!("{:>8} {misses:>5} of {}", policy.as_str(), references.len());
    }
    Ok(())
}
