//! How a test talks to one copy of the library: by functions that the driver lacks, found by name.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::fmt::Write as _;

use double::{Sink, give};

use crate::code::Code;
use crate::exports::FUNCTIONS;
use crate::ours;
use crate::queue::{Stream, Work};
use crate::state::Library;

/// The resources that a copy has handed out and not taken back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
#[non_exhaustive]
pub struct Live {
    /// Streams.
    pub streams: usize,
    /// Events.
    pub events: usize,
    /// Pieces of device memory.
    pub pieces: usize,
    /// Bytes of device memory.
    pub bytes: usize,
    /// Pieces of pinned memory.
    pub pinned: usize,
    /// Ranges of second addresses that a device may use.
    pub mappings: usize,
    /// Graphs, and their executables.
    pub graphs: usize,
}

double::controls! {
    /// The calls, one per line.
    fn fake_cuda_log(sink: Sink, context: *mut c_void) = {
        let mut text = String::new();
        for (_, call) in &Library::lock().log {
            // Writing to a string does not fail.
            let _ = writeln!(text, "{call}");
        }
        // SAFETY: the context came with the sink.
        unsafe { give(&text, sink, context) };
    }

    /// The misuse, one per line.
    fn fake_cuda_misuse(sink: Sink, context: *mut c_void) = {
        let text = Library::lock().misuse.join("\n");
        // SAFETY: the context came with the sink.
        unsafe { give(&text, sink, context) };
    }

    /// Clears the calls and the misuse.
    fn fake_cuda_clear() = {
        let mut library = Library::lock();
        library.log.clear();
        library.misuse.clear();
    }

    /// How many devices there are.
    fn fake_cuda_set_devices(count: usize) = {
        Library::lock().devices = count;
    }

    /// How much memory each device has.
    fn fake_cuda_set_limit(bytes: usize) = {
        Library::lock().limit = bytes;
    }

    /// The size of foreign memory's pieces.
    fn fake_cuda_set_virtual(bytes: usize) = {
        Library::lock().virtual_piece = bytes;
    }

    /// Whether captures in global mode are allowed.
    fn fake_cuda_set_others_capture(captures: bool) = {
        Library::lock().others_capture = captures;
    }

    /// Whether the devices are lost.
    fn fake_cuda_set_fault(fault: bool) = {
        Library::lock().fault = fault;
    }

    /// The next call of a function returns this; false if there is no such function or code.
    fn fake_cuda_fail(name: *const c_char, code: c_int) -> bool = {
        // SAFETY: the caller passes a string that ends with a zero.
        let name = unsafe { CStr::from_ptr(name) }.to_bytes();
        let found = FUNCTIONS.iter().find(|function| function.as_bytes() == name);
        match (found, Code::of(code)) {
            (Some(function), Some(code)) => {
                Library::lock().tell(function, code);
                true
            }
            _ => false,
        }
    }

    /// Holds a stream; false if it is not one.
    fn fake_cuda_hold(stream: u64) -> bool = {
        let mut library = Library::lock();
        let found = library.stream(stream).is_ok();
        library.enqueue(stream, Work::Hold);
        found
    }

    /// Releases a stream; false if it is not one.
    fn fake_cuda_release(stream: u64) -> bool = {
        let mut library = Library::lock();
        let found = library.streams.get_mut(&stream).map(Stream::release).is_some();
        library.advance();
        found
    }

    /// Releases every stream.
    fn fake_cuda_release_all() = {
        let mut library = Library::lock();
        library.streams.values_mut().for_each(Stream::release);
        library.advance();
    }

    /// The device that is current on the calling thread, or -1.
    fn fake_cuda_current() -> c_int = {
        Library::lock().current().map_or(-1, |device| device as c_int)
    }

    /// How many of the library's own kernels have begun.
    fn fake_cuda_begun() -> usize = {
        ours::begun()
    }

    /// The resources handed out and not taken back.
    fn fake_cuda_live() -> Live = {
        let library = Library::lock();
        let pieces = || library.pieces.values().filter(|piece| !piece.freed);
        Live {
            streams: library.streams.values().filter(|stream| !stream.destroyed).count(),
            events: library.events.len(),
            pieces: pieces().count(),
            bytes: pieces().map(|piece| piece.bytes).sum(),
            pinned: library.pinned,
            mappings: library.ranges.values().filter(|range| range.allowed).count(),
            graphs: library.graphs.len() + library.executables.len(),
        }
    }
}
