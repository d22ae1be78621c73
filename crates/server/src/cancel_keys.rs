//! Sessions of PostgreSQL's protocol, by the number and the secret in cancel requests.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use bytes::Bytes;
use pgwire::api::{ClientInfo, PidSecretKeyGenerator, RandomPidSecretKeyGenerator};
use pgwire::messages::cancel::CancelRequest;
use pgwire::messages::startup::SecretKey;

use crate::sql::{SessionEntry, Stop};

/// A session's number and secret.
type Key = (i32, Bytes);

/// The sessions by number and secret.
#[derive(Debug, Default)]
pub(crate) struct CancelKeys {
    numbers: RandomPidSecretKeyGenerator,
    entries: Mutex<HashMap<Key, Weak<SessionEntry>>>,
}

impl CancelKeys {
    /// Stops the current request of a session, if there is one and the secret matches.
    pub(crate) fn cancel(&self, request: &CancelRequest) {
        let key = (request.pid, request.secret_key.to_bytes());
        let entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(entry) = entries.get(&key).and_then(Weak::upgrade) {
            entry.stop(Stop::User);
        }
    }

    /// Gives a session a number and a secret.
    pub(crate) fn add(&self, client: &dyn ClientInfo, entry: &Arc<SessionEntry>) -> (i32, SecretKey) {
        let (number, secret) = self.numbers.generate(client);
        let mut all = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        // Ended sessions are removed whenever the number of sessions reaches a power of two.
        if all.len() >= 64 && all.len().is_power_of_two() {
            all.retain(|_, entry| entry.strong_count() > 0);
        }
        all.insert((number, secret.to_bytes()), Arc::downgrade(entry));
        (number, secret)
    }
}
