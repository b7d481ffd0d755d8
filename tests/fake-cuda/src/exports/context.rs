//! Contexts: one for each device, current per thread.

use std::ffi::{c_int, c_void};

use crate::code::Code;
use crate::export::exports;
use crate::state::{Library, Refusal};

exports! {
    fn cuDevicePrimaryCtxRetain(pctx: *mut *mut c_void, dev: c_int) = |library| {
        let device = library.device(dev)?;
        let context = library.context(device);
        library.gives(context);
        pctx.put(context)
    };

    fn cuDevicePrimaryCtxRelease_v2(dev: c_int) = |library| {
        // It is always retained.
        library.device(dev).map(drop)
    };

    fn cuCtxSynchronize() = |library| {
        let device = library.current()?;
        library.wait(|state| state.is_idle(device))
    };

    fn cuCtxGetCurrent(pctx: *mut *mut c_void) = |library| {
        let context = library.thread().context;
        library.gives(context);
        pctx.put(context)
    };

    fn cuCtxGetDevice(device: *mut c_int) = |library| {
        let current = library.current()? as u64;
        device.put(current)
    };

    fn cuCtxSetCurrent(ctx: *mut c_void) = |library| {
        let context = ctx.address();
        if context != 0 && !library.contexts.values().any(|known| *known == context) {
            let words = format!("{context:#x} is no context of this library");
            return Err(Refusal::Misuse(Code::INVALID_CONTEXT, words));
        }
        library.thread().context = context;
        Ok(())
    };
}

/// Waits until a device is idle, if the number is one: for the double of NCCL, which frees memory
/// where a communicator ends. Meanwhile calls that need the driver's lock of the context wait too.
#[unsafe(no_mangle)]
extern "C" fn fake_cuda_until_idle(device: c_int) {
    let Ok(device) = usize::try_from(device) else { return };
    let mut library = Library::lock();
    library.freeing.push(device);
    // On a lost device nothing runs.
    let _ = library.wait(|state| state.is_idle(device));
    if let Some(at) = library.freeing.iter().position(|freeing| *freeing == device) {
        library.freeing.swap_remove(at);
    }
}
