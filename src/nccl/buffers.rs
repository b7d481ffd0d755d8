//! Registered buffers.

use std::ffi::c_void;
use std::ops::Range;
use std::ptr;
use std::sync::Arc;

use super::api::lacking;
use super::comm::Comm;
use crate::backend::{Allocation, Span};
use crate::communicator::Transfers;
use crate::cuda::CudaBackend;
use crate::error::{Error, Unsupported};
use crate::memory::Lease;
use crate::{DType, Result};

/// NCCL was configured to accept registrations and ignore them.
#[cold]
fn turned_off() -> Error {
    Unsupported::error(
        "`Transfers::Registered`",
        "NCCL to register memory",
        "registration is turned off: unset NCCL_LOCAL_REGISTER and NCCL_P2P_USE_CUDA_MEMCPY",
    )
}

impl Comm {
    /// Registers these bytes. Returns NCCL's handle if NCCL keeps one, and then stores the lease
    /// with it.
    pub(super) fn register_buffer(
        &self,
        lease: &Arc<Lease<CudaBackend>>,
        bytes: Range<usize>,
    ) -> Result<Option<u64>> {
        let block = lease.allocation().block();
        let is_nccls = block.is_nccls();
        if bytes.is_empty() || !is_nccls && !self.ignores_plain() {
            return Ok(None);
        }
        let register = self.nccl.api.ncclCommRegister().map_err(lacking("registering a buffer"))?;
        self.gpu.bind()?;
        let mut handle: *mut c_void = ptr::null_mut();
        let start = block.at(bytes.start);
        // SAFETY: `handle` is valid for a write, and the memory is held until it is deregistered.
        let result = unsafe { register(self.handle, start, bytes.len(), &raw mut handle) };
        self.check("ncclCommRegister", result).map_err(|error| self.poison(error))?;
        if handle.is_null() {
            return match is_nccls && self.config.transfers == Transfers::Registered {
                // The other ranks' transfers would rely on the registration.
                true => Err(turned_off()),
                false => Ok(None),
            };
        }
        let handle = handle.expose_provenance() as u64;
        self.registered.borrow_mut().push((handle, lease.clone()));
        Ok(Some(handle))
    }

    /// Ends a registration. This rank's work with the memory must be over.
    pub(super) fn deregister_buffer(
        &self,
        lease: &Arc<Lease<CudaBackend>>,
        handle: u64,
    ) -> Result<()> {
        self.deregister_handle(handle).map_err(|error| self.poison(error))?;
        // NCCL returns one handle for all registrations within a page.
        let is_it = |(known, its): &(u64, Arc<_>)| *known == handle && Arc::ptr_eq(its, lease);
        let mut registered = self.registered.borrow_mut();
        let at = registered.iter().position(is_it);
        let ended = at.map(|index| registered.swap_remove(index));
        drop(registered);
        drop(ended);
        Ok(())
    }

    /// Ends the remaining registrations before the communicator ends. NCCL would do so only when
    /// the last rank of this process has ended, and the memory's owner may need it sooner. Every
    /// rank's work must be over.
    pub(super) fn deregister_buffers(&self) {
        let left = self.registered.take();
        if !left.is_empty() {
            self.gpu.end_graphs();
        }
        for (handle, lease) in left {
            if let Err(error) = self.deregister_handle(handle) {
                log::warn!("{error}");
                self.registered.borrow_mut().push((handle, lease));
            }
        }
    }

    fn deregister_handle(&self, handle: u64) -> Result<()> {
        let deregister =
            self.nccl.api.ncclCommDeregister().map_err(lacking("deregistering a buffer"))?;
        let handle = ptr::with_exposed_provenance_mut(handle as usize);
        self.gpu.bind()?;
        // SAFETY: the handle is from `register_buffer` on this communicator and is released once.
        let result = unsafe { deregister(self.handle, handle) };
        self.check("ncclCommDeregister", result)
    }

    /// Whether NCCL takes the elements of this type for registered with this communicator, as a
    /// window or otherwise: their buffer is, or a part beside it in the same page. Unrelated plain
    /// memory may share a page too; by chance, so it does not count.
    pub(super) fn is_known(&self, span: Span<'_, CudaBackend>, dtype: DType) -> bool {
        let start = span.allocation().block().at(span.offset());
        let bytes = span.len() * dtype.size();
        let is_it = |known: &Arc<Allocation<CudaBackend>>| {
            Arc::ptr_eq(known, span.allocation())
                || known.is_beside(span.allocation())
                    && known.block().shares_pages_with(start, bytes)
        };
        self.windows.borrow().iter().any(|window| is_it(&window.allocation))
            || self.registered.borrow().iter().any(|(_, lease)| is_it(lease.allocation()))
    }

    /// Whether NCCL's transfers ignore a registration of plain memory by one rank alone. They do if
    /// no transfer names plain memory, or if all ranks share a host, where NCCL only looks for
    /// memory that other processes can map. Across a network NCCL also sends registered plain
    /// memory in place.
    fn ignores_plain(&self) -> bool {
        // These variables make NCCL look for plain memory on one host too.
        let is_on = |name| self.nccl.environment.is_on(name);
        if self.config.transfers == Transfers::Registered {
            return true;
        }
        let is_one_host = match self.nccl.api.ncclTeamLsa() {
            // SAFETY: the communicator is alive.
            Ok(find) => u32::try_from(unsafe { find(self.handle) }.nRanks) == Ok(self.size),
            Err(_) => false,
        };
        (is_one_host || self.shared.family.is_here())
            && !["NCCL_LEGACY_CUDA_REGISTER", "NCCL_SHM_DISABLE"].into_iter().any(is_on)
    }
}
