//! Trace files: the content of each format, compressed and uncompressed; errors in bad files; conversion in
//! both directions.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use coscan_cache::{At, CacheError, ConvertOptions, Format, Trace, convert};
use tempfile::TempDir;

fn file(dir: &TempDir, name: &str, content: &[u8]) -> PathBuf {
    let path = dir.path().join(name);
    fs::write(&path, content).unwrap();
    path
}

fn gzip(content: &[u8]) -> Vec<u8> {
    let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    out.write_all(content).unwrap();
    out.finish().unwrap()
}

fn record(time: u32, id: u64, size: u32, next: i64) -> Vec<u8> {
    [&time.to_le_bytes()[..], &id.to_le_bytes(), &size.to_le_bytes(), &next.to_le_bytes()].concat()
}

fn slots(trace: &Trace) -> Vec<u32> {
    trace.references().iter().map(|page| page.0).collect()
}

fn read(path: &Path, format: &str) -> Result<Trace, CacheError> {
    Trace::read(path, Some(&format.parse().unwrap()), None)
}

/// The trace a b a c b in every format.
fn written() -> Vec<(&'static str, Vec<u8>)> {
    let ids = [5, u64::MAX, 5, 7, u64::MAX];
    let records: Vec<u8> = ids.iter().flat_map(|id| record(1, *id, 4096, -1)).collect();
    vec![
        ("oracle-general", records),
        ("ids", b"key:5\nother\n\nkey:5\r\n  7\nother".to_vec()),
        ("arc", b"5 1 0 1\n10 1 0 2\n5 1 0 3\n7 1 0 4\n10 1 0 5\n".to_vec()),
        ("lirs", b"*\n5\n10\n5\n* half\n7\n10\n".to_vec()),
        ("csv:2", b"1,5\n1,\"x,y\"\n1, 5,3\n1,7\n1,\"x,y\"\n".to_vec()),
        ("csv:key", b"# time, key\n1, 5\n1, 6\n1, 5\n1, 7\n1, 6\n".to_vec()),
        ("csv:1,header,tab", b"key\ttime\n5\t1\n6\t2\n5\t1\n7\t1\n6\t1\n".to_vec()),
    ]
}

#[test]
fn every_format_is_read_plain_gzipped_and_as_zstd() {
    let dir = TempDir::new().unwrap();
    for (format, content) in written() {
        let members = [gzip(&content[..7]), gzip(&content[7..])].concat();
        let packed = zstd::encode_all(&content[..], 3).unwrap();
        for content in [&content, &gzip(&content), &members, &packed] {
            let trace = read(&file(&dir, "trace", content), format).unwrap();
            assert_eq!((slots(&trace), trace.distinct()), (vec![0, 1, 0, 2, 1], 3), "{format}");
        }
    }
}

#[test]
fn a_line_of_an_arc_trace_is_a_run_of_blocks() {
    let dir = TempDir::new().unwrap();
    let path = file(&dir, "P1.lis.gz", &gzip(b"100 3 0 0\n101 2 0 1\n"));
    let trace = Trace::read(&path, None, None).unwrap();
    assert_eq!(slots(&trace), [0, 1, 2, 1, 2]);
    let part = Trace::read(&path, None, Some(4)).unwrap();
    assert_eq!((slots(&part), part.distinct()), (vec![0, 1, 2, 1], 3));
}

#[test]
fn bad_content_is_named_with_its_place() {
    let dir = TempDir::new().unwrap();
    let long: Vec<u8> = (0..30_000).flat_map(|id| record(0, id, 1, -1)).chain([1, 2, 3]).collect();
    let cases: Vec<(&str, &[u8], At, &str)> = vec![
        ("oracle-general", &long, At::Record(30_001), "after 3 of the record's 24 bytes"),
        ("ids", b"1\n2 3\n", At::Line(2), "found '2 3'"),
        ("arc", b"1 1 0 0\n\n2 1 0\n", At::Line(3), "too few fields"),
        ("arc", b"1 1 0 0 0\n", At::Line(1), "too many fields"),
        ("arc", b"1 x 0 0\n", At::Line(1), "not a number"),
        ("arc", b"1 0 0 0\n", At::Line(1), "a count is from 1"),
        ("arc", b"1 99999999999 0 0\n", At::Line(1), "a count is from 1"),
        ("arc", b"18446744073709551615 1 0 0\n", At::Line(1), "64 bits"),
        ("lirs", b"1\n-1\n", At::Line(2), "found '-1'"),
        ("lirs", b"1\n\xff\x00\n", At::Line(2), "expected a block number"),
        ("csv:3", b"1,2,3\n1,2\n", At::Line(2), "no column 3, only 2"),
        ("csv:2", b"1,2\n\n1,2\n1,\n", At::Line(4), "column 2 is empty"),
        ("csv:key", b"time,id\n1,2\n", At::Line(1), "no column 'key', there are time, id"),
    ];
    for (format, content, place, text) in cases {
        let path = file(&dir, "trace", content);
        let error = read(&path, format).unwrap_err();
        let said = error.to_string();
        assert!(said.contains(text) && said.contains("trace"), "{format}: {said}");
        match error {
            CacheError::BadRecord { at, .. } => assert_eq!(at, place, "{said}"),
            other => panic!("{format}: {other:?}"),
        }
    }
}

#[test]
fn files_that_are_missing_empty_cut_or_of_unknown_format_are_refused() {
    let dir = TempDir::new().unwrap();
    let of = |path: &Path| Trace::read(path, None, None).unwrap_err().to_string();
    assert!(of(&dir.path().join("no.txt")).starts_with("cannot open"));
    assert!(of(dir.path()).contains("give one of oracle-general"));
    assert!(of(&file(&dir, "a.csv", b"1")).contains("csv:COLUMN"));
    assert!(of(&file(&dir, "a.txt", b"\n \n")).ends_with("has no requests"));
    let many: Vec<u8> =
        (0..9000).flat_map(|id: u32| format!("{}\n", id.wrapping_mul(id)).into_bytes()).collect();
    for packed in [gzip(&many), zstd::encode_all(&many[..], 3).unwrap()] {
        let said = of(&file(&dir, "a.txt", &packed[..packed.len() - 20]));
        assert!(said.starts_with("cannot read") && said.contains("a.txt"), "{said}");
    }
}

#[test]
fn a_trace_survives_conversion_with_its_times_sizes_and_next_uses() {
    let dir = TempDir::new().unwrap();
    let first = [(3, 10, 512, 3), (3, 11, 100, -1), (9, 10, 512, -1)];
    let bytes: Vec<u8> = first.iter().flat_map(|(t, id, s, n)| record(*t, *id, *s, *n)).collect();
    let from = file(&dir, "a.oracleGeneral", &bytes);
    let to = |name: &str| {
        let to = dir.path().join(name);
        let options = ConvertOptions {
            from: from.clone(),
            from_format: None,
            to: to.clone(),
            to_format: None,
            requests_max: None,
        };
        let converted = convert(&options).unwrap();
        assert_eq!((converted.requests, converted.distinct), (3, 2));
        to
    };
    assert_eq!(fs::read(to("b.oracleGeneral.bin")).unwrap(), bytes);
    assert_eq!(zstd::decode_all(&fs::read(to("b.oracleGeneral.zst")).unwrap()[..]).unwrap(), bytes);
    assert_eq!(fs::read_to_string(to("b.txt")).unwrap(), "10\n11\n10\n");
    let table = "time,obj_id,obj_size,next_access_vtime\n3,10,512,3\n3,11,100,-1\n9,10,512,-1\n";
    assert_eq!(fs::read_to_string(to("b.csv")).unwrap(), table);
    let packed = to("c.csv.gz");
    assert_eq!(slots(&read(&packed, "csv:obj_id").unwrap()), [0, 1, 0]);
}

#[test]
fn names_become_numbers_when_they_are_converted() {
    let dir = TempDir::new().unwrap();
    let mut options = ConvertOptions {
        from: file(&dir, "a.txt", b"x\n7\nx\n"),
        from_format: None,
        to: dir.path().join("b.bin"),
        to_format: None,
        requests_max: Some(2),
    };
    convert(&options).unwrap();
    assert_eq!(fs::read(&options.to).unwrap(), [record(1, 1, 1, -1), record(2, 2, 1, -1)].concat());
    options.to_format = Some(Format::Lirs);
    assert!(matches!(convert(&options), Err(CacheError::NotWritten { .. })));
    options.to_format = None;
    options.to = dir.path().join("no/b.bin");
    assert!(convert(&options).unwrap_err().to_string().starts_with("cannot write"));
}
