//! How a peer gets at this process's arena: through a socket without a place in the file system.
//!
//! The socket's name exists in one network namespace, so a process of another machine or container
//! is refused by the system at once. Whoever connects must be of our user and know a secret.

use std::fmt;
use std::io::{self, ErrorKind, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::time::{Duration, Instant};

use rustix::io::{Errno, retry_on_intr};
use rustix::net::{self, RecvAncillaryMessage, SendAncillaryMessage};
use serde::{Deserialize, Serialize};
use subtle::ConstantTimeEq;
use zerocopy::IntoBytes;

use super::arena::Arena;
use super::log::Place;
use super::process::Process;
use super::{LOG, header};
use crate::quiet::Quiet;

/// How long the doorman listens to one visitor.
const PATIENCE: Duration = Duration::from_secs(1);

/// What a peer needs to reach a process's arena: a secret between the two.
#[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(in crate::host) struct Address {
    name: [u8; 16],
    token: [u8; 32],
    pub(super) id: u64,
}

impl Address {
    pub(in crate::host) fn id(&self) -> u64 {
        self.id
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Address").field("id", &self.id).finish_non_exhaustive()
    }
}

/// Admits peers to an arena from now on.
pub(super) fn start(arena: &'static Arena) -> io::Result<Address> {
    let address = Address { name: random()?, token: random()?, id: arena.id() };
    let listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(address.name)?)?;
    // All of a machine's processes may come at once.
    net::listen(&listener, header::READERS as i32)?;
    let token = address.token;
    let doorman = std::thread::Builder::new().name("nccl-doorman".into());
    doorman.spawn(move || {
        let _quiet = Quiet::enter();
        loop {
            let admitted = match listener.accept() {
                Ok((visitor, _)) => admit(arena, &token, &visitor),
                Err(error) => {
                    std::thread::sleep(Duration::from_millis(10));
                    Err(error)
                }
            };
            if let Err(error) = admitted {
                log::debug!("a process was not let into this process's memory: {error}");
            }
        }
    })?;
    Ok(address)
}

fn admit(arena: &Arena, token: &[u8; 32], visitor: &UnixStream) -> io::Result<()> {
    let refused = |why| Err(io::Error::new(ErrorKind::PermissionDenied, why));
    let deadline = Instant::now() + PATIENCE;
    let peer = credentials(visitor)?;
    if !is_trusted(peer.uid) {
        return refused("it is another user's");
    }
    let (mut said, mut id) = ([0; 32], 0_u64);
    read_by(deadline, visitor, &mut said)?;
    read_by(deadline, visitor, id.as_mut_bytes())?;
    if !bool::from(said.ct_eq(token)) {
        return refused("it does not know the secret");
    }
    let process = Process::new(peer.pid);
    let place = LOG.lock().admit(arena.header(), id, process);
    let Some(place) = place else { return refused("too many processes read this one's events") };
    let sent = hand_over(arena, place, visitor);
    if sent.is_err() {
        LOG.lock().leave(arena.header(), place);
    }
    sent
}

fn hand_over(arena: &Arena, place: Place, visitor: &UnixStream) -> io::Result<()> {
    let reply = [place.slot as u64, place.cursor, place.number];
    let files = [arena.file().as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = net::SendAncillaryBuffer::new(&mut space);
    control.push(SendAncillaryMessage::ScmRights(&files));
    visitor.set_write_timeout(Some(PATIENCE))?;
    let flags = net::SendFlags::NOSIGNAL;
    match net::sendmsg(visitor, &[IoSlice::new(reply.as_bytes())], &mut control, flags)? {
        24 => Ok(()),
        _ => Err(ErrorKind::WriteZero.into()),
    }
}

/// Asks a process for its arena.
pub(super) fn visit(address: &Address, own: u64, within: Duration) -> io::Result<(OwnedFd, Place)> {
    let deadline = Instant::now() + within;
    let flags = net::SocketFlags::CLOEXEC;
    let socket = net::socket_with(net::AddressFamily::UNIX, net::SocketType::STREAM, flags, None)?;
    net::sockopt::set_socket_timeout(&socket, net::sockopt::Timeout::Send, Some(within))?;
    let name = net::SocketAddrUnix::new_abstract_name(&address.name)?;
    retry_on_intr(|| net::connect(&socket, &name))?;
    let mut stream = UnixStream::from(socket);
    // A stranger could have taken the name of a process that ended.
    if !is_trusted(credentials(&stream)?.uid) {
        return Err(io::Error::new(ErrorKind::PermissionDenied, "the socket is another user's"));
    }
    stream.write_all(&address.token)?;
    stream.write_all(own.as_bytes())?;
    let mut reply = [0_u64; 3];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = net::RecvAncillaryBuffer::new(&mut space);
    let flags = net::RecvFlags::CMSG_CLOEXEC;
    let got = loop {
        stream.set_read_timeout(Some(left(deadline)?))?;
        let into = &mut [IoSliceMut::new(reply.as_mut_bytes())];
        match net::recvmsg(&stream, into, &mut control, flags) {
            // As after a stop of this process, whatever the handlers say.
            Err(Errno::INTR) => {}
            got => break got?,
        }
    };
    let file = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut files) => files.next(),
        _ => None,
    });
    let (24, Some(file)) = (got.bytes, file) else {
        return Err(io::Error::new(ErrorKind::PermissionDenied, "the peer let nobody in"));
    };
    let [slot, cursor, number] = reply;
    match usize::try_from(slot).ok().filter(|slot| *slot < header::READERS) {
        Some(slot) if cursor < u64::MAX / 2 => Ok((file, Place { slot, cursor, number })),
        _ => Err(io::Error::new(ErrorKind::InvalidData, "the peer's answer makes no sense")),
    }
}

/// Fills `bytes` before the deadline, however slowly they come.
fn read_by(deadline: Instant, mut stream: &UnixStream, mut bytes: &mut [u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        stream.set_read_timeout(Some(left(deadline)?))?;
        match stream.read(bytes) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(read) => bytes = &mut bytes[read..],
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn left(deadline: Instant) -> io::Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(left) }
}

/// Only processes of our user, who could read our memory anyway.
fn is_trusted(uid: u32) -> bool {
    uid == rustix::process::geteuid().as_raw()
}

/// Who is at a socket's other end. The number of a process in another namespace is 0.
fn credentials(stream: &UnixStream) -> io::Result<libc::ucred> {
    let mut peer = libc::ucred { pid: 0, uid: u32::MAX, gid: u32::MAX };
    let mut size = size_of::<libc::ucred>() as libc::socklen_t;
    let (level, option) = (libc::SOL_SOCKET, libc::SO_PEERCRED);
    let (fd, to) = (stream.as_raw_fd(), (&raw mut peer).cast());
    // SAFETY: `to` is `size` writable bytes for which every value is valid.
    match unsafe { libc::getsockopt(fd, level, option, to, &raw mut size) } {
        0 => Ok(peer),
        _ => Err(io::Error::last_os_error()),
    }
}

pub(super) fn random<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::{is_trusted, random};

    #[test]
    fn only_our_own_user_is_trusted() {
        let own = rustix::process::geteuid().as_raw();
        assert!(is_trusted(own));
        for other in [own ^ 1, 65534, u32::MAX] {
            assert!(!is_trusted(other), "{other}");
        }
    }

    #[test]
    fn no_two_secrets_are_alike() {
        let [one, other]: [[u8; 32]; 2] = [(); 2].map(|()| random().expect("there are some"));
        assert_ne!(one, other);
    }
}
