//! The relations of the Wisconsin benchmark (Bitton, DeWitt & Turbyfill, VLDB 1983), with tuples of 182 bytes: 13
//! integers of two bytes and three strings of 52.
//!
//! This module only makes tuples; [`database`](crate::database) stores them.

use fastrand::Rng;

/// The bytes of a tuple.
pub const TUPLE_BYTES: usize = 13 * 2 + 3 * STRING_BYTES;

const STRING_BYTES: usize = 52;
const STRINGS_AT: usize = 13 * 2;

/// The maximum number of tuples of a relation: its keys are signed 16-bit integers.
pub const TUPLES_MAX: u16 = i16::MAX as u16;

/// An integer attribute. `Unique1` and `Unique2` are independent permutations of `0..tuples`; the others are derived
/// from `Unique1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
#[allow(missing_docs, reason = "the names are those of the benchmark")]
pub enum Attribute {
    Unique1,
    Unique2,
    Two,
    Four,
    Ten,
    Twenty,
    Hundred,
    Thousand,
    TwoThousand,
    FiveThousand,
    TenThousand,
    Odd100,
    Even100,
}

/// A tuple in its stored form.
pub type Tuple = [u8; TUPLE_BYTES];

impl Attribute {
    /// The attribute's value in a tuple, or in a record that begins with one. `None` if the record is too
    /// short.
    pub fn of(self, record: &[u8]) -> Option<i16> {
        let at = self as usize * 2;
        Some(i16::from_le_bytes([*record.get(at)?, *record.get(at + 1)?]))
    }
}

/// A relation of `tuples` tuples, at most [`TUPLES_MAX`], in an order that is independent of its keys.
pub fn generate(tuples: u16, seed: u64) -> Vec<Tuple> {
    let mut rng = Rng::with_seed(seed);
    let mut permutation = || {
        let mut keys: Vec<i16> = (0..tuples.min(TUPLES_MAX) as i16).collect();
        rng.shuffle(&mut keys);
        keys
    };
    let (unique1, unique2) = (permutation(), permutation());
    unique1.iter().zip(unique2).enumerate().map(|(n, (&u1, u2))| tuple(n, u1, u2)).collect()
}

fn tuple(number: usize, unique1: i16, unique2: i16) -> Tuple {
    let of_100 = unique1 % 100;
    let integers = [
        unique1,
        unique2,
        unique1 % 2,
        unique1 % 4,
        unique1 % 10,
        unique1 % 20,
        of_100,
        unique1 % 1000,
        unique1 % 2000,
        unique1 % 5000,
        unique1 % 10_000,
        of_100 * 2 + 1,
        of_100 * 2,
    ];
    let mut tuple = [b'x'; TUPLE_BYTES];
    for (place, integer) in tuple.chunks_exact_mut(2).zip(integers) {
        place.copy_from_slice(&integer.to_le_bytes());
    }
    let cycle = [b'A', b'H', b'O', b'V'][number % 4];
    let heads = [letters(unique1), letters(unique2), [cycle; 7]];
    for (string, head) in tuple[STRINGS_AT..].chunks_exact_mut(STRING_BYTES).zip(heads) {
        string[..head.len()].copy_from_slice(&head);
    }
    tuple
}

/// A key as seven letters, different for different keys.
fn letters(key: i16) -> [u8; 7] {
    let mut letters = [b'A'; 7];
    let mut rest = key.unsigned_abs();
    for letter in letters.iter_mut().rev() {
        *letter += (rest % 26) as u8;
        rest /= 26;
    }
    letters
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn values(relation: &[Tuple], attribute: Attribute) -> Vec<i16> {
        relation.iter().map(|t| attribute.of(t).unwrap()).collect()
    }

    #[test]
    fn keys_are_permutations_of_their_own() {
        let relation = generate(1000, 7);
        let (u1, u2) = (values(&relation, Attribute::Unique1), values(&relation, Attribute::Unique2));
        for keys in [&u1, &u2] {
            assert!(keys.iter().copied().collect::<BTreeSet<_>>().into_iter().eq(0..1000));
            assert!(!keys.is_sorted());
        }
        // Independent: about one key in a thousand is equal on both sides, and the orders are uncorrelated.
        assert!(u1.iter().zip(&u2).filter(|(a, b)| a == b).count() < 10);
        let product: f64 = u1.iter().zip(&u2).map(|(&a, &b)| (a as f64 - 499.5) * (b as f64 - 499.5)).sum();
        assert!(product.abs() / (1000.0 * 83_333.0) < 0.15, "correlated");
    }

    #[test]
    fn the_other_attributes() {
        let relation = generate(10_000, 1);
        for (attribute, distinct) in [
            (Attribute::Two, 2),
            (Attribute::Four, 4),
            (Attribute::Ten, 10),
            (Attribute::Twenty, 20),
            (Attribute::Hundred, 100),
            (Attribute::Thousand, 1000),
            (Attribute::TwoThousand, 2000),
            (Attribute::FiveThousand, 5000),
            (Attribute::TenThousand, 10_000),
            (Attribute::Odd100, 100),
            (Attribute::Even100, 100),
        ] {
            let found: BTreeSet<i16> = values(&relation, attribute).into_iter().collect();
            assert_eq!(found.len(), distinct, "{attribute:?}");
        }
        assert!(values(&relation, Attribute::Odd100).iter().all(|v| v % 2 == 1));
        assert!(values(&relation, Attribute::Even100).iter().all(|v| v % 2 == 0));
    }

    #[test]
    fn strings_follow_the_keys() {
        let relation = generate(10_000, 1);
        let first: BTreeSet<&[u8]> = relation.iter().map(|t| &t[26..26 + 52]).collect();
        assert_eq!(first.len(), 10_000);
        assert_eq!(&relation[0][26 + 104..26 + 104 + 8], b"AAAAAAAx");
        assert_eq!(relation[0].len(), 182);
    }

    #[test]
    fn the_seed_decides() {
        assert_eq!(generate(300, 5), generate(300, 5));
        assert_ne!(generate(300, 5), generate(300, 6));
        assert!(generate(0, 5).is_empty());
        assert_eq!(generate(u16::MAX, 5).len(), usize::from(TUPLES_MAX));
        assert_eq!(Attribute::Even100.of(&[0; 25]), None);
    }
}
