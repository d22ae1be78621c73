//! Future references, and for each the position of the next reference to its page.
//!
//! A future is computed once per reference string and shared by all policies that use it.

use std::sync::Arc;

use crate::error::PageSetupError;
use crate::ids::PageSlot;

/// A reference string. Each reference has the position of the next one to the same page. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Future {
    references: Arc<[PageSlot]>,
    next: Arc<[u32]>,
}

impl Future {
    /// The next use of a page that is not referenced again.
    pub const NEVER: u32 = u32::MAX;

    /// The future that consists of `references`. Cost: linear.
    ///
    /// # Errors
    /// [`PageSetupError::FutureTooLong`] if positions do not fit 32 bits.
    pub fn new(references: Arc<[PageSlot]>) -> Result<Self, PageSetupError> {
        if references.len() >= Self::NEVER as usize {
            return Err(PageSetupError::FutureTooLong { references: references.len() });
        }
        let slots = references.iter().max().map_or(0, |page| page.0 as usize + 1);
        let mut seen = vec![Self::NEVER; slots];
        let mut next = vec![Self::NEVER; references.len()];
        for (position, page) in references.iter().enumerate().rev() {
            next[position] = std::mem::replace(&mut seen[page.0 as usize], position as u32);
        }
        Ok(Future { references, next: next.into() })
    }

    /// All references, in order.
    pub fn references(&self) -> &[PageSlot] {
        &self.references
    }

    /// For each reference, the position of the next one to its page, or [`NEVER`](Self::NEVER).
    pub fn next_uses(&self) -> &[u32] {
        &self.next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reference_knows_the_next_to_its_page() {
        let pages: Vec<PageSlot> = [3, 0, 3, 3, 1, 0].map(PageSlot).into();
        let future = Future::new(pages.into()).unwrap();
        let never = Future::NEVER;
        assert_eq!(future.next_uses(), [2, 5, 3, never, never, never]);
        assert_eq!(Future::new(Arc::default()).unwrap().next_uses(), [0_u32; 0]);
    }
}
