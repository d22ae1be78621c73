//! Layout of tables on the terminal.

use comfy_table::{ContentArrangement, Table, TableComponent, presets};

/// A table with one line, under its header. Its width fits the terminal.
pub fn plain(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    table.set_style(TableComponent::HeaderLines, '─');
    table.set_style(TableComponent::MiddleHeaderIntersections, '─');
    table.set_content_arrangement(ContentArrangement::Dynamic);
    table.set_header(header);
    table
}
