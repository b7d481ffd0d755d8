//! Ranks of one process that share a GPU.
//!
//! They share CUDA's context too. `ncclCommDestroy` frees memory, for which the driver holds a lock
//! of the context until the GPU has finished all its work. Meanwhile no other rank can launch
//! anything there. If the GPU's work waits for such a rank, nobody ever goes on.
//!
//! So once two ranks share a GPU, NCCL destroys communicators only when the last one of the process
//! has ended, and new ones are not used before that is over. It is one list for all GPUs, as NCCL
//! frees a communicator's memory when the last of the process's ranks destroys it. GPUs are shared
//! only with `NCCL_MULTI_RANK_GPU_ENABLE=1`; others are not affected.

use std::sync::{Condvar, PoisonError};

use super::environment::shares_gpus;
use crate::lock::Mutex;

static PROCESS: Mutex<Process> = Mutex::new(Process::new());
static DESTROYED: Condvar = Condvar::new();

/// A process whose ranks may share GPUs.
struct Process {
    /// Communicators that have not ended.
    tenants: Vec<Place>,
    /// Whether two ranks shared a GPU since there were no tenants.
    is_shared: bool,
    is_destroying: bool,
    due: Vec<Box<dyn FnOnce() + Send>>,
}

/// A rank's communicator on a GPU.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Place {
    ordinal: u32,
    comm: u64,
    rank: usize,
}

/// A rank's communicator on a GPU that others may share.
pub(super) struct Tenant {
    of: &'static Mutex<Process>,
    place: Place,
}

impl Process {
    const fn new() -> Self {
        Self { tenants: Vec::new(), is_shared: false, is_destroying: false, due: Vec::new() }
    }
}

impl Tenant {
    /// `None` if the environment lets no two ranks share a GPU.
    pub(super) fn new(ordinal: u32, comm: u64, rank: usize) -> Option<Self> {
        shares_gpus().then(|| Self::of(&PROCESS, Place { ordinal, comm, rank }))
    }

    fn of(of: &'static Mutex<Process>, place: Place) -> Self {
        let process = DESTROYED.wait_while(of.lock(), |process| process.is_destroying);
        let mut process = process.unwrap_or_else(PoisonError::into_inner);
        let Place { ordinal, comm, rank } = place;
        process.is_shared |= process
            .tenants
            .iter()
            .any(|other| (other.ordinal, other.comm) == (ordinal, comm) && other.rank != rank);
        process.tenants.push(place);
        Self { of, place }
    }

    /// Ends it: `destroy` runs now, or where GPUs are shared when the last communicator has ended.
    pub(super) fn end(self, destroy: impl FnOnce() + Send + 'static) {
        let mut process = self.of.lock();
        if process.is_shared {
            process.due.push(Box::new(destroy));
        } else {
            drop(process);
            destroy();
        }
    }
}

impl Drop for Tenant {
    fn drop(&mut self) {
        let mut process = self.of.lock();
        if let Some(at) = process.tenants.iter().position(|place| *place == self.place) {
            process.tenants.swap_remove(at);
        }
        if !process.tenants.is_empty() {
            return;
        }
        process.is_shared = false;
        let due = std::mem::take(&mut process.due);
        if due.is_empty() {
            return;
        }
        process.is_destroying = true;
        drop(process);
        let _over = Destroying(self.of);
        due.into_iter().for_each(|destroy| destroy());
    }
}

/// Lets new communicators in again, also after a panic.
struct Destroying(&'static Mutex<Process>);

impl Drop for Destroying {
    fn drop(&mut self) {
        self.0.lock().is_destroying = false;
        DESTROYED.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn what_two_ranks_share_is_destroyed_when_the_last_has_ended() {
        let (destroy, destroyed) = channel();
        let end = |tenant: Tenant, what| {
            let destroy = destroy.clone();
            tenant.end(move || destroy.send(what).expect("it is received"));
            destroyed.try_iter().collect::<Vec<_>>()
        };
        static OF: Mutex<Process> = Mutex::new(Process::new());
        let on = |ordinal, comm, rank| Tenant::of(&OF, Place { ordinal, comm, rank });
        let [a0, a1, b0, b1] = [(1, 0), (1, 1), (2, 0), (2, 1)].map(|(c, r)| on(0, c, r));
        assert_eq!(end(b0, "b0"), [""; 0]);
        assert_eq!(end(b1, "b1"), [""; 0]);
        // NCCL frees what ranks on other GPUs have together with these.
        let elsewhere = on(1, 1, 2);
        drop(a0);
        assert_eq!(end(a1, "a1"), [""; 0]);
        assert_eq!(end(elsewhere, "a2"), ["b0", "b1", "a1", "a2"]);
    }

    #[test]
    fn a_new_communicator_waits_until_the_old_ones_are_destroyed() {
        static OF: Mutex<Process> = Mutex::new(Process::new());
        let on = |comm, rank| Tenant::of(&OF, Place { ordinal: 0, comm, rank });
        let [a0, a1] = [0, 1].map(|rank| on(1, rank));
        let (begin, begun) = channel();
        let (go, gone) = channel();
        a0.end(|| {});
        std::thread::scope(|scope| {
            scope.spawn(|| {
                a1.end(move || {
                    begin.send(()).expect("it is received");
                    gone.recv().expect("it is sent");
                });
            });
            begun.recv().expect("it is sent");
            let new = scope.spawn(|| drop(on(2, 0)));
            std::thread::sleep(std::time::Duration::from_millis(20));
            assert!(!new.is_finished());
            go.send(()).expect("it is received");
        });
    }

    #[test]
    fn a_gpu_of_one_rank_waits_for_nobody() {
        let (destroy, destroyed) = channel();
        static OF: Mutex<Process> = Mutex::new(Process::new());
        let on = |comm| Tenant::of(&OF, Place { ordinal: 0, comm, rank: 0 });
        let (own, child) = (on(1), on(2));
        child.end(move || destroy.send(()).expect("it is received"));
        assert_eq!(destroyed.try_iter().count(), 1);
        drop(own);
    }
}
