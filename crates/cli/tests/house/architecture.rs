//! The crates of the workspace depend on each other only as ARCHITECTURE.md says, and only some of them depend on
//! the query engine.
//!
//! The test reads `cargo metadata`. Test and build dependencies count, too.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// Every crate, and the crates of the workspace that it may use. A new crate needs a line.
const ALLOWED: &[(&str, &[&str])] = &[
    ("coscan-base", &[]),
    ("coscan-core", &["coscan-base"]),
    // Tests compare the names of policies with those of the core.
    ("coscan-pool", &["coscan-base", "coscan-core"]),
    ("coscan-device", &["coscan-base"]),
    ("coscan-layout", &["coscan-core", "coscan-device"]),
    ("coscan-figure", &[]),
    ("coscan-parquet", &[]),
    ("coscan-trace", &["coscan-core", "coscan-pool"]),
    ("coscan-access", &["coscan-pool", "coscan-trace"]),
    ("coscan-sim", &["coscan-base", "coscan-core", "coscan-device", "coscan-media", "coscan-trace"]),
    ("coscan-check", &["coscan-core", "coscan-trace"]),
    (
        "coscan-repro",
        &[
            "coscan-access",
            "coscan-core",
            "coscan-device",
            "coscan-figure",
            "coscan-layout",
            "coscan-media",
            "coscan-pool",
            "coscan-sim",
            "coscan-trace",
        ],
    ),
    ("coscan-cache", &["coscan-figure", "coscan-pool"]),
    ("coscan-engine", &["coscan-core", "coscan-device", "coscan-parquet", "coscan-pool", "coscan-trace"]),
    ("coscan-engine-sim", &["coscan-core", "coscan-engine"]),
    ("coscan-operators", &[]),
    ("coscan-upstream", &["coscan-engine"]),
    (
        "coscan-datafusion",
        &["coscan-core", "coscan-engine", "coscan-operators", "coscan-parquet", "coscan-upstream"],
    ),
    ("coscan-postgres", &["coscan-core", "coscan-trace"]),
    ("coscan-media", &["coscan-base"]),
    (
        "coscan-tier",
        &["coscan-datafusion", "coscan-engine", "coscan-media", "coscan-parquet", "coscan-upstream"],
    ),
    ("coscan-lake", &["coscan-datafusion", "coscan-upstream"]),
    (
        "coscan-cluster",
        &["coscan-base", "coscan-datafusion", "coscan-engine", "coscan-operators", "coscan-upstream"],
    ),
    ("coscan-server", &["coscan-datafusion", "coscan-engine", "coscan-upstream", "coscan-tier"]),
    ("coscan-sqlfuzz", &["coscan-engine", "coscan-datafusion", "coscan-upstream"]),
    (
        "coscan-cli",
        &[
            "coscan-base",
            "coscan-cache",
            "coscan-check",
            "coscan-cluster",
            "coscan-core",
            "coscan-datafusion",
            "coscan-device",
            "coscan-engine",
            "coscan-engine-sim",
            "coscan-figure",
            "coscan-lake",
            "coscan-media",
            "coscan-pool",
            "coscan-repro",
            "coscan-server",
            "coscan-sim",
            "coscan-sqlfuzz",
            "coscan-tier",
            "coscan-trace",
        ],
    ),
    (
        "coscan-python",
        &[
            "coscan-cli",
            "coscan-datafusion",
            "coscan-engine",
            "coscan-lake",
            "coscan-server",
            "coscan-upstream",
        ],
    ),
];

/// The crates that may depend on DataFusion.
const KNOW_DATAFUSION: [&str; 10] = [
    "coscan-upstream",
    "coscan-datafusion",
    "coscan-operators",
    "coscan-server",
    "coscan-sqlfuzz",
    "coscan-tier",
    "coscan-lake",
    "coscan-cluster",
    "coscan-cli",
    "coscan-python",
];

/// Dependencies that the core must not have: it does no I/O, and has no clock and no threads.
const NOT_IN_CORE: [&str; 6] = ["tokio", "object_store", "parquet", "arrow", "rustix", "tracing"];

/// Dependencies that the program has only for their features: see crates/cli/Cargo.toml.
const FOR_FEATURES: [&str; 4] = ["arrayvec", "simdutf8", "subtle", "whoami"];

/// The output of cargo.
fn cargo(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO"))
        .args(arguments)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("cargo prints UTF-8")
}

/// All crates that dependencies of these kinds bring, with their features.
fn features(edges: &str) -> BTreeSet<String> {
    let tree =
        ["tree", "--workspace", "--offline", "--prefix", "none", "--format", "{p} {f}", "--edges", edges];
    let lines = cargo(&tree);
    lines.lines().map(|line| line.trim_end_matches(" (*)").to_owned()).collect()
}

/// The direct dependencies of each crate of the workspace.
fn dependencies() -> BTreeMap<String, BTreeSet<String>> {
    let metadata = cargo(&["metadata", "--no-deps", "--format-version", "1", "--offline"]);
    let metadata: Value = serde_json::from_str(&metadata).expect("cargo metadata prints JSON");
    let name = |value: &Value| value["name"].as_str().unwrap_or_default().to_owned();
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    list(&metadata["packages"])
        .iter()
        .map(|package| (name(package), list(&package["dependencies"]).iter().map(name).collect()))
        .collect()
}

#[test]
fn crates_depend_on_each_other_in_one_direction() {
    let dependencies = dependencies();
    let allowed: BTreeMap<&str, &[&str]> = ALLOWED.iter().copied().collect();
    let members: BTreeSet<&str> = dependencies.keys().map(String::as_str).collect();
    assert_eq!(members, allowed.keys().copied().collect(), "every crate of the workspace has its line");
    for (member, uses) in &dependencies {
        let inside = uses.iter().filter(|name| members.contains(name.as_str()));
        for name in inside {
            assert!(allowed[member.as_str()].contains(&name.as_str()), "{member} must not depend on {name}");
        }
    }
}

#[test]
fn only_some_crates_know_the_query_engine() {
    for (member, uses) in dependencies() {
        let knows = uses.iter().any(|name| name == "datafusion" || name.starts_with("datafusion-"));
        assert!(
            !knows || KNOW_DATAFUSION.contains(&member.as_str()),
            "{member} must not depend on DataFusion"
        );
    }
}

#[test]
fn the_core_stays_pure() {
    let core = &dependencies()["coscan-core"];
    for name in NOT_IN_CORE {
        assert!(!core.contains(name), "coscan-core must not depend on {name}");
    }
}

/// A crate that tests use with more features is compiled twice, with everything above it.
#[test]
fn tests_give_no_dependency_other_features() {
    let with_tests = features("normal,build,dev");
    let other: Vec<String> = features("normal,build").difference(&with_tests).cloned().collect();
    assert!(
        other.is_empty(),
        "tests ask for more features of these; name them in crates/cli/Cargo.toml: {other:#?}"
    );
}

#[test]
fn tests_check_every_crate_for_overflow() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../.cargo/checked.toml");
    let settings: toml::Table =
        toml::from_str(&std::fs::read_to_string(path).expect(path)).expect("it is TOML");
    for member in dependencies().keys() {
        let checked = settings["profile"]["release"]["package"].get(member);
        assert_eq!(
            checked.and_then(|of| of["overflow-checks"].as_bool()),
            Some(true),
            "{member} has to be in .cargo/checked.toml"
        );
    }
}

/// The folder of a crate.
fn folder_of(member: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    match member.trim_start_matches("coscan-") {
        "python" => root.join("python"),
        name => root.join("crates").join(name),
    }
}

/// Every file below a folder.
fn files_below(folder: &Path) -> Vec<String> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("the folder is there").flatten() {
            let path = entry.path();
            if !path.is_dir() {
                files.push(path.display().to_string());
            } else if !path.ends_with("target") {
                folders.push(path);
            }
        }
    }
    files
}

/// The words of a crate's sources, and of files elsewhere that they include.
fn words(folder: &Path) -> BTreeSet<String> {
    let mut words = BTreeSet::new();
    let mut sources = files_below(folder);
    sources.retain(|file| file.ends_with(".rs") || file.ends_with("README.md"));
    while let Some(source) = sources.pop() {
        let text = std::fs::read_to_string(&source).expect(&source);
        words.extend(text.split(|c: char| !c.is_alphanumeric() && c != '_').map(str::to_owned));
        let elsewhere = text.lines().filter_map(|line| line.trim().strip_prefix("#[path = \"../"));
        sources.extend(elsewhere.filter_map(|line| line.strip_suffix("\"]")).map(|file| {
            let above = Path::new(&source).parent().and_then(Path::parent);
            above.expect("it is in a folder of a crate").join(file).display().to_string()
        }));
    }
    words
}

/// A crate that nothing uses is still compiled.
#[test]
fn sources_name_every_dependency() {
    for (member, uses) in dependencies() {
        let words = words(&folder_of(&member));
        let unused: Vec<String> = uses
            .into_iter()
            .filter(|name| !words.contains(&name.replace('-', "_")) && !FOR_FEATURES.contains(&name.as_str()))
            .collect();
        assert!(
            unused.is_empty(),
            "nothing in {member} uses these; take them out of its Cargo.toml: {unused:?}"
        );
    }
}

/// A source file in quotes is given whole or by the end of its path, such as `mechanism/serve.rs`.
#[test]
fn the_files_that_documents_name_are_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let files = [files_below(&root.join("crates")), files_below(&root.join("python/src"))].concat();
    let documents = files_below(&root.join("docs")).into_iter().filter(|file| file.ends_with(".md"));
    let own = ["ARCHITECTURE.md", "CONTRIBUTING.md", "README.md"];
    let own = own.map(|document| root.join(document).display().to_string());
    let mut named = 0;
    for document in documents.chain(own) {
        let text = std::fs::read_to_string(&document).expect(&document);
        let is_path = |c: char| c.is_alphanumeric() || "_-/.".contains(c);
        let quoted = text.split('`').skip(1).step_by(2);
        let sources = quoted.filter(|name| name.ends_with(".rs") || name.ends_with(".js"));
        for name in sources.filter(|name| name.chars().all(is_path)) {
            named += 1;
            let end = format!("/{name}");
            assert!(
                files.iter().any(|file| file.ends_with(&end)),
                "{document} names {name}, which is not there"
            );
        }
    }
    assert!(named > 50, "only {named} files were found in the documents");
}

/// Files that cannot query the registry name every sharing policy of scans.
#[test]
fn documents_and_benchmarks_name_every_sharing_policy() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for (file, quote) in [("docs/postgresql.md", '`'), ("bench/engines.py", '"')] {
        let text = std::fs::read_to_string(root.join(file)).expect(file);
        for policy in coscan_core::registry::sharing() {
            let name = format!("{quote}{policy}{quote}");
            assert!(text.contains(&name), "{file} does not name the policy {policy}");
        }
    }
}

/// The program includes files of folders outside its crates, by links. A build of the image must not lack them.
#[test]
fn the_image_is_built_with_all_that_crates_link_to() {
    let root =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the folder is there");
    let left_out = std::fs::read_to_string(root.join(".dockerignore")).expect("the file is readable");
    let crates = std::fs::read_dir(root.join("crates")).expect("the folder is there").flatten();
    let entries = crates.flat_map(|of| std::fs::read_dir(of.path()).expect("a crate is a folder").flatten());
    let mut links = 0;
    for link in entries.filter(|entry| entry.path().is_symlink()) {
        let target = link.path().canonicalize().expect("it leads somewhere");
        let below = target.strip_prefix(&root).expect("it leads into the checkout");
        let taken = below.ancestors().all(|folder| left_out.lines().all(|line| Path::new(line) != folder));
        assert!(taken, ".dockerignore leaves out {}, which {} needs", below.display(), link.path().display());
        links += 1;
    }
    assert!(links > 0, "no crate has a link: this test can go");
}
