//! Shapes of reads: devices, numbers, and learning.

use std::sync::Arc;

use coscan_core::StoreNo;
use object_store::ObjectMeta;
use object_store::memory::InMemory;

use super::*;
use crate::config::ByProfile;
use crate::io::coalesce::REQUEST_BYTES_MAX;
use crate::io::identity::LocalFile;

pub(crate) fn source(name: &str, local: Option<LocalFile>) -> Source {
    let meta = ObjectMeta {
        location: "data".into(),
        last_modified: Default::default(),
        size: 1 << 30,
        e_tag: None,
        version: None,
    };
    Source {
        name: name.into(),
        store: Arc::new(InMemory::new()),
        store_no: StoreNo(0),
        meta,
        local,
        quirks: Arc::default(),
    }
}

/// 30 ms and 85 MB/s, like an object store.
const STORE: &str = r#"
    version = 1
    device = "s3://bucket/object"
    device_ids = ["s3://bucket"]
    bytes = 1000000000
    block_bytes = 65536
    complete = true
    boundaries_searched = true
    regime_searched = true
    fixed_cost_s = { value = 0.03, low = 0.03, high = 0.03 }
    bytes_per_s = { value = 85e6, low = 85e6, high = 85e6 }
    boundary = { period_bytes = 8388608, offset_bytes = 0, request_bytes = 65536, penalty_s = { value = 0.05, low = 0.04, high = 0.06 }, penalty_share = 1.5 }
    depth = { request_bytes = 1048576, enough = { value = 16.0, low = 12.0, high = 20.0 }, throughput = [] }
"#;

fn shapes(text: &str, by_profile: ByProfile) -> Shapes {
    let profile = Profile::from_toml(text).unwrap();
    let profiled = vec![Profiled::new("store.toml".into(), &profile).unwrap()];
    let constants = Constants {
        requests: 4,
        gap: 65_536,
        chunk_bytes: 16 << 20,
        point_latency: Duration::from_millis(20),
        buffer_bytes: 1 << 30,
    };
    Shapes { by_profile, constants, profiled, tried: BTreeSet::new() }
}

/// An object store of 30 ms and 85 MB/s.
pub(crate) fn store(by_profile: ByProfile) -> Shapes {
    shapes(STORE, by_profile)
}

#[test]
fn the_profile_of_a_store_shapes_its_reads_and_no_others() {
    let shapes = shapes(STORE, ByProfile::default());
    let (inside, outside) = (source("s3://bucket/a", None), source("s3://bucket2/a", None));
    assert_eq!((shapes.of(&inside), shapes.of(&outside)), (1, 0));
    assert_eq!((shapes.requests(1), shapes.requests(0), shapes.profiled_requests_max()), (20, 4, 20));
    let joins = shapes.joins(&inside, None);
    assert!((2_540_000..2_560_000).contains(&joins.gap), "{joins:?}");
    assert_eq!((joins.bytes_max, joins.boundary), (REQUEST_BYTES_MAX, Some((8 << 20, 0))));
    assert_eq!(shapes.joins(&outside, None), Joins::within(65_536));
}

#[test]
fn a_profile_asks_for_no_fewer_requests_than_the_default() {
    let shapes = shapes(
        &STORE.replace("value = 16.0, low = 12.0, high = 20.0", "value = 1.0, low = 1.0, high = 1.0"),
        ByProfile::default(),
    );
    assert_eq!(shapes.requests(1), 4);
}

#[test]
fn what_is_set_by_hand_wins() {
    let shapes = shapes(STORE, ByProfile { requests: false, gap: false, ..ByProfile::default() });
    let inside = source("s3://bucket/a", None);
    assert_eq!((shapes.requests(1), shapes.joins(&inside, None).gap), (4, 65_536));
}

#[test]
fn a_limit_on_reading_makes_gaps_dearer_and_added_latency_cheaper() {
    let shapes = shapes(STORE, ByProfile::default());
    let gap = |bytes_per_s, latency_ms| {
        let latency = Duration::from_millis(latency_ms);
        shapes.joins(&source("s3://bucket/a", None), Some(ReadLimit { bytes_per_s, latency })).gap
    };
    assert!((290_000..310_000).contains(&gap(10_000_000, 0)), "{}", gap(10_000_000, 0));
    assert!(gap(10_000_000, 30) > 590_000);
}

#[test]
fn local_files_are_found_by_device_and_have_boundaries_only_if_they_were_measured() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("data");
    std::fs::write(&path, b"bytes").unwrap();
    let local = LocalFile::look(path.clone()).unwrap();
    let device = local.version.device();
    let id = format!("{}:{}", rustix::fs::major(device), rustix::fs::minor(device));
    let text = |measured: &str| {
        STORE.replace("s3://bucket/object", measured).replace("\"s3://bucket\"", &format!("\"{id}\""))
    };
    let source = source("file:///data", Some(local));
    let here = shapes(&text(path.to_str().unwrap()), ByProfile::default());
    assert_eq!((here.of(&source), here.joins(&source, None).boundary), (1, Some((8 << 20, 0))));
    let elsewhere = shapes(&text("/elsewhere"), ByProfile::default());
    assert_eq!((elsewhere.of(&source), elsewhere.joins(&source, None).boundary), (1, None));
}

#[test]
fn reads_that_take_longer_correct_the_profile_within_bounds() {
    let mut shapes = shapes(STORE, ByProfile::default());
    let inside = source("s3://bucket/a", None);
    // A tenth of the fixed cost: gaps are worth less.
    for nth in 0..400_u64 {
        let bytes = (1 + nth % 8) << 20;
        shapes.observe(1, bytes, 1.0, Duration::from_secs_f64(0.003 + bytes as f64 / 85e6));
    }
    let gap = shapes.joins(&inside, None).gap;
    assert!((300_000..900_000).contains(&gap), "{gap}");
    let seen = &shapes.uses(None)[0];
    assert!(seen.reads == 400 && seen.over_profile < 0.9, "{seen:?}");
    // Impossible measurements stay within bounds.
    for _ in 0..400 {
        shapes.observe(1, 1 << 20, 1.0, Duration::from_secs(3600));
    }
    assert!(shapes.joins(&inside, None).gap <= GAP_BYTES_MAX);
    assert!(shapes.uses(None)[0].over_profile > 1000.0);
    shapes.observe(0, 1, 1.0, Duration::ZERO);
    shapes.observe(7, 1, 1.0, Duration::ZERO);
}

/// A device that serves one request after the other: 0.5 ms that occupy it, 2 ms that do not, 100 MB/s.
/// Beside it, a store that serves any number.
fn throughput(seconds: impl Fn(f64) -> f64) -> String {
    let at = |requests: u32| {
        let rate = f64::from(requests) * 65_536.0 / seconds(f64::from(requests));
        format!(
            r#"{{ requests = {requests}, bytes_per_s = {{ value = {rate}, low = {rate}, high = {rate} }} }}"#
        )
    };
    STORE
        .replace("throughput = []", &format!("throughput = [{}]", [1, 2, 4, 8, 16].map(at).join(", ")))
        .replace("request_bytes = 1048576", "request_bytes = 65536")
}

fn one_after_the_other() -> String {
    let occupied = 0.0005 + 65_536.0 / 100e6;
    throughput(|requests| (requests * occupied).max(0.002 + occupied))
        .replace("value = 0.03,", "value = 0.0025,")
        .replace("85e6", "100e6")
}

#[test]
fn a_gap_costs_a_busy_device_what_a_request_occupies_it_for() {
    let inside = source("s3://bucket/a", None);
    let gap = |text: &str| shapes(text, ByProfile::default()).joins(&inside, None).gap;
    // 0.5 ms of the 2.5 ms that a request takes.
    let serial = gap(&one_after_the_other());
    assert!((49_000..51_000).contains(&serial), "{serial}");
    // Requests that do not hinder each other. As long as the speed of large ones together is unknown, bytes
    // are assumed to be as fast as for one alone.
    let each = 0.03 + 65_536.0 / 85e6;
    let parallel = throughput(|_| each);
    assert!((97_000..99_000).contains(&gap(&parallel)), "{}", gap(&parallel));
    let large = |text: &str, rate: f64| {
        let found = format!(
            "], large = {{ request_bytes = 1048576, bytes_per_s = {{ value = {rate}, low = {rate}, high = {rate} }} }} }}"
        );
        gap(&text.replace("] }\n", &format!("{found}\n")))
    };
    // Large ones do not hinder each other either: slots are the scarce resource.
    let places = 16.0 * 1048576.0 / (0.03 + 1048576.0 / 85e6);
    assert!((600_000..900_000).contains(&large(&parallel, places)), "{}", large(&parallel, places));
    // Small ones already use the device's full throughput: every byte of a gap costs, and a request costs
    // nothing.
    assert_eq!(large(&parallel, 16.0 * 65_536.0 / each), 0);
    assert!((49_000..51_000).contains(&large(&one_after_the_other(), 100e6)));
}

#[test]
fn without_a_measurement_of_many_requests_gaps_are_no_longer_than_the_constant() {
    let text: String =
        STORE.lines().filter(|line| !line.contains("depth =")).map(|line| format!("{line}\n")).collect();
    let shapes = shapes(&text, ByProfile::default());
    assert_eq!((shapes.joins(&source("s3://bucket/a", None), None).gap, shapes.requests(1)), (65_536, 4));
}

#[test]
fn reads_that_share_a_device_take_longer_and_teach_nothing_wrong() {
    let mut shapes = shapes(&one_after_the_other(), ByProfile::default());
    for nth in 0..400_u64 {
        let (bytes, at_once) = (65_536 << (nth % 4), 1 + nth % 8);
        let occupied = 0.0005 + 65_536.0 / 100e6;
        let slower = (at_once as f64 * occupied).max(0.002 + occupied) / (0.002 + occupied);
        let alone = 0.0025 + bytes as f64 / 100e6;
        shapes.observe(1, bytes, at_once as f64, Duration::from_secs_f64(alone * slower));
    }
    let seen = &shapes.uses(None)[0];
    assert!((0.9..1.15).contains(&seen.over_profile), "{seen:?}");
    assert!((35_000..65_000).contains(&seen.gap_bytes), "{seen:?}");
}

#[test]
fn profiles_that_say_too_little_are_refused_with_what_to_do() {
    let refused = |text: String| Profiled::new("p".into(), &Profile::from_toml(&text).unwrap()).unwrap_err();
    assert!(refused(STORE.replace("\"s3://bucket\"", "")).contains("device_ids"));
    assert!(refused(STORE.replace("fixed_cost_s", "#")).contains("measure again"));
    assert!(refused(STORE.replace("value = 85e6", "value = -1.0")).contains("positive"));
    let error = Profiled::read(Path::new("/no/such/profile.toml")).unwrap_err().to_string();
    assert!(error.contains("/no/such/profile.toml") && error.contains("coscan.device_profile"), "{error}");
}
