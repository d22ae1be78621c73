//! Memory limits for the values of expressions.
//!
//! The query engine accounts for the state of operators, but not for the results of expressions: `repeat('x',
//! 2000000000)` has a few letters and makes two gigabytes. Functions whose results can be much larger than their
//! arguments therefore compute the size first. The result is reserved in the user's memory until it is dropped.
//! Constants are computed during planning and belong to the plan. They have a limit of their own.
//!
//! | module | contents |
//! |---|---|
//! | `growth` | bytes of a function's result, from its arguments |
//! | `function` | a function that reserves its result |
//! | `rule` | rewrites operators and constants in plans to such functions |
//!
//! Functions whose results are no larger than their arguments are not changed: the data that was read bounds their
//! results.

mod function;
mod growth;
mod rule;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use datafusion::arrow::array::{Array, ArrayData, ArrayRef, make_array};
use datafusion::arrow::buffer::Buffer;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation};
use datafusion::logical_expr::ColumnarValue;
use datafusion::prelude::SessionContext;

pub(crate) use rule::{BoundConstants, BoundOperators};

/// Smaller results are not reserved: each operator has one of them at a time.
const SMALL: usize = 4 << 20;
/// Maximum bytes of all constants that are computed while a statement is planned.
const CONSTANTS_MAX: usize = 64 << 20;

/// Returns true if every argument is the same for all rows.
pub(crate) fn are_constants(args: &[ColumnarValue]) -> bool {
    args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)))
}

/// The pool in which the results of a session's expressions are reserved.
#[derive(Debug)]
pub(crate) struct Room {
    pool: Arc<dyn MemoryPool>,
    constants: AtomicUsize,
}

impl Room {
    /// Room in this pool.
    pub(crate) fn in_pool(pool: Arc<dyn MemoryPool>) -> Arc<Self> {
        Arc::new(Room { pool, constants: AtomicUsize::new(0) })
    }

    /// Replaces the session's functions whose results can be much larger than their arguments.
    pub(crate) fn bound_functions(self: &Arc<Self>, context: &SessionContext) {
        let state = context.state();
        let known = state.scalar_functions().iter().filter(|(name, of)| **name == of.name());
        for function in known.filter_map(|(_, of)| function::bounded(of, self)) {
            context.register_udf(function);
        }
    }

    /// Resets the count of constants at the beginning of a statement.
    pub(crate) fn begins(&self) {
        self.constants.store(0, Ordering::Relaxed);
    }

    /// Reserves `bytes` and runs a function that makes them.
    fn hold(
        &self,
        function: &str,
        bytes: usize,
        constant: bool,
        make: impl FnOnce() -> Result<ColumnarValue>,
    ) -> Result<ColumnarValue> {
        if bytes < SMALL {
            return make();
        }
        if constant {
            self.constant(function, bytes)?;
        }
        let reservation = MemoryConsumer::new(format!("{function}()")).register(&self.pool);
        reservation.try_grow(bytes)?;
        match make()? {
            ColumnarValue::Array(array) => {
                reservation.try_resize(array.get_buffer_memory_size())?;
                Ok(ColumnarValue::Array(held(&array, &Arc::new(reservation))?))
            }
            scalar => Ok(scalar),
        }
    }

    fn constant(&self, function: &str, bytes: usize) -> Result<()> {
        let before = self.constants.fetch_add(bytes, Ordering::Relaxed);
        if before.saturating_add(bytes) <= CONSTANTS_MAX {
            return Ok(());
        }
        self.constants.fetch_sub(bytes, Ordering::Relaxed);
        Err(DataFusionError::ResourcesExhausted(format!(
            "{function}() would make a constant of {bytes} bytes, but all constants of a statement together may have \
             {CONSTANTS_MAX} bytes: make it smaller. This limit is fixed; values computed from columns are limited by \
             user-memory instead"
        )))
    }
}

/// A buffer and its memory reservation.
struct Held(Buffer, #[expect(dead_code, reason = "held until the buffer is dropped")] Arc<MemoryReservation>);

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// The same array. The reservation ends with the last of its buffers.
fn held(array: &ArrayRef, reservation: &Arc<MemoryReservation>) -> Result<ArrayRef> {
    Ok(make_array(held_data(array.to_data(), reservation)?))
}

fn held_data(data: ArrayData, reservation: &Arc<MemoryReservation>) -> Result<ArrayData> {
    let buffer = |buffer: &Buffer| Buffer::from(Bytes::from_owner(Held(buffer.clone(), reservation.clone())));
    let buffers = data.buffers().iter().map(buffer).collect();
    let children = data.child_data().iter().map(|child| held_data(child.clone(), reservation));
    let children = children.collect::<Result<Vec<_>>>()?;
    Ok(data.into_builder().buffers(buffers).child_data(children).build()?)
}
