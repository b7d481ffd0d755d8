//! Kernels on the host: their Rust bodies.

use super::HostBackend;
use crate::backend::{Launches, Seen};
use crate::error::Site;
use crate::kernel::{Arguments, Kernel, Shown, View, Views};
use crate::stream::Launching;

/// Says which device communicators the next launch of this thread brings.
pub(super) fn announce(arguments: &impl Arguments<HostBackend>) {
    arguments.each(|shown| {
        if let Shown::Comm(shared) = shown {
            shared.announce();
        }
    });
}

/// Runs a kernel's body, in its stream's turn.
///
/// # Safety
/// As of [`Launches::run`]; other uses of the memory are over, or wait.
pub(super) unsafe fn run(
    kernel: &'static Kernel,
    arguments: &impl Arguments<HostBackend>,
    site: Site,
) {
    // A kernel without one does not compile where it is run.
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
            // Its closure waits for nobody's range: it reads and writes element by element.
            Shown::Windowed(window) => View::Windowed(window),
        });
    });
    let _guard = HostBackend::guard(&seen, site);
    // SAFETY: the caller's promise; what is written was borrowed exclusively, so it is apart from the rest,
    // and the guard keeps peers away.
    body(unsafe { Views::new(views) });
}
