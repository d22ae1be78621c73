//! Every fault in the folders `planted` of this crate, coscan-datafusion, coscan-engine and coscan-tier must
//! apply to the current code. Then `planted/run.sh` can prove that the fuzzer, or a test, finds it, and
//! `checks/planted.py` that a comparison with another engine does.

use std::collections::HashMap;
use std::path::Path;
use std::process::Command;

#[test]
fn every_planted_fault_applies() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = here.join("../..");
    let entries = here.join("planted").read_dir().expect("the folder of patches");
    let patches: Vec<_> = entries
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "patch"))
        .collect();
    assert!(patches.len() >= 4, "{patches:?}");
    for patch in patches {
        let output = Command::new("git").args(["apply", "--check"]).arg(&patch).current_dir(&root).output();
        let output = output.expect("git runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{} no longer applies: make it anew. {said}", patch.display());
    }
}

/// A line has a name, a file, the code with the expression in `{{ }}`, and the wrong expression.
#[test]
fn every_listed_fault_applies() {
    for (list, sources) in [
        ("datafusion/tests/planted/faults.txt", "datafusion/src"),
        ("datafusion/tests/planted/shared_results.txt", "datafusion/src"),
        ("datafusion/tests/planted/shared_aggregates.txt", "operators/src"),
        ("datafusion/tests/planted/key_filters.txt", "datafusion/src"),
        ("datafusion/tests/planted/text_filters.txt", "datafusion/src"),
        ("datafusion/tests/planted/text_groups.txt", "operators/src"),
        ("datafusion/tests/planted/ranges.txt", "datafusion/src"),
        ("datafusion/tests/planted/stores.txt", "datafusion/src"),
        ("datafusion/tests/planted/store_marks.txt", "engine/src"),
        ("engine/tests/planted/faults.txt", "engine/src"),
        ("tier/planted/faults.txt", "tier/src"),
    ] {
        all_apply(list, sources, |parts| {
            let &[name, file, code, _] = parts else { return None };
            Some([name, file, code])
        });
    }
}

/// A line also has the comparisons with other engines that must find the fault.
#[test]
fn every_fault_for_other_engines_applies() {
    all_apply("sqlfuzz/planted/answers.txt", "", |parts| {
        let &[name, comparisons, file, code, _] = parts else { return None };
        let known = |one: &str| ["fixed", "files", "lake", "sql", "postgresql"].contains(&one);
        assert!(comparisons.split(',').all(known), "{name}: {comparisons}");
        Some([name, file, code])
    });
}

/// All faults of a list are applied to one checkout. `read` returns the name, the file and the code of a line.
fn all_apply(list: &str, sources: &str, read: for<'a> fn(&[&'a str]) -> Option<[&'a str; 3]>) {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let faults = std::fs::read_to_string(crates.join(list)).expect(list);
    assert!(faults.lines().count() >= 5, "{list}");
    let mut planted = HashMap::new();
    for fault in faults.lines() {
        let parts: Vec<_> = fault.split('\t').collect();
        let Some([name, file, code]) = read(&parts) else { panic!("{list}: {fault}") };
        let source: &mut String = planted
            .entry(file.to_owned())
            .or_insert_with(|| std::fs::read_to_string(crates.join(sources).join(file)).expect(file));
        let (before, rest) = code.split_once("{{").expect(fault);
        let (right, after) = rest.split_once("}}").expect(fault);
        let code = format!("{before}{right}{after}");
        assert!(source.contains(&code), "{name} of {list} no longer applies: {file} has no {code}");
        *source = source.replacen(&code, &format!("{before}planted{after}"), 1);
    }
}
