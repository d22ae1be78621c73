//! Turns to run a statement, shared fairly between users.
//!
//! A server runs at most `max-queries` statements at once. Of the turns that other users leave, one user gets half, so
//! that there is one for the next user. A free turn goes to the waiting user with the fewest running statements, and of
//! that user to the statement that waits longest. Some turns are reserved for administrators.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use crate::access::User;

/// The reserved turns are at most 1/N of all.
const RESERVED_SHARE: usize = 4;

/// The turns of a server.
#[derive(Debug)]
pub(crate) struct Turns {
    limit: usize,
    reserved: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Running statements by user, administrators included.
    running: BTreeMap<String, usize>,
    all: usize,
    /// Running statements of users who are not administrators.
    readers: usize,
    waiting: VecDeque<Waiting>,
}

#[derive(Debug)]
struct Waiting {
    user: String,
    admin: bool,
    granted: oneshot::Sender<Turn>,
}

impl Turns {
    /// `limit` turns, of which `reserved` are for administrators.
    pub(crate) fn new(limit: usize, reserved: usize) -> Arc<Self> {
        Arc::new(Turns { limit, reserved: reserved.min(limit / RESERVED_SHARE), state: Mutex::default() })
    }

    /// Waits for a turn of this user.
    pub(crate) async fn turn(self: &Arc<Self>, user: &User) -> Turn {
        let (granted, turn) = oneshot::channel();
        {
            let mut state = self.lock();
            state.waiting.push_back(Waiting { user: user.name.clone(), admin: user.role.admin, granted });
        }
        self.grant();
        match turn.await {
            Ok(turn) => turn,
            // The sender is only dropped with the turns, which `self` holds.
            Err(_) => std::future::pending().await,
        }
    }

    /// Grants free turns to those who wait.
    fn grant(self: &Arc<Self>) {
        loop {
            // A turn that was not taken is given back after the lock is released.
            let refused = {
                let mut state = self.lock();
                state.waiting.retain(|waiting| !waiting.granted.is_closed());
                let Some(at) = state.next(self.limit, self.reserved) else { return };
                let Some(waiting) = state.waiting.remove(at) else { return };
                *state.running.entry(waiting.user.clone()).or_default() += 1;
                state.all += 1;
                state.readers += usize::from(!waiting.admin);
                let turn = Turn { of: self.clone(), user: waiting.user, admin: waiting.admin };
                waiting.granted.send(turn).err()
            };
            drop(refused);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// The place of the next statement that may run.
    fn next(&self, limit: usize, reserved: usize) -> Option<usize> {
        let may_run = |waiting: &Waiting| {
            if self.all >= limit {
                return false;
            }
            let (limit, own) = (limit - reserved, self.of(&waiting.user));
            let others = self.readers.saturating_sub(own);
            waiting.admin || self.readers < limit && own < share(limit, others)
        };
        let candidates = self.waiting.iter().enumerate().filter(|(_, waiting)| may_run(waiting));
        candidates.min_by_key(|(at, waiting)| (self.of(&waiting.user), *at)).map(|(at, _)| at)
    }

    fn of(&self, user: &str) -> usize {
        self.running.get(user).copied().unwrap_or(0)
    }
}

/// The turns that one user may have: half of those that others leave.
fn share(limit: usize, others: usize) -> usize {
    limit.saturating_sub(others).div_ceil(2)
}

/// A turn. It is given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Turn {
    of: Arc<Turns>,
    user: String,
    admin: bool,
}

impl Drop for Turn {
    fn drop(&mut self) {
        {
            let mut state = self.of.lock();
            state.all -= 1;
            state.readers -= usize::from(!self.admin);
            if let Some(count) = state.running.get_mut(&self.user) {
                *count -= 1;
                if *count == 0 {
                    state.running.remove(&self.user);
                }
            }
        }
        self.of.grant();
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;
    use crate::access::{Limits, Role, Users};

    fn user(name: &str, admin: bool) -> User {
        Users::none().user(name, Arc::new(Role::built_in(admin, &Limits::default())))
    }

    /// The turns that this user gets at once.
    fn turns(of: &Arc<Turns>, user: &User, wanted: usize) -> Vec<Turn> {
        (0..wanted).map_while(|_| of.turn(user).now_or_never()).collect()
    }

    #[test]
    fn a_user_leaves_half_to_others_and_administrators_have_some_of_their_own() {
        let all = Turns::new(40, 4);
        let (ann, bob, root) = (user("ann", false), user("bob", false), user("root", true));
        let anns = turns(&all, &ann, 100);
        let bobs = turns(&all, &bob, 100);
        assert_eq!((anns.len(), bobs.len()), (18, 9));
        let more: Vec<_> = (0..20).map(|n| turns(&all, &user(&n.to_string(), false), 100)).collect();
        assert_eq!(more.iter().map(Vec::len).sum::<usize>(), 9);
        assert_eq!(turns(&all, &root, 100).len(), 4);
        drop((anns, bobs, more));
        assert_eq!(turns(&all, &ann, 100).len(), 18, "turns come back");
        assert_eq!(turns(&Turns::new(1, 4), &ann, 9).len(), 1);
    }

    #[test]
    fn the_user_with_the_fewest_turns_is_next() {
        let all = Turns::new(4, 0);
        let (ann, bob) = (user("ann", false), user("bob", false));
        let mut anns = turns(&all, &ann, 2);
        let mut annas = Box::pin(all.turn(&ann));
        assert!(annas.as_mut().now_or_never().is_none());
        let bobs = turns(&all, &bob, 1);
        assert_eq!(bobs.len(), 1);
        // A statement that was stopped while it waited is skipped.
        drop(Box::pin(all.turn(&ann)));
        anns.pop();
        assert!(annas.as_mut().now_or_never().is_some());
    }
}
