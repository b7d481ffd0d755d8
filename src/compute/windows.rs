//! Windows as arguments of launches.

use std::sync::Arc;

use super::arguments::{Argument, Shown};
use crate::DType;
use crate::backend::Backend;
use crate::device_comm::Shared;
use crate::memory::Allocation;

/// How a kernel declares a window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reach {
    /// The whole window.
    Whole,
    /// The whole window, which the kernel writes.
    Written,
    /// Part of the window; the kernel receives its offset.
    Part,
}

/// A window held by a queue.
pub struct HeldWindow<B: Backend> {
    pub(crate) allocation: Arc<Allocation<B>>,
    pub(crate) shared: Arc<Shared<B>>,
    /// The range of elements, the same in every rank's part.
    pub(crate) start: usize,
    pub(crate) len: usize,
    pub(crate) reach: Reach,
    pub(crate) dtype: DType,
    pub(crate) peers: B::Peers,
}

impl<B: Backend> std::fmt::Debug for HeldWindow<B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "a window of {} {} at {:?}", self.len, self.dtype, Arc::as_ptr(&self.allocation))
    }
}

impl<B: Backend> Argument<B> for HeldWindow<B> {
    type Held = Self;

    fn show(&self) -> Shown<'_, B> {
        Shown::Windowed(self)
    }

    fn hold(self) -> Self {
        self
    }
}
