//! The report of a reproduction: one self-contained HTML page without scripts.
//!
//! It holds a scoreboard, a section per experiment with text, tables and figures, and the provenance of the
//! numbers. The page is readable on a phone, can be printed, follows the viewer's colour scheme, and says in
//! words everything that it shows in colour. Everything except figures of [`coscan_figure`] is escaped. This
//! module writes no file and runs no experiment.

pub mod scoreboard;

use maud::{DOCTYPE, Markup, PreEscaped, html};

use scoreboard::BY_PAPER;
pub use scoreboard::{Row, Scoreboard, Taint};

/// The caption of the table by paper and basis.
const BY_PAPER_CAPTION: &str = "Rows within their tolerance, rows that count, and rows whose verdict another value of a fitted parameter would change";

/// A piece of a section.
#[derive(Debug, Clone, PartialEq)]
pub enum Block {
    /// A paragraph.
    Text(String),
    /// A heading below the section's.
    Heading(String),
    /// A table; the first cell of each row is its name.
    Table {
        /// The table's caption.
        caption: String,
        /// The names of the columns.
        header: Vec<String>,
        /// The rows, with as many cells as there are columns.
        rows: Vec<Vec<String>>,
    },
    /// A figure.
    Figure {
        /// The figure's caption.
        caption: String,
        /// An SVG text from a function of [`coscan_figure`]; it is not escaped.
        svg: String,
    },
}

/// One experiment's part of the report.
pub(crate) struct Finding {
    pub(crate) rows: Vec<Row>,
    pub(crate) section: Section,
}

/// The report's text about one experiment.
#[derive(Debug, Clone, PartialEq)]
pub struct Section {
    /// The experiment's id as in the scoreboard, which links here.
    pub experiment: String,
    /// Its heading.
    pub title: String,
    /// Its parts, in order.
    pub blocks: Vec<Block>,
}

/// The provenance of the numbers: enough to repeat them.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Provenance {
    /// coscan's version.
    pub version: String,
    /// The command that made the report.
    pub command: String,
    /// The seeds, for example `1 to 20`.
    pub seeds: String,
    /// Further facts, as name and value.
    pub more: Vec<(String, String)>,
}

/// The whole page.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Report {
    /// Its heading.
    pub title: String,
    /// Instructions for reading it, in paragraphs.
    pub reading: Vec<String>,
    /// The comparisons.
    pub scoreboard: Scoreboard,
    /// A section for each experiment.
    pub sections: Vec<Section>,
    /// The provenance of the numbers.
    pub provenance: Provenance,
}

impl Report {
    /// The page as HTML text.
    pub fn html(&self) -> String {
        html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="color-scheme" content="light dark";
                    title { (self.title) }
                    style { (PreEscaped(STYLE)) }
                }
                body {
                    a class="skip" href="#scoreboard" { "Skip to the scoreboard" }
                    header {
                        h1 { (self.title) }
                        p class="summary" { (self.scoreboard.summary()) "." }
                    }
                    (self.contents())
                    main {
                        section aria-labelledby="reading" {
                            h2 id="reading" { "How to read this" }
                            @for paragraph in &self.reading { p { (paragraph) } }
                        }
                        (self.scores())
                        @for section in &self.sections { (section.html()) }
                    }
                    (self.provenance.html())
                }
            }
        }
        .into_string()
    }

    /// The tables of the sections without rows on the scoreboard, as text (Markdown).
    pub fn unscored_tables(&self) -> String {
        let scored =
            |section: &&Section| self.scoreboard.rows.iter().any(|row| row.experiment == section.experiment);
        let unscored = self.sections.iter().filter(|section| !scored(section));
        unscored.map(Section::tables).collect()
    }

    fn contents(&self) -> Markup {
        html! {
            nav aria-label="Contents" {
                ul {
                    li { a href="#scoreboard" { "Scoreboard" } }
                    @for section in &self.sections {
                        li { a href={ "#" (anchor(&section.experiment)) } { (section.title) } }
                    }
                    li { a href="#provenance" { "Where the numbers come from" } }
                }
            }
        }
    }

    fn scores(&self) -> Markup {
        const HEADER: [&str; 10] = [
            "Quantity",
            "Paper",
            "Measured",
            "Spread",
            "Ratio",
            "Tolerance",
            "Basis",
            "Verdict",
            "The paper says",
            "Note",
        ];
        let section_of =
            |experiment: &str| self.sections.iter().find(|section| section.experiment == experiment);
        html! {
            section aria-labelledby="scoreboard" {
                h2 id="scoreboard" { "Scoreboard" }
                div class="wide" role="region" aria-label="Scoreboard" tabindex="0" {
                    table class="scores" {
                        caption { "Measured: median over seeds. Ratio: measured over paper. " (self.scoreboard.summary()) "." }
                        thead { tr { @for name in HEADER { th scope="col" { (name) } } } }
                        @for (experiment, rows) in self.scoreboard.groups() {
                            tbody id={ "scores-" (anchor(experiment)) } {
                                tr class="group" {
                                    th scope="rowgroup" colspan="10" {
                                        @match section_of(experiment) {
                                            Some(section) => a href={ "#" (anchor(experiment)) } { (section.title) },
                                            None => (experiment),
                                        }
                                    }
                                }
                                @for row in rows { (score(row)) }
                            }
                        }
                    }
                }
                h3 { "By paper and basis" }
                (Block::Table {
                    caption: BY_PAPER_CAPTION.to_owned(),
                    header: BY_PAPER.map(str::to_owned).to_vec(),
                    rows: self.scoreboard.by_paper().into_iter().map(Vec::from).collect(),
                }.html())
            }
        }
    }
}

/// The appearance of a row: one that does not count is neither good nor bad.
fn look(row: &Row) -> &'static str {
    match (row.judged, row.within) {
        (false, _) => "uncounted",
        (true, true) => "within",
        (true, false) => "outside",
    }
}

fn score(row: &Row) -> Markup {
    let [quantity, numbers @ .., basis, verdict, note] = row.cells();
    html! {
        tr class=(look(row)) {
            th scope="row" { (quantity) }
            @for number in numbers { td class="number" { (number) } }
            td class="basis" { (basis) }
            td class="verdict" { (verdict) }
            td class="note" { (row.sentence) }
            td class="note" { (row.taints()) @if !row.tainted.is_empty() && !note.is_empty() { "; " } (note) }
        }
    }
}

impl Section {
    /// Its tables, as Markdown under its title; empty without tables.
    fn tables(&self) -> String {
        let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
        let tables = self.blocks.iter().filter_map(|block| {
            let Block::Table { caption, header, rows } = block else { return None };
            let rows: String = rows.iter().map(|row| line(row)).collect();
            Some(format!("\n{caption}\n\n{}|{}\n{rows}", line(header), "---|".repeat(header.len())))
        });
        let tables: String = tables.collect();
        if tables.is_empty() { tables } else { format!("{}\n{tables}\n", self.title) }
    }

    fn html(&self) -> Markup {
        let id = anchor(&self.experiment);
        html! {
            section aria-labelledby=(id) {
                h2 id=(id) { (self.title) }
                @for block in &self.blocks { (block.html()) }
                p class="back" { a href={ "#scores-" (id) } { "Its scores" } }
            }
        }
    }
}

impl Block {
    fn html(&self) -> Markup {
        match self {
            Block::Text(text) => html! { p { (text) } },
            Block::Heading(text) => html! { h3 { (text) } },
            Block::Table { caption, header, rows } => html! {
                div class="wide" role="region" aria-label=(caption) tabindex="0" {
                    table {
                        caption { (caption) }
                        thead { tr { @for name in header { th scope="col" { (name) } } } }
                        tbody { @for row in rows { (table_row(row)) } }
                    }
                }
            },
            Block::Figure { caption, svg } => html! {
                figure {
                    div class="wide" role="region" aria-label=(caption) tabindex="0" { (PreEscaped(svg)) }
                    figcaption { (caption) }
                }
            },
        }
    }
}

fn table_row(row: &[String]) -> Markup {
    html! {
        tr {
            @for (index, cell) in row.iter().enumerate() {
                @if index == 0 { th scope="row" { (cell) } } @else { td class="number" { (cell) } }
            }
        }
    }
}

impl Provenance {
    fn html(&self) -> Markup {
        let known = [("Version", &self.version), ("Command", &self.command), ("Seeds", &self.seeds)];
        html! {
            footer {
                h2 id="provenance" { "Where the numbers come from" }
                dl {
                    @for (name, value) in known { dt { (name) } dd { code { (value) } } }
                    @for (name, value) in &self.more { dt { (name) } dd { code { (value) } } }
                }
            }
        }
    }
}

/// An experiment's id as a fragment of an address: letters, digits and hyphens.
fn anchor(experiment: &str) -> String {
    let safe =
        experiment.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' });
    format!("x-{}", safe.collect::<String>())
}

const STYLE: &str = "
:root{--paper:#fff;--ink:#1f2328;--muted:#59636e;--line:#d1d9e0;--shade:#f6f8fa;--link:#0072b2;--good:#00694c;--bad:#a94700}
@media screen and (prefers-color-scheme:dark){:root{--paper:#0d1117;--ink:#e6edf3;--muted:#9da7b3;--line:#30363d;--shade:#161b22;--link:#4aa3e0;--good:#2fc79a;--bad:#ff8a3d}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:1000px;padding:1rem;background:var(--paper);color:var(--ink);font:16px/1.55 system-ui,sans-serif}
h1{font-size:1.7rem;line-height:1.2;margin:1rem 0 .5rem}
h2{font-size:1.3rem;margin:2.5rem 0 .75rem;padding-top:.75rem;border-top:1px solid var(--line)}
h3{font-size:1.05rem;margin:1.5rem 0 .5rem}
p,li{max-width:70ch}
a{color:var(--link)}
.skip{position:absolute;left:-999px}.skip:focus{left:1rem}
.summary{font-weight:600}
.wide{overflow-x:auto}
.wide:focus-visible{outline:2px solid var(--link);outline-offset:2px}
table{border-collapse:collapse;font-size:.87rem;margin:.5rem 0 1.25rem;font-variant-numeric:tabular-nums}
caption{text-align:left;color:var(--muted);padding:.25rem 0}
th,td{padding:.28rem .6rem;border-bottom:1px solid var(--line);text-align:left;vertical-align:top}
thead th{border-bottom:2px solid var(--line);white-space:nowrap}
tbody th{font-weight:400}
.group th{background:var(--shade);font-weight:600}
.number,.verdict{white-space:nowrap}
.number{text-align:right}
.within .verdict{color:var(--good)}
.outside .verdict{color:var(--bad);font-weight:600}
.note{min-width:14rem}
figure{margin:1rem 0 1.75rem}
figure svg{display:block;min-width:640px}
figcaption{color:var(--muted);font-size:.9rem;max-width:75ch;margin-top:.4rem}
dt{color:var(--muted)}dd{margin:0 0 .5rem}
code{font-size:.9rem;overflow-wrap:anywhere}
@media print{body{max-width:none;font-size:11pt}nav,.skip,.back{display:none}.wide{overflow:visible}figure,tr{break-inside:avoid}figure svg{min-width:0}a{color:inherit;text-decoration:none}}
";

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        let row = Row {
            experiment: "scan07 <b>".to_owned(),
            quantity: "relevance.\"loads\" & more".to_owned(),
            paper: 1.0,
            measured: 2.0,
            spread: (1.0, 3.0),
            seeds: 20,
            tolerance: 0.25,
            within: false,
            basis: coscan_sim::scenario::Basis::Stated,
            judged: true,
            sentence: String::new(),
            tainted: Vec::new(),
            note: "</td><script>alert(1)</script>".to_owned(),
        };
        let table = Block::Table {
            caption: "Table <2>".to_owned(),
            header: vec!["policy".to_owned(), "loads".to_owned()],
            rows: vec![vec!["normal".to_owned(), "<i>4186</i>".to_owned()]],
        };
        let svg = coscan_figure::line::LineChart::default().svg().unwrap();
        let blocks =
            vec![Block::Text("a < b".to_owned()), table, Block::Figure { caption: "Fig. 2".to_owned(), svg }];
        Report {
            title: "A & B".to_owned(),
            reading: vec!["read <me>".to_owned()],
            scoreboard: Scoreboard { rows: vec![row] },
            sections: vec![Section {
                experiment: "scan07 <b>".to_owned(),
                title: "T <2>".to_owned(),
                blocks,
            }],
            provenance: Provenance {
                command: "coscan repro --html \"a\"".to_owned(),
                ..Provenance::default()
            },
        }
    }

    /// The page without its doctype and head, whose elements HTML does not close.
    fn body(page: &str) -> &str {
        let from = page.find("<body>").unwrap();
        &page[from..page.find("</html>").unwrap()]
    }

    #[test]
    fn the_page_is_well_formed_and_escapes_what_it_is_given() {
        let page = report().html();
        let document = roxmltree::Document::parse(body(&page)).unwrap();
        assert!(!page.contains("<script") && !page.contains("<i>"));
        let text: String =
            document.descendants().filter(|node| node.is_text()).filter_map(|n| n.text()).collect();
        assert!(text.contains("</td><script>alert(1)</script>") && text.contains("<i>4186</i>"));
        assert!(text.contains("✗ not within") && text.contains("0 of 1 quantity in 1 experiment within"));
        assert!(!page.contains("href=\"http") && !page.contains("src="), "nothing from outside");
    }

    #[test]
    fn links_lead_somewhere_and_ids_are_unique() {
        let page = report().html();
        let document = roxmltree::Document::parse(body(&page)).unwrap();
        let mut ids: Vec<&str> = document.descendants().filter_map(|node| node.attribute("id")).collect();
        let links: Vec<&str> = document.descendants().filter_map(|node| node.attribute("href")).collect();
        assert!(links.len() >= 5 && links.iter().all(|link| ids.contains(&&link[1..])), "{links:?} {ids:?}");
        let count = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), count);
    }

    #[test]
    fn a_report_of_nothing_is_still_a_page() {
        let page = Report::default().html();
        assert!(roxmltree::Document::parse(body(&page)).is_ok());
    }
}
