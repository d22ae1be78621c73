//! Search for broken invariants of the active buffer manager.
//!
//! [`fuzz`] plays thousands of random worlds with faults, each from a seed, and shrinks the failing ones.
//! [`model`] visits every state of small worlds. Both drive the core itself and check it after every event.
//! Time is a number, as in the simulator, but nothing is simulated: every possible action of a host may
//! happen at any moment.
#![deny(missing_docs)]

pub mod fuzz;
pub mod model;
