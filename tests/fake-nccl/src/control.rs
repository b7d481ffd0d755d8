//! How a test talks to one copy of the library: by functions that NCCL lacks, found by name.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::fmt::Write as _;

use double::{Sink, give};
use nccl_sys::{Function, ncclResult_t};

use crate::state::{Before, State};

/// The resources that a copy has handed out and not taken back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
#[non_exhaustive]
pub struct Live {
    /// Communicators.
    pub communicators: usize,
    /// Device communicators.
    pub device_communicators: usize,
    /// Plain registrations.
    pub registrations: usize,
    /// Windows.
    pub windows: usize,
    /// Reduction operators that were made.
    pub operators: usize,
    /// Pieces of memory.
    pub allocations: usize,
}

double::controls! {
    /// The calls, one per line.
    fn fake_nccl_log(sink: Sink, context: *mut c_void) = {
        let mut text = String::new();
        for call in &State::lock().log {
            // Writing to a string does not fail.
            let _ = writeln!(text, "{call}");
        }
        // SAFETY: the context came with the sink.
        unsafe { give(&text, sink, context) };
    }

    /// The misuse, one per line.
    fn fake_nccl_misuse(sink: Sink, context: *mut c_void) = {
        let text = State::lock().misuse.join("\n");
        // SAFETY: the context came with the sink.
        unsafe { give(&text, sink, context) };
    }

    /// Clears the calls and the misuse.
    fn fake_nccl_clear() = {
        let mut state = State::lock();
        state.log.clear();
        state.misuse.clear();
    }

    /// What `ncclGetVersion` writes.
    fn fake_nccl_set_version(code: c_int) = {
        State::lock().version = code;
    }

    /// The CUDA device of the calling thread.
    fn fake_nccl_set_device(ordinal: c_int) = {
        State::lock().thread().device = ordinal;
    }

    /// The next call of a function returns this; false if there is none of this name.
    fn fake_nccl_fail(name: *const c_char, result: ncclResult_t) -> bool = {
        // SAFETY: the caller passes a string that ends with a zero.
        let name = unsafe { CStr::from_ptr(name) }.to_bytes();
        let found = Function::ALL.iter().find(|function| function.name().as_bytes() == name);
        if let Some(function) = found {
            State::lock().tell(function.name(), result);
        }
        found.is_some()
    }

    /// Calls of a function wait until their communicator is revoked, or no longer do; false if
    /// there is none of this name.
    fn fake_nccl_set_stuck(name: *const c_char, stuck: bool) -> bool = {
        // SAFETY: the caller passes a string that ends with a zero.
        let name = unsafe { CStr::from_ptr(name) }.to_bytes();
        let found = Function::ALL.iter().find(|function| function.name().as_bytes() == name);
        if let Some(function) = found {
            let mut state = State::lock();
            match stuck {
                true => state.stuck.insert(function.name()),
                false => state.stuck.remove(function.name()),
            };
        }
        found.is_some()
    }

    /// The value that a communicator's `ncclCommGetAsyncError` writes; false if it is not a
    /// communicator.
    fn fake_nccl_set_async_error(comm: usize, result: ncclResult_t) -> bool = {
        let mut state = State::lock();
        let found = state.communicators.get_mut(&comm);
        found.map(|communicator| communicator.asynchronous = result).is_some()
    }

    /// The text of `ncclGetLastError`.
    fn fake_nccl_set_last_error(text: *const c_char) = {
        // SAFETY: the caller passes a string that ends with a zero.
        let text = unsafe { CStr::from_ptr(text) };
        State::lock().set_error(&text.to_string_lossy());
    }

    /// This rank and the number of ranks in the next child of a split.
    fn fake_nccl_next_split(rank: c_int, count: c_int) = {
        State::lock().splits.push_back((rank, count));
    }

    /// The function to call before each call.
    fn fake_nccl_before(tell: Option<Before>) = {
        State::lock().before = tell;
    }

    /// Whether windows are supported.
    fn fake_nccl_set_windows(has: bool) = {
        State::lock().has_windows = has;
    }

    /// Whether windows can be the targets of counted transfers.
    fn fake_nccl_set_counted(has: bool) = {
        State::lock().has_counted = has;
    }

    /// Whether one-sided operations are supported.
    fn fake_nccl_set_rma(has: bool) = {
        State::lock().has_rma = has;
    }

    /// Whether device communicators are supported.
    fn fake_nccl_set_device_api(has: bool) = {
        State::lock().has_device_api = has;
    }

    /// The best kind of network access for kernels, the best within a rail, and its reach, by
    /// NCCL's numbers.
    fn fake_nccl_set_gin(way: c_int, railed: c_int, connections: c_int) = {
        State::lock().gin = (way, railed, connections);
    }

    /// Whether there is multicast memory, and endpoints and teams for counted transfers.
    fn fake_nccl_set_mapped(has: bool) = {
        State::lock().is_mapped = has;
    }

    /// The resources handed out and not taken back.
    fn fake_nccl_live() -> Live = {
        let state = State::lock();
        let communicators = state.communicators.values();
        Live {
            communicators: communicators.len(),
            device_communicators: communicators.map(|communicator| communicator.on_device).sum(),
            registrations: state.registrations.values().map(|one| one.count).sum(),
            windows: state.windows.len(),
            operators: state.operators.len(),
            allocations: state.allocations.len(),
        }
    }
}
