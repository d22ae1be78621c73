//! Groups of a request's chunks by the columns they need. Each group is a scan of the buffer manager.
//!
//! A scan of the buffer manager has one set of columns and reads all of them for each chunk. Chunks that need
//! fewer columns become a scan of their own if that saves enough. Otherwise they are read with the others,
//! and only decoding is saved.

use std::collections::BTreeMap;

use coscan_core::{ColumnNo, ColumnSet};

use crate::files::file_read::FileRead;
use crate::request::ChunkRequest;

/// Chunks are read with others that need more columns if that adds at most `1 / EXTRA_BYTES_SHARE` of all bytes.
const EXTRA_BYTES_SHARE: u64 = 20;

/// The maximum number of scans of a table at a time into which a request is divided. Each counts as a scan
/// for the policy, and each may have a chunk ready for every worker.
const SEGMENTS_MAX: usize = 4;

/// Chunks that are read in the same columns.
#[derive(Debug)]
pub(crate) struct ColumnGroup {
    pub(crate) columns: ColumnSet,
    pub(crate) chunks: Vec<ChunkRequest>,
    /// Encoded bytes of these chunks, by each column that a chunk of the request needs.
    bytes: BTreeMap<ColumnNo, u64>,
}

/// All chunks in one group, in their order.
pub(crate) fn one(chunks: Vec<ChunkRequest>, reads: &[FileRead]) -> ColumnGroup {
    let mut columns = ColumnSet::new();
    let mut known: Vec<bool> = vec![false; reads.len()];
    for wanted in &chunks {
        if !std::mem::replace(&mut known[wanted.columns], true) {
            reads[wanted.columns].columns.iter().for_each(|column| columns.insert(*column));
        }
    }
    ColumnGroup { columns, chunks, bytes: BTreeMap::new() }
}

/// The chunks in the fewest groups that save most of the bytes that can be saved. Groups are in the order of
/// their first chunks.
pub(crate) fn by_columns(chunks: Vec<ChunkRequest>, reads: &[FileRead]) -> Vec<ColumnGroup> {
    let sets: Vec<ColumnSet> = reads.iter().map(|read| read.columns.iter().copied().collect()).collect();
    let first = chunks.first().map(|wanted| &sets[wanted.columns]);
    if chunks.iter().all(|wanted| Some(&sets[wanted.columns]) == first) {
        return vec![one(chunks, reads)];
    }
    let all = one(chunks, reads);
    let mut exact: BTreeMap<&ColumnSet, ColumnGroup> = BTreeMap::new();
    for wanted in all.chunks {
        let columns = &sets[wanted.columns];
        let group = exact.entry(columns).or_insert_with(|| ColumnGroup {
            columns: columns.clone(),
            chunks: Vec::new(),
            bytes: BTreeMap::new(),
        });
        group.chunks.push(wanted);
        let file = &reads[wanted.columns].file;
        for (root, column) in file.columns.iter().enumerate().filter(|(_, c)| all.columns.contains(c.no)) {
            *group.bytes.entry(column.no).or_default() += file.chunk(wanted.chunk).part_bytes(root);
        }
    }
    let mut groups = merged(exact.into_values().collect());
    groups.iter_mut().for_each(|group| group.chunks.sort_by_key(|wanted| wanted.key));
    groups.sort_by_key(|group| group.chunks[0].key);
    groups
}

/// Merges groups from the largest to the smallest. Each joins the group where that costs least, if it costs
/// little, or stays alone.
fn merged(mut groups: Vec<ColumnGroup>) -> Vec<ColumnGroup> {
    groups.sort_by_key(|group| std::cmp::Reverse(group.own_bytes()));
    let mut kept: Vec<ColumnGroup> = Vec::new();
    for group in groups {
        let nearest = kept.iter_mut().min_by_key(|other| other.extra_bytes_if_merged(&group));
        match nearest {
            Some(other)
                if other.extra_bytes_if_merged(&group).saturating_mul(EXTRA_BYTES_SHARE)
                    <= other.own_bytes() + group.own_bytes() =>
            {
                other.absorb(group);
            }
            _ => kept.push(group),
        }
    }
    while kept.len() > SEGMENTS_MAX {
        let Some(group) = kept.pop() else { break };
        if let Some(other) = kept.iter_mut().min_by_key(|other| other.extra_bytes_if_merged(&group)) {
            other.absorb(group);
        }
    }
    kept
}

impl ColumnGroup {
    fn bytes_of(&self, columns: &ColumnSet) -> u64 {
        columns.iter().filter_map(|column| self.bytes.get(&column)).sum()
    }

    fn own_bytes(&self) -> u64 {
        self.bytes_of(&self.columns)
    }

    /// The bytes that both groups would read in addition if they were merged.
    fn extra_bytes_if_merged(&self, other: &ColumnGroup) -> u64 {
        let here = self.bytes_of(&other.columns.difference(&self.columns));
        here + other.bytes_of(&self.columns.difference(&other.columns))
    }

    fn absorb(&mut self, other: ColumnGroup) {
        self.columns.union_with(&other.columns);
        self.chunks.extend(other.chunks);
        for (column, bytes) in other.bytes {
            *self.bytes.entry(column).or_default() += bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Chunks from `first` on in these columns, each of this many bytes per column.
    fn group(first: u32, chunks: u32, columns: &[u32], bytes: &[u64]) -> ColumnGroup {
        let chunk = |no: u32| ChunkRequest { columns: 0, chunk: no as usize, key: no };
        let of_column = |(no, each): (usize, &u64)| (ColumnNo(no as u32), each * u64::from(chunks));
        ColumnGroup {
            columns: columns.iter().map(|&no| ColumnNo(no)).collect(),
            chunks: (first..first + chunks).map(chunk).collect(),
            bytes: bytes.iter().enumerate().map(of_column).collect(),
        }
    }

    fn sizes(groups: &[ColumnGroup]) -> Vec<(usize, u32)> {
        groups.iter().map(|group| (group.chunks.len(), group.columns.len())).collect()
    }

    #[test]
    fn many_chunks_without_a_large_column_are_apart() {
        let bytes = [20, 80];
        let groups = merged(vec![group(0, 2, &[0, 1], &bytes), group(2, 18, &[1], &bytes)]);
        assert_eq!(sizes(&groups), [(18, 1), (2, 2)]);
    }

    #[test]
    fn a_small_saving_is_let_go() {
        // Two chunks of twenty could do without a fifth of their bytes: 40 of 1960.
        let bytes = [20, 80];
        let groups = merged(vec![group(0, 18, &[0, 1], &bytes), group(18, 2, &[1], &bytes)]);
        assert_eq!(sizes(&groups), [(20, 2)]);
        // All but two could do without 4 bytes of 100.
        let bytes = [4, 96];
        let groups = merged(vec![group(0, 2, &[0, 1], &bytes), group(2, 18, &[1], &bytes)]);
        assert_eq!(sizes(&groups), [(20, 2)]);
    }

    #[test]
    fn columns_that_a_file_does_not_have_cost_nothing() {
        let groups = merged(vec![group(0, 2, &[0, 1], &[50, 50]), group(2, 2, &[0], &[50, 0])]);
        assert_eq!(sizes(&groups), [(4, 2)]);
    }

    #[test]
    fn chunks_without_columns_stay_without() {
        let groups = merged(vec![group(0, 1, &[0], &[50]), group(1, 5, &[], &[50])]);
        assert_eq!(sizes(&groups), [(1, 1), (5, 0)]);
    }

    #[test]
    fn there_are_never_many() {
        let bytes = [10; 8];
        let all: Vec<ColumnGroup> = (0..8).map(|no| group(no, 1, &[no], &bytes)).collect();
        let groups = merged(all);
        assert_eq!(groups.len(), SEGMENTS_MAX);
        assert_eq!(groups.iter().map(|group| group.chunks.len()).sum::<usize>(), 8);
        for group in &groups {
            // Each chunk's own column, which has its number, is among the columns it is read with.
            assert!(group.chunks.iter().all(|wanted| group.columns.contains(ColumnNo(wanted.key))));
        }
    }
}
