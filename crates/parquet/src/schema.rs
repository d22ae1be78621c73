//! Schemas of footers as trees, and changes to schemas that Arrow's readers refuse.
//!
//! A change keeps the leaves, their order and their levels, so the pages are read as before the change.
//! Groups that are repeated lists or maps become lists of them. Groups that are falsely annotated as maps
//! become lists or structures. Groups without children are removed. Annotations that are unknown or do not
//! fit a type are removed.

use parquet::file::metadata::ParquetMetaDataReader;

use crate::thrift::{Input, put_binary, put_field, put_int, put_list, wire};

/// The maximum nesting of schemas. Deeper ones are refused, because readers visit them recursively.
pub(crate) const DEPTH_MAX: usize = 200;

const REQUIRED: i64 = 0;
const REPEATED: i64 = 2;

/// Annotations of groups: converted types, and the logical type of the same meaning.
const MAP: (i64, i16) = (1, 2);
const MAP_KEY_VALUE: i64 = 2;
const LIST: (i64, i16) = (3, 3);

const DECIMAL: (i64, i16) = (5, 5);
/// The type of columns that contain only nulls.
const NOTHING: i16 = 11;
/// The same type as a converted type, which one version of Arrow's C++ writer used.
const OLD_NOTHING: i64 = 24;
const CONVERTED_MAX: i64 = 21;

const INTERVAL: i64 = 21;

const INT32: i64 = 1;

/// The last logical type that the decoder knows (`GEOGRAPHY`). The decoder reads later ones, and Arrow's
/// readers refuse them.
const LOGICAL_MAX: i16 = 18;

/// A column, or a group of them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Element<'a> {
    physical: Option<i64>,
    length: Option<i64>,
    repetition: Option<i64>,
    name: &'a [u8],
    converted: Option<i64>,
    scale: Option<i64>,
    precision: Option<i64>,
    id: Option<i64>,
    /// The number of the logical type and its value, a structure.
    logical: Option<(i16, &'a [u8])>,
    children: Vec<Element<'a>>,
}

/// The reason why a schema cannot be made into a tree.
#[derive(Debug, PartialEq)]
pub(crate) enum Bad {
    Malformed,
    TooDeep,
}

impl<'a> Element<'a> {
    /// The root of the schema in a list of `count` elements.
    pub(crate) fn read(input: &mut Input<'a>, mut count: usize) -> Result<Element<'a>, Bad> {
        let root = Element::tree(input, &mut count, 0)?;
        if count > 0 { Err(Bad::Malformed) } else { Ok(root) }
    }

    fn tree(input: &mut Input<'a>, left: &mut usize, depth: usize) -> Result<Element<'a>, Bad> {
        if depth > DEPTH_MAX {
            return Err(Bad::TooDeep);
        }
        *left = left.checked_sub(1).ok_or(Bad::Malformed)?;
        let (mut element, children) = Element::one(input).ok_or(Bad::Malformed)?;
        // Each child has its own element, so a number that is too large ends with an error before it takes
        // memory.
        for _ in 0..children {
            element.children.push(Element::tree(input, left, depth + 1)?);
        }
        Ok(element)
    }

    /// An element, and its stated number of children.
    fn one(input: &mut Input<'a>) -> Option<(Element<'a>, i64)> {
        let (mut element, mut children, mut last) = (Element::default(), 0, 0);
        while let Some((id, kind)) = input.field(last)? {
            last = id;
            let is_int = (wire::I16..=wire::I64).contains(&kind);
            match id {
                4 if kind == wire::BINARY => element.name = input.binary()?,
                10 if kind == wire::STRUCT => element.logical = logical(input)?,
                1..=3 | 5..=9 if is_int => {
                    let value = Some(input.int()?);
                    match id {
                        1 => element.physical = value,
                        2 => element.length = value,
                        3 => element.repetition = value,
                        5 => children = value?,
                        6 => element.converted = value,
                        7 => element.scale = value,
                        8 => element.precision = value,
                        _ => element.id = value,
                    }
                }
                _ => drop(input.skip(kind)?),
            }
        }
        Some((element, children))
    }

    fn is_group(&self) -> bool {
        !self.children.is_empty() || self.physical.is_none()
    }

    fn is_repeated(&self) -> bool {
        self.repetition == Some(REPEATED)
    }

    fn is_annotated(&self, (converted, logical): (i64, i16)) -> bool {
        match self.logical {
            Some((found, _)) => found == logical,
            None => self.converted == Some(converted),
        }
    }

    fn is_list(&self) -> bool {
        self.is_annotated(LIST)
    }

    fn is_map(&self) -> bool {
        self.is_annotated(MAP) || self.converted == Some(MAP_KEY_VALUE)
    }

    fn annotate(&mut self, (converted, logical): (i64, i16)) {
        self.converted = Some(converted);
        self.logical = Some((logical, &[0]));
    }

    fn strip(&mut self) {
        (self.converted, self.logical) = (None, None);
    }

    /// The only child, if it is repeated.
    fn repeated_child(&self) -> Option<&Element<'a>> {
        self.children.first().filter(|child| self.children.len() == 1 && child.is_repeated())
    }

    /// Returns whether a group that is annotated as a map is one that readers understand.
    fn is_sound_map(&self) -> bool {
        self.repeated_child().is_some_and(|entry| {
            matches!(entry.children.len(), 1 | 2) && !entry.children.iter().any(Element::is_repeated)
        })
    }

    /// Returns whether Arrow's readers refuse the schema, or misread it, though Parquet's metadata can be
    /// decoded.
    pub(crate) fn is_odd(&self) -> bool {
        self.children.iter().any(|child| child.is_odd_group(false))
    }

    fn has_unknown_type(&self) -> bool {
        self.logical.is_some_and(|(number, _)| number > LOGICAL_MAX)
    }

    /// `is_entry`: the group is the entry of a map.
    fn is_odd_group(&self, is_entry: bool) -> bool {
        if !self.is_group() {
            return self.has_unknown_type();
        }
        let (list, map) = (self.is_list(), self.is_map() && !is_entry);
        self.children.is_empty()
            || (list || map) && self.is_repeated()
            || list && self.repeated_child().is_none()
            || map && !self.is_sound_map()
            || self.children.iter().any(|child| child.is_odd_group(map))
    }

    /// Returns whether a column is an interval.
    pub(crate) fn has_interval(&self) -> bool {
        self.is_interval() || self.children.iter().any(Element::has_interval)
    }

    fn is_interval(&self) -> bool {
        self.converted == Some(INTERVAL) && !self.is_group()
    }

    /// Removes the annotation of intervals. Returns the positions of these columns among all columns.
    pub(crate) fn take_intervals(&mut self) -> Vec<usize> {
        let (mut leaf, mut intervals) = (0, Vec::new());
        self.take_intervals_below(&mut leaf, &mut intervals);
        intervals
    }

    fn take_intervals_below(&mut self, leaf: &mut usize, intervals: &mut Vec<usize>) {
        for child in &mut self.children {
            if child.is_group() {
                child.take_intervals_below(leaf, intervals);
                continue;
            }
            if child.is_interval() {
                child.converted = None;
                intervals.push(*leaf);
            }
            *leaf += 1;
        }
    }

    /// The schema in the form that readers understand.
    pub(crate) fn repaired(mut self) -> Element<'a> {
        self.repair_below(Place::Elsewhere);
        self
    }

    fn repair_below(&mut self, place: Place) {
        let below = match () {
            () if place != Place::Entry && self.is_map() => Place::Entry,
            () if self.is_list() => Place::ListItem,
            () => Place::Elsewhere,
        };
        for child in &mut self.children {
            match child.is_group() {
                true => child.repair_below(below),
                false => child.mend_column(),
            }
        }
        self.children.retain(|child| !child.is_group() || !child.children.is_empty());
        for child in &mut self.children {
            child.mend_group(below);
        }
    }

    /// Repairs a group, whose children are repaired, at its place in the parent group.
    fn mend_group(&mut self, place: Place) {
        if self.repetition.is_none() {
            self.repetition = Some(REQUIRED);
        }
        if !self.is_group() {
            return;
        }
        if place == Place::Entry {
            // The annotation of an entry has no meaning. Its key and value are lists only if they are
            // annotated so.
            self.strip();
            self.children.iter_mut().filter(|child| child.is_repeated()).for_each(Element::wrap_as_list);
            return;
        }
        if self.is_map() && !self.is_sound_map() {
            match self.repeated_child() {
                Some(_) => self.annotate(LIST),
                None => self.strip(),
            }
        }
        if self.is_list() && self.repeated_child().is_none() {
            self.strip();
        }
        if !self.is_list() && !self.is_map() {
            self.strip();
        } else if self.is_repeated() {
            match place {
                Place::ListItem => self.wrap_as_item(),
                _ => self.wrap_as_list(),
            }
        }
    }

    /// `repeated x (MAP)` becomes `repeated list { required x (MAP) }`: within a list, it was the list's
    /// item.
    fn wrap_as_item(&mut self) {
        let mut item = std::mem::take(self);
        item.repetition = Some(REQUIRED);
        *self =
            Element { repetition: Some(REPEATED), name: b"list", children: vec![item], ..Element::default() };
    }

    /// `repeated x` becomes `required x (LIST) { repeated list { required x } }`.
    fn wrap_as_list(&mut self) {
        let name = self.name;
        self.wrap_as_item();
        let list = std::mem::take(self);
        *self = Element { repetition: Some(REQUIRED), name, children: vec![list], ..Element::default() };
        self.annotate(LIST);
    }

    /// Removes annotations that do not fit a column's type.
    fn mend_column(&mut self) {
        if self.repetition.is_none() {
            self.repetition = Some(REQUIRED);
        }
        if self.converted == Some(OLD_NOTHING) && self.physical == Some(INT32) && self.logical.is_none() {
            self.logical = Some((NOTHING, &[0]));
        }
        if self.converted.is_some_and(|converted| !(0..=CONVERTED_MAX).contains(&converted)) {
            self.converted = None;
        }
        if self.is_annotated(DECIMAL) {
            self.mend_decimal();
        }
        // Only for this type readers know the meaning of the annotation.
        if matches!(self.logical, Some((NOTHING, _)))
            && (self.converted.is_some() || self.physical != Some(INT32))
        {
            self.logical = None;
        }
        let (converted, logical) = (self.converted, self.logical);
        let simpler = [(converted, logical), (None, logical), (converted, None), (None, None)];
        for (converted, logical) in simpler {
            (self.converted, self.logical) = (converted, logical);
            if self.is_accepted() {
                return;
            }
        }
    }

    /// A decimal without a scale has scale 0. The logical type is replaced by the older fields, which cannot
    /// differ from it.
    fn mend_decimal(&mut self) {
        if let Some((_, value)) = self.logical.take() {
            let (scale, precision) = decimal(value).unwrap_or_default();
            self.scale = scale.or(self.scale);
            self.precision = precision.or(self.precision);
        }
        self.converted = Some(DECIMAL.0);
        self.scale = Some(self.scale.unwrap_or(0));
    }

    /// Returns whether readers accept a schema of this column alone.
    fn is_accepted(&self) -> bool {
        if self.has_unknown_type() {
            return false;
        }
        let root = Element { name: b"root", children: vec![self.clone()], ..Element::default() };
        let mut bytes = Vec::new();
        put_field(0, 2, wire::LIST, &mut bytes);
        root.write_list(&mut bytes);
        bytes.push(0);
        ParquetMetaDataReader::decode_schema(&bytes).is_ok()
    }

    /// Writes the list of elements.
    pub(crate) fn write_list(&self, out: &mut Vec<u8>) {
        put_list(wire::STRUCT, self.count(), out);
        self.write(out);
    }

    fn count(&self) -> usize {
        1 + self.children.iter().map(Element::count).sum::<usize>()
    }

    fn write(&self, out: &mut Vec<u8>) {
        let children = self.is_group().then_some(self.children.len() as i64);
        let mut last = 0;
        let physical = self.physical.filter(|_| self.children.is_empty());
        put_ints(&[(1, physical), (2, self.length), (3, self.repetition)], &mut last, out);
        put_field(last, 4, wire::BINARY, out);
        put_binary(String::from_utf8_lossy(self.name).as_bytes(), out);
        last = 4;
        let rest = [(5, children), (6, self.converted), (7, self.scale), (8, self.precision), (9, self.id)];
        put_ints(&rest, &mut last, out);
        if let Some((number, value)) = self.logical {
            put_field(last, 10, wire::STRUCT, out);
            put_field(0, number, wire::STRUCT, out);
            out.extend_from_slice(value);
            out.push(0);
        }
        out.push(0);
        self.children.iter().for_each(|child| child.write(out));
    }
}

fn put_ints(fields: &[(i16, Option<i64>)], last: &mut i16, out: &mut Vec<u8>) {
    for (id, value) in fields.iter().filter_map(|(id, value)| Some((*id, (*value)?))) {
        put_field(*last, id, wire::I32, out);
        put_int(value, out);
        *last = id;
    }
}

/// The position of a group.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    /// The child of a list.
    ListItem,
    /// The child of a map.
    Entry,
    Elsewhere,
}

/// The first type that a union of logical types names; `Some(None)` if it names none.
fn logical<'a>(input: &mut Input<'a>) -> Option<Option<(i16, &'a [u8])>> {
    let (mut found, mut last) = (None, 0);
    while let Some((id, kind)) = input.field(last)? {
        last = id;
        let value = input.skip(kind)?;
        if kind == wire::STRUCT && found.is_none() {
            found = Some((id, value));
        }
    }
    Some(found)
}

/// Scale and precision of a decimal.
fn decimal(value: &[u8]) -> Option<(Option<i64>, Option<i64>)> {
    let mut input = Input::new(value);
    let (mut scale, mut precision, mut last) = (None, None, 0);
    while let Some((id, kind)) = input.field(last)? {
        last = id;
        match (id, kind) {
            (1, wire::I16..=wire::I64) => scale = Some(input.int()?),
            (2, wire::I16..=wire::I64) => precision = Some(input.int()?),
            _ => drop(input.skip(kind)?),
        }
    }
    Some((scale, precision))
}
