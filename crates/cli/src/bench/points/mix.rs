//! The queries of `bench points`: scans that read much and compute little, and point queries that arrive
//! independently.
//!
//! The same seed gives the same queries at the same times, under every setting.

use std::collections::BTreeMap;
use std::time::Duration;

use fastrand::Rng;

use crate::bench::workload::{Query, Stream, Table, VERSION, Workload};

/// The keys of orders and lineitem: `min..=max`.
#[derive(Clone, Copy, Debug)]
pub struct Domain {
    pub min: i64,
    pub max: i64,
}

/// Percentages of the keys that scans read.
const SCAN_PERCENTS: [i64; 3] = [25, 50, 100];

/// Streams of scans, all starting at once.
pub fn scans(
    tables: BTreeMap<String, Table>,
    domain: Domain,
    streams: u64,
    queries: u64,
    seed: u64,
) -> Workload {
    let mut rng = Rng::with_seed(seed);
    let stream = |id| {
        let queries = (0..queries).map(|at| scan(format!("{id}.{at}"), domain, &mut rng));
        Stream { id, start_s: 0.0, queries: queries.collect() }
    };
    let streams = (0..streams).map(stream).collect();
    Workload { version: VERSION, name: "points".to_owned(), seed, tables, streams }
}

fn scan(id: String, domain: Domain, rng: &mut Rng) -> Query {
    let keys = domain.max - domain.min + 1;
    let percent = SCAN_PERCENTS[rng.usize(..SCAN_PERCENTS.len())];
    let wanted = (keys * percent / 100).max(1);
    let low = domain.min + rng.i64(0..=keys - wanted);
    let year = rng.u32(1993..=1997);
    let sql = format!(
        "SELECT count(*) AS cnt, sum(l_extendedprice * l_discount) AS revenue, sum(l_quantity) AS quantity \
         FROM lineitem WHERE l_orderkey >= {low} AND l_orderkey < {} \
         AND l_shipdate >= DATE '{year}-01-01' AND l_shipdate < DATE '{}-01-01'",
        low + wanted,
        year + 1
    );
    Query { id, kind: format!("scan-{percent}"), sql }
}

/// An endless sequence of point queries at random times, each for an order or for the lines of one.
pub struct Arrivals {
    rng: Rng,
    domain: Domain,
    rate_per_s: f64,
    at_s: f64,
}

impl Arrivals {
    pub fn new(domain: Domain, rate_per_s: f64, seed: u64) -> Self {
        // A sequence that differs from that of the scans.
        Arrivals { rng: Rng::with_seed(seed ^ 0x706f_696e_7473), domain, rate_per_s, at_s: 0.0 }
    }
}

impl Iterator for Arrivals {
    /// The arrival time after the beginning, and the SQL.
    type Item = (Duration, String);

    fn next(&mut self) -> Option<Self::Item> {
        // Independent arrivals: the times between them have an exponential distribution.
        self.at_s += -(1.0 - self.rng.f64()).ln() / self.rate_per_s;
        let key = self.rng.i64(self.domain.min..=self.domain.max);
        let sql = if self.rng.bool() {
            format!(
                "SELECT l_linenumber, l_partkey, l_quantity, l_extendedprice, l_shipdate, l_shipmode FROM lineitem \
                 WHERE l_orderkey = {key} ORDER BY l_linenumber"
            )
        } else {
            format!(
                "SELECT o_custkey, o_orderstatus, o_totalprice, o_orderdate, o_orderpriority FROM orders \
                 WHERE o_orderkey = {key}"
            )
        };
        Some((Duration::from_secs_f64(self.at_s), sql))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOMAIN: Domain = Domain { min: 1, max: 6_000_000 };

    #[test]
    fn arrivals_have_their_rate_and_the_seed_decides_them() {
        let of = |seed| Arrivals::new(DOMAIN, 50.0, seed);
        let some: Vec<_> = of(3).take(5000).collect();
        assert!(some.windows(2).all(|pair| pair[0].0 <= pair[1].0));
        let rate = 5000.0 / some[4999].0.as_secs_f64();
        assert!((45.0..55.0).contains(&rate), "{rate} per second");
        assert_eq!(some[..100], of(3).take(100).collect::<Vec<_>>());
        assert_ne!(some[0], of(4).next().unwrap());
    }

    #[test]
    fn scans_stay_in_the_domain() {
        let workload = scans(BTreeMap::new(), DOMAIN, 16, 3, 1);
        assert_eq!(workload.query_count(), 48);
        for query in workload.streams.iter().flat_map(|stream| &stream.queries) {
            let number = |after: &str| -> i64 {
                let rest = &query.sql[query.sql.find(after).unwrap() + after.len()..];
                rest.split_whitespace().next().unwrap().parse().unwrap()
            };
            assert!(number("l_orderkey >= ") >= 1 && number("l_orderkey < ") <= 6_000_001, "{}", query.sql);
        }
    }
}
