//! Calls NCCL's own functions in tests, with memory and streams of this library.

use std::ffi::c_void;
use std::ptr;
use std::sync::mpsc::channel;

use nccl_sys::cudaStream_t;
use typed_nccl::{Buffer, Cuda, Element, Result, Stream};

/// Calls an NCCL function.
macro_rules! call {
    ($raw:expr, $name:ident($($arg:expr),* $(,)?)) => {{
        let function = $raw.api.$name().expect("the release has the function");
        // SAFETY: the arguments are the tests', which keep NCCL's contract; memory stays until its
        // stream has passed.
        unsafe { function($($arg),*) }
    }};
}

pub(crate) use call;

/// A buffer's address.
pub(crate) fn address<T: Element, M, Tag>(
    stream: &Stream<Cuda<Tag>>,
    buffer: &Buffer<T, Cuda<Tag>, M>,
) -> Result<*mut c_void> {
    let (told, hears) = channel();
    stream.launch(buffer, move |view: typed_nccl::DeviceView<'_, T>, _| {
        let _ = told.send(view.as_ptr().expose_provenance());
    })?;
    Ok(ptr::with_exposed_provenance_mut(hears.recv().expect("it runs at the call")))
}

/// CUDA's handle of a stream.
pub(crate) fn handle<Tag>(stream: &Stream<Cuda<Tag>>) -> Result<cudaStream_t> {
    let (told, hears) = channel();
    stream.launch((), move |(), raw| {
        let _ = told.send(raw.as_ptr().expose_provenance());
    })?;
    Ok(ptr::with_exposed_provenance_mut(hears.recv().expect("it runs at the call")))
}
