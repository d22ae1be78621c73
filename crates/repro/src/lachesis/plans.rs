//! Plans of the 22 queries: the order of their page reads over tables and indexes.
//!
//! The plans follow the text of the queries (TPC-H, clause 2.4) by rules that were fixed before any
//! measurement:
//!
//! 1. A table may be joined to one clustered by the same key, with every page wanted. The join then follows
//!    that order through the index (nested loops). All three are read alternately, each as far as the others
//!    have come. These are `orders` with `lineitem`, and `part` with `partsupp`.
//! 2. Other tables are read whole, one after the other, and kept in memory, hashed or sorted.
//! 3. An index leads to single pages if it fetches fewer than a tenth of the pages of a scan.
//! 4. If section 5.2.1 of the paper describes a query's execution, the plan follows it. Queries 1, 4 and 15
//!    are scans. 10 makes runs of two to four requests. 14 sorts and then uses an index. 17 and 20 are nested
//!    loops over single pages. 12 is a scan and then a join (section 5.4).
//!
//! Pages in the buffer pool (768 MB, stated) are not read again. Temporary tables and updates are left out.

use coscan_layout::{Extents, Read, Stream, Unit};

use super::tables::Object::{
    self, Customer, Lineitem, LineitemOrders, LineitemParts, Orders, OrdersCustomers, OrdersKey, Part,
    PartKey, PartSupp, PartSuppParts, Supplier,
};
use super::tables::Placement;

/// Reads of single pages of an object.
#[derive(Clone, Copy, Debug)]
pub(super) struct Probes {
    object: Object,
    /// Number at the scale of ten.
    times: u64,
    spread: Spread,
}

/// The distribution of single pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Spread {
    /// From the first to the last, in step with the streams.
    Ascending,
    /// Any page.
    Random,
}

/// Streams and probes that run together, each in proportion to its length.
#[derive(Clone, Copy, Debug)]
pub(super) struct Phase {
    streams: &'static [Object],
    probes: &'static [Probes],
}

const fn read(streams: &'static [Object]) -> Phase {
    Phase { streams, probes: &[] }
}

const fn ascending(object: Object, times: u64) -> Probes {
    Probes { object, times, spread: Spread::Ascending }
}

const fn random(object: Object, times: u64) -> Probes {
    Probes { object, times, spread: Spread::Random }
}

const SCAN: Phase = read(&[Lineitem]);
/// `orders` and the matching lines.
const FROM_ORDERS: Phase = read(&[Orders, LineitemOrders, Lineitem]);
/// `lineitem` and the matching orders.
const FROM_LINES: Phase = read(&[Lineitem, OrdersKey, Orders]);
const PARTS: Phase = read(&[Part, PartSuppParts, PartSupp]);
const CUSTOMERS: Phase = read(&[Customer]);
const SUPPLIERS: Phase = read(&[Supplier]);

/// The plan of each query, one phase after the other. Selectivities are those of the specification's text.
pub(super) const PLANS: [&[Phase]; 22] = [
    &[SCAN],
    // One part in 250 has the size and type.
    &[
        SUPPLIERS,
        Phase { streams: &[Part], probes: &[ascending(PartSuppParts, 8_000), ascending(PartSupp, 8_000)] },
    ],
    &[CUSTOMERS, FROM_ORDERS],
    &[SCAN, read(&[Orders])],
    &[SUPPLIERS, CUSTOMERS, FROM_ORDERS],
    &[SCAN],
    &[SUPPLIERS, CUSTOMERS, FROM_LINES],
    &[read(&[Part]), CUSTOMERS, SUPPLIERS, FROM_LINES],
    &[SUPPLIERS, PARTS, FROM_LINES],
    &[CUSTOMERS, FROM_ORDERS],
    // The condition on groups reads all pages a second time.
    &[SUPPLIERS, read(&[PartSupp]), read(&[PartSupp])],
    &[SCAN, read(&[OrdersKey, Orders])],
    &[CUSTOMERS, read(&[Orders])],
    &[SCAN, read(&[PartKey, Part])],
    &[SCAN, SUPPLIERS],
    &[SUPPLIERS, PARTS],
    // One part in 1000 has brand and container, and 30 lines.
    &[Phase { streams: &[Part], probes: &[ascending(LineitemParts, 2_000), random(Lineitem, 60_000)] }],
    // 624 orders are large enough.
    &[
        read(&[LineitemOrders, Lineitem]),
        Phase {
            streams: &[],
            probes: &[ascending(OrdersKey, 624), ascending(Orders, 624), random(Customer, 624)],
        },
    ],
    &[read(&[Part]), SCAN],
    // One part in 92 begins with the word.
    &[
        SUPPLIERS,
        Phase {
            streams: &[Part],
            probes: &[
                ascending(PartSuppParts, 21_700),
                ascending(PartSupp, 21_700),
                ascending(LineitemParts, 21_700),
                random(Lineitem, 652_000),
            ],
        },
    ],
    &[SUPPLIERS, read(&[Lineitem, OrdersKey, Orders, LineitemOrders])],
    &[CUSTOMERS, read(&[Customer, OrdersCustomers])],
];

/// The plans of the prototype for queries 1, 6, 12 and 14: scans, then hash joins (section 5.4).
pub(super) const PROTOTYPE: [(usize, &[Phase]); 4] =
    [(1, &[SCAN]), (6, &[SCAN]), (12, &[SCAN, read(&[Orders])]), (14, &[SCAN, read(&[Part])])];

/// Prefetches and single pages of a plan that are played.
const VISITS: u64 = 400;
/// The assumed number of pages of a prefetch.
const VISIT_PAGES: u64 = 48;

/// The part of a plan, a fraction 1/n, that has about as many prefetches and single pages as are played.
pub(super) fn part(plan: &[Phase], placement: &Placement) -> u64 {
    let streams = plan.iter().flat_map(|phase| phase.streams).map(|object| placement.of(*object).1);
    let probes = plan.iter().flat_map(|phase| phase.probes).map(|probes| probes.times);
    let visits = streams.sum::<u64>() / VISIT_PAGES + probes.sum::<u64>();
    (visits / VISITS).max(1)
}

/// The place and the part of a played plan.
#[derive(Clone, Copy, Debug)]
pub(super) struct Play<'a> {
    pub(super) placement: Placement,
    pub(super) extents: &'a Extents,
    pub(super) unit: Unit,
    /// Streams are read up to 1/`part` of their length, and the number of probes is divided by it too.
    pub(super) part: u64,
    /// True if all phases run together, rather than one after the other.
    pub(super) all_in_turns: bool,
}

impl Play<'_> {
    /// The requests of a plan.
    pub(super) fn requests(&self, plan: &[Phase], seed: u64) -> Vec<Read> {
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut reads = Vec::new();
        if self.all_in_turns {
            let streams: Vec<Object> = plan.iter().flat_map(|phase| phase.streams).copied().collect();
            let probes: Vec<Probes> = plan.iter().flat_map(|phase| phase.probes).copied().collect();
            self.together(&streams, &probes, &mut rng, &mut reads);
        } else {
            plan.iter().for_each(|phase| self.together(phase.streams, phase.probes, &mut rng, &mut reads));
        }
        reads
    }

    fn together(
        &self,
        objects: &[Object],
        single: &[Probes],
        rng: &mut fastrand::Rng,
        reads: &mut Vec<Read>,
    ) {
        let stream = |object: &Object| {
            let (first, pages) = self.placement.of(*object);
            Stream::new(first, pages.div_ceil(self.part))
        };
        let mut streams: Vec<Stream> = objects.iter().map(stream).collect();
        let probes = single.iter().map(|probes| probes.times.div_ceil(self.part));
        let steps = streams.iter().map(Stream::pages).chain(probes).max().unwrap_or(0);
        let mut last = vec![None; single.len()];
        for step in 1..=steps {
            for stream in &mut streams {
                let wanted = (step * stream.pages()).div_ceil(steps);
                stream.reach(wanted, self.extents, self.unit, reads);
            }
            for (probes, last) in single.iter().zip(&mut last) {
                let times = probes.times.div_ceil(self.part);
                if step * times / steps == (step - 1) * times / steps {
                    continue;
                }
                let page = self.page(probes, step, steps, rng);
                if last.replace(page) != Some(page) {
                    reads.extend(self.extents.reads(page, 1));
                }
            }
        }
    }

    fn page(&self, probes: &Probes, step: u64, steps: u64, rng: &mut fastrand::Rng) -> u64 {
        let (first, pages) = self.placement.of(probes.object);
        match probes.spread {
            Spread::Random => first + rng.u64(0..pages),
            Spread::Ascending => first + (step - 1) * pages.div_ceil(self.part) / steps,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_go_on_in_proportion_and_every_page_is_read_once() {
        let placement = Placement::new(1, 8);
        let extents = Extents::fixed(0, placement.pages().div_ceil(8), 8);
        let play = Play { placement, extents: &extents, unit: Unit::Extent, part: 32, all_in_turns: false };
        let reads = play.requests(&[FROM_ORDERS], 1);
        let pages: u64 = reads.iter().map(|read| read.blocks / 16).sum();
        let wanted: u64 = FROM_ORDERS.streams.iter().map(|object| placement.of(*object).1.div_ceil(32)).sum();
        assert_eq!(pages, wanted);
        let of = |object| {
            let (first, count) = placement.of(object);
            let blocks = first * 16..(first + count) * 16;
            reads.iter().position(|read| blocks.contains(&read.block))
        };
        assert!(of(Orders) < Some(3) && of(Lineitem) < Some(3));
        let halfway = &reads[..reads.len() / 2];
        let orders = placement.of(Orders).0 * 16;
        let seen = |reads: &[Read]| reads.iter().filter(|read| read.block >= orders).count();
        assert!(2 * seen(halfway) >= seen(&reads) - 3, "both streams are half way at the same time");
    }

    #[test]
    fn probes_are_single_pages() {
        let placement = Placement::new(10, 48);
        let extents = Extents::fixed(0, placement.pages().div_ceil(48), 48);
        let play = Play { placement, extents: &extents, unit: Unit::Extent, part: 32, all_in_turns: false };
        let reads = play.requests(PLANS[16], 1);
        let single = reads.iter().filter(|read| read.blocks == 16).count();
        assert!(single > 1_800 && reads.len() < single + 60, "{single} of {}", reads.len());
    }
}
