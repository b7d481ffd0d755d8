//! Threads on which NCCL makes communicators. The calls block until every rank involved has made
//! them; on a thread of their own, they cannot make the caller miss its deadline.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::Duration;

use nccl_sys::{ncclComm_t, ncclConfig_t, ncclResult_t};

use super::api::Nccl;
use super::config;
use super::connect::connect;
use super::early::set_up_signals;
use super::exit;
use super::handle::Handle;
use super::shared::Shared;
use crate::Result;
use crate::communicator::{CommConfig, Health};
use crate::cuda::Gpu;
use crate::error::{Error, InitFailed, Unsupported};

/// An NCCL call in progress that makes a communicator.
pub struct Making {
    made: Receiver<Result<Option<Made>>>,
    /// The divided communicator, if this makes a child.
    parent: Option<Parent>,
    size: usize,
    /// Another library's communicator, until it joins.
    lent: Option<Made>,
}

/// The communicator that NCCL divides.
pub(super) struct Parent {
    pub(super) comm: Arc<Shared>,
    pub(super) health: Arc<Health>,
}

impl Making {
    /// Makes a call on its own thread.
    pub(super) fn start(
        thread: String,
        size: usize,
        parent: Option<Parent>,
        call: impl FnOnce() -> Result<Option<Made>> + Send + 'static,
    ) -> Result<Self> {
        let (sender, made) = channel();
        let spawned = std::thread::Builder::new().name(thread).spawn(move || {
            // If the receiver is gone, dropping the communicator ends it.
            let _ = sender.send(call());
        });
        match spawned {
            Ok(_) => Ok(Self { made, parent, size, lent: None }),
            Err(error) => Err(failed(size, format!("got no thread ({error})"))),
        }
    }

    /// Holds another library's communicator, which only has to join.
    pub(super) fn lent(raw: ncclComm_t, nccl: &'static Nccl) -> Self {
        let made = Made(Some(Handle { is_lent: true, ..Handle::own(raw) }), nccl, 0);
        Self { made: channel().1, parent: None, size: 0, lent: Some(made) }
    }

    pub(super) fn is_lent(&self) -> bool {
        self.lent.is_some()
    }

    /// Takes the communicator to join, if it is another library's.
    pub(super) fn take_lent(&mut self) -> Option<Made> {
        self.lent.take()
    }

    /// The communicator, if this rank gets one; `None` while the call is in progress. After that it
    /// must not be called again.
    pub(super) fn poll(&mut self) -> Result<Option<Option<Made>>> {
        // NCCL needs all ranks of the parent, including those of other children. A child made
        // before the parent failed is usable.
        let parents = match &self.parent {
            Some(Parent { comm, health }) => {
                comm.look(health);
                health.check()
            }
            None => Ok(()),
        };
        match self.made.try_recv() {
            Ok(made) => {
                self.parent = None;
                made.map(Some)
            }
            Err(TryRecvError::Empty) => parents.map(|()| None),
            Err(TryRecvError::Disconnected) => {
                Err(failed(self.size, "the thread that joined is gone".to_owned()))
            }
        }
    }
}

impl Drop for Making {
    fn drop(&mut self) {
        // The result is not wanted any more. A thread that waits for ranks of the parent must be
        // freed.
        if let Some(parent) = self.parent.take()
            && self.made.try_recv().is_err_and(|error| error == TryRecvError::Empty)
        {
            let is_freed = parent.comm.revoke();
            if !is_freed {
                exit::lose(parent.health.id());
            }
        }
    }
}

/// A communicator not yet taken by its caller. Dropping it aborts it, unless it is lent.
pub(super) struct Made(Option<Handle>, &'static Nccl, u64);

impl Made {
    pub(super) fn take(mut self) -> Option<Handle> {
        self.0.take()
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        if let Some(handle) = self.0.take() {
            // SAFETY: the communicator is complete, and no other thread has it.
            unsafe { handle.discard(self.1, self.2) };
        }
    }
}

/// The communicator to make, for the thread that makes it.
#[derive(Clone)]
pub(super) struct Wanted {
    /// The communicator whose number is registered while the thread is inside NCCL: for a child,
    /// the parent.
    pub(super) comm: u64,
    pub(super) nccl: &'static Nccl,
    pub(super) gpu: &'static Gpu,
    pub(super) size: i32,
    pub(super) config: CommConfig,
    pub(super) name: &'static str,
    pub(super) deadline: Duration,
}

impl Wanted {
    pub(super) fn config(&self) -> ncclConfig_t {
        config::of(&self.config, self.name)
    }

    /// Converts the result of the NCCL call.
    pub(super) fn made(
        &self,
        function: &'static str,
        result: ncclResult_t,
        comm: ncclComm_t,
    ) -> Result<Made> {
        // If this is dropped here, it aborts: a failed call may leave a handle.
        let made = Made((!comm.is_null()).then(|| Handle::own(comm)), self.nccl, self.comm);
        match result {
            ncclResult_t::ncclSuccess if made.0.is_some() => self.connected(made),
            ncclResult_t::ncclSuccess | ncclResult_t::ncclInProgress => Err(not_blocking()),
            _ => Err(self.nccl.failed(function, None, result)),
        }
    }

    /// Returns the communicator once its ranks are connected.
    pub(super) fn connected(&self, made: Made) -> Result<Made> {
        if let Some(handle) = &made.0 {
            connect(self.nccl, self.gpu, handle.raw, self.size, self.deadline)?;
            if self.config.has_signals() {
                set_up_signals(self.nccl, self.gpu, handle)?;
            }
        }
        Ok(made)
    }
}

#[cold]
pub(super) fn failed(size: usize, why: String) -> Error {
    InitFailed { size, ranks: Vec::new(), why }.into()
}

#[cold]
fn not_blocking() -> Error {
    Unsupported::error(
        "a communicator",
        "calls of NCCL that return when they are done",
        "they return before: something sets NCCL_COMM_BLOCKING=0",
    )
}
