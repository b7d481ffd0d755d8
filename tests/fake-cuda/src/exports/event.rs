//! Events: each stands for its latest recording.

use std::ffi::{c_uint, c_void};

use crate::code::Code;
use crate::export::exports;
use crate::queue::{Event, Work};
use crate::state::Refusal;

exports! {
    fn cuEventCreate(phEvent: *mut *mut c_void, Flags: c_uint) = |library| {
        let device = library.current()?;
        let event = library.handle();
        library.events.insert(event, Event { device, last: None });
        library.gives(event);
        phEvent.put(event)
    };

    fn cuEventDestroy_v2(hEvent: *mut c_void) = |library| {
        library.event(hEvent.address())?;
        library.events.remove(&hEvent.address());
        Ok(())
    };

    fn cuEventRecord(hEvent: *mut c_void, hStream: *mut c_void) = |library| {
        library.current()?;
        let (event, stream) = (hEvent.address(), hStream.address());
        let of_event = library.event(event)?.device;
        if library.stream(stream)?.device != of_event {
            let words = format!("event {event:#x} and stream {stream:#x} are of two devices");
            return Err(Refusal::Misuse(Code::INVALID_HANDLE, words));
        }
        let recording = library.handle();
        library.event(event)?.last = Some(recording);
        library.pending.insert(recording);
        library.enqueue(stream, Work::Record(recording));
        Ok(())
    };

    fn cuEventQuery(hEvent: *mut c_void) = |library| {
        let last = library.event(hEvent.address())?.last;
        match last.is_some_and(|recording| library.pending.contains(&recording)) {
            true => Err(Refusal::Plain(Code::NOT_READY)),
            false => Ok(()),
        }
    };

    fn cuEventSynchronize(hEvent: *mut c_void) = |library| {
        match library.event(hEvent.address())?.last {
            Some(recording) => library.wait(|state| !state.pending.contains(&recording)),
            None => Ok(()),
        }
    };
}
