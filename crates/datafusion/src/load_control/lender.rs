//! Loans of the buffer to operators, and offers of operators to the buffer.
//!
//! A loan is a number: as soon as chunks in use are released, the buffer is smaller by it, and operators may
//! have that much more. No query waits for a loan. It shrinks to the memory in use when a query ends, and
//! when the operators of an ended query release their last memory.
//!
//! An offer is a number, too: the buffer may grow by the memory that operators leave of three quarters of
//! their limit. It is renewed when queries end. If operators and the offer together exceed the limit, the
//! excess is taken back.

use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use super::control::LoadControl;
use super::gauge::Gauge;
use super::run::RunId;
use super::state::Asking;
use crate::lock::lock;

/// The step of loans and offers, in bytes.
const LOAN_STEP: u64 = 16 << 20;

/// Limit of the loan, in percent of the buffer. Scans that need more than the rest keep it.
const LOAN_PERCENT_MAX: u64 = 75;

/// Interval between reductions of the buffer for a process that is short of memory. Released memory takes
/// effect a little later.
const RELIEF_EVERY: Duration = Duration::from_millis(50);

/// The lender: the engine's buffer.
pub(crate) trait Buffer {
    /// Its size with the loan, in bytes.
    fn bytes(&self) -> u64;

    /// Changes the loan to `bytes`. Returns how much of it is free at once; `None` if the engine is broken.
    fn lend(&self, bytes: u64) -> Option<u64>;

    /// Changes the offer beyond the buffer's size to `bytes`. Returns how much the buffer takes; `None` if
    /// the engine is broken.
    fn offer(&self, bytes: u64) -> Option<u64>;
}

/// The shared state of an engine's sessions: load control, and the loans and offers between buffer and
/// operators.
#[derive(Debug)]
pub(crate) struct Lender {
    pub(crate) control: LoadControl,
    /// The default of `coscan.query_memory`.
    pub(crate) default_limit: u64,
    loan: Mutex<Loan>,
}

#[derive(Debug, Default)]
struct Loan {
    /// For operators.
    operators: u64,
    /// Unused, because the process is short of memory.
    process: u64,
    relieved: Option<Instant>,
    /// The offer of operators to the buffer.
    offered: u64,
}

impl Lender {
    /// Creates the lender with a limit for operators, in a process that `gauge` watches.
    pub(crate) fn new(limit: u64, default_limit: u64, gauge: Gauge) -> Self {
        Lender { control: LoadControl::new(limit, gauge), default_limit, loan: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Loan> {
        lock(&self.loan)
    }

    /// Grants an operator more memory, from the buffer if necessary. Returns whether it is granted.
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

    /// Records memory that an operator has taken unconditionally.
    pub(crate) fn take(&self, buffer: &impl Buffer, id: RunId, bytes: u64) {
        self.control.take(id, bytes);
        self.make_room(buffer);
    }

    /// Returns memory of an operator.
    pub(crate) fn give_back(&self, buffer: &impl Buffer, id: RunId, bytes: u64, now: Instant) {
        if self.control.give_back(id, bytes, now) {
            self.settle(buffer);
        }
    }

    /// Sets the memory of all queries' operators together.
    pub(crate) fn set_limit(&self, buffer: &impl Buffer, bytes: u64) {
        self.control.set_limit(bytes);
        self.settle(buffer);
    }

    /// Reduces the offer by the memory that operators need.
    fn make_room(&self, buffer: &impl Buffer) {
        if self.control.is_crowded() {
            self.offer(&mut self.lock(), buffer);
        }
    }

    /// Offers the buffer the memory that operators leave, in place of the previous offer. Ignores a small
    /// increase unless it completes the largest possible offer.
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

    /// Withdraws the whole offer.
    fn withdraw(&self, loan: &mut Loan, buffer: &impl Buffer) {
        if loan.offered > 0 {
            // A broken engine has no buffer to return anything.
            let _ = buffer.offer(0);
            loan.offered = 0;
            self.control.set_offered(0);
        }
    }

    /// Makes the buffer lend the missing memory. Returns whether it does.
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

    /// Reduces the buffer, because the process is short of memory.
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

    /// Returns unused memory to the buffer and offers it the memory that operators leave. To be called when a
    /// query has ended, and before the first one.
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
            // A broken engine has no buffer to which anything could be returned.
            let _ = buffer.lend(loan.operators + loan.process);
        }
        self.offer(&mut loan, buffer);
    }
}
