//! The listener that our own launcher opened for rank 0, so that no other process takes the port
//! before rank 0 starts.

use std::net::SocketAddr;
use std::os::fd::{FromRawFd as _, OwnedFd, RawFd};

use mio::net::TcpListener;
use socket2::Socket;

use crate::launcher::LISTENER;

/// The inherited listener, if it is at `address`. The original stays open for the next
/// communicator; processes that this one starts do not inherit it.
pub(super) fn at(address: SocketAddr) -> Option<TcpListener> {
    let given: RawFd = std::env::var(LISTENER).ok()?.parse().ok()?;
    // SAFETY: a system call on integers. If `given` is no descriptor, there is no copy; if it is
    // another file's, the copy is inspected and closed.
    let copy = unsafe { libc::fcntl(given, libc::F_DUPFD_CLOEXEC, 3) };
    if copy < 0 {
        return None;
    }
    // SAFETY: the descriptor was created above and has no other owner.
    let socket = Socket::from(unsafe { OwnedFd::from_raw_fd(copy) });
    let is_it = socket.is_listener().ok()? && socket.local_addr().ok()?.as_socket()? == address;
    if !is_it || socket.set_nonblocking(true).is_err() {
        return None;
    }
    // SAFETY: a system call on integers.
    unsafe { libc::fcntl(given, libc::F_SETFD, libc::FD_CLOEXEC) };
    Some(TcpListener::from_std(socket.into()))
}
