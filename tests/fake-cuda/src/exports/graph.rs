//! Graphs.

use std::ffi::{c_int, c_void};
use std::thread;

use crate::code::Code;
use crate::export::exports;
use crate::queue::{HostFunction, Prepare, Work};
use crate::state::{Library, Refusal};

/// `CU_STREAM_CAPTURE_MODE_GLOBAL`
const GLOBAL: c_int = 0;
/// `CU_STREAM_CAPTURE_MODE_RELAXED`
const RELAXED: c_int = 2;

exports! {
    fn cuStreamBeginCapture_v2(hStream: *mut c_void, mode: c_int) = |library| {
        library.current()?;
        let global = mode == GLOBAL && library.others_capture;
        if mode != RELAXED && !global {
            // Otherwise NCCL could not connect ranks in their first operation.
            return Err(Refusal::value("typed-nccl captures in relaxed mode only"));
        }
        library.begin_capture(hStream.address(), global)
    };

    fn cuThreadExchangeStreamCaptureMode(mode: *mut c_int) = |library| {
        // SAFETY: by the contract of the driver's function a mode is there.
        let new = unsafe { mode.number() }?;
        let thread = thread::current().id();
        let was_relaxed = match new {
            RELAXED => !library.relaxed.insert(thread),
            _ => library.relaxed.remove(&thread),
        };
        let old = if was_relaxed { RELAXED } else { GLOBAL };
        mode.put(u64::try_from(old).unwrap_or_default())
    };

    fn cuStreamEndCapture(hStream: *mut c_void, phGraph: *mut *mut c_void) = |library| {
        let graph = match library.end_capture(hStream.address()) {
            Ok(graph) => graph,
            Err(refusal) => {
                phGraph.put(0)?;
                return Err(refusal);
            }
        };
        library.gives(graph);
        phGraph.put(graph)
    };

    fn cuGraphInstantiateWithFlags(
        phGraphExec: *mut *mut c_void,
        hGraph: *mut c_void,
        flags: u64,
    ) = |library| {
        let capture = library.graph(hGraph.address())?;
        let executable = library.handle();
        library.executables.insert(executable, capture);
        library.gives(executable);
        phGraphExec.put(executable)
    };

    fn cuGraphLaunch(hGraphExec: *mut c_void, hStream: *mut c_void) = |library| {
        library.current()?;
        library.launch_graph(hGraphExec.address(), hStream.address())
    };

    fn cuGraphExecDestroy(hGraphExec: *mut c_void) = |library| {
        library.executable(hGraphExec.address())?;
        library.executables.remove(&hGraphExec.address());
        Ok(())
    };

    fn cuGraphDestroy(hGraph: *mut c_void) = |library| {
        library.graph(hGraph.address())?;
        library.graphs.remove(&hGraph.address());
        Ok(())
    };
}

/// The capture that a stream takes part in, or 0: for the double of NCCL.
#[unsafe(no_mangle)]
extern "C" fn fake_cuda_capture(stream: u64) -> u64 {
    Library::lock().streams.get(&stream).map_or(0, |stream| stream.capture)
}

/// Makes a capturing stream call a function at each launch, with the data that the other function
/// returns then. For the double of NCCL, whose calls count at their launches.
#[unsafe(no_mangle)]
extern "C" fn fake_cuda_again(
    stream: u64,
    prepare: Prepare,
    function: HostFunction,
    data: u64,
) -> c_int {
    let mut library = Library::lock();
    match library.captured(stream, Work::Again { prepare, function, data }) {
        None => Code::SUCCESS.number(),
        Some(_) => Code::INVALID_VALUE.number(),
    }
}

/// Whether anything of a capture still exists: for the double of NCCL, whose communicators end
/// after it.
#[unsafe(no_mangle)]
extern "C" fn fake_cuda_is_alive(capture: u64) -> bool {
    Library::lock().is_alive(capture)
}
