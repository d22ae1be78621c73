//! Mapping of an array's bytes to its members, and the pieces of a request.
//!
//! This module is arithmetic only: it queues nothing and takes no time. Data is spread over the members in
//! stripe units; a row of units, one per member, is a stripe. The contiguous units of a request on one member
//! become one piece. So a chunk costs every member one access, however small the units are.

use super::level::RaidLevel;
use crate::{Request, Transfer};

/// The receiver of a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// This member.
    Member(usize),
    /// This member, or the one behind it (a mirror); a write goes to both.
    Pair(usize),
}

/// A contiguous run of bytes on a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) place: Place,
    pub(super) offset: u64,
    pub(super) bytes: u64,
    pub(super) kind: Transfer,
}

/// The pieces of a request.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct MemberRequests {
    /// Pieces to submit at once.
    pub(super) first: Vec<Piece>,
    /// Pieces to submit when those are done.
    pub(super) then: Vec<Piece>,
}

/// The distribution of data.
#[derive(Debug)]
pub(super) struct Striping {
    level: RaidLevel,
    /// Places of a stripe, including its parity: members, or pairs of them.
    width: u64,
    unit: u64,
}

/// The part of a request that lies in one stripe.
#[derive(Clone, Copy, Debug)]
struct InStripe {
    stripe: u64,
    /// Bytes from the start of the stripe's data.
    from: u64,
    to: u64,
}

impl Striping {
    pub(super) fn new(level: RaidLevel, disks: usize, unit: u64) -> Self {
        let width = if level == RaidLevel::One { disks / 2 } else { disks };
        Striping { level, width: width as u64, unit }
    }

    /// The pieces of a request, in ascending order on each member.
    pub(super) fn plan(&self, request: &Request) -> MemberRequests {
        match (self.level, request.kind) {
            (RaidLevel::Four | RaidLevel::Five, Transfer::Write) => self.parity_write(request),
            (_, kind) => {
                let mut pieces = Runs::new(self, kind);
                for part in self.stripes(request) {
                    self.add_data(&mut pieces, part);
                }
                MemberRequests { first: pieces.into_pieces(), then: Vec::new() }
            }
        }
    }

    /// A write with parity. Whole stripes are written with their parity. For partial stripes at the ends of
    /// the request, the old data and parity that change are read first; then everything is written.
    fn parity_write(&self, request: &Request) -> MemberRequests {
        let (mut old, mut new) = (Runs::new(self, Transfer::Read), Runs::new(self, Transfer::Write));
        for part in self.stripes(request) {
            self.add_data(&mut new, part);
            self.add_parity(&mut new, part);
            if part.to - part.from < self.stripe_bytes() {
                self.add_data(&mut old, part);
                self.add_parity(&mut old, part);
            }
        }
        let (old, new) = (old.into_pieces(), new.into_pieces());
        if old.is_empty() {
            MemberRequests { first: new, then: old }
        } else {
            MemberRequests { first: old, then: new }
        }
    }

    /// Data bytes of a stripe.
    fn stripe_bytes(&self) -> u64 {
        let parity = matches!(self.level, RaidLevel::Four | RaidLevel::Five);
        self.unit * if parity { self.width - 1 } else { self.width }
    }

    fn stripes(&self, request: &Request) -> impl Iterator<Item = InStripe> + use<> {
        let (size, from, end) = (self.stripe_bytes(), request.offset, request.end());
        (from / size..end.div_ceil(size)).map(move |stripe| {
            let start = stripe * size;
            InStripe { stripe, from: from.max(start) - start, to: (end - start).min(size) }
        })
    }

    /// The place of a stripe's parity: the last for the first stripe; then one lower for each stripe, unless
    /// it stays.
    fn parity_place(&self, stripe: u64) -> u64 {
        self.width - 1 - if self.level == RaidLevel::Five { stripe % self.width } else { 0 }
    }

    /// The place of a stripe's data unit: behind the parity, circularly. So a run of units as long as the
    /// array is wide uses every member.
    fn data_place(&self, stripe: u64, unit: u64) -> u64 {
        match self.level {
            RaidLevel::Five => (self.parity_place(stripe) + 1 + unit) % self.width,
            RaidLevel::Zero | RaidLevel::One | RaidLevel::Four => unit,
        }
    }

    fn add_data(&self, runs: &mut Runs, part: InStripe) {
        let mut at = part.from;
        while at < part.to {
            let unit = at / self.unit;
            let end = part.to.min((unit + 1) * self.unit);
            let offset = part.stripe * self.unit + at % self.unit;
            runs.add(self.data_place(part.stripe, unit), offset, end - at);
            at = end;
        }
    }

    /// The parity bytes that depend on a part of the data.
    fn add_parity(&self, runs: &mut Runs, part: InStripe) {
        let within_unit = part.from / self.unit == (part.to - 1) / self.unit;
        let (from, bytes) =
            if within_unit { (part.from % self.unit, part.to - part.from) } else { (0, self.unit) };
        runs.add(self.parity_place(part.stripe), part.stripe * self.unit + from, bytes);
    }
}

/// Pieces under construction, per place.
struct Runs {
    level: RaidLevel,
    kind: Transfer,
    /// Gaps up to this size are read too.
    bridged: u64,
    runs: Vec<Vec<(u64, u64)>>,
}

impl Runs {
    /// A read of data on RAID-5 meets a parity unit in every stripe. The member reads it too. This costs the
    /// time of its bytes, leaving X - 1 of X bandwidths, whereas skipping it would cost a rotation.
    fn new(striping: &Striping, kind: Transfer) -> Self {
        let bridges = striping.level == RaidLevel::Five && kind == Transfer::Read;
        Runs {
            level: striping.level,
            kind,
            bridged: if bridges { striping.unit } else { 0 },
            runs: vec![Vec::new(); striping.width as usize],
        }
    }

    fn add(&mut self, place: u64, offset: u64, bytes: u64) {
        let runs = &mut self.runs[place as usize];
        match runs.last_mut() {
            Some((start, length)) if offset <= *start + *length + self.bridged => {
                *length = offset + bytes - *start;
            }
            _ => runs.push((offset, bytes)),
        }
    }

    fn into_pieces(self) -> Vec<Piece> {
        let (level, kind) = (self.level, self.kind);
        let place = |at| if level == RaidLevel::One { Place::Pair(2 * at) } else { Place::Member(at) };
        let pieces = self.runs.into_iter().enumerate().flat_map(|(at, runs)| {
            runs.into_iter().map(move |(offset, bytes)| Piece { place: place(at), offset, bytes, kind })
        });
        pieces.collect()
    }
}
