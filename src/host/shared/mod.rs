//! Memory and events shared by processes of one machine.
//!
//! Each process has an arena that its peers map, and a log of events in it that its peers read.
//! A sender never blocks and loses nothing: what a slow reader leaves no room for waits in private
//! memory. Whatever a peer writes, or wherever it dies, the others go on.
//!
//! A child made by `fork` alone shares all of this with its parent and must not use it.

mod arena;
mod bell;
mod doorman;
mod header;
mod inbox;
mod log;
mod map;
mod peer;
mod process;
#[cfg(test)]
pub(super) mod stand_in;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Condvar};
use std::time::Duration;

pub(super) use arena::{Arena, Piece, open, opened};
pub(super) use bell::{Polling, Rest, Waiting, has_news};
pub(super) use doorman::Address;
pub(super) use peer::{Peer, connect, is_own};

use self::log::Log;
use crate::lock::{self, Mutex};
use crate::quiet::Quiet;

/// Why nothing more can be read of a peer.
#[derive(Debug)]
pub(super) struct Lost {
    pub(super) why: String,
    /// The peer took this process for dead, and not the other way round.
    pub(super) forgot_this: bool,
}

/// A record, or why there will be no more.
type Read<'r> = Result<&'r [u8], Lost>;

/// This process's log.
static LOG: Mutex<Log> = Mutex::new(Log::new());

/// Wakes the thread that moves what waits for room.
static WAITS: Condvar = Condvar::new();

/// Between two looks for room: the first, and the longest.
const LOOK: Duration = Duration::from_micros(200);
const LONGEST_LOOK: Duration = Duration::from_millis(20);

/// How long a reader may read nothing and leave no room: as long as a process may be silent, by
/// default, before the control plane takes it for dead.
const STALLS: Duration = Duration::from_secs(15);

/// Appends a record for every connected peer, and wakes them. Never blocks.
pub(super) fn send(bytes: &[u8]) {
    let Some(arena) = opened() else { return };
    let mut log = LOG.lock();
    log.append(arena.header(), bytes);
    let full = log.waits();
    drop(log);
    if full {
        move_later(arena);
    }
    ring_all();
}

/// Passes on everything new of all peers, in each peer's order, with the peer's id, or why nothing
/// more can be read of a peer, which is removed. Returns whether there was anything. Called by one
/// thread at a time.
pub(super) fn drain(each: &mut dyn FnMut(u64, Read<'_>)) -> bool {
    let Some(arena) = opened() else { return false };
    bell::attend(arena.header());
    let drain = |any, peer: &Arc<Peer>| peer.drain(each) | any;
    peer::all().iter().fold(false, drain)
}

/// The peers whose processes have ended.
pub(super) fn ended() -> Vec<u64> {
    LOG.lock().ended()
}

/// The peers that have not read for long while what was sent needs their room in the log. To be
/// called every few seconds.
pub(super) fn stalled() -> Vec<u64> {
    opened().map_or_else(Vec::new, |arena| LOG.lock().stalled(arena.header(), STALLS))
}

/// Forgets a peer that has ended or is taken for dead: its records end, and those for others wait
/// for it no longer. Drain its records first, once it has ended.
pub(super) fn forget(peer: u64) {
    let Some(arena) = opened() else { return };
    LOG.lock().forget(arena.header(), peer);
    peer::remove(peer);
}

/// Whether everything sent is where peers can read it, even once this process has ended.
pub(super) fn all_sent() -> bool {
    !LOG.lock().waits()
}

fn ring_all() {
    for peer in peer::all().iter() {
        bell::ring(peer.header());
    }
}

/// Has a thread move what waits for room in the ring.
fn move_later(arena: &'static Arena) {
    static MOVES: Mutex<bool> = Mutex::new(false);
    let mut moves = MOVES.lock();
    if !*moves {
        let mover = std::thread::Builder::new().name("nccl-events".into());
        match mover.spawn(move || move_on(arena)) {
            Ok(_) => *moves = true,
            Err(error) => ::log::warn!("events wait for the next one: no thread: {error}"),
        }
    }
    WAITS.notify_one();
}

fn move_on(arena: &'static Arena) {
    let _quiet = Quiet::enter();
    let mut rest = LOOK;
    let mut log = LOG.lock();
    loop {
        if !log.waits() {
            rest = LOOK;
            log = lock::wait(&WAITS, log);
            continue;
        }
        let moved = log.flush(arena.header());
        if !moved && rest == LONGEST_LOOK {
            log.bury(arena.header());
        }
        drop(log);
        if moved {
            ring_all();
        }
        rest = if moved { LOOK } else { LONGEST_LOOK.min(rest * 2) };
        std::thread::sleep(rest);
        log = LOG.lock();
    }
}
