//! Corrupt Parquet files under a memory limit. A query ends with an error or with the answer of plain
//! DataFusion. It never ends the process, hangs, or takes gigabytes.
//!
//! A seed makes a file, corrupts it and chooses queries. Child processes with a limited address space run the
//! seeds and announce each. If a child ends, the announced seed is the cause. `make test` runs the first
//! seeds, for a minute at most. `COSCAN_CORRUPT=A..B cargo test --release --workspace --test corruption --
//! --nocapture` runs those seeds.

mod case;
mod memory;
mod mutate;
mod sample;
mod thrift;

use std::io::{BufRead, BufReader, Write};
use std::ops::Range;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use case::{BUFFER_BYTES, Verdict};
use coscan_engine::{Engine, EngineConfig, PolicyName};
use fastrand::Rng;

#[global_allocator]
static ALLOCATOR: memory::Counting = memory::Counting;

/// The address space of a child, in bytes.
const ADDRESS_SPACE_BYTES: u64 = 8 << 30;

/// Seeds per engine.
const SEEDS_PER_ENGINE: u64 = 50;

/// A child without output for this time hangs.
const SILENCE: Duration = Duration::from_secs(600);

/// The default seeds, and the time limit for them.
const SEEDS: Range<u64> = 0..400;
const DURATION: Duration = Duration::from_secs(50);

fn seeds_of(text: &str) -> Range<u64> {
    let (from, to) = text.split_once("..").expect("seeds are written A..B");
    from.parse().expect("a number")..to.parse().expect("a number")
}

#[test]
fn corrupt_files_give_errors_or_right_answers_in_bounded_memory() {
    if let Ok(seeds) = std::env::var("COSCAN_CORRUPT_CHILD") {
        return child(seeds_of(&seeds));
    }
    let given = std::env::var("COSCAN_CORRUPT").ok();
    let mut seeds = given.as_deref().map_or(SEEDS, seeds_of);
    let deadline = given.is_none().then(|| Instant::now() + DURATION);
    let (mut counts, mut failures) = ([0u64; 4], Vec::new());
    let is_early = |counts: &[u64; 4]| counts[0] == 0 || counts[1] == 0;
    while !seeds.is_empty() && (is_early(&counts) || deadline.is_none_or(|at| Instant::now() < at)) {
        seeds.start = parent(&seeds, deadline, &mut counts, &mut failures);
    }
    let [answered, refused, stricter, ended] = counts;
    println!(
        "{} seeds: {answered} answered, {refused} refused, {stricter} of these answered by plain DataFusion; {ended} more \
         that coscan survived and plain DataFusion ended the process with",
        answered + refused
    );
    assert!(answered > 0 && refused > 0 || given.is_some(), "nothing was tested");
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
}

/// Lets a child run seeds until it ends. Returns the next seed.
fn parent(
    seeds: &Range<u64>,
    deadline: Option<Instant>,
    counts: &mut [u64; 4],
    failures: &mut Vec<String>,
) -> u64 {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "corrupt_files_give_errors_or_right_answers_in_bounded_memory", "--nocapture"])
        .env("COSCAN_CORRUPT_CHILD", format!("{}..{}", seeds.start, seeds.end))
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    let (sender, lines) = mpsc::channel();
    let reader = std::thread::spawn(move || {
        output.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)).ok();
    });
    let (mut running, mut plain) = (None, false);
    let mut next = seeds.start;
    let verdict = loop {
        // A slow machine runs fewer seeds, but always some of both kinds.
        if counts[0] > 0 && counts[1] > 0 && deadline.is_some_and(|at| Instant::now() > at) {
            break None;
        }
        match lines.recv_timeout(SILENCE) {
            Err(mpsc::RecvTimeoutError::Timeout) => break Some("says nothing any more"),
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                counts[3] += u64::from(plain);
                break running.map(|_| "ends the process");
            }
            Ok(line) => {
                let mut words = line.splitn(3, ' ');
                plain = line.starts_with("PLAIN");
                match (words.next(), words.next().and_then(|seed| seed.parse::<u64>().ok()), words.next()) {
                    (Some("SEED"), Some(seed), _) => (running, next) = (Some(seed), seed + 1),
                    // The effect of plain DataFusion on the process is not tested.
                    (Some("PLAIN"), ..) => running = None,
                    (Some("DONE"), _, how) => {
                        running = None;
                        match how {
                            Some("answered") => counts[0] += 1,
                            how => {
                                counts[1] += 1;
                                if let Some(how) = how.and_then(|how| how.strip_prefix("stricter ")) {
                                    counts[2] += 1;
                                    println!("stricter than plain DataFusion: {how}");
                                }
                            }
                        }
                    }
                    (Some("FAIL"), Some(seed), Some(why)) => {
                        running = None;
                        println!("seed {seed}: {why}");
                        failures.push(format!("seed {seed}: {why}"));
                    }
                    _ => {}
                }
            }
        }
    };
    let _ = child.kill();
    let _ = child.wait();
    let _ = reader.join();
    if let (Some(seed), Some(verdict)) = (running, verdict) {
        println!("seed {seed}: {verdict}");
        failures.push(format!("seed {seed}: {verdict}"));
    }
    next
}

/// Runs seeds and reports them on standard output.
fn child(seeds: Range<u64>) {
    let limit =
        rustix::process::Rlimit { current: Some(ADDRESS_SPACE_BYTES), maximum: Some(ADDRESS_SPACE_BYTES) };
    rustix::process::setrlimit(rustix::process::Resource::As, limit).expect("a limit");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let mut engine = None;
    for seed in seeds {
        if seed % SEEDS_PER_ENGINE == 0 {
            engine = None;
        }
        let engine = engine.get_or_insert_with(|| {
            let config = EngineConfig::new("relevance".parse::<PolicyName>().unwrap(), BUFFER_BYTES);
            Engine::new(EngineConfig { slice_rows: 256, ..config }).unwrap()
        });
        say(&format!("SEED {seed}"));
        let mut rng = Rng::with_seed(seed);
        let file = sample::file(&mut rng);
        let (bytes, what) = mutate::mutate(&mut rng, &file);
        let path = dir.path().join(format!("{seed}.parquet"));
        std::fs::write(&path, bytes).unwrap();
        let before_plain = || say(&format!("PLAIN {seed}"));
        match runtime.block_on(case::run(&mut rng, engine, &path, before_plain)) {
            Verdict::Wrong(why) => say(&format!("FAIL {seed} {what}: {}", why.replace('\n', " "))),
            Verdict::Answered => say(&format!("DONE {seed} answered")),
            Verdict::Refused { plain_answers: None } => say(&format!("DONE {seed} refused")),
            Verdict::Refused { plain_answers: Some(how) } => {
                say(&format!("DONE {seed} stricter {what}: {}", how.replace('\n', " ")));
            }
        }
        let _ = std::fs::remove_file(&path);
    }
}

fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}").unwrap();
    out.flush().unwrap();
}
