//! The tables of TPC-H: their names, row counts, and rows in pieces.
//!
//! A piece is one of `n` contiguous parts of a table that `tpchgen` can generate separately. Pieces become row
//! groups. The text of the comments comes from a pool of 300 MB that is made once per process.

use std::fmt;

use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatchReader;
use clap::ValueEnum;
use tpchgen::generators::{
    CustomerGenerator, LineItemGenerator, NationGenerator, OrderGenerator, PartGenerator, PartSuppGenerator,
    RegionGenerator, SupplierGenerator,
};
use tpchgen_arrow::{
    CustomerArrow, LineItemArrow, NationArrow, OrderArrow, PartArrow, PartSuppArrow, RegionArrow,
    SupplierArrow,
};

/// A table of TPC-H.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
#[value(rename_all = "lower")]
pub enum Table {
    Customer,
    Lineitem,
    Nation,
    Orders,
    Part,
    Partsupp,
    Region,
    Supplier,
}

/// Lines of an order, on average.
const LINES_PER_ORDER: u64 = 4;
/// Suppliers of a part.
const SUPPLIERS_PER_PART: u64 = 4;

impl Table {
    /// All eight.
    pub const ALL: [Table; 8] = [
        Table::Customer,
        Table::Lineitem,
        Table::Nation,
        Table::Orders,
        Table::Part,
        Table::Partsupp,
        Table::Region,
        Table::Supplier,
    ];

    /// Number of units at whose borders the table can be cut: orders for lineitem, parts for partsupp, 1 for tables
    /// of fixed size, rows for the others.
    pub fn units(self, scale_factor: f64) -> u64 {
        let units = match self {
            Table::Customer => CustomerGenerator::calculate_row_count(scale_factor, 1, 1),
            Table::Lineitem | Table::Orders => OrderGenerator::calculate_row_count(scale_factor, 1, 1),
            Table::Part | Table::Partsupp => PartGenerator::calculate_row_count(scale_factor, 1, 1),
            Table::Supplier => SupplierGenerator::calculate_row_count(scale_factor, 1, 1),
            Table::Nation | Table::Region => 1,
        };
        units.max(1) as u64
    }

    /// Approximate number of rows. It is exact for all tables but lineitem, whose orders have 1 to 7 lines.
    pub fn rows(self, scale_factor: f64) -> u64 {
        match self {
            Table::Nation => 25,
            Table::Region => 5,
            Table::Lineitem => self.units(scale_factor) * LINES_PER_ORDER,
            Table::Partsupp => self.units(scale_factor) * SUPPLIERS_PER_PART,
            _ => self.units(scale_factor),
        }
    }

    /// Bytes of a row in an uncompressed Parquet file, as an upper estimate for the check of disk space.
    pub fn row_bytes(self) -> u64 {
        match self {
            Table::Lineitem => 70,
            Table::Orders => 80,
            Table::Customer | Table::Supplier | Table::Partsupp => 160,
            Table::Part => 80,
            Table::Nation | Table::Region => 200,
        }
    }

    /// The columns.
    pub fn schema(self) -> SchemaRef {
        match self {
            Table::Customer => CustomerArrow::schema_ref(),
            Table::Lineitem => LineItemArrow::schema_ref(),
            Table::Nation => NationArrow::schema_ref(),
            Table::Orders => OrderArrow::schema_ref(),
            Table::Part => PartArrow::schema_ref(),
            Table::Partsupp => PartSuppArrow::schema_ref(),
            Table::Region => RegionArrow::schema_ref(),
            Table::Supplier => SupplierArrow::schema_ref(),
        }
    }

    /// The rows of piece `piece` of `pieces`, counted from zero.
    pub fn piece(self, scale_factor: f64, piece: u32, pieces: u32) -> Box<dyn RecordBatchReader> {
        let (part, parts) = (piece as i32 + 1, pieces as i32);
        match self {
            Table::Customer => {
                Box::new(CustomerArrow::new(CustomerGenerator::new(scale_factor, part, parts)))
            }
            Table::Lineitem => {
                Box::new(LineItemArrow::new(LineItemGenerator::new(scale_factor, part, parts)))
            }
            Table::Nation => Box::new(NationArrow::new(NationGenerator::new(scale_factor, part, parts))),
            Table::Orders => Box::new(OrderArrow::new(OrderGenerator::new(scale_factor, part, parts))),
            Table::Part => Box::new(PartArrow::new(PartGenerator::new(scale_factor, part, parts))),
            Table::Partsupp => {
                Box::new(PartSuppArrow::new(PartSuppGenerator::new(scale_factor, part, parts)))
            }
            Table::Region => Box::new(RegionArrow::new(RegionGenerator::new(scale_factor, part, parts))),
            Table::Supplier => {
                Box::new(SupplierArrow::new(SupplierGenerator::new(scale_factor, part, parts)))
            }
        }
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Table::Customer => "customer",
            Table::Lineitem => "lineitem",
            Table::Nation => "nation",
            Table::Orders => "orders",
            Table::Part => "part",
            Table::Partsupp => "partsupp",
            Table::Region => "region",
            Table::Supplier => "supplier",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_add_up_to_the_table() {
        for table in [Table::Lineitem, Table::Partsupp, Table::Supplier, Table::Region] {
            let count = |pieces: u32| -> usize {
                let rows = |piece| table.piece(0.001, piece, pieces).map(|batch| batch.unwrap().num_rows());
                (0..pieces).flat_map(rows).sum()
            };
            let whole = count(1);
            if table != Table::Region {
                assert_eq!(count(3), whole, "{table}");
            }
            if table == Table::Lineitem {
                assert_eq!(whole, 6005);
            } else {
                assert_eq!(whole as u64, table.rows(0.001), "{table}");
            }
        }
    }
}
