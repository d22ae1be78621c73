//! The conditions for a plan to run on workers. A plan that does not meet them runs on this machine.
//!
//! | condition | without it |
//! |---|---|
//! | scans of Parquet files with known adapters and readers, without notes at files and generated columns ([`Unencoded`]) | renamed columns are null, deleted rows come back |
//! | no scan of no files but an empty one: nothing else is a source that a worker has | tables in memory are copied with each statement |
//! | functions that a worker finds under their name ([`Functions`]) | another function computes: sums wrap around |
//! | nodes and expressions that can be encoded, and are the same after decoding | a node is lost or has other parameters |
//! | windows without FILTER and IGNORE NULLS that are not reversed ([`LEFT_OUT`]) | all rows are counted, `lag` looks forward |
//! | values of subqueries that have one row at most | rows come back once for each value |
//! | stages whose tasks together return the rows of one plan ([`crate::tasks_proof`]) | a limit holds in each task |
//! | statements that only read | a statement that runs again would write twice |

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use coscan_datafusion::remote::{Unencoded, Unsendable};
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::{AggregateUDF, ScalarUDF, WindowUDF};
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::window::{
    PlainAggregateWindowExpr, SlidingAggregateWindowExpr, StandardWindowExpr, WindowExpr,
};
use datafusion::physical_expr::{HigherOrderFunctionExpr, PhysicalExpr, ScalarFunctionExpr};
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::placeholder_row::PlaceholderRowExec;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec, WindowUDFExpr};
use datafusion::physical_plan::{ExecutionPlan, displayable};
use datafusion_distributed::DistributedCodec;
use datafusion_proto::bytes::{
    physical_plan_from_bytes_with_proto_converter, physical_plan_to_bytes_with_proto_converter,
};
use datafusion_proto::physical_plan::{
    ComposedPhysicalExtensionCodec, DeduplicatingProtoConverter, PhysicalExtensionCodec,
};

use crate::codec::Codec;
use crate::functions::Functions;
use crate::scan::{file_scan, with_plain_scans};
use crate::sent::Sent;

/// Parts of a window expression that its encoding leaves out, in the expression's debugging text: the only place that has them.
const LEFT_OUT: [&str; 3] = ["filter: Some(", "ignore_nulls: true", "is_reversed: true"];

/// The reason why a plan runs on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The cluster has no worker that takes work.
    NoWorker,
    /// The statement does more than read.
    Writes,
    /// A scan cannot be sent.
    Scan(Unsendable),
    /// A source of rows is no file.
    Source(String),
    /// A worker would find another function, or none, under this name.
    Function(String),
    /// A part of the plan cannot be encoded.
    Encoding(String),
    /// A node is another one after decoding.
    Changed(String),
    /// A subquery is a value that only this process would have, or whose rows only this process would count.
    Subquery,
    /// The tasks of a stage together would return other rows.
    Division(String),
    /// The planner of distributed plans left the plan as it was.
    OneTask,
    /// Planning failed on workers' account.
    Planning(String),
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::NoWorker => f.write_str("no worker is ready (see coscan_workers)"),
            Reason::Writes => f.write_str("the statement does more than read"),
            Reason::Scan(reason) => write!(f, "{reason}"),
            Reason::Source(name) => write!(f, "{name} reads no files"),
            Reason::Function(name) => write!(f, "the function {name} cannot be sent"),
            Reason::Encoding(what) => write!(f, "it cannot be sent: {what}"),
            Reason::Changed(node) => write!(f, "a worker would get another plan: {node}"),
            Reason::Subquery => f.write_str("a subquery is a value"),
            Reason::Division(what) => write!(f, "{what}"),
            Reason::OneTask => f.write_str("the plan has one task"),
            Reason::Planning(error) => write!(f, "it cannot be distributed: {error}"),
        }
    }
}

/// Checks the sources and the functions of a plan. Returns the part of the session to send with it.
pub(crate) fn check(
    plan: &Arc<dyn ExecutionPlan>,
    functions: &Functions,
    mut sent: Sent,
) -> Result<Sent, Reason> {
    let mut found = Found { functions, described: HashMap::new(), reason: None };
    let visited = plan.apply(|node| {
        let checked = source(node).and_then(|()| found.node(node));
        Ok(match checked {
            Ok(()) => TreeNodeRecursion::Continue,
            Err(reason) => {
                found.reason.get_or_insert(reason);
                TreeNodeRecursion::Stop
            }
        })
    });
    if let Err(error) = visited {
        return Err(Reason::Encoding(error.strip_backtrace()));
    }
    if let Some(reason) = found.reason {
        return Err(reason);
    }
    sent.functions.extend(found.described.into_values().flatten());
    Ok(sent)
}

/// Checks a node without inputs.
fn source(node: &Arc<dyn ExecutionPlan>) -> Result<(), Reason> {
    if !node.children().is_empty() || node.is::<EmptyExec>() || node.is::<PlaceholderRowExec>() {
        return Ok(());
    }
    match file_scan(node) {
        Some(config) => Unencoded::of(config).map(|_| ()).map_err(Reason::Scan),
        None => Err(Reason::Source(node.name().to_owned())),
    }
}

struct Found<'a> {
    functions: &'a Functions,
    /// The functions of the plan by name: none if the worker has it, and otherwise its description.
    described: HashMap<String, Option<String>>,
    reason: Option<Reason>,
}

impl Found<'_> {
    fn node(&mut self, node: &Arc<dyn ExecutionPlan>) -> Result<(), Reason> {
        let mut of_expressions = Ok(());
        let visited = node.apply_expressions(&mut |expr| {
            if of_expressions.is_ok() {
                of_expressions = self.expression(expr);
            }
            Ok(TreeNodeRecursion::Continue)
        });
        of_expressions?;
        visited.map_err(|error| Reason::Encoding(error.strip_backtrace()))?;
        if let Some(aggregate) = node.downcast_ref::<AggregateExec>() {
            aggregate.aggr_expr().iter().try_for_each(|function| self.aggregate(function))?;
        }
        let windows = node.downcast_ref::<WindowAggExec>().map(WindowAggExec::window_expr);
        let bounded = node.downcast_ref::<BoundedWindowAggExec>().map(BoundedWindowAggExec::window_expr);
        windows.or(bounded).into_iter().flatten().try_for_each(|window| self.window(window))
    }

    fn expression(&mut self, expr: &Arc<dyn PhysicalExpr>) -> Result<(), Reason> {
        let mut checked = Ok(());
        let visited = expr.apply(|expr| {
            if let Some(function) = expr.downcast_ref::<ScalarFunctionExpr>() {
                checked = self.scalar(function);
            } else if let Some(function) = expr.downcast_ref::<HigherOrderFunctionExpr>() {
                let known = self.functions.higher_order.get(function.fun().name());
                if known.is_none_or(|known| known.as_ref() != function.fun()) {
                    checked = Err(Reason::Function(function.name().to_owned()));
                }
            }
            Ok(if checked.is_ok() { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
        });
        checked?;
        visited.map(|_| ()).map_err(|error| Reason::Encoding(error.strip_backtrace()))
    }

    fn scalar(&mut self, expr: &ScalarFunctionExpr) -> Result<(), Reason> {
        let function: &ScalarUDF = expr.fun();
        let known =
            self.functions.scalar.get(function.name()).is_some_and(|known| known.as_ref() == function);
        let described =
            if known { None } else { self.functions.described_scalar(function, expr.return_type()) };
        self.named(function.name(), known, described)
    }

    fn aggregate(&mut self, expr: &AggregateFunctionExpr) -> Result<(), Reason> {
        expr.expressions().iter().try_for_each(|argument| self.expression(argument))?;
        let function: &AggregateUDF = expr.fun();
        let known =
            self.functions.aggregate.get(function.name()).is_some_and(|known| known.as_ref() == function);
        let described = if known { None } else { self.functions.described_aggregate(function) };
        self.named(function.name(), known, described)
    }

    fn window(&mut self, window: &Arc<dyn WindowExpr>) -> Result<(), Reason> {
        window.expressions().iter().try_for_each(|argument| self.expression(argument))?;
        let shown = format!("{window:?}");
        if LEFT_OUT.iter().any(|part| shown.contains(part)) {
            return Err(Reason::Encoding(format!(
                "{} has parts that its encoding leaves out",
                window.name()
            )));
        }
        let of = window.as_any();
        if let Some(plain) = of.downcast_ref::<PlainAggregateWindowExpr>() {
            return self.aggregate(plain.get_aggregate_expr());
        }
        if let Some(sliding) = of.downcast_ref::<SlidingAggregateWindowExpr>() {
            return self.aggregate(sliding.get_aggregate_expr());
        }
        let standard =
            of.downcast_ref::<StandardWindowExpr>().map(StandardWindowExpr::get_standard_func_expr);
        match standard.and_then(|standard| standard.as_any().downcast_ref::<WindowUDFExpr>()) {
            Some(standard) => {
                let function: &WindowUDF = standard.fun();
                let known = self.functions.window.get(function.name());
                let known = known.is_some_and(|known| known.as_ref() == function);
                self.named(function.name(), known, None)
            }
            None => Err(Reason::Function(window.name().to_owned())),
        }
    }

    /// Notes a function. Two functions of a plan that have one name cannot be told apart.
    fn named(&mut self, name: &str, known: bool, described: Option<String>) -> Result<(), Reason> {
        if !known && described.is_none() {
            return Err(Reason::Function(name.to_owned()));
        }
        match self.described.insert(name.to_owned(), described.clone()) {
            Some(other) if other != described => Err(Reason::Function(format!("{name}, in two forms,"))),
            _ => Ok(()),
        }
    }
}

/// Checks that a worker would get the same plan: encodes and decodes it, and compares the results.
pub(crate) fn same_when_decoded(
    plan: &Arc<dyn ExecutionPlan>,
    functions: &Functions,
    sent: &Sent,
    session: &SessionState,
) -> Result<(), Reason> {
    let encoding = |error: datafusion::common::DataFusionError| Reason::Encoding(error.strip_backtrace());
    let codecs: Vec<Arc<dyn PhysicalExtensionCodec>> = vec![Arc::new(DistributedCodec), Arc::new(Codec)];
    let codec = ComposedPhysicalExtensionCodec::new(codecs);
    let converter = DeduplicatingProtoConverter::default();
    let bytes = physical_plan_to_bytes_with_proto_converter(Arc::clone(plan), &codec, &converter);
    let context = functions.with(sent).map_err(encoding)?.context(session, session.config().clone());
    let converter = DeduplicatingProtoConverter::default();
    let decoded = physical_plan_from_bytes_with_proto_converter(
        &bytes.map_err(encoding)?,
        &context,
        &codec,
        &converter,
    );
    let decoded = text(&decoded.map_err(encoding)?);
    let own = text(&with_plain_scans(Arc::clone(plan)).map_err(encoding)?);
    let other = own.lines().zip(decoded.lines()).find(|(own, decoded)| own != decoded);
    match other {
        Some((own, _)) => Err(Reason::Changed(own.trim().to_owned())),
        None if own.lines().count() != decoded.lines().count() => {
            Err(Reason::Changed("it has other nodes".to_owned()))
        }
        None => Ok(()),
    }
}

fn text(plan: &Arc<dyn ExecutionPlan>) -> String {
    displayable(plan.as_ref()).set_show_schema(true).indent(true).to_string()
}

#[cfg(test)]
mod tests;
