//! What a page replacement policy is made from.

use super::future::Future;
use crate::ids;

/// What a policy is made from.
#[derive(Clone, Debug)]
pub struct PageSetup {
    /// Frames of the pool; at least one.
    pub frames: usize,
    /// Where policies that draw lots begin.
    pub seed: u64,
    /// The references to come, if they are known.
    pub future: Option<Future>,
}

impl PageSetup {
    /// The most frames a pool can have.
    pub const FRAMES_MAX: usize = ids::FRAMES_MAX;

    /// A pool of `frames` frames and an unknown future.
    pub fn new(frames: usize) -> Self {
        PageSetup { frames, seed: 0, future: None }
    }
}
