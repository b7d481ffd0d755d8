//! A thread on which NCCL makes a communicator. Its calls block until every rank that it needs has made
//! them, so that who waits for it keeps its deadline.

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

/// A call of NCCL's that makes a communicator, under way.
pub struct Making {
    made: Receiver<Result<Option<Made>>>,
    /// The communicator that is divided, if it is one's child.
    parent: Option<Parent>,
    size: usize,
    /// Another library's communicator, until it joins.
    lent: Option<Made>,
}

/// What NCCL divides.
pub(super) struct Parent {
    pub(super) comm: Arc<Shared>,
    pub(super) health: Arc<Health>,
}

impl Making {
    /// Makes a call on a thread of its own.
    pub(super) fn start(
        thread: String,
        size: usize,
        parent: Option<Parent>,
        call: impl FnOnce() -> Result<Option<Made>> + Send + 'static,
    ) -> Result<Self> {
        let (sender, made) = channel();
        let spawned = std::thread::Builder::new().name(thread).spawn(move || {
            // Whoever asked may be gone: then what was made ends by its drop.
            let _ = sender.send(call());
        });
        match spawned {
            Ok(_) => Ok(Self { made, parent, size, lent: None }),
            Err(error) => Err(failed(size, format!("got no thread ({error})"))),
        }
    }

    /// Another library's communicator, which is there: it only has to join.
    pub(super) fn lent(raw: ncclComm_t, nccl: &'static Nccl) -> Self {
        let made = Made(Some(Handle { is_lent: true, ..Handle::own(raw) }), nccl, 0);
        Self { made: channel().1, parent: None, size: 0, lent: Some(made) }
    }

    pub(super) fn is_lent(&self) -> bool {
        self.lent.is_some()
    }

    /// The one that joins, if it is another library's.
    pub(super) fn take_lent(&mut self) -> Option<Made> {
        self.lent.take()
    }

    /// What was made, if anything was to be; none while the call is under way. Not asked again then.
    pub(super) fn poll(&mut self) -> Result<Option<Option<Made>>> {
        // NCCL needs all ranks of the parent, those of other children among them. What it made before the
        // parent failed is good.
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
        // What comes of it is not wanted any more: a thread that waits for ranks of the parent is freed.
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

/// A communicator that nobody has asked for yet. Aborted when it is dropped, unless it is lent.
pub(super) struct Made(Option<Handle>, &'static Nccl, u64);

impl Made {
    pub(super) fn take(mut self) -> Option<Handle> {
        self.0.take()
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        if let Some(handle) = self.0.take() {
            // SAFETY: it was made, and nobody has asked for it.
            unsafe { handle.discard(self.1, self.2) };
        }
    }
}

/// What a new communicator is to be, for the thread that makes it.
#[derive(Clone)]
pub(super) struct Wanted {
    /// The number of the communicator that threads are inside with: of the parent, for a child.
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

    /// What NCCL's call, which gave this result, has made.
    pub(super) fn made(
        &self,
        function: &'static str,
        result: ncclResult_t,
        comm: ncclComm_t,
    ) -> Result<Made> {
        // Aborted where it is dropped here: a failure may leave a handle.
        let made = Made((!comm.is_null()).then(|| Handle::own(comm)), self.nccl, self.comm);
        match result {
            ncclResult_t::ncclSuccess if made.0.is_some() => self.connected(made),
            ncclResult_t::ncclSuccess | ncclResult_t::ncclInProgress => Err(not_blocking()),
            _ => Err(self.nccl.failed(function, None, result)),
        }
    }

    /// One that is there, once its ranks are connected.
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

pub(super) fn number(n: u32) -> i32 {
    i32::try_from(n).unwrap_or(i32::MAX)
}

#[cold]
pub(super) fn failed(size: usize, why: String) -> Error {
    InitFailed { size, ranks: Vec::new(), why }.into()
}

#[cold]
fn not_blocking() -> Error {
    Error::from(Unsupported {
        what: "a communicator".to_owned(),
        needs: "calls of NCCL that return when they are done".to_owned(),
        found: "they return before: something sets NCCL_COMM_BLOCKING=0".to_owned(),
    })
}
