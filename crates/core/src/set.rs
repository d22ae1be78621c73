//! Sets of small numbers: bit sets for scans and columns, runs for chunks.
//!
//! Both are ordered and have one representation per value, so they can be compared and used as keys.

use std::cmp::Ordering;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Range;

use crate::ids::{ChunkNo, ColumnNo};

/// A number that can be a member of a [`BitSet`].
pub trait Member: Copy {
    /// The member at the bit's position.
    fn from_bit(bit: u32) -> Self;
    /// The bit's position.
    fn bit(self) -> u32;
}

impl Member for ColumnNo {
    fn from_bit(bit: u32) -> Self {
        ColumnNo(bit)
    }
    fn bit(self) -> u32 {
        self.0
    }
}

/// A set of columns of one table.
pub type ColumnSet = BitSet<ColumnNo>;

/// A bit set. The first 64 members need no allocation.
pub struct BitSet<T> {
    head: u64,
    /// Further words. The last one is never zero, so equal sets are equal in memory.
    tail: Vec<u64>,
    member: PhantomData<fn() -> T>,
}

impl<T: Member> BitSet<T> {
    /// The empty set.
    pub const fn new() -> Self {
        BitSet { head: 0, tail: Vec::new(), member: PhantomData }
    }

    /// The set of the first `n` members.
    pub fn first(n: u32) -> Self {
        (0..n).map(T::from_bit).collect()
    }

    fn word(&self, at: usize) -> u64 {
        if at == 0 { self.head } else { self.tail.get(at - 1).copied().unwrap_or(0) }
    }

    fn words(&self) -> impl Iterator<Item = u64> + '_ {
        std::iter::once(self.head).chain(self.tail.iter().copied())
    }

    fn trim(&mut self) {
        while self.tail.last() == Some(&0) {
            self.tail.pop();
        }
    }

    /// Returns whether `x` is a member.
    pub fn contains(&self, x: T) -> bool {
        let bit = x.bit();
        self.word((bit / 64) as usize) >> (bit % 64) & 1 == 1
    }

    /// Adds `x`.
    pub fn insert(&mut self, x: T) {
        let (at, bit) = ((x.bit() / 64) as usize, x.bit() % 64);
        if at == 0 {
            self.head |= 1 << bit;
        } else {
            if self.tail.len() < at {
                self.tail.resize(at, 0);
            }
            self.tail[at - 1] |= 1 << bit;
        }
    }

    /// Removes `x`.
    pub fn remove(&mut self, x: T) {
        let (at, bit) = ((x.bit() / 64) as usize, x.bit() % 64);
        if at == 0 {
            self.head &= !(1 << bit);
        } else if let Some(word) = self.tail.get_mut(at - 1) {
            *word &= !(1 << bit);
            self.trim();
        }
    }

    /// Returns whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.head == 0 && self.tail.is_empty()
    }

    /// The number of members.
    pub fn len(&self) -> u32 {
        self.words().map(u64::count_ones).sum()
    }

    /// Returns whether every member of `other` is one of `self`.
    pub fn is_superset(&self, other: &Self) -> bool {
        other.head & !self.head == 0
            && other.tail.len() <= self.tail.len()
            && other.tail.iter().zip(&self.tail).all(|(o, s)| o & !s == 0)
    }

    /// Returns whether every member is in at least one of `a` and `b`.
    pub fn is_covered_by(&self, a: &Self, b: &Self) -> bool {
        self.words().enumerate().all(|(at, word)| word & !(a.word(at) | b.word(at)) == 0)
    }

    /// Returns whether the two have a member in common.
    pub fn intersects(&self, other: &Self) -> bool {
        self.head & other.head != 0 || self.tail.iter().zip(&other.tail).any(|(a, b)| a & b != 0)
    }

    /// The number of members in common.
    pub fn intersection_len(&self, other: &Self) -> u32 {
        let tail: u32 = self.tail.iter().zip(&other.tail).map(|(a, b)| (a & b).count_ones()).sum();
        (self.head & other.head).count_ones() + tail
    }

    /// Adds all members of `other`.
    pub fn union_with(&mut self, other: &Self) {
        self.head |= other.head;
        if self.tail.len() < other.tail.len() {
            self.tail.resize(other.tail.len(), 0);
        }
        for (s, o) in self.tail.iter_mut().zip(&other.tail) {
            *s |= o;
        }
    }

    /// Removes all members of `other`.
    pub fn subtract(&mut self, other: &Self) {
        self.head &= !other.head;
        for (s, o) in self.tail.iter_mut().zip(&other.tail) {
            *s &= !o;
        }
        self.trim();
    }

    /// The members of both sets.
    pub fn intersection(&self, other: &Self) -> Self {
        let tail = self.tail.iter().zip(&other.tail).map(|(a, b)| a & b).collect();
        let mut both = BitSet { head: self.head & other.head, tail, member: PhantomData };
        both.trim();
        both
    }

    /// The members of `self` that are not in `other`.
    pub fn difference(&self, other: &Self) -> Self {
        let mut rest = self.clone();
        rest.subtract(other);
        rest
    }

    /// The members in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = T> + '_ {
        self.words().enumerate().flat_map(|(at, mut word)| {
            std::iter::from_fn(move || {
                (word != 0).then(|| {
                    let bit = word.trailing_zeros();
                    word &= word - 1;
                    T::from_bit(at as u32 * 64 + bit)
                })
            })
        })
    }
}

impl<T> Clone for BitSet<T> {
    fn clone(&self) -> Self {
        BitSet { head: self.head, tail: self.tail.clone(), member: PhantomData }
    }
}

impl<T: Member> Default for BitSet<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> BitSet<T> {
    /// Returns whether both have no more than 64 members. Sets are compared so often that this avoids a
    /// function call.
    fn is_short(&self, other: &Self) -> bool {
        self.tail.is_empty() && other.tail.is_empty()
    }
}

impl<T> PartialEq for BitSet<T> {
    fn eq(&self, other: &Self) -> bool {
        self.head == other.head && (self.is_short(other) || self.tail == other.tail)
    }
}

impl<T> Eq for BitSet<T> {}

impl<T> PartialOrd for BitSet<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for BitSet<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.head.cmp(&other.head).then_with(|| match self.is_short(other) {
            true => Ordering::Equal,
            false => self.tail.cmp(&other.tail),
        })
    }
}

impl<T: Member> FromIterator<T> for BitSet<T> {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        let mut set = Self::new();
        for x in items {
            set.insert(x);
        }
        set
    }
}

impl<T: Member> fmt::Debug for BitSet<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter().map(|x| x.bit())).finish()
    }
}

/// A set of chunks as sorted, disjoint, non-adjacent runs.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct ChunkSet {
    runs: Vec<Range<u32>>,
}

impl ChunkSet {
    /// The empty set.
    pub const fn new() -> Self {
        ChunkSet { runs: Vec::new() }
    }

    /// The chunks `range.start..range.end`.
    pub fn range(range: Range<u32>) -> Self {
        [range].into_iter().collect()
    }

    /// The runs in ascending order.
    pub fn runs(&self) -> impl Iterator<Item = Range<u32>> + '_ {
        self.runs.iter().cloned()
    }

    /// The chunks in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = ChunkNo> + '_ {
        self.runs.iter().cloned().flatten().map(ChunkNo)
    }

    /// The number of chunks.
    pub fn len(&self) -> u32 {
        self.runs.iter().map(|r| r.end - r.start).sum()
    }

    /// Returns whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Returns whether `chunk` is a member. Cost: logarithmic in the runs.
    pub fn contains(&self, chunk: ChunkNo) -> bool {
        let after = self.runs.partition_point(|r| r.start <= chunk.0);
        after > 0 && chunk.0 < self.runs[after - 1].end
    }

    /// The first member at or after `chunk`. Cost: logarithmic in the runs.
    pub fn first_from(&self, chunk: ChunkNo) -> Option<ChunkNo> {
        let at = self.runs.partition_point(|r| r.end <= chunk.0);
        self.runs.get(at).map(|r| ChunkNo(r.start.max(chunk.0)))
    }

    /// The highest chunk.
    pub fn last(&self) -> Option<ChunkNo> {
        self.runs.last().map(|r| ChunkNo(r.end - 1))
    }

    /// The parts of the runs that lie in `within`.
    pub fn runs_in(&self, within: Range<u32>) -> impl Iterator<Item = Range<u32>> + '_ {
        let from = self.runs.partition_point(|r| r.end <= within.start);
        self.runs[from..].iter().map_while(move |r| {
            let clipped = r.start.max(within.start)..r.end.min(within.end);
            (clipped.start < clipped.end).then_some(clipped)
        })
    }

    /// Removes `chunk`. Cost: linear in the runs behind it, in a plain memory move.
    pub fn remove(&mut self, chunk: ChunkNo) {
        let after = self.runs.partition_point(|r| r.start <= chunk.0);
        if after == 0 || chunk.0 >= self.runs[after - 1].end {
            return;
        }
        let run = self.runs[after - 1].clone();
        match (run.start == chunk.0, run.end == chunk.0 + 1) {
            (true, true) => drop(self.runs.remove(after - 1)),
            (true, false) => self.runs[after - 1].start += 1,
            (false, true) => self.runs[after - 1].end -= 1,
            (false, false) => {
                self.runs[after - 1].end = chunk.0;
                self.runs.insert(after, chunk.0 + 1..run.end);
            }
        }
    }

    /// The number of chunks in both sets.
    pub fn intersection_len(&self, other: &ChunkSet) -> u32 {
        self.runs.iter().flat_map(|r| other.runs_in(r.clone())).map(|r| r.end - r.start).sum()
    }
}

impl FromIterator<Range<u32>> for ChunkSet {
    fn from_iter<I: IntoIterator<Item = Range<u32>>>(ranges: I) -> Self {
        let mut ranges: Vec<_> = ranges.into_iter().filter(|r| r.start < r.end).collect();
        ranges.sort_by_key(|r| r.start);
        let mut runs: Vec<Range<u32>> = Vec::with_capacity(ranges.len());
        for r in ranges {
            match runs.last_mut() {
                Some(last) if r.start <= last.end => last.end = last.end.max(r.end),
                _ => runs.push(r),
            }
        }
        ChunkSet { runs }
    }
}

impl FromIterator<ChunkNo> for ChunkSet {
    fn from_iter<I: IntoIterator<Item = ChunkNo>>(chunks: I) -> Self {
        chunks.into_iter().map(|c| c.0..c.0 + 1).collect()
    }
}

impl fmt::Debug for ChunkSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.runs).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns(bits: &[u32]) -> ColumnSet {
        bits.iter().copied().map(ColumnNo).collect()
    }

    #[test]
    fn bit_sets_beyond_one_word_have_one_form_per_value() {
        let mut grown = columns(&[1, 64, 200]);
        grown.remove(ColumnNo(200));
        grown.remove(ColumnNo(64));
        assert_eq!(grown, columns(&[1]));
        assert!(columns(&[1, 64, 200]).is_superset(&columns(&[200])));
        assert!(!columns(&[1]).is_superset(&columns(&[1, 200])));
        assert_eq!(columns(&[3, 70, 130]).intersection(&columns(&[70, 131])), columns(&[70]));
        assert_eq!(columns(&[3, 70, 130]).difference(&columns(&[130])), columns(&[3, 70]));
        assert_eq!(columns(&[130, 3]).iter().map(|c| c.0).collect::<Vec<_>>(), [3, 130]);
    }

    #[test]
    fn chunk_sets_merge_split_and_clip() {
        let mut set: ChunkSet = [5..7, 0..3, 3..4, 9..12].into_iter().collect();
        assert_eq!(set.runs().collect::<Vec<_>>(), [0..4, 5..7, 9..12]);
        set.remove(ChunkNo(10));
        set.remove(ChunkNo(0));
        set.remove(ChunkNo(8));
        assert_eq!(set.runs().collect::<Vec<_>>(), [1..4, 5..7, 9..10, 11..12]);
        assert_eq!(set.first_from(ChunkNo(4)), Some(ChunkNo(5)));
        assert_eq!(set.first_from(ChunkNo(12)), None);
        assert_eq!(set.runs_in(2..6).collect::<Vec<_>>(), [2..4, 5..6]);
        assert_eq!(set.intersection_len(&ChunkSet::range(3..10)), 4);
        assert!(set.contains(ChunkNo(11)) && !set.contains(ChunkNo(10)));
    }
}
