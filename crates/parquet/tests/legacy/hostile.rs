//! Bytes that are not footers: the result is an error or metadata, without a panic, and with no more memory
//! than the bytes warrant.

use std::panic::catch_unwind;

use coscan_parquet::read_footer;
use fastrand::Rng;
use parquet::errors::ParquetError;

use crate::{cases, footer};

/// A file that consists of a footer only.
fn file(footer: &[u8]) -> Vec<u8> {
    let mut bytes = b"PAR1".to_vec();
    bytes.extend_from_slice(footer);
    bytes.extend_from_slice(&(footer.len() as u32).to_le_bytes());
    bytes.extend_from_slice(b"PAR1");
    bytes
}

/// Checks that the reader returns, whatever the bytes are.
fn survives(bytes: &[u8], seed: u64) {
    let read = catch_unwind(|| footer(bytes).map(|metadata| metadata.num_row_groups()));
    assert!(read.is_ok(), "seed {seed} panics");
}

#[test]
fn random_bytes_are_errors() {
    for seed in 0..3000 {
        let mut random = Rng::with_seed(seed);
        let bytes: Vec<u8> = (0..random.usize(0..200)).map(|_| random.u8(..)).collect();
        survives(&file(&bytes), seed);
        survives(&bytes, seed);
    }
}

/// Footers with some bytes changed, left out or doubled, of all cases.
#[test]
fn changed_footers_are_errors_or_metadata() {
    let cases = cases::all();
    for seed in 0..3000 {
        let mut random = Rng::with_seed(seed);
        let case = &cases[random.usize(0..cases.len())];
        let end = case.bytes.len() - 8;
        let length = u32::from_le_bytes(case.bytes[end..end + 4].try_into().unwrap()) as usize;
        let mut footer = case.bytes[end - length..end].to_vec();
        for _ in 0..random.usize(1..5) {
            let at = random.usize(0..footer.len());
            match random.u8(0..4) {
                0 => footer[at] = random.u8(..),
                1 => footer[at] ^= 1 << random.u8(0..8),
                2 => drop(footer.remove(at)),
                _ => footer.insert(at, random.choice([0, 1, 0x19, 0x1c, 0xf9, 0x7f, 0xff]).unwrap()),
            }
            if footer.is_empty() {
                break;
            }
        }
        let mut bytes = case.bytes[..end - length].to_vec();
        bytes.extend_from_slice(&footer);
        bytes.extend_from_slice(&(footer.len() as u32).to_le_bytes());
        bytes.extend_from_slice(b"PAR1");
        survives(&bytes, seed);
    }
}

/// A group in a group in a group: readers that visit schemas recursively have no stack for it.
#[test]
fn deep_schemas_are_errors() {
    let mut bytes = vec![0x15, 0x02, 0x19, 0xfc];
    let depth = 200_000u32;
    for shift in [0, 7, 14] {
        bytes.push((depth >> shift) as u8 & 0x7f | if shift < 14 { 0x80 } else { 0 });
    }
    for _ in 0..depth {
        // Required, named g, one child.
        bytes.extend_from_slice(&[0x35, 0x00, 0x18, 0x01, b'g', 0x15, 0x02, 0x00]);
    }
    bytes.extend_from_slice(&[0x16, 0x00, 0x19, 0x0c, 0x00]);
    let error = footer(&file(&bytes)).expect_err("too deep").to_string();
    assert!(error.contains("nested in more than"), "{error}");
}

/// Lists that state billions of elements.
#[test]
fn long_lists_are_errors() {
    let groups = [
        0x15, 0x02, 0x19, 0x1c, 0x48, 0x01, b'r', 0x00, 0x16, 0x00, 0x19, 0xfc, 0xff, 0xff, 0xff, 0xff, 0x07,
    ];
    assert!(footer(&file(&groups)).is_err());
    let elements = [0x15, 0x02, 0x19, 0xfc, 0xff, 0xff, 0xff, 0xff, 0x07, 0x48, 0x01, b'r', 0x00];
    assert!(footer(&file(&elements)).is_err());
}

#[test]
fn ranges_lie_within_the_file() {
    for seed in 0..500 {
        let mut random = Rng::with_seed(seed);
        let mut tail = vec![0; random.usize(8..100)];
        let at = tail.len();
        tail[at - 4..].copy_from_slice(b"PAR1");
        tail[at - 8..at - 4].copy_from_slice(&random.u32(..).to_le_bytes());
        let size = tail.len() as u64;
        let _ = read_footer(size, |range| {
            assert!(range.start <= range.end && range.end <= size, "seed {seed}: {range:?}");
            tail.get(range.start as usize..range.end as usize)
                .map(bytes::Bytes::copy_from_slice)
                .ok_or_else(|| ParquetError::EOF("beyond".into()))
        });
    }
}
