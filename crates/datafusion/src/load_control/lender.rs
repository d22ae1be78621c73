//! What the buffer lends to operators, and when it gets that back; what operators offer to the buffer, and take back.
//!
//! A loan is a number: the buffer is smaller by that much, as soon as chunks in use are released, and operators may
//! have that much more. No query waits for a loan. It shrinks to what operators use when a query ends, and when the
//! operators of an ended query release the last of their memory.
//!
//! An offer is a number, too: the buffer may be larger by what operators leave of three quarters of their limit. It is made
//! again when queries end. When operators and the offer together come to the limit, that much is taken back.

use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use super::control::LoadControl;
use super::gauge::Gauge;
use super::run::RunId;
use super::state::Asking;
use crate::lock::lock;

/// The buffer lends in steps of so many bytes, and is offered more in such steps.
const LOAN_STEP: u64 = 16 << 20;

/// Of the buffer, in percent: what operators may borrow at most. Scans that need more than the rest keep it.
const LOAN_PERCENT_MAX: u64 = 75;

/// The buffer becomes smaller for a process short of memory once in this time: what is given up is seen a little later.
const RELIEF_EVERY: Duration = Duration::from_millis(50);

/// Who lends: the engine's buffer.
pub(crate) trait Buffer {
    /// Its size, in bytes, with what it lends.
    fn bytes(&self) -> u64;

    /// Lends so much instead of what was lent before, and says how much of that is free now; `None` if it is broken.
    fn lend(&self, bytes: u64) -> Option<u64>;

    /// Is offered so much beyond its size instead of what was offered before, and says how much it takes; `None` if it is
    /// broken.
    fn offer(&self, bytes: u64) -> Option<u64>;
}

/// What an engine's sessions share: load control, and what buffer and operators have of each other.
#[derive(Debug)]
pub(crate) struct Lender {
    pub(crate) control: LoadControl,
    /// `coscan.query_memory` if nobody says otherwise.
    pub(crate) default_limit: u64,
    loan: Mutex<Loan>,
}

#[derive(Debug, Default)]
struct Loan {
    /// For operators.
    operators: u64,
    /// For nobody: the process is short of memory.
    process: u64,
    relieved: Option<Instant>,
    /// What operators leave to the buffer.
    offered: u64,
}

impl Lender {
    /// With a limit for operators, in a process that `gauge` watches.
    pub(crate) fn new(limit: u64, default_limit: u64, gauge: Gauge) -> Self {
        Lender { control: LoadControl::new(limit, gauge), default_limit, loan: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Loan> {
        lock(&self.loan)
    }

    /// An operator wants more; whether it gets it, from the buffer if need be.
    pub(crate) fn try_take(&self, buffer: &impl Buffer, id: RunId, asking: Asking, now: Instant) -> bool {
        let control = &self.control;
        if control.is_short() {
            self.relieve(buffer, now);
        }
        let granted = match control.try_take(id, asking) {
            Ok(()) => true,
            Err(missing) => {
                !control.is_short() && self.borrow(buffer, missing) && control.try_take(id, asking).is_ok()
            }
        };
        self.make_room(buffer);
        granted
    }

    /// An operator has more, whatever there is.
    pub(crate) fn take(&self, buffer: &impl Buffer, id: RunId, bytes: u64) {
        self.control.take(id, bytes);
        self.make_room(buffer);
    }

    /// An operator gives something back.
    pub(crate) fn give_back(&self, buffer: &impl Buffer, id: RunId, bytes: u64, now: Instant) {
        if self.control.give_back(id, bytes, now) {
            self.settle(buffer);
        }
    }

    /// Changes what operators of all queries together may have.
    pub(crate) fn set_limit(&self, buffer: &impl Buffer, bytes: u64) {
        self.control.set_limit(bytes);
        self.settle(buffer);
    }

    /// Takes back of the offer what operators need.
    fn make_room(&self, buffer: &impl Buffer) {
        if self.control.is_crowded() {
            self.offer(&mut self.lock(), buffer);
        }
    }

    /// Offers the buffer what operators leave, in place of what was offered before. A little more is not worth the change, unless
    /// it is all that the buffer can be offered.
    fn offer(&self, loan: &mut Loan, buffer: &impl Buffer) {
        let has_lent = loan.operators > 0 || loan.process > 0;
        let rest = if has_lent { 0 } else { self.control.left().min(self.default_limit) };
        let is_worth_it = rest >= loan.offered.saturating_add(LOAN_STEP) || self.control.is_unused();
        let is_more = rest > loan.offered && is_worth_it && self.control.is_ample();
        if is_more || rest < loan.offered {
            loan.offered = buffer.offer(rest).unwrap_or(0);
            self.control.set_offered(loan.offered);
        }
    }

    /// Takes back all of the offer.
    fn withdraw(&self, loan: &mut Loan, buffer: &impl Buffer) {
        if loan.offered > 0 {
            // A broken engine has no buffer that could give anything back.
            let _ = buffer.offer(0);
            loan.offered = 0;
            self.control.set_offered(0);
        }
    }

    /// Has the buffer lend what operators are short of; whether it does.
    fn borrow(&self, buffer: &impl Buffer, missing: u64) -> bool {
        let mut loan = self.lock();
        self.withdraw(&mut loan, buffer);
        let most = buffer.bytes() / 100 * LOAN_PERCENT_MAX;
        let (before, step) = (loan.operators, missing.checked_next_multiple_of(LOAN_STEP).unwrap_or(missing));
        let wanted = before.saturating_add(step);
        if wanted.saturating_add(loan.process) > most {
            return false;
        }
        let Some(free) = buffer.lend(wanted + loan.process) else { return false };
        loan.operators = wanted.min(free.saturating_sub(loan.process)).max(before);
        if loan.operators < wanted && buffer.lend(loan.operators + loan.process).is_none() {
            return false;
        }
        self.control.set_lent(loan.operators);
        loan.operators - before >= missing
    }

    /// The process is short of memory: the buffer becomes smaller.
    fn relieve(&self, buffer: &impl Buffer, now: Instant) {
        let mut loan = self.lock();
        if loan.relieved.is_some_and(|at| now.saturating_duration_since(at) < RELIEF_EVERY) {
            return;
        }
        self.withdraw(&mut loan, buffer);
        let most = buffer.bytes() / 100 * LOAN_PERCENT_MAX;
        let wanted = loan.process.saturating_add(LOAN_STEP);
        if wanted.saturating_add(loan.operators) <= most && buffer.lend(wanted + loan.operators).is_some() {
            (loan.process, loan.relieved) = (wanted, Some(now));
        }
    }

    /// A query has ended, or none has begun: the buffer gets back what operators do not use, and is offered what they leave.
    pub(crate) fn settle(&self, buffer: &impl Buffer) {
        let mut loan = self.lock();
        if loan.operators > 0 || loan.process > 0 {
            loan.operators = self.control.return_unused();
            if self.control.is_ample() {
                loan.process /= 2;
            }
            if loan.process < LOAN_STEP {
                loan.process = 0;
            }
            // A broken engine has no buffer to give anything back to.
            let _ = buffer.lend(loan.operators + loan.process);
        }
        self.offer(&mut loan, buffer);
    }
}
