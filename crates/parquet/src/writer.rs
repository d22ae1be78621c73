//! Programs that write Parquet, and the known errors in their statistics.

use parquet::basic::Type;
use parquet::schema::types::ColumnDescriptor;

use crate::order::ValueOrder;

/// The program that wrote a file, as the file names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Writer {
    /// In lower case; empty if the file does not name it.
    application: String,
    /// Major, minor and patch; `None` if the file does not state it.
    version: Option<[u32; 3]>,
}

impl Writer {
    /// Reads `created_by`, which is `application version 1.2.3 (build ..)` for most writers.
    pub(crate) fn parse(created_by: Option<&str>) -> Writer {
        let text = created_by.unwrap_or_default().trim().to_ascii_lowercase();
        let (application, rest) = text.split_once(" version ").unwrap_or_else(|| {
            // ClickHouse v25.3.1.1: the version is the second word.
            text.split_once(' ').filter(|(_, rest)| version(rest).is_some()).unwrap_or((&text, ""))
        });
        Writer { application: application.to_owned(), version: version(rest) }
    }

    /// Returns whether the file is by this application in an earlier version than `version`. An unknown
    /// version counts as an old one.
    fn is_before(&self, application: &str, version: [u32; 3]) -> bool {
        self.application == application && self.version.is_none_or(|own| own < version)
    }

    /// Returns whether this writer may have miscounted the nulls of this column.
    ///
    /// - Arrow C++ before 6 counts no nulls of dictionaries, which it uses for byte arrays (ARROW-12513).
    /// - Arrow2 counts the nulls of a dictionary's values instead of its keys (arrow2, pull request 1414).
    pub(crate) fn miscounts_nulls(&self, column: &ColumnDescriptor, nulls: u64) -> bool {
        let may_be_dictionary = column.physical_type() == Type::BYTE_ARRAY && nulls == 0;
        may_be_dictionary && self.is_before("parquet-cpp-arrow", [6, 0, 0])
            || self.application.starts_with("arrow2")
    }

    /// Returns whether this writer's bounds may be wrong in the order of these values.
    ///
    /// - parquet-mr before 1.8 takes bounds from reused buffers (PARQUET-251), and before 1.10 compares
    ///   everything except signed numbers wrongly (PARQUET-1025). So does parquet-cpp before 1.3, which
    ///   before 1.5 also lets NaN spoil bounds (PARQUET-1246).
    /// - Arrow C++ before 4 (PARQUET-1655), ClickHouse before 25.8 and polars, which states no version,
    ///   compare decimals as unsigned bytes.
    pub(crate) fn misorders(&self, order: ValueOrder) -> bool {
        let signed = order.is_that_of_deprecated_fields();
        let decimals = order == ValueOrder::SignedBytes;
        !signed && (self.is_before("parquet-mr", [1, 10, 0]) || self.is_before("parquet-cpp", [1, 3, 0]))
            || order.is_floating() && self.is_before("parquet-cpp", [1, 5, 0])
            || decimals && self.is_before("parquet-cpp", [u32::MAX, 0, 0])
            || decimals && self.is_before("parquet-cpp-arrow", [4, 0, 0])
            || decimals && self.is_before("clickhouse", [25, 8, 0])
            || decimals && self.application.starts_with("polars")
    }
}

/// The first three numbers of a version; missing ones are 0.
fn version(text: &str) -> Option<[u32; 3]> {
    let digits = text.trim_start().trim_start_matches('v');
    let end = digits.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(digits.len());
    let mut numbers = digits[..end].split('.').map(|number| number.parse().ok());
    let first = numbers.next()??;
    let mut next = || numbers.next().flatten().unwrap_or(0);
    Some([first, next(), next()])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writers_name_themselves_in_many_ways() {
        let parsed = |text: &str| {
            let writer = Writer::parse(Some(text));
            (writer.application, writer.version)
        };
        let is = |application: &str, version| (application.to_owned(), version);
        assert_eq!(parsed("parquet-mr version 1.8.1 (build 4aba4d)"), is("parquet-mr", Some([1, 8, 1])));
        assert_eq!(parsed("parquet-mr version 1.5.0-cdh5.7.1"), is("parquet-mr", Some([1, 5, 0])));
        assert_eq!(parsed("parquet-cpp-arrow version 4.0.1"), is("parquet-cpp-arrow", Some([4, 0, 1])));
        assert_eq!(
            parsed("parquet-cpp-arrow version 22.0.0-SNAPSHOT"),
            is("parquet-cpp-arrow", Some([22, 0, 0]))
        );
        assert_eq!(parsed("parquet-mr"), is("parquet-mr", None));
        assert_eq!(parsed("ClickHouse v25.3.2.39"), is("clickhouse", Some([25, 3, 2])));
        assert_eq!(parsed("Polars"), is("polars", None));
        let arrow2 = "Arrow2 - Native Rust implementation of Arrow";
        assert_eq!(parsed(arrow2), is(&arrow2.to_lowercase(), None));
        assert_eq!(parsed("impala version 2.9"), is("impala", Some([2, 9, 0])));
        assert_eq!(parsed("x version 99999999999"), is("x", None));
        assert_eq!(Writer::parse(None), Writer { application: String::new(), version: None });
    }

    #[test]
    fn versions_without_a_known_error_are_believed() {
        let misorders = |created_by: &str, order| Writer::parse(Some(created_by)).misorders(order);
        assert!(misorders("parquet-mr version 1.9.0 (build x)", ValueOrder::Bytes));
        assert!(misorders("parquet-mr", ValueOrder::Unsigned32), "a version that is not known");
        assert!(!misorders("parquet-mr version 1.9.0 (build x)", ValueOrder::Signed64));
        assert!(!misorders("parquet-mr version 1.10.0 (build x)", ValueOrder::Bytes));
        assert!(misorders("Polars", ValueOrder::SignedBytes) && !misorders("Polars", ValueOrder::Bytes));
        assert!(misorders("ClickHouse v25.7.1.1", ValueOrder::SignedBytes));
        assert!(!misorders("ClickHouse v25.8.1.1", ValueOrder::SignedBytes));
        assert!(!misorders("parquet-cpp-arrow version 22.0.0", ValueOrder::SignedBytes));
        assert!(!misorders("parquet-rs version 59.3.2", ValueOrder::Bytes));
    }
}
