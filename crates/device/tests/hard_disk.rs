//! The hard disk against external figures: the consequences of the Atlas 10K's parameters, and the results of
//! DiskSim 4.0 for the same requests.

use coscan_base::{Instant, Span};
use coscan_device::hard_disk::{BLOCK_BYTES, HardDiskModel, ReadAhead, Schedule, TrackOrder, atlas10k};
use coscan_device::hard_disk::{atlas10k2, atlas10k3};
use coscan_device::replay::{Arrival, read_disksim_trace, replay};
use coscan_device::{Device, DeviceModel, DeviceSpec, Transfer};

fn build(model: &HardDiskModel) -> Box<dyn Device> {
    DeviceSpec::new(DeviceModel::HardDisk(Box::new(model.clone()))).unwrap().build()
}

fn ms(span: Span) -> f64 {
    span.as_nanos() as f64 / 1e6
}

/// The mechanism alone: no overheads, a bus without transfer time, a buffer of two segments without
/// read-ahead.
fn bare(mut model: HardDiskModel) -> HardDiskModel {
    model.overheads = coscan_device::hard_disk::DiskOverheads::default();
    model.bus.block = Span::ZERO;
    model.cache.read_ahead = ReadAhead::None;
    model.cache.free_reads = false;
    model.cache.segments = 2;
    model.cache.segment_blocks = 4096;
    model
}

/// Mean time of reads of `blocks` blocks, issued at random times, each at a multiple of `aligned` plus
/// `offset(rng)`.
fn mean_read_ms(
    model: &HardDiskModel,
    reads: u64,
    blocks: u64,
    mut first: impl FnMut(&mut fastrand::Rng) -> u64,
) -> f64 {
    let mut rng = fastrand::Rng::with_seed(7);
    let mut at = 0;
    let arrival = |_| {
        at += 100_000_000 + rng.u64(0..10_000_000);
        Arrival { at: Instant::from_nanos(at), block: first(&mut rng), blocks, kind: Transfer::Read }
    };
    let arrivals: Vec<Arrival> = (0..reads).map(arrival).collect();
    let took = replay(&mut *build(model), model.blocks(), &arrivals).unwrap();
    took.iter().map(|span| ms(*span)).sum::<f64>() / reads as f64
}

fn near(what: &str, found: f64, wanted: f64, tolerance: f64) {
    assert!((found / wanted - 1.0).abs() <= tolerance, "{what}: {found:.4} instead of {wanted}");
}

#[test]
fn random_reads_take_what_the_figures_of_the_atlas_10k_imply() {
    let model = bare(atlas10k());
    let blocks = model.blocks();
    let random = mean_read_ms(&model, 8_000, 8, |rng| rng.u64(0..blocks - 8));
    near("random 4 KB", random, 8.75, 0.01);
}

/// Single blocks of the first zone: a seek and, on average, half a revolution minus half a sector.
#[test]
fn the_mean_seek_in_the_first_zone_is_what_the_curves_imply() {
    for (name, model, seek, tolerance) in
        [("Atlas 10K", atlas10k(), 2.29, 0.02), ("Atlas 10K II", atlas10k2(), 2.2, 0.06)]
    {
        let zone = &model.zones[0];
        let blocks = u64::from(zone.last_cylinder + 1) * u64::from(model.heads * zone.sectors) - 1000;
        let revolution = 60_000.0 / f64::from(model.rpm);
        let mean = mean_read_ms(&bare(model), 20_000, 1, |rng| rng.u64(0..blocks));
        near(name, mean - revolution / 2.0, seek, tolerance);
    }
}

/// Zone 0: 433 cylinders of 6 tracks of 334 sectors. Its first slipped sector is the 55,018th. So every
/// track-aligned read can safely use the tracks of the 27 cylinders before it.
#[test]
fn whole_tracks_are_read_without_rotational_latency_and_unaligned_ones_are_not() {
    const SECTORS: u64 = 334;
    let period = 60_000.0 / 10_025.0;
    let mut model = bare(atlas10k());
    for zone in &mut model.zones {
        zone.slips.clear();
    }
    let tracks = 433 * 6 - 2;
    let mut efficiency = |zero_latency, aligned| {
        model.zero_latency = zero_latency;
        let first = |rng: &mut fastrand::Rng| {
            rng.u64(0..tracks) * SECTORS + if aligned { 0 } else { rng.u64(0..SECTORS) }
        };
        period / mean_read_ms(&model, 1500, SECTORS, first)
    };
    near("aligned, zero latency", efficiency(true, true), 0.723, 0.02);
    near("unaligned, zero latency", efficiency(true, false), 0.484, 0.02);
    near("aligned", efficiency(false, true), 0.531, 0.02);
    near("unaligned", efficiency(false, false), 0.477, 0.02);
}

/// The share of the time that moves data when whole tracks are read in order.
fn streaming(model: HardDiskModel) -> f64 {
    let mut model = bare(model);
    model.zero_latency = false;
    model.cache.segment_blocks = 1 << 20;
    let sectors = u64::from(model.zones[0].sectors);
    let blocks = sectors * u64::from(model.heads) * 100;
    let arrivals = [Arrival { at: Instant::ZERO, block: 0, blocks, kind: Transfer::Read }];
    let took = replay(&mut *build(&model), model.blocks(), &arrivals).unwrap();
    (blocks / sectors) as f64 * 60_000.0 / f64::from(model.rpm) / ms(took[0])
}

#[test]
fn streaming_in_order_loses_what_the_skews_cost() {
    near("Atlas 10K", streaming(atlas10k()), 0.824, 0.005);
    // A skew shorter than a switch would cost a revolution each time.
    near("Atlas 10K II", streaming(atlas10k2()), 0.89, 0.03);
    near("Atlas 10K III", streaming(atlas10k3()), 0.88, 0.03);
}

/// Commands, and the results of DiskSim 4.0 with its parameters of the Atlas 10K.
const DISKSIM: &str = include_str!("disksim_atlas10k.txt");

#[test]
fn single_commands_take_as_long_as_in_disksim() {
    let (trace, times): (Vec<&str>, Vec<&str>) =
        DISKSIM.lines().filter_map(|line| line.split_once(" | ")).unzip();
    let arrivals = read_disksim_trace(&trace.join("\n")).unwrap();
    assert!(arrivals.len() >= 20);
    let model = atlas10k();
    let took = replay(&mut *build(&model), model.blocks(), &arrivals).unwrap();
    for ((arrival, took), wanted) in arrivals.iter().zip(took).zip(times) {
        let wanted: f64 = wanted.parse().unwrap();
        assert!((ms(took) - wanted).abs() < 0.005, "{arrival:?}: {} instead of {wanted}", ms(took));
    }
}

/// Runs of sequential writes with pauses of 0.5 to 20 ms, and the results of DiskSim 4.0.
const DISKSIM_WRITES: &str = include_str!("disksim_atlas10k_writes.txt");

#[test]
fn sequential_writes_wait_as_long_as_in_disksim() {
    let (trace, times): (Vec<&str>, Vec<&str>) =
        DISKSIM_WRITES.lines().filter_map(|line| line.split_once(" | ")).unzip();
    let times: Vec<f64> = times.iter().map(|time| time.parse().unwrap()).collect();
    let took = took(&atlas10k(), &trace.join("\n"));
    let mean = |times: &[f64]| times.iter().sum::<f64>() / times.len() as f64;
    near("mean", mean(&took), mean(&times), 0.02);
    // The error of each is less than a revolution.
    let furthest = took.iter().zip(&times).map(|(took, wanted)| (took - wanted).abs()).fold(0.0, f64::max);
    assert!(furthest < 60_000.0 / 10_025.0 + 0.1, "{furthest} ms");
}

fn took(model: &HardDiskModel, trace: &str) -> Vec<f64> {
    let arrivals = read_disksim_trace(trace).unwrap();
    replay(&mut *build(model), model.blocks(), &arrivals).unwrap().into_iter().map(ms).collect()
}

#[test]
fn what_was_read_ahead_is_a_hit_and_what_was_written_too() {
    let model = atlas10k();
    let hit = 0.184 + 8.0 * 0.099;
    let times = took(&model, "0 0 4700 8 1\n50 0 4708 8 1\n100 0 9000 8 0\n150 0 9000 8 1\n200 0 4708 8 1");
    near("read ahead", times[1], hit, 1e-6);
    near("write", times[2], 0.186 + 8.0 * 0.099, 1e-6);
    near("read of what was written", times[3], hit, 1e-6);
    near("still there", times[4], hit, 1e-6);
}

#[test]
fn without_write_back_a_write_waits_for_the_disk() {
    let mut model = atlas10k();
    model.cache.write_back = false;
    let through = took(&model, "0 0 9000000 8 0")[0];
    assert!(through > 5.0, "{through}");
}

#[test]
fn sequential_writes_are_combined_while_the_disk_still_writes_the_first() {
    let times = took(&atlas10k(), "0 0 9000000 8 0\n1 0 9000008 8 0\n2 0 1000 8 0");
    assert!(times[1] < 1.1, "joins the dirty segment: {times:?}");
    assert!(times[2] > 5.0, "waits until it is on the disk: {times:?}");
}

#[test]
fn queued_commands_overlap_the_bus_with_the_next_seek_and_orders_help() {
    let mut rng = fastrand::Rng::with_seed(3);
    let lines: Vec<String> = (0..200).map(|_| format!("0 0 {} 64 1", rng.u64(0..17_000_000))).collect();
    let trace = lines.join("\n");
    let last = |depth, schedule| {
        let mut model = atlas10k();
        (model.queue_depth, model.schedule) = (depth, schedule);
        took(&model, &trace).into_iter().fold(0.0, f64::max)
    };
    let fcfs = last(1, Schedule::Fcfs);
    let overlapped = last(2, Schedule::Fcfs);
    let [sstf, c_look, sptf] = [Schedule::Sstf, Schedule::CLook, Schedule::Sptf].map(|order| last(64, order));
    assert!(overlapped < 0.9 * fcfs, "{overlapped} {fcfs}");
    assert!(sstf < overlapped && c_look < overlapped && sptf < sstf, "{overlapped} {sstf} {c_look} {sptf}");
}

#[test]
fn a_snake_of_tracks_serves_every_block() {
    let mut model = bare(atlas10k());
    model.order = TrackOrder::Serpentine { tracks: 32 };
    let blocks = model.blocks();
    let mean = mean_read_ms(&model, 2000, 8, |rng| rng.u64(0..blocks - 8));
    assert!((7.0..11.0).contains(&mean), "{mean}");
}

#[test]
fn derived_drives_have_the_figures_that_they_were_fitted_to() {
    let gigabytes = |model: &HardDiskModel| (model.blocks() * BLOCK_BYTES) as f64 / 1e9;
    near("Atlas 10K III, capacity", gigabytes(&atlas10k3()), 36.7, 0.02);
    for (model, seek) in [(atlas10k3(), 4.5), (atlas10k2(), 4.7)] {
        let blocks = model.blocks();
        let random = mean_read_ms(&bare(model), 20_000, 1, |rng| rng.u64(0..blocks - 8));
        near("mean seek", random - 3.0, seek, 0.05);
    }
}

#[test]
fn models_that_make_no_sense_are_refused() {
    let refused = |change: fn(&mut HardDiskModel)| {
        let mut model = atlas10k();
        change(&mut model);
        DeviceSpec::new(DeviceModel::HardDisk(Box::new(model))).is_err()
    };
    assert!(refused(|model| model.zones.clear()));
    assert!(refused(|model| model.zones.reverse()));
    assert!(refused(|model| model.heads = 0));
    assert!(refused(|model| model.cache.segments = 1));
    assert!(refused(|model| model.queue_depth = 0));
    assert!(refused(|model| model.zones[0].slips = vec![5, 5]));
}
