//! The mechanism applies what policies choose and guarantees what no policy may break.
//!
//! - [`serve`](self::serve): hands chunks to waiting workers.
//! - [`schedule`](self::schedule): issues loads, and gets things moving when nothing moves.
//! - [`room`](self::room): frees bytes, decoded arrays before encoded ones.
//!
//! **Progress.** A waiting worker needs its chunk's absent parts and its workspace to fit. If the policy
//! makes no room, no load is in flight, and every worker that holds a chunk has held it for longer than
//! `stall_after`, the mechanism overrides the policy: the scan that has waited longest gets its next chunk,
//! first by evicting anything nobody holds, then by asking chunks back from workers that are not
//! consuming. So the smallest sufficient buffer is the largest single need,
//! [`Abm::minimum_buffer`](crate::Abm::minimum_buffer), whatever the number of scans.

mod room;
mod schedule;
mod serve;
