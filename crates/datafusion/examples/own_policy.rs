//! A custom sharing policy for SQL: reads for the scan with the least data left.
//!
//! `cargo run --release -p coscan-datafusion --example own_policy`

use coscan_core::policy::{Among, LoadChoice, Policy, SharingPolicy};
use coscan_core::scan::Scan;
use coscan_core::sharing::candidates::{first_unsupplied, least_wanted};
use coscan_core::state::State;
use coscan_core::{ChunkNo, Victims};
use coscan_datafusion::CoscanContext;

#[derive(Clone, Debug, Default)]
struct LeastLeftFirst;

impl SharingPolicy for LeastLeftFirst {
    fn choose_chunk(&mut self, state: &State, scan: &Scan) -> Option<ChunkNo> {
        least_wanted(state, scan)
    }

    fn urgency(&self, _state: &State, scan: &Scan) -> i128 {
        -i128::from(scan.chunks_needed())
    }

    fn position(&self, _scan: &Scan) -> ChunkNo {
        ChunkNo(0)
    }

    fn serves_in_sequence(&self) -> bool {
        false
    }

    fn choose_load(&mut self, state: &State, among: Among) -> Option<LoadChoice> {
        let mut scans: Vec<&Scan> = state.scans().filter(|scan| among.admits(state, scan)).collect();
        scans.sort_by_key(|scan| scan.chunks_needed());
        let choice = |scan| Some(LoadChoice::own(scan, first_unsupplied(state, scan, ChunkNo(0))?));
        scans.into_iter().find_map(choice)
    }

    fn choose_victims(&mut self, state: &State, victims: &mut Victims<'_>) {
        victims.add_all(state.recency().oldest_unwanted().chain(state.recency().oldest()));
    }
}

#[tokio::main]
async fn main() -> datafusion::common::Result<()> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("numbers.parquet").display().to_string();
    let coscan = CoscanContext::builder()
        .own_policy(Policy::new("least-left-first", LeastLeftFirst::default))
        .set("small_table_bytes", "0")
        .build()?;
    let numbers = format!("COPY (SELECT value FROM generate_series(1, 3000000)) TO '{path}'");
    coscan.sql(&numbers).await?.collect().await?;
    coscan.register_parquet("numbers", &path).await?;
    let queries = ["SELECT sum(value) FROM numbers", "SELECT max(value) FROM numbers WHERE value < 1000000"];
    let both = queries.map(|sql| async { coscan.sql(sql).await?.show().await });
    futures::future::try_join_all(both).await?;
    println!("read under {}: {:?}", coscan.engine.policy(), coscan.engine.stats());
    Ok(())
}
