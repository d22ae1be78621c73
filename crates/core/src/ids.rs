//! Names of things: small integers with a type each, so that a chunk number cannot pass for a column.
//!
//! Tables, scans and loads are named by whoever creates them: tables and scans by the host, loads by
//! the core. Chunks, columns, pages and workers are positions counted from zero.

use std::fmt;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident($inner:ty), $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub $inner);

        impl $name {
            /// The number as an index.
            pub const fn index(self) -> usize {
                self.0 as usize
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "{}"), self.0)
            }
        }
    };
}

id!(
    /// A table, named by the host; never used twice.
    TableId(u32), "t"
);
id!(
    /// A store that tables are on (a device, a server), named by the host.
    StoreNo(u32), "s"
);
id!(
    /// A registered scan, named by the host; never used twice.
    ScanId(u64), "q"
);
id!(
    /// One of the workers of a scan, counted from zero.
    WorkerNo(u32), "w"
);
id!(
    /// A chunk's position in its table, counted from zero.
    ChunkNo(u32), "c"
);
id!(
    /// A column's position in its table, counted from zero. A row-storage table has column 0 only.
    ColumnNo(u32), "col"
);
id!(
    /// A page's position in its column, counted from zero.
    PageNo(u32), "p"
);
id!(
    /// One read in flight, named by the core; never used twice.
    LoadId(u64), "l"
);
