//! The table of settings in `docs/reference/settings.md` is that of the program. `COSCAN_BLESS=1` writes it.

use coscan_datafusion::options::{Scope, settings};

const BEGIN: &str =
    "<!-- settings: made by `COSCAN_BLESS=1 cargo test --release --workspace --test program settings` -->\n";
const END: &str = "<!-- end of settings -->\n";

fn table() -> String {
    let mut table = String::from("| `SET coscan.…` | scope | meaning | default |\n|---|---|---|---|\n");
    for setting in settings() {
        let scope = match setting.scope {
            Scope::Session => "session",
            Scope::Engine => "engine",
            Scope::Startup => "start",
        };
        let row = format!("| `{}` | {scope} | {} | {} |\n", setting.name, setting.summary, setting.default);
        table.push_str(&row);
    }
    table
}

#[test]
fn the_reference_has_the_table_of_settings() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/settings.md");
    let page = std::fs::read_to_string(path).expect("the page of settings");
    let (before, rest) = page.split_once(BEGIN).expect("where the table begins");
    let (found, after) = rest.split_once(END).expect("where the table ends");
    if std::env::var_os("COSCAN_BLESS").is_some() {
        std::fs::write(path, [before, BEGIN, &table(), END, after].concat())
            .expect("write the page of settings");
    } else {
        assert_eq!(found, table(), "COSCAN_BLESS=1 writes it");
    }
}
