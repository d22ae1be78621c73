//! An array of disks, levels 0, 1, 4 and 5, as in Cooperative Scans 2004, §3.2 (Table 3).
//!
//! `striping.rs` divides a request into byte ranges of members. This file submits them to the members, which
//! queue them, and combines the answers. A request is done when all its pieces are done. Members do not fail
//! as a whole and are not rebuilt: a failed piece fails its request.

mod level;
mod striping;

use std::collections::BTreeMap;

use coscan_base::{Instant, Span};

use crate::completed::Completed;
use crate::transfer::BusyTime;
use crate::{Completion, Device, Request, RequestId, Transfer};
pub use level::RaidLevel;
use striping::{Piece, Place, Striping};

/// An array of members. **Cost:** a request is linear in its stripe units; a step is linear in the members.
#[derive(Debug)]
pub(crate) struct Raid {
    striping: Striping,
    members: Vec<Member>,
    /// Requests in progress.
    requests: BTreeMap<RequestId, Parts>,
    /// Pieces in progress and their requests. Members know pieces by these ids.
    pieces: BTreeMap<RequestId, RequestId>,
    piece_count: u64,
    done: Completed,
    busy: BusyTime,
}

/// A member, and the facts for the choice between mirrors.
#[derive(Debug)]
struct Member {
    device: Box<dyn Device>,
    /// The end of its last piece.
    head: u64,
    /// Bytes of pieces in progress, by piece.
    queued: BTreeMap<RequestId, u64>,
    queued_bytes: u64,
}

/// The missing parts of a request.
#[derive(Debug)]
struct Parts {
    pending: usize,
    ok: bool,
    /// Pieces to write once old data and parity have been read.
    then: Vec<(usize, Piece)>,
}

impl Raid {
    /// An idle array; the number of members must fit the level.
    pub(crate) fn new(level: RaidLevel, stripe_unit_bytes: u64, members: Vec<Box<dyn Device>>) -> Self {
        let member = |device| Member { device, head: u64::MAX, queued: BTreeMap::new(), queued_bytes: 0 };
        Raid {
            striping: Striping::new(level, members.len(), stripe_unit_bytes),
            members: members.into_iter().map(member).collect(),
            requests: BTreeMap::new(),
            pieces: BTreeMap::new(),
            piece_count: 0,
            done: Completed::default(),
            busy: BusyTime::default(),
        }
    }

    /// The members for a piece. Of two mirrors, a read uses the one with less work, then the one whose head
    /// is in place. So each of two readers of chunks settles on one side.
    fn members_of(&self, piece: &Piece) -> Vec<usize> {
        match (piece.place, piece.kind) {
            (Place::Member(member), _) => vec![member],
            (Place::Pair(first), Transfer::Write) => vec![first, first + 1],
            (Place::Pair(first), Transfer::Read) => {
                let burden = |member: &usize| {
                    let Member { head, queued_bytes, .. } = &self.members[*member];
                    (*queued_bytes, *head != piece.offset)
                };
                [first, first + 1].into_iter().min_by_key(burden).into_iter().collect()
            }
        }
    }

    fn issue(&mut self, now: Instant, request: RequestId, pieces: Vec<(usize, Piece)>) {
        for (member, piece) in pieces {
            let id = RequestId(self.piece_count);
            self.piece_count += 1;
            self.pieces.insert(id, request);
            let member = &mut self.members[member];
            member.head = piece.offset + piece.bytes;
            member.queued.insert(id, piece.bytes);
            member.queued_bytes += piece.bytes;
            let Piece { offset, bytes, kind, .. } = piece;
            member.device.submit(now, Request { id, offset, bytes, kind });
        }
    }

    fn assign(&self, pieces: Vec<Piece>) -> Vec<(usize, Piece)> {
        let assigned = pieces
            .into_iter()
            .flat_map(|piece| self.members_of(&piece).into_iter().map(move |member| (member, piece)));
        assigned.collect()
    }

    fn next_step(&self) -> Option<Instant> {
        self.members.iter().filter_map(|member| member.device.next_completion()).min()
    }

    /// Takes the steps of all members one after the other up to `now`, because a completed read may start a
    /// write.
    fn catch_up(&mut self, now: Instant) {
        let mut done = Vec::new();
        while let Some(at) = self.next_step().filter(|at| *at <= now) {
            for member in &mut self.members {
                let before = done.len();
                member.device.advance(at, &mut done);
                for completion in &done[before..] {
                    member.queued_bytes -= member.queued.remove(&completion.id).unwrap_or_default();
                }
            }
            for piece in done.drain(..) {
                self.piece_done(at, piece);
            }
        }
        self.busy.set(now, !self.requests.is_empty());
    }

    fn piece_done(&mut self, at: Instant, piece: Completion) {
        let id = self.pieces.remove(&piece.id).expect("members complete what they were given, once");
        let parts = self.requests.get_mut(&id).expect("a request is there until its last piece is done");
        parts.pending -= 1;
        parts.ok &= piece.ok;
        if parts.pending > 0 {
            return;
        }
        let (ok, then) = (parts.ok, std::mem::take(&mut parts.then));
        if ok && !then.is_empty() {
            parts.pending = then.len();
            self.issue(at, id, then);
        } else {
            self.requests.remove(&id);
            self.busy.set(at, !self.requests.is_empty());
            self.done.push(at, Completion { id, ok });
        }
    }
}

impl Device for Raid {
    fn submit(&mut self, now: Instant, request: Request) {
        self.catch_up(now);
        let plan = self.striping.plan(&request);
        let (first, then) = (self.assign(plan.first), self.assign(plan.then));
        if first.is_empty() {
            self.done.push(now, Completion { id: request.id, ok: true });
            return;
        }
        self.requests.insert(request.id, Parts { pending: first.len(), ok: true, then });
        self.busy.set(now, true);
        self.issue(now, request.id, first);
    }

    fn next_completion(&self) -> Option<Instant> {
        self.done.first().or_else(|| self.next_step())
    }

    fn advance(&mut self, now: Instant, done: &mut Vec<Completion>) {
        self.catch_up(now);
        self.done.drain_into(done);
    }

    fn busy(&self) -> Span {
        self.busy.total()
    }
}
