//! Files that a process is started with.

use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::Command;

/// Gives a process a file by its number here; the file is nobody else's when the process has ended.
pub(in crate::entry) fn inherit(command: &mut Command, file: OwnedFd) {
    let keep = move || {
        // SAFETY: a system call on numbers.
        match unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETFD, 0) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    };
    // SAFETY: between fork and exec it makes one system call, and allocates nothing.
    unsafe { command.pre_exec(keep) };
}
