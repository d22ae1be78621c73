//! The seeks of Table 2 by the head's position after a switch, which Table 1 does not give: the same accesses
//! in the same order, under three rules.

use std::collections::BTreeMap;

use coscan_media::{Fragment, FragmentId, MediumId};
use coscan_sim::media::MediaOutcome;

use super::relation::MB;

/// The head's position after a switch, and the cost of rewinding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Head {
    /// At the load point; rewinding is part of the switch. This is the model's rule.
    LoadPoint,
    /// At its position when the tape was last in the drive.
    Kept,
    /// At the load point; rewinding is a seek in addition to the switch.
    Rewound,
}

pub(super) const HEADS: [(Head, &str); 3] = [
    (Head::LoadPoint, "at the load point (the rows)"),
    (Head::Kept, "where it was"),
    (Head::Rewound, "at the load point, rewinding counts as seeking"),
];

/// Table 1: start-up time of a seek, and its rate over data.
const STARTUP_S: f64 = 2.0;
const BYTES_PER_S: f64 = (200 * MB) as f64;

/// The seek time of one drive in minutes.
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
