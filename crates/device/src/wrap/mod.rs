//! Wrappers of a device: each changes one property and passes everything else on.
//!
//! The busy time of a wrapper is that of the device behind it: the time that a request spends in the wrapper
//! does not count.

mod delayed;
mod faulty;
mod throttled;

pub use delayed::{Boundaries, Delay};
pub(crate) use delayed::{Delayed, Lateness};
pub use faulty::FaultRule;
pub(crate) use faulty::Faulty;
pub(crate) use throttled::Throttled;
