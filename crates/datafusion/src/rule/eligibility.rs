//! When a plan may be changed: every condition of every rewrite, with its reason.
//!
//! A rewrite applies only where all its conditions are proven for the plan at hand; in doubt the plan stays as
//! DataFusion made it. What a rewrite does when it applies is said elsewhere.
//!
//! | rewrite | condition |
//! |---|---|
//! | a scan becomes cooperative | [`scan`] |
//! | a filter moves into the scan below it | [`filter_into_scan`] |
//! | a partial aggregation reads the scan's arrays | [`aggregation_at_scan`], [`function_at_scan`] |
//! | a join filters by single keys | [`filter_by_keys`] |
//! | decimal arithmetic is tried in 64 bits | [`narrow_arithmetic`], [`narrow_arguments`] |
//! | a conjunct is evaluated before earlier ones | [`cannot_fail`] |
//! | a conjunct that statistics prove is dropped | [`decided_by_statistics`], [`bounds_in_order`] |
//! | a decimal is decoded to 64 bits | [`short_decimal`] |
//! | an aggregation is done chunk by chunk | [`aggregation_by_chunks`], [`clustering_column`], [`bounds_in_order`] |
//! | a join is done chunk by chunk | [`join_by_chunks`], [`clustering_column`], [`bounds_in_order`] |
//! | window functions are computed chunk by chunk | [`window_by_chunks`], [`clustering_column`], [`bounds_in_order`] |

use std::fmt;
use std::sync::Arc;

use coscan_operators::Function;
use datafusion::arrow::datatypes::{DECIMAL64_MAX_PRECISION, DataType, Schema};
use datafusion::common::NullEquality;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::datasource::physical_plan::parquet::{ParquetAccessPlan, ParquetRowSelection};
use datafusion::datasource::physical_plan::{FileScanConfig, FileSource, ParquetSource};
use datafusion::functions_aggregate::average::Avg;
use datafusion::functions_aggregate::bool_and_or::{BoolAnd, BoolOr};
use datafusion::functions_aggregate::count::Count;
use datafusion::functions_aggregate::min_max::{Max, Min};
use datafusion::functions_aggregate::sum::Sum;
use datafusion::logical_expr::Operator;
use datafusion::parquet::basic::{SortOrder, Type as PhysicalType};
use datafusion::parquet::file::metadata::RowGroupMetaData;
use datafusion::parquet::schema::types::Type as StoredType;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::equivalence::EquivalenceClass;
use datafusion::physical_expr::expressions::{
    BinaryExpr, CastExpr, Column, DynamicFilterTracking, InListExpr, IsNotNullExpr, IsNullExpr, Literal,
    NotExpr,
};
use datafusion::physical_expr::{ConstExpr, EquivalenceProperties, LexOrdering, PhysicalExpr};
use datafusion::physical_expr_common::physical_expr::is_volatile;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::{ExecutionPlan, InputOrderMode};

use crate::ordered::Step;

/// Why a node of a plan is left to DataFusion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The scan wants row numbers or other columns that the reader makes up.
    VirtualColumns,
    /// Its files are encrypted.
    Encryption,
    /// Somebody has chosen rows of this file beforehand.
    AccessPlan(String),
    /// It reads through a reader of its own.
    CustomReader,
    /// Its files have fewer bytes than `coscan.small_table_bytes`.
    SmallTable(u64),
    /// The scan or the filter stops after this many rows: a filter that moves would change which.
    Limit(usize),
    /// Something gives another value each time it is evaluated.
    Volatile(String),
    /// The filter changes while the query runs.
    DynamicFilter,
    /// The scan cannot evaluate all of the filter.
    NotPushable,
    /// The filter tells more of its rows than the scan would: constants, equal columns or an order.
    WeakerProperties,
    /// The aggregation has properties beyond its keys and functions.
    SpecialAggregation,
    /// The result of this function depends on the order of rows.
    OrderedFunction(String),
    /// The join stops early, or nulls match or decide what does.
    SpecialJoin,
    /// The scan gives rows to fewer partitions than it was planned for, or each partition to a process of its own.
    Partitions,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::VirtualColumns => f.write_str("it has virtual columns"),
            Reason::Encryption => f.write_str("its files are encrypted"),
            Reason::AccessPlan(file) => write!(f, "{file} comes with an access plan"),
            Reason::CustomReader => f.write_str("it has its own file reader"),
            Reason::SmallTable(bytes) => write!(f, "{bytes} bytes are too little to share"),
            Reason::Limit(rows) => write!(f, "it stops after {rows} rows"),
            Reason::Volatile(expr) => write!(f, "{expr} is volatile"),
            Reason::DynamicFilter => f.write_str("the filter changes while the query runs"),
            Reason::NotPushable => f.write_str("the scan cannot evaluate all of the filter"),
            Reason::WeakerProperties => {
                f.write_str("nodes above may rely on what the filter tells of its rows")
            }
            Reason::SpecialAggregation => {
                f.write_str("it is filtered, ordered, limited, over grouping sets or not partial")
            }
            Reason::OrderedFunction(name) => write!(f, "{name} depends on the order of rows"),
            Reason::SpecialJoin => f.write_str("it is limited, or nulls are more than rows without a match"),
            Reason::Partitions => f.write_str("its partitions cannot share the scan"),
        }
    }
}

/// Readers whose type is known to read nothing but the bytes of the file in its store.
const KNOWN_READERS: [&str; 2] = ["CachedParquetFileReaderFactory", "DefaultParquetFileReaderFactory"];

/// A scan of Parquet files becomes cooperative if all that is read is the files' bytes, and all rows of them.
///
/// `small_table_bytes`: a smaller table is not worth the bookkeeping, unless a join may say which of its rows are wanted:
/// what is left of a small table often is what filters a large one. `None` where that was asked before.
pub(crate) fn scan(config: &FileScanConfig, small_table_bytes: Option<u64>) -> Result<(), Reason> {
    let Some(source) = config.file_source().downcast_ref::<ParquetSource>() else { return Ok(()) };
    if !source.table_schema().virtual_columns().is_empty() {
        return Err(Reason::VirtualColumns);
    }
    let crypto = &source.table_parquet_options().crypto;
    if crypto.file_decryption.is_some() || crypto.factory_id.is_some() {
        return Err(Reason::Encryption);
    }
    // A factory of another type may read something else than the bytes of the file in its store, and its
    // type can only be told by its name.
    if let Some(factory) = source.parquet_file_reader_factory()
        && !KNOWN_READERS.contains(&type_name(factory).as_str())
    {
        return Err(Reason::CustomReader);
    }
    let mut files = config.file_groups.iter().flat_map(|group| group.iter());
    let chosen = files.find(|file| {
        file.extensions.contains::<ParquetAccessPlan>() || file.extensions.contains::<ParquetRowSelection>()
    });
    if let Some(file) = chosen {
        return Err(Reason::AccessPlan(file.object_meta.location.to_string()));
    }
    let bytes = bytes(config);
    match small_table_bytes {
        Some(small) if bytes < small && !has_dynamic_filter(source) => Err(Reason::SmallTable(bytes)),
        _ => Ok(()),
    }
}

/// Whether joins or sorts above fill a filter of the scan while they run.
fn has_dynamic_filter(source: &ParquetSource) -> bool {
    source.filter().is_some_and(|filter| DynamicFilterTracking::classify(&filter).contains_dynamic_filter())
}

/// The type's name as its `Debug` text begins with it. No more of the text is made: a factory shows its store, and a store
/// in memory shows the bytes of all files.
fn type_name(of: &impl fmt::Debug) -> String {
    struct Name(String);
    impl fmt::Write for Name {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            let end = text.find(|c: char| !c.is_alphanumeric() && c != '_');
            self.0.push_str(&text[..end.unwrap_or(text.len())]);
            if end.is_some() { Err(fmt::Error) } else { Ok(()) }
        }
    }
    let mut name = Name(String::new());
    // The error is how the rest is left out.
    let _ = fmt::Write::write_fmt(&mut name, format_args!("{of:?}"));
    name.0
}

/// The bytes of the scan's files, or of the ranges of them that it reads.
fn bytes(config: &FileScanConfig) -> u64 {
    let files = config.file_groups.iter().flat_map(|group| group.iter());
    files
        .map(|file| match &file.range {
            Some(range) => u64::try_from(range.end - range.start).unwrap_or(0),
            None => file.object_meta.size,
        })
        .sum()
}

/// A filter moves into the scan below it if it selects the same rows there.
///
/// - Neither stops early: a limit of the scan comes before the filter, one of the filter after it.
/// - Nothing is volatile. The filter may be over what the scan computes, and is then evaluated from the columns that
///   this is computed from, a second time; and the scan computes for fewer rows than it did.
/// - It does not change while the query runs: what fills such a filter decides where it is evaluated.
///
/// That the scan can evaluate all of it is checked where it is put in terms of the table, and [`tells_as_much`] when the
/// scan is there.
pub(crate) fn filter_into_scan(filter: &FilterExec, config: &FileScanConfig) -> Result<(), Reason> {
    if let Some(rows) = filter.fetch().or(config.limit) {
        return Err(Reason::Limit(rows));
    }
    not_volatile(filter.predicate())?;
    if let Some(projection) = config.file_source().projection() {
        projection.iter().try_for_each(|column| not_volatile(&column.expr))?;
    }
    if DynamicFilterTracking::classify(filter.predicate()).contains_dynamic_filter() {
        return Err(Reason::DynamicFilter);
    }
    Ok(())
}

/// What the plan above a filter relies on must be told by the scan in its place too: windows, joins and aggregations
/// were chosen for constants, equal columns and orders, some of which only the filter derives, from statistics.
pub(crate) fn tells_as_much(
    scan: &EquivalenceProperties,
    filter: &EquivalenceProperties,
) -> Result<(), Reason> {
    let constant = |of: &ConstExpr| scan.is_expr_constant(&of.expr).is_some();
    let equal = |class: &EquivalenceClass| {
        let first = class.canonical_expr();
        class.iter().all(|expr| first.is_none_or(|first| scan.eq_group().exprs_equal(first, expr)))
    };
    let ordered = |order: &LexOrdering| scan.ordering_satisfy(order.iter().cloned()).unwrap_or(false);
    let told = filter.constants().iter().all(constant)
        && filter.eq_group().iter().all(equal)
        && filter.oeq_class().iter().all(ordered);
    if told { Ok(()) } else { Err(Reason::WeakerProperties) }
}

fn not_volatile(expr: &Arc<dyn PhysicalExpr>) -> Result<(), Reason> {
    if is_volatile(expr) { Err(Reason::Volatile(expr.to_string())) } else { Ok(()) }
}

/// A partial aggregation reads the arrays of the scan below it if it has no properties beyond its keys and functions,
/// and the scan does not stop early: rows that are marked, not dropped, would count for its limit.
pub(crate) fn aggregation_at_scan(aggregate: &AggregateExec, scan: &FileScanConfig) -> Result<(), Reason> {
    if let Some(rows) = scan.limit {
        return Err(Reason::Limit(rows));
    }
    let plain = *aggregate.mode() == AggregateMode::Partial
        && !aggregate.group_expr().has_grouping_set()
        && aggregate.filter_expr().iter().all(Option::is_none)
        && aggregate.limit_options().is_none()
        && aggregate.dynamic_expressions_produced().is_empty()
        && *aggregate.input_order_mode() == InputOrderMode::Linear;
    if plain { Ok(()) } else { Err(Reason::SpecialAggregation) }
}

/// A join filters its probe side by single keys if
///
/// - DataFusion lets it fill a filter: rows of the probe side without a match do not come out of it, by any of its settings;
/// - nulls match nothing;
/// - its build side is the same whenever it is read.
pub(crate) fn filter_by_keys(join: &HashJoinExec) -> Result<(), Reason> {
    let plain = !join.null_aware && join.null_equality() == NullEquality::NullEqualsNothing;
    if !plain || join.dynamic_expressions_produced().is_empty() {
        return Err(Reason::SpecialJoin);
    }
    let mut volatile = None;
    let walked = join.left().apply(|node| {
        node.apply_expressions(&mut |expr| {
            volatile = volatile.take().or_else(|| not_volatile(expr).err());
            Ok(TreeNodeRecursion::Continue)
        })
    });
    join.on().iter().try_for_each(|(build, _)| not_volatile(build))?;
    match volatile {
        Some(reason) => Err(reason),
        None => walked.map(|_| ()).map_err(|_| Reason::SpecialJoin),
    }
}

/// Which of the functions known here this is, and its argument.
///
/// - DataFusion's own by type: a user's function may have its name.
/// - One argument, every value of which counts once, in any order.
/// - Types that the result is made of here. What else is coerced to them (smaller integers) has a cast around it.
pub(crate) fn function_at_scan(
    function: &AggregateFunctionExpr,
    input: &Schema,
) -> Option<(Function, Arc<dyn PhysicalExpr>)> {
    let plain = !function.is_distinct()
        && !function.ignore_nulls()
        && !function.is_reversed()
        && function.order_bys().is_empty();
    let Ok([argument]) = <[Arc<dyn PhysicalExpr>; 1]>::try_from(function.expressions()) else { return None };
    let of = argument.data_type(input).ok()?;
    let inner = function.fun().inner();
    let known = if inner.is::<Count>() {
        Function::Count
    } else if inner.is::<Sum>() && matches!(of, DataType::Decimal128(..) | DataType::Int64) {
        Function::Sum
    } else if inner.is::<Avg>() && matches!(of, DataType::Decimal128(..)) {
        Function::Average
    } else {
        return None;
    };
    (plain && !is_volatile(&argument)).then_some((known, argument))
}

/// An aggregation, from the rows of the scan (`first`) to its results (`last`, which may be the same node), can be done
/// chunk by chunk if
///
/// - there are groups, and no grouping sets, limits or filters that it fills;
/// - no function depends on the order of rows ([`in_any_order`]), which is another one, and nothing is volatile;
/// - the scan does not stop early, reads all of its files in this process, and has no more partitions than the result, so
///   that as many work as would have;
/// - files are adapted to the table by the names of their columns.
///
/// Which groups may be at borders follows from statistics when footers are there: [`crate::ordered`].
pub(crate) fn aggregation_by_chunks(
    last: &AggregateExec,
    first: &AggregateExec,
    steps: &[Step],
    scan: &FileScanConfig,
) -> Result<(), Reason> {
    if let Some(rows) = scan.limit {
        return Err(Reason::Limit(rows));
    }
    let groups = first.group_expr();
    let plain = |aggregate: &AggregateExec| {
        aggregate.limit_options().is_none() && aggregate.dynamic_expressions_produced().is_empty()
    };
    if groups.is_empty() || groups.has_grouping_set() || !plain(first) || !plain(last) {
        return Err(Reason::SpecialAggregation);
    }
    for function in first.aggr_expr() {
        if !in_any_order(function) {
            return Err(Reason::OrderedFunction(function.name().to_owned()));
        }
        function.expressions().iter().try_for_each(not_volatile)?;
    }
    groups.expr().iter().try_for_each(|(expr, _)| not_volatile(expr))?;
    first.filter_expr().iter().flatten().try_for_each(not_volatile)?;
    steps.iter().flat_map(Step::expressions).try_for_each(not_volatile)?;
    let partitions = last.properties().output_partitioning().partition_count();
    if scan.file_groups.len() > partitions || scan.output_partitioning.is_some() {
        return Err(Reason::Partitions);
    }
    Ok(())
}

/// A join can be done chunk by chunk, as far as one of its sides goes (`steps` over `scan`), if
///
/// - nulls match nothing, and nothing else: then rows with the key null have no match wherever they are;
/// - neither the join nor the scan stops early, and nothing is volatile: inner rows may be computed more than once;
/// - the scan reads all of its files in this process, in no more partitions than the join has.
pub(crate) fn join_by_chunks(
    join: &HashJoinExec,
    steps: &[Step],
    scan: &FileScanConfig,
    partitions: usize,
) -> Result<(), Reason> {
    if let Some(rows) = join.fetch().or(scan.limit) {
        return Err(Reason::Limit(rows));
    }
    if join.null_aware || join.null_equality() != NullEquality::NullEqualsNothing {
        return Err(Reason::SpecialJoin);
    }
    steps.iter().flat_map(Step::expressions).try_for_each(not_volatile)?;
    join.on().iter().try_for_each(|(left, right)| not_volatile(left).and_then(|()| not_volatile(right)))?;
    join.filter().map_or(Ok(()), |filter| not_volatile(filter.expression()))?;
    if let Some(projection) = scan.file_source().projection() {
        projection.iter().try_for_each(|column| not_volatile(&column.expr))?;
    }
    if scan.file_groups.len() > partitions || scan.output_partitioning.is_some() {
        return Err(Reason::Partitions);
    }
    Ok(())
}

/// Window functions can be computed chunk by chunk, from a scan over `steps` up to the first of `nodes`, if nothing is
/// volatile, the scan does not stop early and reads all of its files in this process, in no more partitions than the
/// result has. By which column they are partitioned, and that chunks are clustered by it, is another matter.
pub(crate) fn window_by_chunks(
    nodes: &[Arc<dyn ExecutionPlan>],
    steps: &[Step],
    scan: &FileScanConfig,
    partitions: usize,
) -> Result<(), Reason> {
    if let Some(rows) = scan.limit {
        return Err(Reason::Limit(rows));
    }
    let above = nodes.iter().filter_map(|node| Step::of(node)).map(|(step, _)| step).collect::<Vec<_>>();
    let expressions = steps.iter().chain(&above).flat_map(Step::expressions);
    expressions.into_iter().try_for_each(not_volatile)?;
    if scan.file_groups.len() > partitions || scan.output_partitioning.is_some() {
        return Err(Reason::Partitions);
    }
    Ok(())
}

/// Whether the function has one result, whatever the order of rows: those of DataFusion's own of which that is known.
fn in_any_order(function: &AggregateFunctionExpr) -> bool {
    let inner = function.fun().inner();
    let known = inner.is::<Count>()
        || inner.is::<Sum>()
        || inner.is::<Avg>()
        || inner.is::<Min>()
        || inner.is::<Max>()
        || inner.is::<BoolAnd>()
        || inner.is::<BoolOr>();
    known && function.order_bys().is_empty() && !function.is_reversed()
}

/// The name and the type of the files' column that this column of the scan is, if chunks may be clustered by it: it is
/// not computed, not one of partitioned folders, of one value a row, and statistics leave out no value but null.
pub(crate) fn clustering_column(scan: &FileScanConfig, column: usize) -> Option<(String, DataType)> {
    let source = scan.file_source();
    if scan.expr_adapter_factory.is_some() {
        return None;
    }
    let table = source.table_schema();
    let at = match source.projection() {
        Some(projection) => projection.iter().nth(column)?.expr.downcast_ref::<Column>()?.index(),
        None => column,
    };
    let field = table.file_schema().fields().get(at)?;
    let of = field.data_type();
    clusters(of).then(|| (field.name().clone(), of.clone()))
}

/// Whether chunks may be clustered by values of the type: one a row, in one order, of which none but null is left out of
/// statistics.
pub(crate) fn clusters(of: &DataType) -> bool {
    !of.is_nested() && !of.is_floating() && !matches!(of, DataType::Dictionary(..)) && compares(of)
}

/// Decimal arithmetic in an expression is tried in 64 bits if nothing in it is volatile: where 64 bits do not hold the
/// values, its operands are evaluated a second time.
pub(crate) fn narrow_arithmetic(expr: &Arc<dyn PhysicalExpr>) -> bool {
    !is_volatile(expr)
}

/// The arguments of an aggregate function may be replaced by equal ones if no order is tied to them.
pub(crate) fn narrow_arguments(function: &AggregateFunctionExpr) -> bool {
    function.order_bys().is_empty() && !function.is_reversed()
}

/// Whether the expression has a value for every row, so that it may be evaluated for rows that other conjuncts rule
/// out: comparisons of columns and constants of one type, and what is made of those. Everything else may divide by
/// zero, overflow or fail to parse.
pub(crate) fn cannot_fail(expr: &Arc<dyn PhysicalExpr>, schema: &Schema) -> bool {
    let simple = |expr: &Arc<dyn PhysicalExpr>| {
        // Decimals only become longer: whatever is cast fits.
        let column = expr.downcast_ref::<CastExpr>().map_or(expr, CastExpr::expr);
        column.is::<Column>() && (std::ptr::eq(column, expr) || widens(column, expr, schema))
            || expr.is::<Literal>()
    };
    let of_one_type = |a: &Arc<dyn PhysicalExpr>, b: &Arc<dyn PhysicalExpr>| matches!((a.data_type(schema), b.data_type(schema)), (Ok(a), Ok(b)) if a == b && compares(&a));
    if let Some(binary) = expr.downcast_ref::<BinaryExpr>() {
        let (left, right) = (binary.left(), binary.right());
        return match binary.op() {
            Operator::And | Operator::Or => cannot_fail(left, schema) && cannot_fail(right, schema),
            Operator::Eq
            | Operator::NotEq
            | Operator::Lt
            | Operator::LtEq
            | Operator::Gt
            | Operator::GtEq
            | Operator::IsDistinctFrom
            | Operator::IsNotDistinctFrom => simple(left) && simple(right) && of_one_type(left, right),
            _ => false,
        };
    }
    if let Some(not) = expr.downcast_ref::<NotExpr>() {
        return cannot_fail(not.arg(), schema);
    }
    if let Some(list) = expr.downcast_ref::<InListExpr>() {
        return list.expr().is::<Column>()
            && list.list().iter().all(|item| item.is::<Literal>() && of_one_type(list.expr(), item));
    }
    let tested = expr.downcast_ref::<IsNullExpr>().map(IsNullExpr::arg);
    tested.or_else(|| expr.downcast_ref::<IsNotNullExpr>().map(IsNotNullExpr::arg)).is_some_and(simple)
}

/// Whether Arrow compares any two values of the type.
fn compares(data_type: &DataType) -> bool {
    match data_type {
        DataType::Boolean | DataType::FixedSizeBinary(_) => true,
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => true,
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => true,
        DataType::Dictionary(_, values) => compares(values),
        other => other.is_primitive(),
    }
}

/// Whether a decimal becomes the same one in more bits.
fn widens(from: &Arc<dyn PhysicalExpr>, to: &Arc<dyn PhysicalExpr>, schema: &Schema) -> bool {
    let types = (from.data_type(schema), to.data_type(schema));
    matches!(types, (Ok(DataType::Decimal64(p, s)), Ok(DataType::Decimal128(q, t))) if (p, s) == (q, t))
}

/// A conjunct can be decided by the statistics of its columns, all of these types, if
///
/// - it cannot fail, so that it need not be evaluated to find out;
/// - it compares with no null, and its columns have one value a row;
/// - its columns are no floating-point numbers: statistics leave NaN out. That does not matter if it asks for null only.
pub(crate) fn decided_by_statistics<'a>(
    conjunct: &Arc<dyn PhysicalExpr>,
    schema: &Schema,
    mut columns: impl Iterator<Item = &'a DataType>,
) -> bool {
    let asks_for_null_only = conjunct.is::<IsNotNullExpr>();
    cannot_fail(conjunct, schema)
        && !mentions_null(conjunct)
        && columns.all(|of| !of.is_nested() && (asks_for_null_only || !of.is_floating()))
}

fn mentions_null(conjunct: &Arc<dyn PhysicalExpr>) -> bool {
    let mut found = false;
    let walked = conjunct.apply(|expr| {
        found |= expr.downcast_ref::<Literal>().is_some_and(|literal| literal.value().is_null());
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    });
    found || walked.is_err()
}

/// Whether the bounds of a leaf column are there and in the order in which its values compare. Bounds in another order
/// are not trusted: INT96, and the deprecated fields of old writers for all but signed integers. Bounds that are
/// truncated are bounds all the same.
pub(crate) fn bounds_in_order(row_group: &RowGroupMetaData, leaf: usize) -> bool {
    let column = row_group.column(leaf);
    let Some(statistics) = column.statistics() else { return false };
    let integer = matches!(column.column_type(), PhysicalType::INT32 | PhysicalType::INT64);
    match column.column_descr().sort_order() {
        SortOrder::UNDEFINED => false,
        _ if column.column_type() == PhysicalType::INT96 => false,
        SortOrder::SIGNED if integer => true,
        _ => !statistics.is_min_max_deprecated(),
    }
}

/// A column is decoded to 64 bits if its type has at most 18 digits and the file stores it as an integer of at most 64
/// bits. A file that stores longer values, whatever type it declares, gives all their bits.
pub(crate) fn short_decimal(data_type: &DataType, stored: &StoredType) -> bool {
    matches!(data_type, DataType::Decimal128(precision, _) if *precision <= DECIMAL64_MAX_PRECISION)
        && stored.is_primitive()
        && matches!(stored.get_physical_type(), PhysicalType::INT32 | PhysicalType::INT64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_is_told_by_its_name_and_its_store_not_shown() {
        struct Store;
        impl fmt::Debug for Store {
            fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
                panic!("all files would be shown")
            }
        }
        #[derive(Debug)]
        #[expect(dead_code, reason = "shown")]
        struct DefaultParquetFileReaderFactory {
            store: Arc<Store>,
        }
        #[derive(Debug)]
        struct Other;
        assert_eq!(type_name(&DefaultParquetFileReaderFactory { store: Arc::new(Store) }), KNOWN_READERS[1]);
        assert_eq!(type_name(&Arc::new(Other)), "Other");
    }
}
