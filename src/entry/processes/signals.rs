//! Signals to this process, to be passed on to its children, or about them.

use std::io;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// The signals that are passed on.
const PASSED_ON: [i32; 6] =
    [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT, libc::SIGUSR1, libc::SIGUSR2];

/// The received signals. As long as it exists they do not end this process.
pub(in crate::entry) struct Signals(Vec<(i32, Arc<AtomicBool>)>);

impl Signals {
    pub(in crate::entry) fn listen() -> io::Result<Self> {
        hear_of_children()?;
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

/// Keeps the status of children that end: a process that ignores `SIGCHLD`, as one does whose parent
/// ignored it, loses it.
fn hear_of_children() -> io::Result<()> {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: the system writes only to `action`, which is large enough, and keeps no pointer to it.
    if unsafe { libc::sigaction(libc::SIGCHLD, ptr::null(), action.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: `sigaction` is plain data and was zeroed.
    let mut action = unsafe { action.assume_init() };
    if action.sa_sigaction == libc::SIG_IGN {
        action.sa_sigaction = libc::SIG_DFL;
    }
    action.sa_flags &= !libc::SA_NOCLDWAIT;
    // SAFETY: it is the action as it was, with the default in place of no handler.
    match unsafe { libc::sigaction(libc::SIGCHLD, &raw const action, ptr::null_mut()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
