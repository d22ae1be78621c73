//! Shared subplans: a subplan that occurs several times in a query runs once.
//!
//! DataFusion plans a common table expression, or a view, again for each use: `WITH r AS (SELECT k, sum(x) AS
//! s FROM t GROUP BY k) SELECT .. FROM r WHERE s = (SELECT max(s) FROM r)` aggregates `t` twice. The planner
//! of this module ([`planner`]) finds aggregations and window functions that are equal in the optimized plan,
//! with everything below them ([`repeated`]). Each use keeps its plan, but only the first that is executed
//! runs, and the others take its rows ([`exec`]). So nothing from outside enters them: no filter of a join
//! above, no order, no partitions.

mod exec;
mod node;
mod planner;
mod repeated;

pub(crate) use node::SHARED_SUBPLAN;
pub(crate) use planner::SubplanPlanner;
