//! Observations of an engine from outside agree with its state.

use std::sync::Arc;

use coscan_engine::{Engine, PartState, QueryAccount, TableView};

use crate::support::{config, drain, open, request, sample};

const GROUPS: usize = 6;
const COLUMNS: usize = 4;

fn states(table: &TableView) -> Vec<PartState> {
    table.parts.iter().map(|part| part.state).collect()
}

#[tokio::test]
async fn a_table_is_seen_to_be_wanted_read_and_forgotten() {
    let dir = tempfile::tempdir().unwrap();
    let path = sample(dir.path(), "seen.parquet", GROUPS, 2_000);
    let engine = Engine::new(config("relevance", 64 << 20)).unwrap();
    assert!(engine.observe(1000).tables.is_empty());
    let file = open(&engine, &path).await;
    let files = std::slice::from_ref(&file);

    let before = engine.observe(1000);
    let table = &before.tables[0];
    assert_eq!((table.cells, table.files, table.live.len()), (GROUPS, 1, 1));
    assert_eq!(table.columns, ["noise", "count", "few", "many"]);
    assert!(table.file.ends_with("seen.parquet"), "{}", table.file);
    assert!(table.parts.iter().all(|part| *part == Default::default()));

    let (all, some) = (Arc::new(QueryAccount::new(7, 1)), Arc::new(QueryAccount::new(8, 1)));
    let first = engine.scan_for(all.clone(), request(files, None)).unwrap();
    let second = engine.scan_for(some.clone(), request(files, Some(&[1]))).unwrap();
    let wanted: Vec<u32> = engine.observe(1000).tables[0].parts.iter().map(|part| part.wanted).collect();
    let by_column = |column: usize| &wanted[column * GROUPS..(column + 1) * GROUPS];
    assert_eq!((by_column(0), by_column(1)), (&[1; GROUPS][..], &[2; GROUPS][..]));
    assert_eq!(engine.needed_by(7), [(table.id, vec![0..GROUPS as u32])]);
    assert!(engine.needed_by(9).is_empty());

    let mut worker = first.worker();
    let chunk = worker.next().await.unwrap().unwrap();
    let during = engine.observe(1000);
    assert_eq!(during.tables[0].parts.iter().filter(|part| part.held).count(), COLUMNS);
    assert_eq!(during.scans.len(), 2);
    assert_eq!(all.progress().done.chunks_delivered, 1);
    drop(chunk);
    drain(&mut worker).await.unwrap();
    drain(&mut second.worker()).await.unwrap();

    let after = engine.observe(1000);
    assert!(states(&after.tables[0]).iter().all(|state| *state >= PartState::Encoded), "{after:?}");
    assert!(after.tables[0].parts.iter().all(|part| part.wanted == 0 && !part.held));
    assert!(after.scans.is_empty() && engine.needed_by(7).is_empty());
    let (metrics, progress) = (first.metrics(), all.progress());
    assert_eq!((progress.running, progress.chunks_wanted, &progress.done), (1, GROUPS as u64, &metrics));
    drop((first, worker));
    let ended = all.progress();
    assert_eq!((ended.running, &ended.done), (0, &metrics), "an account outlives its scans");
    assert_eq!(ended.bytes_wanted, metrics.bytes_loaded + metrics.bytes_from_buffer);

    let stats = after.stats;
    let both = ended.bytes_wanted + some.progress().bytes_wanted;
    assert_eq!((stats.bytes_wanted, stats.bytes_delivered), (both, both));
    assert_eq!(stats.bytes_read, ended.bytes_wanted, "the second scan read nothing");
    let loads = engine.loads_since(0);
    assert_eq!(loads.next(), stats.loads);
    assert!(engine.loads_since(loads.next()).loads.is_empty());
    drop(second);

    engine.set_buffer(1 << 16).unwrap();
    assert!(states(&engine.observe(1000).tables[0]).contains(&PartState::Absent));
}

#[tokio::test]
async fn a_large_table_is_shown_by_few_cells() {
    let dir = tempfile::tempdir().unwrap();
    let path = sample(dir.path(), "coarse.parquet", 7, 500);
    let engine = Engine::new(config("relevance", 64 << 20)).unwrap();
    let file = open(&engine, &path).await;
    let scan = engine.scan(request(std::slice::from_ref(&file), Some(&[0]))).unwrap();
    for parts_max in [0, 1, 9, 12, 1000] {
        let table = &engine.observe(parts_max).tables[0];
        assert_eq!(table.cells, (parts_max / COLUMNS).clamp(1, 7));
        assert_eq!(table.parts.len(), table.cells * COLUMNS);
        let wanted = table.parts.iter().filter(|part| part.wanted == 1).count();
        assert_eq!(wanted, table.cells, "every cell stands for some chunk");
    }
    drop(scan);
}
