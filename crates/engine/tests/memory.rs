//! The budget as the operating system sees it: the resident set of a process that scans much more than its
//! buffer. Alone in its process, so that nothing else is measured.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests live in the real world")]

#[path = "support/mod.rs"]
mod support;

use coscan_engine::Engine;
use parquet::file::properties::WriterProperties;
use support::*;

fn status(field: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with(field)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}

#[test]
fn the_resident_set_stays_near_the_budget() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.parquet");
    let batches: Vec<_> = (0..24).map(|group| batch(100_000, group)).collect();
    write(&path, &batches, WriterProperties::default());
    drop(batches);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let buffer = 32 << 20;
    let engine = Engine::new(coscan_engine::EngineConfig::new(policy("relevance"), buffer)).unwrap();
    let file = runtime.block_on(open(&engine, &path));
    assert!(file.bytes > 2 * buffer, "the table is larger than the buffer");
    // Reset the peak of writing the file (and of reading it whole for its footer).
    if std::fs::write("/proc/self/clear_refs", "5").is_err() {
        return;
    }
    let before = status("VmRSS");
    runtime.block_on(async {
        let scans: Vec<_> =
            (0..3).map(|_| engine.scan(request(std::slice::from_ref(&file), None)).unwrap()).collect();
        let consume = scans.iter().map(|scan| {
            let mut worker = scan.worker();
            tokio::spawn(async move {
                let mut rows = 0;
                while let Some(mut chunk) = worker.next().await.unwrap() {
                    for i in 0..chunk.slices() {
                        rows += chunk.slice(i).await.unwrap()[0].len();
                    }
                }
                assert_eq!(rows, 2_400_000);
            })
        });
        for consumer in futures::future::join_all(consume).await {
            consumer.unwrap();
        }
    });
    let grown = status("VmHWM").saturating_sub(before);
    // Beside the ledger: spare read buffers (16 MiB), memory retained by the allocator, threads.
    let slack = 40 << 20;
    println!("grew by {} MiB with a buffer of {} MiB", grown >> 20, buffer >> 20);
    assert!(grown <= buffer + slack, "grew by {} MiB with a buffer of {} MiB", grown >> 20, buffer >> 20);
}
