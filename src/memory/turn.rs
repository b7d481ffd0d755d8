//! Turns: operations of two threads on one memory follow each other.
//!
//! Memory that a graph names is used by the thread that owns it and by the thread that launches the
//! graph. Waiting for earlier uses and recording the new one are two steps; if the other thread
//! enqueued in between, neither operation would wait for the other. So an operation holds a turn at
//! such memory from its waits until it is recorded, and a host copy until it is done. Readers share
//! a turn.
//!
//! A turn is a note in the header, not a lock: closures run during one. A contending thread blocks
//! on the host up to its deadline while holding nothing: an operation takes all its turns or none,
//! so acquisition order cannot deadlock. Within one thread, borrows keep nested or grouped
//! operations apart; a graph borrows nothing, so launching it inside a closure over its memory is
//! refused.

use std::cell::Cell;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use crate::Result;
use crate::error::MemoryInUse;
use crate::stream::User;
use crate::wait::DEFAULT_DEADLINE;

/// The turns of an operation; they end when it is recorded. One word, since operations without any
/// carry it too: two bits, and above them a number, 0 before the first turn.
#[derive(Default)]
pub(crate) struct Turn(u64);

/// The operation borrows no memory.
const OF_GRAPH: u64 = 1;

/// Another thread's turn is in the way.
const MUST_WAIT: u64 = 2;

/// The distance between two numbers.
const STEP: u64 = 4;

/// A turn that a thread holds.
struct Had {
    id: u64,
    thread: usize,
    write: bool,
}

/// The turns held at one memory.
#[derive(Default)]
pub(super) struct Turns(Vec<Had>);

impl Turn {
    pub(super) fn of_graph() -> Self {
        Self(OF_GRAPH)
    }

    /// Whether it has to wait for another thread; resets the flag.
    pub(super) fn must_wait(&mut self) -> bool {
        let must = self.0 & MUST_WAIT != 0;
        self.0 &= !MUST_WAIT;
        must
    }

    /// Whether the operation may hold a turn at some memory.
    pub(super) fn is_had(&self) -> bool {
        self.id() > 0
    }

    fn id(&self) -> u64 {
        self.0 / STEP
    }
}

impl Turns {
    /// Takes a turn, or says why there is none now.
    pub(super) fn take(&mut self, turn: &mut Turn, write: bool) -> Result<()> {
        let here = this_thread();
        for other in &self.0 {
            if other.id == turn.id() || !(other.write || write) {
                continue;
            }
            let is_own = other.thread == here;
            if !is_own || turn.0 & OF_GRAPH != 0 {
                turn.0 |= if is_own { 0 } else { MUST_WAIT };
                return Err(MemoryInUse { waited: None }.into());
            }
        }
        if !turn.is_had() {
            static NEXT: AtomicU64 = AtomicU64::new(STEP);
            turn.0 |= NEXT.fetch_add(STEP, Relaxed);
        }
        match self.0.iter_mut().find(|had| had.id == turn.id()) {
            Some(had) => had.write |= write,
            None => self.0.push(Had { id: turn.id(), thread: here, write }),
        }
        Ok(())
    }

    /// Ends a turn; true if it was for writing.
    pub(super) fn end(&mut self, turn: &Turn) -> bool {
        let at = self.0.iter().position(|had| had.id == turn.id());
        at.is_some_and(|at| self.0.swap_remove(at).write)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Waits for other threads' turns.
pub(super) struct Patience {
    started: Instant,
    tries: u32,
}

/// How often a thread yields before it sleeps: most turns take a few microseconds.
const YIELDS: u32 = 64;

/// The longest sleep.
const LONGEST: Duration = Duration::from_millis(1);

impl Patience {
    pub(super) fn new() -> Self {
        Self { started: Instant::now(), tries: 0 }
    }

    /// Rests once; fails when the shortest deadline of these communicators has passed, or one has
    /// failed.
    pub(super) fn rest(&mut self, users: &[User]) -> Result<()> {
        self.tries = self.tries.saturating_add(1);
        if self.tries <= YIELDS {
            thread::yield_now();
            return Ok(());
        }
        for user in users {
            user.health.look();
            user.health.check()?;
        }
        let deadline = users.iter().map(|user| user.deadline).min().unwrap_or(DEFAULT_DEADLINE);
        let waited = self.started.elapsed();
        if waited >= deadline {
            return Err(MemoryInUse { waited: Some(waited) }.into());
        }
        thread::sleep(LONGEST.min(Duration::from_micros(10) * (self.tries - YIELDS)));
        Ok(())
    }
}

/// A number unique among living threads.
fn this_thread() -> usize {
    thread_local! {
        static HERE: Cell<u8> = const { Cell::new(0) };
    }
    HERE.with(|here| ptr::from_ref(here).addr())
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::{Turn, Turns};

    fn took(turns: &mut Turns, turn: &mut Turn, write: bool) -> (bool, bool) {
        let taken = turns.take(turn, write).is_ok();
        (taken, turn.must_wait())
    }

    #[test]
    fn reads_are_had_together_and_writes_alone() {
        let (mut turns, mut here) = (Turns::default(), Turn::default());
        assert_eq!(took(&mut turns, &mut here, false), (true, false));
        thread::scope(|scope| {
            let there = scope.spawn(|| {
                let (mut reads, mut writes) = (Turn::default(), Turn::default());
                assert_eq!(took(&mut turns, &mut reads, false), (true, false));
                assert_eq!(took(&mut turns, &mut reads, true), (false, true));
                assert_eq!(took(&mut turns, &mut writes, true), (false, true));
                assert!(!turns.end(&writes), "it has none");
                assert!(!turns.end(&reads), "it got one to read only");
            });
            there.join().expect("no panic");
        });
        // One operation's uses are one turn.
        assert_eq!(took(&mut turns, &mut here, true), (true, false));
        assert!(turns.end(&here) && turns.is_empty());
    }

    #[test]
    fn a_graph_has_no_turn_inside_one_of_its_own_thread() {
        let mut turns = Turns::default();
        let [mut outer, mut inner, mut graph] =
            [Turn::default(), Turn::default(), Turn::of_graph()];
        assert_eq!(took(&mut turns, &mut outer, true), (true, false));
        assert_eq!(took(&mut turns, &mut inner, true), (true, false), "it is of another part");
        assert_eq!(took(&mut turns, &mut graph, false), (false, false));
        assert!(turns.end(&inner) && turns.end(&outer));
        assert_eq!(took(&mut turns, &mut graph, false), (true, false));
    }
}
