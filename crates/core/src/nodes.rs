//! The nodes of linked lists in one vector. Places of removed nodes are reused.

use std::ops::{Index, IndexMut};

#[derive(Clone, Debug)]
pub(crate) struct Nodes<T> {
    nodes: Vec<T>,
    free: Vec<u32>,
}

impl<T> Default for Nodes<T> {
    fn default() -> Self {
        Nodes { nodes: Vec::new(), free: Vec::new() }
    }
}

impl<T> Nodes<T> {
    /// Adds a node and returns its place.
    pub(crate) fn add(&mut self, node: T) -> u32 {
        match self.free.pop() {
            Some(at) => {
                self[at] = node;
                at
            }
            None => {
                self.nodes.push(node);
                self.nodes.len() as u32 - 1
            }
        }
    }

    #[cfg(test)]
    pub(crate) fn in_use(&self) -> usize {
        self.nodes.len() - self.free.len()
    }

    /// Frees the place for another node.
    pub(crate) fn free(&mut self, at: u32) {
        self.free.push(at);
    }
}

impl<T> Index<u32> for Nodes<T> {
    type Output = T;

    fn index(&self, at: u32) -> &T {
        &self.nodes[at as usize]
    }
}

impl<T> IndexMut<u32> for Nodes<T> {
    fn index_mut(&mut self, at: u32) -> &mut T {
        &mut self.nodes[at as usize]
    }
}
