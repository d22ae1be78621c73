//! Two scans of a table of eight chunks, in a buffer of three: each chunk is read once.
//!
//! `cargo run --release -p coscan-postgres --example two_scans`

use std::collections::BTreeMap;

use coscan_core::PolicyName;
use coscan_postgres::commands::{Announcement, Command, RelKey};
use coscan_postgres::host::Host;

const CHUNK_BYTES: u64 = 1 << 20;
const CHUNKS: u32 = 8;

fn main() {
    let mut host = Host::new(3 * CHUNK_BYTES, CHUNK_BYTES, 1);
    let key = RelKey { tablespace: 1663, database: 5, relation: 16384 };
    let policy: PolicyName = "relevance".parse().expect("it is registered");
    for slot in 0..2 {
        host.register(slot, Announcement { policy, key, chunks: CHUNKS, first: 0, mailboxes: 1 });
    }
    let (mut reads, mut handed_out) = (0, BTreeMap::<u32, Vec<u32>>::new());
    while let Some(command) = host.next_command() {
        match command {
            Command::Load { load, .. } => {
                reads += 1;
                host.loaded(load, true);
            }
            Command::Deliver { slot, mailbox, chunk, .. } => {
                handed_out.entry(slot).or_default().push(chunk);
                host.done(slot, mailbox);
            }
            Command::Finish { slot } => host.gone(slot),
            _ => {}
        }
    }
    println!("{reads} reads; handed out, by scan: {handed_out:?}");
    assert!(handed_out.values().all(|chunks| chunks.len() == CHUNKS as usize));
    assert_eq!(reads, CHUNKS);
}
