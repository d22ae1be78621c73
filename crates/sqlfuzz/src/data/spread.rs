//! The distribution of a column's values, independent of its type: few or many, sorted or not, with or
//! without nulls.
//!
//! A value follows from the column's seed and the row number. So it stays the same when other columns, files
//! or rows are removed.

use crate::dice::{Dice, mix};

/// A value before it has a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Code {
    Null,
    /// One of the ordinary values of a type, in its order.
    Small(i64),
    /// One of the odd values of a type: the largest, the empty one, NaN.
    Special(u64),
    /// Any value.
    Wild(u64),
}

/// The distribution of values over the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spread {
    /// The row number.
    RowNumber,
    /// A distinct number for each row, in no order.
    Shuffled,
    Constant,
    Few(u64),
    /// Rising values in runs of this many rows.
    Sorted(u64),
    /// One value in each run of this many rows.
    Clustered(u64),
    Narrow,
    /// Ordinary values, with an odd one in every fourth row.
    Odd,
    Wild,
}

/// The distribution of nulls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Nulls {
    None,
    OneIn(u64),
    /// Runs of this many rows, every second of them null.
    Runs(u64),
    All,
}

impl Spread {
    pub(crate) fn draw(dice: &mut Dice) -> Self {
        match dice.below(16) {
            0 => Spread::Constant,
            1..=4 => Spread::Few(*dice.pick(&[2, 3, 5, 12, 40])),
            5..=7 => Spread::Sorted(*dice.pick(&[1, 3, 20, 100])),
            8 => Spread::Clustered(*dice.pick(&[10, 50, 200])),
            9..=11 => Spread::Narrow,
            12..=13 => Spread::Odd,
            _ => Spread::Wild,
        }
    }

    /// Returns whether all rows have distinct values.
    pub(crate) fn unique(self) -> bool {
        matches!(self, Spread::RowNumber | Spread::Shuffled)
    }

    /// Returns whether sums of floating-point values are exact in any order of addition.
    pub(crate) fn sums_exactly(self) -> bool {
        !matches!(self, Spread::Odd | Spread::Wild)
    }

    pub(crate) fn code(self, seed: u64, row: u64) -> Code {
        let random = mix(seed ^ row.wrapping_mul(0x2545_F491_4F6C_DD1D));
        let small = |n: u64| Code::Small(n as i64);
        match self {
            Spread::RowNumber => small(row),
            // Odd factors permute the numbers below a power of two.
            Spread::Shuffled => small((row.wrapping_mul(0x9E37_79B1) ^ (seed & 0xFFFF)) & 0xF_FFFF),
            Spread::Constant => small(7),
            Spread::Few(keys) => small(random % keys),
            Spread::Sorted(run) => small(row / run),
            Spread::Clustered(run) => small(mix(seed ^ (row / run)) % 50),
            Spread::Narrow => Code::Small((random % 1000) as i64 - 200),
            Spread::Odd if random.is_multiple_of(4) => Code::Special(random >> 8),
            Spread::Odd => small((random >> 4) % 20),
            Spread::Wild if random.is_multiple_of(16) => Code::Special(random >> 8),
            Spread::Wild => Code::Wild(random),
        }
    }
}

impl Nulls {
    pub(crate) fn draw(dice: &mut Dice) -> Self {
        match dice.below(12) {
            0..=4 => Nulls::None,
            5..=8 => Nulls::OneIn(*dice.pick(&[2, 5, 20, 100])),
            9..=10 => Nulls::Runs(*dice.pick(&[5, 30, 100])),
            _ => Nulls::All,
        }
    }

    pub(crate) fn is_null(self, seed: u64, row: u64) -> bool {
        match self {
            Nulls::None => false,
            Nulls::OneIn(n) => mix(seed.rotate_left(17) ^ row).is_multiple_of(n),
            Nulls::Runs(n) => (row / n) % 2 == 1,
            Nulls::All => true,
        }
    }
}
