//! Tables and indexes of the decision-support benchmark, and the places of their pages.
//!
//! Rows and their lengths are those of the specification (TPC-H, clauses 4.2.5 and 1.4). An index has 16
//! bytes per entry (reading: key, row identifier, header). Tables are placed one after another, followed by
//! the indexes (reading).

/// Bytes of a page that hold rows, of 8 KB (reading).
const PAGE_ROOM: u64 = 8000;
/// Bytes of an entry of an index.
const ENTRY_BYTES: u64 = 16;

/// An object with pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Object {
    Lineitem,
    Orders,
    PartSupp,
    Part,
    Customer,
    Supplier,
    /// Index of `lineitem` by order.
    LineitemOrders,
    /// Index of `lineitem` by part.
    LineitemParts,
    /// Index of `orders` by order.
    OrdersKey,
    /// Index of `orders` by customer.
    OrdersCustomers,
    /// Index of `partsupp` by part.
    PartSuppParts,
    /// Index of `part`.
    PartKey,
}

use Object::{
    Customer, Lineitem, LineitemOrders, LineitemParts, Orders, OrdersCustomers, OrdersKey, Part, PartKey,
    PartSupp, PartSuppParts, Supplier,
};

/// All objects, in the order of their places.
const ALL: [Object; 12] = [
    Lineitem,
    Orders,
    PartSupp,
    Part,
    Customer,
    Supplier,
    LineitemOrders,
    LineitemParts,
    OrdersKey,
    OrdersCustomers,
    PartSuppParts,
    PartKey,
];

impl Object {
    /// Rows at scale 1, and bytes of a row or entry.
    fn rows(self) -> (u64, u64) {
        match self {
            Lineitem => (6_000_000, 112),
            Orders => (1_500_000, 104),
            PartSupp => (800_000, 144),
            Part => (200_000, 155),
            Customer => (150_000, 179),
            Supplier => (10_000, 159),
            LineitemOrders | LineitemParts => (6_000_000, ENTRY_BYTES),
            OrdersKey | OrdersCustomers => (1_500_000, ENTRY_BYTES),
            PartSuppParts => (800_000, ENTRY_BYTES),
            PartKey => (200_000, ENTRY_BYTES),
        }
    }

    fn pages(self, scale: u64) -> u64 {
        let (rows, bytes) = self.rows();
        (rows * scale).div_ceil(PAGE_ROOM / bytes)
    }
}

/// The places of all objects, at a scale.
#[derive(Clone, Copy, Debug)]
pub(super) struct Placement {
    scale: u64,
    /// Every object begins at a multiple of this many pages.
    aligned: u64,
}

impl Placement {
    pub(super) fn new(scale: u64, aligned: u64) -> Self {
        Placement { scale, aligned }
    }

    fn room(&self, object: Object) -> u64 {
        object.pages(self.scale).div_ceil(self.aligned) * self.aligned
    }

    /// An object's first page, and the number of its pages.
    pub(super) fn of(&self, object: Object) -> (u64, u64) {
        let before = ALL.iter().take_while(|other| **other != object).map(|other| self.room(*other)).sum();
        (before, object.pages(self.scale))
    }

    /// Total number of pages.
    pub(super) fn pages(&self) -> u64 {
        ALL.iter().map(|object| self.room(*object)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_scale_ten_the_tables_take_about_ten_gigabytes_and_nothing_overlaps() {
        let placement = Placement::new(10, 48);
        let gigabytes = |objects: &[Object]| {
            objects.iter().map(|object| placement.of(*object).1 * 8192).sum::<u64>() as f64 / 1e9
        };
        assert!((9.5..11.0).contains(&gigabytes(&ALL[..6])), "{}", gigabytes(&ALL[..6]));
        let ends =
            ALL.map(|object| placement.of(object)).windows(2).all(|two| two[0].0 + two[0].1 <= two[1].0);
        assert!(ends && placement.of(PartKey).0 + placement.of(PartKey).1 <= placement.pages());
    }
}
