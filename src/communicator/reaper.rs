//! The reaper finalises communicators that were dropped without `finish`.
//!
//! Dropping must not block, so a thread waits until the dropped communicator's work has completed
//! and every other rank has ended too. If the deadline passes or a peer fails first, it aborts the
//! communicator.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use super::Health;
use super::core::abandon;
use super::leaving::{Leaving, leave};
use crate::backend::{Backend, Departure};
use crate::control::{Control, FINISH, Leaves, Ticket};
use crate::error::{self, Site};
use crate::health::{Change, Changes};
use crate::lock::Mutex;
use crate::own_thread;
use crate::quiet::Busy;

const REST: Duration = Duration::from_millis(5);

/// Work that an owner leaves to the reaper.
pub(super) trait Orphan: Send {
    /// Makes progress; true once it has ended.
    fn poll(&mut self) -> bool;
}

/// A dropped communicator.
struct Dropped<B: Backend> {
    /// `None` once it has ended.
    parts: Option<(B::Comm, Control)>,
    leaving: Leaving,
    health: Arc<Health>,
    changes: Changes,
    /// `None` without a deadline.
    until: Option<Instant>,
    ticket: Option<Ticket>,
}

/// Takes over a dropped communicator and returns immediately.
#[track_caller]
pub(super) fn take<B: Backend>(
    comm: B::Comm,
    control: Control,
    (health, changes): (Arc<Health>, Changes),
    deadline: Duration,
) {
    log::warn!(
        "rank {} of {} was dropped without `finish()`; it is finalised in the background",
        health.rank(),
        health.name()
    );
    let (depart, drop_out) = (B::departer(&comm), control.leaver(Leaves::Dropped));
    let leaving = leave("its communicator was dropped without `finish`", move |why| {
        depart(why, Departure::AfterItsWork);
        drop_out(why);
    });
    let until = Instant::now().checked_add(deadline);
    let parts = Some((comm, control));
    let mut orphan = Dropped::<B> { parts, leaving, health, changes, until, ticket: None };
    if !orphan.poll() {
        send(orphan);
    }
}

/// Leaves work to the reaper. If its thread could not be started, the work is dropped immediately.
pub(super) fn send(orphan: impl Orphan + 'static) {
    let sender = SENDER.get_or_init(start).lock();
    let sent = sender.send((Box::new(orphan), Busy::new()));
    drop(sender);
    // Not under the lock: dropping it may leave more work.
    drop(sent);
}

/// Work for the reaper, which marks the process as busy until it has ended.
type Left = (Box<dyn Orphan>, Busy);

static SENDER: OnceLock<Mutex<Sender<Left>>> = OnceLock::new();

fn start() -> Mutex<Sender<Left>> {
    let (sender, receiver) = channel();
    let spawned = std::thread::Builder::new()
        .name("typed-nccl reaper".to_owned())
        .spawn(move || run(&receiver));
    if let Err(error) = spawned {
        log::warn!("no thread for the reaper: {error}");
    }
    Mutex::new(sender)
}

fn run(receiver: &Receiver<Left>) {
    error::ours();
    own_thread::begin();
    let mut orphans: Vec<Left> = Vec::new();
    loop {
        let next = if orphans.is_empty() {
            receiver.recv().map_err(|_| RecvTimeoutError::Disconnected)
        } else {
            receiver.recv_timeout(REST)
        };
        match next {
            Ok(orphan) => orphans.push(orphan),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        orphans.retain_mut(|(orphan, _)| !orphan.poll());
    }
}

impl<B: Backend> Dropped<B> {
    fn abort(&mut self, why: &str) -> bool {
        if let Some((comm, control)) = self.parts.take() {
            abandon::<B>(comm, control, (&self.health, &self.changes), why);
        }
        true
    }
}

impl<B: Backend> Orphan for Dropped<B> {
    fn poll(&mut self) -> bool {
        let Some((comm, control)) = &self.parts else { return true };
        self.health.look();
        if let Err(cause) = self.health.check() {
            return self.abort(&cause.to_string());
        }
        // The reason must be sent first, or the others would take the end for a call of its own.
        let Some(why) = self.leaving.why() else { return false };
        if self.ticket.is_none() && B::is_idle(comm) {
            let site = Site::nowhere();
            self.ticket = Some(control.post(FINISH, site, Vec::new()));
        }
        let collected = match self.ticket {
            Some(ticket) => control.try_collect(ticket, &self.health),
            None => Ok(None),
        };
        match collected {
            Ok(Some(_)) => {
                if let Some((comm, _)) = self.parts.take() {
                    B::finalize(comm);
                    self.health.end_when_drained();
                    self.changes.tell_of(|| Change::Finished);
                }
                true
            }
            Ok(None) if self.until.is_none_or(|until| Instant::now() < until) => false,
            Ok(None) => {
                let (rank, name) = (self.health.rank(), self.health.name());
                log::warn!(
                    "rank {rank} of {name}, dropped without `finish()`, is aborted: the other ranks did not end within its deadline"
                );
                let why = format!("{why}, and the others did not end within its deadline");
                self.abort(&why)
            }
            Err(cause) if cause.is_fatal() => self.abort(&cause.to_string()),
            // The others make a call that this rank never will.
            Err(_) => {
                let why = why.to_owned();
                self.abort(&why)
            }
        }
    }
}

impl<B: Backend> Drop for Dropped<B> {
    fn drop(&mut self) {
        self.abort("its communicator was dropped without `finish`");
    }
}
