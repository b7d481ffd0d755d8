//! Peers' arenas, mapped here.

use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use super::arena;
use super::bell;
use super::doorman::{self, Address};
use super::header::Header;
use super::inbox::{Broken, Inbox};
use super::log::Place;
use super::map::{self, Mapping};
use super::{Lost, Read, forget};
use crate::lock::Mutex;

/// All that are connected. Replaced as a whole, so that readers need no lock while they read.
static PEERS: Mutex<Option<Arc<[Arc<Peer>]>>> = Mutex::new(None);

/// A peer's arena, mapped until it is forgotten and nothing uses it.
pub(in crate::host) struct Peer {
    id: u64,
    mapping: Mapping,
    inbox: Mutex<Inbox>,
}

/// Whether it is this process's own address.
pub(in crate::host) fn is_own(address: &Address) -> bool {
    arena::opened().is_some_and(|arena| arena.id() == address.id)
}

/// The arena of the process at `address`. Waits for at most `within`.
pub(in crate::host) fn connect(address: &Address, within: Duration) -> io::Result<Arc<Peer>> {
    let own = arena::open()?.id();
    if own == address.id {
        return Err(io::Error::new(ErrorKind::InvalidInput, "that is this process's own memory"));
    }
    if let Some(peer) = find(address.id) {
        if !peer.is_over() {
            return Ok(peer);
        }
        // The communicators that share it learn of it first: `drain` reports and removes it.
        bell::wake();
        return Err(io::Error::new(ErrorKind::ConnectionReset, Broken::Forgotten));
    }
    let (file, place) = doorman::visit(address, own, within).map_err(timed_out)?;
    begin(address.id, file, place)
}

/// Maps the arena of process `id`, and begins to read its log.
pub(super) fn begin(id: u64, file: OwnedFd, place: Place) -> io::Result<Arc<Peer>> {
    let mapping = map::received(file)?;
    let inbox = Mutex::new(Inbox::new(place));
    let peer = Arc::new(Peer { id, mapping, inbox });
    if !peer.header().is_of(id) {
        return Err(io::Error::new(ErrorKind::InvalidData, "not the memory of that peer"));
    }
    let too_late = |_| io::Error::new(ErrorKind::TimedOut, "the peer waited no longer");
    peer.inbox.lock().begin(peer.header()).map_err(too_late)?;
    let mut peers = PEERS.lock();
    let known = peers.as_deref().unwrap_or_default();
    // Another thread may have connected meanwhile: ours is dropped then, which ends its place.
    if let Some(peer) = known.iter().find(|peer| peer.id == id) {
        return Ok(peer.clone());
    }
    *peers = Some(known.iter().cloned().chain([peer.clone()]).collect());
    drop(peers);
    // What it sent in between rang before there was anybody to read it.
    bell::wake();
    Ok(peer)
}

/// Removes a peer: its records end here.
pub(super) fn remove(id: u64) {
    if let Some(peer) = find(id) {
        remove_this(&peer);
    }
}

/// Removes this one: its process may have been met again.
fn remove_this(peer: &Arc<Peer>) {
    let mut peers = PEERS.lock();
    let known = peers.as_deref().unwrap_or_default();
    let others = known.iter().filter(|known| !Arc::ptr_eq(known, peer)).cloned();
    *peers = Some(others.collect());
    drop(peers);
    let _ = peer.inbox.lock().end(peer.header());
}

pub(super) fn all() -> Arc<[Arc<Peer>]> {
    PEERS.lock().clone().unwrap_or_default()
}

fn find(id: u64) -> Option<Arc<Peer>> {
    PEERS.lock().as_deref()?.iter().find(|peer| peer.id == id).cloned()
}

impl Peer {
    /// The address here of `bytes` bytes from `offset` on. `None` if they do not lie inside.
    #[inline]
    pub(in crate::host) fn at(&self, offset: u64, bytes: usize) -> Option<*mut u8> {
        self.mapping.at(offset, bytes)
    }

    #[inline]
    pub(in crate::host) fn id(&self) -> u64 {
        self.id
    }

    pub(super) fn header(&self) -> &Header {
        self.mapping.header()
    }

    /// Whether its records have ended, or the peer has forgotten this process.
    pub(in crate::host) fn is_over(&self) -> bool {
        self.inbox.lock().is_over(self.header())
    }

    /// Reads what is new. An error, which comes last, says why nothing more can be read; the peer
    /// has been removed then.
    pub(super) fn drain(self: &Arc<Self>, each: &mut dyn FnMut(u64, Read<'_>)) -> bool {
        let mut any = false;
        let Err(mut broken) = self.read(&mut |record| {
            any = true;
            each(self.id, Ok(record));
        }) else {
            return any;
        };
        if let Err(forgotten) = self.inbox.lock().end(self.header()) {
            broken = forgotten;
        }
        let forgot_this = broken == Broken::Forgotten;
        match forgot_this {
            // It reads this process's log no longer, unless it has come back as another reader.
            true => remove_this(self),
            false => forget(self.id),
        }
        let why = format!("its events cannot be read: {broken}");
        each(self.id, Err(Lost { why, forgot_this }));
        true
    }

    fn read(&self, each: &mut dyn FnMut(&[u8])) -> Result<(), Broken> {
        let Some(end) = self.inbox.lock().news(self.header())? else { return Ok(()) };
        let mut record = Vec::new();
        while self.inbox.lock().next(self.header(), end, &mut record)? {
            each(&record);
        }
        Ok(())
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.inbox.get_mut().end(self.mapping.header());
    }
}

/// A full queue of visitors and an answer that does not come are the same to a caller.
fn timed_out(error: io::Error) -> io::Error {
    if error.kind() == ErrorKind::WouldBlock { ErrorKind::TimedOut.into() } else { error }
}
