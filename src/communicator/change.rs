//! What people are told of a communicator's state.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use super::{Late, Recovery};
use crate::error::{Error, Revocation};
use crate::lock::Mutex;
use crate::{Rank, trace, unwind};

/// A change of a communicator's state, as [`CommConfig::watch`](super::CommConfig::watch) is told.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Change {
    /// All ranks have come.
    Ready {
        /// This rank.
        rank: Rank,
        /// How many ranks there are.
        size: usize,
    },
    /// It is poisoned, for this reason: what is called next fails with it.
    Failed(Error),
    /// It was revoked, by this rank or another one, to go on with some of the ranks.
    Revocation(Revocation),
    /// It has gone on, by [`recover`](super::Communicator::recover) or `shrink`.
    Recovered(Recovery),
    /// Newcomers have joined it, by [`grow`](super::Communicator::grow).
    Grown {
        /// How many ranks there were.
        size_before: usize,
        /// How many there are.
        size: usize,
    },
    /// A rank is late for as long as [`Stragglers::Report`](super::Stragglers::Report) says.
    Late(Late),
    /// It has given device memory back.
    Suspension,
    /// It has taken that memory again.
    Resumed,
    /// It has ended as its program wants it: by `finish`, or in the background after a drop.
    Finished,
    /// It has ended by `abort`, or because the others did not end with it after a drop.
    Abort {
        /// Why.
        why: String,
    },
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ready { rank, size } => write!(f, "ready: rank {rank} of {size}"),
            Self::Failed(error) => write!(f, "failed: {error}"),
            Self::Revocation(revoked) => revoked.fmt(f),
            Self::Recovered(recovery) => write!(f, "went on: {recovery}"),
            Self::Grown { size_before, size } => {
                write!(f, "grown: from {size_before} ranks to {size}")
            }
            Self::Late(late) => late.fmt(f),
            Self::Suspension => f.write_str("suspended"),
            Self::Resumed => f.write_str("resumed"),
            Self::Finished => f.write_str("finished"),
            Self::Abort { why } => write!(f, "aborted: {why}"),
        }
    }
}

/// Who is told of changes: see [`CommConfig::watch`](super::CommConfig::watch).
#[derive(Clone)]
pub struct Watch(Arc<dyn Fn(&Change) + Send + Sync>);

impl Watch {
    /// Has `watch` told of each change.
    pub fn new(watch: impl Fn(&Change) + Send + Sync + 'static) -> Self {
        Self(Arc::new(watch))
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Watch")
    }
}

/// The changes of one communicator and of those that go on from it, to be told in their order.
///
/// A change is found under locks and told without one. Whoever tells goes on until all are told, so what
/// another thread finds meanwhile, or what the watch itself brings about, comes after.
#[derive(Clone)]
pub(super) struct Changes(Option<Arc<Told>>);

struct Told {
    name: &'static str,
    watch: Option<Watch>,
    queue: Mutex<Queue>,
}

#[derive(Default)]
struct Queue {
    changes: VecDeque<Change>,
    /// This rank, from when it is ready.
    rank: Option<Rank>,
    /// Some thread is telling.
    is_told: bool,
}

impl Changes {
    pub(super) fn new(name: &'static str, watch: Option<Watch>) -> Self {
        let is_told = watch.is_some() || trace::IS_ON;
        Self(is_told.then(|| Arc::new(Told { name, watch, queue: Mutex::default() })))
    }

    /// Of one whose changes are another one's.
    pub(super) fn none() -> Self {
        Self(None)
    }

    /// Notes a change, which is told by the next [`tell`](Self::tell). It may be called under a lock.
    pub(super) fn note(&self, change: impl FnOnce() -> Change) {
        if let Some(told) = &self.0 {
            let change = change();
            told.queue.lock().changes.push_back(change);
        }
    }

    /// Tells what was noted. Call it without a lock held.
    pub(super) fn tell(&self) {
        let Some(told) = &self.0 else { return };
        let mut queue = told.queue.lock();
        if std::mem::replace(&mut queue.is_told, true) {
            return;
        }
        while let Some(change) = queue.changes.pop_front() {
            match &change {
                Change::Ready { rank, .. } => queue.rank = Some(*rank),
                Change::Recovered(recovery) => queue.rank = Some(recovery.rank),
                _ => {}
            }
            let rank = queue.rank;
            drop(queue);
            // An error in it may be the program's own, whose end is its code too.
            let watch = move || {
                if let Some(rank) = rank {
                    trace::change(told.name, rank, &change);
                }
                if let Some(watch) = &told.watch {
                    (watch.0)(&change);
                }
                drop(change);
            };
            if let Err(panic) = unwind::catch(watch) {
                log::error!("{}: the watch panicked: {}", told.name, panic.message());
                panic.end();
            }
            queue = told.queue.lock();
        }
        queue.is_told = false;
    }

    /// Notes a change and tells it.
    pub(super) fn tell_of(&self, change: impl FnOnce() -> Change) {
        self.note(change);
        self.tell();
    }
}

impl Told {}
