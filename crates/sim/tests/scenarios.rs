//! Scenarios as a whole: same seed, same run; errors with their place; the core's invariants in runs.

use coscan_core::registry;
use coscan_sim::host::{Ending, Observe, run};
use coscan_sim::run::run_scenario;
use coscan_sim::scenario::{Scenario, Setting};

const TABLE2: &str = include_str!("../../../experiments/scan07-table2.toml");

fn scenario(settings: &[&str]) -> Scenario {
    let settings: Vec<Setting> = settings.iter().map(|s| Setting::parse(s).unwrap()).collect();
    Scenario::parse("scan07-table2.toml", TABLE2, &settings).unwrap()
}

fn error(text: &str, settings: &[&str]) -> String {
    let settings: Vec<Setting> = settings.iter().map(|s| Setting::parse(s).unwrap()).collect();
    Scenario::parse("test.toml", text, &settings).expect_err("a mistake is refused").to_string()
}

#[test]
fn the_outcome_does_not_depend_on_threads() {
    let scenario = scenario(&["random.streams=6", "seeds=3"]);
    let outcome =
        |threads| run_scenario(&scenario, &scenario.policies, &scenario.seeds, threads).unwrap().to_json();
    assert_eq!(outcome(1), outcome(3));
}

#[test]
fn every_policy_keeps_the_invariants_and_finishes_every_query() {
    let scenario = scenario(&["random.streams=8", "system.buffer=12 chunks"]);
    let point = &scenario.points[0];
    let workload = point.recipe.draw(11);
    for policy in registry::sharing() {
        let observe = Observe { check: true, deliveries: true, ..Observe::default() };
        let record = run(&point.world, &workload, policy, observe).unwrap();
        assert!(record.queries.iter().all(|q| q.ending == Ending::Finished), "{policy}");
        let wanted: u32 = workload.queries().map(|(_, q)| q.chunks.len()).sum();
        assert_eq!(record.deliveries.unwrap().len(), wanted as usize, "{policy}");
        assert!(record.bytes >= record.loads * (16 << 20), "{policy}");
    }
}

/// The lower bound of every eviction is below the bytes read, and every part must be read once.
#[test]
fn bounds_are_bounds() {
    let scenario = scenario(&["random.streams=6", "seeds=2"]);
    let outcome = run_scenario(&scenario, &scenario.policies, &scenario.seeds, 2).unwrap();
    for policy in &outcome.points[0].policies {
        for run in &policy.runs {
            assert!(
                run.once_bytes <= run.opt_bytes && run.opt_bytes <= run.bytes,
                "{}: {run:?}",
                policy.policy
            );
        }
    }
    let normal = outcome.points[0].policy("normal").unwrap();
    assert!(normal.runs.iter().all(|run| run.opt_bytes < run.bytes), "LRU over many scans is not OPT");
}

#[test]
fn a_read_costs_processor_time() {
    let cpu = |io_cost: &str| {
        let scenario = scenario(&["random.streams=2", "seeds=1", io_cost]);
        let point = &scenario.points[0];
        run(&point.world, &point.recipe.draw(1), "normal".parse().unwrap(), Observe::default()).unwrap()
    };
    let (free, paid) = (cpu("system.io_cost=0ms"), cpu("system.io_cost=3ms"));
    let more = paid.cpu_busy.as_nanos() - free.cpu_busy.as_nanos();
    // Rounded per job to less than a nanosecond; both runs have the same reads.
    assert_eq!(paid.requests, free.requests);
    assert!(more.abs_diff(paid.requests * 3_000_000) < 1_000, "{more} for {} reads", paid.requests);
}

#[test]
fn mistakes_are_reported_with_file_line_and_key() {
    let line_of = |needle: &str| TABLE2.lines().position(|line| line.starts_with(needle)).unwrap() + 1;
    let wrong = |from: &str, to: &str| error(&TABLE2.replace(from, to), &[]);
    let at = |needle: &str, rest: &str| format!("test.toml:{}: {rest}", line_of(needle));
    assert_eq!(
        wrong("\"64 chunks\"", "\"64 chnks\""),
        at("buffer", "system.buffer: '64 chnks' is not a buffer such as \"1GB\", \"64 chunks\" or \"12.5%\"")
    );
    assert_eq!(
        wrong("[\"F\", \"S\"]", "[\"F\", \"X\"]"),
        at("classes", "random.classes.1: there is no class 'X'; there are F, S")
    );
    assert!(wrong("stagger", "staggger").starts_with(&at("stagger", "random.staggger: unknown field")));
    assert_eq!(
        wrong("seek = \"12ms\"", ""),
        at("[device]", "device: a device of kind 'disk' needs seek").replace("[", "")
    );
}

#[test]
fn a_setting_that_does_not_fit_is_reported_with_its_key() {
    let message = error(TABLE2, &["system.buffer=3 parsecs"]);
    assert!(message.contains("system.buffer: '3 parsecs' is not"), "{message}");
    let message = error(TABLE2, &["system.bufer=3"]);
    assert!(message.contains("system.bufer: unknown field"), "{message}");
    let message = error(TABLE2, &["system.scheduler=fair"]);
    assert!(message.contains("system.scheduler") && message.contains("sleepers-first"), "{message}");
    let message = error(TABLE2, &["system.scheduler=processor-sharing", "system.sleep_credit=2s"]);
    assert!(message.contains("system.sleep_credit: even shares know no credit"), "{message}");
    let message = error(TABLE2, &["random.queries=0"]);
    assert!(message.contains("random.queries"), "{message}");
}

/// The example of `docs/scenarios.md`, with every key, is a valid scenario and runs.
#[test]
fn the_documented_example_runs() {
    let docs = include_str!("../../../docs/scenarios.md");
    let (_, rest) = docs.split_once("```toml\n").expect("the example begins");
    let (example, _) = rest.split_once("```").expect("the example ends");
    let scenario = Scenario::parse("docs/scenarios.md", example, &[]).unwrap_or_else(|e| panic!("{e}"));
    let outcome = run_scenario(&scenario, &scenario.policies, &scenario.seeds[..1], 2).expect("it runs");
    assert_eq!(outcome.points.len(), 2);
    for point in &outcome.points {
        for policy in &point.policies {
            assert!(policy.runs[0].loads > 0.0 && policy.runs[0].total_time_s > 0.0);
        }
    }
}

/// A scan of 8 chunks of 8 MB that costs almost only its reads, on a device with these keys.
fn on_device(device: &str) -> String {
    format!(
        "name = \"t\"\ntitle = \"t\"\npolicies = [\"normal\"]\n\
         [system]\ncores = 1\nbuffer = \"64MB\"\n\
         [table.t]\nstorage = \"row\"\nchunks = 8\nchunk_size = \"8MB\"\n\
         [class.c]\ncost = \"1us/chunk\"\n\
         [[stream]]\nstart = \"0s\"\nqueries = [{{ class = \"c\" }}]\n\
         [device]\n{device}\n"
    )
}

#[test]
fn tables_that_nobody_can_simulate_are_refused_before_there_is_room_for_them() {
    let table = |from: &str, to: &str| error(&on_device(PERFECT).replace(from, to), &[]);
    let message = table("chunks = 8\n", "chunks = 4294967295\n");
    assert!(message.contains("4294967295 chunks of 1 columns are too many"), "{message}");
    let message = table("chunks = 8\nchunk_size = \"8MB\"", "size = \"1000TB\"\nchunk_size = \"1kB\"");
    assert!(message.contains("1000000000000 chunks of 1 columns are too many"), "{message}");
    let message = table("chunk_size = \"8MB\"", "chunk_size = \"10000000TB\"");
    assert!(message.contains("bytes are too many"), "{message}");
    let columns = "rows = 1000000000000\nrows_per_chunk = 1\ncolumns = [{ name = \"a\", bits = 8 }]";
    let message = table(
        "storage = \"row\"\nchunks = 8\nchunk_size = \"8MB\"",
        &format!("storage = \"column\"\n{columns}"),
    );
    assert!(message.contains("1000000000000 chunks of 1 columns are too many"), "{message}");
}

/// The time of that scan, in seconds, and the number of unfinished queries.
#[track_caller]
fn scan_on(device: &str) -> (f64, usize) {
    let scenario = Scenario::parse("test.toml", &on_device(device), &[]).unwrap_or_else(|e| panic!("{e}"));
    let outcome = run_scenario(&scenario, &scenario.policies, &[1], 1).unwrap();
    let run = &outcome.points[0].policies[0].runs[0];
    (run.total_time_s, run.unfinished)
}

#[track_caller]
fn takes(device: &str, seconds: f64) {
    let (measured, unfinished) = scan_on(device);
    assert!(
        (measured - seconds).abs() < 1e-3 && unfinished == 0,
        "{measured} instead of {seconds}: {device}"
    );
}

const PERFECT: &str = "kind = \"perfect\"\nbandwidth = \"80MB/s\"\n";
const RAID: &str = "kind = \"raid\"\nlevel = 0\ndisks = 4\nstripe_unit = \"1MB\"\n\
                    [device.member]\nkind = \"disk\"\nbandwidth = \"20MB/s\"\nseek = \"10ms\"\n";
const PARALLEL: &str = "kind = \"parallel\"\nrequests = 16\nlatency = \"10ms\"\n\
                        bandwidth_each = \"40MB/s\"\nbandwidth = \"1GB/s\"\n";

/// One read at a time, so that the time of a read of 8 MB follows from the numbers.
#[test]
fn every_kind_of_device_takes_the_time_it_says() {
    takes(PERFECT, 8.0 * 0.1);
    // The chunks follow each other on the disk: one seek.
    takes("kind = \"disk\"\nbandwidth = \"80MB/s\"\nseek = \"10ms\"", 0.01 + 8.0 * 0.1);
    takes(RAID, 0.01 + 8.0 * 0.1);
    // Mirrors in pairs: half the bandwidth. RAID-5 of 4 with a stripe of 4 MB holds 3 of data.
    takes(&RAID.replace("level = 0", "level = 1"), 0.01 + 8.0 * 0.2);
    let (raid5_s, _) = scan_on(&RAID.replace("level = 0", "level = 5"));
    assert!((8.0 * 8.0 / 60.0..8.0 * 0.2).contains(&raid5_s), "{raid5_s}");
    // Three of four disks have data, and each reads its part in order.
    takes(&RAID.replace("level = 0", "level = 4"), 0.01 + 64.0 / 60.0 + 8.0 / 60.0);
    takes(PARALLEL, 8.0 * (0.01 + 0.2));
}

/// 64 MB in the outermost zone. The slower of medium and bus decides: the medium with 334 sectors a
/// revolution minus the skews, the bus with 99 us per block.
#[test]
fn drives_known_to_the_sector_serve_scenarios_and_end_somewhere() {
    let drive = "kind = \"hard-disk\"\ndrive = \"atlas10k\"\nqueue_depth = 2\nschedule = \"c-look\"";
    let bus_s = 64e6 / 512.0 * 99e-6;
    let (seconds, unfinished) = scan_on(drive);
    assert!((bus_s..1.05 * bus_s).contains(&seconds) && unfinished == 0, "{seconds} against {bus_s}");
    let array =
        format!("kind = \"raid\"\nlevel = 4\ndisks = 5\nstripe_unit = \"64KiB\"\n[device.member]\n{drive}");
    let (striped, _) = scan_on(&array);
    assert!((0.2 * bus_s..0.5 * bus_s).contains(&striped), "{striped} against {bus_s}");
    let aged = drive.replace("c-look", "aged-sptf");
    let (by_age, unfinished) = scan_on(&format!("{aged}\naging = \"0.6%\""));
    assert!((bus_s..1.05 * bus_s).contains(&by_age) && unfinished == 0, "{by_age} against {bus_s}");
    let message = error(&on_device(&aged), &[]);
    assert!(message.contains("needs aging"), "{message}");
    let message = error(&on_device(&format!("{drive}\naging = \"0.6%\"")), &[]);
    assert!(message.contains("device.aging") && message.contains("aged-sptf"), "{message}");
    let large = on_device(drive).replace("chunk_size = \"8MB\"", "chunk_size = \"2GB\"");
    let message = error(&large.replace("buffer = \"64MB\"", "buffer = \"64GB\""), &[]);
    assert!(
        message.contains("the tables take 16000000000 bytes, and the device has 9199079936"),
        "{message}"
    );
}

#[test]
fn wrappers_change_what_they_say() {
    let with = |section: &str| format!("{PERFECT}{section}");
    // The bucket holds one chunk: the first starts at once, the others when 8 MB have been earned.
    takes(&with("[device.throttle]\nlimit = \"40MB/s\"\nburst = \"8MB\"\n"), 0.1 + 7.0 * 0.2);
    // A second's worth by default: the first five chunks and those earned meanwhile pass.
    takes(&with("[device.throttle]\nlimit = \"64MB/s\"\n"), 8.0 * 0.1);
    takes(&with("[device.delay]\nleast = \"50ms\"\nmost = \"50ms\"\n"), 8.0 * 0.15);
    assert_eq!(scan_on(&with("[device.faults]\nprobability = \"0%\"\n")).1, 0);
    assert_eq!(scan_on(&with("[device.faults]\nprobability = \"100%\"\nseed = 7\n")).1, 1);
    assert_eq!(scan_on(&with("[device.faults]\nevery = 9\n")).1, 0);
    assert_eq!(scan_on(&with("[device.faults]\nevery = 8\n")).1, 1);
    // Members have wrappers too; every read of a chunk waits for the slowest of them.
    takes(&format!("{RAID}[device.member.delay]\nleast = \"50ms\"\nmost = \"50ms\"\n"), 0.01 + 8.0 * 0.15);
}

/// Both devices of the section on devices are read and run.
#[test]
fn the_documented_devices_run() {
    let docs = include_str!("../../../docs/scenarios.md");
    let (_, section) = docs.split_once("## Devices").expect("the section begins");
    let (section, _) = section.split_once("## Slow media").expect("the section ends");
    let examples: Vec<&str> = section.split("```toml\n").skip(1).collect();
    assert_eq!(examples.len(), 2);
    for example in examples {
        let (device, _) = example.split_once("```").expect("the example ends");
        let (header, keys) = device.split_once('\n').expect("keys follow");
        assert!(header.starts_with("[device] "));
        assert!(scan_on(keys).0 > 0.0);
    }
}

/// Each mistake with its reported key and a part of the message.
const DEVICE_MISTAKES: &[(&str, &str, &str)] = &[
    (
        "kind = \"flopy\"",
        "device.kind",
        "there is no device 'flopy'; there are perfect, disk, hard-disk, raid, parallel",
    ),
    ("kind = \"perfect\"", "device", "needs bandwidth"),
    ("kind = \"perfect\"\nbandwidth = \"0MB/s\"", "device.bandwidth", "at least 1 byte/s"),
    ("kind = \"perfect\"\nbandwidth = \"2TiB/s\"", "device.bandwidth", "use at most 1 TiB/s"),
    ("kind = \"perfect\"\nbandwidth = \"1MB/s\"\nseek = \"1ms\"", "device.seek", "has no seek"),
    ("kind = \"disk\"\nbandwidth = \"1MB/s\"\nseek = \"25h\"", "device.seek", "more than a day"),
    ("kind = \"disk\"\nbandwidth = \"1MB/s\"\nseek = \"1ms\"\ndisks = 2", "device.disks", "has no disks"),
    ("kind = \"raid\"\nlevel = 6", "device.level", "there is no RAID-6 here; there are 0, 1, 4, 5"),
    ("kind = \"hard-disk\"\ndrive = \"st506\"", "device.drive", "there are atlas10k, atlas10k2, atlas10k3"),
    (
        "kind = \"hard-disk\"\ndrive = \"atlas10k\"\nqueue_depth = 0",
        "device.queue_depth",
        "at least 1 command",
    ),
    ("kind = \"hard-disk\"", "device", "needs drive"),
    ("kind = \"parallel\"\nrequests = 1", "device", "needs latency"),
    ("kind = \"disk\"\nbandwith = \"1MB/s\"", "device.bandwith", "unknown field"),
];

/// Mistakes in the arrays and parallel devices above, with one text replaced by another.
const CHANGED_MISTAKES: &[(&str, &str, &str, &str, &str)] = &[
    (RAID, "disks = 4", "disks = 0", "device.disks", "at least 1"),
    (
        RAID,
        "level = 0\ndisks = 4",
        "level = 5\ndisks = 2",
        "device.disks",
        "RAID-5 of 2 disks: use at least 3",
    ),
    (RAID, "level = 0\ndisks = 4", "level = 1\ndisks = 5", "device.disks", "an even number"),
    (RAID, "disks = 4", "disks = 5000", "device.disks", "use at most 4096"),
    (RAID, "\"1MB\"", "\"100B\"", "device.stripe_unit", "use at least 512"),
    (RAID, "\"20MB/s\"", "\"0MB/s\"", "device.member.bandwidth", "at least 1 byte/s"),
    (RAID, "\"disk\"", "\"tape\"", "device.member.kind", "there is no device 'tape'"),
    (PARALLEL, "requests = 16", "requests = 0", "device.requests", "at least 1 request"),
    (PARALLEL, "\"40MB/s\"", "\"0MB/s\"", "device.bandwidth_each", "at least 1 byte/s"),
    (PARALLEL, "\"10ms\"", "\"48h\"", "device.latency", "more than a day"),
    (PERFECT, "\n", "\n[device.faults]\nseed = 1\n", "device.faults", "give probability or every"),
    (PERFECT, "\n", "\n[device.faults]\nevery = 0\n", "device.faults", "every 0th request"),
    (
        PERFECT,
        "\n",
        "\n[device.faults]\nprobability = \"101%\"\n",
        "device.faults.probability",
        "is not a percent",
    ),
    (
        PERFECT,
        "\n",
        "\n[device.faults]\nprobability = \"0.00001%\"\n",
        "device.faults.probability",
        "below one in a million",
    ),
    (PERFECT, "\n", "\n[device.throttle]\nlimit = \"0MB/s\"\n", "device.throttle.limit", "at least 1 byte/s"),
    (PERFECT, "\n", "\n[device.throttle]\nburst = \"1MB\"\n", "device.throttle", "missing field `limit`"),
    (PERFECT, "\n", "\n[device.delay]\nleast = \"2s\"\nmost = \"1s\"\n", "device.delay", "swap them"),
    (
        PERFECT,
        "\n",
        "\n[device.delay]\nleast = \"0s\"\nmost = \"1s\"\nrare = \"1%\"\n",
        "device.delay",
        "rare_delay",
    ),
];

#[test]
fn mistakes_in_devices_are_reported_with_file_line_and_key() {
    let check = |device: &str, key: &str, says: &str| {
        let text = on_device(device);
        let message = error(&text, &[]);
        // The line of the key, or of the header that the key is missing under.
        let (section, last) = key.rsplit_once('.').unwrap_or(("", key));
        let written = |line: &str| line.starts_with(&format!("{last} = ")) || line == format!("[{key}]");
        let from = text.lines().position(|line| line == format!("[{section}]")).unwrap_or(0);
        let line = text.lines().skip(from).position(written).map(|at| from + at + 1);
        let line = line.unwrap_or_else(|| panic!("{key} is not written in {device}"));
        let place = format!("test.toml:{line}: {key}: ");
        assert!(message.starts_with(&place) && message.contains(says), "{message}\ninstead of {place}{says}");
    };
    for (device, key, says) in DEVICE_MISTAKES {
        check(device, key, says);
    }
    for (device, from, to, key, says) in CHANGED_MISTAKES {
        assert!(device.contains(from));
        // The perfect device gets a section behind its keys.
        let changed = if *from == "\n" { format!("{device}{to}") } else { device.replacen(from, to, 1) };
        check(&changed, key, says);
    }
}

/// A table with a key, and a class with this operator; `more` are other keys of the class.
fn with_operator(operator: &str, more: &str) -> String {
    format!(
        "name = \"t\"\ntitle = \"t\"\npolicies = [\"relevance\"]\n\
         [system]\ncores = 1\nbuffer = \"32MB\"\n\
         [device]\n{PERFECT}\
         [table.t]\nstorage = \"row\"\nchunks = 8\nchunk_size = \"8MB\"\nrows = 800\nkey = {{ values = 160 }}\n\
         [class.c]\ncost = \"1us/chunk\"\n{more}operator = {{ {operator} }}\n\
         [[stream]]\nstart = \"0s\"\nqueries = [{{ class = \"c\" }}]\n"
    )
}

/// The maximum memory of that class's operator, in bytes, and the number of times that the table is read.
#[track_caller]
fn kept_by(text: &str) -> (f64, f64) {
    let scenario = Scenario::parse("test.toml", text, &[]).unwrap_or_else(|e| panic!("{e}"));
    let outcome = run_scenario(&scenario, &scenario.policies, &[1], 1).unwrap();
    let run = &outcome.points[0].policies[0].runs[0];
    assert_eq!(run.unfinished, 0);
    (run.operator_bytes, run.bytes / 64e6)
}

const SIDE: &str = "{ cost = \"1us/chunk\" }";

#[test]
fn every_operator_can_be_written_and_keeps_what_it_says() {
    let kept = |operator: &str| kept_by(&with_operator(operator, ""));
    let (ordered, read) = kept("kind = \"ordered-aggregation\", group = \"10B\"");
    assert!(ordered <= 70.0 && read == 1.0, "{ordered} of at most seven groups at borders");
    assert_eq!(kept("kind = \"hash-aggregation\", group = \"10B\""), (1600.0, 1.0));
    let hash = kept(&format!("kind = \"hash-join\", row = \"10B\", build = {SIDE}"));
    assert_eq!(hash.0, 8000.0);
    let merge = |start| kept(&format!("kind = \"merge-join\", start = \"{start}\", inner = {SIDE}"));
    for start in ["beginning", "matching"] {
        let (kept, read) = merge(start);
        assert!((8e6..=24e6).contains(&kept) && read == 1.0, "{start}: {kept} {read}");
    }
    let (by_chunks, read) = kept(&format!("kind = \"join-by-chunks\", inner = {SIDE}"));
    assert!((16e6..=40e6).contains(&by_chunks) && read >= 1.0, "{by_chunks} {read}");
    assert_eq!(kept("kind = \"sorted\", memory = \"20MB\""), (0.0, 1.0), "alone, chunks come in order");
    let (top, read) = kept("kind = \"top\", limit = 150, row = \"4B\", pass = \"50%\"");
    assert!(top == 600.0 && read < 0.7, "{top} {read}");
    let whole = with_operator("kind = \"cooperative-merge-join\"", "")
        .replace("values = 160", "values = 160, split = false");
    assert_eq!(kept_by(&whole), (0.0, 1.0));
}

/// Each mistake in an operator with other keys of its class, its reported key, and a part of the message.
const OPERATOR_MISTAKES: &[(&str, &str, &str, &str)] = &[
    (
        "kind = \"sort\"",
        "",
        "class.c.operator.kind",
        "there is no operator 'sort'; there are ordered-aggregation",
    ),
    ("kind = \"top\", row = \"1B\"", "", "class.c.operator", "'top' needs limit"),
    ("kind = \"top\", row = \"1B\", limit = 0", "", "class.c.operator.limit", "must be at least 1"),
    ("kind = \"sorted\", memory = \"1MB\", row = \"1B\"", "", "class.c.operator.row", "'sorted' has no row"),
    ("kind = \"sorted\", memroy = \"1MB\"", "", "class.c.operator.memroy", "unknown field"),
    (
        "kind = \"cooperative-merge-join\"",
        "",
        "class.c.operator",
        "needs chunks with keys of their own: set split = false",
    ),
    (
        "kind = \"merge-join\", start = \"matching\", inner = { cost = \"1us/chunk\" }",
        "workers = 2\n",
        "class.c.workers",
        "a merge join has one worker",
    ),
    (
        "kind = \"join-by-chunks\", inner = { cost = \"1us/chunk\" }",
        "workers = 2\n",
        "class.c.workers",
        "a join by chunks has one worker",
    ),
    (
        "kind = \"merge-join\", start = \"matching\", inner = { cost = \"1us/chunk\" }",
        "in_order = true\n",
        "class.c.in_order",
        "keeps to an order anyway",
    ),
    (
        "kind = \"hash-join\", row = \"1B\", build = { cost = \"1us/chunk\", table = \"u\" }",
        "",
        "class.c.operator.build.table",
        "there is no table 'u'; there are t",
    ),
];

#[test]
fn mistakes_in_operators_are_reported_with_their_key() {
    for (operator, more, key, says) in OPERATOR_MISTAKES {
        let message = error(&with_operator(operator, more), &[]);
        assert!(message.contains(key) && message.contains(says), "{operator}: {message}");
    }
    let fine = with_operator("kind = \"sorted\", memory = \"1MB\"", "");
    let changed = |from: &str, to: &str| error(&fine.replace(from, to), &[]);
    let message = changed("key = { values = 160 }", "");
    assert!(message.contains("give table.t a key = { values = .. }"), "{message}");
    let message = changed("values = 160", "values = 801");
    assert!(
        message.contains("table.t.key.values: 801 values are more than the table's 800 rows"),
        "{message}"
    );
    let message = changed("values = 160", "values = 7, split = false");
    assert!(message.contains("7 values are fewer than the table's 8 chunks"), "{message}");
    let message = changed("rows = 800\n", "");
    assert!(message.contains("table.t.key: a key needs the number of rows"), "{message}");
}
