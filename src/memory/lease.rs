//! Leases: memory that something names for longer than a call.

use std::sync::Arc;

use super::{Allocation, Lessee};
use crate::backend::Backend;

/// Memory that something names: its owner does not get it back until this is dropped.
pub struct Lease<B: Backend> {
    by: Lessee,
    allocation: Arc<Allocation<B>>,
}

impl<B: Backend> Lease<B> {
    /// `None` for lent memory: its loan ends by itself.
    pub(crate) fn new(by: Lessee, allocation: &Arc<Allocation<B>>) -> Option<Self> {
        let may = allocation.order.lease(by);
        may.then(|| Self { by, allocation: allocation.clone() })
    }

    /// The memory.
    pub fn allocation(&self) -> &Arc<Allocation<B>> {
        &self.allocation
    }
}

impl<B: Backend> Drop for Lease<B> {
    fn drop(&mut self) {
        self.allocation.order.release(self.by);
    }
}
