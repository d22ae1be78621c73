//! Structures of Thrift's compact protocol as trees that can be changed and written again. Knows no schema;
//! the mutator knows the fields.

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub enum Node {
    Bool(bool),
    Byte(u8),
    /// With its type: 16, 32 or 64 bits.
    Int(u8, i64),
    Double([u8; 8]),
    Binary(Vec<u8>),
    /// With the type of its elements.
    List(u8, Vec<Node>),
    Struct(Vec<(i16, Node)>),
}

const TRUE: u8 = 1;
const FALSE: u8 = 2;
const BYTE: u8 = 3;
const I16: u8 = 4;
const I64: u8 = 6;
const DOUBLE: u8 = 7;
const BINARY: u8 = 8;
const LIST: u8 = 9;
const SET: u8 = 10;
const STRUCT: u8 = 12;

impl Node {
    /// Reads the structure at the beginning of `bytes`. Returns it and its length.
    pub fn read(bytes: &[u8]) -> Option<(Node, usize)> {
        let mut input = Input { bytes, at: 0 };
        let node = input.structure()?;
        Some((node, input.at))
    }

    /// Returns the structure as bytes.
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        write(self, &mut bytes);
        bytes
    }

    /// Returns a field of a structure.
    pub fn field(&self, id: i16) -> Option<&Node> {
        let Node::Struct(fields) = self else { return None };
        fields.iter().find(|(known, _)| *known == id).map(|(_, node)| node)
    }

    pub fn field_mut(&mut self, id: i16) -> Option<&mut Node> {
        let Node::Struct(fields) = self else { return None };
        fields.iter_mut().find(|(known, _)| *known == id).map(|(_, node)| node)
    }

    pub fn elements(&self) -> &[Node] {
        match self {
            Node::List(_, elements) => elements,
            _ => &[],
        }
    }

    pub fn elements_mut(&mut self) -> &mut [Node] {
        match self {
            Node::List(_, elements) => elements,
            _ => &mut [],
        }
    }

    pub fn int(&self) -> Option<i64> {
        match self {
            Node::Int(_, value) => Some(*value),
            _ => None,
        }
    }

    pub fn set_int(&mut self, value: i64) {
        if let Node::Int(_, old) = self {
            *old = value;
        }
    }

    /// Visits this node and all nodes below.
    pub fn visit(&mut self, f: &mut impl FnMut(&mut Node)) {
        f(self);
        match self {
            Node::List(_, elements) => elements.iter_mut().for_each(|node| node.visit(f)),
            Node::Struct(fields) => fields.iter_mut().for_each(|(_, node)| node.visit(f)),
            _ => {}
        }
    }

    fn kind(&self) -> u8 {
        match self {
            Node::Bool(true) => TRUE,
            Node::Bool(false) => FALSE,
            Node::Byte(_) => BYTE,
            Node::Int(kind, _) => *kind,
            Node::Double(_) => DOUBLE,
            Node::Binary(_) => BINARY,
            Node::List(..) => LIST,
            Node::Struct(_) => STRUCT,
        }
    }
}

struct Input<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Input<'_> {
    fn take(&mut self, len: usize) -> Option<&[u8]> {
        let taken = self.bytes.get(self.at..self.at.checked_add(len)?)?;
        self.at += len;
        Some(taken)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take(1).map(|bytes| bytes[0])
    }

    fn varint(&mut self) -> Option<u64> {
        let (mut value, mut shift) = (0, 0);
        loop {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f).checked_shl(shift)?;
            if byte & 0x80 == 0 {
                return Some(value);
            }
            shift += 7;
        }
    }

    fn zigzag(&mut self) -> Option<i64> {
        let value = self.varint()?;
        Some((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    fn structure(&mut self) -> Option<Node> {
        let (mut fields, mut last) = (Vec::new(), 0i16);
        loop {
            let head = self.byte()?;
            if head & 0x0f == 0 {
                return Some(Node::Struct(fields));
            }
            last = match head >> 4 {
                0 => self.zigzag()? as i16,
                delta => last + i16::from(delta),
            };
            let node = self.value(head & 0x0f, false)?;
            fields.push((last, node));
        }
    }

    fn value(&mut self, kind: u8, in_list: bool) -> Option<Node> {
        Some(match kind {
            TRUE | FALSE if in_list => Node::Bool(self.byte()? == TRUE),
            TRUE | FALSE => Node::Bool(kind == TRUE),
            BYTE => Node::Byte(self.byte()?),
            I16..=I64 => Node::Int(kind, self.zigzag()?),
            DOUBLE => Node::Double(self.take(8)?.try_into().ok()?),
            BINARY => {
                let len = self.varint()? as usize;
                Node::Binary(self.take(len)?.to_vec())
            }
            LIST | SET => {
                let head = self.byte()?;
                let len = if head >> 4 == 15 { self.varint()? } else { u64::from(head >> 4) };
                let element = |_| self.value(head & 0x0f, true);
                Node::List(head & 0x0f, (0..len).map(element).collect::<Option<_>>()?)
            }
            STRUCT => self.structure()?,
            _ => return None,
        })
    }
}

fn varint(mut value: u64, bytes: &mut Vec<u8>) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

fn zigzag(value: i64, bytes: &mut Vec<u8>) {
    varint(((value << 1) ^ (value >> 63)) as u64, bytes);
}

fn write(node: &Node, bytes: &mut Vec<u8>) {
    match node {
        Node::Bool(_) => {}
        Node::Byte(byte) => bytes.push(*byte),
        Node::Int(_, value) => zigzag(*value, bytes),
        Node::Double(value) => bytes.extend(value),
        Node::Binary(value) => {
            varint(value.len() as u64, bytes);
            bytes.extend(value);
        }
        Node::List(kind, elements) => {
            if elements.len() < 15 {
                bytes.push((elements.len() as u8) << 4 | kind);
            } else {
                bytes.push(0xf0 | kind);
                varint(elements.len() as u64, bytes);
            }
            for element in elements {
                match element {
                    Node::Bool(value) => bytes.push(if *value { TRUE } else { FALSE }),
                    other => write(other, bytes),
                }
            }
        }
        Node::Struct(fields) => {
            let mut last = 0i16;
            for (id, field) in fields {
                let delta = id.wrapping_sub(last);
                if (1..=15).contains(&delta) {
                    bytes.push((delta as u8) << 4 | field.kind());
                } else {
                    bytes.push(field.kind());
                    zigzag(i64::from(*id), bytes);
                }
                last = *id;
                write(field, bytes);
            }
            bytes.push(0);
        }
    }
}
