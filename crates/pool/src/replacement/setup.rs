//! Setup of a page replacement policy.

use super::future::Future;
use crate::ids;

/// The setup of a page replacement policy.
#[derive(Clone, Debug)]
pub struct PageSetup {
    /// Frames of the pool; at least one.
    pub frames: usize,
    /// Seed of policies that draw random numbers.
    pub seed: u64,
    /// The future references, if they are known.
    pub future: Option<Future>,
}

impl PageSetup {
    /// The maximum number of frames of a pool.
    pub const FRAMES_MAX: usize = ids::FRAMES_MAX;

    /// A pool of `frames` frames and an unknown future.
    pub fn new(frames: usize) -> Self {
        PageSetup { frames, seed: 0, future: None }
    }
}
