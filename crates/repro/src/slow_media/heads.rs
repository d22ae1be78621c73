//! The seeks of Table 2 by where a switch leaves the head, which Table 1 does not say: the same accesses in the same order,
//! under three rules.

use std::collections::BTreeMap;

use coscan_media::{Fragment, FragmentId, MediumId};
use coscan_sim::media::MediaOutcome;

use super::relation::MB;

/// Where the head is after a switch, and what rewinding costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Head {
    /// At the load point; rewinding is part of the switch. What the model has.
    LoadPoint,
    /// Where it was when the tape was last in the drive.
    Kept,
    /// At the load point; rewinding is a seek beside the switch.
    Rewound,
}

pub(super) const HEADS: [(Head, &str); 3] = [
    (Head::LoadPoint, "at the load point (the rows)"),
    (Head::Kept, "where it was"),
    (Head::Rewound, "at the load point, rewinding counts as seeking"),
];

/// Table 1: start-up of a seek, and how fast it passes over data.
const STARTUP_S: f64 = 2.0;
const BYTES_PER_S: f64 = (200 * MB) as f64;

/// The minutes that one drive seeks.
pub(super) fn seek_minutes(
    outcome: &MediaOutcome,
    fragments: &BTreeMap<FragmentId, Fragment>,
    rule: Head,
) -> f64 {
    let mut heads: BTreeMap<MediumId, u64> = BTreeMap::new();
    let mut mounted: Option<MediumId> = None;
    let mut seconds = 0.0;
    for id in &outcome.fetched {
        let fragment = fragments[id];
        if mounted != Some(fragment.medium) {
            let left = mounted.and_then(|medium| heads.get(&medium)).copied().unwrap_or(0);
            if rule == Head::Rewound {
                seconds += left as f64 / BYTES_PER_S;
            }
            if rule != Head::Kept {
                heads.insert(fragment.medium, 0);
            }
            mounted = Some(fragment.medium);
        }
        let head = heads.entry(fragment.medium).or_insert(0);
        if *head != fragment.position {
            seconds += STARTUP_S + head.abs_diff(fragment.position) as f64 / BYTES_PER_S;
        }
        *head = fragment.position + fragment.bytes;
    }
    seconds / 60.0
}
