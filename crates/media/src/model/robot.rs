//! A robot with drives that seek at a constant rate: 1996, Table 1.
//!
//! A switch takes one stated time. It includes rewinding, so the head is at the beginning after it. A seek
//! takes a start-up time plus the distance at the seek rate; on a disk only the start-up time.
//!
//! **Choices** where the paper is silent: a fetch that begins at the end of the last one needs no seek.
//! `exchange` is the part of a switch that needs an arm. It is zero for the devices of the paper, which gives
//! the sum only.

use coscan_base::Span;

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
    /// Part of the switch that needs an arm.
    pub exchange: Span,
    /// Fixed part of a seek.
    pub seek_startup: Span,
    /// Rate at which a seek passes over data, in bytes per second; `None` if distance does not matter.
    pub seek_bytes_per_s: Option<u64>,
    /// Transfer rate.
    pub bytes_per_s: u64,
    /// Capacity of one medium.
    pub medium_bytes: u64,
    /// Number of media.
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

/// The paper's MB are 2^20 bytes, like its blocks of 256 KB and its cache of 512 MB.
const MB: u64 = 1 << 20;
