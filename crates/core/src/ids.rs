//! Identifiers: integers with a type each, so that a chunk number cannot be used as a column.
//!
//! The host names tables and scans, the core names loads. Chunks, columns, pages and workers are positions
//! counted from zero.

use coscan_base::identifier;

identifier!(
    /// A table, named by the host; never used twice.
    TableId(u32), "t"
);
identifier!(
    /// A store that tables are on (a device, a server), named by the host.
    StoreNo(u32), "s"
);
identifier!(
    /// A registered scan, named by the host; never used twice.
    ScanId(u64), "q"
);
identifier!(
    /// One of the workers of a scan, counted from zero.
    WorkerNo(u32), "w"
);
identifier!(
    /// A chunk's position in its table, counted from zero.
    ChunkNo(u32), "c"
);
identifier!(
    /// A column's position in its table, counted from zero. A row-storage table has column 0 only.
    ColumnNo(u32), "col"
);
identifier!(
    /// A page's position in its column, counted from zero.
    PageNo(u32), "p"
);
identifier!(
    /// One read in flight, named by the core; never used twice.
    LoadId(u64), "l"
);
