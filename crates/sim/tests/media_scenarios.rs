//! Scenarios of slow media: the documented example, figures computed by hand, mistakes with their place.

use coscan_sim::media::{MediaOutcome, run};
use coscan_sim::scenario::{MediaScenario, Setting};

const EXPERIMENT: &str = include_str!("../../../experiments/slow-media.toml");

fn parse(text: &str, settings: &[&str]) -> Result<MediaScenario, String> {
    let settings: Vec<Setting> = settings.iter().map(|text| Setting::parse(text).unwrap()).collect();
    MediaScenario::parse("test.toml", text, &settings).map_err(|error| error.to_string())
}

fn play(text: &str, settings: &[&str], policy: &str) -> MediaOutcome {
    let scenario = parse(text, settings).unwrap();
    run(&scenario.world(scenario.seeds[0]), policy.parse::<coscan_media::PolicyName>().unwrap().build())
        .unwrap()
}

/// The example of `docs/scenarios.md` has every key of a scenario and runs under its policies; same seed, same run.
#[test]
fn the_documented_example_runs() {
    let docs = include_str!("../../../docs/scenarios.md");
    let (_, section) = docs.split_once("## Slow media").expect("the section begins");
    let (_, rest) = section.split_once("```toml\n").expect("the example begins");
    let (example, _) = rest.split_once("```").expect("the example ends");
    let scenario = parse(example, &[]).unwrap();
    assert_eq!((scenario.policies.len(), scenario.seeds.len()), (3, 2));
    for policy in &scenario.policies {
        let of = |seed| run(&scenario.world(seed), policy.build()).unwrap();
        let first = of(1);
        assert_eq!(first.latencies_s.iter().map(Vec::len).sum::<usize>(), 10 * 2 + 2);
        assert!(first.total_s > 0.0 && first.mounts > 0 && first.bytes > 0);
        assert_eq!(first, of(1));
        assert_ne!(first, of(2), "places and queries are drawn");
    }
}

/// One scan of 5 GiB in fragments of 64 MiB: 2560 s of transfer, 30 s of one switch.
#[test]
fn a_scan_takes_what_the_library_says() {
    let alone = EXPERIMENT.split("[[user]]").take(2).collect::<Vec<_>>().join("[[user]]");
    for policy in ["no-prefetch", "prefetch", "reorder"] {
        let outcome = play(&alone, &[], policy);
        assert_eq!((outcome.transfer_s, outcome.switch_s, outcome.fetches), (2560.0, 30.0, 80), "{policy}");
    }
    // 0.125 s for each MiB: for all of them, or for those of the last fragment after the last transfer.
    let rest = |policy| {
        let outcome = play(&alone, &[], policy);
        (outcome.total_s - outcome.transfer_s - outcome.switch_s - outcome.seek_s).round()
    };
    assert_eq!((rest("no-prefetch"), rest("prefetch"), rest("reorder")), (640.0, 8.0, 8.0));
}

#[test]
fn two_scans_share_under_reorder_alone() {
    let bytes = |policy| play(EXPERIMENT, &[], policy).bytes as f64 / (5u64 << 30) as f64;
    assert!(bytes("prefetch") > 1.9 && bytes("reorder") < 1.15, "{} {}", bytes("prefetch"), bytes("reorder"));
}

#[test]
fn every_kind_of_library_is_read() {
    let of = |library: &str| {
        let (before, rest) = EXPERIMENT.split_once("[library]").unwrap();
        let (_, after) = rest.split_once("[cache]").unwrap();
        parse(&format!("{before}[library]\n{library}\n[cache]{after}"), &[])
    };
    for library in [
        "kind = \"optical-jukebox-1996\"\ndrives = 3",
        "kind = \"lto-7\"\ndrives = 1\nmedia = 2\nbandwidth = \"250MB/s\"",
        "kind = \"robot\"\ndrives = 1\nmedia = 2\nmedium = \"10GB\"\nswitch = \"30s\"\nexchange = \"9s\"\nseek_startup = \"1s\"\n\
         bandwidth = \"1MB/s\"",
        "kind = \"archive\"\nat_once = 8\nrestore = \"3h\"\nbandwidth = \"80MB/s\"\nprice_request = 0.1\nprice_gib = 0.01",
    ] {
        // A platter of the jukebox holds less than the relation.
        match of(library) {
            Ok(scenario) => {
                assert!(run(&scenario.world(1), scenario.policies[0].build()).unwrap().total_s > 0.0)
            }
            Err(error) => {
                assert!(library.contains("jukebox") && error.contains("use more media"), "{library}: {error}")
            }
        }
    }
    assert!(of("kind = \"drum\"").unwrap_err().contains("tape-stacker-1996"));
    assert!(of("kind = \"robot\"\ndrives = 1").unwrap_err().contains("library"));
}

#[test]
fn mistakes_are_reported_with_file_line_and_key() {
    let wrong = |setting: &str| parse(EXPERIMENT, &[setting]).unwrap_err();
    for (setting, key, says) in [
        ("library.drives=0", "library", "at least 1 drive"),
        ("cache.size=32MiB", "table.r.fragment", "has to fit the cache"),
        ("cache.size=0", "cache.size", "at least a byte"),
        ("table.r.fragment=1B", "table.r.fragment", "use larger ones"),
        ("table.r.size=11GiB", "table.r.size", "use more media"),
        ("table.r.media=11", "table.r.media", "1 to 10 media"),
        ("user.1.tables=[\"s\"]", "user.1.tables.0", "there is no table 's'; there are r"),
        ("user.1.start=3s", "user.1.after_first", "not both"),
        ("user.0.after_first=1MB", "user.0.after_first", "behind itself"),
        ("user.0.procesing=1MB/s", "user.0.procesing", "unknown field"),
        ("policies=[\"relevance\"]", "policies.0", "there is no policy 'relevance'"),
    ] {
        let error = wrong(setting);
        assert!(
            error.starts_with("test.toml:") && error.contains(key) && error.contains(says),
            "{setting}: {error}"
        );
    }
    assert!(wrong("user=[]").contains("nobody asks"));
}
