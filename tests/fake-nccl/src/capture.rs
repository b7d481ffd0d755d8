//! Capturing streams: queried from the double of CUDA, if it is the driver.

use std::sync::OnceLock;

use libloading::Library;

use crate::state::{Answer, Refusal, State};

struct Driver {
    capture: unsafe extern "C" fn(u64) -> u64,
    is_alive: unsafe extern "C" fn(u64) -> bool,
}

fn driver() -> Option<&'static Driver> {
    static FOUND: OnceLock<Option<Driver>> = OnceLock::new();
    let find = || {
        // SAFETY: the library of this name is CUDA's driver, or its double.
        let library = unsafe { Library::new("libcuda.so.1") }.ok()?;
        // SAFETY: only the double has it, with this type.
        let capture = unsafe { library.get("fake_cuda_capture") }.ok().map(|it| *it);
        // SAFETY: as above.
        let is_alive = unsafe { library.get("fake_cuda_is_alive") }.ok().map(|it| *it);
        std::mem::forget(library);
        Some(Driver { capture: capture?, is_alive: is_alive? })
    };
    FOUND.get_or_init(find).as_ref()
}

/// The capture that a stream takes part in, or 0.
pub(crate) fn of(stream: usize) -> u64 {
    // SAFETY: the function accepts any number.
    driver().map_or(0, |driver| unsafe { (driver.capture)(stream as u64) })
}

impl State {
    /// Records the capture of a communicator's call. A group has one, or none.
    pub(crate) fn is_captured(&mut self, comm: usize, stream: usize) -> Answer {
        let capture = of(stream);
        let thread = self.thread();
        if thread.groups > 0 {
            match thread.captures.iter().find(|(known, _)| *known == comm) {
                Some((_, other)) if *other != capture => {
                    let words = "a group has streams that capture, and others that do not";
                    return Err(Refusal::usage(words));
                }
                Some(_) => {}
                None => thread.captures.push((comm, capture)),
            }
        }
        if capture != 0 && !self.captured.contains(&(comm, capture)) {
            self.captured.push((comm, capture));
        }
        Ok(())
    }

    /// Refuses to end a communicator with graphs: NCCL would wait for their ends forever.
    pub(crate) fn has_no_graph(&mut self, comm: usize) -> Answer {
        let is_alive = |&(known, capture): &(usize, u64)| {
            // SAFETY: the function accepts any number.
            known == comm && driver().is_some_and(|driver| unsafe { (driver.is_alive)(capture) })
        };
        if self.captured.iter().any(is_alive) {
            let words = "there is a graph of it: NCCL would wait for that graph's end for ever";
            return Err(Refusal::usage(words));
        }
        self.captured.retain(|(known, _)| *known != comm);
        Ok(())
    }
}
