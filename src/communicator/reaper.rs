//! The reaper: finalises communicators that were dropped without `finish`.
//!
//! Dropping never blocks, so a thread of its own waits until the dropped communicator's work is over
//! and every other rank has ended too; when the deadline passes or a peer fails first, it aborts.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use super::lifecycle::FINISH;
use super::{Health, ended};
use crate::backend::{Backend, Departure};
use crate::control::{Control, Ticket};
use crate::quiet::{Busy, Quiet};

const REST: Duration = Duration::from_millis(5);

/// A dropped communicator.
trait Orphan: Send {
    /// Moves it along; true when it has ended.
    fn poll(&mut self) -> bool;
}

struct Dropped<B: Backend> {
    comm: Option<B::Comm>,
    control: Control,
    health: Arc<Health>,
    /// None: as long as it takes.
    until: Option<Instant>,
    ticket: Option<Ticket>,
    _busy: Busy,
}

/// Takes a dropped communicator; returns at once.
#[track_caller]
pub(super) fn take<B: Backend>(
    comm: B::Comm,
    control: Control,
    health: Arc<Health>,
    deadline: Duration,
) {
    log::warn!(
        "rank {} of {} was dropped without `finish()`; it is finalised in the background",
        health.rank(),
        health.name()
    );
    B::departer(&comm)("its communicator was dropped without `finish`", Departure::AfterItsWork);
    let until = Instant::now().checked_add(deadline);
    let (comm, ticket, _busy) = (Some(comm), None, Busy::new());
    let mut orphan = Dropped::<B> { comm, control, health, until, ticket, _busy };
    if orphan.poll() {
        return;
    }
    let sender = SENDER.get_or_init(start);
    let sender = sender.lock().unwrap_or_else(PoisonError::into_inner);
    // If the thread could not be had, the orphan comes back here and is aborted by its drop.
    let _ = sender.send(Box::new(orphan));
}

static SENDER: OnceLock<Mutex<Sender<Box<dyn Orphan>>>> = OnceLock::new();

fn start() -> Mutex<Sender<Box<dyn Orphan>>> {
    let (sender, receiver) = channel();
    let spawned = std::thread::Builder::new()
        .name("typed-nccl reaper".to_owned())
        .spawn(move || run(&receiver));
    if let Err(error) = spawned {
        log::warn!("no thread for the reaper: {error}");
    }
    Mutex::new(sender)
}

fn run(receiver: &Receiver<Box<dyn Orphan>>) {
    let mut orphans: Vec<Box<dyn Orphan>> = Vec::new();
    loop {
        let next = if orphans.is_empty() {
            let _quiet = Quiet::enter();
            receiver.recv().map_err(|_| RecvTimeoutError::Disconnected)
        } else {
            receiver.recv_timeout(REST)
        };
        match next {
            Ok(orphan) => orphans.push(orphan),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        orphans.retain_mut(|orphan| !orphan.poll());
    }
}

impl<B: Backend> Dropped<B> {
    fn abort(&mut self, why: &str) -> bool {
        if let Some(comm) = self.comm.take() {
            B::abort(comm, why);
            self.control.depart(why);
            match B::ENDS_REACH_POINTS {
                true => self.health.end_when_told(ended(&self.health)),
                false => self.health.end(),
            }
        }
        true
    }
}

impl<B: Backend> Orphan for Dropped<B> {
    fn poll(&mut self) -> bool {
        let Some(comm) = &self.comm else { return true };
        self.health.look();
        if let Err(cause) = self.health.check() {
            return self.abort(&cause.to_string());
        }
        if self.ticket.is_none() && B::is_idle(comm) {
            let site = std::panic::Location::caller();
            self.ticket = Some(self.control.post(FINISH, site, Vec::new()));
        }
        let collected = match self.ticket {
            Some(ticket) => self.control.try_collect(ticket, &self.health),
            None => Ok(None),
        };
        match collected {
            Ok(Some(_)) => {
                if let Some(comm) = self.comm.take() {
                    B::finalize(comm);
                    self.health.end();
                }
                true
            }
            Ok(None) if self.until.is_none_or(|until| Instant::now() < until) => false,
            Ok(None) => {
                let (rank, name) = (self.health.rank(), self.health.name());
                log::warn!(
                    "rank {rank} of {name}, dropped without `finish()`, is aborted: the other ranks did not end within its deadline"
                );
                self.abort("its communicator was dropped without `finish` and its deadline passed")
            }
            Err(cause) => self.abort(&cause.to_string()),
        }
    }
}

impl<B: Backend> Drop for Dropped<B> {
    fn drop(&mut self) {
        self.abort("its communicator was dropped without `finish`");
    }
}
