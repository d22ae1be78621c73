//! Every fault in `planted/`, here and beside the tests of coscan-datafusion, can still be put back into today's code, so
//! that `planted/run.sh` goes on to prove that the fuzzer, or a test, finds it.

use std::path::Path;
use std::process::Command;

#[test]
fn every_planted_fault_applies() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = here.join("../..");
    let folders = [here.join("planted"), root.join("crates/datafusion/tests/planted")];
    let entries = folders.iter().flat_map(|folder| folder.read_dir().expect("the folder of patches"));
    let patches: Vec<_> = entries
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "patch"))
        .collect();
    assert!(patches.len() >= 9, "{patches:?}");
    for patch in patches {
        let output = Command::new("git").args(["apply", "--check"]).arg(&patch).current_dir(&root).output();
        let output = output.expect("git runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{} no longer applies: make it anew. {said}", patch.display());
    }
}
