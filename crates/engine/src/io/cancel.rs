//! Cancellation of a read.

use std::fmt;
use std::sync::Arc;

use tokio::sync::watch;

/// Tells a reader that its result is unwanted.
#[derive(Clone)]
pub struct Cancel {
    cancelled: Arc<watch::Sender<bool>>,
}

impl Default for Cancel {
    fn default() -> Self {
        Cancel { cancelled: Arc::new(watch::Sender::new(false)) }
    }
}

impl fmt::Debug for Cancel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Cancel").field(&self.is_cancelled()).finish()
    }
}

impl Cancel {
    /// Cancels.
    pub(crate) fn cancel(&self) {
        self.cancelled.send_replace(true);
    }

    /// Returns whether it was cancelled.
    pub fn is_cancelled(&self) -> bool {
        *self.cancelled.borrow()
    }

    /// Completes when it is cancelled.
    pub async fn cancelled(&self) {
        let mut receiver = self.cancelled.subscribe();
        // Cannot fail: `self` holds the sender.
        let _ = receiver.wait_for(|cancelled| *cancelled).await;
    }
}
