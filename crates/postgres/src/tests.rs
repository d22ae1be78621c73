//! The host with a fetcher and backends that act in random order. Every scan gets every chunk once, no frame
//! is used twice at the same time, and everything is released at the end.

use std::collections::{BTreeMap, BTreeSet};

use coscan_core::{PolicyName, registry};

use crate::commands::{Announcement, Command, RelKey, Source};
use crate::host::Host;

const CHUNK: u64 = 2 << 20;

#[derive(Default)]
struct Backend {
    needs: BTreeSet<u32>,
    mailboxes: BTreeMap<u32, u32>,
    finished: bool,
    failed: bool,
}

struct World {
    host: Host,
    random: fastrand::Rng,
    backends: BTreeMap<u32, Backend>,
    loads: BTreeMap<u64, u32>,
    frames: BTreeMap<u32, (u32, u32)>,
    tables: BTreeSet<u32>,
    budget_chunks: usize,
    now: u64,
}

impl World {
    fn new(seed: u64, budget_chunks: usize) -> Self {
        World {
            host: Host::new(budget_chunks as u64 * CHUNK, CHUNK, 2),
            random: fastrand::Rng::with_seed(seed),
            backends: BTreeMap::new(),
            loads: BTreeMap::new(),
            frames: BTreeMap::new(),
            tables: BTreeSet::new(),
            budget_chunks,
            now: 0,
        }
    }

    fn host(&mut self) -> &mut Host {
        self.now += 1_000_000;
        self.host.at(self.now)
    }

    fn register(&mut self, slot: u32, policy: PolicyName, relation: u32, chunks: u32, mailboxes: u32) {
        let key = RelKey { tablespace: 1, database: 2, relation };
        self.backends.insert(slot, Backend { needs: (0..chunks).collect(), ..Backend::default() });
        self.host().register(slot, Announcement { policy, key, chunks, first: 0, mailboxes });
        self.carry_out();
    }

    fn carry_out(&mut self) {
        while let Some(command) = self.host.next_command() {
            match command {
                Command::OpenTable { table, .. } => assert!(self.tables.insert(table), "opened twice"),
                Command::CloseTable { table } => {
                    assert!(self.tables.remove(&table));
                    assert!(self.frames.values().all(|(of, _)| *of != table), "kept after the last scan");
                }
                Command::Load { load, table, chunk, frame } => {
                    assert!(self.frames.insert(frame, (table, chunk)).is_none(), "frame {frame} is in use");
                    assert!(self.frames.len() <= self.budget_chunks, "more frames than budget");
                    self.loads.insert(load, frame);
                }
                Command::Evict { frame } => {
                    assert!(self.frames.remove(&frame).is_some());
                    self.loads.retain(|_, into| *into != frame);
                }
                Command::Deliver { slot, mailbox, chunk, frame, .. } => {
                    assert_eq!(self.frames[&frame].1, chunk, "the frame holds another chunk");
                    let backend = self.backends.get_mut(&slot).unwrap();
                    assert!(backend.needs.remove(&chunk), "slot {slot} got chunk {chunk} twice");
                    assert!(backend.mailboxes.insert(mailbox, chunk).is_none(), "mailbox {mailbox} is taken");
                }
                Command::Finish { slot } => self.backends.get_mut(&slot).unwrap().finished = true,
                Command::Fail { slot } => self.backends.get_mut(&slot).unwrap().failed = true,
                Command::Revoked { .. } => {}
            }
        }
    }

    /// One event: a load arrives, a backend finishes a chunk, or time passes.
    fn step(&mut self) {
        let holding: Vec<(u32, u32)> = self
            .backends
            .iter()
            .flat_map(|(slot, b)| b.mailboxes.keys().map(|mailbox| (*slot, *mailbox)))
            .collect();
        let loads: Vec<u64> = self.loads.keys().copied().collect();
        match self.random.u32(0..10) {
            0..4 if !loads.is_empty() => {
                let load = self.random.choice(loads).unwrap();
                self.loads.remove(&load);
                self.host().loaded(load, true);
            }
            4..9 if !holding.is_empty() => {
                let (slot, mailbox) = self.random.choice(holding).unwrap();
                self.backends.get_mut(&slot).unwrap().mailboxes.remove(&mailbox);
                self.host().done(slot, mailbox);
            }
            _ => {
                self.now += 300_000_000;
                self.host().time_passed();
            }
        }
        self.carry_out();
        let ended: Vec<u32> = self.ended();
        for slot in ended {
            self.gone(slot);
        }
    }

    fn ended(&self) -> Vec<u32> {
        let over = |b: &Backend| b.failed || (b.finished && b.mailboxes.is_empty());
        self.backends.iter().filter(|(_, b)| over(b)).map(|(slot, _)| *slot).collect()
    }

    fn gone(&mut self, slot: u32) {
        let backend = self.backends.remove(&slot).unwrap();
        assert!(backend.failed || backend.needs.is_empty(), "slot {slot} ended without {:?}", backend.needs);
        self.host().gone(slot);
        self.carry_out();
    }

    fn cancel(&mut self, slot: u32) {
        self.backends.remove(&slot);
        self.host().gone(slot);
        self.carry_out();
    }
}

#[test]
fn every_scan_gets_every_chunk_once_under_every_policy() {
    for policy in registry::sharing() {
        for seed in 0..20 {
            let mut world = World::new(seed, 4 + seed as usize % 5);
            for slot in 0..6 {
                world.register(slot, policy, slot % 2, 5 + slot, 1 + slot % 3);
            }
            for _ in 0..4_000 {
                world.step();
            }
            assert!(world.backends.is_empty(), "{policy} with seed {seed}: scans are left");
            assert!(world.tables.is_empty() && world.frames.is_empty());
        }
    }
}

#[test]
fn mixed_policies_cancellation_and_switches() {
    let policies: Vec<PolicyName> = registry::sharing().collect();
    for seed in 0..200 {
        let mut world = World::new(seed, 16);
        for slot in 0..8 {
            let policy = policies[world.random.usize(..policies.len())];
            world.register(slot, policy, slot % 3, 3 + slot, 2);
        }
        for step in 0..5_000 {
            world.step();
            if step == 10 {
                world.host().force_policy(Some(policies[seed as usize % policies.len()]));
                world.carry_out();
            }
            if step % 16 == 15 && step < 60 && !world.backends.is_empty() {
                let slot = *world.backends.keys().next().unwrap();
                world.cancel(slot);
            }
            if step == 30 {
                world.host().set_budget(8 * CHUNK);
                world.carry_out();
            }
        }
        assert!(world.backends.is_empty(), "seed {seed}: scans are left");
        assert!(world.tables.is_empty() && world.frames.is_empty(), "seed {seed}");
    }
}

/// The fetcher forgets a file with its last table.
#[test]
fn a_file_stays_open_while_its_only_scan_changes_its_policy() {
    let policies: Vec<PolicyName> = registry::sharing().collect();
    let key = RelKey { tablespace: 1, database: 2, relation: 3 };
    let mut host = Host::new(8 * CHUNK, CHUNK, 1);
    host.register(0, Announcement { policy: policies[0], key, chunks: 20, first: 0, mailboxes: 2 });
    let mut open = 0;
    for policy in &policies[1..] {
        host.force_policy(Some(*policy));
        while let Some(command) = host.next_command() {
            match command {
                Command::OpenTable { .. } => open += 1,
                Command::CloseTable { .. } => open -= 1,
                _ => {}
            }
            assert!(open > 0, "{policy}: closed before it is opened again");
        }
        assert_eq!(open, 1, "{policy}");
    }
}

#[test]
fn the_second_scan_shares_what_the_first_one_read() {
    let relevance: PolicyName = "relevance".parse().unwrap();
    let key = RelKey { tablespace: 1, database: 2, relation: 3 };
    let mut host = Host::new(8 * CHUNK, CHUNK, 1);
    let scan = Announcement { policy: relevance, key, chunks: 1, first: 0, mailboxes: 1 };
    host.register(0, scan);
    host.register(1, scan);
    let mut sources = Vec::new();
    while let Some(command) = host.next_command() {
        match command {
            Command::Load { load, .. } => host.loaded(load, true),
            Command::Deliver { source, .. } => sources.push(source),
            _ => {}
        }
    }
    assert_eq!(sources, [Source::Read, Source::Shared]);
}

/// A parallel worker keeps its chunk until its leader takes its rows. The leader and the other workers go on.
#[test]
fn each_process_of_a_scan_is_served_while_others_keep_their_chunks() {
    for policy in registry::sharing() {
        let mut host = Host::new(8 * CHUNK, CHUNK, 2);
        let scan = |relation, mailboxes| {
            let key = RelKey { tablespace: 1, database: 2, relation };
            Announcement { policy, key, chunks: 20, first: 0, mailboxes }
        };
        host.register(0, scan(1, 2));
        host.register(1, scan(2, 2));
        let (mut held, mut now) = (BTreeSet::new(), 0);
        // Until nothing moves any more, even if chunks are asked back.
        let mut carry_out = |host: &mut Host, held: &mut BTreeSet<(u32, u32)>| {
            for _ in 0..5 {
                while let Some(command) = host.next_command() {
                    match command {
                        Command::Load { load, .. } => host.loaded(load, true),
                        Command::Deliver { slot, mailbox, .. } => assert!(held.insert((slot, mailbox))),
                        _ => {}
                    }
                }
                now += 1_000_000_000;
                host.at(now).time_passed();
            }
        };
        carry_out(&mut host, &mut held);
        // Three processes, of which two finish a chunk again and again, while all others keep theirs.
        host.register(2, scan(3, 4));
        carry_out(&mut host, &mut held);
        for _ in 0..10 {
            let of_scan: Vec<u32> = held.iter().filter(|(slot, _)| *slot == 2).map(|(_, at)| *at).collect();
            assert!(of_scan.len() >= 2, "{policy}: a process waits for one that keeps its chunk");
            held.remove(&(2, of_scan[1]));
            host.done(2, of_scan[1]);
            carry_out(&mut host, &mut held);
        }
    }
}

#[test]
fn what_is_recorded_can_be_read() {
    let folder = tempfile::tempdir().unwrap();
    let policies: Vec<PolicyName> = registry::sharing().collect();
    let mut world = World::new(7, 8);
    world.host().record(folder.path().join("run"));
    for slot in 0..6 {
        world.register(slot, policies[slot as usize % 2], slot % 2, 4 + slot, 2);
    }
    for _ in 0..2_000 {
        world.step();
    }
    assert!(world.backends.is_empty());
    let mut delivered = 0;
    for policy in &policies[..2] {
        let path = folder.path().join(format!("run-{policy}.jsonl"));
        let (header, lines) = coscan_trace::read(&path).unwrap();
        assert_eq!((header.policy.as_str(), header.buffer_bytes), (policy.as_str(), 8 * CHUNK));
        let is_delivery =
            |line: &&coscan_trace::Line| matches!(line.record, coscan_trace::Record::Deliver { .. });
        delivered += lines.iter().filter(is_delivery).count();
    }
    assert_eq!(delivered, (0..6).map(|slot| 4 + slot).sum::<usize>());
}

#[test]
fn a_panic_stops_at_the_interface() {
    assert_eq!(crate::ffi::coscan_panic(), crate::ffi::PANICKED);
}
