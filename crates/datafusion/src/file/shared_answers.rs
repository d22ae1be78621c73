//! Answers of text conjuncts about the rows of a slice, shared by concurrent queries that ask the same.
//!
//! Panels of a dashboard often share a filter and differ in their grouping. The search of long texts for a
//! pattern then takes most of their time. Conditions on numbers alone are not shared.

use std::sync::{Arc, Mutex, Weak};

use coscan_engine::Engine;
use coscan_operators::{Member, Part, PerSlice, SharedSlices};
use datafusion::arrow::buffer::BooleanBuffer;
use datafusion::arrow::datatypes::{DataType, Schema};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricBuilder, MetricType};

use crate::kept_bytes::{KeptBytes, What};
use crate::lock::lock;

/// A conjunct in terms of a file, and the types to which the file's columns are decoded.
#[derive(Debug)]
pub(crate) struct Conjunct {
    expr: Arc<dyn PhysicalExpr>,
    columns: Vec<(usize, DataType)>,
}

impl Conjunct {
    fn new(expr: &Arc<dyn PhysicalExpr>, decoding_schema: &Schema) -> Self {
        let mut columns: Vec<(usize, DataType)> = collect_columns(expr)
            .iter()
            .map(|column| (column.index(), decoding_schema.field(column.index()).data_type().clone()))
            .collect();
        columns.sort_by_key(|(root, _)| *root);
        Conjunct { expr: Arc::clone(expr), columns }
    }
}

impl PerSlice for Conjunct {
    /// The rows for which it is true.
    type State = BooleanBuffer;

    fn is_as(&self, other: &Self) -> bool {
        self.columns == other.columns && *self.expr == *other.expr
    }

    fn bytes(rows: &BooleanBuffer) -> usize {
        rows.inner().capacity()
    }
}

/// The answers that a scan shares with other scans.
#[derive(Debug)]
pub(crate) struct SharedAnswers {
    engine: Engine,
    metrics: ExecutionPlanMetricsSet,
    known: Mutex<Vec<Known>>,
}

/// A conjunct of the scan. All partitions share one membership.
#[derive(Debug)]
struct Known {
    conjunct: Arc<Conjunct>,
    member: Weak<Member<Conjunct>>,
}

impl SharedAnswers {
    /// Creates the record of a scan with these metrics.
    pub(crate) fn new(engine: &Engine, metrics: ExecutionPlanMetricsSet) -> Self {
        SharedAnswers { engine: engine.clone(), metrics, known: Mutex::default() }
    }

    /// Returns the part of a conjunct of a file in the sharing, for a partition.
    pub(crate) fn part(
        &self,
        expr: &Arc<dyn PhysicalExpr>,
        decoding_schema: &Schema,
        partition: usize,
    ) -> Part<Conjunct> {
        let conjunct = Conjunct::new(expr, decoding_schema);
        let mut known = lock(&self.known);
        known.retain(|known| known.member.strong_count() > 0);
        let same = known.iter().find(|known| known.conjunct.is_as(&conjunct));
        let member = same.and_then(|known| known.member.upgrade()).unwrap_or_else(|| {
            let conjunct = Arc::new(conjunct);
            let shared = self.engine.companion(SharedSlices::default);
            let member = shared.join(&conjunct, &KeptBytes::room(&self.engine, What::Answers));
            known.push(Known { conjunct, member: Arc::downgrade(&member) });
            member
        });
        let count = |name: &'static str| {
            MetricBuilder::new(&self.metrics).with_type(MetricType::Summary).counter(name, partition)
        };
        Part { member, taken: count("filter_answers_taken"), made: count("filter_answers_made") }
    }
}
