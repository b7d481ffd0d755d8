//! A recording: validated steps in order, and the memory that they use.

use std::collections::HashMap;
use std::sync::Arc;

use crate::Result;
use crate::backend::{
    Backend, Collective, KernelWork, Lifecycle, Op, Piece, Refusal, Span, Wait, form, uses,
};
use crate::communicator::CallConfig;
use crate::error::{Call, CaptureFault, Error, NotCapturable, Site};
use crate::kernels::Launch;
use crate::memory::{Allocation, Lease, Lessee, Order, Uses};

/// A recording in progress.
pub(crate) struct Recording<B: Backend> {
    pub(super) steps: Vec<Step<B>>,
    pub(super) leases: Leases<B>,
    /// Why the capture fails.
    pub(super) error: Option<Error>,
}

/// One step of a graph.
pub(super) enum Step<B: Backend> {
    /// Operations issued together.
    Operations(Vec<Kept<B>>, Vec<Refusal>),
    /// A closure of the program, or a copy.
    Work(Work<B>),
    /// One of this library's own kernels.
    Kernel(Kernel<B>),
}

/// A kernel launch that keeps its memory alive.
pub(super) struct Kernel<B: Backend> {
    pub(super) call: Call,
    pub(super) work: KernelWork,
    pub(super) pieces: Vec<Piece>,
    uses: Vec<(Arc<Allocation<B>>, bool)>,
}

/// Work without a communicator.
pub(super) struct Work<B: Backend> {
    pub(super) uses: Vec<(Arc<Allocation<B>>, bool)>,
    pub(super) enqueue: Enqueue<B>,
}

/// Enqueues the work again.
pub(crate) type Enqueue<B> =
    Box<dyn Fn(&<B as crate::backend::Streams>::Stream) -> Result<()> + Send>;

/// An operation that keeps its memory alive.
pub(super) type Kept<B> =
    form::Op<HeldSpan<B>, <B as Lifecycle>::Operator, form::Target, Box<CallConfig>>;

/// A span that keeps its memory alive.
pub(super) struct HeldSpan<B: Backend> {
    allocation: Arc<Allocation<B>>,
    offset: usize,
    len: usize,
}

impl<B: Backend> HeldSpan<B> {
    fn of(span: &Span<'_, B>) -> Self {
        Self { allocation: span.allocation().clone(), offset: span.offset(), len: span.len() }
    }

    fn span(&self) -> Span<'_, B> {
        // SAFETY: these are the allocation, offset and length of a valid span.
        unsafe { Span::new(&self.allocation, self.offset, self.len) }
    }
}

/// Copies an operation so that it keeps its operands alive.
fn keep<B: Backend>(op: &Op<'_, B>) -> Kept<B> {
    let mut kept = op.map(
        |span, _| HeldSpan::of(span),
        |operator| (*operator).clone(),
        |target| *target,
        |config| Box::new((*config).clone()),
    );
    if let Some(slot) = kept.slot_mut() {
        // Signals in graphs are separate from all others.
        slot.captured = true;
    }
    kept
}

/// Borrows a kept operation.
pub(super) fn lend<B: Backend>(kept: &Kept<B>) -> Op<'_, B> {
    kept.map(|part, _| part.span(), |operator| operator, |target| *target, |config| &**config)
}

/// The memory that a graph uses: each allocation once, with whether it is written.
pub(crate) struct Leases<B: Backend> {
    by: Lessee,
    all: Vec<Named<B>>,
    /// Indices into `all`, by address.
    known: HashMap<usize, usize>,
}

struct Named<B: Backend> {
    lease: Lease<B>,
    write: bool,
}

impl<B: Backend> Leases<B> {
    pub(crate) fn new(by: Lessee) -> Self {
        Self { by, all: Vec::new(), known: HashMap::new() }
    }

    /// Adds memory that the caller holds, so that no other thread records a use of it meanwhile.
    pub(crate) fn add(
        &mut self,
        comm: &B::Comm,
        allocation: &Arc<Allocation<B>>,
        write: bool,
    ) -> Result<(), CaptureFault> {
        let at = *self.known.entry(Arc::as_ptr(allocation).addr()).or_insert(self.all.len());
        if let Some(known) = self.all.get_mut(at) {
            known.write |= write;
            return Ok(());
        }
        let lease = Lease::new(self.by, allocation).ok_or(CaptureFault::Lent)?;
        self.all.push(Named { lease, write });
        B::lease(comm, allocation);
        Ok(())
    }

    pub(super) fn allocations(&self) -> impl Iterator<Item = &Arc<Allocation<B>>> {
        self.all.iter().map(|named| named.lease.allocation())
    }
}

impl<B: Backend> Uses<B> for &Leases<B> {
    fn each(&self, mut each: impl FnMut(&Order<B>, bool) -> Result<()>) -> Result<()> {
        self.all.iter().try_for_each(|named| each(&named.lease.allocation().order, named.write))
    }
}

impl<B: Backend> Uses<B> for &Work<B> {
    fn each(&self, mut each: impl FnMut(&Order<B>, bool) -> Result<()>) -> Result<()> {
        self.uses.iter().try_for_each(|(allocation, write)| each(&allocation.order, *write))
    }
}

impl<B: Backend> Uses<B> for &Kernel<B> {
    fn each(&self, mut each: impl FnMut(&Order<B>, bool) -> Result<()>) -> Result<()> {
        self.uses.iter().try_for_each(|(allocation, write)| each(&allocation.order, *write))
    }
}

impl<B: Backend> Recording<B> {
    pub(super) fn new() -> Self {
        Self { steps: Vec::new(), leases: Leases::new(Lessee::Graph), error: None }
    }

    /// Fails the capture; the first reason is kept.
    pub(crate) fn fail(&mut self, error: Error) -> Error {
        self.error.get_or_insert_with(|| error.clone());
        error
    }

    /// Records operations that are issued together.
    pub(crate) fn operations(
        &mut self,
        comm: &B::Comm,
        ops: &[Op<'_, B>],
        refusals: &[Refusal],
    ) -> Result<()> {
        for op in ops {
            let fault = match op {
                Op::Wait(Wait { count, peer, .. }) if *count > 1 => {
                    CaptureFault::SeveralSignals { peer: *peer, count: *count }
                }
                Op::Collective(Collective { config: Some(config), .. }) if config.has_event() => {
                    CaptureFault::LaunchEvent
                }
                _ => continue,
            };
            let call = op.call();
            return Err(self.not_capturable(call.operation.name(), fault, call.site));
        }
        if let Some(error) = ops.iter().find_map(|op| B::can_capture(comm, op).err()) {
            return Err(self.fail(error));
        }
        for op in ops {
            let call = op.call();
            for (allocation, write) in uses(op) {
                if let Err(fault) = self.leases.add(comm, allocation, write) {
                    return Err(self.not_capturable(call.operation.name(), fault, call.site));
                }
            }
        }
        let kept = ops.iter().map(keep).collect();
        self.steps.push(Step::Operations(kept, refusals.to_vec()));
        Ok(())
    }

    /// Records work without a communicator.
    pub(crate) fn work(
        &mut self,
        comm: &B::Comm,
        operation: &'static str,
        uses: Vec<(Arc<Allocation<B>>, bool)>,
        enqueue: Enqueue<B>,
        site: Site,
    ) -> Result<()> {
        for (allocation, write) in &uses {
            if let Err(fault) = self.leases.add(comm, allocation, *write) {
                return Err(self.not_capturable(operation, fault, site));
            }
        }
        self.steps.push(Step::Work(Work { uses, enqueue }));
        Ok(())
    }

    /// Records a kernel.
    pub(crate) fn kernel(&mut self, comm: &B::Comm, launch: &Launch<'_, B>) -> Result<()> {
        let Launch { call, work, pieces, uses, .. } = launch;
        for (allocation, write) in *uses {
            if let Err(fault) = self.leases.add(comm, allocation, *write) {
                return Err(self.not_capturable(call.operation.name(), fault, call.site));
            }
        }
        let uses = uses.iter().map(|(allocation, write)| ((*allocation).clone(), *write)).collect();
        let kernel = Kernel { call: *call, work: *work, pieces: pieces.to_vec(), uses };
        self.steps.push(Step::Kernel(kernel));
        Ok(())
    }

    fn not_capturable(
        &mut self,
        operation: &'static str,
        fault: CaptureFault,
        site: Site,
    ) -> Error {
        self.fail(Error::NotCapturable(Box::new(NotCapturable { operation, fault, site })))
    }
}
