//! Files that a process inherits.

use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::Command;

/// Passes a file to a process under the same number. Only that process keeps it, because this one's
/// copy closes with the command.
pub(in crate::entry) fn inherit(command: &mut Command, file: OwnedFd) {
    let keep = move || {
        // SAFETY: the system call takes only numbers.
        match unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETFD, 0) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    };
    // SAFETY: between fork and exec the closure makes one system call and allocates nothing.
    unsafe { command.pre_exec(keep) };
}
