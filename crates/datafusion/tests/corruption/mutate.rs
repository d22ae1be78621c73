//! One corruption of a valid file, chosen by a seed: of its structure (fields of footer, page headers, page
//! indexes, bloom filters, statistics), or of its bytes. The report of a failure contains the description of
//! the mutation.

use fastrand::Rng;

use crate::thrift::Node;

/// A file in two parts: the bytes before the footer, and the footer.
struct Parts {
    data: Vec<u8>,
    footer: Node,
}

impl Parts {
    fn new(file: &[u8]) -> Self {
        let len = u32::from_le_bytes(file[file.len() - 8..file.len() - 4].try_into().unwrap()) as usize;
        let start = file.len() - 8 - len;
        let (footer, read) = Node::read(&file[start..file.len() - 8]).expect("a valid footer");
        assert_eq!(read, len, "the whole footer is understood");
        Parts { data: file[..start].to_vec(), footer }
    }

    fn bytes(mut self) -> Vec<u8> {
        let footer = self.footer.bytes();
        self.data.extend(&footer);
        self.data.extend((footer.len() as u32).to_le_bytes());
        self.data.extend(b"PAR1");
        self.data
    }

    /// The column chunks, as positions of row group and column.
    fn chunks(&self) -> Vec<(usize, usize)> {
        let groups = self.footer.field(ROW_GROUPS).map_or(&[][..], Node::elements).iter().enumerate();
        groups
            .flat_map(|(at, group)| {
                (0..group.field(COLUMNS).map_or(0, |c| c.elements().len())).map(move |c| (at, c))
            })
            .collect()
    }

    fn chunk(&self, (group, column): (usize, usize)) -> &Node {
        &self.footer.field(ROW_GROUPS).unwrap().elements()[group].field(COLUMNS).unwrap().elements()[column]
    }

    fn chunk_mut(&mut self, (group, column): (usize, usize)) -> &mut Node {
        let groups = self.footer.field_mut(ROW_GROUPS).unwrap();
        let group = &mut groups.elements_mut()[group];
        &mut group.field_mut(COLUMNS).unwrap().elements_mut()[column]
    }

    fn int(&self, chunk: (usize, usize), field: i16) -> Option<i64> {
        self.chunk(chunk).field(field)?.int()
    }

    fn meta_int(&self, chunk: (usize, usize), field: i16) -> Option<i64> {
        self.chunk(chunk).field(META_DATA)?.field(field)?.int()
    }

    /// The start and the end of a column chunk's pages.
    fn pages(&self, chunk: (usize, usize)) -> Option<(usize, usize)> {
        let first = self.meta_int(chunk, DICTIONARY_PAGE_OFFSET).filter(|at| *at > 0);
        let start = first.or(self.meta_int(chunk, DATA_PAGE_OFFSET))? as usize;
        Some((start, start + self.meta_int(chunk, TOTAL_COMPRESSED_SIZE)? as usize))
    }
}

// Field numbers of the format.
const NUM_ROWS: i16 = 3;
const ROW_GROUPS: i16 = 4;
const COLUMNS: i16 = 1;
const GROUP_ROWS: i16 = 3;
const META_DATA: i16 = 3;
const OFFSET_INDEX_OFFSET: i16 = 4;
const OFFSET_INDEX_LENGTH: i16 = 5;
const COLUMN_INDEX_OFFSET: i16 = 6;
const COLUMN_INDEX_LENGTH: i16 = 7;
const CODEC: i16 = 4;
const NUM_VALUES: i16 = 5;
const TOTAL_COMPRESSED_SIZE: i16 = 7;
const DATA_PAGE_OFFSET: i16 = 9;
const DICTIONARY_PAGE_OFFSET: i16 = 11;
const STATISTICS: i16 = 12;
const BLOOM_FILTER_OFFSET: i16 = 14;
const COMPRESSED_PAGE_SIZE: i16 = 3;

/// Returns the file with one corruption, and its description.
pub fn mutate(rng: &mut Rng, file: &[u8]) -> (Vec<u8>, String) {
    for _ in 0..20 {
        let mutated = match rng.u32(0..14) {
            0..3 => footer_field(rng, file),
            3 => claimed_rows(rng, file),
            4..8 => page_header(rng, file),
            8 => page_index(rng, file),
            9 => lying_statistics(rng, file),
            10 => swapped_chunks(rng, file),
            11 => payload(rng, file),
            12 => bits(rng, file),
            _ => truncated(rng, file),
        };
        if let Some(mutated) = mutated.filter(|(bytes, _)| bytes != file) {
            return mutated;
        }
    }
    bits(rng, file).expect("bits can always be flipped")
}

type Mutated = Option<(Vec<u8>, String)>;

/// Returns a number that breaks careless code.
fn hostile(rng: &mut Rng, old: i64) -> i64 {
    match rng.u32(0..16) {
        0 => 0,
        1 => -1,
        2 => 1,
        3 => i64::from(i32::MAX),
        4 => i64::from(i32::MIN),
        5 => i64::MAX,
        6 => i64::MIN,
        7 => 1 << 44,
        8 => 1 << 31,
        9 => old.wrapping_add(1),
        10 => old.wrapping_sub(1),
        11 => old.wrapping_mul(2),
        12 => old / 2,
        13 => old ^ (1 << rng.u32(0..63)),
        14 => rng.i64(..) >> rng.u32(24..63),
        _ => -old,
    }
}

/// Changes one node of a tree. Returns a description.
fn change(rng: &mut Rng, tree: &mut Node) -> String {
    let mut nodes = 0;
    tree.visit(&mut |_| nodes += 1);
    let chosen = rng.usize(0..nodes);
    let (mut at, mut what) = (0, String::new());
    tree.visit(&mut |node| {
        if at == chosen {
            what = format!("node {chosen}: {}", change_node(rng, node));
        }
        at += 1;
    });
    what
}

fn change_node(rng: &mut Rng, node: &mut Node) -> String {
    match node {
        Node::Bool(value) => {
            *value = !*value;
            format!("is {value}")
        }
        Node::Byte(byte) => {
            *byte = rng.u8(..);
            format!("is byte {byte}")
        }
        Node::Int(_, value) => {
            let old = *value;
            *value = hostile(rng, old);
            format!("{old} is {value}")
        }
        Node::Double(bytes) => {
            *bytes = rng.u64(..).to_le_bytes();
            "another double".into()
        }
        Node::Binary(bytes) => match rng.u32(0..4) {
            0 => {
                bytes.clear();
                "empty bytes".into()
            }
            1 => {
                bytes.truncate(bytes.len() / 2);
                "half of the bytes".into()
            }
            2 => {
                bytes.extend(std::iter::repeat_n(0xff, rng.usize(1..2000)));
                "more bytes".into()
            }
            _ => {
                bytes.iter_mut().for_each(|byte| *byte = rng.u8(..));
                "random bytes".into()
            }
        },
        Node::List(_, elements) if elements.is_empty() => "an empty list".into(),
        Node::List(_, elements) => {
            let chosen = rng.usize(0..elements.len());
            match rng.u32(0..4) {
                0 => {
                    elements.remove(chosen);
                    format!("without element {chosen}")
                }
                1 => {
                    elements.truncate(chosen);
                    format!("cut at element {chosen}")
                }
                2 => {
                    let other = rng.usize(0..elements.len());
                    elements.swap(chosen, other);
                    format!("elements {chosen} and {other} swapped")
                }
                _ => {
                    let copies = [1, 3, 1000][rng.usize(0..3)];
                    let copy = elements[chosen].clone();
                    elements.extend(std::iter::repeat_n(copy, copies));
                    format!("element {chosen} {copies} times more")
                }
            }
        }
        Node::Struct(fields) if fields.is_empty() => "an empty structure".into(),
        Node::Struct(fields) => {
            let chosen = rng.usize(0..fields.len());
            match rng.u32(0..3) {
                0 => format!("without field {}", fields.remove(chosen).0),
                1 => {
                    let (old, new) = (fields[chosen].0, rng.i16(1..20));
                    fields[chosen].0 = new;
                    format!("field {old} is field {new}")
                }
                _ => {
                    let copy = fields[chosen].clone();
                    fields.push(copy);
                    format!("field {} twice", fields[chosen].0)
                }
            }
        }
    }
}

fn footer_field(rng: &mut Rng, file: &[u8]) -> Mutated {
    let mut parts = Parts::new(file);
    let changes: Vec<String> = (0..rng.usize(1..3)).map(|_| change(rng, &mut parts.footer)).collect();
    Some((parts.bytes(), format!("footer: {}", changes.join("; "))))
}

/// Claims another number of rows in file, row group and column chunks, in all or some of them.
fn claimed_rows(rng: &mut Rng, file: &[u8]) -> Mutated {
    let mut parts = Parts::new(file);
    let rows = [1 << 44, i64::from(i32::MAX), 1 << 20, 3, i64::MAX, -1][rng.usize(0..6)];
    let (values_too, whole) = (rng.bool(), rng.bool());
    if whole {
        parts.footer.field_mut(NUM_ROWS)?.set_int(rows);
    }
    for group in parts.footer.field_mut(ROW_GROUPS)?.elements_mut() {
        group.field_mut(GROUP_ROWS)?.set_int(rows);
    }
    for chunk in parts.chunks() {
        if values_too {
            parts.chunk_mut(chunk).field_mut(META_DATA)?.field_mut(NUM_VALUES)?.set_int(rows);
        }
        if rng.bool() {
            without_page_index(parts.chunk_mut(chunk));
        }
    }
    Some((parts.bytes(), format!("{rows} rows claimed, values too: {values_too}")))
}

fn without_page_index(chunk: &mut Node) {
    if let Node::Struct(fields) = chunk {
        fields.retain(|(id, _)| !(OFFSET_INDEX_OFFSET..=COLUMN_INDEX_LENGTH).contains(id));
    }
}

/// Changes a page header. Adjusts the footer to moved data, and mostly removes the page index.
fn page_header(rng: &mut Rng, file: &[u8]) -> Mutated {
    let mut parts = Parts::new(file);
    let chunks = parts.chunks();
    let chunk = chunks[rng.usize(0..chunks.len())];
    let (start, end) = parts.pages(chunk)?;
    let mut headers = Vec::new();
    let mut at = start;
    while at < end {
        let (header, len) = Node::read(&parts.data[at..end])?;
        let page = header.field(COMPRESSED_PAGE_SIZE)?.int()? as usize;
        headers.push((at, len, header));
        at += len + page;
    }
    let page = rng.usize(0..headers.len());
    let (at, len, mut header) = headers.swap_remove(page);
    let what = change(rng, &mut header);
    let bytes = header.bytes();
    let moved = bytes.len() as i64 - len as i64;
    parts.data.splice(at..at + len, bytes);
    let index_goes = rng.u8(0..4) > 0;
    for other in chunks {
        let own = other == chunk;
        let node = parts.chunk_mut(other);
        if index_goes {
            without_page_index(node);
        }
        let after = |node: Option<&mut Node>| {
            if let Some(node) = node
                && let Some(offset) = node.int().filter(|offset| *offset > at as i64)
            {
                node.set_int(offset + moved);
            }
        };
        after(node.field_mut(OFFSET_INDEX_OFFSET));
        after(node.field_mut(COLUMN_INDEX_OFFSET));
        let meta = node.field_mut(META_DATA)?;
        for field in [DATA_PAGE_OFFSET, DICTIONARY_PAGE_OFFSET, BLOOM_FILTER_OFFSET] {
            after(meta.field_mut(field));
        }
        if own && let Some(size) = meta.field_mut(TOTAL_COMPRESSED_SIZE) {
            size.set_int(size.int()? + moved);
        }
    }
    Some((parts.bytes(), format!("header of page {page} of chunk {chunk:?}: {what}")))
}

/// Changes the offset index, the column index or the bloom filter's header, and moves them behind the data.
fn page_index(rng: &mut Rng, file: &[u8]) -> Mutated {
    let mut parts = Parts::new(file);
    let chunks = parts.chunks();
    let chunk = chunks[rng.usize(0..chunks.len())];
    let (name, field) = [
        ("offset index", Some((OFFSET_INDEX_OFFSET, OFFSET_INDEX_LENGTH))),
        ("column index", Some((COLUMN_INDEX_OFFSET, COLUMN_INDEX_LENGTH))),
        ("bloom filter", None),
    ][rng.usize(0..3)];
    let at = match field {
        Some((offset, _)) => parts.int(chunk, offset)?,
        None => parts.meta_int(chunk, BLOOM_FILTER_OFFSET)?,
    } as usize;
    let (mut node, len) = Node::read(&parts.data[at..])?;
    let what = change(rng, &mut node);
    let bytes = node.bytes();
    let new = parts.data.len() as i64;
    parts.data.extend(&bytes);
    match field {
        Some((offset, length)) => {
            parts.chunk_mut(chunk).field_mut(offset)?.set_int(new);
            parts.chunk_mut(chunk).field_mut(length)?.set_int(bytes.len() as i64);
        }
        None => {
            let rest = parts.data[at + len..(at + len + 4096).min(new as usize)].to_vec();
            parts.data.extend(rest);
            parts.chunk_mut(chunk).field_mut(META_DATA)?.field_mut(BLOOM_FILTER_OFFSET)?.set_int(new);
        }
    }
    Some((parts.bytes(), format!("{name} of chunk {chunk:?}: {what}")))
}

/// Writes wrong statistics of one column chunk.
fn lying_statistics(rng: &mut Rng, file: &[u8]) -> Mutated {
    let mut parts = Parts::new(file);
    let chunks = parts.chunks();
    let chunk = chunks[rng.usize(0..chunks.len())];
    let meta = parts.chunk_mut(chunk).field_mut(META_DATA)?;
    let what = change(rng, meta.field_mut(STATISTICS)?);
    Some((parts.bytes(), format!("statistics of chunk {chunk:?}: {what}")))
}

/// Swaps the pages of two column chunks, or changes the codec of one.
fn swapped_chunks(rng: &mut Rng, file: &[u8]) -> Mutated {
    let mut parts = Parts::new(file);
    let chunks = parts.chunks();
    let (a, b) = (chunks[rng.usize(0..chunks.len())], chunks[rng.usize(0..chunks.len())]);
    if rng.u8(0..4) == 0 {
        let codec = rng.i64(0..9);
        parts.chunk_mut(a).field_mut(META_DATA)?.field_mut(CODEC)?.set_int(codec);
        return Some((parts.bytes(), format!("codec of chunk {a:?} is {codec}")));
    }
    for field in [DATA_PAGE_OFFSET, DICTIONARY_PAGE_OFFSET, TOTAL_COMPRESSED_SIZE] {
        if let (Some(of_a), Some(of_b)) = (parts.meta_int(a, field), parts.meta_int(b, field)) {
            parts.chunk_mut(a).field_mut(META_DATA)?.field_mut(field)?.set_int(of_b);
            parts.chunk_mut(b).field_mut(META_DATA)?.field_mut(field)?.set_int(of_a);
        }
    }
    if rng.bool() {
        without_page_index(parts.chunk_mut(a));
        without_page_index(parts.chunk_mut(b));
    }
    Some((parts.bytes(), format!("chunks {a:?} and {b:?} have each other's pages")))
}

/// Changes bytes of pages (levels, dictionaries, lengths of strings).
fn payload(rng: &mut Rng, file: &[u8]) -> Mutated {
    let mut parts = Parts::new(file);
    let chunks = parts.chunks();
    let chunk = chunks[rng.usize(0..chunks.len())];
    let (start, end) = parts.pages(chunk)?;
    let mut at = start;
    let mut pages = Vec::new();
    while at < end {
        let (header, len) = Node::read(&parts.data[at..end])?;
        let page = header.field(COMPRESSED_PAGE_SIZE)?.int()? as usize;
        if page > 0 {
            pages.push((at + len, page));
        }
        at += len + page;
    }
    if pages.is_empty() {
        return None;
    }
    let (page, len) = pages[rng.usize(0..pages.len())];
    // The first bytes matter most: lengths of levels, bit widths, block headers.
    let at = page + if rng.bool() { rng.usize(0..len.min(12)) } else { rng.usize(0..len) };
    let run = rng.usize(1..9).min(page + len - at);
    let fill = [0x00, 0xff, 0x7f, 0x80][rng.usize(0..4)];
    let random = rng.bool();
    for byte in &mut parts.data[at..at + run] {
        *byte = if random { rng.u8(..) } else { fill };
    }
    Some((parts.bytes(), format!("{run} bytes at {at}, {} into a page of chunk {chunk:?}", at - page)))
}

/// Flips some bits anywhere.
fn bits(rng: &mut Rng, file: &[u8]) -> Mutated {
    let mut bytes = file.to_vec();
    let places: Vec<usize> = (0..rng.usize(1..9)).map(|_| rng.usize(0..bytes.len())).collect();
    for at in &places {
        bytes[*at] ^= 1 << rng.u32(0..8);
    }
    Some((bytes, format!("bits flipped at {places:?}")))
}

/// Removes the end, or a piece from the middle.
fn truncated(rng: &mut Rng, file: &[u8]) -> Mutated {
    let (a, b) = (rng.usize(0..file.len()), rng.usize(0..file.len()));
    if rng.bool() {
        return Some((file[..a].to_vec(), format!("cut to {a} of {} bytes", file.len())));
    }
    let (a, b) = (a.min(b), a.max(b).min(a.min(b) + 3000));
    let bytes = [&file[..a], &file[b..]].concat();
    Some((bytes, format!("without bytes {a}..{b} of {}", file.len())))
}
