//! Devices around a device: each changes one thing and passes everything else on.
//!
//! The busy time of a wrapper is that of the device behind it: time that a request spends in the wrapper is not
//! counted.

mod delayed;
mod faulty;
mod throttled;

pub use delayed::{Boundaries, Delay};
pub(crate) use delayed::{Delayed, Lateness};
pub use faulty::FaultRule;
pub(crate) use faulty::Faulty;
pub(crate) use throttled::Throttled;
