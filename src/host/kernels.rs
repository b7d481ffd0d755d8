//! Runs kernels on the host, by their Rust bodies.

use super::HostBackend;
use crate::backend::{Launches, Seen};
use crate::compute::{Arguments, Kernel, Shown, View, Views};
use crate::error::Site;
use crate::stream::Launching;

/// Adds a kernel's device communicators to this thread's next launch.
pub(super) fn announce(arguments: &impl Arguments<HostBackend>) {
    arguments.each(|shown| {
        if let Shown::Comm(shared) = shown {
            shared.announce();
        }
    });
}

/// Runs a kernel's body, in its stream's order.
///
/// # Safety
/// As for [`Launches::run`]; other uses of the memory are over, or wait.
pub(super) unsafe fn run(
    kernel: &'static Kernel,
    arguments: &impl Arguments<HostBackend>,
    site: Site,
) {
    // Running a kernel without a host body does not compile.
    let Some(body) = kernel.host else { return };
    let _launching = Launching::enter();
    let (mut views, mut seen) = (Vec::new(), Vec::new());
    arguments.each(|shown| {
        views.push(match shown {
            Shown::Scalar { bytes, cuda } => View::Scalar { bytes, cuda },
            Shown::Memory { block, offset, len, dtype, write } => {
                seen.push(Seen { block, offset, bytes: len * dtype.size(), write });
                // SAFETY: the caller keeps the range inside the block.
                let start = unsafe { block.at(offset) };
                View::Memory { start, len, dtype, write }
            }
            Shown::Comm(shared) => View::Comm(shared),
            Shown::Barrier { dev, index } => View::Barrier(dev, *index),
            // Its closure blocks no other range: it reads and writes element by element.
            Shown::Windowed(window) => View::Windowed(window.dtype, window),
        });
    });
    let _guard = HostBackend::guard(&seen, site);
    // SAFETY: the caller's promise. Written memory was borrowed exclusively, so it does not overlap
    // the rest, and the guard keeps peers away.
    body(unsafe { Views::new(views) });
}
