//! The memory of the buffer: its budget, the parts that were evicted, and extensions of files.

pub(crate) mod budget;
pub(crate) mod evicted;
pub(crate) mod extensions;
