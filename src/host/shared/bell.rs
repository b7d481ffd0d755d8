//! Waking a process that waits for news.
//!
//! A wake-up is a system call and may cost another thread its core, so a process in the middle of
//! its work is not woken: it looks by itself, whenever a rank calls and now and then from a thread
//! of its own. It is woken if a thread of it waits, or if it has been still for a while.
//!
//! Who rings changes the word and then looks for sleepers; who sleeps counts itself and then looks
//! at the word. All four are sequentially consistent, so one of the two sees the other.

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Relaxed, SeqCst};
use std::time::Duration;

use rustix::thread::futex::{self, Flags, Timespec};

use super::arena;
use super::header::{Bell, Header};

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

/// A thread that waits for news without looking: the thread that listens is woken for it.
pub(in crate::host) struct Waiting(Option<&'static arena::Arena>);

impl Waiting {
    /// News that came before this must be looked at afterwards.
    pub(in crate::host) fn begin() -> Self {
        let arena = arena::opened();
        if let Some(arena) = arena {
            arena.header().bell.sleepers.fetch_add(1, SeqCst);
        }
        Self(arena)
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if let Some(arena) = self.0 {
            arena.header().bell.sleepers.fetch_sub(1, SeqCst);
        }
    }
}

/// Sleeps until the own bell rings, for at most `at_most`. It may wake earlier.
pub(in crate::host) fn sleep(at_most: Duration) {
    let _waiting = Waiting::begin();
    nap(at_most);
}

/// Sleeps for `at_most`, or until there are news that a thread waits for.
fn nap(at_most: Duration) {
    let Some(arena) = arena::opened() else { return std::thread::sleep(at_most) };
    let Bell { word, sleepers, .. } = &arena.header().bell;
    let now = word.load(SeqCst);
    // Other news are left to the threads at work.
    if now == SEEN.load(Relaxed) || sleepers.load(SeqCst) == 0 {
        let at_most = Timespec::try_from(at_most).ok();
        let _ = futex::wait(word, Flags::empty(), now, at_most.as_ref());
    }
}

/// The sleep of the thread that listens.
pub(in crate::host) struct Rest {
    /// The own bell when it last rang, and how often this thread has slept since.
    word: u32,
    still: u32,
    next: Duration,
}

/// The first sleep after news that no other thread took in, and the longest in between.
const FIRST: Duration = Duration::from_micros(100);
const LONGEST: Duration = Duration::from_millis(2);

/// After so many sleeps without news the process is still.
const STILL: u32 = 8;

impl Rest {
    pub(in crate::host) fn new() -> Self {
        Self { word: 0, still: STILL, next: FIRST }
    }

    /// Sleeps until there may be news.
    pub(in crate::host) fn rest(&mut self) {
        match self.still < STILL {
            true => nap(self.next),
            false => sleep(Duration::from_secs(1)),
        }
        let word = arena::opened().map_or(0, |arena| arena.header().bell.word.load(Acquire));
        self.still = if word == self.word { self.still + 1 } else { 0 };
        self.word = word;
        self.next = if has_news() { FIRST } else { LONGEST.min(self.next * 2) };
    }
}
