//! Conjuncts of a scan's filter that the statistics of a row group prove true for every row. Such a conjunct
//! is not evaluated in the row group, and columns that only it needs are not read.
//!
//! The proof is the one by which DataFusion prunes row groups ([`crate::file::pruning`]). It is applied to
//! the conjunct's negation, with nulls counted. [`decided_by_statistics`] lists the conditions for relying on
//! it. Without a proof a conjunct is evaluated.

use std::sync::Arc;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::ScalarValue;
use datafusion::datasource::physical_plan::parquet::{
    ParquetAccessPlan, ParquetFileMetrics, RowGroupAccessPlanFilter,
};
use datafusion::parquet::arrow::parquet_column;
use datafusion::parquet::file::metadata::{ParquetMetaData, RowGroupMetaData};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{Column, IsNotNullExpr, Literal};
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_optimizer::pruning::PruningPredicateBuilder;

use crate::eligibility::decided_by_statistics;

/// The statistics of a file.
pub(crate) struct Statistics<'a> {
    pub(crate) metadata: &'a ParquetMetaData,
    /// The schema of the conjuncts: all columns of the file.
    pub(crate) schema: &'a SchemaRef,
    pub(crate) metrics: &'a ParquetFileMetrics,
}

impl Statistics<'_> {
    /// Returns for each of these row groups and each conjunct, in this order, whether the conjunct is true
    /// for all rows.
    pub(crate) fn always_true(
        &self,
        row_groups: &[usize],
        conjuncts: &[Arc<dyn PhysicalExpr>],
    ) -> Vec<Vec<bool>> {
        let mut decided = vec![vec![false; conjuncts.len()]; row_groups.len()];
        for (at, conjunct) in conjuncts.iter().enumerate() {
            for (row_group, true_here) in decided.iter_mut().zip(self.always_true_in(row_groups, conjunct)) {
                row_group[at] = true_here;
            }
        }
        decided
    }

    fn always_true_in(&self, row_groups: &[usize], conjunct: &Arc<dyn PhysicalExpr>) -> Vec<bool> {
        if is_true(conjunct) {
            return vec![true; row_groups.len()];
        }
        let Some(leaves) = self.leaves(conjunct) else { return vec![false; row_groups.len()] };
        if conjunct.is::<IsNotNullExpr>() {
            // DataFusion does not prune by the negation of this conjunct.
            let without_nulls = |&at| leaves.iter().all(|&leaf| no_nulls(self.metadata.row_group(at), leaf));
            return row_groups.iter().map(without_nulls).collect();
        }
        let predicate = PruningPredicateBuilder::new()
            .with_file_schema(Arc::clone(self.schema))
            .build(Arc::clone(conjunct));
        let Some(predicate) = predicate else { return vec![false; row_groups.len()] };
        let mut access = ParquetAccessPlan::new_none(self.metadata.num_row_groups());
        row_groups.iter().for_each(|&row_group| access.scan(row_group));
        let mut filter = RowGroupAccessPlanFilter::new(access);
        let parquet_schema = self.metadata.file_metadata().schema_descr();
        let all = self.metadata.row_groups();
        filter.prune_by_statistics(self.schema, parquet_schema, all, &predicate, self.metrics);
        row_groups.iter().map(|&row_group| filter.is_fully_matched()[row_group]).collect()
    }

    /// Returns the leaf columns of a conjunct that statistics can decide; `None` for other conjuncts.
    fn leaves(&self, conjunct: &Arc<dyn PhysicalExpr>) -> Option<Vec<usize>> {
        let columns = collect_columns(conjunct);
        let fields = columns.iter().map(|column| self.schema.fields().get(column.index()));
        let fields: Vec<_> = fields.collect::<Option<_>>()?;
        let mut types = fields.iter().map(|field| field.data_type());
        if !decided_by_statistics(conjunct, self.schema, &mut types) {
            return None;
        }
        let parquet_schema = self.metadata.file_metadata().schema_descr();
        let leaf = |column: &Column| {
            let (leaf, _) = parquet_column(parquet_schema, self.schema, column.name())?;
            // The lookup finds the first of several columns with one name.
            (parquet_schema.get_column_root_idx(leaf) == column.index()).then_some(leaf)
        };
        columns.iter().map(leaf).collect()
    }
}

fn no_nulls(row_group: &RowGroupMetaData, leaf: usize) -> bool {
    row_group.column(leaf).statistics().is_some_and(|statistics| statistics.null_count_opt() == Some(0))
}

fn is_true(conjunct: &Arc<dyn PhysicalExpr>) -> bool {
    let literal = conjunct.downcast_ref::<Literal>();
    literal.is_some_and(|literal| *literal.value() == ScalarValue::Boolean(Some(true)))
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::datatypes::{DataType, Field, Schema};
    use datafusion::logical_expr::Operator;
    use datafusion::parquet::basic::{ColumnOrder, Type};
    use datafusion::parquet::data_type::{ByteArray, FixedLenByteArray};
    use datafusion::parquet::file::metadata::{ColumnChunkMetaData, FileMetaData};
    use datafusion::parquet::file::statistics::Statistics as Bounds;
    use datafusion::parquet::schema::parser::parse_message_type;
    use datafusion::parquet::schema::types::SchemaDescriptor;
    use datafusion::physical_expr::expressions::{binary, cast, col, in_list, is_not_null, is_null, lit};
    use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;

    use super::*;

    type Expr = Arc<dyn PhysicalExpr>;

    /// A file with one column `x` and a row group of ten rows for each of these statistics.
    struct OneColumn {
        metadata: ParquetMetaData,
        schema: SchemaRef,
    }

    impl OneColumn {
        fn new(declared: &str, data_type: DataType, bounds: Vec<Option<Bounds>>) -> Self {
            let message = parse_message_type(&format!("message file {{ {declared}; }}")).unwrap();
            let descriptor = Arc::new(SchemaDescriptor::new(Arc::new(message)));
            let row_group = |bounds: Option<Bounds>| {
                let mut column = ColumnChunkMetaData::builder(descriptor.column(0)).set_num_values(10);
                if let Some(bounds) = bounds {
                    column = column.set_statistics(bounds);
                }
                let row_group = RowGroupMetaData::builder(Arc::clone(&descriptor)).set_num_rows(10);
                row_group.add_column_metadata(column.build().unwrap()).build().unwrap()
            };
            let row_groups: Vec<_> = bounds.into_iter().map(row_group).collect();
            let rows = 10 * row_groups.len() as i64;
            let order = ColumnOrder::TYPE_DEFINED_ORDER(descriptor.column(0).sort_order());
            let file = FileMetaData::new(2, rows, None, None, Arc::clone(&descriptor), Some(vec![order]));
            let schema = Arc::new(Schema::new(vec![Field::new("x", data_type, declared.starts_with("opt"))]));
            OneColumn { metadata: coscan_parquet::believed(ParquetMetaData::new(file, row_groups)), schema }
        }

        fn x(&self) -> Expr {
            col("x", &self.schema).unwrap()
        }

        fn compare(&self, op: Operator, value: Expr) -> Expr {
            binary(self.x(), op, value, &self.schema).unwrap()
        }

        fn decided(&self, conjunct: Expr) -> Vec<bool> {
            let metrics = ParquetFileMetrics::new(0, "file", &ExecutionPlanMetricsSet::new());
            let statistics = Statistics { metadata: &self.metadata, schema: &self.schema, metrics: &metrics };
            let row_groups: Vec<usize> = (0..self.metadata.num_row_groups()).collect();
            statistics.always_true(&row_groups, &[conjunct]).into_iter().map(|of| of[0]).collect()
        }
    }

    fn whole(min: i64, max: i64, nulls: Option<u64>) -> Option<Bounds> {
        Some(Bounds::int64(Some(min), Some(max), None, nulls, false))
    }

    fn integers() -> OneColumn {
        let bounds = vec![
            whole(0, 9, Some(0)),
            whole(0, 9, Some(1)),
            whole(0, 9, None),
            None,
            whole(5, 20, Some(0)),
            whole(5, 5, Some(0)),
            Some(Bounds::int64(None, None, None, Some(0), false)),
        ];
        OneColumn::new("optional int64 x", DataType::Int64, bounds)
    }

    #[test]
    fn bounds_and_the_count_of_nulls_decide() {
        let file = integers();
        let below = file.compare(Operator::Lt, lit(10i64));
        assert_eq!(file.decided(below.clone()), [true, false, false, false, false, true, false]);
        // The other way round, and by equality.
        let above = binary(lit(10i64), Operator::Gt, file.x(), &file.schema).unwrap();
        assert_eq!(file.decided(above), file.decided(below));
        let equal = file.compare(Operator::Eq, lit(5i64));
        assert_eq!(file.decided(equal), [false, false, false, false, false, true, false]);
        let other = file.compare(Operator::NotEq, lit(10i64));
        assert_eq!(file.decided(other), [true, false, false, false, false, true, false]);
    }

    #[test]
    fn a_missing_count_of_nulls_matters_only_where_nulls_can_be() {
        let bounds = vec![whole(0, 9, None), whole(0, 10, None)];
        let file = OneColumn::new("required int64 x", DataType::Int64, bounds);
        assert_eq!(file.decided(file.compare(Operator::Lt, lit(10i64))), [true, false]);
    }

    #[test]
    fn lists_and_tests_for_null() {
        let file = integers();
        let listed = in_list(file.x(), vec![lit(5i64), lit(7i64)], &false, &file.schema).unwrap();
        assert_eq!(file.decided(listed), [false, false, false, false, false, true, false]);
        let present = is_not_null(file.x()).unwrap();
        assert_eq!(file.decided(present), [true, false, false, false, true, true, true]);
        assert_eq!(file.decided(is_null(file.x()).unwrap()), [false; 7]);
    }

    #[test]
    fn what_compares_with_null_casts_or_computes_stays() {
        let file = integers();
        assert_eq!(file.decided(file.compare(Operator::NotEq, lit(ScalarValue::Int64(None)))), [false; 7]);
        let listed = vec![lit(5i64), lit(ScalarValue::Int64(None))];
        for negated in [false, true] {
            let listed = in_list(file.x(), listed.clone(), &negated, &file.schema).unwrap();
            assert_eq!(file.decided(listed), [false; 7]);
        }
        let narrow = cast(file.x(), &file.schema, DataType::Int32).unwrap();
        let narrow = binary(narrow, Operator::Lt, lit(1000i32), &file.schema).unwrap();
        assert_eq!(file.decided(narrow), [false; 7]);
        let more = binary(file.x(), Operator::Plus, lit(1i64), &file.schema).unwrap();
        let more = binary(more, Operator::Lt, lit(1000i64), &file.schema).unwrap();
        assert_eq!(file.decided(more), [false; 7]);
    }

    #[test]
    fn a_constant_is_decided() {
        let file = integers();
        assert_eq!(file.decided(lit(true)), [true; 7]);
        assert_eq!(file.decided(lit(false)), [false; 7]);
    }

    #[test]
    fn floats_may_be_nan() {
        let bounds = vec![Some(Bounds::double(Some(0.0), Some(9.0), None, Some(0), false))];
        let file = OneColumn::new("optional double x", DataType::Float64, bounds);
        assert_eq!(file.decided(file.compare(Operator::Lt, lit(10.0))), [false]);
        assert_eq!(file.decided(is_not_null(file.x()).unwrap()), [true]);
    }

    #[test]
    fn truncated_bounds_are_bounds_and_deprecated_ones_are_none() {
        let text = |min: &str, max: &str, deprecated: bool| {
            let (min, max) = (ByteArray::from(min), ByteArray::from(max));
            Some(Bounds::byte_array(Some(min), Some(max), None, Some(0), deprecated))
        };
        let bounds = vec![text("alp", "alq", false), text("alp", "alq", true), text("alpine", "alpz", false)];
        let file = OneColumn::new("optional binary x (UTF8)", DataType::Utf8, bounds);
        assert_eq!(file.decided(file.compare(Operator::GtEq, lit("alp"))), [true, false, true]);
        assert_eq!(file.decided(file.compare(Operator::GtEq, lit("alpine"))), [false, false, true]);
    }

    #[test]
    fn deprecated_bounds_of_signed_integers_are_in_order_and_those_of_bytes_are_not() {
        let bounds = vec![Some(Bounds::int64(Some(0), Some(9), None, Some(0), true))];
        let file = OneColumn::new("optional int64 x", DataType::Int64, bounds);
        assert_eq!(file.decided(file.compare(Operator::Lt, lit(10i64))), [true]);

        let bytes = |value: u8| Some(FixedLenByteArray::from(ByteArray::from(vec![0, value])));
        let of = |deprecated| Some(Bounds::new(bytes(0), bytes(9), None, Some(0), deprecated));
        let declared = "optional fixed_len_byte_array(2) x (DECIMAL(4, 2))";
        let file = OneColumn::new(declared, DataType::Decimal128(4, 2), vec![of(false), of(true)]);
        assert_eq!(file.metadata.row_group(0).column(0).column_type(), Type::FIXED_LEN_BYTE_ARRAY);
        let ten = lit(ScalarValue::Decimal128(Some(10), 4, 2));
        assert_eq!(file.decided(file.compare(Operator::Lt, ten)), [true, false]);
    }
}
