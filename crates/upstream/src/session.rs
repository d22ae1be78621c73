//! The corrections that every session has, in their order.
//!
//! [`STEPS`] is the list. Sessions are built from it, so it cannot be wrong about the order. `EXPLAIN VERBOSE` shows what each
//! rule changes, by the rule's name.

use std::sync::Arc;

use datafusion::catalog::Session;
use datafusion::common::Result;
use datafusion::execution::context::QueryPlanner;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::{Analyzer, Optimizer};
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_planner::{DefaultPhysicalPlanner, PhysicalPlanner};

use crate::boxed;
use crate::canonical_floats::{CanonicalScans, with_canonical_computed};
use crate::logical::computed_keys::with_computed_keys;
use crate::logical::constant_keys::without_constant_keys;
use crate::logical::constants_behind::with_constants_behind;
use crate::logical::counted_sets::with_counted_sets;
use crate::logical::dependencies::{IndependentPlanner, with_independent_columns};
use crate::logical::dictionary_numbers::with_dictionary_numbers;
use crate::logical::estimates::Estimates;
use crate::logical::float_extrema::with_float_extrema;
use crate::logical::groups_without_rows::with_groups_without_rows;
use crate::logical::guarded_arguments::with_guarded_arguments;
use crate::logical::join_settings::JoinSettings;
use crate::logical::lasting_casts::with_lasting_casts;
use crate::logical::merged_lists::with_merged_lists;
use crate::logical::missing_rows::with_missing_rows;
use crate::logical::mixed_numbers::with_mixed_numbers;
use crate::logical::moving_frames::with_moving_frames;
use crate::logical::null_keys::with_keys_of_one_kind;
use crate::logical::null_lists::with_null_lists;
use crate::logical::plain_laterals::with_plain_laterals;
use crate::logical::rounded::with_lasting_round;
use crate::logical::subqueries::with_subqueries;
use crate::logical::subquery_columns::with_subquery_columns;
use crate::overflow::{with_checked_arithmetic, with_checked_constants, with_computed_series};
use crate::physical::build_sides::{BuildSides, with_build_sides};
use crate::physical::constant_counts::with_constant_counts;
use crate::physical::guards::{with_guarded_conjuncts, with_guarded_operands};
use crate::physical::limited_sorts::with_limited_sorts;
use crate::physical::merged_sorts::with_merged_sorts;
use crate::physical::output_properties::with_true_claims;
use crate::physical::pushdown_barriers::with_stops;
use crate::physical::range_frames::with_range_frames;
use crate::physical::sorted_inputs::with_sorted_inputs;
use crate::physical::top_groups::with_top_groups;
use crate::physical::{
    guards, limited_sorts, merged_sorts, output_properties, range_frames, sorted_inputs, top_groups,
};

/// The names of the rules that sessions have for the physical optimizer. None of them changes a result.
pub const PHYSICAL_RULES: [&str; 11] = [
    BuildSides::NAME,
    guards::NAMES[0],
    guards::NAMES[1],
    limited_sorts::NAME,
    merged_sorts::NAME,
    output_properties::NAMES[0],
    output_properties::NAMES[1],
    range_frames::NAME,
    sorted_inputs::NAME,
    top_groups::NAME,
    CanonicalScans::NAME,
];

/// A correction of sessions.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    /// The file of the correction, below `src`.
    pub file: &'static str,
    /// The names of its rules in `EXPLAIN VERBOSE`; none for rules of DataFusion that it wraps or that have no name.
    pub rules: &'static [&'static str],
    /// The condition for its place in the order.
    pub needs: &'static str,
    /// The property of plans after it.
    pub guarantees: &'static str,
    add: Add,
}

/// The part of a session that a step changes.
#[derive(Clone, Copy, Debug)]
enum Add {
    Session(fn(SessionStateBuilder) -> SessionStateBuilder),
    Analyzer(fn(Analyzer) -> Analyzer),
    Optimizer(fn(Optimizer) -> Optimizer),
    Physical(fn(PhysicalOptimizer) -> PhysicalOptimizer),
}

/// The corrections from the first logical plan to the physical one, as a session adds them. Rules that a step puts before all
/// others say so in `needs`.
pub const STEPS: &[Step] = &[
    Step {
        file: "overflow/constants.rs",
        rules: &[],
        needs: "literals, while expressions are planned",
        guarantees: "constants that leave their type fail",
        add: Add::Session(with_checked_constants),
    },
    Step {
        file: "overflow/series.rs",
        rules: &[],
        needs: "checked constants",
        guarantees: "series take integers of all types, and fail where the computation of an argument does",
        add: Add::Session(with_computed_series),
    },
    Step {
        file: "logical/rounded.rs",
        rules: &[],
        needs: "function calls as written",
        guarantees: "the type of a rounded decimal does not change when constants are folded",
        add: Add::Analyzer(with_lasting_round),
    },
    Step {
        file: "logical/lasting_casts.rs",
        rules: &["lasting_casts"],
        needs: "operands of one type",
        guarantees: "no cast moves to a constant that is another value in the column's type",
        add: Add::Analyzer(with_lasting_casts),
    },
    Step {
        file: "logical/mixed_numbers/mod.rs",
        rules: &["mixed_numbers"],
        needs: "types as written: it is put before the coercion of types",
        guarantees: "decimals beside floating-point numbers are compared as these",
        add: Add::Analyzer(with_mixed_numbers),
    },
    Step {
        file: "logical/null_lists.rs",
        rules: &[],
        needs: "lists as written",
        guarantees: "no list of IN contains NULL",
        add: Add::Analyzer(with_null_lists),
    },
    Step {
        file: "logical/dictionary_numbers.rs",
        rules: &[],
        needs: "function calls as written",
        guarantees: "no function returns a dictionary of numbers",
        add: Add::Analyzer(with_dictionary_numbers),
    },
    Step {
        file: "logical/float_extrema.rs",
        rules: &["float_extrema"],
        needs: "types of arguments",
        guarantees: "min and max of floating-point numbers follow one order and no statistics",
        add: Add::Analyzer(with_float_extrema),
    },
    Step {
        file: "logical/moving_frames.rs",
        rules: &["moving_frames"],
        needs: "types of arguments",
        guarantees: "results over moving frames claim no order, and sums of floating-point numbers subtract nothing",
        add: Add::Analyzer(with_moving_frames),
    },
    Step {
        file: "canonical_floats/computed.rs",
        rules: &["canonical_computed"],
        needs: "types of operands",
        guarantees: "computed numbers have one NaN and one zero before they are compared",
        add: Add::Analyzer(with_canonical_computed),
    },
    Step {
        file: "logical/counted_sets.rs",
        rules: &["counted_sets"],
        needs: "the names that mark statements: it is put before all others",
        guarantees: "EXCEPT ALL and INTERSECT ALL count equal rows",
        add: Add::Analyzer(with_counted_sets),
    },
    Step {
        file: "logical/subqueries/mod.rs",
        rules: &["subqueries"],
        needs: "operands of one type",
        guarantees: "every subquery that is left is one that DataFusion plans right",
        add: Add::Analyzer(with_subqueries),
    },
    Step {
        file: "logical/dependencies.rs",
        rules: &["independent_columns"],
        needs: "joins of subqueries",
        guarantees: "no column depends on a key that may be NULL or omitted",
        add: Add::Analyzer(with_independent_columns),
    },
    Step {
        file: "logical/subquery_columns.rs",
        rules: &["subquery_columns"],
        needs: "the nodes that other rules put on subqueries",
        guarantees: "every subquery with a value has an expression for it",
        add: Add::Analyzer(with_subquery_columns),
    },
    Step {
        file: "logical/missing_rows.rs",
        rules: &["missing_rows"],
        needs: "subqueries with an expression for their value",
        guarantees: "a scalar subquery may be NULL unless it has a row in any case",
        add: Add::Analyzer(with_missing_rows),
    },
    Step {
        file: "logical/merged_lists.rs",
        rules: &["merged_lists"],
        needs: "lists without NULL, and operands of one type",
        guarantees: "the optimizer merges no lists of IN whose result would be NULL to true or false",
        add: Add::Analyzer(with_merged_lists),
    },
    Step {
        file: "overflow/mod.rs",
        rules: &["checked_arithmetic"],
        needs: "final types: the optimizer folds constants",
        guarantees: "integer arithmetic and sums fail instead of wrapping around",
        add: Add::Analyzer(with_checked_arithmetic),
    },
    Step {
        file: "logical/guarded_arguments.rs",
        rules: &["guarded_arguments"],
        needs: "all operations that may fail",
        guarantees: "arguments beside FILTER fail only for rows that pass",
        add: Add::Analyzer(with_guarded_arguments),
    },
    Step {
        file: "logical/computed_keys.rs",
        rules: &["computed_keys"],
        needs: "all operations that may fail",
        guarantees: "keys of sorts and windows are columns, and no argument of a window function has a condition",
        add: Add::Analyzer(with_computed_keys),
    },
    Step {
        file: "logical/null_keys.rs",
        rules: &[],
        needs: "the rules of DataFusion that collect keys: it wraps them",
        guarantees: "NULL equals NULL in all keys of a join, or in none",
        add: Add::Optimizer(with_keys_of_one_kind),
    },
    Step {
        file: "logical/groups_without_rows.rs",
        rules: &[],
        needs: "the rules of DataFusion that move filters and remove empty inputs: it wraps them",
        guarantees: "no condition changes the rows of a group that exists without rows, and no such group is lost",
        add: Add::Optimizer(with_groups_without_rows),
    },
    Step {
        file: "logical/constants_behind.rs",
        rules: &[],
        needs: "the rule of DataFusion that merges filters: it wraps it",
        guarantees: "bounds of a column from both sides of comparisons are merged with their operators",
        add: Add::Optimizer(with_constants_behind),
    },
    Step {
        file: "logical/constant_keys.rs",
        rules: &["without_constant_keys"],
        needs: "folded constants",
        guarantees: "no key of a join is the same constant on both sides, unless all are",
        add: Add::Optimizer(without_constant_keys),
    },
    Step {
        file: "logical/plain_laterals.rs",
        rules: &["plain_laterals"],
        needs: "conditions that DataFusion found to be never true",
        guarantees: "a lateral subquery without outer references is a plain input of its join",
        add: Add::Optimizer(with_plain_laterals),
    },
    Step {
        file: "physical/pushdown_barriers.rs",
        rules: &[],
        needs: "the rules of DataFusion that move filters and projections: it wraps them",
        guarantees: "filters stay above nodes through which they would find other rows",
        add: Add::Physical(with_stops),
    },
    Step {
        file: "physical/constant_counts.rs",
        rules: &[],
        needs: "the rule of DataFusion that computes aggregates from statistics: it wraps it",
        guarantees: "distinct values of a column of NULL are counted from its rows",
        add: Add::Physical(with_constant_counts),
    },
    Step {
        file: "physical/output_properties.rs",
        rules: output_properties::NAMES,
        needs: "the plan as made, and conditions that DataFusion pushed to scans: it is put before all others, and again after these",
        guarantees: "no node overstates an order, a constant or an equality",
        add: Add::Physical(with_true_claims),
    },
    Step {
        file: "physical/guards/mod.rs",
        rules: &[guards::NAMES[0]],
        needs: "projections that are not part of scans yet: it is put before all others",
        guarantees: "an operand of AND or OR fails only for rows that the other one leaves open",
        add: Add::Physical(with_guarded_operands),
    },
    Step {
        file: "physical/build_sides.rs",
        rules: &[BuildSides::NAME],
        needs: "the sides that DataFusion chose",
        guarantees: "a join above a semi or anti join builds from the smaller side",
        add: Add::Physical(with_build_sides),
    },
    Step {
        file: "physical/limited_sorts.rs",
        rules: &[limited_sorts::NAME],
        needs: "sorts where DataFusion put them: it is put before the rule that moves them",
        guarantees: "the limit of a sort stays above joins by sorting",
        add: Add::Physical(with_limited_sorts),
    },
    Step {
        file: "physical/merged_sorts.rs",
        rules: &[merged_sorts::NAME],
        needs: "sorts where DataFusion put them, without conditions: it is put after the rule that moves them",
        guarantees: "sorts of several partitions share no condition that leaves out keys of the merge above",
        add: Add::Physical(with_merged_sorts),
    },
    Step {
        file: "physical/range_frames.rs",
        rules: &[range_frames::NAME],
        needs: "the windows that DataFusion computes while rows arrive",
        guarantees: "frames of NULL have all rows with NULL",
        add: Add::Physical(with_range_frames),
    },
    Step {
        file: "physical/sorted_inputs.rs",
        rules: &[sorted_inputs::NAME],
        needs: "orders that DataFusion enforced",
        guarantees: "inputs of joins by sorting are sorted by the keys that they compare",
        add: Add::Physical(with_sorted_inputs),
    },
    Step {
        file: "physical/top_groups.rs",
        rules: &[top_groups::NAME],
        needs: "the limits that DataFusion pushed into aggregations",
        guarantees: "groups by floating-point keys are found without limit",
        add: Add::Physical(with_top_groups),
    },
    Step {
        file: "physical/guards/mod.rs",
        rules: &[guards::NAMES[1]],
        needs: "final filters: it is put after all others",
        guarantees: "a condition fails only for rows that the conditions before it left",
        add: Add::Session(with_guarded_conjuncts),
    },
    Step {
        file: "canonical_floats/scans.rs",
        rules: &[CanonicalScans::NAME],
        needs: "final scans: it is put after all others",
        guarantees: "columns of DataFusion's own scans have one NaN and one zero",
        add: Add::Session(|builder| builder.with_physical_optimizer_rule(Arc::new(CanonicalScans))),
    },
];

/// Adds planners around the session's own, or around DataFusion's.
pub fn with_mended_planner(mut builder: SessionStateBuilder) -> SessionStateBuilder {
    let inner = builder.query_planner().take().unwrap_or_else(|| Arc::new(Plain));
    let inner = Arc::new(IndependentPlanner { inner });
    let inner = Arc::new(JoinSettings { inner });
    builder.with_query_planner(Arc::new(Estimates { inner }))
}

/// Adds all [`STEPS`] and changes settings. Needs [`with_mended_planner`].
pub fn with_mended_rules(mut builder: SessionStateBuilder) -> SessionStateBuilder {
    let mut analyzer = builder.analyzer().take().unwrap_or_default();
    let mut optimizer = builder.optimizer().take().unwrap_or_default();
    let mut physical = builder.physical_optimizers().take().unwrap_or_default();
    for step in STEPS {
        match step.add {
            Add::Session(add) => builder = add(builder),
            Add::Analyzer(add) => analyzer = add(analyzer),
            Add::Optimizer(add) => optimizer = add(optimizer),
            Add::Physical(add) => physical = add(physical),
        }
    }
    *builder.analyzer() = Some(analyzer);
    *builder.optimizer() = Some(optimizer);
    *builder.physical_optimizers() = Some(physical);
    let mut config = builder.config().take().unwrap_or_default();
    let options = config.options_mut();
    options.optimizer.enable_sort_pushdown = false;
    options.optimizer.enable_topk_repartition = false;
    options.execution.skip_physical_aggregate_schema_check = true;
    options.execution.parquet.coerce_int96.get_or_insert_with(|| "us".to_owned());
    builder.with_config(config)
}

/// DataFusion's own planner.
#[derive(Debug)]
struct Plain;

impl QueryPlanner for Plain {
    boxed!(Plain::plan as create_physical_plan);
}

impl Plain {
    async fn plan(&self, logical: &LogicalPlan, session: &dyn Session) -> Result<Arc<dyn ExecutionPlan>> {
        DefaultPhysicalPlanner::default().create_physical_plan(logical, session).await
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn steps_name_their_files_and_rules() {
        let state = with_mended_rules(SessionStateBuilder::new_with_default_features()).build();
        let analyzer = state.analyzer().rules.iter().map(|rule| rule.name().to_owned());
        let optimizer = state.optimizer().rules.iter().map(|rule| rule.name().to_owned());
        let physical = state.physical_optimizers().iter().map(|rule| rule.name().to_owned());
        let names: Vec<String> = analyzer.chain(optimizer).chain(physical).collect();
        for step in STEPS {
            let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(step.file);
            assert!(file.is_file(), "{}", step.file);
            for rule in step.rules {
                assert!(names.iter().any(|name| name == rule), "{rule} is no rule of {names:?}");
            }
        }
        let plain = SessionStateBuilder::new_with_default_features().build();
        let of_datafusion =
            plain.analyzer().rules.len() + plain.optimizer().rules.len() + plain.physical_optimizers().len();
        let own = STEPS.iter().map(|step| step.rules.len()).sum::<usize>();
        assert_eq!(names.len(), of_datafusion + own, "a rule without a step: {names:?}");
    }
}
