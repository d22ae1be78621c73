//! The papers, and their sentences behind the rows of the scoreboard.
//!
//! Rows of scenario files have their sentences in the file or made of the paper's table (`judge`). All others
//! have them here, by the beginning of their quantity.

/// A paper whose experiments are reproduced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Paper {
    /// Cooperative Scans, VLDB 2007.
    Scans2007,
    /// Cooperative Scans, CWI INS-E0411, 2004.
    Scans2004,
    /// Chou & DeWitt, 1985.
    Dbmin1985,
    /// Lachesis, VLDB 2003.
    Lachesis2003,
    /// Sarawagi & Stonebraker, VLDB 1996.
    SlowMedia1996,
}

impl Paper {
    /// All papers, in the order of the scoreboard.
    pub const ALL: [Paper; 5] =
        [Paper::Scans2004, Paper::Scans2007, Paper::Dbmin1985, Paper::Lachesis2003, Paper::SlowMedia1996];

    /// The paper of an experiment, by the beginning of its name.
    pub fn of(experiment: &str) -> Option<Paper> {
        Self::ALL.into_iter().find(|paper| experiment.starts_with(paper.prefix()))
    }

    fn prefix(self) -> &'static str {
        match self {
            Paper::Scans2007 => "scan07",
            Paper::Scans2004 => "scan04",
            Paper::Dbmin1985 => "dbmin",
            Paper::Lachesis2003 => "lachesis",
            Paper::SlowMedia1996 => "slow-media",
        }
    }

    /// Authors or name, and year.
    pub fn title(self) -> &'static str {
        match self {
            Paper::Scans2007 => "Cooperative Scans 2007",
            Paper::Scans2004 => "Cooperative Scans 2004",
            Paper::Dbmin1985 => "Chou & DeWitt 1985",
            Paper::Lachesis2003 => "Lachesis 2003",
            Paper::SlowMedia1996 => "Sarawagi & Stonebraker 1996",
        }
    }
}

/// The paper's sentence behind a row that has none of its own.
pub(crate) fn sentence(experiment: &str, quantity: &str) -> &'static str {
    let matches =
        |(of, beginning, _): &&(&str, &str, &str)| *of == experiment && quantity.starts_with(beginning);
    SENTENCES.iter().find(matches).map_or("", |(_, _, sentence)| sentence)
}

const SIZES: &str = "The optimal bandwidth of the IDE drive is reached at a chunk size of 4MB, and for the SCSI drive \
    this is 8MB. [Of the 8-drive RAID-5 32 MB.]";
const SHARING_GROWS: &str =
    "for each of the algorithms, the throughput increases as the degree of data sharing increases";
const TRAFFIC: &str = "On average, the improvement for the Light traffic and Heavy traffic scenarios was 21% (or 1.3 x \
    speedup) and 33% (1.5 x speedup) respectively.";
const SHORE_TRAFFIC: &str = "The average improvement for the four TPC-H queries under the Light traffic and Heavy traffic \
    scenarios was 14% (or 1.2 x speedup) and 32% (1.5 x speedup) respectively.";
const ALIGNED: &str = "the efficiency of a track-aligned random access (0.73, or 82% of the maximum) is higher than that of \
    an unaligned access for a track-sized request";
const TAPE: &str = "On the tape-jukebox, the total time with PREFETCH is about one-fifth of NOPREFETCH while REORDER is \
    one-seventh of PREFETCH.";
const OPTICAL: &str = "On the MO-jukebox, the total time with PREFETCH is about one-third of NOPREFETCH and REORDER is about \
    one-third of PREFETCH.";
const OVERHEAD: &str = "The total overhead is thus measured to be typically less than 30 milliseconds per subquery and less \
    than 1% of the total execution time.";
const OVERHEAD_GROWS: &str = "The overhead per subquery increases only at a rate of 2 millisecond per additional user and \
    less than 1/4th millisecond per additional fragment.";

/// Experiment, beginning of the quantity, sentence; the first match counts.
const SENTENCES: &[(&str, &str, &str)] = &[
    (
        "scan04-chunked-io",
        "RAID-0 of",
        "Table 3: RAID-0, pages X / X at a time, chunks 1 / 1 with bandwidth X / X",
    ),
    (
        "scan04-chunked-io",
        "RAID-1 of",
        "Table 3: RAID-1, pages X / X/2 at a time, chunks 2 / 1 with bandwidth X/2 / X/2",
    ),
    ("scan04-chunked-io", "RAID-5 of 8: page", "Table 3: RAID-5, pages X / X/2 at a time"),
    ("scan04-chunked-io", "RAID-5 of 8: chunk r", "Table 3: RAID-5, chunks 1 / 1 with bandwidth X-1 / X-1"),
    ("scan04-chunked-io", "RAID-5 of 8: chunk w", "Table 3: RAID-5, chunks 1 / 1 with bandwidth X-1 / X-1"),
    ("scan04-chunked-io", "RAID-5 of 8: bandwidth", "Table 3: RAID-5, chunks 1 / 1 with bandwidth X-1 / X-1"),
    (
        "scan04-chunked-io",
        "RAID-5 of 8, one page at a time: pages",
        "about a half percent of selected pages (i.e. about 5 8KB pages from the 8MB chunk)",
    ),
    ("scan04-chunked-io", "desktop disk: ", SIZES),
    ("scan04-chunked-io", "server disk: chunk", SIZES),
    ("scan04-chunked-io", "server disk: share of streaming", SIZES),
    ("scan04-chunked-io", "RAID-5 of 8: share of streaming", SIZES),
    (
        "scan04-chunked-io",
        "",
        "page fetch costs quickly surpass sequential chunk access cost, in the case of RAID and SCSI disks well before 0.1% \
         of selected tuples",
    ),
    (
        "scan07-fig2",
        "",
        "formula 1: the probability of finding some useful data in the randomly-filled buffer",
    ),
    (
        "scan07-fig8",
        "",
        "even with the largest tested number of chunks, the scheduling overhead in the worst case does not exceed 1% of the \
         entire execution time",
    ),
    ("dbmin-throughput", "query I: ", "Table 2: query I, CPU .53 s, 17 disk operations, hot set 3"),
    ("dbmin-throughput", "query II: ", "Table 2: query II, CPU .67 s, 99 disk operations, hot set 3"),
    ("dbmin-throughput", "query III: ", "Table 2: query III, CPU 2.95 s, 53 disk operations, hot set 5"),
    ("dbmin-throughput", "query IV: ", "Table 2: query IV, CPU 3.09 s, 120 disk operations, hot set 5"),
    ("dbmin-throughput", "query V: ", "Table 2: query V, CPU 3.47 s, 55 disk operations, hot set 17"),
    ("dbmin-throughput", "query VI: ", "Table 2: query VI, CPU 3.50 s, 138 disk operations, hot set 24"),
    (
        "dbmin-throughput",
        "dbmin ahead of",
        "as the number of concurrent queries increased to 8 or more, DBMIN provided more throughput than the hot set \
         algorithm by 7 to 13% and the WS algorithm by 25 to 45%",
    ),
    (
        "dbmin-throughput",
        "cases of 1 to 4",
        "Before severe thrashing occurred, CLOCK was generally better than both RAND and FIFO.",
    ),
    ("dbmin-throughput", "policies and mixes", SHARING_GROWS),
    (
        "dbmin-throughput",
        "full sharing, 32 queries, M3",
        "For query mix M3, however, the performance of the different algorithms again diverged.",
    ),
    (
        "dbmin-throughput",
        "full sharing",
        "RAND and FIFO performed slightly worse than other algorithms due to their inherent deficiency in capturing \
         locality of reference",
    ),
    (
        "dbmin-throughput",
        "simple policies above",
        "With load control, every simple algorithm in the experiments out-performed the WS algorithm.",
    ),
    (
        "dbmin-throughput",
        "simple policies that",
        "With load control, every simple algorithm in the experiments out-performed the WS algorithm.",
    ),
    (
        "dbmin-throughput",
        "clock under",
        "The performance of the CLOCK algorithm with load control came very close to that of the hot set algorithm.",
    ),
    (
        "dbmin-throughput",
        "widest",
        "the length of a batch was extended to ensure that all confidence intervals were within 5% of the mean",
    ),
    ("dbmin-throughput", "", "The presence of thrashing for the three simple algorithms is evident."),
    (
        "lachesis",
        "atlas10k.",
        "Table 1: Quantum Atlas 10K, 1999, 10000 rpm, 0.8 ms, 5.0 ms, 334-224, 60126, 6, 9 GB",
    ),
    (
        "lachesis",
        "atlas10k3.",
        "Table 1: Maxtor Atlas 10K III, 2002, 10000 rpm, 0.6 ms, 4.5 ms, 686-396, 124088, 4, 36 GB",
    ),
    ("lachesis", "c2247.", "Table 1: HP C2247, 10 ms, 96-56, 25649, 1 GB"),
    ("lachesis", "atlas3.", "Table 1: Quantum Atlas III, 8.5 ms, 256-168, 80570, 9 GB"),
    ("lachesis", "ultrastar18lzx.", "Table 1: IBM Ultrastar 18LZX, 5.9 ms, 382-195, 116340, 18 GB"),
    ("lachesis", "cheetahx15.", "Table 1: Seagate Cheetah X15, 3.9 ms, 386-286, 103750, 18 GB"),
    (
        "lachesis",
        "extents.table",
        "small compared to the disk capacity (for example, 990 KB for a 36 GB disk)",
    ),
    ("lachesis", "extents.waste", "with an 8 KB page, internal fragmentation amounts to less than 2%"),
    (
        "lachesis",
        "fig3.mean_seek",
        "The difference between maximum streaming efficiency and track-aligned access is due to an average seek of 2.2 ms.",
    ),
    (
        "lachesis",
        "fig3.unaligned",
        "At point B, the unaligned I/O efficiency catches up [at four times the size]",
    ),
    ("lachesis", "fig3.", ALIGNED),
    ("lachesis", "db2.most_random", "for the Heavy traffic scenario the arrival rate was 150 [per second]"),
    ("lachesis", "db2.q10.time", "queries 4 and 10, whose run times were respectively 4% and 1% longer"),
    (
        "lachesis",
        "db2.q10",
        "The access pattern of query 10 is dominated by runs of 2-4 sequential I/O accesses (sized at EXTENTSIZE of 768 \
         blocks).",
    ),
    ("lachesis", "db2.gain.alone", "On average, the 22 queries in the workload experienced an 11% speedup."),
    ("lachesis", "db2.gain.", TRAFFIC),
    (
        "lachesis",
        "db2.q9.",
        "queries that include multiple nested joins, such as query 9, benefited much more (i.e., 33% shorter execution \
         time or 1.5 x speedup)",
    ),
    (
        "lachesis",
        "db2.q16.",
        "Query 16 experienced the highest improvement, running 3 times faster in the Heavy traffic scenario.",
    ),
    ("lachesis", "db2.q1.", "1% improvement for queries 1 and 15 and 4% slowdown for query 4"),
    ("lachesis", "db2.q15.", "1% improvement for queries 1 and 15 and 4% slowdown for query 4"),
    ("lachesis", "db2.q4.", "1% improvement for queries 1 and 15 and 4% slowdown for query 4"),
    (
        "lachesis",
        "db2.heavy_over_alone",
        "Under Heavy traffic, the original query I/O times [yielded] an average 2.6 x increase in I/O time compared to No \
         traffic.",
    ),
    ("lachesis", "db2.tpcc", "OLTP workloads (dominated by random I/O) remain unaffected"),
    ("lachesis", "raid5.", "Fig. 6: TPC-H on RAID-5 with stripe units of a track, 25% faster on average"),
    (
        "lachesis",
        "prototype.gain.alone",
        "Lachesis improved run times between 6% and 15% in the No traffic scenario.",
    ),
    ("lachesis", "prototype.gain.", SHORE_TRAFFIC),
    (
        "lachesis",
        "prototype.client",
        "Lachesis-Shore achieved 7% higher maximal throughput (456.7 transactions per minute)",
    ),
    ("lachesis", "prototype.lookup", "In all cases, the difference was less than 1% of the total runtimes."),
    ("slow-media", "one user", "the PREFETCH and REORDER schemes are 20% better than NO-PREFETCH"),
    (
        "slow-media",
        "two users",
        "the total time with REORDER is one-fifteen of NO-PREFETCH and less than one-half of PREFETCH",
    ),
    ("slow-media", "five users: reorder", "REORDER takes almost one-fifth the time taken by PREFETCH"),
    (
        "slow-media",
        "five users: seeks",
        "For PREFETCH almost 80% of the total time is spent in seeks whereas for REORDER the seek cost is negligible.",
    ),
    ("slow-media", "orders", "Fig. 6: REORDER before PREFETCH before NO-PREFETCH"),
    (
        "slow-media",
        "index scans",
        "Table 2: total, transfer, switch and seek time of index scans, in minutes",
    ),
    ("slow-media", "mixed, tape", TAPE),
    ("slow-media", "mixed, optical", OPTICAL),
    (
        "slow-media",
        "mixed, hot set",
        "the transfer time for REORDER was almost one-half of that with PREFETCH for the skewed dataset",
    ),
    ("slow-media", "mixed: orders", TAPE),
    ("slow-media", "mixed: two drives", "Fig. 7(b): with two drives the schemes are closer than with one"),
    ("slow-media", "overhead: cost", OVERHEAD_GROWS),
    ("slow-media", "overhead", OVERHEAD),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn papers_are_found_by_the_names_of_experiments() {
        assert_eq!(Paper::of("scan07-table2"), Some(Paper::Scans2007));
        assert_eq!(Paper::of("dbmin-throughput"), Some(Paper::Dbmin1985));
        assert_eq!(Paper::of("order-join"), None, "an experiment of coscan");
    }
}
