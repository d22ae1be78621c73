//! Corrections of Apache DataFusion 55.
//!
//! DataFusion gives wrong rows for some statements, plans and settings, and refuses others that SQL allows. Each file here
//! corrects one fault: its header names the fault, and a test of `coscan-datafusion` shows that plain DataFusion still has it.
//! `crates/datafusion/README.md` lists all differences. A newer DataFusion without a fault makes the file obsolete.
//!
//! | module | corrected |
//! |---|---|
//! | [`statement`] | statements, from the text to the logical plan |
//! | `logical` | rules of the analyzer and the optimizer, and planners |
//! | `physical` | rules over physical plans |
//! | `overflow` | arithmetic, sums and casts that wrap around |
//! | `canonical_floats` | NaN and zero with the sign bit |
//! | `functions` | the functions of corrected plans, for processes that get such plans |
//! | `session` | the list of all rules in their order, [`STEPS`], from which sessions are built |
//! | [`one_input`] | a plan node with one input, for this crate and others |
//! | [`boxed!`] | methods of DataFusion's traits that compile in little time |
#![deny(missing_docs)]

mod boxed;
mod canonical_floats;
mod functions;
mod logical;
pub mod one_input;
mod overflow;
mod physical;
mod session;
pub mod statement;
pub mod walk;

pub use boxed::Boxed;
pub use functions::{Described, aggregate_functions, scalar_functions};
pub use logical::dependencies::INDEPENDENT_NODE;
pub use logical::float_extrema::{FloatExtremum, NAMES as FLOAT_EXTREMA};
pub use logical::join_settings::compares_sorted;
pub use logical::lasting_casts::digits;
pub use logical::mixed_numbers::with_current_types;
pub use overflow::{CheckedSum, with_all_digits};
pub use physical::guards::{
    cannot_fail, compares, guarded, predicates_in_turn, safest_first, with_guards, without_guards,
};
pub use physical::output_properties::{UnclaimedExec, unclaimed};
pub use physical::sorted_inputs::sorted_inputs;
pub use session::{PHYSICAL_RULES, STEPS, Step, with_mended_planner, with_mended_rules};
pub use statement::*;
