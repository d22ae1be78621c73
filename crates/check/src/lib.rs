//! Searches the active buffer manager for broken invariants.
//!
//! [`fuzz`] plays thousands of random worlds with faults, each from a seed, and shrinks what fails; [`model`] visits
//! every state of small worlds. Both drive the core itself and check it after every event. Time is a number here, as in
//! the simulator, but nothing is simulated: anything that a host may do happens at any moment.
#![deny(missing_docs)]

pub mod fuzz;
pub mod model;
