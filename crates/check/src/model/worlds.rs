//! The worlds of the model check: small enough to be played in all ways, each with its own kinds of trouble.

use coscan_core::registry;
use coscan_trace::{Column, Layout, Runs};

use super::ModelConfig;
use crate::fuzz::{Config, World, WorldScan};

fn scan(columns: &[u32], chunks: Runs) -> WorldScan {
    WorldScan {
        table: 0,
        columns: columns.to_vec(),
        chunks,
        workers: 1,
        in_order: false,
        weight: 1,
        workspace_bytes: 0,
        stops: false,
        matching: Vec::new(),
    }
}

fn world(policy: &str, buffer_bytes: u64, table: Layout, scans: Vec<WorldScan>) -> World {
    let config = Config {
        policy: policy.to_owned(),
        buffer_bytes,
        loads_in_flight_max: 1,
        starved_below: 2,
        ahead_bytes: 0,
        stall_after_ns: 1_000_000,
        workspace_share_percent: 25,
        processors: 1,
        decoded_share_percent: 25,
        tick_ns: 0,
    };
    let (steps, additions) = (Vec::new(), Vec::new());
    World { failure: None, seed: None, steps, config, tables: vec![table], additions, scans }
}

fn model(name: &str, world: World) -> ModelConfig {
    ModelConfig {
        name: name.to_owned(),
        world,
        load_failures_max: 0,
        cancels_max: 0,
        budgets: Vec::new(),
        stalls_max: 1,
        states_max: 20_000_000,
    }
}

/// Row storage, buffer for two of `chunks` chunks, one load in flight.
fn rows(policy: &str, chunks: u32, scans: &[(u32, u32)]) -> World {
    let scans = scans.iter().map(|run| scan(&[0], vec![*run])).collect();
    world(policy, 20, Layout::Rows(vec![10; chunks as usize]), scans)
}

/// Two columns; the chunks of the first share a page, those of the second do not.
fn shared_page(policy: &str, scans: usize) -> World {
    let columns =
        vec![Column::Pages { bytes: vec![6, 6, 6], spans: vec![(0, 2), (1, 3)] }, Column::Parts(vec![4, 4])];
    let mut all = vec![scan(&[0, 1], vec![(0, 2)]), scan(&[0], vec![(0, 2)]), scan(&[1], vec![(1, 2)])];
    all.truncate(scans);
    world(policy, 20, Layout::Columns { chunks: 2, columns }, all)
}

/// The worlds for every policy that are small enough for a test.
pub fn bounded() -> Vec<ModelConfig> {
    registry::sharing().flat_map(|policy| bounded_for(policy.as_str())).collect()
}

fn bounded_for(policy: &str) -> Vec<ModelConfig> {
    let faults = ModelConfig {
        load_failures_max: 1,
        cancels_max: 1,
        ..model("rows-faults", rows(policy, 3, &[(0, 3), (0, 3)]))
    };
    let budget =
        ModelConfig { budgets: vec![10, 20], ..model("rows-budget", rows(policy, 3, &[(0, 3), (1, 3)])) };
    let columns = shared_page(policy, 2);
    let three = ModelConfig { stalls_max: 0, ..model("rows", rows(policy, 3, &[(0, 3), (0, 2), (2, 3)])) };
    vec![three, faults, budget, model("shared-page", columns)]
}

/// Larger worlds for every policy: minutes each.
pub fn large() -> Vec<ModelConfig> {
    registry::sharing().flat_map(|policy| large_for(policy.as_str())).collect()
}

fn large_for(policy: &str) -> Vec<ModelConfig> {
    let columns = ModelConfig { load_failures_max: 1, ..model("shared-page-faults", shared_page(policy, 3)) };
    let faults = ModelConfig {
        load_failures_max: 1,
        cancels_max: 1,
        ..model("rows-large-faults", rows(policy, 3, &[(0, 3), (0, 3), (1, 2)]))
    };
    let stalls = model("rows-stalls", rows(policy, 3, &[(0, 3), (0, 2), (2, 3)]));
    vec![stalls, model("rows-large", rows(policy, 4, &[(0, 4), (0, 3), (2, 4)])), faults, columns]
}
