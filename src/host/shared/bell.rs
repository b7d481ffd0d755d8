//! Waking a process that waits for news.
//!
//! Who rings changes the word and then looks for sleepers; who sleeps counts itself and then looks
//! at the word. All four are sequentially consistent, so one of the two sees the other.

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Relaxed, SeqCst};
use std::time::Duration;

use rustix::thread::futex::{self, Flags, Timespec};

use super::arena;
use super::header::Header;

/// The own bell when news were last read.
static SEEN: AtomicU32 = AtomicU32::new(0);

/// Tells the owner of an arena that there is news.
pub(super) fn ring(header: &Header) {
    header.bell.word.fetch_add(1, SeqCst);
    if header.bell.sleepers.load(SeqCst) > 0 && header.bell.pollers.load(SeqCst) == 0 {
        let _ = futex::wake(&header.bell.word, Flags::empty(), i32::MAX as u32);
    }
}

/// Rings the own bell.
pub(super) fn wake() {
    if let Some(arena) = arena::opened() {
        ring(arena.header());
    }
}

/// What comes from now on is news.
pub(super) fn attend(own: &Header) {
    SEEN.store(own.bell.word.load(Acquire), Relaxed);
}

/// Whether the own bell rang since the last drain.
#[inline]
pub(in crate::host) fn has_news() -> bool {
    let now = |arena: &arena::Arena| arena.header().bell.word.load(Acquire);
    arena::opened().is_some_and(|arena| now(arena) != SEEN.load(Relaxed))
}

/// A thread that looks for news again and again: nobody is woken for it.
pub(in crate::host) struct Polling(());

impl Polling {
    pub(in crate::host) fn begin() -> Self {
        if let Some(arena) = arena::opened() {
            arena.header().bell.pollers.fetch_add(1, SeqCst);
        }
        Self(())
    }
}

impl Drop for Polling {
    fn drop(&mut self) {
        let Some(arena) = arena::opened() else { return };
        let bell = &arena.header().bell;
        // Who rang before this woke nobody. Who rings later sees it.
        if bell.pollers.fetch_sub(1, SeqCst) == 1
            && bell.word.load(SeqCst) != SEEN.load(Relaxed)
            && bell.sleepers.load(SeqCst) > 0
        {
            let _ = futex::wake(&bell.word, Flags::empty(), i32::MAX as u32);
        }
    }
}

/// Sleeps until the own bell rings, for at most `at_most`. It may wake earlier.
pub(in crate::host) fn sleep(at_most: Duration) {
    let Some(arena) = arena::opened() else { return std::thread::sleep(at_most) };
    let bell = &arena.header().bell;
    bell.sleepers.fetch_add(1, SeqCst);
    let now = bell.word.load(SeqCst);
    if now == SEEN.load(Relaxed) {
        let at_most = Timespec::try_from(at_most).ok();
        let _ = futex::wait(&bell.word, Flags::empty(), now, at_most.as_ref());
    }
    bell.sleepers.fetch_sub(1, SeqCst);
}
