//! Corrections of physical plans: rules of the physical optimizer.

pub(crate) mod build_sides;
pub(crate) mod constant_counts;
pub(crate) mod guards;
pub(crate) mod limited_sorts;
pub(crate) mod merged_sorts;
mod node_rule;
pub(crate) mod output_properties;
pub(crate) mod pushdown_barriers;
pub(crate) mod range_frames;
pub(crate) mod sorted_inputs;
pub(crate) mod top_groups;
