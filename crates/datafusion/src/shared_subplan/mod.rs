//! Subplans that a query has several times run once.
//!
//! DataFusion plans a common table expression anew wherever a query names it, and a view as well: `WITH r AS (SELECT k,
//! sum(x) AS s FROM t GROUP BY k) SELECT .. FROM r WHERE s = (SELECT max(s) FROM r)` aggregates `t` twice. The planner of
//! this module ([`planner`]) looks for aggregations and window functions that are equal in the optimized plan, with
//! everything below them ([`repeated`]). Each keeps its plan, but the first that is executed is the only one that runs;
//! the others take its rows ([`exec`]). So nothing from outside gets into them: no filter of a join above, no order, no
//! partitions.

mod exec;
mod node;
mod planner;
mod repeated;

pub(crate) use planner::SubplanPlanner;
