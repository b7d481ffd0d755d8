//! When NCCL destroys communicators.
//!
//! `ncclCommDestroy` frees memory, for which the driver holds a lock of the context until the GPU
//! has finished all its work. Meanwhile nobody can launch anything there. If the GPU's work waits
//! for another rank, and that one for a launch, nobody ever goes on. So a communicator whose GPU is
//! at work is destroyed later, by a thread that asks until the GPU is idle.
//!
//! From 2.31 on NCCL also waits there for the ranks of the host's other processes. One whose GPU is
//! at work comes later, and NCCL would free memory whenever it does. So where there are other
//! processes a communicator is finalised first, which waits for them and frees nothing of this GPU's
//! context, on a thread of its own, for which its end waits only a moment.
//!
//! Ranks of one process that share a GPU share the context too, and one may launch after the other
//! has asked. So once two ranks share a GPU, NCCL destroys communicators only when the last one of
//! the process has ended, and new ones are not used before that is over. It is one list for all
//! GPUs, as NCCL frees a communicator's memory when the last of the process's ranks destroys it.
//! GPUs are shared only with `NCCL_MULTI_RANK_GPU_ENABLE=1`.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use super::environment::shares_gpus;
use crate::error;
use crate::lock::Mutex;
use crate::own_thread;

static PROCESS: Mutex<Process> = Mutex::new(Process::new());

/// How long to wait for ranks of other processes. Where all come, NCCL takes half a second.
const PATIENCE: Duration = Duration::from_secs(1);

/// How often to ask whether a GPU is idle.
const REST: Duration = Duration::from_millis(5);

/// The communicators of a process.
struct Process {
    /// Communicators that have not ended.
    tenants: Vec<Place>,
    /// Whether two ranks shared a GPU since there were no tenants.
    is_shared: bool,
    /// GPUs with communicators that a thread destroys, or is about to.
    active: Vec<u32>,
    due: Vec<Due>,
    /// How many wait for other processes before they are due again.
    meeting: usize,
    /// Whether a thread destroys those whose GPU was at work.
    is_watched: bool,
}

type Job = Box<dyn FnOnce() + Send>;

/// A communicator to destroy.
struct Due {
    ordinal: u32,
    is_busy: Arc<dyn Fn() -> bool + Send + Sync>,
    /// Finalises it, which waits for the ranks of other processes.
    meet: Option<Job>,
    destroy: Job,
}

/// A rank's communicator on a GPU.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Place {
    ordinal: u32,
    comm: u64,
    rank: usize,
}

/// A rank's communicator on a GPU that others may use.
pub(super) struct Tenant {
    of: &'static Mutex<Process>,
    place: Place,
}

impl Process {
    const fn new() -> Self {
        Self {
            tenants: Vec::new(),
            is_shared: false,
            active: Vec::new(),
            due: Vec::new(),
            meeting: 0,
            is_watched: false,
        }
    }

    /// The first communicator that may be destroyed on a GPU that is not among these, and where no
    /// other thread is at it.
    fn next(&mut self, but: &[u32]) -> Option<Due> {
        let is_free =
            |due: &Due| !but.contains(&due.ordinal) && !self.active.contains(&due.ordinal);
        let at = self.due.iter().position(is_free).filter(|_| !self.is_shared)?;
        let due = self.due.remove(at);
        self.active.push(due.ordinal);
        Some(due)
    }
}

impl Tenant {
    /// `None` while communicators of a process whose ranks may share GPUs are being destroyed.
    pub(super) fn new(ordinal: u32, comm: u64, rank: usize) -> Option<Self> {
        Self::of(&PROCESS, Place { ordinal, comm, rank }, shares_gpus())
    }

    /// With `may_share`, ranks may share GPUs.
    fn of(of: &'static Mutex<Process>, place: Place, may_share: bool) -> Option<Self> {
        let mut process = of.lock();
        if may_share && !process.active.is_empty() {
            return None;
        }
        let Place { ordinal, comm, rank } = place;
        process.is_shared |= process
            .tenants
            .iter()
            .any(|other| (other.ordinal, other.comm) == (ordinal, comm) && other.rank != rank);
        process.tenants.push(place);
        Some(Self { of, place })
    }

    /// Ends it: `destroy` runs now, or later if the GPU `is_busy` or shared. Before that `meet` waits
    /// for ranks of other processes.
    pub(super) fn end(
        self,
        is_busy: impl Fn() -> bool + Send + Sync + 'static,
        meet: Option<Job>,
        destroy: impl FnOnce() + Send + 'static,
    ) {
        let (ordinal, is_busy, destroy) =
            (self.place.ordinal, Arc::new(is_busy), Box::new(destroy));
        self.of.lock().due.push(Due { ordinal, is_busy, meet, destroy });
    }
}

impl Drop for Tenant {
    fn drop(&mut self) {
        let mut process = self.of.lock();
        if let Some(at) = process.tenants.iter().position(|place| *place == self.place) {
            process.tenants.swap_remove(at);
        }
        if process.tenants.is_empty() {
            process.is_shared = false;
        }
        drop(process);
        destroy(self.of);
        watch(self.of);
    }
}

/// Whether nothing is left to destroy but on GPUs that are at work or shared.
pub(super) fn is_over() -> bool {
    let process = PROCESS.lock();
    let is_active = !process.active.is_empty();
    let due = process.due.iter().filter(|_| !process.is_shared);
    let asked: Vec<_> = due.map(|due| due.is_busy.clone()).collect();
    drop(process);
    !is_active && asked.iter().all(|is_busy| is_busy())
}

/// Whether a communicator waits for ranks of other processes.
pub(super) fn is_meeting() -> bool {
    PROCESS.lock().meeting > 0
}

/// Destroys communicators, in the order of their ends, where the GPU is idle. Those that wait for
/// other processes are waited for a moment.
fn destroy(of: &'static Mutex<Process>) {
    let (mut busy, mut meetings) = (Vec::new(), Vec::new());
    loop {
        // In its own statement, so that the lock is not held while the driver is asked.
        let next = of.lock().next(&busy);
        let Some(due) = next else { break };
        let _active = Active { of, ordinal: due.ordinal };
        if (due.is_busy)() {
            busy.push(due.ordinal);
            of.lock().due.insert(0, due);
        } else if due.meet.is_some() {
            let ordinal = due.ordinal;
            match Meeting::new(of, due).begin() {
                Ok(is_over) => meetings.push(is_over),
                Err(error) => {
                    log::warn!("no thread to end a communicator with other processes: {error}");
                    busy.push(ordinal);
                }
            }
        } else {
            (due.destroy)();
        }
    }
    let since = Instant::now();
    for is_over in meetings {
        let _ = is_over.recv_timeout(PATIENCE.saturating_sub(since.elapsed()));
    }
}

/// A communicator that waits for other processes. Dropped, it is due again.
struct Meeting {
    of: &'static Mutex<Process>,
    due: Option<Due>,
}

impl Meeting {
    fn new(of: &'static Mutex<Process>, due: Due) -> Self {
        of.lock().meeting += 1;
        Self { of, due: Some(due) }
    }

    /// Finalises it on a thread of its own, which then destroys it. The channel closes when that is
    /// over. Without a thread it stays due.
    fn begin(mut self) -> io::Result<Receiver<()>> {
        let (over, is_over) = channel();
        let run = move || {
            error::ours();
            own_thread::begin();
            let of = self.of;
            let meet = self.due.as_mut().and_then(|due| due.meet.take());
            meet.into_iter().for_each(|meet| meet());
            drop(self);
            destroy(of);
            watch(of);
            drop(over);
        };
        std::thread::Builder::new().name("NCCL destroy".to_owned()).spawn(run)?;
        Ok(is_over)
    }
}

impl Drop for Meeting {
    fn drop(&mut self) {
        let mut process = self.of.lock();
        process.meeting -= 1;
        process.due.extend(self.due.take());
    }
}

/// Lets other threads destroy communicators of a GPU again, also after a panic.
struct Active {
    of: &'static Mutex<Process>,
    ordinal: u32,
}

impl Drop for Active {
    fn drop(&mut self) {
        self.of.lock().active.retain(|ordinal| *ordinal != self.ordinal);
    }
}

/// Starts a thread for communicators that are left, unless there is one.
fn watch(of: &'static Mutex<Process>) {
    let mut process = of.lock();
    if process.due.is_empty() || process.is_shared || process.is_watched {
        return;
    }
    process.is_watched = true;
    drop(process);
    let thread = std::thread::Builder::new().name("NCCL destroy".to_owned());
    if let Err(error) = thread.spawn(move || run(of)) {
        log::warn!(
            "no thread to destroy communicators, which wait for the next one's end: {error}"
        );
        of.lock().is_watched = false;
    }
}

fn run(of: &'static Mutex<Process>) {
    error::ours();
    own_thread::begin();
    loop {
        std::thread::sleep(REST);
        destroy(of);
        let mut process = of.lock();
        if process.due.is_empty() || process.is_shared {
            process.is_watched = false;
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
    use std::sync::mpsc::channel;

    use super::*;

    fn on(of: &'static Mutex<Process>, ordinal: u32, comm: u64, rank: usize) -> Tenant {
        Tenant::of(of, Place { ordinal, comm, rank }, true).expect("nothing is being destroyed")
    }

    #[test]
    fn what_two_ranks_share_is_destroyed_when_the_last_has_ended() {
        let (destroy, destroyed) = channel();
        let end = |tenant: Tenant, what| {
            let destroy = destroy.clone();
            tenant.end(|| false, None, move || destroy.send(what).expect("it is received"));
            destroyed.try_iter().collect::<Vec<_>>()
        };
        static OF: Mutex<Process> = Mutex::new(Process::new());
        let [a0, a1, b0, b1] =
            [(1, 0), (1, 1), (2, 0), (2, 1)].map(|(comm, rank)| on(&OF, 0, comm, rank));
        assert_eq!(end(b0, "b0"), [""; 0]);
        assert_eq!(end(b1, "b1"), [""; 0]);
        // NCCL frees what ranks on other GPUs have together with these.
        let elsewhere = on(&OF, 1, 1, 2);
        drop(a0);
        assert_eq!(end(a1, "a1"), [""; 0]);
        assert_eq!(end(elsewhere, "a2"), ["b0", "b1", "a1", "a2"]);
    }

    #[test]
    fn a_new_communicator_waits_until_the_old_ones_are_destroyed() {
        static OF: Mutex<Process> = Mutex::new(Process::new());
        let [a0, a1] = [0, 1].map(|rank| on(&OF, 0, 1, rank));
        let (begin, begun) = channel();
        let (go, gone) = channel();
        a0.end(|| false, None, || {});
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let wait = move || {
                    begin.send(()).expect("it is received");
                    gone.recv().expect("it is sent");
                };
                a1.end(|| false, None, wait);
            });
            begun.recv().expect("it is sent");
            let place = Place { ordinal: 0, comm: 2, rank: 0 };
            assert!(Tenant::of(&OF, place, true).is_none());
            assert!(Tenant::of(&OF, place, false).is_some(), "its GPU is not shared");
            go.send(()).expect("it is received");
        });
    }

    #[test]
    fn a_gpu_of_one_rank_waits_for_nobody() {
        let (destroy, destroyed) = channel();
        static OF: Mutex<Process> = Mutex::new(Process::new());
        let (own, child) = (on(&OF, 0, 1, 0), on(&OF, 0, 2, 0));
        child.end(|| false, None, move || destroy.send(()).expect("it is received"));
        assert_eq!(destroyed.try_iter().count(), 1);
        drop(own);
    }

    #[test]
    fn a_busy_gpu_is_waited_for_elsewhere_and_in_order() {
        let (destroy, destroyed) = channel();
        static OF: Mutex<Process> = Mutex::new(Process::new());
        static BUSY: AtomicBool = AtomicBool::new(true);
        let end = |ordinal, comm| {
            let destroy = destroy.clone();
            let is_busy = move || ordinal == 0 && BUSY.load(Relaxed);
            let told = move || destroy.send(comm).expect("it is received");
            let tenant = Tenant::of(&OF, Place { ordinal, comm, rank: 0 }, false);
            tenant.expect("it waits for nobody").end(is_busy, None, told);
        };
        end(0, 1);
        end(0, 2);
        end(1, 3);
        assert_eq!(destroyed.try_iter().collect::<Vec<_>>(), [3]);
        BUSY.store(false, Relaxed);
        let next = || destroyed.recv_timeout(Duration::from_secs(20)).expect("it is destroyed");
        assert_eq!([next(), next()], [1, 2]);
    }

    #[test]
    fn what_waits_for_other_processes_is_destroyed_when_its_gpu_is_idle_again() {
        static OF: Mutex<Process> = Mutex::new(Process::new());
        static BUSY: AtomicBool = AtomicBool::new(false);
        let (come, others) = channel();
        let (destroy, destroyed) = channel();
        let meet: Job = Box::new(move || others.recv().expect("it is sent"));
        let told = move || destroy.send(()).expect("it is received");
        on(&OF, 0, 1, 0).end(|| BUSY.load(Relaxed), Some(meet), told);
        assert_eq!(OF.lock().meeting, 1, "its end waits for a moment only");
        BUSY.store(true, Relaxed);
        come.send(()).expect("it is received");
        while OF.lock().meeting > 0 {
            std::thread::sleep(REST);
        }
        assert!(destroyed.recv_timeout(REST * 4).is_err());
        BUSY.store(false, Relaxed);
        destroyed.recv_timeout(Duration::from_secs(20)).expect("it is destroyed");
    }
}
