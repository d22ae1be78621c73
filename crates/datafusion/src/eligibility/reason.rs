//! Reasons to leave a node of a plan to DataFusion.

use std::fmt;
use std::sync::Arc;

use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr_common::physical_expr::is_volatile;

/// The reason to leave a node of a plan to DataFusion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The scan wants row numbers or other columns that the reader generates.
    VirtualColumns,
    /// Its files are encrypted.
    Encryption,
    /// It has a reader of its own.
    CustomReader,
    /// Its files have fewer bytes than `coscan.small_table_bytes`.
    SmallTable(u64),
    /// The scan or the filter stops after this many rows. A filter at another place would change the
    /// selection.
    Limit(usize),
    /// An expression has another value each time it is evaluated.
    Volatile(String),
    /// The filter changes while the query runs.
    DynamicFilter,
    /// The scan cannot evaluate all of the filter.
    NotPushable,
    /// The filter declares more properties than the scan would: constants, equal columns or an order.
    WeakerProperties,
    /// The aggregation has properties beyond its keys and functions.
    SpecialAggregation,
    /// The result of this function depends on the order of rows.
    OrderedFunction(String),
    /// The join stops early, or nulls match or decide about matches.
    SpecialJoin,
    /// The scan emits rows to fewer partitions than planned, or each partition in another process.
    Partitions,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::VirtualColumns => f.write_str("it has virtual columns"),
            Reason::Encryption => f.write_str("its files are encrypted"),
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

/// Fails if the expression has another value each time it is evaluated.
pub(crate) fn not_volatile(expr: &Arc<dyn PhysicalExpr>) -> Result<(), Reason> {
    if is_volatile(expr) { Err(Reason::Volatile(expr.to_string())) } else { Ok(()) }
}
