//! Streams whose work takes time: each has a thread that does its work in order, and ends with the
//! process.

use std::io;
use std::sync::{Arc, Condvar, PoisonError};
use std::thread;

use crate::queue::Work;
use crate::state;

/// Starts the thread of a stream.
pub(crate) fn start(stream: u64, wake: Arc<Condvar>) -> io::Result<()> {
    let thread = thread::Builder::new().name("CUDA stream".to_owned());
    thread.spawn(move || run(stream, &wake)).map(drop)
}

fn run(stream: u64, wake: &Condvar) {
    let mut state = state::lock();
    loop {
        let Some(work) = state.begin(stream) else {
            state = wake.wait(state).unwrap_or_else(PoisonError::into_inner);
            continue;
        };
        drop(state);
        // No lock is held, as it may take long.
        work.carry_out();
        state = state::lock();
        state.over(stream, &work);
        state::changed();
    }
}

impl Work {
    /// Does the part of the work that concerns memory; the caller updates the state.
    pub(crate) fn carry_out(&self) {
        match self {
            // Repeated work is a call when it is launched.
            Self::Hold | Self::Wait(_) | Self::Record(_) | Self::Free(_) | Self::Again { .. } => {}
            &Self::Set { to, value, width, pitch, count } => {
                // SAFETY: device memory is never freed, and the owner of other memory keeps the
                // driver's contract: it exists, and nothing else uses it, until its stream has
                // passed.
                unsafe { crate::memory::set(to, value, (width, pitch), count) };
            }
            &Self::Copy { to, from, bytes } => {
                // SAFETY: as above, for both sides.
                unsafe { crate::memory::copy(to, from, bytes) };
            }
            Self::Launch { kernel, grid, arguments } => {
                // SAFETY: its launch passed the kernel's arguments, and memory as above.
                unsafe { kernel.run(*grid, arguments) };
            }
            &Self::Call { function, data } => {
                // SAFETY: the caller of `cuLaunchHostFunc` promised that it can be called with this
                // data, from any thread, once, or at each launch if it was captured.
                unsafe { function(std::ptr::with_exposed_provenance_mut(data as usize)) };
            }
        }
    }
}
