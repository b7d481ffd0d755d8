//! Changes of a communicator's state, as reported to the program.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use super::{Late, Recovery};
use crate::error::{Error, Revocation};
use crate::lock::Mutex;
use crate::{Rank, record, trace, unwind};

/// A change of a communicator's state, as reported to
/// [`CommConfig::watch`](crate::CommConfig::watch).
///
/// See the examples of [`Watch`] and of [`CommConfig::watch`](crate::CommConfig::watch).
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Change {
    /// All ranks have joined.
    Ready {
        /// This rank.
        rank: Rank,
        /// The number of ranks.
        size: usize,
    },
    /// It is poisoned: every further call fails with this error.
    Failed(Error),
    /// It was revoked, by this rank or another one, so that some of the ranks can continue.
    Revocation(Revocation),
    /// It continues on the surviving ranks, after [`recover`](crate::Communicator::recover) or
    /// `shrink`.
    Recovered(Recovery),
    /// Newcomers have joined it, by [`grow`](crate::Communicator::grow).
    Grown {
        /// The old number of ranks.
        size_before: usize,
        /// The new number of ranks.
        size: usize,
    },
    /// A rank has been late for longer than [`Stragglers::Report`](super::Stragglers::Report)
    /// allows.
    Late(Late),
    /// It has released its device memory.
    Suspension,
    /// It has allocated that memory again.
    Resumed,
    /// It has ended normally: by `finish`, or in the background after a drop.
    Finished,
    /// It was aborted: by `abort`, or because the other ranks did not finish after a drop.
    Abort {
        /// The reason.
        why: String,
    },
}

impl Change {
    /// Its name in records and metrics.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Late(_) => "late",
            Self::Ready { .. } => "ready",
            Self::Revocation(_) => "revoked",
            Self::Recovered(_) => "recovered",
            Self::Grown { .. } => "grown",
            Self::Suspension => "suspended",
            Self::Resumed => "resumed",
            Self::Finished => "finished",
            Self::Abort { .. } => "aborted",
            Self::Failed(_) => "failed",
        }
    }
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

/// A callback for changes: see [`CommConfig::watch`](crate::CommConfig::watch).
///
/// ```
/// # use typed_nccl::{Change, CommConfig, Communicator, Host, Seat, Watch};
/// let (tell, told) = std::sync::mpsc::channel();
/// let mut config = CommConfig::default();
/// config.watch = Some(Watch::new(move |change: &Change| drop(tell.send(change.clone()))));
/// let comm = Communicator::builder().seat(Seat::local(1).remove(0)).device(Host::local()?);
/// comm.config(config).build().connect()?.finish()?;
/// assert!(matches!(told.recv(), Ok(Change::Ready { size: 1, .. })));
/// assert_eq!(told.recv(), Ok(Change::Finished));
/// # Ok::<(), typed_nccl::Error>(())
/// ```
#[derive(Clone)]
pub struct Watch(Arc<dyn Fn(&Change) + Send + Sync>);

impl Watch {
    /// Calls `watch` with each change.
    pub fn new(watch: impl Fn(&Change) + Send + Sync + 'static) -> Self {
        Self(Arc::new(watch))
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Watch")
    }
}

/// The queue of changes of a communicator and of those that replace it, reported in order.
///
/// Changes are queued under locks and reported without one. The reporting thread drains the queue,
/// so a change queued meanwhile, by another thread or by the watch itself, is reported after the
/// current one.
#[derive(Clone)]
pub(crate) struct Changes(Option<Arc<Notifier>>);

struct Notifier {
    name: &'static str,
    /// The rank under which records show it.
    row: u32,
    watch: Option<Watch>,
    queue: Mutex<Queue>,
}

#[derive(Default)]
struct Queue {
    changes: VecDeque<Change>,
    /// This rank, once it is ready.
    rank: Option<Rank>,
    /// A thread is reporting.
    is_told: bool,
}

impl Changes {
    pub(crate) fn new(name: &'static str, row: u32, watch: Option<Watch>) -> Self {
        let is_told = watch.is_some() || trace::IS_ON || record::is_on();
        Self(is_told.then(|| Arc::new(Notifier { name, row, watch, queue: Mutex::default() })))
    }

    /// A queue that drops every change, for a communicator whose changes another one reports.
    pub(crate) fn none() -> Self {
        Self(None)
    }

    /// Queues a change for the next [`tell`](Self::tell). May be called under a lock.
    pub(crate) fn note(&self, change: impl FnOnce() -> Change) {
        if let Some(told) = &self.0 {
            let change = change();
            told.queue.lock().changes.push_back(change);
        }
    }

    /// Reports the queued changes. Must be called without a lock held.
    pub(crate) fn tell(&self) {
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
            // Drop the change inside the catch: an error may hold a user's value, whose `Drop` may
            // panic.
            let watch = move || {
                record::change(told.row, told.name, &change);
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

    /// Queues a change and reports it.
    pub(crate) fn tell_of(&self, change: impl FnOnce() -> Change) {
        self.note(change);
        self.tell();
    }
}

impl Drop for Notifier {
    fn drop(&mut self) {
        let watch = self.watch.take();
        if let Err(panic) = unwind::catch(move || drop(watch)) {
            log::error!("{}: the watch panicked when dropped: {}", self.name, panic.message());
            panic.end();
        }
    }
}
