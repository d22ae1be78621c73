//! A robot with drives that seek at a constant rate: 1996, Table 1.
//!
//! A switch takes one stated time, which includes rewinding, so that the head is at the beginning after it. A seek
//! takes a start-up time and the distance at the seek rate, or only the start-up time on a disk.
//!
//! **Choices** where the paper says nothing: a fetch that begins where the last one ended needs no seek. `exchange`
//! says for how much of a switch an arm is needed: none for the devices of the paper, which gives the sum only.

use coscan_core::Span;

use super::{LibraryError, Switch, check_drives, check_rate, check_time, time_for};

/// Numbers of a robot and its drives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Robot {
    /// Drives.
    pub drives: u32,
    /// Arms that carry media.
    pub arms: u32,
    /// Rewind, eject, carry to the shelf, carry another from the shelf, load until ready.
    pub switch: Span,
    /// How much of that an arm is busy.
    pub exchange: Span,
    /// Fixed part of a seek.
    pub seek_startup: Span,
    /// How fast a seek passes over data, in bytes per second; `None` if distance does not matter.
    pub seek_bytes_per_s: Option<u64>,
    /// Transfer rate.
    pub bytes_per_s: u64,
    /// What one medium holds.
    pub medium_bytes: u64,
    /// How many media there are.
    pub media: u32,
}

impl Robot {
    /// The tape stacker of 1996, Table 1.
    pub const fn tape_stacker_1996() -> Self {
        Robot {
            drives: 1,
            arms: 1,
            switch: Span::from_millis(30_000),
            exchange: Span::ZERO,
            seek_startup: Span::from_millis(2_000),
            seek_bytes_per_s: Some(200 * MB),
            bytes_per_s: 2 * MB,
            medium_bytes: 10_000 * MB,
            media: 10,
        }
    }

    /// The magneto-optical jukebox of 1996, Table 1.
    pub const fn optical_jukebox_1996() -> Self {
        Robot {
            drives: 2,
            arms: 1,
            switch: Span::from_millis(14_000),
            exchange: Span::ZERO,
            seek_startup: Span::from_millis(300),
            seek_bytes_per_s: None,
            bytes_per_s: MB / 2,
            medium_bytes: 1_300 * MB,
            media: 32,
        }
    }

    pub(super) fn check(&self) -> Result<(), LibraryError> {
        check_drives(self.drives)?;
        if self.arms == 0 {
            return Err(LibraryError::NoArm);
        }
        check_time("switch", self.switch)?;
        check_time("seek_startup", self.seek_startup)?;
        check_rate("transfer", self.bytes_per_s)?;
        self.seek_bytes_per_s.map_or(Ok(()), |rate| check_rate("seek", rate))?;
        if self.medium_bytes == 0 { Err(LibraryError::Empty) } else { Ok(()) }
    }

    pub(super) fn switch(&self) -> Switch {
        let exchange = self.exchange.min(self.switch);
        let rest = self.switch.as_nanos() - exchange.as_nanos();
        Switch { unload: Span::ZERO, exchange, load: Span::from_nanos(rest) }
    }

    pub(super) fn locate(&self, from: u64, to: u64) -> Span {
        if from == to {
            return Span::ZERO;
        }
        let travel = self.seek_bytes_per_s.map_or(Span::ZERO, |rate| time_for(from.abs_diff(to), rate));
        Span::from_nanos(self.seek_startup.as_nanos().saturating_add(travel.as_nanos()))
    }
}

/// The paper's MB are taken as 2^20 bytes, as its blocks of 256 KB and its cache of 512 MB are.
const MB: u64 = 1 << 20;
