//! Limits on the number of connections: in all, per address, per user, and before their login.
//!
//! A connection counts as one in login until its client has logged in. Every client can open such connections, so they
//! have a limit of their own. Beyond it, the oldest one of the address with the most ends, and the new one is served.
//! Clients that have sent something are ended last. A new connection has a moment before it can be ended, because many
//! clients may connect at once. Strangers therefore neither use up the connections of users nor keep them from logging
//! in, and health checks are always answered: they need no login.
//!
//! Of the connections that other users leave, one user gets half, if the server knows its users. Some connections are for
//! administrators only.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use crate::access::User;
use crate::config::ServeConfig;

/// Maximum number of connections beyond the limit of an address that get an error message. Further ones are closed
/// without a message.
const REFUSING_MAX: usize = 64;
/// The reserved connections are at most 1/N of all.
const RESERVED_SHARE: usize = 4;
/// A user gets at least this many connections, if there are so many.
const SHARE_MIN: usize = 8;
/// How long a connection is in login before it has to make room, unless connections in login are as many as connections
/// may be.
const LOGIN_MOMENT: Duration = Duration::from_secs(1);

/// The connections of a server.
#[derive(Debug)]
pub struct Connections {
    limit: usize,
    reserved: usize,
    limit_per_address: usize,
    logins_max: usize,
    /// False if every client may give any name.
    knows_users: bool,
    counts: Mutex<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    next: u64,
    refusing: usize,
    by_address: HashMap<IpAddr, usize>,
    /// Connections before their login, oldest first.
    logins: BTreeMap<u64, Login>,
    /// Logged-in connections by user, and those of users who are not administrators.
    by_user: HashMap<String, usize>,
    logged_in: usize,
    readers: usize,
}

#[derive(Debug)]
struct Login {
    from: IpAddr,
    since: Instant,
    /// Set when the client has sent something.
    spoke: bool,
    end: Arc<Notify>,
}

/// The decision about a new connection.
pub(crate) enum Admission {
    /// The connection is served. It counts as long as this value lives.
    Admitted(Counted),
    /// The connection gets the reason of its refusal.
    Refused(Counted, String),
    /// The connection is closed.
    Dropped,
}

impl Connections {
    pub(crate) fn new(config: &ServeConfig) -> Arc<Self> {
        Arc::new(Connections {
            limit: config.max_connections,
            reserved: config.reserved_connections.min(config.max_connections / RESERVED_SHARE),
            limit_per_address: config.max_connections_per_address,
            logins_max: config.max_logins,
            knows_users: config.users.is_some(),
            counts: Mutex::default(),
        })
    }

    /// Number of open connections.
    pub fn count(&self) -> usize {
        let counts = self.lock();
        counts.logged_in + counts.logins.len()
    }

    pub(crate) fn admit(self: &Arc<Self>, from: IpAddr, now: Instant) -> Admission {
        let mut counts = self.lock();
        let from_there = counts.by_address.get(&from).copied().unwrap_or(0);
        if from_there >= self.limit_per_address {
            if counts.refusing >= REFUSING_MAX {
                return Admission::Dropped;
            }
            counts.refusing += 1;
            let why = format!(
                "too many connections from {from}: this server takes {} from one address (max-connections-per-address, a flag \
                 of the server)",
                self.limit_per_address
            );
            return Admission::Refused(Counted { of: self.clone(), is: Mutex::new(Is::Refused) }, why);
        }
        if counts.logins.len() >= self.logins_max {
            let before =
                if counts.logins.len() < self.limit { now.checked_sub(LOGIN_MOMENT) } else { Some(now) };
            before.inspect(|before| counts.end_oldest(*before));
        }
        let (id, end) = (counts.next, Arc::new(Notify::new()));
        counts.next += 1;
        counts.logins.insert(id, Login { from, since: now, spoke: false, end: end.clone() });
        *counts.by_address.entry(from).or_default() += 1;
        Admission::Admitted(Counted { of: self.clone(), is: Mutex::new(Is::InLogin { id, from, end }) })
    }

    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Counts {
    /// Ends a connection before its login, and older than `before`, of the address with the most: the oldest whose client
    /// has sent nothing, or the oldest.
    fn end_oldest(&mut self, before: Instant) {
        let mut by_address = HashMap::<IpAddr, usize>::new();
        self.logins.values().for_each(|login| *by_address.entry(login.from).or_default() += 1);
        let order =
            |(&id, login): (&u64, &Login)| (by_address[&login.from], !login.spoke, std::cmp::Reverse(id));
        let old = self.logins.iter().filter(|(_, login)| login.since <= before);
        if let Some((.., std::cmp::Reverse(id))) = old.map(order).max()
            && let Some(login) = self.logins.remove(&id)
        {
            login.end.notify_one();
        }
    }

    fn leaves(&mut self, from: IpAddr) {
        if let Some(n) = self.by_address.get_mut(&from) {
            *n -= 1;
            if *n == 0 {
                self.by_address.remove(&from);
            }
        }
    }
}

/// A connection that counts until it is dropped.
#[derive(Debug)]
pub(crate) struct Counted {
    of: Arc<Connections>,
    is: Mutex<Is>,
}

#[derive(Clone, Debug)]
enum Is {
    /// It only gets an error message.
    Refused,
    /// Its client has not logged in yet.
    InLogin {
        id: u64,
        from: IpAddr,
        end: Arc<Notify>,
    },
    LoggedIn {
        from: IpAddr,
        user: String,
        admin: bool,
    },
}

impl Counted {
    /// Counts the connection for its user after a login. Only the first login of a connection counts.
    ///
    /// # Errors
    ///
    /// If there are too many connections, in all or of this user.
    pub(crate) fn log_in(&self, user: &User) -> Result<(), String> {
        let mut is = self.is.lock().unwrap_or_else(PoisonError::into_inner);
        let Is::InLogin { id, from, .. } = *is else { return Ok(()) };
        let (of, admin) = (&self.of, user.role.admin);
        let mut counts = of.lock();
        let own = counts.by_user.get(&user.name).copied().unwrap_or(0);
        let limit = of.limit - of.reserved;
        if counts.logged_in >= of.limit || !admin && counts.readers >= limit {
            return Err(format!(
                "sorry, too many clients already: this server takes {} connections, of which {} are for administrators \
                 (max-connections and reserved-connections, flags of the server)",
                of.limit, of.reserved
            ));
        }
        let share = limit.saturating_sub(counts.readers.saturating_sub(own)).div_ceil(2).max(SHARE_MIN);
        if of.knows_users && !admin && own >= share {
            return Err(format!(
                "too many connections of user \"{}\": it has {own}, half of those that other users leave (max-connections, a flag of \
                 the server)",
                user.name
            ));
        }
        if counts.logins.remove(&id).is_none() {
            return Err(
                "too many connections in login (max-logins, a flag of the server): connect again".to_owned()
            );
        }
        counts.logged_in += 1;
        counts.readers += usize::from(!admin);
        *counts.by_user.entry(user.name.clone()).or_default() += 1;
        *is = Is::LoggedIn { from, user: user.name.clone(), admin };
        Ok(())
    }

    /// Records that the client has sent something.
    pub(crate) fn spoke(&self) {
        let is = self.is.lock().unwrap_or_else(PoisonError::into_inner);
        if let Is::InLogin { id, .. } = *is
            && let Some(login) = self.of.lock().logins.get_mut(&id)
        {
            login.spoke = true;
        }
    }

    /// Returns true if a client has logged in.
    pub(crate) fn is_logged_in(&self) -> bool {
        matches!(*self.is.lock().unwrap_or_else(PoisonError::into_inner), Is::LoggedIn { .. })
    }

    /// Waits until the connection has to make room for another one.
    pub(crate) async fn ended(&self) {
        let is = self.is.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match is {
            Is::InLogin { end, .. } => end.notified().await,
            _ => std::future::pending().await,
        }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let is = self.is.get_mut().unwrap_or_else(PoisonError::into_inner).clone();
        let mut counts = self.of.lock();
        match is {
            Is::Refused => counts.refusing -= 1,
            Is::InLogin { id, from, .. } => {
                counts.logins.remove(&id);
                counts.leaves(from);
            }
            Is::LoggedIn { from, user, admin } => {
                counts.logged_in -= 1;
                counts.readers -= usize::from(!admin);
                if let Some(n) = counts.by_user.get_mut(&user) {
                    *n -= 1;
                    if *n == 0 {
                        counts.by_user.remove(&user);
                    }
                }
                counts.leaves(from);
            }
        }
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

    fn admitted(connections: &Arc<Connections>, from: &str) -> Result<Counted, String> {
        admitted_at(connections, from, Instant::now())
    }

    fn admitted_at(connections: &Arc<Connections>, from: &str, now: Instant) -> Result<Counted, String> {
        match connections.admit(from.parse().unwrap(), now) {
            Admission::Admitted(counted) => Ok(counted),
            Admission::Refused(_, why) => Err(why),
            Admission::Dropped => Err("dropped".to_owned()),
        }
    }

    #[test]
    fn connections_of_an_address_are_counted_and_refused_with_a_reason() {
        let config = ServeConfig { max_connections_per_address: 2, ..ServeConfig::default() };
        let connections = Connections::new(&config);
        let here = "10.0.0.1";
        let (first, _second) = (admitted(&connections, here).unwrap(), admitted(&connections, here).unwrap());
        assert!(admitted(&connections, here).err().is_some_and(|why| why.contains(here)));
        let _third = admitted(&connections, "10.0.0.2").unwrap();
        drop(first);
        assert_eq!(connections.count(), 2);
        let _fourth = admitted(&connections, here).unwrap();
        let refused: Vec<_> =
            (0..REFUSING_MAX).map(|_| connections.admit(here.parse().unwrap(), Instant::now())).collect();
        assert!(matches!(connections.admit(here.parse().unwrap(), Instant::now()), Admission::Dropped));
        drop(refused);
        assert!(matches!(connections.admit(here.parse().unwrap(), Instant::now()), Admission::Refused(..)));
    }

    #[test]
    fn connections_of_users_leave_room_for_others_and_for_administrators() {
        let users = Some("users.toml".into());
        let config =
            ServeConfig { max_connections: 40, reserved_connections: 4, users, ..ServeConfig::default() };
        let connections = Connections::new(&config);
        let logged_in = |of: &User, wanted: usize| -> Vec<Counted> {
            let one = |_| admitted(&connections, "10.0.0.1").unwrap();
            (0..wanted).map(one).take_while(|one| one.log_in(of).is_ok()).collect()
        };
        let (ann, bob, root) = (user("ann", false), user("bob", false), user("root", true));
        let (anns, bobs) = (logged_in(&ann, 100), logged_in(&bob, 100));
        assert_eq!((anns.len(), bobs.len()), (18, 9));
        let others: Vec<_> = (0..20).map(|n| logged_in(&user(&n.to_string(), false), 100)).collect();
        assert_eq!(others.iter().map(Vec::len).sum::<usize>(), 9);
        assert_eq!(logged_in(&root, 100).len(), 4);
        drop((anns, bobs, others));
        assert_eq!(connections.count(), 0);
        let connections = Connections::new(&ServeConfig { users: None, ..config });
        let all: Vec<_> = (0..36).map(|_| admitted(&connections, "10.0.0.1").unwrap()).collect();
        assert!(all.iter().all(|one| one.log_in(&ann).is_ok()), "names that any client may give");
    }

    #[test]
    fn strangers_make_room_for_those_who_come_later() {
        let config = ServeConfig {
            max_logins: 3,
            max_connections: 30,
            reserved_connections: 0,
            ..ServeConfig::default()
        };
        let connections = Connections::new(&config);
        let begun = Instant::now();
        let at = |seconds: u64| begun + Duration::from_secs(seconds);
        let other = admitted_at(&connections, "10.0.0.2", begun).unwrap();
        let many: Vec<_> =
            (0..50).map(|n| admitted_at(&connections, "10.0.0.1", at(2 * n)).unwrap()).collect();
        assert_eq!(connections.count(), 3);
        assert!(other.ended().now_or_never().is_none(), "of an address with fewer");
        assert!(many[0].ended().now_or_never().is_some() && many[49].ended().now_or_never().is_none());
        assert!(many[0].log_in(&user("ann", false)).is_err() && many[49].log_in(&user("ann", false)).is_ok());
        assert!(other.log_in(&user("ann", false)).is_ok() && other.is_logged_in());
        drop((many, other));
        assert_eq!((connections.count(), connections.lock().by_address.len()), (0, 0));
        // Clients that come at the same time are not strangers yet.
        let many: Vec<_> = (0..50).map(|_| admitted_at(&connections, "10.0.0.1", begun).unwrap()).collect();
        assert_eq!(connections.count(), 30);
        assert!(many[20..].iter().all(|one| one.log_in(&user("ann", false)).is_ok()));
    }
}
