//! Limits on the number of connections, in all and per address.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use crate::config::ServeConfig;

/// Maximum number of connections beyond the limit that get an error message. Further ones are closed without a
/// message.
const REFUSING_MAX: usize = 64;

/// The connections of a server.
#[derive(Debug)]
pub struct Connections {
    limit: usize,
    limit_per_address: usize,
    counts: Mutex<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    all: usize,
    refusing: usize,
    by_address: HashMap<IpAddr, usize>,
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
            limit_per_address: config.max_connections_per_address,
            counts: Mutex::default(),
        })
    }

    /// Number of open connections.
    pub fn count(&self) -> usize {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner).all
    }

    pub(crate) fn admit(self: &Arc<Self>, from: IpAddr) -> Admission {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let from_there = counts.by_address.get(&from).copied().unwrap_or(0);
        let why = if counts.all >= self.limit {
            format!(
                "sorry, too many clients already: this server takes {} connections (max-connections, a flag of the server)",
                self.limit
            )
        } else if from_there >= self.limit_per_address {
            format!(
                "too many connections from {from}: this server takes {} from one address (max-connections-per-address, a flag \
                 of the server)",
                self.limit_per_address
            )
        } else {
            counts.all += 1;
            *counts.by_address.entry(from).or_default() += 1;
            return Admission::Admitted(Counted { of: self.clone(), admitted: Some(from) });
        };
        if counts.refusing >= REFUSING_MAX {
            return Admission::Dropped;
        }
        counts.refusing += 1;
        Admission::Refused(Counted { of: self.clone(), admitted: None }, why)
    }
}

/// A connection that counts until it is dropped.
pub(crate) struct Counted {
    of: Arc<Connections>,
    /// The client's address. `None` for a connection that only gets an error message.
    admitted: Option<IpAddr>,
}

impl Drop for Counted {
    fn drop(&mut self) {
        let mut counts = self.of.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(from) = self.admitted else {
            counts.refusing -= 1;
            return;
        };
        counts.all -= 1;
        if let Some(n) = counts.by_address.get_mut(&from) {
            *n -= 1;
            if *n == 0 {
                counts.by_address.remove(&from);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_counted_and_refused_with_a_reason() {
        let config =
            ServeConfig { max_connections: 3, max_connections_per_address: 2, ..ServeConfig::default() };
        let connections = Connections::new(&config);
        let (a, b): (IpAddr, IpAddr) = ("10.0.0.1".parse().unwrap(), "10.0.0.2".parse().unwrap());
        let admitted = |from| match connections.admit(from) {
            Admission::Admitted(counted) => Ok(counted),
            Admission::Refused(_, why) => Err(why),
            Admission::Dropped => Err("dropped".to_owned()),
        };
        let (first, _second) = (admitted(a).unwrap(), admitted(a).unwrap());
        assert!(admitted(a).err().is_some_and(|why| why.contains("10.0.0.1")));
        let _third = admitted(b).unwrap();
        assert!(admitted(b).err().is_some_and(|why| why.contains("takes 3")));
        drop(first);
        assert_eq!(connections.count(), 2);
        let _fourth = admitted(a).unwrap();
        let refused: Vec<_> = (0..REFUSING_MAX).map(|_| connections.admit(a)).collect();
        assert!(matches!(connections.admit(a), Admission::Dropped));
        drop(refused);
        assert!(matches!(connections.admit(a), Admission::Refused(..)));
    }
}
