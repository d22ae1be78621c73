//! Recency of parts: one list of all complete parts by last use, and one list of those that no scan wants, by
//! the time at which they became unwanted.
//!
//! Both are linked lists in one vector. Moving a part to the end costs one logarithmic look-up.

use std::collections::BTreeMap;
use std::fmt;

use crate::nodes::Nodes;
use crate::part::PartKey;

#[derive(Clone, Copy, Debug, Default)]
struct Link {
    before: Option<u32>,
    after: Option<u32>,
}

#[derive(Clone, Debug)]
struct Node {
    part: PartKey,
    wanted: bool,
    used: bool,
    links: [Link; 2],
}

/// The number of the list of all parts; the list of unwanted ones follows.
const ALL: usize = 0;
const UNWANTED: usize = 1;

#[derive(Clone, Copy, Debug, Default)]
struct Ends {
    first: Option<u32>,
    last: Option<u32>,
}

/// The complete parts in the buffer, by the time of their last use.
#[derive(Clone, Default)]
pub struct Recency {
    nodes: Nodes<Node>,
    index: BTreeMap<PartKey, u32>,
    ends: [Ends; 2],
}

/// Compares the order of parts, not the links.
impl fmt::Debug for Recency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let flags = |part: PartKey| self.node(part).map(|node| (part, node.wanted, node.used));
        let all: Vec<_> = self.oldest().filter_map(flags).collect();
        let unwanted: Vec<_> = self.oldest_unwanted().collect();
        f.debug_struct("Recency").field("all", &all).field("unwanted", &unwanted).finish()
    }
}

impl Recency {
    /// All complete parts, least recently used first.
    pub fn oldest(&self) -> impl Iterator<Item = PartKey> {
        self.walk(ALL)
    }

    /// The parts that no interested scan uses, longest unwanted first.
    pub fn oldest_unwanted(&self) -> impl Iterator<Item = PartKey> {
        self.walk(UNWANTED)
    }

    fn walk(&self, list: usize) -> impl Iterator<Item = PartKey> {
        let first = self.ends[list].first;
        let nodes = std::iter::successors(first, move |at| self.nodes[*at].links[list].after);
        nodes.map(|at| self.nodes[at].part)
    }

    /// Returns whether the part is complete in the buffer.
    pub fn contains(&self, part: PartKey) -> bool {
        self.index.contains_key(&part)
    }

    /// Returns whether the part was read for a scan that still wants it, and has not been used since.
    pub fn is_fresh(&self, part: PartKey) -> bool {
        self.node(part).is_some_and(|n| n.wanted && !n.used)
    }

    /// Returns whether an interested scan uses the part, or `None` if it is not complete.
    pub fn is_wanted(&self, part: PartKey) -> Option<bool> {
        self.node(part).map(|n| n.wanted)
    }

    fn node(&self, part: PartKey) -> Option<&Node> {
        self.index.get(&part).map(|at| &self.nodes[*at])
    }

    pub(crate) fn len(&self) -> usize {
        self.index.len()
    }

    pub(crate) fn insert(&mut self, part: PartKey, wanted: bool) {
        let node = Node { part, wanted, used: false, links: Default::default() };
        let at = self.nodes.add(node);
        let known = self.index.insert(part, at);
        debug_assert!(known.is_none(), "a part becomes complete once");
        self.append(ALL, at);
        if !wanted {
            self.append(UNWANTED, at);
        }
    }

    pub(crate) fn remove(&mut self, part: PartKey) {
        if let Some(at) = self.index.remove(&part) {
            self.unlink(ALL, at);
            if !self.nodes[at].wanted {
                self.unlink(UNWANTED, at);
            }
            self.nodes.free(at);
        }
    }

    /// Makes the part the most recently used one.
    pub(crate) fn touch(&mut self, part: PartKey) {
        if let Some(at) = self.index.get(&part).copied() {
            self.nodes[at].used = true;
            self.unlink(ALL, at);
            self.append(ALL, at);
        }
    }

    /// Returns whether the state changed.
    pub(crate) fn set_wanted(&mut self, part: PartKey, wanted: bool) -> bool {
        let Some(at) = self.index.get(&part).copied() else { return false };
        let changes = std::mem::replace(&mut self.nodes[at].wanted, wanted) != wanted;
        match (changes, wanted) {
            (false, _) => {}
            (true, true) => self.unlink(UNWANTED, at),
            (true, false) => self.append(UNWANTED, at),
        }
        changes
    }

    fn append(&mut self, list: usize, at: u32) {
        let last = self.ends[list].last.replace(at);
        self.nodes[at].links[list] = Link { before: last, after: None };
        match last {
            Some(last) => self.nodes[last].links[list].after = Some(at),
            None => self.ends[list].first = Some(at),
        }
    }

    fn unlink(&mut self, list: usize, at: u32) {
        let Link { before, after } = self.nodes[at].links[list];
        match before {
            Some(before) => self.nodes[before].links[list].after = after,
            None => self.ends[list].first = after,
        }
        match after {
            Some(after) => self.nodes[after].links[list].before = before,
            None => self.ends[list].last = before,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{ChunkNo, ColumnNo, TableId};

    fn part(chunk: u32) -> PartKey {
        PartKey { table: TableId(0), chunk: ChunkNo(chunk), column: ColumnNo(0) }
    }

    #[test]
    fn both_orders_follow_use_and_interest() {
        let mut order = Recency::default();
        for chunk in 0..4 {
            order.insert(part(chunk), chunk % 2 == 0);
        }
        order.touch(part(0));
        order.set_wanted(part(2), false);
        order.set_wanted(part(1), true);
        assert_eq!(order.oldest().map(|p| p.chunk.0).collect::<Vec<_>>(), [1, 2, 3, 0]);
        assert_eq!(order.oldest_unwanted().map(|p| p.chunk.0).collect::<Vec<_>>(), [3, 2]);
        assert!(order.is_fresh(part(1)) && !order.is_fresh(part(0)) && !order.is_fresh(part(3)));
        order.remove(part(3));
        order.insert(part(9), false);
        assert_eq!(order.oldest_unwanted().map(|p| p.chunk.0).collect::<Vec<_>>(), [2, 9]);
        assert_eq!(order.len(), 4);
    }
}
