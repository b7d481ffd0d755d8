//! Registration: collective, compared across ranks, all or nothing.

use std::sync::Arc;

use super::{Lens, Named, Symmetric, Window, WindowKind};
use crate::backend::{Backend, Windows};
use crate::communicator::{CanEnqueue, Live, Registered, SharedLens, State};
use crate::control::Topic;
use crate::error::{BadWindow, Error, Failed, OtherDevice, Site, WindowFault, WindowsDiffer};
use crate::memory::Allocation;
use crate::{Buffer, Communicator, Device, Element, NcclMem, Result, WindowMemory, World, wait};

/// # Memory
///
/// Windows: memory that peers may put into. All ranks register them together.
impl<W: World, S: State> Communicator<W, S> {
    /// Allocates `len` zeroed elements and registers them as a symmetric window. All ranks call it
    /// with one length and type, in the same order among their registrations; the host waits for
    /// them. NCCL: `ncclMemAlloc` and `ncclCommWindowRegister`, 2.27.
    ///
    /// # Errors
    /// [`Error::WindowsDiffer`] on all ranks: lengths, types or kinds differ, or a rank has no
    /// memory; then nothing is registered. A lost peer; a passed deadline.
    #[track_caller]
    pub fn window<T: Element>(&mut self, len: usize) -> Result<Window<T, W>>
    where
        S: CanEnqueue,
    {
        let site = Site::caller();
        self.allocate(len, false, site)
    }

    /// [`window`](Self::window) with a length that may differ by rank; `window.len_at(rank)` gives
    /// it.
    ///
    /// # Errors
    /// As there.
    #[track_caller]
    pub fn window_uneven<T: Element>(&mut self, len: usize) -> Result<Window<T, W>>
    where
        S: CanEnqueue,
    {
        let site = Site::caller();
        self.allocate(len, true, site)
    }

    /// Registers a buffer of NCCL memory as a symmetric window. Collective, as
    /// [`window`](Self::window).
    ///
    /// # Errors
    /// As there, and where the ranks' memory begins at different bytes of its allocations;
    /// [`Error::BadWindow`] for a [part](Buffer::split_at) that no window can begin with; the
    /// buffer is lost. [`try_register_window_as`](Self::try_register_window_as) gives
    /// it back.
    #[track_caller]
    pub fn register_window<T: Element, M: WindowMemory>(
        &mut self,
        buffer: Buffer<T, W::Device, M>,
    ) -> Result<Window<T, W>>
    where
        S: CanEnqueue,
    {
        Ok(self.try_register_window_as(buffer, Symmetric)?)
    }

    /// Registers a buffer of NCCL memory as a window of `kind`:
    /// `comm.register_window_as(buffer, LocalOnly)`. Collective, as [`window`](Self::window).
    ///
    /// # Errors
    /// As [`register_window`](Self::register_window).
    #[track_caller]
    pub fn register_window_as<T: Element, M: WindowMemory, K: WindowKind>(
        &mut self,
        buffer: Buffer<T, W::Device, M>,
        kind: K,
    ) -> Result<Window<T, W, K>>
    where
        S: CanEnqueue,
    {
        Ok(self.try_register_window_as(buffer, kind)?)
    }

    /// [`register_window_as`](Self::register_window_as) that gives the buffer back when it fails.
    ///
    /// # Errors
    /// As there.
    #[track_caller]
    pub fn try_register_window_as<T: Element, M: WindowMemory, K: WindowKind>(
        &mut self,
        buffer: Buffer<T, W::Device, M>,
        _kind: K,
    ) -> Result<Window<T, W, K>, Failed<Buffer<T, W::Device, M>>>
    where
        S: CanEnqueue,
    {
        self.register_at(&buffer, false, Site::caller())
            .map_err(|error| Failed { error, value: buffer })
    }

    /// Registers a buffer's memory.
    pub(crate) fn register_at<T: Element, M: WindowMemory, K: WindowKind>(
        &mut self,
        buffer: &Buffer<T, W::Device, M>,
        uneven: bool,
        site: Site,
    ) -> Result<Window<T, W, K>>
    where
        S: CanEnqueue,
    {
        let (allocation, len) = (Some(buffer.allocation()), buffer.len());
        let memory = Memory { allocation, len, uneven };
        register(S::live_mut(&mut self.body), memory, Ok(()), site)
    }

    #[track_caller]
    fn allocate<T: Element>(&mut self, len: usize, uneven: bool, site: Site) -> Result<Window<T, W>>
    where
        S: CanEnqueue,
    {
        let live = S::live_mut(&mut self.body);
        // A rank without memory still announces its part: the others wait for it.
        let (buffer, outcome) = match live.device.nccl_zeros::<T>(len) {
            Ok(buffer) => (Some(buffer), Ok(())),
            Err(error) => (None, Err(error)),
        };
        let allocation = buffer.as_ref().map(Buffer::allocation);
        register(live, Memory { allocation, len, uneven }, outcome, site)
    }
}

/// The memory that a rank registers.
pub(super) struct Memory<'m, B: Backend> {
    /// `None` if it could not be allocated.
    pub(super) allocation: Option<&'m Arc<Allocation<B>>>,
    /// In elements.
    pub(super) len: usize,
    /// Whether the ranks' lengths may differ.
    pub(super) uneven: bool,
}

/// Registers memory on all ranks, if all of them can: `outcome` says whether this one can.
pub(super) fn register<W: World, T: Element, K: WindowKind>(
    live: &mut Live<W>,
    Memory { allocation, len, uneven }: Memory<'_, <W::Device as Device>::Backend>,
    outcome: Result<()>,
    site: Site,
) -> Result<Window<T, W, K>> {
    const OPERATION: Topic = "register_window";

    let core = &mut live.core;
    core.may_call(OPERATION, site)?;
    // NCCL must not register beside an operation of the communicator, least of all on this memory.
    let ready = outcome.and_then(|()| {
        <<W::Device as Device>::Backend as Windows>::can_register(core.comm()?, K::BITS)?;
        live.stream.core.idle(core.within(), OPERATION, site)?;
        core.drained(OPERATION, site)?;
        allocation.map_or(Ok(()), |allocation| {
            let at = (allocation.ordinal(), core.ordinal);
            OtherDevice::unless_same(OPERATION, "memory", W::Device::KIND, at, site)?;
            let before = allocation.before();
            if !before.is_multiple_of(WindowFault::ALIGNMENT) {
                let (name, fault) = (core.health.name(), WindowFault::Misaligned { before });
                return Err(BadWindow { name, fault, site }.into());
            }
            let uses = allocation.order.points(true)?;
            wait::until(&uses, Some(core.within()), OPERATION, site)
        })
    });
    let lens = if uneven { ", lengths by rank" } else { "" };
    let count = if uneven { String::new() } else { format!("{len} ") };
    // NCCL finds a peer's part at the place that this rank's own has in its allocation.
    let place = match allocation.map_or(0, |allocation| allocation.before()) {
        0 => String::new(),
        before => format!(", {before} bytes into its allocation"),
    };
    let words = match &ready {
        Err(why) => format!("could not: {why}"),
        Ok(()) => format!("registered {count}{}, {}{lens}{place}", T::DTYPE, K::NAME),
    };
    let ((), id, lens) = core.agree(ready, (words, len), (OPERATION, site), |parts| {
        let (name, closing) = (core.health.name(), false);
        Error::from(WindowsDiffer { name, closing, parts, site })
    })?;
    let Some(allocation) = allocation.cloned() else { return Err(core.health.ended()) };
    allocation.order.enter_window();
    let handle = <<W::Device as Device>::Backend as Windows>::register(
        core.comm()?,
        id,
        &allocation,
        len * size_of::<T>(),
        K::BITS,
    )
    .inspect_err(|_| allocation.order.leave_window())?;
    // A peer's put may come only when every rank's part is registered.
    core.barrier(OPERATION, site)?;
    let shared = uneven.then(|| SharedLens::new(core.generation, lens));
    let lens = match shared.clone() {
        None => Lens::Even(len),
        Some(all) => Lens::Uneven { own: len, all },
    };
    let (bytes, flags) = (len * size_of::<T>(), K::BITS);
    let registered =
        Registered { id, allocation: allocation.clone(), handle, len, bytes, flags, lens: shared };
    let key = core.resources.add_window(registered);
    core.has_signals |= K::BITS & Symmetric::BITS != 0;
    let named = Named { key, id, lens };
    Ok(Window { allocation, named, types: std::marker::PhantomData })
}

impl<T: Element, W: World, K: WindowKind> Window<T, W, K> {
    /// The memory, as a buffer.
    pub(crate) fn into_buffer(self) -> Buffer<T, W::Device, NcclMem> {
        Buffer::from_allocation(Arc::clone(&self.allocation), self.named.lens.own())
    }
}
