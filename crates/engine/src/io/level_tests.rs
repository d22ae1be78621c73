//! Simulated stores with a known knee, in virtual time: the reached share of the best fixed level's
//! throughput.

use std::time::Duration;

use super::*;
use crate::clock;

/// A store: its behaviour with requests in progress.
#[derive(Clone, Copy)]
struct Store {
    latency_ms: f64,
    /// Bytes per second of one request, and of all.
    each: f64,
    all: f64,
    /// One request in this many takes ten times as long.
    slow_every: u32,
    /// Requests per second beyond which it refuses.
    refuses_above: f64,
}

const STORE: Store =
    Store { latency_ms: 30.0, each: 50e6, all: f64::INFINITY, slow_every: 0, refuses_above: f64::INFINITY };

struct Request {
    begun: f64,
    at_once: usize,
    bytes: f64,
    wait_ms: f64,
    left: f64,
}

/// The result of a run.
struct Run {
    bytes_per_s: f64,
    refused: usize,
    level: Level,
}

enum Slots {
    Fixed(usize),
    Found,
}

/// A step of the world, in ms.
const STEP: f64 = 1.0;

/// Makes requests of varying sizes for `seconds`, with this many slots. Throughput counts after `skip`
/// requests. `store` returns the store's behaviour at a time.
fn run(slots: &Slots, store: impl Fn(f64) -> Store, skip: usize, seconds: f64, seed: u64) -> Run {
    let started = clock::now();
    let at = |ms: f64| started + Duration::from_secs_f64(ms / 1e3);
    let mut random = fastrand::Rng::with_seed(seed);
    let mut level = Level::new(started, 1 << 30);
    let (mut now, mut done, mut refused, mut tokens) = (0.0, 0, 0, 10.0f64);
    let mut counted: Option<(f64, f64)> = None;
    let mut running: Vec<Request> = Vec::new();
    let mut held_until = 0.0;
    while now < seconds * 1e3 {
        let Store { latency_ms, each, all, slow_every, refuses_above } = store(now);
        tokens = (tokens + refuses_above * STEP / 1e3).min(refuses_above / 10.0);
        let limit = match slots {
            Slots::Fixed(limit) => *limit,
            Slots::Found => level.limit(),
        };
        while running.len() < limit && now >= held_until {
            let bytes = [64e3, 400e3, 1e6, 4e6][random.usize(0..4)];
            let slow = if slow_every > 0 && random.u32(0..slow_every) == 0 { 10.0 } else { 1.0 };
            let wait_ms = latency_ms * slow * (0.8 + 0.4 * random.f64());
            running.push(Request { begun: now, at_once: running.len() + 1, bytes, wait_ms, left: bytes });
        }
        let sending = running.iter().filter(|request| request.wait_ms <= 0.0).count().max(1);
        let rate = each.min(all / sending as f64) * STEP / 1e3;
        now += STEP;
        for request in &mut running {
            match request.wait_ms > 0.0 {
                true => request.wait_ms -= STEP,
                false => request.left -= rate,
            }
        }
        let mut next = 0;
        while next < running.len() {
            let request = &running[next];
            let first_byte = request.wait_ms <= 0.0 && request.left == request.bytes;
            if first_byte && tokens < 1.0 {
                let request = running.swap_remove(next);
                refused += 1;
                level.refuse(at(now), at(request.begun));
                held_until = now + 50.0;
                continue;
            }
            if first_byte && request.left == request.bytes {
                tokens -= 1.0;
                running[next].left -= 1.0;
            }
            let request = &running[next];
            if request.left > 0.0 {
                next += 1;
                continue;
            }
            let request = running.swap_remove(next);
            done += 1;
            if done > skip {
                let (_, bytes) = counted.get_or_insert((now, 0.0));
                *bytes += request.bytes;
            }
            let at_once = (request.at_once + running.len() + 1) as f64 / 2.0;
            level.answered(at(now), request.bytes as u64, at(request.begun), at_once);
        }
    }
    let (since, bytes) = counted.expect("enough requests");
    Run { bytes_per_s: bytes / (now - since) * 1e3, refused, level }
}

/// The throughput of the best fixed level, of the powers of two.
fn best(store: impl Fn(f64) -> Store + Copy, seconds: f64) -> f64 {
    let fixed = (1..=8).map(|power| run(&Slots::Fixed(1 << power), store, 0, seconds, 1).bytes_per_s);
    fixed.fold(0.0, f64::max)
}

#[test]
fn the_level_found_is_nearly_the_best_one() {
    let stores = [10.0, 30.0, 100.0]
        .into_iter()
        .flat_map(|latency_ms| [300e6, 100e6, 30e6].map(|all| Store { latency_ms, all, ..STORE }));
    for store in stores {
        let best = best(|_| store, 60.0);
        for seed in 0..5 {
            let found = run(&Slots::Found, |_| store, 100, 60.0, seed);
            let Store { latency_ms, all, .. } = store;
            let share = found.bytes_per_s / best;
            println!("{latency_ms} ms, {all:.0e} B/s, seed {seed}: {share:.2} at {}", found.level.limit());
            assert!(share > 0.85, "{latency_ms} ms, {all:.0e} B/s: {share:.2} at {}", found.level.limit());
        }
    }
}

#[test]
fn a_store_without_a_knee_gets_as_much_as_there_is() {
    for latency_ms in [10.0, 30.0, 100.0] {
        let found = run(&Slots::Found, |_| Store { latency_ms, ..STORE }, 100, 10.0, 1);
        println!("{latency_ms} ms: {}", found.level.limit());
        assert!(found.level.limit() > MOST / 2, "{latency_ms} ms: {}", found.level.limit());
    }
}

#[test]
fn slow_requests_do_not_lower_the_level() {
    let store = Store { slow_every: 100, all: 400e6, ..STORE };
    let best = best(|_| store, 60.0);
    for seed in 0..10 {
        let found = run(&Slots::Found, |_| store, 100, 60.0, seed);
        let share = found.bytes_per_s / best;
        println!("seed {seed}: {share:.2} at {}", found.level.limit());
        assert!(share > 0.85, "{share:.2} at {}", found.level.limit());
    }
}

#[test]
fn a_store_that_refuses_is_asked_no_more_than_it_answers() {
    let store = Store { refuses_above: 100.0, ..STORE };
    for seed in 0..5 {
        let found = run(&Slots::Found, |_| store, 100, 60.0, seed);
        let answered = found.bytes_per_s / 1.366e6;
        println!("{answered:.0} a second, {} refused, {}", found.refused, found.level.limit());
        assert!(answered > 70.0, "{answered:.0} requests a second at {}", found.level.limit());
        assert!(found.refused < 150, "{} refused in a minute", found.refused);
    }
}

#[test]
fn the_level_follows_a_store_that_changes() {
    let slower = |now: f64| Store { all: if now < 10e3 { 600e6 } else { 60e6 }, ..STORE };
    let faster = |now: f64| Store { all: if now < 10e3 { 60e6 } else { 600e6 }, ..STORE };
    let level = |store: fn(f64) -> Store, seconds| run(&Slots::Found, store, 0, seconds, 3).level.limit();
    let (before, after) = (level(slower, 10.0), level(slower, 60.0));
    println!("slower: {before} {after}");
    assert!(after * 2 <= before, "{before} to {after}");
    let after = level(faster, 60.0);
    println!("faster: {after}");
    assert!(after >= 20, "{after}");
}

#[test]
fn a_store_that_nobody_uses_much_keeps_its_level() {
    let now = clock::now();
    let mut level = Level::new(now, 1 << 30);
    for nth in 0..1000 {
        let begun = now + Duration::from_millis(nth);
        level.answered(begun + Duration::from_millis(30), 1 << 20, begun, 3.0);
    }
    assert_eq!((level.limit(), level.why(now)), (START, Why::Starting));
}

#[test]
fn requests_in_progress_fit_into_memory() {
    let now = clock::now();
    let mut level = Level::new(now, 64 << 20);
    for nth in 0..100 {
        let begun = now + Duration::from_millis(nth);
        level.answered(begun + Duration::from_millis(30), 8 << 20, begun, 32.0);
    }
    assert_eq!((level.limit(), level.why(now)), (8, Why::Memory));
}
