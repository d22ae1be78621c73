//! Bounds on the reads of any buffer for a fixed sequence of deliveries.
//!
//! A policy is compared with bounds for its own deliveries, in their order. The first bound is each part read
//! once, which is a lower bound for every buffer. The others are OPT, which knows the future, and LRU, which
//! knows nothing of it. The parts of one delivery must be in the buffer together. Parts are read when they
//! are delivered, whole, and nothing else takes room: no read-ahead, no workspaces, no decoded arrays.
//! Sharing policies save reads by another order of deliveries. Only the bound of each part once holds for
//! other orders.
//!
//! Source: Belady, IBM Systems Journal 1966.

use std::collections::{BTreeMap, BTreeSet};

use coscan_core::{ChunkNo, ColumnNo, ColumnSet, PageNo, TableId, TableLayout};
use thiserror::Error;

/// A page of a column of a table: the unit of the buffer.
pub type PageKey = (TableId, ColumnNo, PageNo);

/// The reason why a bound does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum BoundError {
    /// A delivery larger than the buffer.
    #[error(
        "delivery {delivery} has {needed} bytes, more than the buffer's {buffer}: make the buffer larger"
    )]
    BufferTooSmall {
        /// The delivery, counted from zero.
        delivery: usize,
        /// Its bytes.
        needed: u64,
        /// The bytes of the buffer.
        buffer: u64,
    },
}

/// The reads for a sequence of deliveries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reads {
    /// Deliveries that needed a read.
    pub loads: u64,
    /// Parts read.
    pub parts: u64,
    /// Bytes read.
    pub bytes: u64,
}

/// Deliveries in their order, each with its parts. `K` names a part, the unit that is read and dropped as a
/// whole.
#[derive(Clone, Debug)]
pub struct Deliveries<K> {
    known: BTreeMap<K, usize>,
    bytes: Vec<u64>,
    /// The parts of each delivery, by number.
    delivered: Vec<Vec<usize>>,
}

impl<K> Default for Deliveries<K> {
    fn default() -> Self {
        Deliveries { known: BTreeMap::new(), bytes: Vec::new(), delivered: Vec::new() }
    }
}

impl Deliveries<PageKey> {
    /// Adds the delivery of a chunk in some columns, by page: neighbouring chunks may share one. Cost:
    /// logarithmic in all pages for each page.
    pub fn add_chunk(&mut self, table: TableId, layout: &TableLayout, chunk: ChunkNo, columns: &ColumnSet) {
        let pages = |column| layout.span(chunk, column).map(move |page| (column, PageNo(page)));
        let pages = columns.iter().flat_map(pages);
        self.add(pages.map(|(column, page)| ((table, column, page), layout.page_bytes(column, page))));
    }
}

impl<K: Ord> Deliveries<K> {
    /// Adds a delivery: its parts and their bytes. A part named twice counts once.
    ///
    /// # Panics
    /// If a part had another size in an earlier delivery.
    pub fn add(&mut self, parts: impl IntoIterator<Item = (K, u64)>) {
        let mut group: Vec<usize> = parts.into_iter().map(|(part, bytes)| self.number(part, bytes)).collect();
        group.sort_unstable();
        group.dedup();
        self.delivered.push(group);
    }

    fn number(&mut self, part: K, bytes: u64) -> usize {
        let next = self.bytes.len();
        let number = *self.known.entry(part).or_insert(next);
        if number == next {
            self.bytes.push(bytes);
        }
        assert_eq!(self.bytes[number], bytes, "a part keeps its size");
        number
    }

    /// Reads with every part read once, by the first delivery that has it. No buffer and no order of
    /// deliveries needs less. Only `parts` and `bytes` are bounds for other orders.
    pub fn each_once(&self) -> Reads {
        let mut seen = vec![false; self.bytes.len()];
        let mut reads = Reads::default();
        for group in &self.delivered {
            self.read(&mut reads, group.iter().filter(|part| !std::mem::replace(&mut seen[**part], true)));
        }
        reads
    }

    /// Reads with LRU: the least recently used part is evicted first. Cost: n log n in the parts delivered.
    ///
    /// # Errors
    /// [`BoundError::BufferTooSmall`] if a delivery does not fit.
    pub fn lru(&self, buffer: u64) -> Result<Reads, BoundError> {
        // The rank of a use: later uses rank higher.
        self.replace(buffer, &mut |delivery, _| Some(delivery), Leaves::Lowest)
    }

    /// Reads with OPT: the part whose next delivery is furthest ahead, or that has none, is evicted first
    /// (Belady). For parts of one size this is the minimum. For parts of different sizes it is a greedy
    /// choice that a better one may beat, because finding the best is NP-hard: see
    /// [`Deliveries::fewest_bytes`]. Cost: n log n in the parts delivered.
    ///
    /// # Errors
    /// [`BoundError::BufferTooSmall`] if a delivery does not fit.
    pub fn opt(&self, buffer: u64) -> Result<Reads, BoundError> {
        let mut next_use = self.next_uses();
        self.replace(buffer, &mut |_, part| next_use.pop_for(part), Leaves::Highest)
    }

    /// The bytes that every buffer must read for these deliveries in this order, with any eviction. This is
    /// Belady's choice with parts that may be cut, so that a byte is the unit and the choice exact. Cost: n
    /// log n in the parts delivered.
    ///
    /// # Errors
    /// [`BoundError::BufferTooSmall`] if a delivery does not fit.
    pub fn fewest_bytes(&self, buffer: u64) -> Result<u64, BoundError> {
        let mut next_use = self.next_uses();
        let mut kept = vec![0; self.bytes.len()];
        let mut by_next_use = BTreeSet::new();
        let (mut used, mut read) = (0, 0);
        for (delivery, group) in self.delivered.iter().enumerate() {
            let needed = self.check(delivery, group, buffer)?;
            for part in group {
                by_next_use.remove(&(delivery, *part));
                used -= kept[*part];
                read += self.bytes[*part] - kept[*part];
                kept[*part] = 0;
            }
            while used + needed > buffer {
                let (again, part) = by_next_use.pop_last().expect("the delivery fits by itself");
                let cut = kept[part].min(used + needed - buffer);
                kept[part] -= cut;
                used -= cut;
                if kept[part] > 0 {
                    by_next_use.insert((again, part));
                }
            }
            for part in group {
                if let Some(again) = next_use.pop_for(*part) {
                    kept[*part] = self.bytes[*part];
                    used += kept[*part];
                    by_next_use.insert((again, *part));
                }
            }
        }
        Ok(read)
    }

    /// Plays the deliveries against a buffer. A part has the rank that its last use gave it; a part without a
    /// rank is not kept.
    fn replace(
        &self,
        buffer: u64,
        rank: &mut dyn FnMut(usize, usize) -> Option<usize>,
        leaves: Leaves,
    ) -> Result<Reads, BoundError> {
        let mut reads = Reads::default();
        let mut ranks: Vec<Option<usize>> = vec![None; self.bytes.len()];
        let mut order: BTreeSet<(usize, usize)> = BTreeSet::new();
        let mut used = 0;
        for (delivery, group) in self.delivered.iter().enumerate() {
            let needed = self.check(delivery, group, buffer)?;
            self.read(&mut reads, group.iter().filter(|part| ranks[**part].is_none()));
            for part in group {
                if let Some(rank) = ranks[*part].take() {
                    order.remove(&(rank, *part));
                    used -= self.bytes[*part];
                }
            }
            while used + needed > buffer {
                let (_, part) = leaves.pop(&mut order).expect("the delivery fits by itself");
                ranks[part] = None;
                used -= self.bytes[part];
            }
            for part in group {
                if let Some(rank) = rank(delivery, *part) {
                    ranks[*part] = Some(rank);
                    order.insert((rank, *part));
                    used += self.bytes[*part];
                }
            }
        }
        Ok(reads)
    }

    /// The bytes of a delivery, if they fit.
    fn check(&self, delivery: usize, group: &[usize], buffer: u64) -> Result<u64, BoundError> {
        let needed = group.iter().map(|part| self.bytes[*part]).sum();
        if needed > buffer {
            return Err(BoundError::BufferTooSmall { delivery, needed, buffer });
        }
        Ok(needed)
    }

    /// Counts the reads of one delivery.
    fn read<'a>(&self, reads: &mut Reads, parts: impl Iterator<Item = &'a usize>) {
        let before = reads.parts;
        for part in parts {
            reads.parts += 1;
            reads.bytes += self.bytes[*part];
        }
        reads.loads += u64::from(reads.parts > before);
    }

    fn next_uses(&self) -> NextUses {
        let mut uses = vec![Vec::new(); self.bytes.len()];
        for (delivery, group) in self.delivered.iter().enumerate().rev() {
            for part in group {
                uses[*part].push(delivery);
            }
        }
        NextUses { uses }
    }
}

/// The remaining deliveries of each part, the next one at the end.
struct NextUses {
    uses: Vec<Vec<usize>>,
}

impl NextUses {
    /// Removes the current delivery of the part, and returns its next one.
    fn pop_for(&mut self, part: usize) -> Option<usize> {
        self.uses[part].pop();
        self.uses[part].last().copied()
    }
}

/// The end of the order of ranks that is evicted.
#[derive(Clone, Copy)]
enum Leaves {
    Lowest,
    Highest,
}

impl Leaves {
    fn pop(self, order: &mut BTreeSet<(usize, usize)>) -> Option<(usize, usize)> {
        match self {
            Leaves::Lowest => order.pop_first(),
            Leaves::Highest => order.pop_last(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fastrand::Rng;

    fn deliveries(groups: &[&[u32]]) -> Deliveries<u32> {
        let mut all = Deliveries::default();
        groups.iter().for_each(|group| all.add(group.iter().map(|part| (*part, 1))));
        all
    }

    fn random(rng: &mut Rng, parts: u32, length: usize, together: usize, size: u64) -> Deliveries<u32> {
        let sizes: Vec<u64> = (0..parts).map(|_| rng.u64(1..=size)).collect();
        let mut all = Deliveries::default();
        for _ in 0..length {
            let group: Vec<u32> = (0..rng.usize(1..=together)).map(|_| rng.u32(0..parts)).collect();
            all.add(group.into_iter().map(|part| (part, sizes[part as usize])));
        }
        all
    }

    fn largest(all: &Deliveries<u32>) -> u64 {
        let bytes = |group: &Vec<usize>| group.iter().map(|part| all.bytes[*part]).sum();
        all.delivered.iter().map(bytes).max().unwrap_or(0)
    }

    /// The fewest parts read, found by trying every content of the buffer after every delivery.
    fn brute_force(all: &Deliveries<u32>, slots: u32) -> u64 {
        let mut best: BTreeMap<u32, u64> = [(0, 0)].into();
        for group in &all.delivered {
            let group: u32 = group.iter().map(|part| 1 << part).sum();
            let mut next = BTreeMap::new();
            for (content, reads) in best {
                let reads = reads + u64::from((group & !content).count_ones());
                let reachable = content | group;
                for kept in (0..=reachable).filter(|kept| kept & !reachable == 0 && kept & group == group) {
                    if kept.count_ones() <= slots {
                        let least = next.entry(kept).or_insert(reads);
                        *least = reads.min(*least);
                    }
                }
            }
            best = next;
        }
        best.into_values().min().unwrap()
    }

    #[test]
    fn beladys_example() {
        let string = [7, 0, 1, 2, 0, 3, 0, 4, 2, 3, 0, 3, 2, 1, 2, 0, 1, 7, 0, 1];
        let groups: Vec<&[u32]> = string.iter().map(std::slice::from_ref).collect();
        let all = deliveries(&groups);
        let of = |parts| Reads { loads: parts, parts, bytes: parts };
        assert_eq!(all.opt(3), Ok(of(9)));
        assert_eq!(all.lru(3), Ok(of(12)));
        assert_eq!(all.each_once(), of(6));
        assert_eq!(all.fewest_bytes(3), Ok(9));
    }

    #[test]
    fn parts_of_a_delivery_are_together() {
        // Part 0 would be evicted first, but it is delivered together with part 2.
        let all = deliveries(&[&[0, 1], &[0, 2], &[1, 2]]);
        assert_eq!(all.opt(2), Ok(Reads { loads: 3, parts: 4, bytes: 4 }));
        assert_eq!(all.opt(3), Ok(Reads { loads: 2, parts: 3, bytes: 3 }));
        let error = BoundError::BufferTooSmall { delivery: 0, needed: 2, buffer: 1 };
        assert_eq!((all.opt(1), all.lru(1)), (Err(error), Err(error)));
        assert_eq!(all.fewest_bytes(1), Err(error));
    }

    #[test]
    fn opt_is_the_optimum_for_equal_sizes() {
        for seed in 0..400 {
            let mut rng = Rng::with_seed(seed);
            let (parts, length) = (rng.u32(2..7), rng.usize(1..12));
            let all = random(&mut rng, parts, length, 3, 1);
            let slots = rng.u64(largest(&all)..7);
            let best = brute_force(&all, slots as u32);
            assert_eq!(all.opt(slots).unwrap().parts, best, "seed {seed}, {slots} slots: {all:?}");
            assert_eq!(all.fewest_bytes(slots).unwrap(), best, "seed {seed}: cutting does not help");
        }
    }

    #[test]
    fn bounds_keep_their_order() {
        for seed in 0..400 {
            let mut rng = Rng::with_seed(seed);
            let size = if rng.bool() { 1 } else { 50 };
            let (parts, length) = (rng.u32(1..40), rng.usize(1..200));
            let all = random(&mut rng, parts, length, 4, size);
            let buffer = largest(&all) + rng.u64(0..20 * size);
            let (opt, lru, once) = (all.opt(buffer).unwrap(), all.lru(buffer).unwrap(), all.each_once());
            let fewest = all.fewest_bytes(buffer).unwrap();
            assert!(once.bytes <= fewest && fewest <= opt.bytes.min(lru.bytes), "seed {seed}");
            assert!(once.parts <= opt.parts && once.loads <= opt.loads, "seed {seed}");
            if size == 1 {
                assert!(opt.parts <= lru.parts, "seed {seed}");
            }
            assert_eq!(all.opt(u64::MAX / 2), Ok(once), "a buffer for everything reads each part once");
            assert_eq!(all.lru(u64::MAX / 2), Ok(once));
        }
    }

    #[test]
    fn a_page_shared_by_neighbouring_chunks_is_read_once() {
        let column = coscan_core::ColumnLayout::paged(vec![10; 3], vec![0..2, 1..3]).unwrap();
        let layout = TableLayout::columns(2, vec![column]).unwrap();
        let mut all = Deliveries::default();
        let columns = ColumnSet::first(1);
        (0..2).for_each(|chunk| all.add_chunk(TableId(0), &layout, ChunkNo(chunk), &columns));
        assert_eq!(all.opt(20), Ok(Reads { loads: 2, parts: 3, bytes: 30 }));
    }
}
