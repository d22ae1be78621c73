//! The load of the simulated system: kinds of queries, their mixes, and their sharing of data.
//!
//! The numbers are those of Chou & DeWitt 1985, section 4; the trace strings come from elsewhere.

use std::fmt;

/// The six base queries (Table 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum QueryKind {
    /// Select 1 % of A by a clustered index.
    I,
    /// Select 1 % of B by a non-clustered index.
    II,
    /// Select 2 % of A by a clustered index, join B by a clustered index.
    III,
    /// Select 10 % of A' by a scan, join B by a non-clustered index.
    IV,
    /// Select 3 % of A by a clustered index, join B' by nested loops.
    V,
    /// Select 4 % of A by a clustered index, join A' by hashing.
    VI,
}

impl QueryKind {
    /// All of them, in order.
    pub const ALL: [QueryKind; 6] =
        [QueryKind::I, QueryKind::II, QueryKind::III, QueryKind::IV, QueryKind::V, QueryKind::VI];

    /// The paper's figures for it (Table 2).
    pub const fn in_the_paper(self) -> BaseQuery {
        let (cpu_ms, disk_operations, hot_set_pages) = match self {
            QueryKind::I => (530, 17, 3),
            QueryKind::II => (670, 99, 3),
            QueryKind::III => (2950, 53, 5),
            QueryKind::IV => (3090, 120, 5),
            QueryKind::V => (3470, 55, 17),
            QueryKind::VI => (3500, 138, 24),
        };
        BaseQuery { cpu_ms, disk_operations, hot_set_pages }
    }
}

impl fmt::Display for QueryKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// A row of Table 2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BaseQuery {
    /// Processor time alone.
    pub cpu_ms: u64,
    /// Pages read and written alone.
    pub disk_operations: u32,
    /// Hot set, in pages of 4 KB.
    pub hot_set_pages: u32,
}

/// The frequency of each kind of query (Table 4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mix {
    /// All kinds equally often.
    M1,
    /// I and II half of the time.
    M2,
    /// I and II three quarters of the time.
    M3,
}

impl Mix {
    /// All of them, in order.
    pub const ALL: [Mix; 3] = [Mix::M1, Mix::M2, Mix::M3];

    /// The weight of each kind, in 96ths.
    const fn weights(self) -> [u32; 6] {
        match self {
            Mix::M1 => [16, 16, 16, 16, 16, 16],
            Mix::M2 => [24, 24, 12, 12, 12, 12],
            Mix::M3 => [36, 36, 6, 6, 6, 6],
        }
    }

    /// The frames of the paper's pool for this mix.
    ///
    /// Section 4.1.2 gives the formula 8 sum(p t h) / sum(p t) for it. With the processor times of Table 2 it
    /// yields 99.5, 93.6 and 77.1. The figures say 100, 80 and 60, and those were simulated.
    pub const fn frames(self) -> u32 {
        match self {
            Mix::M1 => 100,
            Mix::M2 => 80,
            Mix::M3 => 60,
        }
    }

    /// Draws a kind.
    pub fn draw(self, rng: &mut fastrand::Rng) -> QueryKind {
        let weights = self.weights();
        let mut left = rng.u32(0..weights.iter().sum());
        let drawn =
            QueryKind::ALL.into_iter().zip(weights).find(|(_, weight)| match left.checked_sub(*weight) {
                Some(rest) => {
                    left = rest;
                    false
                }
                None => true,
            });
        drawn.map_or(QueryKind::VI, |(kind, _)| kind)
    }
}

impl fmt::Display for Mix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// The number of concurrent queries that use one copy of the database (section 4.1.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Sharing {
    /// One: every query has its own copy.
    None,
    /// Two.
    Half,
    /// All.
    Full,
}

impl Sharing {
    /// All of them, in order.
    pub const ALL: [Sharing; 3] = [Sharing::None, Sharing::Half, Sharing::Full];

    /// The copy that the queries of a terminal use. A terminal runs one query after another.
    pub const fn copy_of(self, terminal: u32) -> u32 {
        match self {
            Sharing::None => terminal,
            Sharing::Half => terminal / 2,
            Sharing::Full => 0,
        }
    }

    /// Its name in tables.
    pub const fn as_str(self) -> &'static str {
        match self {
            Sharing::None => "none",
            Sharing::Half => "half",
            Sharing::Full => "full",
        }
    }
}

impl fmt::Display for Sharing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The owner of a query's temporary files: results and hash files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Temporaries {
    /// Every execution has its own, which other queries never use.
    OfExecution,
    /// They are files of the copy, like any others. A record of a trace string names a file by its number,
    /// and a trace string that is played again names the same ones.
    OfCopy,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_papers_formula_for_frames_gives_what_is_said_of_it() {
        for (mix, expected) in [(Mix::M1, 99.5), (Mix::M2, 93.6), (Mix::M3, 77.1)] {
            let rows = QueryKind::ALL.into_iter().zip(mix.weights());
            let terms = rows.map(|(kind, p)| {
                let row = kind.in_the_paper();
                let pt = f64::from(p) * row.cpu_ms as f64;
                (pt * f64::from(row.hot_set_pages), pt)
            });
            let (pth, pt) = terms.fold((0.0, 0.0), |sum, term| (sum.0 + term.0, sum.1 + term.1));
            let frames = 8.0 * pth / pt;
            assert!((frames - expected).abs() < 0.06, "{mix}: {frames}");
        }
    }

    #[test]
    fn kinds_are_drawn_as_often_as_the_mix_says() {
        let mut rng = fastrand::Rng::with_seed(1);
        let mut counts = [0_u32; 6];
        for _ in 0..96_000 {
            counts[Mix::M3.draw(&mut rng) as usize] += 1;
        }
        for (count, weight) in counts.into_iter().zip(Mix::M3.weights()) {
            assert!(count.abs_diff(weight * 1000) < weight * 50, "{counts:?}");
        }
    }

    #[test]
    fn terminals_share_copies() {
        let copies = |sharing: Sharing| [0, 1, 2, 3].map(|terminal| sharing.copy_of(terminal));
        assert_eq!(Sharing::ALL.map(copies), [[0, 1, 2, 3], [0, 0, 1, 1], [0, 0, 0, 0]]);
    }
}
