//! Events: each stands for its latest recording.

use std::ffi::{c_uint, c_void};

use crate::code::Code;
use crate::export::exports;
use crate::queue::{Event, Work};
use crate::state::Refusal;

/// `CU_EVENT_DISABLE_TIMING`
const DISABLE_TIMING: c_uint = 2;

exports! {
    fn cuEventCreate(phEvent: *mut *mut c_void, Flags: c_uint) = |library| {
        let device = library.current()?;
        let event = library.handle();
        let timed = Flags & DISABLE_TIMING == 0;
        library.events.insert(event, Event { device, timed, last: Vec::new(), capture: 0 });
        library.gives(event);
        phEvent.put(event)
    };

    fn cuEventDestroy_v2(hEvent: *mut c_void) = |library| {
        library.event(hEvent.address())?;
        library.events.remove(&hEvent.address());
        Ok(())
    };

    fn cuEventRecord(hEvent: *mut c_void, hStream: *mut c_void) = |library| {
        let device = library.current()?;
        library.enter(device)?;
        let (event, stream) = (hEvent.address(), hStream.address());
        let of_event = library.event(event)?.device;
        if library.stream(stream)?.device != of_event {
            let words = format!("event {event:#x} and stream {stream:#x} are of two devices");
            return Err(Refusal::Misuse(Code::INVALID_HANDLE, words));
        }
        let capture = library.stream(stream)?.capture;
        library.event(event)?.capture = capture;
        if capture != 0 {
            library.event(event)?.last = Vec::new();
            return library.leaves_a_point(capture, stream, event);
        }
        let recording = library.handle();
        let found = library.event(event)?;
        let (timed, before) = (found.timed, std::mem::replace(&mut found.last, vec![recording]));
        library.pending.insert(recording);
        for before in before {
            library.times.remove(&before);
        }
        if timed {
            library.times.insert(recording, None);
        }
        library.enqueue(stream, Work::Record(recording));
        Ok(())
    };

    fn cuEventQuery(hEvent: *mut c_void) = |library| {
        library.is_no_capturer("asking an event")?;
        library.is_not_captured(hEvent.address())?;
        let last = library.event(hEvent.address())?.last.clone();
        match last.iter().any(|recording| library.pending.contains(recording)) {
            true => Err(Refusal::Plain(Code::NOT_READY)),
            false => Ok(()),
        }
    };

    fn cuEventSynchronize(hEvent: *mut c_void) = |library| {
        library.is_no_capturer("waiting for an event")?;
        library.is_not_captured(hEvent.address())?;
        let last = library.event(hEvent.address())?.last.clone();
        library.wait(|state| !last.iter().any(|recording| state.pending.contains(recording)))
    };

    fn cuEventElapsedTime(
        pMilliseconds: *mut f32,
        hStart: *mut c_void,
        hEnd: *mut c_void
    ) = |library| {
        let [start, end] = [hStart.address(), hEnd.address()].map(|event| library.event(event).cloned());
        let (start, end) = (start?, end?);
        if !start.timed || !end.timed || start.device != end.device {
            let words = "two events of one device that keep the time are needed".to_owned();
            return Err(Refusal::Misuse(Code::INVALID_HANDLE, words));
        }
        if [&start, &end].iter().flat_map(|event| &event.last).any(|it| library.pending.contains(it)) {
            return Err(Refusal::Plain(Code::NOT_READY));
        }
        let [start, end] = [start, end].map(|event| {
            event.last.first().and_then(|recording| library.times.get(recording).copied().flatten())
        });
        let (Some(start), Some(end)) = (start, end) else {
            return Err(Refusal::Plain(Code::INVALID_HANDLE));
        };
        let seconds = end.saturating_duration_since(start).as_secs_f32()
            - start.saturating_duration_since(end).as_secs_f32();
        pMilliseconds.put(u64::from((seconds * 1e3).to_bits()))
    };

    fn cuCtxRecordEvent(hCtx: *mut c_void, hEvent: *mut c_void) = |library| {
        let (context, event) = (hCtx.address(), hEvent.address());
        let device = library.event(event)?.device;
        if library.contexts.get(&device) != Some(&context) {
            let words = format!("event {event:#x} is of another context than {context:#x}");
            return Err(Refusal::Misuse(Code::INVALID_HANDLE, words));
        }
        if library.streams.values().any(|stream| stream.device == device && stream.capture != 0) {
            return Err(Refusal::Plain(Code::STREAM_CAPTURE_UNSUPPORTED));
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
