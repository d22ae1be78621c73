//! Which sessions can be stopped, by what their clients were told to show for it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use bytes::Bytes;
use pgwire::api::{ClientInfo, PidSecretKeyGenerator, RandomPidSecretKeyGenerator};
use pgwire::messages::cancel::CancelRequest;
use pgwire::messages::startup::SecretKey;

use crate::sql::{Cancel, Stop};

/// A session's number and secret.
type Key = (i32, Bytes);
/// What stops the statement that a session runs now.
type Running = Mutex<Cancel>;

/// The sessions of this protocol.
#[derive(Debug, Default)]
pub(crate) struct Sessions {
    numbers: RandomPidSecretKeyGenerator,
    running: Mutex<HashMap<Key, Weak<Running>>>,
}

impl Sessions {
    /// Stops what a session runs, if the request shows the session's secret.
    pub(crate) fn cancel(&self, request: &CancelRequest) {
        let key = (request.pid, request.secret_key.to_bytes());
        let found =
            self.running.lock().unwrap_or_else(PoisonError::into_inner).get(&key).and_then(Weak::upgrade);
        if let Some(running) = found {
            running.lock().unwrap_or_else(PoisonError::into_inner).stop(Stop::User);
        }
    }

    /// Gives a session a number and a secret.
    pub(crate) fn add(&self, client: &dyn ClientInfo, running: &Arc<Running>) -> (i32, SecretKey) {
        let (number, secret) = self.numbers.generate(client);
        let mut all = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        // Those that have ended go whenever there are twice as many.
        if all.len() >= 64 && all.len().is_power_of_two() {
            all.retain(|_, running| running.strong_count() > 0);
        }
        all.insert((number, secret.to_bytes()), Arc::downgrade(running));
        (number, secret)
    }
}
