//! The maximum number of rows of a batch, by the width of a plan's rows.
//!
//! Operators collect rows until a batch has a certain number. Batches in exchanges and hash joins are not
//! accounted for, and 8,192 rows of four kilobytes are 32 MiB per partition. So if statistics show wide rows,
//! a query under load control has smaller batches. The planner gives a filter above a scan a number of its
//! own, which stays. Strings in dictionaries are wider than their statistics say.

use std::sync::Arc;

use datafusion::common::Statistics;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};

/// Limit of the estimated bytes of a batch.
const BATCH_BYTES: usize = 2 << 20;

/// Least rows of a batch. Fewer would cost more than they save.
const ROWS_MIN: usize = 64;

/// Returns the rows of a batch: `rows`, or fewer if rows of the plan are wide.
pub(crate) fn batch_rows(plan: &Arc<dyn ExecutionPlan>, rows: usize) -> usize {
    let fit = BATCH_BYTES / row_bytes(plan).max(1);
    rows.min(fit.max(ROWS_MIN))
}

/// Returns the bytes of the widest row in the plan; zero if unknown. Rows of joins have the columns of all
/// sides.
fn row_bytes(plan: &Arc<dyn ExecutionPlan>) -> usize {
    let children = plan.children();
    if children.is_empty() {
        let known = StatisticsContext::new().compute(plan.as_ref(), &StatisticsArgs::new());
        return known.map_or(0, |known| mean_row_bytes(&known));
    }
    let of_children = children.into_iter().map(row_bytes);
    match plan.name().contains("Join") {
        true => of_children.fold(0, usize::saturating_add),
        false => of_children.max().unwrap_or(0),
    }
}

fn mean_row_bytes(known: &Statistics) -> usize {
    let rows = known.num_rows.get_value().copied().unwrap_or(0);
    let columns = known.column_statistics.iter().filter_map(|column| column.byte_size.get_value());
    columns.fold(0, |sum: usize, bytes| sum.saturating_add(*bytes)).checked_div(rows).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::datatypes::{DataType, Field, Schema};
    use datafusion::common::stats::Precision;
    use datafusion::physical_plan::joins::CrossJoinExec;
    use datafusion::physical_plan::test::exec::StatisticsExec;
    use datafusion::physical_plan::union::UnionExec;

    use super::*;

    /// A table of two columns and ten thousand rows, each with so many bytes.
    fn table(row_bytes: Option<usize>) -> Arc<dyn ExecutionPlan> {
        let field = |name| Field::new(name, DataType::Utf8, true);
        let schema = Schema::new(vec![field("a"), field("b")]);
        let mut known = Statistics::new_unknown(&schema);
        known.num_rows = Precision::Inexact(10_000);
        for column in known.column_statistics.iter_mut().filter(|_| row_bytes.is_some()) {
            column.byte_size = Precision::Inexact(10_000 * row_bytes.unwrap_or(0) / 2);
        }
        Arc::new(StatisticsExec::new(known, schema))
    }

    #[test]
    fn wide_rows_come_in_smaller_batches() {
        assert_eq!(batch_rows(&table(None), 8192), 8192);
        assert_eq!(batch_rows(&table(Some(256)), 8192), 8192);
        assert_eq!(batch_rows(&table(Some(4096)), 8192), 512);
        assert_eq!(batch_rows(&table(Some(4096)), 100), 100);
        assert_eq!(batch_rows(&table(Some(1 << 20)), 8192), ROWS_MIN);
        assert_eq!(batch_rows(&table(Some(usize::MAX / 20_000)), 8192), ROWS_MIN);
    }

    #[test]
    fn a_join_has_the_columns_of_both_sides_and_a_union_does_not() {
        let (left, right) = (table(Some(1024)), table(Some(1024)));
        let union = UnionExec::try_new(vec![Arc::clone(&left), Arc::clone(&right)]).expect("a union");
        assert_eq!(batch_rows(&union, 8192), 2048);
        let join: Arc<dyn ExecutionPlan> = Arc::new(CrossJoinExec::new(left, right));
        assert_eq!(batch_rows(&join, 8192), 1024);
    }
}
