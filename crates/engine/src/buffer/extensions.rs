//! Extensions: values that hosts keep with an engine, so that all of its users share them. The engine does
//! not use them.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, PoisonError};

use crate::sync::Mutex;

/// At most one value of each type.
#[derive(Default)]
pub(crate) struct Companions {
    known: Mutex<HashMap<TypeId, Arc<dyn Any + Send + Sync>>>,
}

impl fmt::Debug for Companions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Companions")
    }
}

impl Companions {
    /// The value of this type, made by `make` if there is none.
    pub(crate) fn get<T: Send + Sync + 'static>(&self, make: impl FnOnce() -> T) -> Arc<T> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let found = known.get(&TypeId::of::<T>()).cloned().and_then(|found| found.downcast::<T>().ok());
        found.unwrap_or_else(|| {
            let made = Arc::new(make());
            known.insert(TypeId::of::<T>(), made.clone());
            made
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_one_of_each_type() {
        let companions = Companions::default();
        assert_eq!(*companions.get(|| 7u32), 7);
        assert_eq!((*companions.get(|| 8u32), *companions.get(|| 8u64)), (7, 8));
    }
}
