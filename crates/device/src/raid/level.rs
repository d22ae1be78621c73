//! Levels of an array, and the disks that they need.

use crate::SpecError;

/// The way in which an array stores its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RaidLevel {
    /// Striped over all members, no redundancy.
    Zero,
    /// Striped over pairs of members with equal content: a read uses either, a write both.
    One,
    /// Striped over all members but the last, which holds the parity of every stripe. A write of less than a
    /// stripe reads old data and parity first.
    Four,
    /// Striped over all members. One unit of every stripe is its parity; it moves from member to member. A
    /// write of less than a stripe reads old data and parity first.
    Five,
}

impl RaidLevel {
    /// The level's number.
    pub fn number(self) -> u8 {
        match self {
            RaidLevel::Zero => 0,
            RaidLevel::One => 1,
            RaidLevel::Four => 4,
            RaidLevel::Five => 5,
        }
    }

    /// The number of disks, out of `disks`, that hold distinct data.
    pub(crate) fn data_disks(self, disks: u32) -> u32 {
        match self {
            RaidLevel::Zero => disks,
            RaidLevel::One => disks / 2,
            RaidLevel::Four | RaidLevel::Five => disks - 1,
        }
    }

    pub(crate) fn check(self, disks: u32) -> Result<(), SpecError> {
        let (possible, wanted) = match self {
            RaidLevel::Zero => (disks >= 1, "at least 1"),
            RaidLevel::One => (disks >= 2 && disks.is_multiple_of(2), "an even number, at least 2"),
            RaidLevel::Four | RaidLevel::Five => (disks >= 3, "at least 3"),
        };
        if possible { Ok(()) } else { Err(SpecError::Disks { level: self.number(), disks, wanted }) }
    }
}
