//! Consequences of a profile, computed by hand. Scans by the profiles of modelled devices are not slower than
//! scans by constants.

use coscan_core::{PolicyName, Span};
use coscan_device::hard_disk::atlas10k3;
use coscan_device::probe::{ProbeOptions, Sample, Simulated, Target, first_look};
use coscan_device::{DeviceModel, DeviceSpec, RaidLevel};

use super::*;
use crate::config::{ByProfile, EngineConfig};
use crate::io::coalesce::coalesce;
use crate::io::shape::Shapes;
use crate::io::shape::tests::source;

const BUFFER: u64 = 1 << 30;

#[test]
fn chunks_have_what_makes_requests_efficient_within_bounds_and_the_buffer() {
    let of = |fixed_s, bytes_per_s, requests, buffer| {
        chunk_bytes(request_bytes(fixed_s, bytes_per_s), requests, buffer, 16 << 20)
    };
    assert_eq!(of(80e-6, 2e9, 16, BUFFER), 16 << 20, "a fast drive: smaller chunks gain nothing");
    let disk = of(0.006, 100e6, 4, BUFFER);
    assert!((21_000_000..22_000_000).contains(&disk), "a disk: four times 5.4 MB, not {disk}");
    assert_eq!(of(0.006, 100e6, 4, 128 << 20), 16 << 20, "in a small buffer");
    assert_eq!(of(0.03, 85e6, 16, BUFFER), 32 << 20, "a store");
    assert_eq!(of(0.03, 85e6, 64, BUFFER), 16 << 20, "a store that wants more than there is room for");
    assert_eq!(of(f64::MAX, f64::MAX, 0, u64::MAX), 32 << 20);
}

#[test]
fn point_reads_are_late_when_they_take_twice_as_long_as_alone() {
    let ms = Duration::from_millis;
    assert_eq!(point_latency(ms(20), ms(1)), ms(20));
    assert_eq!(point_latency(ms(20), ms(31)), ms(62));
    assert_eq!(point_latency(Duration::ZERO, ms(31)), Duration::ZERO, "never");
}

#[test]
fn requests_count_and_short_gaps_are_read() {
    let ranges = || [10..20, 30..40, 500..501];
    assert_eq!(cost_bytes(ranges(), 0, 0), 21);
    assert_eq!(cost_bytes(ranges(), 5, 5), 21 + 3 * 5);
    assert_eq!(cost_bytes(ranges(), 100, 100), 100 + 10 + 10 + 10 + 100 + 1);
    assert_eq!(cost_bytes(ranges(), 100, 0), 3 * 100 + 21, "point reads");
    assert_eq!(cost_bytes([], 100, 100), 0);
    assert_eq!(cost_bytes([0..u64::MAX, u64::MAX..u64::MAX], u64::MAX, 0), u64::MAX);
}

#[test]
fn large_ranges_are_cut_where_pages_begin() {
    assert_eq!(cut(&(100..249), 100, &[150, 200]), [100..249], "not half as large again");
    assert_eq!(cut(&(100..300), 100, &[100, 130, 190, 240, 300]), [100..190, 190..300]);
    assert_eq!(cut(&(100..500), 100, &[101, 499]), [100..101, 101..499, 499..500]);
    assert_eq!(cut(&(100..500), 100, &[]), [100..500], "nobody knows where");
    assert_eq!(cut(&(100..500), 100, &[50, 100, 500, 600]), [100..500], "nowhere inside");
    for seed in 0..200 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let range = rng.u64(0..1000)..rng.u64(1000..100_000);
        let mut borders: Vec<u64> = (0..rng.usize(0..50)).map(|_| rng.u64(0..100_000)).collect();
        borders.sort_unstable();
        let cut = cut(&range, rng.u64(1..20_000), &borders);
        assert_eq!((cut[0].start, cut[cut.len() - 1].end), (range.start, range.end), "seed {seed}");
        assert!(cut.windows(2).all(|two| two[0].end == two[1].start && borders.contains(&two[1].start)));
        assert!(cut.iter().all(|range| range.start < range.end), "seed {seed}: {cut:?}");
    }
}

/// A table in row groups that are cut, of which a scan reads some columns.
struct Scan {
    bytes: u64,
    /// Sizes of columns in shares of 64, and whether each is read.
    columns: &'static [(u64, bool)],
}

const SCANS: [Scan; 3] = [
    Scan { bytes: 1 << 30, columns: &[(8, true), (16, false), (8, true), (28, false), (4, true)] },
    Scan { bytes: 1 << 30, columns: &[(64, true)] },
    Scan { bytes: 1 << 30, columns: &[(62, false), (1, true), (1, false)] },
];

/// The bytes rounded up to whole blocks of 4 KiB.
fn whole(bytes: u64) -> u64 {
    bytes / 4096 * 4096
}

/// Seconds for the requests of a scan as `shapes` make them, with as many at the same time as these allow.
fn seconds(model: &DeviceModel, shapes: &Shapes, scan: &Scan, objects: bool) -> f64 {
    let source = source("s3://bucket/table", None);
    let (joins, chunk) = (shapes.joins(&source, None), whole(shapes.chunk_bytes(&source.name, None)));
    let ranges = shapes.range_bytes(&source.name, None);
    let mut samples = Vec::new();
    for start in (0..scan.bytes).step_by(chunk as usize) {
        let chunk = chunk.min(scan.bytes - start);
        let mut parts = Vec::new();
        let mut at = start;
        for (share, wanted) in scan.columns {
            let part = at..at + (whole(chunk * share / 64));
            at = part.end;
            let pages: Vec<u64> = (part.start..part.end).step_by(1 << 20).collect();
            match ranges.filter(|_| objects) {
                Some(bytes) if *wanted => parts.extend(cut(&part, bytes, &pages)),
                _ if *wanted => parts.push(part),
                _ => {}
            }
        }
        let request = |group: &Vec<usize>| {
            let (first, last) = (&parts[group[0]], &parts[group[group.len() - 1]]);
            Sample { offset: first.start, bytes: last.end - first.start }
        };
        samples.extend(coalesce(&parts, &joins).iter().map(request));
    }
    let requests = shapes.requests(shapes.of(&source));
    let device = DeviceSpec::new(model.clone()).unwrap().build();
    Simulated::new(device, 2 * scan.bytes, 4096, 1).read(&samples, requests).unwrap().elapsed_s
}

fn devices() -> Vec<(&'static str, DeviceModel)> {
    let us = |us: u64| Span::from_nanos(us * 1000);
    let disk = DeviceModel::SeekDisk { bytes_per_s: 100_000_000, seek: us(8000) };
    let parallel = |places, latency, bytes_per_s_each, bytes_per_s| DeviceModel::Parallel {
        places,
        latency,
        bytes_per_s_each,
        bytes_per_s,
    };
    let drive = parallel(32, us(80), 1_500_000_000, 3_000_000_000);
    let throttled = DeviceModel::Throttled {
        bytes_per_s: 100_000_000,
        burst_bytes: 1 << 20,
        device: Box::new(drive.clone()),
    };
    let stripe = DeviceModel::Raid {
        level: RaidLevel::Zero,
        disks: 4,
        stripe_unit_bytes: 256 << 10,
        member: Box::new(disk.clone()),
    };
    vec![
        ("a disk", disk),
        ("a disk to the sector", DeviceModel::HardDisk(Box::new(atlas10k3()))),
        ("a drive", drive),
        ("a throttled drive", throttled),
        ("a stripe of four", stripe),
        ("a store", parallel(256, us(30_000), 85_000_000, 1_000_000_000)),
    ]
}

#[test]
fn scans_by_profiles_are_no_slower_than_by_constants() {
    let dir = tempfile::tempdir().unwrap();
    let config = EngineConfig::new("relevance".parse::<PolicyName>().unwrap(), BUFFER);
    let constants = Shapes::new(&config).unwrap();
    let mut faster = 0;
    for (name, model) in devices() {
        let device = DeviceSpec::new(model.clone()).unwrap().build();
        let mut target = Simulated::new(device, 2 << 30, 4096, 2);
        let mut profile = first_look(&mut target, &ProbeOptions::default()).unwrap();
        profile.device_ids = vec!["s3://bucket".to_owned()];
        let path = dir.path().join("device.toml");
        std::fs::write(&path, profile.to_toml().unwrap()).unwrap();
        let shapes = Shapes::new(&EngineConfig { device_profiles: vec![path], ..config.clone() }).unwrap();
        let seen = &shapes.uses(None)[0];
        for (nth, scan) in SCANS.iter().enumerate() {
            let objects = name == "a store";
            let took = |shapes| seconds(&model, shapes, scan, objects);
            let ratio = took(&shapes) / took(&constants);
            println!("{name}, scan {nth}: {ratio:.3} of the time by constants; {seen:?}");
            assert!(ratio <= 1.02, "{name}, scan {nth}: {ratio:.3}, {seen:?}");
            faster += usize::from(ratio < 0.95);
        }
    }
    assert!(faster >= 4, "only {faster} are faster");
}

#[test]
fn each_setting_by_hand_wins_for_itself() {
    let by_hand = |chunks, point_latency| ByProfile { chunks, point_latency, ..ByProfile::default() };
    for (chunks, late) in [(true, true), (true, false), (false, true), (false, false)] {
        let shapes = crate::io::shape::tests::store(by_hand(chunks, late));
        let of = shapes.uses(None).remove(0);
        let expected = if chunks { 25_690_112 } else { 16 << 20 };
        assert!(of.chunk_bytes.abs_diff(expected) < 2 << 20, "{of:?}");
        assert_eq!(shapes.chunk_bytes("s3://bucket/a", None), of.chunk_bytes);
        assert_eq!(shapes.chunk_bytes("s3://bucket2/a", None), 16 << 20, "no profile");
        let latency = if late { 60..64 } else { 20..21 };
        assert!(latency.contains(&of.point_latency.as_millis()), "{of:?}");
        assert_eq!((shapes.point_latency(1), shapes.point_latency(0)), (Some(of.point_latency), None));
        assert_eq!(shapes.range_bytes("s3://bucket/a", None), Some(REQUEST_BYTES_MAX));
        assert_eq!(shapes.range_bytes("s3://bucket2/a", None), None);
    }
    let shapes = crate::io::shape::tests::store(ByProfile { requests: false, ..ByProfile::default() });
    assert_eq!(shapes.range_bytes("s3://bucket/a", None), None, "the number of requests is set by hand");
}
