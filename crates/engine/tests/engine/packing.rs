//! Packed arrays have the values that a plain reader reads: strings as keys into the dictionary of their
//! chunk, numbers in fewer bits.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryViewArray, Decimal64Array, Int32Array, Int64Array, RecordBatch,
    StringViewArray,
};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Decimal64Type, Int32Type, Int64Type};
use coscan_engine::{Engine, unpacked};
use fastrand::Rng;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::{WriterProperties, WriterVersion};

use crate::support::{config, joined, open, plain, request, scan_all, write};

/// More than two slices; the last one is short.
const ROWS: usize = 3_100;

/// Strings with this many different values, short, long or both, and nulls.
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
        // If the dictionary becomes too large, the pages behind that point have none.
        .set_dictionary_page_size_limit([1 << 20, 1 << 20, 2_000][rng.usize(..3)])
        .set_data_page_row_count_limit([200, 700, 100_000][rng.usize(..3)])
        .set_write_batch_size(100)
        .build()
}

/// Reads a file in both forms: the values must be those of `whole`, its chunks. Returns the arrays, packed
/// and unpacked. They are kept if another scan wants them too.
async fn assert_unpacked_is(
    path: &Path,
    whole: &BTreeMap<usize, Vec<ArrayRef>>,
    kept: bool,
    rng: &mut Rng,
) -> Vec<(ArrayRef, ArrayRef)> {
    let engine = || Engine::new(config("relevance", 64 << 20)).unwrap();
    let unpacking = engine();
    let scan = unpacking.scan(request(&[open(&unpacking, path).await], None)).unwrap();
    assert_eq!(&scan_all(&scan, 2).await.unwrap(), whole, "{path:?}");

    // An engine that has not read the file: data that were read before may be kept.
    let engine = engine();
    let file = open(&engine, path).await;
    let scan = engine.scan(request(std::slice::from_ref(&file), None)).unwrap();
    let _other = kept.then(|| engine.scan(request(&[file], None)).unwrap());
    let mut worker = scan.worker();
    let mut arrays = Vec::new();
    while let Some(mut chunk) = worker.next().await.unwrap() {
        let expected = &whole[&(chunk.key as usize)];
        // Back and forth, so that several readers decode.
        let mut order: Vec<usize> = (0..chunk.slices()).collect();
        rng.shuffle(&mut order);
        let mut slices = vec![Vec::new(); chunk.slices()];
        for at in order {
            let packed = chunk.packed_slice(at).await.unwrap();
            let unpack = |(array, of): (&ArrayRef, &ArrayRef)| unpacked(array, of.data_type()).unwrap();
            slices[at] = packed.iter().zip(expected).map(unpack).collect::<Vec<_>>();
            arrays.extend(packed.into_iter().zip(slices[at].iter().cloned()));
        }
        assert_eq!(&joined(&slices), expected, "{path:?}");
    }
    arrays
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
        for (packed, _) in assert_unpacked_is(&path, &whole, seed % 2 == 0, rng).await {
            match packed.data_type() {
                DataType::Dictionary(..) => kept += 1,
                _ => not_kept += 1,
            }
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

/// Numbers, most of which need this many bits besides their sign, and nulls. Often they are at a limit.
fn numbers(rng: &mut Rng, bits_max: u32) -> Int64Array {
    let bits = [0, 6, 7, 8, 14, 15, 16, 30, 31, 32, 62, 63][rng.usize(..12)].min(bits_max);
    let nulls = [0, 0, 3, 10][rng.usize(..4)];
    let (least, greatest) = ((-1i64 << (63 - 1)) >> (62 - bits.min(62)), (1i64 << bits.min(62)) - 1);
    let number = |rng: &mut Rng| match rng.u8(..20) {
        0 if bits == 63 => i64::MIN,
        0 => least,
        1 => greatest,
        2..5 => rng.i64(-100..100).clamp(least, greatest),
        _ => rng.i64(least..=greatest),
    };
    (0..ROWS).map(|_| (rng.u8(..10) >= nulls).then(|| number(rng))).collect()
}

/// The bits of the narrowest integers that hold the values of an array.
fn fewest_bits(array: &ArrayRef) -> usize {
    let values = match array.data_type() {
        DataType::Decimal64(..) => {
            Arc::new(array.as_primitive::<Decimal64Type>().reinterpret_cast::<Int64Type>()) as _
        }
        DataType::Date32 => cast(array, &DataType::Int32).unwrap(),
        _ => Arc::clone(array),
    };
    let values = cast(&values, &DataType::Int64).unwrap();
    let values: Vec<i128> = values.as_primitive::<Int64Type>().iter().flatten().map(i128::from).collect();
    let of_type = bits(array);
    let hold = |bits: &usize| values.iter().all(|value| (-1 << (bits - 1)..1 << (bits - 1)).contains(value));
    [8, 16, 32].into_iter().filter(|bits| *bits < of_type).find(hold).unwrap_or(of_type)
}

fn bits(array: &ArrayRef) -> usize {
    array.data_type().primitive_width().unwrap() * 8
}

#[tokio::test(flavor = "multi_thread")]
async fn numbers_in_fewer_bits_are_those_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let mut seen = BTreeMap::new();
    for seed in 0..120 {
        let rng = &mut Rng::with_seed(seed);
        let path = dir.path().join(format!("{seed}.parquet"));
        let of_32_bits = |rng: &mut Rng| -> Int32Array {
            numbers(rng, 31).iter().map(|value| value.map(|value| value as i32)).collect()
        };
        // The range of a decimal of 18 digits.
        let digits = |value: i64| value.clamp(-999_999_999_999_999_999, 999_999_999_999_999_999);
        let decimals: Decimal64Array = numbers(rng, 62).iter().map(|value| value.map(digits)).collect();
        let columns: Vec<(&str, ArrayRef)> = vec![
            ("integers", Arc::new(numbers(rng, 63))),
            ("short integers", Arc::new(of_32_bits(rng))),
            ("days", Arc::new(of_32_bits(rng).reinterpret_cast::<arrow::datatypes::Date32Type>())),
            ("decimals", Arc::new(decimals.with_precision_and_scale(18, 3).unwrap())),
        ];
        let columns = columns.into_iter().map(|(name, array)| (name, array, true));
        write(&path, &vec![RecordBatch::try_from_iter_with_nullable(columns).unwrap(); 2], properties(rng));
        let whole = plain(&[&path], None);
        let kept = seed % 5 > 0;
        for (packed, unpacked) in assert_unpacked_is(&path, &whole, kept, rng).await {
            let expected = if kept { fewest_bits(&unpacked) } else { bits(&unpacked) };
            assert_eq!(bits(&packed), expected, "seed {seed}: {:?}", unpacked.data_type());
            *seen.entry(bits(&packed)).or_insert(0) += 1;
        }
    }
    assert!(seen.len() == 4 && seen.values().all(|arrays| *arrays > 300), "arrays by their bits: {seen:?}");
}
