//! Streams that take their time: each has a thread that does its work in order, and ends with the
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
        // Nothing is locked: it may take long.
        work.carry_out();
        state = state::lock();
        state.over(stream, &work);
        state::changed();
    }
}

impl Work {
    /// Does what has to do with memory; what is to be noted is noted by who asks.
    pub(crate) fn carry_out(&self) {
        match self {
            // What is to be called again is a call when it is launched.
            Self::Hold | Self::Wait(_) | Self::Record(_) | Self::Free(_) | Self::Again { .. } => {}
            &Self::Set { to, value, width, pitch, count } => {
                // SAFETY: device memory is never given back, and the owner of other memory keeps the
                // driver's contract: it is there, and nobody else's, until its stream is past.
                unsafe { crate::memory::set(to, value, (width, pitch), count) };
            }
            &Self::Copy { to, from, bytes } => {
                // SAFETY: as above, for both sides.
                unsafe { crate::memory::copy(to, from, bytes) };
            }
            Self::Launch { kernel, grid, arguments } => {
                // SAFETY: who launched it has given the kernel's arguments, and memory as above.
                unsafe { kernel.run(*grid, arguments) };
            }
            &Self::Call { function, data } => {
                // SAFETY: the caller of `cuLaunchHostFunc` promised that it can be called with this,
                // from any thread, once; where it was captured, at each launch.
                unsafe { function(std::ptr::with_exposed_provenance_mut(data as usize)) };
            }
        }
    }
}
