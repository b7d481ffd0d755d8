//! How tests call NCCL's own functions, with memory and streams of this library.

use std::ffi::c_void;
use std::ptr;
use std::sync::mpsc::channel;

use nccl_sys::cudaStream_t;
use typed_nccl::{Buffer, Cuda, Element, Result, Stream};

/// Calls a function of NCCL's.
macro_rules! call {
    ($raw:expr, $name:ident($($arg:expr),* $(,)?)) => {{
        let function = $raw.api.$name().expect("the release has the function");
        // SAFETY: the arguments are as the tests say, which keep NCCL's contract; memory stays until
        // its stream is past.
        unsafe { function($($arg),*) }
    }};
}

pub(crate) use call;

/// Where a buffer is.
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

/// What CUDA calls a stream.
pub(crate) fn handle<Tag>(stream: &Stream<Cuda<Tag>>) -> Result<cudaStream_t> {
    let (told, hears) = channel();
    stream.launch((), move |(), raw| {
        let _ = told.send(raw.as_ptr().expose_provenance());
    })?;
    Ok(ptr::with_exposed_provenance_mut(hears.recv().expect("it runs at the call")))
}
