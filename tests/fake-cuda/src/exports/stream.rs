//! Streams.

use std::ffi::{c_uint, c_void};

use crate::code::Code;
use crate::export::exports;
use crate::queue::{Stream, Work};
use crate::state::Refusal;

exports! {
    fn cuStreamCreate(phStream: *mut *mut c_void, Flags: c_uint) = |library| {
        let device = library.current()?;
        let stream = library.handle();
        library.streams.insert(stream, Stream::new(device));
        library.gives(stream);
        phStream.put(stream)
    };

    fn cuStreamQuery(hStream: *mut c_void) = |library| {
        match library.stream(hStream.address())?.is_idle() {
            true => Ok(()),
            false => Err(Refusal::Plain(Code::NOT_READY)),
        }
    };

    fn cuStreamSynchronize(hStream: *mut c_void) = |library| {
        let stream = hStream.address();
        library.stream(stream)?;
        library.wait(|state| state.streams.get(&stream).is_none_or(Stream::is_idle))
    };

    fn cuStreamWaitEvent(hStream: *mut c_void, hEvent: *mut c_void, Flags: c_uint) = |library| {
        library.current()?;
        let last = library.event(hEvent.address())?.last;
        library.stream(hStream.address())?;
        // An event that was never recorded is reached.
        if let Some(recording) = last {
            library.enqueue(hStream.address(), Work::Wait(recording));
        }
        Ok(())
    };
}
