//! Queries on windows, and registration of plain buffers.

use std::marker::PhantomData;
use std::ptr::{self, NonNull};
use std::sync::{Arc, Weak};

use super::{LsaPointers, Team, Window, WindowKind};
use crate::backend::Windows;
use crate::communicator::{CanEnqueue, Handle, Held, Key, State};
use crate::derived::debug;
use crate::error::{AdoptFault, Error, NotAdoptable, OtherDevice, Site};
use crate::memory::{Lease, Lessee};
use crate::{AsRank, Communicator, Device, Element, Rank, Readable, Result, World, wait};

type Back<W> = <<W as World>::Device as Device>::Backend;

impl<T: Element, W: World, K: WindowKind> Window<T, W, K> {
    /// Whether its communicator still has it registered: not after the communicator's end, nor if
    /// the communicator went on without it. Its own memory stays in every case.
    pub fn is_valid(&self) -> bool {
        self.named.key.is_valid()
    }

    /// The address of this rank's part: of host memory on the host, of device memory on GPUs; null
    /// if the window is not [valid](Self::is_valid) any more. NCCL: `ncclWinGetUserPtr`.
    pub fn user_ptr(&self) -> *mut T {
        if !self.is_valid() {
            return ptr::null_mut();
        }
        <Back<W> as Windows>::address(self.allocation.block()).cast()
    }
}

/// ## Peers' memory
impl<W: World, S: State> Communicator<W, S> {
    /// The address here of `peer`'s part of a window, if its memory is mapped here; valid until the
    /// window is closed; `None` with an older NCCL, too. Local. Nothing orders accesses through it:
    /// that takes signals or barriers. NCCL: `ncclGetPeerDevicePointer`, 2.29.
    ///
    /// # Errors
    /// A window of another communicator; a rank out of range.
    #[track_caller]
    pub fn peer_ptr<T: Element, K: LsaPointers>(
        &self,
        window: &Window<T, W, K>,
        peer: impl AsRank,
    ) -> Result<Option<NonNull<T>>>
    where
        S: CanEnqueue,
    {
        let core = &S::live(&self.body).core;
        core.resources.window(&window.named.key)?;
        let Some(number) = core.number(peer) else {
            return Err(core.no_rank("peer_ptr", peer, false, Site::caller()));
        };
        let peer = Rank::at(number);
        let address = <Back<W> as Windows>::peer_address(core.comm()?, window.named.id, peer);
        Ok(address.and_then(|address| NonNull::new(address.cast())))
    }

    /// The address through which a store reaches all peers of a window at once, if the machine has
    /// multicast; never on the host. All ranks call it in the same order: the first call for a
    /// window sets multicast up. NCCL: `ncclGetLsaMultimemDevicePointer`, 2.29.
    ///
    /// # Errors
    /// A window of another communicator.
    pub fn multimem_ptr<T: Element, K: LsaPointers>(
        &self,
        window: &Window<T, W, K>,
    ) -> Result<Option<NonNull<T>>>
    where
        S: CanEnqueue,
    {
        let core = &S::live(&self.body).core;
        core.resources.window(&window.named.key)?;
        let address = <Back<W> as Windows>::multimem_address(core.comm()?, window.named.id);
        Ok(address.and_then(|address| NonNull::new(address.cast())))
    }

    /// All ranks.
    pub fn world_team(&self) -> Team {
        let (rank, zero) = (self.rank().index(), self.rank().beside(0));
        Team { rank, size: self.size(), first: 0, stride: 1, zero }
    }

    /// The ranks whose windows have addresses here: all of them on the host, this one alone with an
    /// NCCL that lacks the call. Local. NCCL: `ncclTeamLsa`.
    ///
    /// # Errors
    /// A poisoned communicator.
    pub fn lsa_team(&self) -> Result<Team>
    where
        S: CanEnqueue,
    {
        let core = &S::live(&self.body).core;
        Ok(<Back<W> as Windows>::lsa_team(core.comm()?, self.world_team()))
    }

    /// Registers memory, a buffer or a view of one, for faster communication. Local: a rank may
    /// register anything, in any order. The memory stays alive until
    /// [`deregister_buffer`](Self::deregister_buffer) or the communicator's end; adopted memory is
    /// not given back before. NCCL: `ncclCommRegister`, 2.19.
    ///
    /// Its effects:
    /// * Sends and receives of a communicator made with [`Transfers::Registered`](crate::Transfers)
    ///   go without a copy; with [`Transfers::Any`](crate::Transfers) nothing changes for them.
    /// * Collectives may be faster. All participating ranks must use registered memory, or none.
    ///
    /// NCCL has shorter ways for memory of its own allocator (`nccl_zeros` and the like) and,
    /// across a network, for plain device memory, which it would then use for transfers too:
    /// between nodes plain memory is registered under `Transfers::Registered` only. If NCCL is not
    /// asked, or keeps nothing, the registration has no [handle](Registration::handle), and the
    /// memory works as before.
    ///
    /// # Errors
    /// A view past its buffer; memory of another device; a poisoned communicator.
    /// [`Error::NotAdoptable`]: the memory is lent, and NCCL would still name it after the loan.
    /// [`Error::Unsupported`]: under `Transfers::Registered`, NCCL
    /// registers nothing.
    #[track_caller]
    pub fn register_buffer<A: Readable<W::Device>>(&mut self, memory: &A) -> Result<Registration<W>>
    where
        S: CanEnqueue,
    {
        let site = Site::caller();
        let core = &mut S::live_mut(&mut self.body).core;
        let span = memory.span().map_err(Error::from)?;
        let allocation = span.allocation();
        let at = (allocation.ordinal(), core.ordinal);
        OtherDevice::unless_same("register_buffer", "memory", W::Device::KIND, at, site)?;
        let lease = Lease::new(Lessee::Registration, allocation)
            .ok_or_else(|| NotAdoptable::new("register_buffer", AdoptFault::Lent, site))?;
        let lease = Arc::new(lease);
        let size = span.len() * memory.dtype().size();
        let bytes = span.offset()..span.offset() + size;
        let handle = <Back<W> as Windows>::register_buffer(core.comm()?, &lease, bytes.clone())?;
        let (key, handle) = core.resources.add_buffer(lease, bytes, handle);
        Ok(Registration { bytes: size, handle, key, world: PhantomData })
    }

    /// Ends a registration, in any order. Local: the host waits for this rank's enqueued uses of
    /// the memory, within the communicator's deadline. NCCL: `ncclCommDeregister`, 2.19.
    ///
    /// # Errors
    /// A registration of another communicator; a poisoned communicator; a passed deadline;
    /// [`Error::NotAdoptable`]: a graph has captured the memory. After the last two it stays
    /// registered until the communicator's end.
    #[track_caller]
    pub fn deregister_buffer(&mut self, registration: Registration<W>) -> Result<()>
    where
        S: CanEnqueue,
    {
        let site = Site::caller();
        let core = &mut S::live_mut(&mut self.body).core;
        core.may_wait("deregister_buffer", site)?;
        // A peer may use it as long as this rank's own part is not over.
        let order = &core.resources.buffer(&registration.key)?.lease.allocation().order;
        if order.is_captured() {
            let fault = AdoptFault::InUse { by: "a graph that captured it".to_owned() };
            return Err(NotAdoptable::new("deregister_buffer", fault, site).into());
        }
        wait::until(&order.points_seen()?, Some(core.within()), "deregister_buffer", site)?;
        let Held { lease, handle, .. } = core.resources.take_buffer(&registration.key)?;
        <Back<W> as Windows>::deregister_buffer(core.comm()?, &lease, handle.get())
    }
}

/// A registered buffer of a communicator of world `W`.
///
/// ```
/// # use typed_nccl::{Host, Registration, Seat};
/// # let mut comm = Seat::local(1).remove(0).init(Host::local()?)?;
/// let x = comm.device().nccl_zeros::<f32>(4)?;
/// let registered: Registration<Host> = comm.register_buffer(&x)?;
/// assert!(registered.is_valid() && registered.size() == 16); // in bytes
/// comm.deregister_buffer(registered)?;
/// # comm.finish()?;
/// # Ok::<(), typed_nccl::Error>(())
/// ```
#[must_use = "a buffer stays registered until `comm.deregister_buffer(registration)` or the communicator's end"]
pub struct Registration<W: World> {
    bytes: usize,
    handle: Weak<Handle>,
    key: Key,
    world: PhantomData<fn() -> W>,
}

impl<W: World> Registration<W> {
    /// How many bytes are registered.
    pub fn size(&self) -> usize {
        self.bytes
    }

    /// NCCL's handle; `None` if NCCL accepts a registration but keeps none.
    pub fn handle(&self) -> Option<u64> {
        self.handle.upgrade()?.get()
    }

    /// Whether it is still registered: its communicator lives.
    pub fn is_valid(&self) -> bool {
        self.handle.strong_count() > 0
    }
}

debug!([W: World] Registration<W>, self => "Registration of {} bytes on {}", self.bytes, W::NAME);
