//! Devices around a device: each changes one thing and hands the rest on.
//!
//! A wrapper answers for how long requests were under way with what the device behind it says: time that a
//! request spends in the wrapper is not the device's.

mod delayed;
mod faulty;
mod throttled;

pub use delayed::{Boundaries, Delay};
pub(crate) use delayed::{Delayed, Lateness};
pub use faulty::FaultRule;
pub(crate) use faulty::Faulty;
pub(crate) use throttled::Throttled;
