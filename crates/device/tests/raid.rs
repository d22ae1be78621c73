//! Arrays against results computed by hand: the members that a request keeps busy, the duration, and the
//! number of requests served at once (Cooperative Scans 2004, §3.2, Table 3). Each request lies at a place
//! without earlier requests, so that each access costs a seek.

use coscan_base::{Instant, Span};
use coscan_device::{
    Completion, DeviceModel, DeviceSpec, RaidLevel, Request, RequestId, SpecError, Transfer,
};

const SEEK: Span = Span::from_millis(10);
const UNIT: u64 = 64 << 10;
const MB: u64 = 1_000_000;
const PAGE: u64 = 8192;

/// Members of 64 MiB/s: a stripe unit takes 1/1024 s.
fn disk() -> DeviceModel {
    DeviceModel::SeekDisk { bytes_per_s: 1024 * UNIT, seek: SEEK }
}

fn raid(level: RaidLevel, disks: u32) -> DeviceSpec {
    let member = Box::new(disk());
    DeviceSpec::new(DeviceModel::Raid { level, disks, stripe_unit_bytes: UNIT, member }).unwrap()
}

/// Submits all requests at once; returns the completion of each, in seconds, by number.
fn finish_s(spec: &DeviceSpec, kind: Transfer, runs: &[(u64, u64)]) -> Vec<f64> {
    let mut device = spec.build();
    for (id, (offset, bytes)) in (0..).zip(runs) {
        let request = Request { id: RequestId(id), offset: *offset, bytes: *bytes, kind };
        device.submit(Instant::ZERO, request);
    }
    let mut finish = vec![0.0; runs.len()];
    let mut done = Vec::new();
    while let Some(at) = device.next_completion() {
        device.advance(at, &mut done);
        for Completion { id, ok } in done.drain(..) {
            assert!(ok);
            finish[id.0 as usize] = at.as_nanos() as f64 / 1e9;
        }
    }
    finish
}

/// The time of `seeks` seeks and of `units` stripe units.
fn seconds(seeks: u32, units: f64) -> f64 {
    f64::from(seeks) * 0.010 + units / 1024.0
}

#[track_caller]
fn assert_close(measured: f64, expected: f64) {
    assert!((measured - expected).abs() < 1e-6, "{measured} instead of {expected}");
}

#[test]
fn a_chunk_costs_every_member_one_seek_and_its_share() {
    let read = |level, bytes| finish_s(&raid(level, 8), Transfer::Read, &[(0, bytes)])[0];
    let write = |level, bytes| finish_s(&raid(level, 8), Transfer::Write, &[(0, bytes)])[0];
    // 128 units on each member that holds data.
    assert_close(read(RaidLevel::Zero, 8 * 128 * UNIT), seconds(1, 128.0));
    assert_close(read(RaidLevel::One, 4 * 128 * UNIT), seconds(1, 128.0));
    assert_close(write(RaidLevel::Zero, 8 * 128 * UNIT), seconds(1, 128.0));
    assert_close(write(RaidLevel::One, 4 * 128 * UNIT), seconds(1, 128.0));
    // RAID-5: the parity is read too, or written with the data.
    assert_close(read(RaidLevel::Five, 7 * 128 * UNIT), seconds(1, 128.0));
    assert_close(write(RaidLevel::Five, 7 * 128 * UNIT), seconds(1, 128.0));
}

#[test]
fn a_small_write_on_raid_5_reads_old_data_and_parity_first() {
    let page = PAGE as f64 / UNIT as f64;
    let alone = |kind| finish_s(&raid(RaidLevel::Five, 8), kind, &[(UNIT, PAGE)])[0];
    assert_close(alone(Transfer::Read), seconds(1, page));
    assert_close(alone(Transfer::Write), seconds(2, 2.0 * page));
}

#[test]
fn a_page_per_member_is_read_in_the_time_of_one() {
    let page = PAGE as f64 / UNIT as f64;
    // Eight consecutive units lie on eight members, also behind a rotated parity.
    let pages: Vec<(u64, u64)> = (0..8).map(|unit| (unit * UNIT, PAGE)).collect();
    for level in [RaidLevel::Zero, RaidLevel::Five] {
        for finish in finish_s(&raid(level, 8), Transfer::Read, &pages) {
            assert_close(finish, seconds(1, page));
        }
    }
    // Mirrors: two pages of one unit go to one side each; a third waits.
    let same: Vec<(u64, u64)> = (0..3).map(|row| (row * 4 * UNIT, PAGE)).collect();
    let finish = finish_s(&raid(RaidLevel::One, 8), Transfer::Read, &same);
    assert_close(finish[0], seconds(1, page));
    assert_close(finish[1], seconds(1, page));
    assert_close(finish[2], seconds(2, 2.0 * page));
    let finish = finish_s(&raid(RaidLevel::One, 8), Transfer::Write, &same[..2]);
    assert_close(finish[1], seconds(2, 2.0 * page));
}

#[test]
fn raid_4_keeps_its_parity_on_one_member_that_every_small_write_waits_for() {
    let four = raid(RaidLevel::Four, 5);
    // Two pages on different members: reads run at once; writes meet at the parity, which is read and
    // written.
    let pages = [(0, PAGE), (5 * UNIT, PAGE)];
    let page = PAGE as f64 / UNIT as f64;
    let reads = finish_s(&four, Transfer::Read, &pages);
    assert_close(reads[0], seconds(1, page));
    assert_close(reads[1], seconds(1, page));
    let writes = finish_s(&four, Transfer::Write, &pages);
    assert_close(writes[1], seconds(4, 4.0 * page));
    // A whole stripe is written with its parity at once.
    assert_close(finish_s(&four, Transfer::Write, &[(0, 4 * UNIT)])[0], seconds(1, 1.0));
}

#[test]
fn two_chunk_readers_share_mirrors_but_no_other_level() {
    let chunk = 4 * 128 * UNIT;
    let two = [(0, chunk), (100 * chunk, chunk)];
    let both = |level| finish_s(&raid(level, 8), Transfer::Read, &two);
    assert_close(both(RaidLevel::One)[1], seconds(1, 128.0));
    assert_close(both(RaidLevel::Zero)[1], seconds(2, 128.0));
}

#[test]
fn arrays_of_arrays_are_limited_in_all() {
    let nested = |outer, inner| {
        let inner = DeviceModel::Raid {
            level: RaidLevel::Zero,
            disks: inner,
            stripe_unit_bytes: UNIT,
            member: Box::new(disk()),
        };
        let (level, member) = (RaidLevel::One, Box::new(inner));
        DeviceSpec::new(DeviceModel::Raid { level, disks: outer, stripe_unit_bytes: UNIT, member })
    };
    assert!(nested(2, 4).is_ok());
    assert_eq!(nested(1000, 1000), Err(SpecError::TooManyDisks(1_000_000)));
}

#[test]
fn members_too_few_or_odd_and_bad_members_are_refused() {
    let spec = |level, disks, stripe_unit_bytes, member| {
        let member = Box::new(member);
        DeviceSpec::new(DeviceModel::Raid { level, disks, stripe_unit_bytes, member })
    };
    assert!(matches!(spec(RaidLevel::Five, 2, UNIT, disk()), Err(SpecError::Disks { level: 5, .. })));
    assert!(matches!(spec(RaidLevel::One, 3, UNIT, disk()), Err(SpecError::Disks { level: 1, .. })));
    assert!(matches!(spec(RaidLevel::Zero, 0, UNIT, disk()), Err(SpecError::Disks { level: 0, .. })));
    assert_eq!(spec(RaidLevel::Zero, 2, 100, disk()), Err(SpecError::StripeUnit(100)));
    let slow = DeviceModel::SeekDisk { bytes_per_s: 0, seek: SEEK };
    assert!(matches!(spec(RaidLevel::Zero, 2, UNIT, slow), Err(SpecError::NoBandwidth { .. })));
    let endless = DeviceModel::SeekDisk { bytes_per_s: MB, seek: Span::MAX };
    assert!(matches!(spec(RaidLevel::Zero, 2, UNIT, endless), Err(SpecError::TooLong { .. })));
}
