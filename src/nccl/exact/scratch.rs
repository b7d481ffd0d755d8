//! The memory between the steps of exact sums.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use crate::Result;
use crate::backend::{AllocKind, Allocation, Streams};
use crate::cuda::{CudaBackend, CudaStream};
use crate::nccl::comm::Comm;
use crate::nccl::watch;

/// What messages need whose operands are not copied.
const MOST: usize = 64 << 20;

/// A communicator's memory for exact sums. Its uses follow each other, on any streams.
#[derive(Default)]
pub(in crate::nccl) struct Scratch {
    /// The one in use is the last. Graphs name those before it.
    memory: RefCell<Vec<Arc<Allocation<CudaBackend>>>>,
    /// The size of the last one.
    bytes: Cell<usize>,
    /// Whether a graph names the last one.
    is_captured: Cell<bool>,
    /// The stream of the last use.
    last: RefCell<Option<Arc<CudaStream>>>,
}

impl Scratch {
    /// Makes it as large as this, if it is smaller.
    pub(super) fn reserve(&self, comm: &Comm, bytes: usize) -> Result<()> {
        if bytes <= self.bytes.get() {
            return Ok(());
        }
        // In powers of two, so that it seldom grows.
        let grown = bytes.next_power_of_two().min(bytes.max(MOST));
        let made = Allocation::new(comm.gpu.ordinal(), grown, AllocKind::Plain)?;
        let mut memory = self.memory.borrow_mut();
        let old = if self.is_captured.take() { None } else { memory.pop() };
        memory.push(made);
        self.bytes.set(grown);
        drop(memory);
        let Some(old) = old else { return Ok(()) };
        // Released once the enqueued work has passed it.
        let last = self.last.borrow();
        match last.iter().map(CudaBackend::point).collect::<Result<Vec<_>>>() {
            Ok(points) => watch::quarantine_until(vec![old], points),
            // It stays until the communicator ends.
            Err(_) => self.memory.borrow_mut().insert(0, old),
        }
        Ok(())
    }

    /// Orders later work on `stream` after the last use, and makes it the last one.
    pub(in crate::nccl) fn order(&self, stream: &Arc<CudaStream>) -> Result<()> {
        if self.bytes.get() == 0
            || self.last.borrow().as_ref().is_some_and(|last| Arc::ptr_eq(last, stream))
        {
            return Ok(());
        }
        match self.last.replace(Some(stream.clone())) {
            Some(last) => stream.after(last.handle().cast()),
            None => Ok(()),
        }
    }

    /// Its address, for a use in a graph or at once.
    pub(super) fn start(&self, captured: bool) -> u64 {
        if captured {
            self.is_captured.set(true);
        }
        let memory = self.memory.borrow();
        memory.last().map_or(0, |memory| memory.block().address().expose_provenance() as u64)
    }

    /// The memory, which enqueued work may still use.
    pub(in crate::nccl) fn take(&self) -> Vec<Arc<Allocation<CudaBackend>>> {
        self.bytes.set(0);
        self.memory.take()
    }
}
