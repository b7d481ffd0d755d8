//! Who goes on after ranks have died: all who learn it learn the same.
//!
//! Ranks of one process share what is known. Over a network each has a [`Machine`] of its own, and
//! tells the others its state: when it changes, and again while it waits, since what a rank tells
//! through another one is lost when that one dies. A rank that has learned the outcome still
//! answers those who have not; the control plane of the old communicator stays until all of them
//! have met anew.

mod machine;
#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails with what it did not expect")]
mod tests;

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Condvar};
use std::time::{Duration, Instant};

pub(crate) use machine::{Arrival, Decision};

use machine::{Machine, SurvivorMessage, To};

use super::RateLimited;
use crate::Rank;
use crate::backend::{Listener, Wire};
use crate::lock::{Mutex, MutexGuard};

/// How often a rank that waits tells its state again, for each [`MANY`] ranks.
const EVERY: Duration = Duration::from_millis(50);
const MANY: usize = 16;

/// How long the thread that carries messages may take to tell what came before.
const PATIENCE: Duration = Duration::from_secs(1);
const REST: Duration = Duration::from_millis(1);

/// The agreement of one communicator's ranks; there is one at most.
pub(super) struct Survivors {
    machine: Mutex<Machine>,
    changed: Condvar,
    /// What the others told before this rank came has been heard.
    is_caught_up: AtomicBool,
    /// None where all ranks are here.
    wire: Option<Arc<dyn Wire>>,
    size: usize,
}

/// How it ended for a rank.
pub(super) enum Outcome {
    GoesOn(Decision),
    LeftOut(String),
}

impl Survivors {
    /// Of the rank `own`, or of all ranks where there is no wire.
    pub(super) fn new(size: u32, own: u32, wire: Option<Arc<dyn Wire>>) -> Self {
        let machine = Mutex::new(Machine::new(size, wire.as_ref().map(|_| own)));
        let is_caught_up = AtomicBool::new(wire.is_none());
        Self { machine, changed: Condvar::new(), is_caught_up, wire, size: size as usize }
    }

    /// Hears the others from here on, and what they told before: one that comes when the others
    /// have gone on, and have ended since, would take them for dead, and go on alone.
    pub(super) fn listen(self: &Arc<Self>) {
        let Some(wire) = &self.wire else { return };
        let listener: Arc<dyn Listener> = self.clone();
        wire.listen(Arc::downgrade(&listener));
        let started = Instant::now();
        while !self.is_caught_up.load(Relaxed) && started.elapsed() < PATIENCE {
            let machine = self.machine();
            // Told under the lock, or at the next look.
            let _ = self.changed.wait_timeout(machine, REST);
        }
    }

    fn machine(&self) -> MutexGuard<'_, Machine> {
        self.machine.lock()
    }

    /// Changes what is known, and tells the others what came of it.
    fn change(&self, change: impl FnOnce(&mut Machine) -> Vec<To>) {
        let mut machine = self.machine();
        for to in change(&mut machine) {
            self.send(&machine, to);
        }
        drop(machine);
        self.changed.notify_all();
    }

    /// Does not wait, so it may be called under the lock.
    fn send(&self, machine: &Machine, to: To) {
        let Some(wire) = &self.wire else { return };
        let message = machine.message(to);
        let to = match to {
            To::All => None,
            To::One(rank) => Some(Rank(rank)),
        };
        wire.send(to, &message);
    }

    /// A rank of this process comes.
    pub(super) fn arrive(&self, rank: u32, arrival: Arrival) {
        self.change(|machine| machine.arrive(rank, arrival));
    }

    /// A rank will never come.
    pub(super) fn died(&self, rank: u32, why: &str) {
        self.change(|machine| machine.died(rank, why));
    }

    /// Nobody waits any more for those who have not come.
    pub(super) fn give_up(&self, why: &str) {
        self.change(|machine| machine.give_up(why));
    }

    pub(super) fn outcome(&self, rank: u32) -> Option<Outcome> {
        let machine = self.machine();
        let excluded_by = machine.excluded_by();
        let decision = machine.decision().or(excluded_by)?;
        Some(match decision.why_not(rank) {
            Some(why) => Outcome::LeftOut(why.to_owned()),
            None => Outcome::GoesOn(decision.clone()),
        })
    }

    /// Whether no other rank has come.
    pub(super) fn is_alone(&self, rank: u32) -> bool {
        self.machine().is_alone(rank)
    }

    /// Who keeps the others waiting.
    pub(super) fn missing(&self) -> Vec<u32> {
        self.machine().missing()
    }

    /// Tells the others again.
    pub(super) fn repeat(&self) {
        self.send(&self.machine(), To::All);
    }

    /// How often to tell them again.
    pub(super) fn repeat_interval(&self) -> Duration {
        EVERY * u32::try_from(self.size / MANY + 1).unwrap_or(u32::MAX)
    }

    /// Rests until there is news.
    pub(super) fn wait(&self, at_most: Duration) {
        let machine = self.machine();
        if machine.decision().is_none() && machine.excluded_by().is_none() {
            // A spurious or early wake-up is fine: the caller looks again.
            let _ = self.changed.wait_timeout(machine, at_most);
        }
    }
}

impl Listener for Survivors {
    fn caught_up(&self) {
        self.is_caught_up.store(true, Relaxed);
        self.changed.notify_all();
    }

    fn message(&self, from: Rank, message: &[u8]) {
        match postcard::from_bytes::<SurvivorMessage>(message) {
            Ok(message) => self.change(|machine| machine.handle_message(from.0, message)),
            Err(_) => {
                static NONSENSE: RateLimited = RateLimited::new();
                NONSENSE
                    .warn(format_args!("rank {from} says what no rank says of those who go on"));
            }
        }
    }

    /// The meeting says who is gone.
    fn died(&self, _: Rank, _: &str) {}

    fn stopped(&self, _: Rank, _: &str) {}
}
