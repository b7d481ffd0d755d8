//! Where processes cannot share memory as they do on Linux: ranks are threads of one process.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Where a process shares its memory: nowhere.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Hash, Debug)]
pub(in crate::host) enum Address {}

/// This process's shared memory: none.
pub(in crate::host) enum Arena {}

/// A piece of it.
pub(in crate::host) enum Piece {}

/// The shared memory of another process.
pub(in crate::host) enum Peer {}

/// Why nothing more can be read of a peer.
#[derive(Debug)]
pub(super) struct Lost {
    pub(super) why: String,
    /// The peer took this process for dead, and not the other way round.
    pub(super) forgot_this: bool,
}

pub(super) fn open() -> io::Result<&'static Arena> {
    let why = "ranks without GPUs share memory, which needs Linux: use `Seat::local`";
    Err(io::Error::new(io::ErrorKind::Unsupported, why))
}

pub(super) fn opened() -> Option<&'static Arena> {
    None
}

pub(super) fn connect(address: &Address, _: Duration) -> io::Result<Arc<Peer>> {
    match *address {}
}

pub(super) fn is_own(address: &Address) -> bool {
    match *address {}
}

pub(super) fn send(_: &[u8]) {}

pub(super) fn drain(_: &mut dyn FnMut(u64, Result<&[u8], Lost>)) -> bool {
    false
}

pub(super) fn ended() -> Vec<u64> {
    Vec::new()
}

pub(super) fn stalled() -> Vec<u64> {
    Vec::new()
}

pub(super) fn forget(_: u64) {}

pub(super) fn all_sent() -> bool {
    true
}

/// A thread that looks for news.
pub(in crate::host) struct Polling(());

impl Polling {
    pub(in crate::host) fn begin() -> Self {
        Self(())
    }
}

pub(super) fn has_news() -> bool {
    false
}

/// A thread that waits for news.
pub(in crate::host) struct Waiting(());

impl Waiting {
    pub(in crate::host) fn begin() -> Self {
        Self(())
    }
}

/// The sleep of the thread that listens.
pub(in crate::host) struct Rest(());

impl Rest {
    pub(in crate::host) fn new() -> Self {
        Self(())
    }

    pub(in crate::host) fn rest(&mut self) {
        std::thread::sleep(Duration::from_secs(1));
    }
}

impl Address {
    pub(in crate::host) fn id(&self) -> u64 {
        match *self {}
    }
}

impl Arena {
    pub(in crate::host) fn alloc(&self, _: usize, _: usize) -> Option<Piece> {
        match *self {}
    }

    pub(in crate::host) fn offset_of(&self, _: *const u8) -> Option<u64> {
        match *self {}
    }

    pub(in crate::host) fn reached(&self, _: u64, _: usize) -> Option<*mut u8> {
        match *self {}
    }

    pub(in crate::host) fn address(&self) -> io::Result<&Address> {
        match *self {}
    }
}

impl Piece {
    pub(in crate::host) fn expose(&self) {
        match *self {}
    }

    pub(in crate::host) fn start(&self) -> *mut u8 {
        match *self {}
    }
}

impl Peer {
    pub(in crate::host) fn is_over(&self) -> bool {
        match *self {}
    }

    pub(in crate::host) fn at(&self, _: u64, _: usize) -> Option<*mut u8> {
        match *self {}
    }

    pub(in crate::host) fn id(&self) -> u64 {
        match *self {}
    }
}
