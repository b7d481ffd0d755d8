//! Kernels.

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::sync::Arc;

use crate::code::Code;
use crate::export::exports;
use crate::ptx;
use crate::queue::Work;
use crate::state::Refusal;

exports! {
    fn cuModuleLoadData(module: *mut *mut c_void, image: *const c_void) = |library| {
        library.current()?;
        // SAFETY: the caller keeps the driver's contract: PTX is a text that ends with a zero.
        let text = unsafe { image.text() }?;
        let kernels = ptx::kernels(&text).map_err(Refusal::value)?;
        let handle = library.handle();
        library.modules.insert(handle, kernels.into_iter().map(Arc::new).collect());
        library.gives(handle);
        module.put(handle)
    };

    fn cuModuleGetFunction(
        hfunc: *mut *mut c_void,
        hmod: *mut c_void,
        name: *const c_char,
    ) = |library| {
        // SAFETY: the caller keeps the driver's contract: a name ends with a zero.
        let name = unsafe { name.text() }?;
        let kernels = library.modules.get(&hmod.address());
        let kernels = kernels.ok_or_else(|| Refusal::Misuse(
            Code::INVALID_HANDLE,
            format!("{:#x} is no module of this library", hmod.address()),
        ))?;
        let found = kernels.iter().find(|kernel| kernel.name == name).cloned();
        let kernel = found.ok_or(Refusal::Plain(Code::NOT_FOUND))?;
        let handle = library.handle();
        library.functions.insert(handle, kernel);
        library.gives(handle);
        hfunc.put(handle)
    };

    fn cuFuncGetAttribute(pi: *mut c_int, attrib: c_int, hfunc: *mut c_void) = |library| {
        let kernel = library.functions.get(&hfunc.address());
        kernel.ok_or_else(|| Refusal::Misuse(
            Code::INVALID_HANDLE,
            format!("{:#x} is no kernel of this library", hfunc.address()),
        ))?;
        pi.put(32)
    };

    fn cuLaunchKernel(
        f: *mut c_void,
        gridDimX: c_uint,
        gridDimY: c_uint,
        gridDimZ: c_uint,
        blockDimX: c_uint,
        blockDimY: c_uint,
        blockDimZ: c_uint,
        sharedMemBytes: c_uint,
        hStream: *mut c_void,
        kernelParams: *mut *mut c_void,
        extra: *mut *mut c_void,
    ) = |library| {
        library.current()?;
        library.stream(hStream.address())?;
        let kernel = library.functions.get(&f.address()).cloned();
        let kernel = kernel.ok_or_else(|| Refusal::Misuse(
            Code::INVALID_HANDLE,
            format!("{:#x} is no kernel of this library", f.address()),
        ))?;
        if [gridDimY, gridDimZ, blockDimY, blockDimZ] != [1; 4] || sharedMemBytes != 0 {
            return Err(Refusal::value("the double's grids are of one dimension, and share nothing"));
        }
        // SAFETY: the caller keeps the driver's contract: a value of the right size for each
        // parameter.
        let arguments = unsafe { kernelParams.numbers(&kernel.parameters) }?;
        let work = Work::Launch { kernel, grid: (gridDimX, blockDimX), arguments };
        library.enqueue(hStream.address(), work);
        Ok(())
    };
}
