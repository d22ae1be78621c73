//! Strings that come as keys into the dictionary of their chunk are those that a plain reader reads.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BinaryViewArray, RecordBatch, StringViewArray};
use arrow::datatypes::{DataType, Int32Type};
use coscan_engine::{Engine, unpacked};
use fastrand::Rng;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::{WriterProperties, WriterVersion};

use crate::support::{config, joined, open, plain, request, scan_all, write};

/// More than two slices, of which the last one is short.
const ROWS: usize = 3_100;

/// Strings of which there are so many different ones, short, long or both, and nulls.
fn strings(rng: &mut Rng) -> Vec<Option<String>> {
    let different = [1, 2, 40, 1_000, ROWS * 2][rng.usize(..5)];
    let nulls = [0, 0, 3, 9, 10][rng.usize(..5)];
    let lengths = [0..3, 0..13, 10..16, 30..60][rng.usize(..4)].clone();
    let salt = rng.u32(..);
    let string = |n: usize| {
        let mut of_it = Rng::with_seed(u64::from(salt) * 10_000 + n as u64);
        let len = of_it.usize(lengths.clone());
        (0..len).map(|_| of_it.alphanumeric()).collect::<String>()
    };
    (0..ROWS).map(|_| (rng.u8(..10) >= nulls).then(|| string(rng.usize(..different)))).collect()
}

fn column(rng: &mut Rng) -> ArrayRef {
    let strings = strings(rng);
    match rng.u8(..4) {
        0 => Arc::new(BinaryViewArray::from_iter(strings.into_iter().map(|s| s.map(String::into_bytes)))),
        _ => Arc::new(StringViewArray::from_iter(strings)),
    }
}

fn properties(rng: &mut Rng) -> WriterProperties {
    let versions = [WriterVersion::PARQUET_1_0, WriterVersion::PARQUET_2_0];
    let codecs = [Compression::UNCOMPRESSED, Compression::SNAPPY, Compression::ZSTD(ZstdLevel::default())];
    WriterProperties::builder()
        .set_writer_version(versions[rng.usize(..2)])
        .set_compression(codecs[rng.usize(..3)])
        .set_dictionary_enabled(rng.u8(..5) > 0)
        // Where the dictionary becomes too large, the pages behind that have none.
        .set_dictionary_page_size_limit([1 << 20, 1 << 20, 2_000][rng.usize(..3)])
        .set_data_page_row_count_limit([200, 700, 100_000][rng.usize(..3)])
        .set_write_batch_size(100)
        .build()
}

#[tokio::test(flavor = "multi_thread")]
async fn strings_with_dictionaries_are_those_without() {
    let dir = tempfile::tempdir().unwrap();
    let (mut kept, mut not_kept) = (0, 0);
    for seed in 0..150 {
        let rng = &mut Rng::with_seed(seed);
        let path = dir.path().join(format!("{seed}.parquet"));
        let columns: Vec<(String, ArrayRef)> = (0..3).map(|at| (format!("c{at}"), column(rng))).collect();
        let batch = RecordBatch::try_from_iter_with_nullable(
            columns.into_iter().map(|(name, array)| (name, array, true)),
        );
        let groups = vec![batch.unwrap(); 2];
        write(&path, &groups, properties(rng));
        let whole = plain(&[&path], None);
        let engine = Engine::new(config("relevance", 64 << 20)).unwrap();
        let file = open(&engine, &path).await;
        let scan = engine.scan(request(std::slice::from_ref(&file), None)).unwrap();
        assert_eq!(scan_all(&scan, 2).await.unwrap(), whole, "seed {seed}");
        drop(scan);

        let scan = engine.scan(request(&[file], None)).unwrap();
        let mut worker = scan.worker();
        while let Some(mut chunk) = worker.next().await.unwrap() {
            let expected = &whole[&(chunk.key as usize)];
            // Back and forth, so that more than one reader decodes.
            let mut order: Vec<usize> = (0..chunk.slices()).collect();
            rng.shuffle(&mut order);
            let mut slices = vec![Vec::new(); chunk.slices()];
            for at in order {
                let packed = chunk.packed_slice(at).await.unwrap();
                for (array, expected) in packed.iter().zip(expected) {
                    assert_eq!(unpacked(array).unwrap().data_type(), expected.data_type(), "seed {seed}");
                    match array.data_type() {
                        DataType::Dictionary(..) => kept += 1,
                        _ => not_kept += 1,
                    }
                }
                slices[at] = packed.iter().map(|array| unpacked(array).unwrap()).collect();
            }
            assert_eq!(&joined(&slices), expected, "seed {seed}");
        }
    }
    assert!(kept > 500 && not_kept > 500, "{kept} arrays had dictionaries, {not_kept} had none");
}

#[tokio::test(flavor = "multi_thread")]
async fn slices_of_a_chunk_share_a_dictionary() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.parquet");
    let words =
        StringViewArray::from_iter((0..ROWS).map(|row| Some(format!("word number {} of a few", row % 50))));
    let batch = RecordBatch::try_from_iter([("words", Arc::new(words) as ArrayRef)]).unwrap();
    write(&path, &[batch], WriterProperties::default());
    let engine = Engine::new(config("relevance", 64 << 20)).unwrap();
    let file = open(&engine, &path).await;
    let scan = engine.scan(request(&[file], None)).unwrap();
    let mut worker = scan.worker();
    let mut chunk = worker.next().await.unwrap().unwrap();
    let mut dictionaries = BTreeSet::new();
    for at in 0..chunk.slices() {
        let slice = chunk.packed_slice(at).await.unwrap();
        let words = slice[0].as_dictionary::<Int32Type>();
        assert_eq!(words.values().len(), 50);
        dictionaries.insert(Arc::as_ptr(words.values()).cast::<()>() as usize);
    }
    assert_eq!(dictionaries.len(), 1);
}
