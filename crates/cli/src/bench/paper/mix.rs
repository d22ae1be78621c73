//! The queries of "Cooperative Scans" (VLDB 2007, section 5) and the streams made of them.
//!
//! FAST is TPC-H Q6 plus a range of l_orderkey: little work per byte. SLOW is TPC-H Q1 with three more sums, without
//! the averages (engines round them differently), plus the range: much work per byte. Each query reads 1, 10, 50 or
//! 100 % of the key domain at a random place. The same seed gives the same queries.

use std::collections::BTreeMap;
use std::fmt;

use fastrand::Rng;

use crate::bench::workload::{Query, Stream, Table, VERSION, Workload};

/// The work of a query on the rows that it reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Work {
    Fast,
    Slow,
}

/// One of the eight kinds of query.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Kind {
    pub work: Work,
    /// The percentage of the key domain that it reads.
    pub percent: u8,
}

impl Kind {
    /// All eight, in the order of the paper's tables.
    pub const ALL: [Kind; 8] = {
        const fn kind(work: Work, percent: u8) -> Kind {
            Kind { work, percent }
        }
        [
            kind(Work::Fast, 1),
            kind(Work::Fast, 10),
            kind(Work::Fast, 50),
            kind(Work::Fast, 100),
            kind(Work::Slow, 1),
            kind(Work::Slow, 10),
            kind(Work::Slow, 50),
            kind(Work::Slow, 100),
        ]
    };
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let work = match self.work {
            Work::Fast => 'F',
            Work::Slow => 'S',
        };
        write!(f, "{work}-{:02}", self.percent)
    }
}

/// The range of keys: `min..=max`.
#[derive(Clone, Copy, Debug)]
pub struct Domain {
    pub min: i64,
    pub max: i64,
}

/// The number of streams, their queries, and the seconds between their starts.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub streams: u64,
    pub queries: u64,
    pub delay_s: f64,
}

/// The paper's workload: every query of every stream is of a random kind.
pub fn mix(table: &Table, domain: Domain, shape: Shape, seed: u64) -> Workload {
    let mut rng = Rng::with_seed(seed);
    let streams = (0..shape.streams).map(|id| {
        let queries = (0..shape.queries).map(|at| {
            let kind = Kind::ALL[rng.usize(..Kind::ALL.len())];
            query(format!("{id}.{at}"), kind, domain, &mut rng)
        });
        let queries = queries.collect();
        Stream { id, start_s: id as f64 * shape.delay_s, queries }
    });
    let name = format!("paper{}x{}", shape.streams, shape.queries);
    workload(name, seed, table, streams.collect())
}

/// One query of the kind, alone. Repetitions read different places.
pub fn alone(table: &Table, domain: Domain, kind: Kind, repetition: u64) -> Workload {
    let mut rng = Rng::with_seed(repetition);
    let queries = vec![query("0.0".to_owned(), kind, domain, &mut rng)];
    workload(format!("alone-{kind}"), repetition, table, vec![Stream { id: 0, start_s: 0.0, queries }])
}

fn workload(name: String, seed: u64, table: &Table, streams: Vec<Stream>) -> Workload {
    let tables = BTreeMap::from([("lineitem".to_owned(), table.clone())]);
    Workload { version: VERSION, name, seed, tables, streams }
}

fn query(id: String, kind: Kind, domain: Domain, rng: &mut Rng) -> Query {
    let keys = domain.max - domain.min + 1;
    let wanted = (keys * i64::from(kind.percent) / 100).max(1);
    let low = domain.min + rng.i64(0..=keys - wanted);
    let sql = match kind.work {
        Work::Fast => fast(low, low + wanted, rng),
        Work::Slow => slow(low, low + wanted, rng),
    };
    Query { id, kind: kind.to_string(), sql }
}

fn fast(low: i64, high: i64, rng: &mut Rng) -> String {
    let year = rng.u32(1993..=1997);
    let discount = rng.u32(2..=9);
    let quantity = rng.u32(24..=25);
    format!(
        "SELECT sum(l_extendedprice * l_discount) AS revenue, count(*) AS cnt FROM lineitem \
         WHERE l_orderkey >= {low} AND l_orderkey < {high} \
         AND l_shipdate >= DATE '{year}-01-01' AND l_shipdate < DATE '{}-01-01' \
         AND l_discount BETWEEN 0.{:02} AND 0.{:02} AND l_quantity < {quantity}",
        year + 1,
        discount - 1,
        discount + 1,
    )
}

fn slow(low: i64, high: i64, rng: &mut Rng) -> String {
    let days = rng.u32(60..=120);
    format!(
        "SELECT l_returnflag, l_linestatus, sum(l_quantity) AS sum_qty, sum(l_extendedprice) AS sum_base, \
         sum(l_extendedprice * (1 - l_discount)) AS sum_disc, \
         sum(l_extendedprice * (1 - l_discount) * (1 + l_tax)) AS sum_charge, \
         sum(l_discount) AS sum_d, sum(l_quantity * l_extendedprice) AS sum_qp, \
         sum(l_extendedprice * l_tax) AS sum_tax, count(*) AS cnt FROM lineitem \
         WHERE l_orderkey >= {low} AND l_orderkey < {high} \
         AND l_shipdate <= DATE '1998-12-01' - INTERVAL '{days}' DAY \
         GROUP BY l_returnflag, l_linestatus ORDER BY l_returnflag, l_linestatus"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOMAIN: Domain = Domain { min: 1, max: 6_000_000 };
    const SHAPE: Shape = Shape { streams: 16, queries: 4, delay_s: 0.5 };

    fn table() -> Table {
        Table { format: "parquet".to_owned(), files: vec!["/lineitem.parquet".into()] }
    }

    fn text(seed: u64) -> String {
        serde_json::to_string(&mix(&table(), DOMAIN, SHAPE, seed)).unwrap()
    }

    #[test]
    fn the_seed_decides_everything() {
        assert_eq!(text(1), text(1));
        assert_ne!(text(1), text(2));
    }

    #[test]
    fn streams_have_their_shape_and_all_kinds_occur() {
        let workload = mix(&table(), DOMAIN, SHAPE, 7);
        assert_eq!(workload.query_count(), 64);
        assert_eq!(workload.streams[3].start_s, 1.5);
        for kind in Kind::ALL {
            let name = kind.to_string();
            assert!(workload.streams.iter().flat_map(|s| &s.queries).any(|q| q.kind == name), "{name}");
        }
    }

    #[test]
    fn a_range_lies_in_the_domain_and_has_its_size() {
        let mut rng = Rng::with_seed(3);
        for kind in Kind::ALL {
            let sql = query("q".to_owned(), kind, DOMAIN, &mut rng).sql;
            let number = |after: &str| -> i64 {
                let rest = &sql[sql.find(after).unwrap() + after.len()..];
                rest.split_whitespace().next().unwrap().parse().unwrap()
            };
            let (low, high) = (number("l_orderkey >= "), number("l_orderkey < "));
            assert!(low >= DOMAIN.min && high <= DOMAIN.max + 1, "{kind}");
            assert_eq!(high - low, 60_000 * i64::from(kind.percent), "{kind}");
        }
    }
}
