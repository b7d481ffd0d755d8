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
        library.events.insert(event, Event { device, last: Vec::new() });
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
        library.event(event)?.last = vec![recording];
        library.pending.insert(recording);
        library.enqueue(stream, Work::Record(recording));
        Ok(())
    };

    fn cuEventQuery(hEvent: *mut c_void) = |library| {
        let last = library.event(hEvent.address())?.last.clone();
        match last.iter().any(|recording| library.pending.contains(recording)) {
            true => Err(Refusal::Plain(Code::NOT_READY)),
            false => Ok(()),
        }
    };

    fn cuEventSynchronize(hEvent: *mut c_void) = |library| {
        let last = library.event(hEvent.address())?.last.clone();
        library.wait(|state| !last.iter().any(|recording| state.pending.contains(recording)))
    };

    fn cuCtxRecordEvent(hCtx: *mut c_void, hEvent: *mut c_void) = |library| {
        let (context, event) = (hCtx.address(), hEvent.address());
        let device = library.event(event)?.device;
        if library.contexts.get(&device) != Some(&context) {
            let words = format!("event {event:#x} is of another context than {context:#x}");
            return Err(Refusal::Misuse(Code::INVALID_HANDLE, words));
        }
        let of_device = library.streams.iter().filter(|(_, stream)| stream.device == device);
        let streams: Vec<_> = of_device.map(|(handle, _)| *handle).collect();
        let recordings: Vec<_> = streams.iter().map(|_| library.handle()).collect();
        library.pending.extend(&recordings);
        library.event(event)?.last = recordings.clone();
        for (stream, recording) in streams.into_iter().zip(recordings) {
            library.enqueue(stream, Work::Record(recording));
        }
        Ok(())
    };
}
