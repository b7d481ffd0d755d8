//! Streams.

use std::ffi::{c_int, c_uint, c_void};

use crate::code::Code;
use crate::export::exports;
use crate::queue::{HostFunction, Stream, Work};
use crate::state::{Library, Refusal};
use crate::worker;

/// A new stream of the current context; its priority changes nothing.
fn created(library: &mut Library) -> Result<u64, Refusal> {
    let device = library.current()?;
    let stream = library.handle();
    let new = Stream::new(device);
    if library.takes_time && worker::start(stream, new.wake.clone()).is_err() {
        return Err(Refusal::Plain(Code::OUT_OF_MEMORY));
    }
    library.streams.insert(stream, new);
    library.gives(stream);
    Ok(stream)
}

exports! {
    fn cuStreamCreate(phStream: *mut *mut c_void, Flags: c_uint) = |library| {
        let stream = created(library)?;
        phStream.put(stream)
    };

    fn cuStreamCreateWithPriority(
        phStream: *mut *mut c_void,
        flags: c_uint,
        priority: c_int,
    ) = |library| {
        let stream = created(library)?;
        phStream.put(stream)
    };

    fn cuCtxGetStreamPriorityRange(
        leastPriority: *mut c_int,
        greatestPriority: *mut c_int,
    ) = |library| {
        library.current()?;
        leastPriority.put(0)?;
        greatestPriority.put(-5_i64 as u64)
    };

    fn cuStreamDestroy_v2(hStream: *mut c_void) = |library| {
        // Enqueued work still runs.
        library.stream(hStream.address())?.destroyed = true;
        Ok(())
    };

    fn cuStreamQuery(hStream: *mut c_void) = |library| {
        library.is_live(hStream.address())?;
        match library.stream(hStream.address())?.is_idle() {
            true => Ok(()),
            false => Err(Refusal::Plain(Code::NOT_READY)),
        }
    };

    fn cuStreamSynchronize(hStream: *mut c_void) = |library| {
        let stream = hStream.address();
        library.is_live(stream)?;
        library.wait(|state| state.streams.get(&stream).is_none_or(Stream::is_idle))
    };

    fn cuStreamIsCapturing(hStream: *mut c_void, captureStatus: *mut c_int) = |library| {
        let capture = library.stream(hStream.address())?.capture;
        captureStatus.put(u64::from(capture != 0))
    };

    fn cuStreamGetCtx(hStream: *mut c_void, pctx: *mut *mut c_void) = |library| {
        let device = library.stream(hStream.address())?.device;
        let context = library.context(device);
        pctx.put(context)
    };

    fn cuLaunchHostFunc(
        hStream: *mut c_void,
        fn_: HostFunction,
        userData: *mut c_void,
    ) = |library| {
        if !library.takes_time {
            // It would run inside the call, under every lock.
            return Err(Refusal::Plain(Code::NOT_SUPPORTED));
        }
        let call = Work::Call { function: fn_, data: userData.address() };
        library.enqueue(hStream.address(), call);
        Ok(())
    };

    fn cuStreamWaitEvent(hStream: *mut c_void, hEvent: *mut c_void, Flags: c_uint) = |library| {
        library.current()?;
        let last = library.event(hEvent.address())?.last.clone();
        library.stream(hStream.address())?;
        if library.joins(hStream.address(), hEvent.address())? {
            return Ok(());
        }
        // An event that was never recorded counts as reached.
        for recording in last {
            library.enqueue(hStream.address(), Work::Wait(recording));
        }
        Ok(())
    };
}
