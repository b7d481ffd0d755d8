//! Windows, and their addresses on peers.

use std::ffi::c_void;
use std::ops::Range;
use std::ptr;
use std::sync::Arc;

use nccl_sys::{
    NCCL_WIN_CFT_COUNTED, NCCL_WIN_COLL_SYMMETRIC, NCCL_WIN_GIN_ONLY, NCCL_WIN_STRICT_ORDERING,
    ncclMultimemHandle_t, ncclWindow_t,
};
use typed_nccl_plan::releases;

use super::api::lacking;
use super::comm::Comm;
use super::early::{first_signal, is_first_collective, supports_signals};
use super::family::Parked;
use super::kernels;
use crate::backend::{Allocation, WindowId, Windows};
use crate::cuda::{Block, CudaBackend};
use crate::error::{Error, Unsupported};
use crate::memory::Lease;
use crate::window::{Endpoint, EndpointOf, TeamOf};
use crate::{Rank, Result, Team};

/// A registered window.
pub(super) struct Windowed {
    id: WindowId,
    window: ncclWindow_t,
    pub(super) allocation: Arc<Allocation<CudaBackend>>,
}

/// The typed layer's part of a window: empty, as the communicator keeps the handle.
#[derive(Debug)]
pub struct RegisteredWindow(());

#[cold]
fn no_counted() -> Error {
    Unsupported::error(
        "a `CftCounted` window",
        "hardware that counts transfers, and `CommConfig::counted_transfers` not `Off`",
        "this communicator has none (`Properties::cft_counted`): register a `Symmetric` window, whose puts carry signals",
    )
}

#[cold]
pub(super) fn no_one_sided(what: &str, asked: bool) -> Error {
    let found = match asked {
        true => "this communicator has neither",
        false => "this communicator has no symmetric window yet: make one with `comm.window(len)`",
    };
    Unsupported::error(
        what,
        "GPUs that reach each other's memory, or a network that NCCL can put through",
        found,
    )
}

impl Comm {
    /// Registers memory as a window, on all ranks.
    pub(super) fn register(
        &self,
        allocation: &Arc<Allocation<CudaBackend>>,
        bytes: usize,
        flags: u32,
    ) -> Result<ncclWindow_t> {
        let register = self.nccl.api.ncclCommWindowRegister().map_err(lacking("a window"))?;
        let flags = flags.cast_signed();
        self.gpu.bind()?;
        // On the heap, as NCCL may write to it after a call has returned.
        let place: *mut ncclWindow_t = Box::into_raw(Box::new(ptr::null_mut()));
        let start = allocation.block().address();
        let result = self.inside(|| {
            // SAFETY: `place` is valid for a write. The memory is NCCL's, on the communicator's
            // device, and held until it is deregistered. NCCL refuses a length of 0, and every
            // block begins inside its allocation.
            let result = unsafe { register(self.handle, start, bytes.max(1), place, flags) };
            self.over(result)
        });
        let made = self.check("ncclCommWindowRegister", result);
        // After a failure, a non-blocking communicator may still be working and write there later.
        let window = (made.is_ok() || !self.is_adopted).then(|| {
            // SAFETY: it was allocated above, and NCCL has finished with it.
            *unsafe { Box::from_raw(place) }
        });
        made.map_err(|error| self.poison(error))?;
        let window = window.unwrap_or(ptr::null_mut());
        if window.is_null() {
            return Err(Unsupported::error(
                "a window",
                "GPUs that reach each other's memory, or a network that NCCL's kernels can use",
                "NCCL registered none on this communicator",
            ));
        }
        Ok(window)
    }

    /// Deregisters a window, on all ranks; `allocation` is this rank's part of it.
    pub(super) fn deregister(
        &self,
        window: ncclWindow_t,
        allocation: Arc<Allocation<CudaBackend>>,
    ) {
        self.gpu.end_graphs();
        let _ = self.gpu.bind();
        let deregister = self.nccl.api.ncclCommWindowDeregister();
        let ended = deregister.map_err(lacking("closing a window")).and_then(|deregister| {
            let result = self.inside(|| {
                // SAFETY: the window is this communicator's; every rank's work on it is over.
                let result = unsafe { deregister(self.handle, window) };
                self.over(result)
            });
            self.check("ncclCommWindowDeregister", result)
        });
        if let Err(error) = ended {
            log::warn!("{error}");
            // NCCL may still refer to the memory.
            self.shared.family.park(Parked::of([allocation], []), Vec::new());
        }
    }

    /// The local address of a peer's part of a window, if there is one.
    pub(super) fn peer_address(&self, window: ncclWindow_t, peer: Rank) -> Option<*mut u8> {
        let find = self.nccl.api.ncclGetPeerDevicePointer().ok()?;
        let peer = i32::try_from(peer.0).ok()?;
        let mut address: *mut c_void = ptr::null_mut();
        self.gpu.bind().ok()?;
        // SAFETY: `address` is valid for a write; the window is this communicator's.
        let result = unsafe { find(window, 0, peer, &raw mut address) };
        self.nccl.check("ncclGetPeerDevicePointer", None, result).ok()?;
        (!address.is_null()).then_some(address.cast())
    }
}

// SAFETY: the communicator holds the allocation until the window is deregistered; afterwards its
// family does, until every rank of the process has ended. The typed layer checks that puts stay
// inside.
unsafe impl Windows for CudaBackend {
    type Window = RegisteredWindow;

    fn can_register(comm: &Comm, flags: u32) -> Result<()> {
        comm.nccl.api.ncclCommWindowRegister().map_err(lacking("a window"))?;
        let flags = flags.cast_signed();
        if flags & NCCL_WIN_STRICT_ORDERING != 0 {
            comm.nccl.needs("a strictly ordered window", releases::STRICT_WINDOWS)?;
        }
        if flags & (NCCL_WIN_GIN_ONLY | NCCL_WIN_CFT_COUNTED) != 0 {
            comm.nccl.needs("a window of this kind", releases::SPECIAL_WINDOWS)?;
        }
        comm.nccl.environment.allows_windows()?;
        if flags & NCCL_WIN_CFT_COUNTED != 0 && !comm.has_counted()? {
            return Err(no_counted());
        }
        Ok(())
    }

    fn register(
        comm: &Comm,
        id: WindowId,
        allocation: &Arc<Allocation<Self>>,
        bytes: usize,
        flags: u32,
    ) -> Result<RegisteredWindow> {
        let window = comm.register(allocation, bytes, flags)?;
        let allocation = allocation.clone();
        comm.window_handles.set(id, Some(window.expose_provenance() as u64));
        comm.windows.borrow_mut().push(Windowed { id, window, allocation });
        if flags.cast_signed() & NCCL_WIN_COLL_SYMMETRIC != 0 && comm.one_sided.get().is_none() {
            let supported = comm.set_up_one_sided().map_err(|error| comm.poison(error))?;
            comm.one_sided.set(Some(supported));
        }
        Ok(RegisteredWindow(()))
    }

    fn unregister(comm: &Comm, id: WindowId, _: RegisteredWindow) {
        let mut windows = comm.windows.borrow_mut();
        let Some(index) = windows.iter().position(|window| window.id == id) else { return };
        let Windowed { window, allocation, .. } = windows.remove(index);
        comm.window_handles.set(id, None);
        drop(windows);
        comm.deregister(window, allocation);
    }

    fn address(block: &Block) -> *mut u8 {
        block.address().cast()
    }

    fn peer_address(comm: &Comm, id: WindowId, peer: Rank) -> Option<*mut u8> {
        comm.peer_address(comm.window(id).ok()?, peer)
    }

    fn multimem_address(comm: &Comm, id: WindowId) -> Option<*mut u8> {
        let window = comm.window(id).ok()?;
        let find = comm.nccl.api.ncclGetLsaMultimemDevicePointer().ok()?;
        let mut address: *mut c_void = ptr::null_mut();
        comm.gpu.bind().ok()?;
        let result = comm.inside(|| {
            // SAFETY: as in `peer_address`.
            unsafe { find(window, 0, &raw mut address) }
        });
        comm.nccl.check("ncclGetLsaMultimemDevicePointer", None, result).ok()?;
        (!address.is_null()).then_some(address.cast())
    }

    fn lsa_team(comm: &Comm, world: Team) -> Team {
        let Ok(find) = comm.nccl.api.ncclTeamLsa() else {
            // Only this rank.
            return Team { rank: 0, size: 1, first: world.rank, stride: 1, ..world };
        };
        let _ = comm.gpu.bind();
        // SAFETY: the communicator is alive.
        kernels::team(unsafe { find(comm.handle) }, world)
    }

    fn team(comm: &Comm, of: TeamOf, world: Team) -> Option<Team> {
        comm.team(of, world)
    }

    fn handle(comm: &Comm, id: WindowId) -> Option<*mut u8> {
        comm.window(id).ok().map(ncclWindow_t::cast)
    }

    fn endpoint(
        comm: &Comm,
        id: WindowId,
        of: EndpointOf,
        offset: usize,
    ) -> Result<Option<Endpoint>> {
        comm.endpoint(id, of, offset)
    }

    fn multimem_address_in(comm: &Comm, id: WindowId, mapping: *mut u8) -> Option<*mut u8> {
        let window = comm.window(id).ok()?;
        let find = comm.nccl.api.ncclGetMultimemDevicePointer().ok()?;
        let mapping = ncclMultimemHandle_t { mcBasePtr: mapping.cast() };
        let mut address: *mut c_void = ptr::null_mut();
        comm.gpu.bind().ok()?;
        // SAFETY: as in `peer_address`; NCCL computes from the mapping's address and does not
        // access it.
        let result = unsafe { find(window, 0, mapping, &raw mut address) };
        comm.nccl.check("ncclGetMultimemDevicePointer", None, result).ok()?;
        (!address.is_null()).then_some(address.cast())
    }

    fn register_buffer(
        comm: &Comm,
        lease: &Arc<Lease<Self>>,
        bytes: Range<usize>,
    ) -> Result<Option<u64>> {
        comm.register_buffer(lease, bytes)
    }

    fn deregister_buffer(comm: &Comm, lease: &Arc<Lease<Self>>, handle: Option<u64>) -> Result<()> {
        handle.map_or(Ok(()), |handle| comm.deregister_buffer(lease, handle))
    }
}

impl Comm {
    /// This rank's handle of a window.
    pub(super) fn window(&self, id: WindowId) -> Result<ncclWindow_t> {
        let windows = self.windows.borrow();
        let found = windows.iter().find(|window| window.id == id).map(|window| window.window);
        found.ok_or_else(|| no_one_sided("this window", self.one_sided.get().is_some()))
    }

    /// Sets up one-sided operations if the communicator supports them, and returns whether it does.
    /// If a rank fails here, the others wait for it in vain.
    fn set_up_one_sided(&self) -> Result<bool> {
        let supported = self.config.slots().context > 0 && self.supports_signals()?;
        if supported && is_first_collective(self.nccl) {
            let own = i32::try_from(self.shared.rank).unwrap_or(0);
            let over = |result| self.over(result);
            self.inside(|| first_signal(self.nccl, self.gpu, self.handle, own, over))?;
        }
        Ok(supported)
    }

    /// Whether it has one-sided operations.
    pub(super) fn supports_signals(&self) -> Result<bool> {
        supports_signals(self.nccl, self.handle, |result| self.over(result))
    }
}
