//! The survivors' agreement: every rank that learns the outcome learns the same one.
//!
//! Ranks of one process share one [`Machine`]. Over a network each rank has its own, and sends its
//! state on every change. It repeats the state while it waits, since messages are lost with a dead
//! rank that forwards them. A rank that knows the outcome still answers others: the old
//! communicator's control plane stays up until all of them have met in the new one.

mod machine;
#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails with what it did not expect")]
mod tests;

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Condvar};
use std::time::{Duration, Instant};

pub(crate) use machine::{Arrival, Decision};

use machine::{Machine, SurvivorMessage, To};

use super::warn_of_malformed;
use crate::backend::{Listener, Wire};
use crate::lock::{Mutex, MutexGuard};
use crate::{Rank, Result};

/// How often a waiting rank repeats its state, per [`MANY`] ranks.
const EVERY: Duration = Duration::from_millis(50);
const MANY: usize = 16;

/// How often a rank looks whether the earlier messages are delivered. A longer pause was a stop.
const REST: Duration = Duration::from_millis(1);
const LONGEST: Duration = Duration::from_millis(10);

/// The agreement of one communicator's ranks, which happens at most once.
pub(super) struct Survivors {
    machine: Mutex<Machine>,
    changed: Condvar,
    /// All messages that arrived before this rank listened are delivered.
    is_caught_up: AtomicBool,
    /// `None` if all ranks are in this process.
    wire: Option<Arc<dyn Wire>>,
    size: usize,
}

impl Survivors {
    /// For rank `own`, or for all ranks if there is no wire.
    pub(super) fn new(size: u32, own: u32, wire: Option<Arc<dyn Wire>>) -> Self {
        let machine = Mutex::new(Machine::new(size, wire.as_ref().map(|_| own)));
        let is_caught_up = AtomicBool::new(wire.is_none());
        Self { machine, changed: Condvar::new(), is_caught_up, wire, size: size as usize }
    }

    /// Starts to receive messages, the earlier ones first.
    pub(super) fn listen(self: &Arc<Self>) {
        let Some(wire) = &self.wire else { return };
        let listener: Arc<dyn Listener> = self.clone();
        wire.listen(Arc::downgrade(&listener));
    }

    /// Waits for the earlier messages; whether they are delivered within `limit`. A rank that
    /// arrived before them would take the others for dead if they have agreed and left, and go on
    /// alone. A process that was stopped has not read yet what came meanwhile, so a stop counts
    /// little. `stop` ends the wait with an error.
    pub(super) fn catches_up(
        &self,
        limit: Duration,
        stop: impl Fn() -> Result<()>,
    ) -> Result<bool> {
        let mut waited = Duration::ZERO;
        while !self.is_caught_up.load(Relaxed) {
            stop()?;
            if waited >= limit {
                return Ok(false);
            }
            let since = Instant::now();
            let machine = self.machine();
            // Notified without the lock, so a notification may be missed until the next check.
            let _ = self.changed.wait_timeout(machine, REST);
            waited += since.elapsed().min(LONGEST);
        }
        Ok(true)
    }

    fn machine(&self) -> MutexGuard<'_, Machine> {
        self.machine.lock()
    }

    /// Applies a change and sends the resulting messages.
    fn change(&self, change: impl FnOnce(&mut Machine) -> Vec<To>) {
        let mut machine = self.machine();
        for to in change(&mut machine) {
            self.send(&machine, to);
        }
        drop(machine);
        self.changed.notify_all();
    }

    /// Does not block, so it may be called under the lock.
    fn send(&self, machine: &Machine, to: To) {
        let Some(wire) = &self.wire else { return };
        let message = machine.message(to);
        let to = match to {
            To::All => None,
            To::One(rank) => Some(Rank(rank)),
        };
        wire.send(to, &message);
    }

    /// A rank of this process arrives.
    pub(super) fn arrive(&self, rank: u32, arrival: Arrival) {
        self.change(|machine| machine.arrive(rank, arrival));
    }

    /// A rank will never arrive.
    pub(super) fn died(&self, rank: u32, why: &str) {
        self.change(|machine| machine.died(rank, why));
    }

    /// Stops waiting for ranks that have not arrived.
    pub(super) fn give_up(&self, why: &str) {
        self.change(|machine| machine.give_up(why));
    }

    /// The decision for one rank, or why it is left out.
    pub(super) fn outcome(&self, rank: u32) -> Option<Result<Decision, String>> {
        let machine = self.machine();
        let excluded_by = machine.excluded_by();
        let decision = machine.decision().or(excluded_by)?;
        Some(match decision.why_not(rank) {
            Some(why) => Err(why.to_owned()),
            None => Ok(decision.clone()),
        })
    }

    /// Whether no other rank has arrived.
    pub(super) fn is_alone(&self, rank: u32) -> bool {
        self.machine().is_alone(rank)
    }

    /// The ranks that are waited for.
    pub(super) fn missing(&self) -> Vec<u32> {
        self.machine().missing()
    }

    /// Sends the state again.
    pub(super) fn repeat(&self) {
        self.send(&self.machine(), To::All);
    }

    /// How often to repeat the state.
    pub(super) fn repeat_interval(&self) -> Duration {
        EVERY * u32::try_from(self.size / MANY + 1).unwrap_or(u32::MAX)
    }

    /// Waits for a change.
    pub(super) fn wait(&self, at_most: Duration) {
        let machine = self.machine();
        if machine.decision().is_none() && machine.excluded_by().is_none() {
            // A spurious or early wake-up is fine: the caller checks again.
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
            Ok(message) if message.is_valid(self.size) => {
                self.change(|machine| machine.handle_message(from.0, message));
            }
            _ => warn_of_malformed(from, "the survivors"),
        }
    }

    /// The meeting reports departures.
    fn died(&self, _: Rank, _: &str) {}

    fn stopped(&self, _: Rank, _: &str) {}
}
