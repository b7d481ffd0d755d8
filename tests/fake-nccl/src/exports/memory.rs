//! Memory, which is host memory (if data moves, files that ranks share), and registrations.

use std::alloc;
use std::ffi::c_void;

use nccl_sys::{ncclComm_t, ncclResult_t};

use crate::books::pointer;
use crate::export::exports;
use crate::moves;
use crate::state::Refusal;

/// The alignment of a window's memory, and CUDA's smallest allocation.
const PAGE: usize = 4096;

exports! {
    answer fn ncclMemAlloc(ptr: *mut *mut c_void, size: usize) -> ncclResult_t = |state| {
        ptr.needed()?;
        let size = size.max(1).checked_next_multiple_of(PAGE);
        let layout = size.and_then(|size| alloc::Layout::from_size_align(size, PAGE).ok());
        let layout = layout.ok_or_else(|| Refusal::argument("no memory is so large"))?;
        if let Some(folder) = moves::folder() {
            let memory = moves::allocate(folder, layout.size())?;
            state.allocations.insert(memory, layout);
            return ptr.put(pointer(memory));
        }
        // SAFETY: the size is not zero.
        let memory = unsafe { alloc::alloc_zeroed(layout) };
        if memory.is_null() {
            let result = ncclResult_t::ncclUnhandledCudaError;
            return Err(Refusal { result, words: "out of memory".to_owned() });
        }
        state.allocations.insert(memory.expose_provenance(), layout);
        ptr.put(memory.cast())
    };

    answer fn ncclMemFree(ptr: *mut c_void) -> ncclResult_t = |state| {
        if ptr.is_null() {
            return Ok(());
        }
        let address = ptr.address();
        let layout = state.allocations.remove(&address);
        let layout = layout.ok_or_else(|| {
            Refusal::argument(format!("{address:#x} is no memory of this library"))
        })?;
        if moves::are_on() {
            return moves::free(address);
        }
        // SAFETY: `ncclMemAlloc` allocated it with this layout. It has not been freed, as it was in
        // the books until now.
        unsafe { alloc::dealloc(pointer(address).cast(), layout) };
        Ok(())
    };

    answer fn ncclCommRegister(
        comm: ncclComm_t,
        buff: *mut c_void,
        size: usize,
        handle: *mut *mut c_void,
    ) -> ncclResult_t = |state| {
        state.live(comm)?;
        handle.needed()?;
        let given = state.register(comm.address(), buff.address(), size);
        handle.put(pointer(given))
    };

    answer fn ncclCommDeregister(comm: ncclComm_t, handle: *mut c_void) -> ncclResult_t = |state| {
        state.live(comm)?;
        let handle = handle.address();
        if !state.deregister(comm.address(), handle) {
            let words = format!("{handle:#x} is no registration of this communicator");
            return Err(Refusal::argument(words));
        }
        Ok(())
    };
}
