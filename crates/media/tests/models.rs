//! Libraries against numbers computed by hand from their stated parameters.

use coscan_media::model::{Archive, Lto, Robot};
use coscan_media::{Fragment, FragmentId, Library, LibraryError, MediumId, Price, Span, offline};

const MB: u64 = 1 << 20;

fn seconds(span: Span) -> f64 {
    span.as_nanos() as f64 / 1e9
}

#[test]
fn the_tape_stacker_is_that_of_table_1() {
    let library = Library::tape_stacker_1996();
    assert_eq!((library.drives(), library.medium_bytes()), (1, Some(10_000 * MB)));
    assert_eq!(seconds(library.switch(Some(5)).total()), 30.0);
    assert_eq!(seconds(library.transfer(512 * MB)), 256.0);
    assert_eq!(seconds(library.locate(0, 400 * MB)), 4.0);
    assert_eq!(seconds(library.locate(400 * MB, 0)), 4.0);
    assert_eq!(seconds(library.locate(7, 7)), 0.0, "what follows is read on");
}

#[test]
fn the_optical_jukebox_is_that_of_table_1() {
    let library = Library::optical_jukebox_1996();
    assert_eq!((library.drives(), library.medium_bytes()), (2, Some(1_300 * MB)));
    assert_eq!(seconds(library.switch(None).total()), 14.0);
    assert_eq!(seconds(library.transfer(MB)), 2.0);
    assert_eq!(seconds(library.locate(0, 1_000 * MB)), 0.3);
    assert_eq!(seconds(library.locate(0, 1)), 0.3);
}

/// LTO-9: 280 wraps of 64.29 GB that alternate in direction, 70 to a band.
#[test]
fn lto_positions_that_are_far_in_bytes_may_be_near_on_the_tape() {
    let library = Library::lto(Lto::nine(8, 1)).unwrap();
    let wrap = 18_000_000_000_000 / 280;
    // To the same place of the next wrap but one: another wrap, the same direction, no distance.
    assert!((seconds(library.locate(wrap / 2, 2 * wrap + wrap / 2)) - (4.29 + 6.69)).abs() < 0.01);
    // To the next wrap at the same distance from the load point: the direction differs too.
    let near = seconds(library.locate(wrap / 4, wrap + 3 * wrap / 4));
    assert!((near - (4.29 + 6.69 + 5.22)).abs() < 0.1, "{near}");
    // Across the band.
    let across = seconds(library.locate(wrap / 2, 70 * wrap + wrap / 2));
    assert!((across - (4.29 + 6.69 + 3.2)).abs() < 0.01, "{across}");
    // Back on the same wrap: half its length and a step back.
    let back = seconds(library.locate(3 * wrap / 4, wrap / 4));
    assert!((back - (4.29 + 11.32 + 0.000_619_2 * 84_200.0)).abs() < 0.1, "{back}");
    // A gap that is shorter to read than to locate is read.
    assert!(seconds(library.locate(0, 300_000_000)) <= 1.0 + 1e-6);
}

/// The maker states a mean locate from the load point of 65 s. The test compares a mean over random targets
/// of the model.
#[test]
fn the_mean_locate_of_lto_9_is_near_what_the_maker_states() {
    let library = Library::lto(Lto::nine(8, 1)).unwrap();
    let mut rng = fastrand::Rng::with_seed(1);
    let mean =
        (0..10_000).map(|_| seconds(library.locate(0, rng.u64(0..18_000_000_000_000)))).sum::<f64>() / 1e4;
    assert!((52.0..78.0).contains(&mean), "{mean} s");
}

#[test]
fn an_archive_costs_requests_and_bytes() {
    let archive = Archive {
        restores_at_once: 4,
        restore: Span::from_millis(3 * 3_600_000),
        bytes_per_s: 100_000_000,
        per_request: Price::from_millionths(50),
        per_gib: Price::from_millionths(10_000),
    };
    let library = Library::archive(archive).unwrap();
    assert!(!library.mounts());
    assert_eq!(library.price(1 << 31), Price::from_millionths(20_050));
    assert_eq!(seconds(library.transfer(100_000_000)), 10_801.0);
    let endless = Archive { restore: Span::MAX, ..archive };
    assert_eq!(Library::archive(endless), Err(LibraryError::TooLong { setting: "restore" }));
}

#[test]
fn what_makes_no_sense_is_refused() {
    let stacker = Robot::tape_stacker_1996();
    let refused = |robot: Robot| Library::robot(robot).unwrap_err().to_string();
    assert_eq!(
        refused(Robot { drives: 0, ..stacker }),
        "a library needs at least 1 drive and at most 100000, not 0"
    );
    assert!(refused(Robot { bytes_per_s: 0, ..stacker }).contains("transfer is 0 bytes/s"));
    assert!(refused(Robot { arms: 0, ..stacker }).contains("at least 1 arm"));
    assert!(refused(Robot { medium_bytes: 0, ..stacker }).contains("at least 1 byte"));
    assert!(Library::lto(Lto::nine(0, 1)).is_err());
}

#[test]
fn no_schedule_beats_the_bound() {
    let library = Library::tape_stacker_1996().with_drives(2).unwrap();
    let mut rng = fastrand::Rng::with_seed(2);
    for _ in 0..200 {
        let fragments: Vec<Fragment> = (0..rng.u64(1..40))
            .map(|id| Fragment {
                id: FragmentId(id),
                medium: MediumId(rng.u32(0..6)),
                position: rng.u64(0..9_000) * MB,
                bytes: rng.u64(1..200) * MB,
            })
            .collect();
        let plan = offline::schedule(&library, &fragments);
        assert!(plan.makespan >= offline::lower_bound(&library, &fragments));
        let mut all: Vec<FragmentId> =
            plan.drives.values().flatten().flat_map(|(_, of)| of.iter().copied()).collect();
        all.sort_unstable();
        assert_eq!(all, fragments.iter().map(|f| f.id).collect::<Vec<_>>(), "each once");
    }
}
