//! The room of point reads: its size, the scans that take it, and its return.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;

use super::faults::{Fault, Gated};
use super::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_scan_that_needs_the_whole_buffer_gets_the_room_back() {
    let dir = tempfile::tempdir().unwrap();
    let path = paged(dir.path(), 2);
    let expected = plain(&[&path], None);
    let engine =
        Engine::new(EngineConfig { point_share_percent: 60, ..config("relevance", 8 << 20) }).unwrap();
    let points = Points::open(&engine, &path).await;
    let all = || request(std::slice::from_ref(&points.open), None);
    engine.set_buffer(1).unwrap();
    let needed = match engine.scan(all()) {
        Err(EngineError::BufferTooSmall { needed, .. }) => needed,
        _ => panic!("one byte is too small"),
    };
    engine.set_buffer(needed).unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let (answered, refused) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let reading = async {
        let mut random = fastrand::Rng::with_seed(3);
        while !stop.load(Ordering::Relaxed) {
            let from = random.usize(0..ROWS - 10);
            let group = random.usize(0..2);
            match points.read(&engine, group, &[0, 2], &[from..from + 10]).await.unwrap() {
                Some(got) => {
                    assert_eq!(got, selected(&expected[&group], &[0, 2], &[from..from + 10]));
                    answered.fetch_add(1, Ordering::Relaxed)
                }
                None => refused.fetch_add(1, Ordering::Relaxed),
            };
            tokio::time::sleep(Duration::from_micros(200)).await;
        }
    };
    let scanning = async {
        // As often as it takes for a point read to find room.
        for _ in (0..).take_while(|round| *round < 5 || answered.load(Ordering::Relaxed) == 0) {
            let scan = engine.scan(all()).unwrap();
            let got = tokio::time::timeout(ENDS, scan_all(&scan, 1)).await;
            assert_eq!(got.unwrap_or_else(|_| panic!("stuck, {:?}", engine.usage())).unwrap(), expected);
        }
        stop.store(true, Ordering::Relaxed);
    };
    tokio::join!(reading, scanning);
    assert!(answered.into_inner() > 0, "point reads find room, too");
    assert_idle(&engine).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reads_whose_room_is_taken_in_the_middle_leave_no_frame_behind() {
    let dir = tempfile::tempdir().unwrap();
    let path = paged(dir.path(), 2);
    let expected = plain(&[&path], None);
    // So few frames that blocks queue for them.
    let (buffer, share) = (8 << 20, 12);
    let config = EngineConfig { point_share_percent: share, ..config("relevance", buffer) };
    let (engine, _) = Gated::engine(config, Duration::from_micros(200), |_| Fault::None);
    let points = Points::open(&engine, &path).await;
    let stop = AtomicBool::new(false);
    let (answered, refused) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let reading = |seed: u64| {
        let (points, engine, stop, expected) = (&points, &engine, &stop, &expected);
        let (answered, refused) = (&answered, &refused);
        async move {
            let mut random = fastrand::Rng::with_seed(seed);
            while !stop.load(Ordering::Relaxed) {
                let (group, from) = (random.usize(0..2), random.usize(0..ROWS - 600));
                match points.read(engine, group, &[0, 1], &[from..from + 600]).await.unwrap() {
                    Some(got) => {
                        assert_eq!(got, selected(&expected[&group], &[0, 1], &[from..from + 600]));
                        answered.fetch_add(1, Ordering::Relaxed);
                    }
                    None => {
                        refused.fetch_add(1, Ordering::Relaxed);
                        tokio::task::yield_now().await;
                    }
                }
            }
        }
    };
    let shrinking = async {
        let both = || [&answered, &refused].iter().all(|count| count.load(Ordering::Relaxed) > 0);
        let deadline = Instant::now() + ENDS;
        for _ in (0..).take_while(|round| *round < 100 || !both() && Instant::now() < deadline) {
            engine.set_buffer(1).unwrap();
            tokio::time::sleep(Duration::from_micros(300)).await;
            engine.set_buffer(buffer).unwrap();
            tokio::time::sleep(Duration::from_millis(3)).await;
        }
        stop.store(true, Ordering::Relaxed);
    };
    tokio::join!(futures::future::join_all((0..6).map(reading)), shrinking);
    let (answered, refused) = (answered.into_inner(), refused.into_inner());
    assert!(answered > 0 && refused > 0, "{answered} answered, {refused} refused");
    let deadline = Instant::now() + ENDS;
    while Instant::now() < deadline {
        engine.set_buffer(1).unwrap();
        if engine.usage().points == 0 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("frames are left: {:?}", engine.usage());
}

/// The smallest buffer in which these rows can be a point read.
async fn smallest_buffer(path: &Path, roots: &[usize], rows: &[Range<usize>]) -> u64 {
    let (mut too_small, mut enough) = (0u64, 1 << 30);
    while enough - too_small > 1 {
        let buffer = (too_small + enough) / 2;
        let engine = Engine::new(config("relevance", buffer)).unwrap();
        let points = Points::open(&engine, path).await;
        let read = points.read(&engine, 0, roots, rows);
        let read = tokio::time::timeout(ENDS, read).await;
        let read = read.unwrap_or_else(|_| panic!("with a buffer of {buffer} bytes it waits for ever"));
        if read.unwrap().is_some() { enough = buffer } else { too_small = buffer }
    }
    enough
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_that_just_fits_does_not_wait_for_ever() {
    let dir = tempfile::tempdir().unwrap();
    let path = paged(dir.path(), 1);
    for rows in [[10..20], [700..1400], [5_000..5_001]] {
        smallest_buffer(&path, &[0, 3], &rows).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_have_their_room_until_they_are_dropped() {
    let dir = tempfile::tempdir().unwrap();
    let path = paged(dir.path(), 1);
    let rows = [700..1400];
    let buffer = smallest_buffer(&path, &[0, 3], &rows).await;
    // No wait gives up while this test takes its time.
    let patient = EngineConfig { stall_after: Duration::from_secs(3600), ..config("relevance", buffer) };
    let engine = Engine::new(patient).unwrap();
    let points = Points::open(&engine, &path).await;
    let request = points.request(0, &[0, 3], &rows);
    let held = engine.point_read(&request).await.unwrap().expect("room for one");
    let bytes: usize = held.batches.iter().flatten().map(|array| array.get_buffer_memory_size()).sum();
    assert!(engine.usage().points >= bytes as u64, "{bytes} bytes are held: {:?}", engine.usage());
    assert!(engine.point_read(&request).await.unwrap().is_none(), "there is room for one at a time");

    // A read that cannot leave the rows to a scan waits for them.
    let waiting = tokio::spawn({
        let engine = engine.clone();
        let request = PointRequest { wait_for_room: true, ..request.clone() };
        async move { engine.point_read(&request).await }
    });
    tokio::time::sleep(Duration::from_millis(10)).await;
    assert!(!waiting.is_finished());
    drop(held);
    let got = tokio::time::timeout(ENDS, waiting).await.expect("there is room").unwrap();
    assert_eq!(joined(&got.unwrap().unwrap().batches), selected(&plain(&[&path], None)[&0], &[0, 3], &rows));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiting_for_room_that_nobody_gives_back_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let path = paged(dir.path(), 1);
    let rows = [700..1400];
    let buffer = smallest_buffer(&path, &[0, 3], &rows).await;
    let engine = Engine::new(config("relevance", buffer)).unwrap();
    let points = Points::open(&engine, &path).await;
    let request = points.request(0, &[0, 3], &rows);
    let _held = engine.point_read(&request).await.unwrap().expect("room for one");
    let request = PointRequest { wait_for_room: true, ..request };
    let refused = tokio::time::timeout(ENDS, engine.point_read(&request)).await;
    let refused = refused.expect("it ends").map(drop);
    assert!(
        matches!(&refused, Err(EngineError::BufferTooSmall { needed, .. }) if *needed > buffer),
        "{refused:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_consumer_that_stands_still_makes_room_for_a_point_read() {
    let dir = tempfile::tempdir().unwrap();
    let path = paged(dir.path(), 1);
    let (rows, roots) = ([700..1400], [0, 3]);
    let buffer = smallest_buffer(&path, &roots, &rows).await;
    let engine = Engine::new(config("relevance", buffer * 2)).unwrap();
    let points = Points::open(&engine, &path).await;
    // A chunk that fills the buffer, held by a consumer that does not read it.
    let scan = engine.scan(request(std::slice::from_ref(&points.open), Some(&[1]))).unwrap();
    let mut worker = scan.worker();
    let chunk = worker.next().await.unwrap().unwrap();
    engine.set_buffer(buffer).unwrap();
    let request = PointRequest { wait_for_room: true, ..points.request(0, &roots, &rows) };
    let got = tokio::time::timeout(ENDS, engine.point_read(&request)).await;
    let got = got.expect("it ends").unwrap().expect("room was made");
    assert_eq!(joined(&got.batches), selected(&plain(&[&path], None)[&0], &roots, &rows));
    drop((chunk, got));
}
