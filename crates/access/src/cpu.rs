//! Processor time of the operations of access methods: a model of the VAX-11/750 on which the trace strings
//! of Chou & DeWitt 1985 were recorded (section 4.1.1).
//!
//! The paper gives only the total of each of its six queries (Table 2). The costs here are fitted to these
//! totals, with parts that are plausible for a machine of about 0.6 million instructions per second. They are
//! not measurements. Six totals do not determine twelve costs. Only the total of a query is certain; the
//! costs of a scanned tuple, a stored tuple and a search in an index are roughly known.

/// Costs in nanoseconds of processor time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuModel {
    /// Starting a query and ending it.
    pub query_ns: u64,
    /// Opening or creating a file and closing it again.
    pub file_ns: u64,
    /// Finding a page in the buffer pool, fixing it and releasing it.
    pub page_ns: u64,
    /// Returning the next record of a scan.
    pub next_ns: u64,
    /// Evaluating the predicate of a selection on a record.
    pub test_ns: u64,
    /// Comparing two records, each on its page, in the inner loop of nested loops.
    pub compare_ns: u64,
    /// Returning a record by an address that is not the next one.
    pub fetch_ns: u64,
    /// Starting a search in an index: an index scan is opened with the key as its bounds.
    pub search_ns: u64,
    /// Searching one node of an index.
    pub node_ns: u64,
    /// Hashing a key and looking through the records of its page.
    pub hash_ns: u64,
    /// Adding a record to a file, besides its bytes.
    pub store_ns: u64,
    /// Moving one byte of a record that is created or stored.
    pub byte_ns: u64,
}

impl CpuModel {
    /// The processor of the paper.
    pub const VAX_11_750: CpuModel = CpuModel {
        query_ns: 60_000_000,
        file_ns: 48_000_000,
        page_ns: 120_000,
        next_ns: 620_000,
        test_ns: 880_000,
        compare_ns: 18_100,
        fetch_ns: 1_400_000,
        search_ns: 7_200_000,
        node_ns: 520_000,
        hash_ns: 117_000,
        store_ns: 840_000,
        byte_ns: 2_400,
    };
}

impl Default for CpuModel {
    fn default() -> Self {
        CpuModel::VAX_11_750
    }
}
