//! A value that several tasks need and that is computed once.
//!
//! Every waiting task drives the computation when it is polled. So a first task that is not polled again
//! delays no other task, unlike with `tokio::sync::OnceCell`.

use std::fmt;
use std::sync::{Arc, OnceLock};

use datafusion::common::{DataFusionError, Result};
use futures::FutureExt;
use futures::future::{BoxFuture, Shared};

type Making<T> = Shared<BoxFuture<'static, Result<T, Arc<DataFusionError>>>>;

/// A value that several tasks need and that is computed once. Every waiting task drives the computation, so a
/// first task that is not polled again delays no other task.
pub struct MadeOnce<T> {
    making: OnceLock<Making<T>>,
}

impl<T> fmt::Debug for MadeOnce<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MadeOnce").field("begun", &self.making.get().is_some()).finish()
    }
}

impl<T: Clone + Send + Sync + 'static> Default for MadeOnce<T> {
    fn default() -> Self {
        MadeOnce::new()
    }
}

impl<T: Clone + Send + Sync + 'static> MadeOnce<T> {
    /// Creates an empty value.
    pub fn new() -> Self {
        MadeOnce { making: OnceLock::new() }
    }

    /// Wraps a value that exists.
    pub(crate) fn made(value: T) -> Self {
        MadeOnce { making: OnceLock::from(async { Ok(value) }.boxed().shared()) }
    }

    /// Returns the value. Only the first caller's `make` is called.
    ///
    /// # Errors
    ///
    /// If the computation fails. All callers get the same error.
    pub async fn get<F>(&self, make: impl FnOnce() -> F) -> Result<T>
    where
        F: Future<Output = Result<T>> + Send + 'static,
    {
        let making = self.making.get_or_init(|| make().map(|made| made.map_err(Arc::new)).boxed().shared());
        making.clone().await.map_err(DataFusionError::Shared)
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    #[tokio::test]
    async fn who_began_and_is_left_alone_keeps_nobody_waiting() {
        let (send, receive) = tokio::sync::oneshot::channel();
        let made = MadeOnce::new();
        let mut first = pin!(made.get(|| async { Ok(receive.await.unwrap_or(0)) }));
        assert!(matches!(first.as_mut().poll(&mut Context::from_waker(Waker::noop())), Poll::Pending));
        send.send(7).unwrap();
        assert_eq!(made.get(|| async { Ok(8) }).await.unwrap(), 7);
        assert_eq!(first.await.unwrap(), 7);
    }

    #[tokio::test]
    async fn a_failure_is_everybodys() {
        let made = MadeOnce::<u8>::new();
        for _ in 0..2 {
            let error = made.get(|| async { Err(DataFusionError::Execution("no".to_owned())) }).await;
            assert!(error.unwrap_err().to_string().contains("no"));
        }
    }
}
