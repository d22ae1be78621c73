//! Placement of pages on the device. Tables are one after another, in a table column after column, in a
//! column page after page. So a scan in table order reads a row-storage table sequentially, and every column
//! of a column-storage table is a separate region.

use coscan_core::{ColumnNo, PageNo, PartLoad, TableId};

use crate::workload::Table;

/// The first byte of every page of every table.
#[derive(Clone, Debug)]
pub struct Placement {
    tables: Vec<Vec<Column>>,
    bytes: u64,
}

/// A column's region. If all pages but the last have one size, as in most columns, no table is kept.
#[derive(Clone, Debug)]
enum Column {
    Even { base: u64, page_bytes: u64 },
    Uneven { offsets: Vec<u64> },
}

impl Placement {
    /// Lays tables out from the start of the device. Cost: linear in their pages.
    pub fn of(tables: &[Table]) -> Self {
        let mut base = 0;
        let tables = tables.iter().map(|table| {
            let columns = (0..table.layout.column_count()).map(|column| {
                let (region, end) = place(table, ColumnNo(column), base);
                base = end;
                region
            });
            columns.collect()
        });
        let tables = tables.collect();
        Placement { tables, bytes: base }
    }

    /// The byte behind the last page.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The first byte of a part's pages.
    pub fn offset(&self, table: TableId, part: &PartLoad) -> u64 {
        match &self.tables[table.index()][part.column.index()] {
            Column::Even { base, page_bytes } => base + u64::from(part.first_page.0) * page_bytes,
            Column::Uneven { offsets } => offsets[part.first_page.index()],
        }
    }
}

/// A column's region from `base` on, and the byte behind it.
fn place(table: &Table, column: ColumnNo, base: u64) -> (Column, u64) {
    let pages = table.layout.page_count(column);
    let bytes = |page| table.layout.page_bytes(column, PageNo(page));
    let mut end = base;
    let offsets: Vec<u64> = (0..pages)
        .map(|page| {
            let offset = end;
            end += bytes(page);
            offset
        })
        .collect();
    let page_bytes = if pages == 0 { 0 } else { bytes(0) };
    let even = offsets.iter().zip(0u64..).all(|(offset, page)| *offset == base + page * page_bytes);
    let region = if even { Column::Even { base, page_bytes } } else { Column::Uneven { offsets } };
    (region, end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use coscan_core::{ColumnLayout, TableLayout};

    fn part(column: u32, page: u32) -> PartLoad {
        PartLoad { column: ColumnNo(column), first_page: PageNo(page), pages: 1, bytes: 1 }
    }

    #[test]
    fn regions_follow_each_other_without_gaps() {
        let rows = TableLayout::rows([10, 10, 4]).unwrap();
        let columns = vec![ColumnLayout::separate([5, 7]), ColumnLayout::separate([3, 3])];
        let columns = TableLayout::columns(2, columns).unwrap();
        let table = |layout| Table { name: "t".to_owned(), layout };
        let placement = Placement::of(&[table(rows), table(columns)]);
        let at = |t, c, p| placement.offset(TableId(t), &part(c, p));
        assert_eq!(placement.bytes(), 42);
        assert_eq!([at(0, 0, 0), at(0, 0, 1), at(0, 0, 2)], [0, 10, 20]);
        assert_eq!([at(1, 0, 0), at(1, 0, 1)], [24, 29]);
        assert_eq!([at(1, 1, 0), at(1, 1, 1)], [36, 39]);
    }
}
