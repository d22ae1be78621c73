//! Parts that stay in the page cache: the rows are the same, and files that change meanwhile are noticed.

use std::fs::File;
use std::num::NonZeroU64;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringArray};
use coscan_engine::{Engine, EngineConfig, EngineError};
use parquet::basic::Compression;
use parquet::file::properties::{EnabledStatistics, WriterProperties};

use crate::support::*;

/// With large statistics in page headers and without, compressed and not, in pages of many sizes.
fn layouts() -> Vec<WriterProperties> {
    let layout = |compression, rows, page_bytes, statistics| {
        WriterProperties::builder()
            .set_compression(compression)
            .set_data_page_row_count_limit(rows)
            .set_data_page_size_limit(page_bytes)
            .set_write_page_header_statistics(true)
            .set_statistics_enabled(statistics)
            .set_statistics_truncate_length(None)
            .build()
    };
    vec![
        layout(Compression::SNAPPY, 20_000, 1 << 20, EnabledStatistics::Page),
        layout(Compression::UNCOMPRESSED, 100, 1 << 20, EnabledStatistics::Page),
        layout(Compression::UNCOMPRESSED, 20_000, 64 << 10, EnabledStatistics::None),
        layout(Compression::SNAPPY, 1, 1 << 10, EnabledStatistics::None),
    ]
}

/// Rows, one of which has a string that is longer than the first read for a header.
fn with_long_strings(rows: usize) -> RecordBatch {
    let batch = batch(rows, rows as u64);
    let long: StringArray = (0..rows).map(|row| (row == 7).then(|| "long ".repeat(2000))).collect();
    let mut columns: Vec<(&str, ArrayRef)> = vec![("long", Arc::new(long))];
    let schema = batch.schema();
    columns.extend(schema.fields().iter().zip(batch.columns()).map(|(f, c)| (f.name().as_str(), c.clone())));
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(n, c)| (n, c, true))).unwrap()
}

/// Drops every other 64 KiB of a file from the page cache, so that requests find some of their parts there.
fn forget_some(path: &Path) {
    let file = File::open(path).unwrap();
    file.sync_all().unwrap();
    let stripe = NonZeroU64::new(64 << 10).unwrap();
    for start in (stripe.get()..file.metadata().unwrap().len()).step_by(2 * stripe.get() as usize) {
        let _ = rustix::fs::fadvise(&file, start, Some(stripe), rustix::fs::Advice::DontNeed);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_are_the_same_wherever_their_bytes_are() {
    let dir = tempfile::tempdir().unwrap();
    for (at, properties) in layouts().into_iter().enumerate() {
        let path = dir.path().join(format!("{at}.parquet"));
        write(&path, &[3_000, 11_000, 10].map(with_long_strings), properties);
        let expected = plain(&[&path], None);
        for (page_cache_bytes, chunk_bytes) in [(0, 0), (1, 0), (1, 20_000), (40_000, 100_000)] {
            let config = EngineConfig { page_cache_bytes, chunk_bytes, ..config("relevance", 64 << 20) };
            let engine = Engine::new(config).unwrap();
            let file = open(&engine, &path).await;
            forget_some(&path);
            let wanted = request(std::slice::from_ref(&file), None);
            let scans = [engine.scan(wanted.clone()).unwrap(), engine.scan(wanted).unwrap()];
            for scan in scans {
                let got = scan_all(&scan, 2).await.unwrap();
                let rows = |chunks: &Chunks| chunks.values().map(|arrays| arrays[0].len()).sum::<usize>();
                assert_eq!(rows(&got), rows(&expected), "layout {at}, from {page_cache_bytes}");
                if chunk_bytes == 0 {
                    assert_eq!(got, expected, "layout {at}, from {page_cache_bytes}");
                }
            }
            assert_eq!(engine.stats().retries, 0, "every part came at once");
            assert_idle(&engine).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_changes_between_load_and_decoding_is_noticed() {
    let dir = tempfile::tempdir().unwrap();
    for cut in [false, true] {
        let path = sample(dir.path(), "a.parquet", 1, 30_000);
        let engine = Engine::new(config("relevance", 64 << 20)).unwrap();
        let file = open(&engine, &path).await;
        let scan = engine.scan(request(std::slice::from_ref(&file), None)).unwrap();
        let mut worker = scan.worker();
        let mut chunk = worker.next().await.unwrap().unwrap();
        chunk.slice(0).await.unwrap();
        // Times have the resolution of the system's clock.
        std::thread::sleep(std::time::Duration::from_millis(20));
        let changed = File::options().write(true).open(&path).unwrap();
        match cut {
            true => changed.set_len(1000).unwrap(),
            false => changed.write_all_at(&[0; 1000], 4).unwrap(),
        }
        let mut outcome = Ok(());
        for slice in 1..chunk.slices() {
            outcome = outcome.and(chunk.slice(slice).await.map(drop));
        }
        let error = outcome.unwrap_err();
        assert!(
            matches!(&error, EngineError::FileReplaced { file, .. } if file.contains("a.parquet")),
            "{error}"
        );
        drop((chunk, worker, scan));
        // Later scans get the error, too.
        let again = engine.scan(request(&[file], None)).map(drop);
        assert!(matches!(again, Err(EngineError::FileReplaced { .. })), "{again:?}");
        assert_idle(&engine).await;
    }
}
