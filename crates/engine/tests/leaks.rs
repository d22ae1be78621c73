//! Engines that start and end leave no thread and no file handle behind. Alone in its process, so that
//! nothing else is counted.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests live in the real world")]

#[path = "support/mod.rs"]
mod support;

use std::time::{Duration, Instant};

use coscan_engine::Engine;
use support::*;

fn count(of: &str) -> usize {
    std::fs::read_dir(format!("/proc/self/{of}")).unwrap().count()
}

#[test]
fn threads_and_file_handles_return_to_what_they_were() {
    let dir = tempfile::tempdir().unwrap();
    let path = sample(dir.path(), "a.parquet", 4, 1_000);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let round = |memory: bool| {
        runtime.block_on(async {
            let engine = Engine::new(config("relevance", 4 << 20)).unwrap();
            let file = if memory {
                let (mut spec, arrow) = spec(&path).await;
                spec.store_url = "through-the-store://".into();
                spec.local = None;
                opened(&engine, spec, &arrow)
            } else {
                open(&engine, &path).await
            };
            let (done, cut) = (
                engine.scan(request(std::slice::from_ref(&file), None)),
                engine.scan(request(&[file], None)),
            );
            let cut = cut.unwrap();
            let _ = tokio::time::timeout(Duration::from_micros(500), scan_all(&cut, 2)).await;
            scan_all(&done.unwrap(), 2).await.unwrap();
        });
    };
    // The runtimes' own threads and handles are made on their first use.
    round(false);
    round(true);
    let named = || -> Vec<String> {
        std::fs::read_dir("/proc/self/task")
            .unwrap()
            .filter_map(|task| std::fs::read_to_string(task.unwrap().path().join("comm")).ok())
            .filter(|name| name.starts_with("coscan"))
            .collect()
    };
    // Threads of tokio's blocking pool, which local stores use, begin and end on their own.
    let settle = |handles: usize| {
        let deadline = Instant::now() + ENDS;
        while !(named().is_empty() && count("fd") <= handles) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    settle(usize::MAX);
    let handles = count("fd");
    for at in 0..20 {
        round(at % 2 == 0);
    }
    settle(handles);
    assert!(count("fd") <= handles, "{} file handles, {handles} before", count("fd"));
    assert!(named().is_empty(), "threads left: {:?}", named());
}
