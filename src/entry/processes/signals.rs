//! Signals to this process, to be passed on to its children.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// The signals that are passed on.
const PASSED_ON: [i32; 6] =
    [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT, libc::SIGUSR1, libc::SIGUSR2];

/// The received signals. As long as it exists they do not end this process.
pub(in crate::entry) struct Signals(Vec<(i32, Arc<AtomicBool>)>);

impl Signals {
    pub(in crate::entry) fn listen() -> io::Result<Self> {
        let listen = |signal| {
            let came = Arc::new(AtomicBool::new(false));
            signal_hook::flag::register(signal, came.clone())?;
            Ok((signal, came))
        };
        PASSED_ON.into_iter().map(listen).collect::<io::Result<_>>().map(Self)
    }

    /// The signals received since the last call.
    pub(in crate::entry) fn take(&self) -> Vec<i32> {
        let came = self.0.iter().filter(|(_, came)| came.swap(false, Relaxed));
        came.map(|(signal, _)| *signal).collect()
    }
}
