//! What can be asked of windows, and registration of plain buffers.

use std::fmt;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::Weak;

use super::{LsaPointers, Window, WindowKind};
use crate::backend::Windows;
use crate::communicator::{CanEnqueue, Handle, Key, State};
use crate::error::Site;
use crate::rank::MOST;
use crate::{AsRank, Buffer, Communicator, Device, Element, Rank, Result, World};

type Back<W> = <<W as World>::Device as Device>::Backend;

/// Some of a communicator's ranks, evenly spaced: rank i of the team is rank `first + i * stride` of
/// the communicator. NCCL: `ncclTeam_t`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Team {
    /// This rank's place in the team.
    pub rank: usize,
    /// How many ranks the team has.
    pub size: usize,
    /// The communicator's rank of the team's first.
    pub first: usize,
    /// How far apart they are.
    pub stride: usize,
    /// Rank 0 of the communicator.
    pub(crate) zero: Rank,
}

impl Team {
    /// The communicator's rank of the team's `index`-th; `None` past its end, and where that would be a
    /// number that no rank has. NCCL: `ncclTeamRankToWorld`.
    pub fn to_world(&self, index: usize) -> Option<Rank> {
        let index = Some(index).filter(|&index| index < self.size)?;
        let rank = index.checked_mul(self.stride)?.checked_add(self.first)?;
        Some(rank).filter(|&rank| rank < MOST).map(|rank| self.zero.beside(rank))
    }
}

impl<T: Element, W: World, K: WindowKind> Window<T, W, K> {
    /// The address of this rank's part: of host memory on the host, of device memory on GPUs. Valid
    /// until the window is closed. NCCL: `ncclWinGetUserPtr`.
    pub fn user_ptr(&self) -> *mut T {
        <Back<W> as Windows>::address(self.allocation.block()).cast()
    }
}

impl<W: World, S: State> Communicator<W, S> {
    /// The address here of `peer`'s part of a window, if its memory is mapped here; valid until the
    /// window is closed. Nothing orders accesses through it: that takes signals or barriers. NCCL:
    /// `ncclGetPeerDevicePointer`, 2.29.
    ///
    /// # Errors
    /// A window of another communicator; a rank that the communicator does not have.
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
        core.resources.window(&window.key)?;
        let Some(number) = core.number(peer) else {
            return Err(core.no_rank("peer_ptr", peer, false, Site::caller()));
        };
        let peer = Rank::at(number);
        let address = <Back<W> as Windows>::peer_address(core.comm()?, window.id, peer);
        Ok(address.and_then(|address| NonNull::new(address.cast())))
    }

    /// The address through which a store reaches all peers of a window at once, where the machine
    /// has multicast; never on the host. All ranks call it, in one order: the first call for a window
    /// sets multicast up. NCCL: `ncclGetLsaMultimemDevicePointer`, 2.29.
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
        core.resources.window(&window.key)?;
        let address = <Back<W> as Windows>::multimem_address(core.comm()?, window.id);
        Ok(address.and_then(|address| NonNull::new(address.cast())))
    }

    /// All ranks.
    pub fn world_team(&self) -> Team {
        let (rank, zero) = (self.rank().index(), self.rank().beside(0));
        Team { rank, size: self.size(), first: 0, stride: 1, zero }
    }

    /// The ranks whose windows have addresses here: all of them on the host. NCCL: `ncclTeamLsa`.
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

    /// Registers a buffer for faster communication (`ncclCommRegister`, 2.19). Local, but all ranks
    /// that use the buffer in an operation should have registered theirs. The memory stays alive
    /// until [`deregister_buffer`](Self::deregister_buffer) or the communicator's end.
    ///
    /// On GPUs NCCL is asked for memory of its own only (`nccl_zeros` and its like): plain device
    /// memory comes from a pool that NCCL cannot share between the GPUs of one process. The
    /// registration then has no [handle](Registration::handle), and the buffer works as before.
    ///
    /// # Errors
    /// A poisoned communicator.
    pub fn register_buffer<T: Element, M>(
        &mut self,
        buffer: &Buffer<T, W::Device, M>,
    ) -> Result<Registration<W>>
    where
        S: CanEnqueue,
    {
        let core = &mut S::live_mut(&mut self.body).core;
        let bytes = buffer.len() * size_of::<T>();
        let allocation = buffer.allocation();
        let handle = <Back<W> as Windows>::register_buffer(core.comm()?, allocation, bytes)?;
        let (key, handle) = core.resources.add_buffer(allocation.clone(), bytes, handle);
        Ok(Registration { bytes, handle, key, world: PhantomData })
    }

    /// Ends the registration of a buffer (`ncclCommDeregister`). Local.
    ///
    /// # Errors
    /// A registration of another communicator; a poisoned communicator.
    pub fn deregister_buffer(&mut self, registration: Registration<W>) -> Result<()>
    where
        S: CanEnqueue,
    {
        let core = &mut S::live_mut(&mut self.body).core;
        let handle = core.resources.take_buffer(&registration.key)?;
        <Back<W> as Windows>::deregister_buffer(core.comm()?, handle)
    }
}

/// A registered buffer of a communicator of world `W`.
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

    /// NCCL's handle; `None` where NCCL accepts a registration and keeps none.
    pub fn handle(&self) -> Option<u64> {
        self.handle.upgrade()?.get()
    }

    /// Whether it still stands: its communicator lives.
    pub fn is_valid(&self) -> bool {
        self.handle.strong_count() > 0
    }
}

impl<W: World> fmt::Debug for Registration<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Registration of {} bytes on {}", self.bytes, W::NAME)
    }
}
