//! Unsafe code occurs where `docs/unsafe.md` lists it, as often as listed, and every block states why it is sound.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the workspace")
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// A line without its comment. This is exact enough for formatted code.
fn code(line: &str) -> &str {
    line.split("//").next().unwrap_or_default()
}

/// Returns true if the line has the keyword outside strings and names.
fn is_unsafe(line: &str) -> bool {
    code(line).split(|c: char| !c.is_alphanumeric() && c != '_' && c != '"').any(|word| word == "unsafe")
}

#[test]
fn unsafe_code_is_listed_and_says_why() {
    let root = root();
    let mut files = Vec::new();
    sources(&root.join("crates"), &mut files);
    sources(&root.join("python/src"), &mut files);
    let mut counted: BTreeMap<String, usize> = BTreeMap::new();
    let mut silent = Vec::new();
    for file in files.iter().filter(|file| !file.ends_with("tests/house/unsafe_code.rs")) {
        let text = std::fs::read_to_string(file).expect("a source file");
        let name = file.strip_prefix(&root).expect("below the root").display().to_string();
        let lines: Vec<&str> = text.lines().collect();
        for (at, line) in lines.iter().enumerate().filter(|(_, line)| is_unsafe(line)) {
            *counted.entry(name.clone()).or_default() += 1;
            // The comment is on the lines above, perhaps with the beginning of the statement in between.
            let above = lines[at.saturating_sub(16)..=at].iter();
            let says = above.clone().any(|line| line.contains("SAFETY:") || line.contains("# Safety"));
            let attribute = line.trim_start().starts_with("#[unsafe(");
            // Methods of an unsafe trait have the contract of the trait.
            let of_trait = line.contains("unsafe fn") && text.contains("unsafe impl GlobalAlloc");
            if !says && !attribute && !of_trait {
                silent.push(format!("{name}:{}", at + 1));
            }
        }
    }
    let listed: BTreeMap<String, usize> = std::fs::read_to_string(root.join("docs/unsafe.md"))
        .expect("the list")
        .lines()
        .filter_map(|line| {
            let mut cells = line.strip_prefix("| `")?.split('|');
            let name = cells.next()?.trim().trim_end_matches('`').to_owned();
            Some((name, cells.next()?.trim().parse().ok()?))
        })
        .collect();
    assert_eq!(counted, listed, "found, and listed in docs/unsafe.md");
    assert!(silent.is_empty(), "no SAFETY comment: {silent:?}");
}
