//! A process that stands in for another one in tests: its memory and its log are here.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::arena::Arena;
use super::header::RING;
use super::inbox::Inbox;
use super::log::Log;
use super::peer::{self, Peer};
use super::process::Process;
use super::{Address, LOG, bell, forget, map, open};
use crate::lock::{Mutex, MutexGuard};

/// The log is the process's, so tests that use it take turns.
static TURN: Mutex<()> = Mutex::new(());

pub(in crate::host) fn take_turn() -> MutexGuard<'static, ()> {
    TURN.lock()
}

pub(in crate::host) struct StandIn {
    arena: Arena,
    log: Log,
    /// Reads what this process says.
    inbox: Inbox,
}

fn own() -> &'static Arena {
    open().expect("there is memory")
}

impl StandIn {
    pub(in crate::host) fn new() -> Self {
        // No number of a process.
        Self::of(0)
    }

    /// It ends when that process does.
    pub(in crate::host) fn of(pid: i32) -> Self {
        let arena = map::sized(64 << 20).and_then(Arena::new).expect("there is memory");
        let place = LOG.lock().admit(own().header(), arena.id(), Process::new(pid));
        let inbox = Inbox::new(place.expect("there is a place"));
        inbox.begin(own().header()).expect("it is waited for");
        Self { arena, log: Log::new(), inbox }
    }

    /// Nobody listens there.
    pub(in crate::host) fn address(&self) -> Address {
        let own = own().address().expect("there is one");
        let mut bytes = postcard::to_stdvec(own).expect("it can be written");
        // The name comes first.
        bytes[..16].fill(0);
        let mut address: Address = postcard::from_bytes(&bytes).expect("an address");
        address.id = self.arena.id();
        address
    }

    /// Maps its memory, and begins to read its log.
    pub(in crate::host) fn connect(&mut self) -> Arc<Peer> {
        let place = self.log.admit(self.arena.header(), own().id(), Process::new(0));
        let file = self.arena.file().try_clone().map(OwnedFd::from).expect("a file has two names");
        peer::begin(self.arena.id(), file, place.expect("there is a place")).expect("it waits")
    }

    /// Takes this process for dead.
    pub(in crate::host) fn forgets_this(&mut self) {
        self.log.forget(self.arena.header(), own().id());
        // Others may say something later.
        bell::wake();
    }

    /// Says something to this process.
    pub(in crate::host) fn says(&mut self, bytes: &[u8]) {
        self.log.append(self.arena.header(), bytes);
        bell::wake();
    }

    /// Says what nobody can read.
    pub(in crate::host) fn says_nonsense(&self) {
        self.arena.header().head.0.store(2 * RING, Ordering::Release);
        bell::wake();
    }

    /// What this process has said since it was last asked.
    pub(in crate::host) fn heard(&mut self) -> Vec<Vec<u8>> {
        let (mut all, mut record) = (Vec::new(), Vec::new());
        let header = own().header();
        if let Some(end) = self.inbox.news(header).expect("it is waited for") {
            while self.inbox.next(header, end, &mut record).expect("it is whole") {
                all.push(record.clone());
            }
        }
        all
    }

    pub(in crate::host) fn id(&self) -> u64 {
        self.arena.id()
    }
}

impl Drop for StandIn {
    fn drop(&mut self) {
        forget(self.id());
    }
}
