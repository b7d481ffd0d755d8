//! A socket that our own launcher made for rank 0, so that nobody else takes its port meanwhile.

use std::net::SocketAddr;
use std::os::fd::{FromRawFd as _, OwnedFd, RawFd};

use mio::net::TcpListener;
use socket2::Socket;

use crate::launcher::LISTENER;

/// The listener at `address` with which this process was started, if it was. It stays open for the
/// next communicator, and is not passed on to what this process starts.
pub(super) fn at(address: SocketAddr) -> Option<TcpListener> {
    let given: RawFd = std::env::var(LISTENER).ok()?.parse().ok()?;
    // SAFETY: a system call on numbers. If the number is no file's, or another's, the copy is none,
    // or is looked at and closed.
    let copy = unsafe { libc::fcntl(given, libc::F_DUPFD_CLOEXEC, 3) };
    if copy < 0 {
        return None;
    }
    // SAFETY: it was made here and is nobody else's.
    let socket = Socket::from(unsafe { OwnedFd::from_raw_fd(copy) });
    let is_it = socket.is_listener().ok()? && socket.local_addr().ok()?.as_socket()? == address;
    if !is_it || socket.set_nonblocking(true).is_err() {
        return None;
    }
    // SAFETY: a system call on numbers.
    unsafe { libc::fcntl(given, libc::F_SETFD, libc::FD_CLOEXEC) };
    Some(TcpListener::from_std(socket.into()))
}
