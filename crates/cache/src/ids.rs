//! Dense slots for ids of any kind, in the order of appearance. Only this module hashes references.

use hashbrown::HashMap;

/// The name of a page in a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Id<'a> {
    /// A number.
    Number(u64),
    /// Any other text. Numbers with a second spelling (`007`, `+7`) are names.
    Name(&'a [u8]),
}

impl<'a> Id<'a> {
    /// The id of a text.
    pub(crate) fn of_text(text: &'a [u8]) -> Self {
        parse_number(text).filter(|_| text.len() == 1 || text[0] != b'0').map_or(Id::Name(text), Id::Number)
    }
}

/// A text of digits as a number, if it has 64 bits.
pub(crate) fn parse_number(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0_u64, |number, byte| {
        let digit = byte.checked_sub(b'0').filter(|digit| *digit < 10)?;
        number.checked_mul(10)?.checked_add(u64::from(digit))
    })
}

/// The slots of ids.
#[derive(Debug, Default)]
pub(crate) struct Ids {
    numbers: HashMap<u64, u32>,
    names: HashMap<Vec<u8>, u32>,
    len: u32,
}

impl Ids {
    /// The slot of an id; the next free one for a new id. There are enough slots, because a trace has less
    /// than 2^32 references.
    pub(crate) fn slot(&mut self, id: Id<'_>) -> u32 {
        let next = self.len;
        let slot = match id {
            Id::Number(number) => *self.numbers.entry(number).or_insert(next),
            Id::Name(name) => *self.names.entry_ref(name).or_insert(next),
        };
        self.len += u32::from(slot == next);
        slot
    }

    /// Distinct ids.
    pub(crate) fn len(&self) -> usize {
        self.len as usize
    }

    /// A number for each slot: its id if all ids are numbers, otherwise its position from one.
    pub(crate) fn into_numbers(self) -> Vec<u64> {
        if !self.names.is_empty() {
            return (1..=u64::from(self.len)).collect();
        }
        let mut by_slot = vec![0; self.numbers.len()];
        for (number, slot) in self.numbers {
            by_slot[slot as usize] = number;
        }
        by_slot
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_id_has_one_slot() {
        let mut ids = Ids::default();
        let text =
            ["7", "x", "007", "18446744073709551615", "18446744073709551616", "0", "7", "x", "007", "-1"];
        let slots: Vec<u32> = text.iter().map(|text| ids.slot(Id::of_text(text.as_bytes()))).collect();
        assert_eq!(slots, [0, 1, 2, 3, 4, 5, 0, 1, 2, 6]);
        assert_eq!(Id::of_text(b"18446744073709551615"), Id::Number(u64::MAX));
        assert_eq!(ids.into_numbers(), [1, 2, 3, 4, 5, 6, 7]);
        let mut numbers = Ids::default();
        assert_eq!([9, 4, 9].map(|number| numbers.slot(Id::Number(number))), [0, 1, 0]);
        assert_eq!((numbers.len(), numbers.into_numbers()), (2, vec![9, 4]));
    }
}
