//! Ranks of one process that share a GPU.
//!
//! They share CUDA's context too. `ncclCommDestroy` frees memory, for which the driver holds a lock
//! of the context until the GPU has finished all its work. Meanwhile no other rank can launch
//! anything there. If the GPU's work waits for such a rank, nobody ever goes on.
//!
//! So NCCL destroys communicators of a shared GPU only when the last of them has ended, and new ones
//! are not used before that is over. GPUs are shared only with `NCCL_MULTI_RANK_GPU_ENABLE=1`;
//! others are not affected.

use std::sync::{Arc, Condvar, PoisonError};

use super::environment::shares_gpus;
use super::family::Family;
use crate::cuda::Gpu;
use crate::lock::Mutex;

static GPUS: Mutex<Vec<SharedGpu>> = Mutex::new(Vec::new());
static DESTROYED: Condvar = Condvar::new();

#[derive(Default)]
struct SharedGpu {
    ordinal: u32,
    /// Communicators that have not ended, by the address of their family, and each one's rank.
    tenants: Vec<(usize, usize)>,
    /// Whether two ranks of one communicator were here since the GPU was last free.
    is_shared: bool,
    is_destroying: bool,
    due: Vec<Box<dyn FnOnce() + Send>>,
}

/// A rank's communicator on a GPU that others may share.
pub(super) struct Tenant {
    ordinal: u32,
    comm: usize,
    rank: usize,
}

impl Tenant {
    /// `None` if the environment lets no two ranks share a GPU.
    pub(super) fn new(gpu: &Gpu, family: &Arc<Family>, rank: usize) -> Option<Self> {
        shares_gpus().then(|| Self::on(gpu.ordinal(), Arc::as_ptr(family).addr(), rank))
    }

    fn on(ordinal: u32, comm: usize, rank: usize) -> Self {
        let waits = |gpus: &mut Vec<SharedGpu>| {
            gpus.iter().any(|gpu| gpu.ordinal == ordinal && gpu.is_destroying)
        };
        let gpus = DESTROYED.wait_while(GPUS.lock(), waits);
        let mut gpus = gpus.unwrap_or_else(PoisonError::into_inner);
        if !gpus.iter().any(|gpu| gpu.ordinal == ordinal) {
            gpus.push(SharedGpu { ordinal, ..SharedGpu::default() });
        }
        if let Some(gpu) = gpus.iter_mut().find(|gpu| gpu.ordinal == ordinal) {
            gpu.is_shared |= gpu.tenants.iter().any(|other| other.0 == comm && other.1 != rank);
            gpu.tenants.push((comm, rank));
        }
        Self { ordinal, comm, rank }
    }

    /// Ends it: `destroy` runs now, or on a shared GPU when the last communicator there has ended.
    pub(super) fn end(self, destroy: impl FnOnce() + Send + 'static) {
        let mut gpus = GPUS.lock();
        match gpus.iter_mut().find(|gpu| gpu.ordinal == self.ordinal) {
            Some(gpu) if gpu.is_shared => gpu.due.push(Box::new(destroy)),
            _ => {
                drop(gpus);
                destroy();
            }
        }
    }
}

impl Drop for Tenant {
    fn drop(&mut self) {
        let mut gpus = GPUS.lock();
        let Some(gpu) = gpus.iter_mut().find(|gpu| gpu.ordinal == self.ordinal) else { return };
        let own = (self.comm, self.rank);
        if let Some(at) = gpu.tenants.iter().position(|tenant| *tenant == own) {
            gpu.tenants.swap_remove(at);
        }
        if !gpu.tenants.is_empty() {
            return;
        }
        gpu.is_shared = false;
        let due = std::mem::take(&mut gpu.due);
        if due.is_empty() {
            return;
        }
        gpu.is_destroying = true;
        drop(gpus);
        due.into_iter().for_each(|destroy| destroy());
        let mut gpus = GPUS.lock();
        if let Some(gpu) = gpus.iter_mut().find(|gpu| gpu.ordinal == self.ordinal) {
            gpu.is_destroying = false;
        }
        drop(gpus);
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
        let [a0, a1, b0, b1] = [(1, 0), (1, 1), (2, 0), (2, 1)].map(|(c, r)| Tenant::on(900, c, r));
        assert_eq!(end(b0, "b0"), [""; 0]);
        assert_eq!(end(b1, "b1"), [""; 0]);
        drop(a0);
        assert_eq!(end(a1, "a1"), ["b0", "b1", "a1"]);
    }

    #[test]
    fn a_new_communicator_waits_until_the_old_ones_are_destroyed() {
        let [a0, a1] = [0, 1].map(|rank| Tenant::on(902, 1, rank));
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
            let new = scope.spawn(|| drop(Tenant::on(902, 2, 0)));
            std::thread::sleep(std::time::Duration::from_millis(20));
            assert!(!new.is_finished());
            go.send(()).expect("it is received");
        });
    }

    #[test]
    fn a_gpu_of_one_rank_waits_for_nobody() {
        let (destroy, destroyed) = channel();
        let (own, child) = (Tenant::on(901, 1, 0), Tenant::on(901, 2, 0));
        child.end(move || destroy.send(()).expect("it is received"));
        assert_eq!(destroyed.try_iter().count(), 1);
        drop(own);
    }
}
