//! The probe on simulated devices whose properties are known.

use std::hash::{BuildHasher, RandomState};
use std::ops::Range;

use coscan_base::Span;
use coscan_device::probe::{Boundary, ProbeOptions, Profile, Search, Simulated, find_boundary, probe};
use coscan_device::{Boundaries, Delay, DeviceModel, DeviceSpec, SolidStateModel};

const GIB: u64 = 1 << 30;
const BLOCK: u64 = 4096;

fn simulated(model: DeviceModel, seed: u64) -> Simulated {
    Simulated::new(DeviceSpec::new(model).unwrap().build(), 256 * GIB, BLOCK, seed)
}

/// A device with a fixed cost, a bandwidth, and scattered times: evenly over a share of the fixed cost, and
/// rarely much longer.
#[derive(Clone, Copy, Debug)]
struct Noisy {
    latency_us: u64,
    mb_per_s: u64,
    spread: f64,
    rare_per_million: u32,
}

impl Noisy {
    fn draw(rng: &mut fastrand::Rng) -> Self {
        Noisy {
            latency_us: [60, 100, 500, 5000, 30_000][rng.usize(0..5)],
            mb_per_s: [90, 200, 1000, 3000][rng.usize(0..4)],
            spread: rng.f64() * 0.2,
            rare_per_million: rng.u32(0..30_000),
        }
    }

    fn model(&self, seed: u64) -> DeviceModel {
        let (latency, rate) = (Span::from_nanos(self.latency_us * 1000), self.mb_per_s * 1_000_000);
        let device =
            DeviceModel::Parallel { places: 16, latency, bytes_per_s_each: rate, bytes_per_s: 4 * rate };
        let most = (self.latency_us as f64 * 1000.0 * self.spread) as u64;
        let delay = Delay {
            least: Span::ZERO,
            most: Span::from_nanos(most),
            rare_per_million: self.rare_per_million,
            rare: Span::from_nanos(self.latency_us * 20_000),
        };
        DeviceModel::Delayed { delay, seed, device: Box::new(device) }
    }

    /// Seconds that a request takes without noise.
    fn time_s(&self, bytes: u64) -> f64 {
        self.latency_us as f64 / 1e6 + bytes as f64 / (self.mb_per_s as f64 * 1e6)
    }
}

/// Draws periods of tracks, chunks, stripes and parts, round or not, and offsets of which half are zero.
fn draw_boundaries(rng: &mut fastrand::Rng) -> (u64, u64) {
    let blocks = match rng.u32(0..3) {
        0 => 1 << rng.u32(2..12),
        1 => 3 << rng.u32(1..10),
        _ => rng.u64(5..3000),
    };
    let offset = if rng.bool() { 0 } else { rng.u64(0..blocks) };
    (blocks * BLOCK, offset * BLOCK)
}

fn search(model: DeviceModel, seed: u64) -> Option<Boundary> {
    let mut target = simulated(model, seed);
    find_boundary(&mut target, &Search::default(), &mut fastrand::Rng::with_seed(seed)).unwrap()
}

/// The share of random devices with boundaries whose boundaries are found exactly.
fn recall(seeds: Range<u64>) -> (f64, Vec<String>) {
    let devices = (seeds.end - seeds.start) as f64;
    let mut missed = Vec::new();
    for seed in seeds {
        let mut rng = fastrand::Rng::with_seed(seed);
        let noisy = Noisy::draw(&mut rng);
        let (period_bytes, offset_bytes) = draw_boundaries(&mut rng);
        // At least a tenth of the time of a request of half a period.
        let share = 0.1 + rng.f64() * 0.9;
        let penalty = Span::from_nanos((share * noisy.time_s(period_bytes / 2) * 1e9) as u64);
        let boundaries = Boundaries { period_bytes, offset_bytes, penalty };
        let device = Box::new(noisy.model(seed));
        let found = search(DeviceModel::Bounded { boundaries, device }, seed);
        let exact = found
            .as_ref()
            .is_some_and(|found| (found.period_bytes, found.offset_bytes) == (period_bytes, offset_bytes));
        if !exact {
            let found = found.map(|found| (found.period_bytes / BLOCK, found.offset_bytes / BLOCK));
            missed.push(format!(
                "{seed}: {found:?} instead of {:?}, share {share:.2}, {noisy:?}",
                (period_bytes / BLOCK, offset_bytes / BLOCK)
            ));
        }
    }
    (1.0 - missed.len() as f64 / devices, missed)
}

/// The share of random devices without boundaries that seem to have some.
fn false_positives(seeds: Range<u64>) -> f64 {
    let devices = (seeds.end - seeds.start) as f64;
    let found = seeds.filter(|seed| {
        let noisy = Noisy::draw(&mut fastrand::Rng::with_seed(*seed));
        search(noisy.model(*seed), *seed).is_some()
    });
    found.count() as f64 / devices
}

/// Fresh seeds: `COSCAN_SEED` or, without it, from the random state of this run. Failures print them.
fn fresh(devices: u64) -> Range<u64> {
    let given = std::env::var("COSCAN_SEED").ok().and_then(|seed| seed.parse().ok());
    let first = given.unwrap_or_else(|| RandomState::new().hash_one(0) >> 16);
    println!("seeds from COSCAN_SEED={first}");
    first..first + devices
}

#[test]
fn boundaries_of_fresh_devices_are_found_and_none_where_there_are_none() {
    let seeds = fresh(60);
    let (recall, missed) = recall(seeds.clone());
    assert!(recall >= 0.95, "COSCAN_SEED={}: {recall}: {missed:#?}", seeds.start);
    let false_positives = false_positives(seeds.clone());
    assert!(false_positives <= 0.02, "COSCAN_SEED={}: {false_positives}", seeds.start);
}

#[test]
#[ignore = "a thousand devices of each kind: minutes"]
fn over_a_thousand_devices_recall_is_high_and_false_positives_are_rare() {
    let seeds = fresh(1000);
    let (recall, missed) = recall(seeds.clone());
    let false_positives = false_positives(seeds);
    println!("recall {recall}, false positives {false_positives}\n{missed:#?}");
    assert!(recall >= 0.95, "{recall}");
    assert!(false_positives <= 0.02, "{false_positives}");
}

/// Requests that begin before the boundary and end behind it take longer.
#[test]
fn the_picture_of_a_boundary_shows_its_penalty_where_requests_cross() {
    let device = Box::new(DeviceModel::Parallel {
        places: 4,
        latency: Span::from_nanos(100_000),
        bytes_per_s_each: 1_000_000_000,
        bytes_per_s: 4_000_000_000,
    });
    let boundaries =
        Boundaries { period_bytes: 256 << 10, offset_bytes: 64 << 10, penalty: Span::from_nanos(80_000) };
    let found = search(DeviceModel::Bounded { boundaries, device }, 3).unwrap();
    assert_eq!((found.period_bytes, found.offset_bytes), (256 << 10, 64 << 10));
    assert_eq!(found.picture.len(), 24);
    for place in &found.picture {
        let crosses = place.behind_bytes + found.request_bytes > found.period_bytes;
        let wanted = 100e-6 + found.request_bytes as f64 / 1e9 + if crosses { 80e-6 } else { 0.0 };
        within("time", place.p50_s.value, wanted, 0.02);
    }
}

#[test]
fn reads_beside_writes_are_measured_only_if_asked_for() {
    let drive = SolidStateModel {
        channels: 2,
        planes: 1,
        page_bytes: 16 << 10,
        stripe_bytes: 64 << 10,
        read: Span::from_nanos(60_000),
        program: Span::from_nanos(600_000),
        latency: Span::from_nanos(15_000),
        channel_bytes_per_s: 400_000_000,
        link_bytes_per_s: 3_000_000_000,
    };
    assert!(probed(DeviceModel::SolidState(drive)).mixed.is_none());
    let search = Search { period_max_bytes: 32 << 10, ..Search::default() };
    let options = ProbeOptions { search, writes: true, ..ProbeOptions::default() };
    let profile = probe(&mut simulated(DeviceModel::SolidState(drive), 5), &options, &mut |_| {}).unwrap();
    let mixed = profile.mixed.unwrap();
    assert!(mixed.read_beside_writes.low > 1.5, "a read waits for programs of its channel: {mixed:?}");
    assert!(mixed.write_s.value > mixed.read_s.value, "{mixed:?}");
}

fn probed(model: DeviceModel) -> Profile {
    let options = ProbeOptions {
        search: Search { period_max_bytes: 1 << 20, ..Search::default() },
        ..ProbeOptions::default()
    };
    probe(&mut simulated(model, 5), &options, &mut |_| {}).unwrap()
}

#[track_caller]
fn within(what: &str, found: f64, wanted: f64, tolerance: f64) {
    assert!((found / wanted - 1.0).abs() <= tolerance, "{what}: {found} instead of {wanted}");
}

#[test]
fn cost_bandwidth_and_depth_of_a_store_are_measured_and_it_has_no_boundaries() {
    let store = DeviceModel::Parallel {
        places: 16,
        latency: Span::from_millis(30),
        bytes_per_s_each: 90_000_000,
        bytes_per_s: 10_000_000_000,
    };
    let profile = probed(store);
    within("fixed cost", profile.fixed_cost_s.unwrap().value, 0.030, 0.02);
    within("bandwidth", profile.bytes_per_s.unwrap().value, 90e6, 0.02);
    within("90% efficiency", profile.efficient_bytes.unwrap().value, 9.0 * 0.030 * 90e6, 0.05);
    within("gap", profile.coalescing_gap_bytes().unwrap() as f64, 0.030 * 90e6, 0.05);
    assert_eq!(profile.depth.unwrap().enough.value, 16.0);
    within("random over sequential", profile.random_over_sequential.unwrap().value, 1.0, 0.01);
    assert!(profile.complete && profile.boundaries_searched && profile.boundary.is_none());
    assert!(profile.regime_searched && profile.regime.is_none());
}

#[test]
fn a_solid_state_drive_shows_its_planes_and_stripes() {
    let drive = SolidStateModel {
        channels: 8,
        planes: 2,
        page_bytes: 16 << 10,
        stripe_bytes: 64 << 10,
        read: Span::from_nanos(60_000),
        program: Span::from_nanos(600_000),
        latency: Span::from_nanos(15_000),
        channel_bytes_per_s: 400_000_000,
        link_bytes_per_s: 3_000_000_000,
    };
    let profile = probed(DeviceModel::SolidState(drive));
    // A page is read as a whole: one more page on the same plane costs a read. At the end of a stripe the
    // next page is on another plane and costs nothing.
    let boundary = profile.boundary.unwrap();
    let page = 16 << 10;
    let whole = |bytes: u64| bytes.is_multiple_of(page);
    assert!(whole(boundary.period_bytes) && whole(boundary.offset_bytes), "{boundary:?}");
    within("penalty", boundary.penalty_s.value, 60e-6, 0.2);
    assert!((8.0..=32.0).contains(&profile.depth.unwrap().enough.value));
}

#[test]
fn burst_credit_that_is_used_up_is_a_change_of_regime() {
    let device = Box::new(DeviceModel::Parallel {
        places: 8,
        latency: Span::from_nanos(100_000),
        bytes_per_s_each: 500_000_000,
        bytes_per_s: 1_000_000_000,
    });
    // The rest of the burst lasts for a while during continuous reading.
    let throttled = DeviceModel::Throttled { bytes_per_s: 50_000_000, burst_bytes: 250_000_000, device };
    let profile = probed(throttled);
    let regime = profile.regime.unwrap();
    within("after", regime.bytes_per_s_after, 50e6, 0.1);
    assert!(regime.bytes_per_s_before > 10.0 * regime.bytes_per_s_after);
}

#[test]
fn profiles_are_read_as_they_were_written_and_others_are_refused() {
    let profile = probed(DeviceModel::SeekDisk { bytes_per_s: 100_000_000, seek: Span::from_millis(5) });
    assert!(profile.random_over_sequential.unwrap().value > 5.0);
    let text = profile.to_toml().unwrap();
    assert_eq!(Profile::from_toml(&text).unwrap(), profile);
    let newer = text.replace("version = 1", "version = 2");
    assert!(Profile::from_toml(&newer).unwrap_err().to_string().contains("version 2"));
    assert!(Profile::from_toml("speed = 3").is_err());
    let wrong =
        |from: &str, to: &str| Profile::from_toml(&text.replacen(from, to, 1)).unwrap_err().to_string();
    let message = wrong("\nblock_bytes = ", "\nblock_bytes = 'large' # ");
    let line = text.lines().position(|line| line.starts_with("block_bytes")).unwrap() + 1;
    assert!(message.contains(&format!("line {line}: ")), "{message}");
    assert!(Profile::from_toml("version = 1\nhello {\n").unwrap_err().to_string().contains("line 2: "));
    assert!(wrong("low = ", "lowest = ").contains("lowest"), "a value that is not known inside a table");
}
