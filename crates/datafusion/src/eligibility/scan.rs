//! Conditions of cooperative scans, of filters in scans, and of decoding to fewer bits.

use std::fmt;

use datafusion::arrow::datatypes::{DECIMAL64_MAX_PRECISION, DataType};
use datafusion::datasource::physical_plan::{FileScanConfig, FileSource, ParquetSource};
use datafusion::parquet::basic::Type as PhysicalType;
use datafusion::parquet::schema::types::Type as StoredType;
use datafusion::physical_expr::equivalence::EquivalenceClass;
use datafusion::physical_expr::expressions::DynamicFilterTracking;
use datafusion::physical_expr::{ConstExpr, EquivalenceProperties, LexOrdering};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::filter::FilterExec;

use super::reason::{Reason, not_volatile};

/// Reader types that read only the bytes of the file in its store.
const KNOWN_READERS: [&str; 3] =
    ["CachedParquetFileReaderFactory", "DefaultParquetFileReaderFactory", "FooterReaders"];

/// A scan of Parquet files becomes cooperative if it reads only the files' bytes.
///
/// A table below `small_table_bytes` is not worth the bookkeeping, unless a join may filter the scan: the
/// rest of a small table often filters a large one. `None` if the caller has checked the size.
pub(crate) fn scan(config: &FileScanConfig, small_table_bytes: Option<u64>) -> Result<(), Reason> {
    let Some(source) = config.file_source().downcast_ref::<ParquetSource>() else { return Ok(()) };
    if !source.table_schema().virtual_columns().is_empty() {
        return Err(Reason::VirtualColumns);
    }
    reads_files_only(source)?;
    let bytes = bytes(config);
    match small_table_bytes {
        Some(small) if bytes < small && !has_dynamic_filter(source) => Err(Reason::SmallTable(bytes)),
        _ => Ok(()),
    }
}

/// Checks that a scan reads the bytes of its files as they are in their store.
pub(crate) fn reads_files_only(source: &ParquetSource) -> Result<(), Reason> {
    let crypto = &source.table_parquet_options().crypto;
    if crypto.file_decryption.is_some() || crypto.factory_id.is_some() {
        return Err(Reason::Encryption);
    }
    // A factory of another type may read other data. Only its name tells its type.
    match source.parquet_file_reader_factory() {
        Some(factory) if !KNOWN_READERS.contains(&type_name(factory).as_str()) => Err(Reason::CustomReader),
        _ => Ok(()),
    }
}

/// Returns whether joins or sorts above fill a filter of the scan during execution.
fn has_dynamic_filter(source: &ParquetSource) -> bool {
    source.filter().is_some_and(|filter| DynamicFilterTracking::classify(&filter).contains_dynamic_filter())
}

/// Returns the type's name, with which its `Debug` text begins. The rest of the text is not generated: a
/// factory shows its store, and a store in memory shows the bytes of all files.
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
    // The error ends the writing after the name.
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
/// - Neither stops early: a limit of the scan applies before the filter, a limit of the filter after it.
/// - Nothing is volatile. The filter may use computed columns of the scan. They are then computed a second
///   time for the filter, and the scan computes them for fewer rows.
/// - The filter does not change during execution: the operator that fills such a filter decides where it is
///   evaluated.
///
/// The translation to the table's columns checks that the scan can evaluate all of it. [`tells_as_much`] is
/// checked with the finished scan.
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

/// The scan must declare the properties of the filter on which the plan above relies. Windows, joins and
/// aggregations were chosen for constants, equal columns and orders, some of which only the filter derives,
/// from statistics.
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

/// A column is decoded to 64 bits if its type has at most 18 digits and the file stores it as an integer of
/// at most 64 bits. A file that stores longer values is decoded with all their bits, whatever type it
/// declares.
pub(crate) fn short_decimal(data_type: &DataType, stored: &StoredType) -> bool {
    matches!(data_type, DataType::Decimal128(precision, _) if *precision <= DECIMAL64_MAX_PRECISION)
        && stored.is_primitive()
        && matches!(stored.get_physical_type(), PhysicalType::INT32 | PhysicalType::INT64)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

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
