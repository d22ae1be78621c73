//! The findings of reviews have the tests that `docs/testing.md` lists: each test is in the named file and is run.

use std::path::Path;

/// Number of findings in the table.
const FINDINGS: usize = 27;

/// A row of the table: number, fault, and the tests, each as `file` name.
fn rows(text: &str) -> Vec<(usize, Vec<(String, String)>)> {
    let row = |line: &str| {
        let mut cells = line.strip_prefix("| ")?.split(" | ");
        let number = cells.next()?.parse().ok()?;
        let tests = cells.nth(1)?.trim_end_matches(" |");
        let test = |test: &str| {
            let names: Vec<&str> = test.split('`').collect();
            let [_, file, between, name, _] = names[..] else { panic!("finding {number}: {test}") };
            assert_eq!(between, " ", "finding {number}: {test}");
            (file.to_owned(), name.to_owned())
        };
        Some((number, tests.split(", ").map(test).collect()))
    };
    text.lines().filter_map(row).collect()
}

/// Returns true if a source file has a test of this name that is run.
fn has_test(source: &str, name: &str) -> bool {
    let lines: Vec<&str> = source.lines().map(str::trim).collect();
    let is_it = |line: &str| {
        let name_on = line.strip_prefix("async ").unwrap_or(line).strip_prefix("fn ");
        name_on.and_then(|rest| rest.strip_prefix(name)).is_some_and(|rest| rest.starts_with('('))
    };
    lines.iter().position(|line| is_it(line)).is_some_and(|at| {
        let attributes: Vec<&&str> =
            lines[..at].iter().rev().take_while(|line| line.starts_with("#[")).collect();
        attributes.iter().any(|line| line.starts_with("#[test]") || line.starts_with("#[tokio::test"))
            && !attributes.iter().any(|line| line.starts_with("#[ignore"))
    })
}

#[test]
fn every_finding_has_its_tests() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let text = std::fs::read_to_string(root.join("docs/testing.md")).expect("the table");
    let rows = rows(&text);
    let numbers: Vec<usize> = rows.iter().map(|(number, _)| *number).collect();
    assert_eq!(numbers, (1..=FINDINGS).collect::<Vec<_>>(), "every finding once, in order");
    for (number, tests) in rows {
        assert!(!tests.is_empty(), "finding {number} has no test");
        for (file, name) in tests {
            let source = std::fs::read_to_string(root.join("crates").join(&file));
            let source = source.unwrap_or_else(|error| panic!("finding {number}: crates/{file}: {error}"));
            assert!(has_test(&source, &name), "finding {number}: crates/{file} has no test {name}");
        }
    }
}

#[test]
fn a_function_is_a_test_by_its_attributes() {
    let source = "#[test]\nfn a() {}\nfn b() {}\n#[tokio::test(flavor = \"x\")]\nasync fn c() {}\n\
                  #[test]\n#[ignore = \"slow\"]\nfn d() {}\n#[test]\n\nfn e() {}";
    assert!(has_test(source, "a") && has_test(source, "c"));
    for none in ["b", "d", "e", "f"] {
        assert!(!has_test(source, none), "{none}");
    }
}
