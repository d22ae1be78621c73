//! Runs the binary and prepares its data.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

use serde_json::Value;

/// Rows of lineitem at scale factor 0.01.
pub const LINEITEM_ROWS: i64 = 60_175;

/// The binary, without the COSCAN_ variables of the environment.
pub fn coscan() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_coscan"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("COSCAN_") {
            command.env_remove(name);
        }
    }
    command.stdin(Stdio::null());
    command
}

/// Runs the binary to its end.
pub fn run(args: &[&str]) -> Output {
    coscan().args(args).output().expect("the binary runs")
}

/// The output of a run that must succeed.
pub fn stdout(args: &[&str]) -> String {
    let output = run(args);
    assert!(output.status.success(), "{args:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

/// The output of a run that must succeed, as JSON.
pub fn json(args: &[&str]) -> Value {
    serde_json::from_str(&stdout(args)).expect("JSON")
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// TPC-H at scale factor 0.01 with small row groups, lineitem in two files; made once.
pub fn data() -> &'static Path {
    static DATA: OnceLock<PathBuf> = OnceLock::new();
    DATA.get_or_init(|| {
        let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join("tpch-0.01");
        let path = out.to_str().expect("a path in text");
        let shape = ["--scale-factor", "0.01", "--row-group-rows", "3000", "--files-per-table", "2"];
        stdout(&[&["generate", "tpch", "--out", path, "--force"], &shape[..]].concat());
        out
    })
}

/// The argument for the lineitem table.
pub fn lineitem() -> String {
    format!("lineitem={}", data().join("lineitem").display())
}

/// Options that make even small tables cooperative.
pub const COOPERATIVE: [&str; 2] = ["--set", "coscan.small_table_bytes=0"];
