//! What a stream's tasks come after.

use std::collections::VecDeque;
use std::sync::Arc;

use typed_nccl_match::{Clock, When};

use super::known;
use super::line::Line;
use crate::lock::Mutex;

/// How many tasks back a stream's clock is kept. An older point gets the oldest clock kept, which
/// hides mistakes and invents none.
const PAST: usize = 64;

/// The events of one task: the steps that complete within it, then its end.
const STEPS: u64 = (1 << 20) - 1;

/// A stream's clock.
#[derive(Debug)]
pub(in crate::host) struct StreamOrder(Mutex<Inner>);

#[derive(Debug)]
struct Inner {
    line: Line,
    clock: Clock,
    /// What the host knew when it enqueued the queued tasks.
    enqueued: VecDeque<Arc<Clock>>,
    /// The clocks after the last tasks, by the number of tasks.
    past: VecDeque<(u64, Clock)>,
}

impl StreamOrder {
    /// `None` if the order of uses is not checked.
    pub(in crate::host) fn open() -> Option<Box<Self>> {
        super::is_on().then(|| {
            let mut line = Line::open();
            line.last |= STEPS;
            let mut clock = Clock::default();
            clock.learn(line.id, line.last);
            let (enqueued, past) = (VecDeque::new(), VecDeque::new());
            Box::new(Self(Mutex::new(Inner { line, clock, enqueued, past })))
        })
    }

    /// Records that a task was enqueued.
    pub(in crate::host) fn enqueued(&self) {
        self.0.lock().enqueued.push_back(known::now());
    }

    /// Records that the stream has reached its next task.
    pub(in crate::host) fn begins(&self) {
        let mut inner = self.0.lock();
        inner.line.last += 1;
        if let Some(host) = inner.enqueued.pop_front() {
            inner.clock.join(&host);
        }
    }

    /// Records that the stream has completed its first `seq` tasks.
    pub(in crate::host) fn ends(&self, seq: u64) {
        let mut inner = self.0.lock();
        let Inner { line, clock, past, .. } = &mut *inner;
        line.last |= STEPS;
        clock.learn(line.id, line.last);
        let mut entry = match past.len() < PAST {
            true => Clock::default(),
            false => past.pop_front().map(|(_, clock)| clock).unwrap_or_default(),
        };
        entry.clone_from(clock);
        past.push_back((seq, entry));
    }

    /// Completes a step of the task. A signal or a peer may learn of it before the task is over.
    pub(super) fn step(&self) {
        let mut inner = self.0.lock();
        let Inner { line, clock, .. } = &mut *inner;
        if line.last & STEPS < STEPS - 1 {
            clock.learn(line.id, line.last);
            line.last += 1;
        }
    }

    /// The time of the task's current step.
    pub(super) fn at_step(&self) -> When {
        let inner = self.0.lock();
        When { line: inner.line.id, event: inner.line.last, after: inner.clock.clone() }
    }

    /// The time of the stream's current task, which is over when the task is.
    pub(super) fn at_task(&self) -> When {
        let inner = self.0.lock();
        let event = inner.line.last | STEPS;
        When { line: inner.line.id, event, after: inner.clock.clone() }
    }

    /// Accesses the clock.
    pub(in crate::host) fn clock<T>(&self, with: impl FnOnce(&mut Clock) -> T) -> T {
        with(&mut self.0.lock().clock)
    }

    /// Orders later tasks after the first `seq` tasks of another stream.
    pub(in crate::host) fn waits_for(&self, other: &Self, seq: u64) {
        if let Some(clock) = other.after(seq) {
            self.0.lock().clock.join(&clock);
        }
    }

    /// Records that the host has seen the first `seq` tasks completed.
    pub(in crate::host) fn seen(&self, seq: u64) {
        if let Some(clock) = self.after(seq) {
            known::learn(|known| known.join_arrived(&clock));
        }
    }

    fn after(&self, seq: u64) -> Option<Clock> {
        let inner = self.0.lock();
        let past = || inner.past.iter().find(|(tasks, _)| *tasks >= seq);
        (seq > 0).then(past).flatten().map(|(_, clock)| clock.clone())
    }
}
