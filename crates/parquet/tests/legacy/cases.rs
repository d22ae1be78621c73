//! Files as other writers make them, or made them once: their rows, and the result of the parquet crate.
//!
//! Each is written soundly, and then its footer is changed. The expected values are those that pyarrow and
//! DuckDB read from such files.

use std::sync::Arc;

use crate::arrow::array::{
    Array, ArrayRef, Decimal128Array, FixedSizeBinaryArray, Int32Array, Int32Builder, Int64Array, ListArray,
    ListBuilder, MapBuilder, MapFieldNames, RecordBatch, StringArray, StringBuilder, StructArray,
};
use crate::arrow::buffer::OffsetBuffer;
use crate::arrow::datatypes::{DataType, Field, Fields, Schema};
use crate::parquet::arrow::ArrowWriter;
use crate::parquet::file::properties::{EnabledStatistics, WriterProperties};

use crate::thrift::Node;

/// Field numbers.
const SCHEMA: i16 = 2;
const ROWS: i16 = 3;
const GROUPS: i16 = 4;
const KEY_VALUES: i16 = 5;
const CREATED_BY: i16 = 6;
const ORDERS: i16 = 7;

const INT: u8 = 5;
const LONG: u8 = 6;
const STRUCT: u8 = 12;

/// A file and its rows.
pub struct Case {
    pub name: &'static str,
    pub bytes: Vec<u8>,
    /// The columns' names.
    pub columns: &'static [&'static str],
    /// Each row, its values as Arrow shows them.
    pub rows: Vec<String>,
    /// The result of the parquet crate alone.
    pub alone: Alone,
}

/// The result of the parquet crate without help.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Alone {
    /// An error when it decodes the footer, the schema or the pages.
    Fails,
    /// Other rows.
    Differs,
    /// The same rows, which other readers do not get.
    Same,
}

/// A file's body and its footer.
pub struct Parts {
    pub body: Vec<u8>,
    pub footer: Node,
}

impl Parts {
    pub fn of(bytes: &[u8]) -> Parts {
        let end = bytes.len() - 8;
        let length = u32::from_le_bytes(bytes[end..end + 4].try_into().unwrap()) as usize;
        let footer = Node::read(&bytes[end - length..end]).expect("a footer").0;
        Parts { body: bytes[..end - length].to_vec(), footer }
    }

    pub fn bytes(&self) -> Vec<u8> {
        self.with_footer(&self.footer.bytes())
    }

    pub fn with_footer(&self, footer: &[u8]) -> Vec<u8> {
        let mut bytes = self.body.clone();
        bytes.extend_from_slice(footer);
        bytes.extend_from_slice(&(footer.len() as u32).to_le_bytes());
        bytes.extend_from_slice(b"PAR1");
        bytes
    }

    pub fn elements(&mut self) -> &mut Vec<Node> {
        list(&mut self.footer, SCHEMA)
    }

    /// The element of the schema with this name.
    pub fn element(&mut self, name: &str) -> &mut Node {
        let at = self.position(name);
        &mut self.elements()[at]
    }

    pub fn position(&mut self, name: &str) -> usize {
        let named = |node: &Node| node.field(4) == Some(&Node::Binary(name.as_bytes().to_vec()));
        self.elements().iter().position(named).expect(name)
    }

    pub fn groups(&mut self) -> &mut Vec<Node> {
        list(&mut self.footer, GROUPS)
    }

    /// The metadata of a column of the first row group.
    pub fn column(&mut self, column: usize) -> &mut Node {
        list(&mut self.groups()[0], 1)[column].field_mut(3).expect("metadata")
    }

    pub fn chunk(&mut self, column: usize) -> &mut Node {
        &mut list(&mut self.groups()[0], 1)[column]
    }
}

fn list(of: &mut Node, id: i16) -> &mut Vec<Node> {
    match of.field_mut(id) {
        Some(Node::List(_, elements)) => elements,
        other => panic!("field {id} is {other:?}"),
    }
}

/// Sets a field of a structure, or adds it.
pub fn set(of: &mut Node, id: i16, value: Node) {
    let Node::Struct(fields) = of else { panic!("no structure") };
    fields.retain(|(known, _)| *known != id);
    fields.push((id, value));
    fields.sort_by_key(|(id, _)| *id);
}

pub fn remove(of: &mut Node, id: i16) {
    let Node::Struct(fields) = of else { panic!("no structure") };
    fields.retain(|(known, _)| *known != id);
}

fn int(value: i64) -> Node {
    Node::Int(INT, value)
}

fn long(value: i64) -> Node {
    Node::Int(LONG, value)
}

fn text(value: &str) -> Node {
    Node::Binary(value.as_bytes().to_vec())
}

fn rename(of: &mut Node, name: &str) {
    set(of, 4, text(name));
}

/// A sound file without Arrow's own schema.
pub fn written(columns: Vec<(&str, ArrayRef)>) -> Parts {
    written_with(columns, WriterProperties::builder().set_created_by("tests".into()).build())
}

pub fn written_with(columns: Vec<(&str, ArrayRef)>, properties: WriterProperties) -> Parts {
    let fields =
        columns.iter().map(|(name, array)| Field::new(*name, array.data_type().clone(), array.is_nullable()));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let batch =
        RecordBatch::try_new(Arc::clone(&schema), columns.into_iter().map(|(_, array)| array).collect());
    let mut writer = ArrowWriter::try_new(Vec::new(), schema, Some(properties)).expect("a writer");
    writer.write(&batch.expect("a batch")).expect("room");
    let mut parts = Parts::of(&writer.into_inner().expect("a file"));
    remove(&mut parts.footer, KEY_VALUES);
    parts
}

fn numbers() -> ArrayRef {
    Arc::new(Int64Array::from(vec![1, 2, 3]))
}

fn ids() -> Vec<String> {
    ["1", "2", "3"].map(str::to_owned).to_vec()
}

fn case(name: &'static str, parts: Parts, columns: &'static [&'static str], rows: Vec<&str>) -> Case {
    let rows = rows.into_iter().map(str::to_owned).collect();
    Case { name, bytes: parts.bytes(), columns, rows, alone: Alone::Fails }
}

/// All cases.
pub fn all() -> Vec<Case> {
    let mut cases = annotations();
    cases.extend(nested());
    cases.extend(metadata());
    cases.extend(sizes_and_counts());
    cases.extend(indexes());
    cases
}

/// Annotations of columns that no reader knows, or that lack a part.
fn annotations() -> Vec<Case> {
    let decimals = || {
        let array = Decimal128Array::from(vec![Some(7), None, Some(-12)]).with_precision_and_scale(9, 0);
        written(vec![("d", Arc::new(array.expect("decimals")) as ArrayRef)])
    };
    let mut old = decimals();
    remove(old.element("d"), 7);
    remove(old.element("d"), 10);
    let mut new = decimals();
    remove(new.element("d"), 7);
    set(new.element("d"), 10, Node::Struct(vec![(5, Node::Struct(vec![(2, int(9))]))]));
    let rows = vec!["7", "NULL", "-12"];
    let mut cases = vec![
        case("a decimal without a scale", old, &["d"], rows.clone()),
        case("a logical decimal without a scale", new, &["d"], rows),
    ];
    let nothing = || {
        let numbers: ArrayRef = Arc::new(Int32Array::from(vec![None::<i32>, None]));
        written(vec![("n", numbers), ("i", Arc::new(Int32Array::from(vec![1, 2])))])
    };
    let mut parts = nothing();
    set(parts.element("n"), 6, int(24));
    cases.push(case(
        "a column of nothing, by its old number",
        parts,
        &["n", "i"],
        vec!["NULL, 1", "NULL, 2"],
    ));
    let mut parts = nothing();
    set(parts.element("i"), 6, int(99));
    cases.push(case("an unknown converted type", parts, &["n", "i"], vec!["NULL, 1", "NULL, 2"]));
    let mut parts = nothing();
    set(parts.element("i"), 10, Node::Struct(vec![(99, Node::Struct(vec![(1, int(5))]))]));
    cases.push(case("an unknown logical type", parts, &["n", "i"], vec!["NULL, 1", "NULL, 2"]));
    let mut parts = nothing();
    set(
        parts.element("i"),
        10,
        Node::Struct(vec![(
            8,
            Node::Struct(vec![(1, Node::Bool(true)), (2, Node::Struct(vec![(1, Node::Struct(vec![]))]))]),
        )]),
    );
    set(parts.element("i"), 6, int(15));
    cases.push(case(
        "a logical type of another physical type",
        parts,
        &["n", "i"],
        vec!["NULL, 1", "NULL, 2"],
    ));
    cases
}

/// Groups that are lists and maps in the manner of old writers, or are not groups.
fn nested() -> Vec<Case> {
    let mut cases = vec![
        repeated_map("a list whose item is a repeated map", false),
        repeated_map("a list whose item is a repeated map with annotated entries", true),
        free_repeated_map(),
        map_of_three(),
        repeated_list(),
    ];
    let mut parts = written(vec![("a", numbers())]);
    let group =
        |name: &str, children: i64| Node::Struct(vec![(3, int(1)), (4, text(name)), (5, int(children))]);
    let at = parts.position("a");
    parts.elements().splice(at..at, [group("outer", 1), group("inner", 0)]);
    set(&mut parts.elements()[0], 5, int(2));
    let alone = Alone::Same;
    cases.push(Case { alone, ..case("a group without children", parts, &["a"], vec!["1", "2", "3"]) });
    cases
}

fn maps() -> MapBuilder<StringBuilder, Int32Builder> {
    let names = MapFieldNames { entry: "key_value".into(), key: "key".into(), value: "value".into() };
    MapBuilder::new(Some(names), StringBuilder::new(), Int32Builder::new())
}

/// `optional x (LIST) { repeated list { required element (MAP) { repeated key_value { key, value } } } }`.
fn lists_of_maps() -> Parts {
    let mut builder = ListBuilder::new(maps());
    for list in [
        Some(vec![vec![("a", Some(1)), ("b", None)], vec![]]),
        None,
        Some(vec![]),
        Some(vec![vec![("c", Some(3))]]),
    ] {
        for map in list.iter().flatten() {
            for (key, value) in map {
                builder.values().keys().append_value(key);
                builder.values().values().append_option(*value);
            }
            builder.values().append(true).expect("a map");
        }
        builder.append(list.is_some());
    }
    let array = builder.finish();
    let map = array.values().data_type().clone();
    let (_, offsets, values, nulls) = array.into_parts();
    let field = Arc::new(Field::new("element", map, false));
    let array = ListArray::new(field, offsets, values, nulls);
    written(vec![("x", Arc::new(array) as ArrayRef)])
}

const LISTS_OF_MAPS: [&str; 4] = ["[{a: 1, b: }, {}]", "NULL", "[]", "[{c: 3}]"];

fn repeated_map(name: &'static str, annotated: bool) -> Case {
    let mut parts = lists_of_maps();
    let at = parts.position("list");
    let mut map = parts.elements()[at + 1].clone();
    rename(&mut map, "array");
    set(&mut map, 3, int(2));
    parts.elements().splice(at..at + 2, [map]);
    if annotated {
        set(parts.element("key_value"), 6, int(2));
    }
    let alone = if annotated { Alone::Fails } else { Alone::Differs };
    Case { alone, ..case(name, parts, &["x"], LISTS_OF_MAPS.to_vec()) }
}

fn free_repeated_map() -> Case {
    let mut parts = lists_of_maps();
    let (at, list) = (parts.position("x"), parts.position("list"));
    assert_eq!(list, at + 1);
    let mut map = parts.elements()[list + 1].clone();
    rename(&mut map, "array");
    set(&mut map, 3, int(2));
    // A structure in the place of the list.
    let structure = Node::Struct(vec![(3, int(1)), (4, text("x")), (5, int(1))]);
    parts.elements().splice(at..at + 3, [structure, map]);
    let rows = vec!["{array: [{a: 1, b: }, {}]}", "NULL", "{array: []}", "{array: [{c: 3}]}"];
    case("a repeated map outside of a list", parts, &["x"], rows)
}

fn repeated_list() -> Case {
    let mut builder = ListBuilder::new(ListBuilder::new(Int32Builder::new()));
    for list in [vec![vec![Some(1), None], vec![]], vec![vec![Some(3)]]] {
        for inner in list {
            inner.into_iter().for_each(|value| builder.values().values().append_option(value));
            builder.values().append(true);
        }
        builder.append(true);
    }
    let (_, offsets, values, nulls) = builder.finish().into_parts();
    let field = Arc::new(Field::new("element", values.data_type().clone(), false));
    let array = ListArray::new(field, offsets, values, nulls);
    let mut parts = written(vec![("x", Arc::new(array) as ArrayRef)]);
    let at = parts.position("list");
    let mut inner = parts.elements()[at + 1].clone();
    set(&mut inner, 3, int(2));
    rename(&mut inner, "array");
    parts.elements().splice(at..at + 2, [inner]);
    let mut case = case("a list whose item is a repeated list", parts, &["x"], vec!["[[1, ], []]", "[[3]]"]);
    case.alone = Alone::Differs;
    case
}

fn map_of_three() -> Case {
    let fields: Fields =
        ["key", "value", "more"].map(|name| Field::new(name, DataType::Int32, false)).to_vec().into();
    let column = |values: [i32; 3]| Arc::new(Int32Array::from(values.to_vec())) as ArrayRef;
    let entries = StructArray::new(
        fields.clone(),
        vec![column([1, 2, 3]), column([10, 20, 30]), column([100, 200, 300])],
        None,
    );
    let field = Arc::new(Field::new("element", DataType::Struct(fields), false));
    let array = ListArray::new(
        field,
        OffsetBuffer::new(vec![0, 2, 2, 3].into()),
        Arc::new(entries),
        Some(vec![true, false, true].into()),
    );
    let mut parts = written(vec![("m", Arc::new(array) as ArrayRef)]);
    let at = parts.position("list");
    let mut entry = parts.elements()[at + 1].clone();
    rename(&mut entry, "key_value");
    set(&mut entry, 3, int(2));
    parts.elements().splice(at..at + 2, [entry]);
    let map = parts.element("m");
    set(map, 6, int(1));
    set(map, 10, Node::Struct(vec![(2, Node::Struct(vec![]))]));
    let rows = vec![
        "[{key: 1, value: 10, more: 100}, {key: 2, value: 20, more: 200}]",
        "NULL",
        "[{key: 3, value: 30, more: 300}]",
    ];
    case("a map whose entries have three children", parts, &["m"], rows)
}

/// Fields that no reader needs, or in other types than declared.
fn metadata() -> Vec<Case> {
    let mut cases = Vec::new();
    let mut add = |name, alone, change: &dyn Fn(&mut Parts)| {
        let mut parts = written(vec![("a", numbers())]);
        change(&mut parts);
        cases.push(Case { name, bytes: parts.bytes(), columns: &["a"], rows: ids(), alone });
    };
    let pair = |value: Node| Node::Struct(vec![(1, text("k")), (2, value)]);
    add("a value that is no text", Alone::Fails, &|parts| {
        let pairs = vec![pair(Node::Binary(vec![0xff, 0xfe])), pair(text("v"))];
        set(&mut parts.footer, KEY_VALUES, Node::List(STRUCT, pairs));
    });
    add("a value that is a structure", Alone::Fails, &|parts| {
        set(&mut parts.footer, KEY_VALUES, Node::List(STRUCT, vec![pair(Node::Struct(vec![(300, int(7))]))]));
    });
    add("a pair without a key", Alone::Fails, &|parts| {
        set(&mut parts.footer, KEY_VALUES, Node::List(STRUCT, vec![Node::Struct(vec![(2, text("v"))])]));
    });
    add("sizes in a list of another integer", Alone::Fails, &|parts| {
        let sizes = Node::Struct(vec![(2, Node::List(4, vec![Node::Int(4, 3)])), (3, Node::List(4, vec![]))]);
        set(parts.column(0), 16, sizes);
    });
    add("a list in the place of a length", Alone::Fails, &|parts| {
        set(parts.column(0), 15, Node::List(STRUCT, vec![Node::Struct(vec![(1, Node::Struct(vec![]))])]));
    });
    add("a sorting column without a direction", Alone::Fails, &|parts| {
        let column = Node::Struct(vec![(1, int(0)), (3, Node::Bool(true))]);
        set(&mut parts.groups()[0], 4, Node::List(STRUCT, vec![column]));
    });
    add("an order too many", Alone::Fails, &|parts| {
        let order = || Node::Struct(vec![(1, Node::Struct(vec![]))]);
        set(&mut parts.footer, ORDERS, Node::List(STRUCT, vec![order(), order()]));
    });
    add("an encoding that nobody knows", Alone::Fails, &|parts| {
        list(parts.column(0), 2).push(int(77));
    });
    add("bounds of another length", Alone::Fails, &|parts| {
        let statistics = parts.column(0).field_mut(12).expect("statistics");
        set(statistics, 5, Node::Binary(vec![1, 2]));
    });
    add("a negative count of nulls", Alone::Fails, &|parts| {
        set(parts.column(0).field_mut(12).expect("statistics"), 3, long(-1));
    });
    add("a writer's name that is no text", Alone::Fails, &|parts| {
        set(&mut parts.footer, CREATED_BY, Node::Binary(vec![0xff]));
    });
    let mut parts = written(vec![("a", numbers())]);
    let mut second = parts.groups()[0].clone();
    remove(&mut second, 7);
    set(&mut parts.groups()[0], 7, Node::Int(4, 0));
    parts.groups().push(second);
    set(&mut parts.footer, ROWS, long(6));
    let rows = vec!["1", "2", "3", "1", "2", "3"];
    cases.push(case("positions of row groups that some lack", parts, &["a"], rows));
    cases
}

/// Sizes that are too small, and counts that differ.
fn sizes_and_counts() -> Vec<Case> {
    let mut cases = Vec::new();
    let mut parts = written(vec![("a", numbers())]);
    set(&mut parts.footer, ROWS, long(0));
    let alone = Alone::Differs;
    cases.push(Case {
        name: "a file of no rows, by its own count",
        bytes: parts.bytes(),
        columns: &["a"],
        rows: ids(),
        alone,
    });
    let mut parts = written(vec![("a", numbers())]);
    set(&mut parts.footer, ROWS, long(-5));
    cases.push(Case {
        name: "a file of a negative number of rows",
        bytes: parts.bytes(),
        columns: &["a"],
        rows: ids(),
        alone: Alone::Same,
    });
    cases.push(short_sizes("sizes without the header of the dictionary", 0));
    cases.push(short_sizes("sizes without the header of the dictionary, before other bytes", 30));
    cases.push(dictionary_without_rows());
    let mut parts = written(vec![("a", numbers())]);
    let start = parts.column(0).field(11).and_then(Node::int).expect("a dictionary");
    let length = parts.column(0).field(7).and_then(Node::int).expect("a length");
    set(&mut parts.footer, CREATED_BY, text("impala version 4.0.0 (build 1)"));
    set(parts.chunk(0), 2, long(start + length));
    set(parts.column(0), 7, long(length + 12));
    remove(parts.chunk(0), 4);
    remove(parts.chunk(0), 5);
    cases.push(case("a size with more than pages", parts, &["a"], vec!["1", "2", "3"]));
    let mut parts = written(vec![("a", numbers())]);
    let at = parts.column(0).field(11).and_then(Node::int).expect("a dictionary");
    set(parts.column(0), 9, long(at));
    set(parts.column(0), 11, long(0));
    remove(parts.chunk(0), 4);
    remove(parts.chunk(0), 5);
    cases.push(case("a dictionary at the place 0", parts, &["a"], vec!["1", "2", "3"]));
    cases
}

/// A row group without rows has a dictionary and no data, as pyarrow writes it.
fn dictionary_without_rows() -> Case {
    let mut parts = written(vec![("a", numbers())]);
    let value = |of: &Node, id: i16| of.field(id).and_then(Node::int).expect("a number");
    let group = parts.groups()[0].clone();
    let about = parts.column(0);
    let length = value(about, 9) - value(about, 11);
    for (id, number) in [(5, 0), (6, length), (7, length), (9, 0)] {
        set(about, id, long(number));
    }
    remove(about, 12);
    remove(parts.chunk(0), 4);
    remove(parts.chunk(0), 5);
    set(&mut parts.groups()[0], 3, long(0));
    parts.groups().push(group);
    Case {
        name: "a row group of a dictionary without rows",
        bytes: parts.bytes(),
        columns: &["a"],
        rows: ids(),
        alone: Alone::Same,
    }
}

/// Two columns whose sizes lack the header of the dictionary, as parquet-mr wrote them before 1.2.9. Behind
/// the second one are `more` bytes, where the footer states that its metadata are.
fn short_sizes(name: &'static str, more: usize) -> Case {
    let words: ArrayRef = Arc::new(StringArray::from(vec![Some("x"), None, Some("x")]));
    let properties = WriterProperties::builder()
        .set_created_by("parquet-mr".into())
        .set_statistics_enabled(EnabledStatistics::None)
        .set_offset_index_disabled(true)
        .build();
    let mut parts = written_with(vec![("a", numbers()), ("b", words)], properties);
    for column in 0..2 {
        let about = parts.column(column);
        let value = |id: i16| about.field(id).and_then(Node::int).expect("a number");
        let (start, length) = (value(11), value(7));
        let page = start as usize;
        let header = Node::read(&parts.body[page..]).expect("a page's header").1 as i64;
        let about = parts.column(column);
        remove(about, 11);
        set(about, 9, long(start));
        set(about, 7, long(length - header));
        remove(about, 13);
        if column == 1 && more > 0 {
            set(parts.chunk(column), 2, long(start + length));
        }
    }
    parts.body.extend(vec![0xff; more]);
    case(name, parts, &["a", "b"], vec!["1, x", "2, NULL", "3, x"])
}

/// Page indexes that do not belong to their row groups.
fn indexes() -> Vec<Case> {
    let indexed = || {
        let properties = WriterProperties::builder()
            .set_created_by("tests".into())
            .set_data_page_row_count_limit(100)
            .set_write_batch_size(100)
            .set_dictionary_enabled(false)
            .build();
        let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..1000));
        written_with(vec![("a", numbers)], properties)
    };
    let rows: Vec<String> = (0..1000).map(|at| at.to_string()).collect();
    let mut cases = Vec::new();
    let mut add = |name, alone, change: &dyn Fn(&mut Parts)| {
        let mut parts = indexed();
        change(&mut parts);
        cases.push(Case { name, bytes: parts.bytes(), columns: &["a"], rows: rows.clone(), alone });
    };
    add("an index of bounds that is no index", Alone::Fails, &|parts| {
        let at = parts.chunk(0).field(6).and_then(Node::int).expect("an index") as usize;
        parts.body[at..at + 8].fill(0xff);
    });
    add("an index of places that is no index", Alone::Same, &|parts| {
        let at = parts.chunk(0).field(4).and_then(Node::int).expect("an index") as usize;
        parts.body[at..at + 8].fill(0xff);
    });
    add("an index behind the end of the file", Alone::Fails, &|parts| {
        set(parts.chunk(0), 6, long(1 << 20));
    });
    add("an index of a negative length", Alone::Same, &|parts| {
        set(parts.chunk(0), 5, int(-1));
    });
    let changed = |parts: &mut Parts, change: &dyn Fn(&mut Vec<Node>)| {
        let at = parts.chunk(0).field(4).and_then(Node::int).expect("an index") as usize;
        let mut index = Node::read(&parts.body[at..]).expect("an index").0;
        change(list(&mut index, 1));
        // At the end of the file, because it may be longer.
        let (place, bytes) = (parts.body.len() as i64, index.bytes());
        parts.body.extend_from_slice(&bytes);
        set(parts.chunk(0), 4, long(place));
        set(parts.chunk(0), 5, int(bytes.len() as i64));
    };
    add("a page without rows in the index", Alone::Same, &|parts| {
        changed(parts, &|pages| {
            let row = pages[3].field(3).cloned().expect("a row");
            set(&mut pages[4], 3, row);
        });
    });
    add("pages that end before the row group does", Alone::Differs, &|parts| {
        changed(parts, &|pages| drop(pages.pop()));
    });
    add("rows of pages beyond the row group", Alone::Same, &|parts| {
        changed(parts, &|pages| {
            for (at, page) in pages.iter_mut().enumerate() {
                set(page, 3, long(5000 * at as i64));
            }
        });
    });
    add("sizes of pages without their headers", Alone::Fails, &|parts| {
        changed(parts, &|pages| {
            for page in pages {
                let size = page.field(2).and_then(Node::int).expect("a size");
                set(page, 2, int(size - 10));
            }
        });
    });
    cases
}

/// A file whose row groups are the same group, `count` times.
pub fn many_groups(count: usize) -> Vec<u8> {
    let properties = WriterProperties::builder()
        .set_statistics_enabled(EnabledStatistics::None)
        .set_offset_index_disabled(true)
        .build();
    let mut parts = written_with(vec![("a", numbers())], properties);
    let mut group = parts.groups()[0].clone();
    remove(&mut group, 7);
    *parts.groups() = vec![group; count];
    set(&mut parts.footer, ROWS, long(3 * count as i64));
    parts.bytes()
}

/// A file whose first row group has a negative number of rows.
pub fn negative_rows() -> Vec<u8> {
    let mut parts = written(vec![("a", numbers())]);
    set(&mut parts.groups()[0], 3, long(-1));
    parts.bytes()
}

/// A file whose row group has values and no rows.
pub fn no_rows() -> Vec<u8> {
    let mut parts = written(vec![("a", numbers())]);
    set(&mut parts.groups()[0], 3, long(0));
    parts.bytes()
}

/// A file whose row group has more values than rows.
pub fn few_rows() -> Vec<u8> {
    let mut parts = written(vec![("a", numbers())]);
    set(&mut parts.groups()[0], 3, long(2));
    parts.bytes()
}

/// A file whose footer has rows and no field of row groups.
pub fn without_groups() -> Vec<u8> {
    let mut parts = written(vec![("a", numbers())]);
    remove(&mut parts.footer, GROUPS);
    parts.bytes()
}

/// Rows without columns.
pub fn no_columns() -> Vec<u8> {
    let mut parts = written(vec![("a", numbers())]);
    parts.elements().truncate(1);
    set(&mut parts.elements()[0], 5, int(0));
    set(&mut parts.groups()[0], 1, Node::List(STRUCT, vec![]));
    remove(&mut parts.footer, ORDERS);
    parts.bytes()
}

/// Intervals as the format stores them: months, days and milliseconds.
pub fn intervals(months_days_millis: &[Option<[i32; 3]>], annotate: impl Fn(&mut Node)) -> Parts {
    let bytes = |value: &[i32; 3]| value.iter().flat_map(|part| part.to_le_bytes()).collect::<Vec<u8>>();
    let values = months_days_millis.iter().map(|value| value.as_ref().map(bytes));
    let array = FixedSizeBinaryArray::try_from_sparse_iter_with_size(values, 12).expect("intervals");
    let mut parts = written(vec![("i", Arc::new(array) as ArrayRef)]);
    set(parts.element("i"), 6, int(21));
    annotate(parts.element("i"));
    parts
}

/// A list of intervals and a structure with one.
pub fn nested_intervals() -> Parts {
    let bytes = |parts: [i32; 3]| parts.iter().flat_map(|part| part.to_le_bytes()).collect::<Vec<u8>>();
    let stored = |values: Vec<Option<[i32; 3]>>| {
        let values = values.into_iter().map(|value| value.map(bytes));
        FixedSizeBinaryArray::try_from_sparse_iter_with_size(values, 12).expect("intervals")
    };
    let item = Arc::new(Field::new("element", DataType::FixedSizeBinary(12), true));
    let list = ListArray::new(
        item,
        OffsetBuffer::new(vec![0, 2, 2].into()),
        Arc::new(stored(vec![Some([314, 0, 0]), None])),
        None,
    );
    let fields: Fields = vec![Field::new("i", DataType::FixedSizeBinary(12), true)].into();
    let values = stored(vec![Some([2, 3, 4]), None]);
    let structure = StructArray::new(fields, vec![Arc::new(values)], Some(vec![true, false].into()));
    let mut parts = written(vec![("x", Arc::new(list) as ArrayRef), ("s", Arc::new(structure))]);
    for name in ["element", "i"] {
        set(parts.element(name), 6, int(21));
    }
    parts
}
