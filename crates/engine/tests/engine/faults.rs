//! Faults while reading: only queries that need the data get an error, and it names the exact cause.

use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use coscan_engine::{Cancel, Engine, EngineConfig, EngineError, RangeReader, ReadError, Source};
use parquet::basic::{Compression, GzipLevel};
use parquet::file::metadata::ParquetMetaData;
use parquet::file::properties::WriterProperties;

use crate::support::*;

type Fault = dyn Fn(&Range<u64>, u32) -> Kind + Send + Sync;

/// The fault of a part on a given attempt.
enum Kind {
    None,
    Transient,
    Permanent,
    Short,
    Panic,
    Flip(usize),
}

struct Faulty {
    inner: Arc<dyn RangeReader>,
    fault: Box<Fault>,
    attempts: Mutex<std::collections::HashMap<u64, u32>>,
}

impl RangeReader for Faulty {
    fn read(
        &self,
        source: &Source,
        parts: &[Range<u64>],
        cancel: &Cancel,
        arrived: &mut dyn FnMut(usize, Bytes),
    ) -> Result<(), ReadError> {
        for (at, part) in parts.iter().enumerate() {
            let attempt = {
                let mut attempts = self.attempts.lock().unwrap();
                let attempt = attempts.entry(part.start).or_default();
                *attempt += 1;
                *attempt
            };
            let one = std::slice::from_ref(part);
            match (self.fault)(part, attempt) {
                Kind::None => self.inner.read(source, one, cancel, &mut |_, bytes| arrived(at, bytes))?,
                Kind::Transient => return Err(std::io::Error::other("injected").into()),
                Kind::Permanent => {
                    return Err(std::io::Error::new(std::io::ErrorKind::PermissionDenied, "injected").into());
                }
                // Reports success, and delivers too little.
                Kind::Short => {
                    self.inner.read(source, one, cancel, &mut |_, bytes| arrived(at, bytes.slice(1..)))?
                }
                Kind::Panic => panic!("injected"),
                Kind::Flip(bit) => self.inner.read(source, one, cancel, &mut |_, bytes| {
                    let mut flipped = bytes.to_vec();
                    let bit = bit % (flipped.len() * 8);
                    flipped[bit / 8] ^= 1 << (bit % 8);
                    arrived(at, flipped.into());
                })?,
            }
        }
        Ok(())
    }
}

fn faulty(config: EngineConfig, fault: impl Fn(&Range<u64>, u32) -> Kind + Send + Sync + 'static) -> Engine {
    Engine::with_reader(config, |inner| {
        Arc::new(Faulty { inner, fault: Box::new(fault), attempts: Mutex::default() })
    })
    .unwrap()
}

/// The offset of a part in its file.
async fn part(path: &Path, row_group: usize, column: usize) -> u64 {
    spec(path).await.0.metadata.row_group(row_group).column(column).byte_range().0
}

#[tokio::test(flavor = "multi_thread")]
async fn transient_errors_and_short_reads_are_tried_again() {
    let dir = tempfile::tempdir().unwrap();
    let path = sample(dir.path(), "a.parquet", 4, 1_500);
    let engine = faulty(config("relevance", 64 << 20), |part, attempt| match (part.start % 3, attempt) {
        (0, 1..=3) => Kind::Transient,
        (1, 1..=2) => Kind::Short,
        _ => Kind::None,
    });
    let scan = engine.scan(request(&[open(&engine, &path).await], None)).unwrap();
    assert_eq!(scan_all(&scan, 2).await.unwrap(), plain(&[&path], None));
    assert!(engine.stats().retries > 0);
    assert_eq!(engine.stats().parts_loaded, 16);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_permanent_error_fails_only_the_scans_that_need_the_part() {
    let dir = tempfile::tempdir().unwrap();
    let path = sample(dir.path(), "a.parquet", 4, 1_500);
    let bad = part(&path, 2, 3).await;
    for policy in policies() {
        for panics in [false, true] {
            let engine = faulty(config(policy.as_str(), 64 << 20), move |part, _| match part.start == bad {
                true if panics => Kind::Panic,
                true => Kind::Permanent,
                false => Kind::None,
            });
            let file = open(&engine, &path).await;
            let needing = engine.scan(request(std::slice::from_ref(&file), None)).unwrap();
            let other_columns = engine.scan(request(std::slice::from_ref(&file), Some(&[0, 1, 2]))).unwrap();
            let mut wanted = request(&[file], None);
            wanted.chunks.remove(2);
            wanted.chunks.iter_mut().enumerate().for_each(|(at, chunk)| chunk.key = at as u32);
            let other_chunks = engine.scan(wanted).unwrap();
            let (failed, columns, chunks) =
                tokio::join!(scan_all(&needing, 2), scan_all(&other_columns, 1), scan_all(&other_chunks, 1));
            match failed {
                Err(EngineError::Read { file, row_group: 2, column, .. }) => {
                    assert!(column == "many" && file.ends_with("a.parquet"), "{file} {column}");
                }
                other => panic!("{policy}: {other:?}"),
            }
            assert_eq!(columns.unwrap(), plain(&[&path], Some(&[0, 1, 2])), "{policy}");
            assert_eq!(chunks.unwrap().len(), 3, "{policy}");
            drop((needing, other_columns, other_chunks));
            assert_idle(&engine).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flipped_bit_is_named_or_harmless() {
    // Gzip has a checksum of its own, so that flips inside pages cannot pass unnoticed.
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.parquet");
    let gzip = WriterProperties::builder().set_compression(Compression::GZIP(GzipLevel::default())).build();
    write(&path, &[batch(1_500, 1), batch(1_500, 2)], gzip);
    let whole = plain(&[&path], None);
    let bad = part(&path, 1, 2).await;
    let mut random = fastrand::Rng::with_seed(11);
    let named = AtomicU32::new(0);
    for round in 0..120 {
        // The page header is in the first bytes: half of the flips go there.
        let bit = if round % 2 == 0 { random.usize(0..300) } else { random.usize(..) };
        let engine = faulty(config("relevance", 256 << 20), move |part, _| match part.start == bad {
            true => Kind::Flip(bit),
            false => Kind::None,
        });
        let file = open(&engine, &path).await;
        let (all, others) = (
            engine.scan(request(std::slice::from_ref(&file), None)).unwrap(),
            engine.scan(request(&[file], Some(&[0, 1, 3]))).unwrap(),
        );
        let (all, others) = tokio::join!(scan_all(&all, 1), scan_all(&others, 1));
        assert_eq!(others.unwrap(), plain(&[&path], Some(&[0, 1, 3])));
        match all {
            Ok(chunks) => assert_eq!(chunks, whole, "bit {bit} changed the data unnoticed"),
            Err(EngineError::Corrupt { row_group: 1, column, file, .. }) => {
                assert!(column == "few" && file.ends_with("a.parquet"));
                named.fetch_add(1, Ordering::Relaxed);
            }
            Err(other) => panic!("bit {bit}: {other:?}"),
        }
    }
    assert!(named.into_inner() > 20, "flips are noticed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replaced_or_truncated_file_is_reported_and_never_mixed() {
    for truncate in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let path = sample(dir.path(), "a.parquet", 6, 1_500);
        let untouched = sample(dir.path(), "b.parquet", 6, 1_500);
        let old = plain(&[&path], None);
        let engine = Engine::new(config("normal", 64 << 20)).unwrap();
        let (file, other) = (open(&engine, &path).await, open(&engine, &untouched).await);
        let mut first = request(std::slice::from_ref(&file), None);
        first.chunks.truncate(2);
        let before = scan_all(&engine.scan(first).unwrap(), 1).await.unwrap();
        assert_eq!(before[&0], old[&0]);
        if truncate {
            std::fs::File::options().write(true).open(&path).unwrap().set_len(file.bytes / 2).unwrap();
        } else {
            write(&dir.path().join("new"), &[batch(1_500, 77)], WriterProperties::default());
            std::fs::rename(dir.path().join("new"), &path).unwrap();
        }
        let (scan, unharmed) = (
            engine.scan(request(std::slice::from_ref(&file), None)).unwrap(),
            engine.scan(request(&[other], None)).unwrap(),
        );
        let (failed, fine) = tokio::join!(scan_all(&scan, 1), scan_all(&unharmed, 1));
        assert!(matches!(failed, Err(EngineError::FileReplaced { .. })), "{failed:?}");
        assert_eq!(fine.unwrap(), plain(&[&untouched], None));
        let again = engine.scan(request(std::slice::from_ref(&file), None)).map(drop);
        assert!(matches!(again, Err(EngineError::FileReplaced { .. })), "{again:?}");
        if !truncate {
            let new = open(&engine, &path).await;
            assert_ne!(new.id, file.id);
            let got = scan_all(&engine.scan(request(&[new], None)).unwrap(), 1).await.unwrap();
            assert_eq!(got, plain(&[&path], None));
        }
        drop((scan, unharmed));
        assert_idle(&engine).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_footer_that_points_outside_the_file_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = sample(dir.path(), "a.parquet", 2, 1_500);
    let engine = Engine::new(config("relevance", 64 << 20)).unwrap();
    let (mut spec, _) = spec(&path).await;
    spec.meta.size = part(&path, 1, 1).await;
    spec.local = None;
    let refused = engine.open_file(spec);
    assert!(matches!(&refused, Err(EngineError::Corrupt { row_group: 1, .. })), "{refused:?}");
}

/// Row groups may state any number of rows, but nothing is made for rows that do not exist.
#[tokio::test(flavor = "multi_thread")]
async fn a_footer_that_claims_rows_without_number_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.parquet");
    std::fs::write(&path, numbers(0..200_000, 200_000)).unwrap();
    let claims = |metadata: &ParquetMetaData, rows: i64| {
        let row_group = metadata.row_group(0).clone();
        let columns = row_group
            .columns()
            .iter()
            .map(|column| column.clone().into_builder().set_num_values(rows).build().unwrap());
        let columns = columns.collect();
        let row_group = row_group.into_builder().set_num_rows(rows).set_column_metadata(columns).build();
        let metadata = metadata.clone().into_builder();
        Arc::new(metadata.set_row_groups(vec![row_group.unwrap()]).build())
    };
    // More rows than the bytes can hold, and as many as they could hold.
    for (rows, is_opened) in [(1 << 50, false), (1 << 44, true)] {
        let engine = Engine::new(config("relevance", 64 << 20)).unwrap();
        let (mut spec, arrow) = spec(&path).await;
        spec.metadata = claims(&spec.metadata, rows);
        if !is_opened {
            let refused = engine.open_file(spec);
            assert!(matches!(&refused, Err(EngineError::Corrupt { row_group: 0, .. })), "{refused:?}");
            continue;
        }
        let file = opened(&engine, spec, &arrow);
        let scanned = match engine.scan(request(&[file], None)) {
            Ok(scan) => scan_all(&scan, 1).await.map(drop),
            Err(error) => Err(error),
        };
        assert!(matches!(&scanned, Err(EngineError::Corrupt { row_group: 0, .. })), "{scanned:?}");
        assert_idle(&engine).await;
    }
}
