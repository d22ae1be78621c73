//! Groups that lie in several chunks, with chunks in any order.
//!
//! Inside a chunk all groups are complete except the first and the last. These wait until all chunks with
//! rows of them were taken, and are output at once (2007, section 7.2). A group over many chunks waits as one
//! group, so there are never more of them than borders between chunks.

use std::collections::BTreeMap;

use super::keys::{ChunkKeys, Key};

/// The groups that lie in several chunks. `S` is the state of a group, such as a sum.
#[derive(Clone, Debug)]
pub struct BorderGroups<S> {
    shared: BTreeMap<Key, Shared<S>>,
    waiting: usize,
}

#[derive(Clone, Debug)]
struct Shared<S> {
    chunks_left: u32,
    state: Option<S>,
}

impl<S> BorderGroups<S> {
    /// Expects chunks with these keys, each once. Chunks have at most end points in common. Cost: n log n in
    /// the chunks.
    pub fn of(chunks: impl IntoIterator<Item = ChunkKeys>) -> Self {
        let mut count = BTreeMap::<Key, u32>::new();
        for keys in chunks {
            ends(keys).for_each(|key| *count.entry(key).or_default() += 1);
        }
        let several = count.into_iter().filter(|(_, chunks)| *chunks > 1);
        let shared = several.map(|(key, chunks_left)| (key, Shared { chunks_left, state: None }));
        BorderGroups { shared: shared.collect(), waiting: 0 }
    }

    /// Takes the groups of a chunk and adds the complete ones to `done`. A group that lies in several chunks
    /// is added once, with its states combined by `join`. Cost: logarithmic in the borders, for each group.
    pub fn take(
        &mut self,
        keys: ChunkKeys,
        groups: impl IntoIterator<Item = (Key, S)>,
        mut join: impl FnMut(&mut S, S),
        done: &mut Vec<(Key, S)>,
    ) {
        for (key, state) in groups {
            match self.shared.get_mut(&key) {
                None => done.push((key, state)),
                Some(Shared { state: Some(waits), .. }) => join(waits, state),
                Some(shared) => {
                    shared.state = Some(state);
                    self.waiting += 1;
                }
            }
        }
        for key in ends(keys) {
            let Some(shared) = self.shared.get_mut(&key) else { continue };
            shared.chunks_left -= 1;
            if shared.chunks_left == 0
                && let Some(state) = self.shared.remove(&key).and_then(|shared| shared.state)
            {
                self.waiting -= 1;
                done.push((key, state));
            }
        }
    }

    /// The number of waiting groups.
    pub fn waiting(&self) -> usize {
        self.waiting
    }
}

/// The keys that other chunks may have too.
fn ends(keys: ChunkKeys) -> impl Iterator<Item = Key> {
    [Some(keys.first), (keys.last != keys.first).then_some(keys.last)].into_iter().flatten()
}
