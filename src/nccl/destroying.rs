//! When NCCL destroys communicators.
//!
//! `ncclCommDestroy` frees memory, for which the driver holds a lock of the context until the GPU
//! has finished all its work. Meanwhile nobody can launch anything there. If the GPU's work waits
//! for another rank, and that one for a launch, nobody ever goes on. NCCL frees the memory of all
//! ranks of a process when the last of them is destroyed. So they are destroyed together, once all
//! have ended and their GPUs are idle, by a thread that no rank depends on. Ranks wait for it for
//! seconds at most, and not at all while a GPU is at work.
//!
//! From 2.31 on NCCL also waits there for the ranks of the host's other processes. One whose GPU is
//! at work comes later, and NCCL would free memory whenever it does. So where there are other
//! processes each rank is finalised first, on a thread of its own: that waits for them, and frees
//! next to nothing.
//!
//! Ranks of one process that share a GPU share the context too, and one may launch after the other
//! has asked. So once two ranks share a GPU, NCCL destroys communicators only when the last one of
//! the process has ended, and new ones are not used before that is over. GPUs are shared only with
//! `NCCL_MULTI_RANK_GPU_ENABLE=1`.

use std::sync::{Arc, Condvar};
use std::time::{Duration, Instant};
use std::{io, mem};

use super::environment::shares_gpus;
use crate::error;
use crate::lock::Mutex;
use crate::own_thread;
use crate::rate_limited::RateLimited;

static PROCESS: Ends = Ends::new();

/// How long a rank waits for others. Where all come, NCCL takes half a second.
const PATIENCE: Duration = Duration::from_secs(1);

/// How long it waits for NCCL, which frees memory under work that began meanwhile, and that may need
/// this rank.
const LIMIT: Duration = Duration::from_secs(3);

/// How often to ask whether a GPU is idle.
const REST: Duration = Duration::from_millis(5);

/// The ends of a process's communicators.
struct Ends {
    process: Mutex<Process>,
    changed: Condvar,
}

/// The communicators of a process.
struct Process {
    /// Communicators that have not ended.
    tenants: Vec<Place>,
    /// Whether two ranks shared a GPU since there were no tenants.
    is_shared: bool,
    /// Those that a thread destroys, or is about to.
    active: Vec<Place>,
    /// Those that wait for other processes, and are due after that.
    meeting: Vec<Place>,
    due: Vec<Due>,
    /// The communicators that are due, but had a GPU at work when it was asked last.
    put_off: Vec<u64>,
    /// Whether a thread destroys those whose GPU was at work.
    is_watched: bool,
}

type Job = Box<dyn FnOnce() + Send>;
type Question = Arc<dyn Fn() -> bool + Send + Sync>;

/// A communicator to destroy.
struct Due {
    place: Place,
    is_busy: Question,
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
    of: &'static Ends,
    place: Place,
    has_ended: bool,
}

impl Ends {
    const fn new() -> Self {
        Self { process: Mutex::new(Process::new()), changed: Condvar::new() }
    }
}

impl Process {
    const fn new() -> Self {
        Self {
            tenants: Vec::new(),
            is_shared: false,
            active: Vec::new(),
            meeting: Vec::new(),
            due: Vec::new(),
            put_off: Vec::new(),
            is_watched: false,
        }
    }

    /// The ranks of the first communicator that may be destroyed and is on none of these GPUs. No
    /// other thread destroys anything there.
    fn next(&mut self, but: &[u32]) -> Option<Vec<Due>> {
        let may_be = |due: &Due| {
            let ordinal = due.place.ordinal;
            !but.contains(&ordinal)
                && self.may_begin(due)
                && !self.active.iter().any(|active| active.ordinal == ordinal)
        };
        let of = |due: &Due| due.place.comm;
        let may_not: Vec<_> = self.due.iter().filter(|due| !may_be(due)).map(of).collect();
        let comm = self.due.iter().map(of).find(|comm| !may_not.contains(comm))?;
        let (ready, left) = mem::take(&mut self.due).into_iter().partition(|due| of(due) == comm);
        self.due = left;
        let ready: Vec<Due> = ready;
        self.active.extend(ready.iter().map(|due| due.place));
        Some(ready)
    }

    /// Whether a communicator waits for its GPUs alone.
    fn may_begin(&self, due: &Due) -> bool {
        let comm = due.place.comm;
        !self.is_shared
            && !are_of(&self.tenants, comm)
            && (due.meet.is_some() || !are_of(&self.meeting, comm))
    }

    /// Whether a thread has to ask when GPUs are idle.
    fn has_more(&self) -> bool {
        self.due.iter().any(|due| self.may_begin(due))
    }

    /// Puts off what is due on these GPUs, which are at work.
    fn puts_off(&mut self, places: &[Place]) {
        let is_there = |due: &&Due| places.iter().any(|at| at.ordinal == due.place.ordinal);
        let due = self.due.iter().filter(is_there).map(|due| due.place.comm);
        self.put_off.extend(due.chain(places.iter().map(|place| place.comm)));
        self.put_off.sort_unstable();
        self.put_off.dedup();
    }

    /// The GPUs of these are idle.
    fn begins(&mut self, places: &[Place]) {
        self.put_off.retain(|comm| !are_of(places, *comm));
    }

    /// Whether a communicator is left.
    fn has(&self, comm: u64) -> bool {
        self.due.iter().any(|due| due.place.comm == comm)
            || are_of(&self.active, comm)
            || are_of(&self.meeting, comm)
    }
}

fn are_of(places: &[Place], comm: u64) -> bool {
    places.iter().any(|place| place.comm == comm)
}

impl Tenant {
    /// `None` while communicators of a process whose ranks may share GPUs are being destroyed.
    pub(super) fn new(ordinal: u32, comm: u64, rank: usize) -> Option<Self> {
        Self::of(&PROCESS, Place { ordinal, comm, rank }, shares_gpus())
    }

    /// With `may_share`, ranks may share GPUs.
    fn of(of: &'static Ends, place: Place, may_share: bool) -> Option<Self> {
        let mut process = of.process.lock();
        if may_share && !process.active.is_empty() {
            return None;
        }
        let Place { ordinal, comm, rank } = place;
        process.is_shared |= process
            .tenants
            .iter()
            .any(|other| (other.ordinal, other.comm) == (ordinal, comm) && other.rank != rank);
        process.tenants.push(place);
        Some(Self { of, place, has_ended: false })
    }

    /// Ends it: `destroy` runs once all ranks of this process have ended and no GPU `is_busy` or
    /// shared. Before that `meet` waits for ranks of other processes.
    pub(super) fn end(
        mut self,
        is_busy: impl Fn() -> bool + Send + Sync + 'static,
        meet: Option<Job>,
        destroy: impl FnOnce() + Send + 'static,
    ) {
        self.has_ended = true;
        let (place, is_busy, destroy) = (self.place, Arc::new(is_busy), Box::new(destroy));
        let due = Due { place, is_busy, meet, destroy };
        self.of.process.lock().due.push(due);
    }

    /// Another owner goes on using the GPU. The other ranks' ends do not wait for that one's.
    pub(super) fn give_away(self) {
        let mut process = self.of.process.lock();
        let given = process.tenants.iter_mut().find(|place| **place == self.place);
        given.into_iter().for_each(|place| place.comm = u64::MAX);
        drop(process);
        let of = self.of;
        mem::forget(self);
        destroy(of);
        watch(of);
    }
}

impl Drop for Tenant {
    fn drop(&mut self) {
        let mut process = self.of.process.lock();
        if let Some(at) = process.tenants.iter().position(|place| *place == self.place) {
            process.tenants.swap_remove(at);
        }
        if process.tenants.is_empty() {
            process.is_shared = false;
        }
        drop(process);
        destroy(self.of);
        watch(self.of);
        // A thread of the library's own may have other ranks of this communicator to end.
        if self.has_ended && !error::is_ours() {
            wait(self.of, self.place.comm);
        }
    }
}

/// Whether nothing is left to destroy but on GPUs that are at work or used. With `all`, nothing may be
/// left that ranks of other processes wait for.
pub(super) fn is_over(all: bool) -> bool {
    let process = PROCESS.process.lock();
    let due = || process.due.iter().filter(|due| process.may_begin(due));
    let is_met = process.meeting.is_empty() && due().all(|due| due.meet.is_none());
    if !process.active.is_empty() || all && !is_met {
        return false;
    }
    let asked: Vec<_> = due().map(|due| due.is_busy.clone()).collect();
    drop(process);
    asked.iter().all(|is_busy| is_busy())
}

/// Destroys communicators, in the order of their ends, where the GPUs are idle.
fn destroy(of: &'static Ends) {
    static FAILED: RateLimited = RateLimited::new();
    let mut but = Vec::new();
    loop {
        // In its own statement, so that the lock is not held while the driver is asked.
        let next = of.process.lock().next(&but);
        let Some(dues) = next else { return };
        let places: Vec<_> = dues.iter().map(|due| due.place).collect();
        let ordinals = places.iter().map(|place| place.ordinal);
        let active = Active { of, places: places.clone(), dues };
        // What ended later on these GPUs comes later.
        if active.dues.iter().any(|due| (due.is_busy)()) {
            of.process.lock().puts_off(&places);
            but.extend(ordinals);
            continue;
        }
        of.process.lock().begins(&places);
        if let Err(error) = active.begin() {
            but.extend(ordinals);
            FAILED.warn(format_args!("no thread to destroy a communicator, which waits: {error}"));
        }
    }
}

/// Waits until a communicator is destroyed, unless it is put off.
fn wait(of: &'static Ends, comm: u64) {
    let since = Instant::now();
    loop {
        let process = of.process.lock();
        let waits = |process: &Process| process.has(comm) && !process.put_off.contains(&comm);
        let is_active = are_of(&process.active, comm);
        let limit = if is_active { LIMIT } else { PATIENCE };
        let left = limit.saturating_sub(since.elapsed());
        if !waits(&process) || process.is_shared || left.is_zero() {
            return;
        }
        drop(of.changed.wait_timeout_while(process, left.min(PATIENCE), |process| waits(process)));
    }
}

/// Communicators that are about to be destroyed. Dropped, they are due again.
struct Active {
    of: &'static Ends,
    places: Vec<Place>,
    dues: Vec<Due>,
}

impl Active {
    /// Destroys them on a thread of its own, or finalises each on its own first.
    fn begin(mut self) -> io::Result<()> {
        if self.dues.iter().all(|due| due.meet.is_none()) {
            return start(move || {
                let of = self.of;
                mem::take(&mut self.dues).into_iter().for_each(|due| (due.destroy)());
                drop(self);
                destroy(of);
                watch(of);
            });
        }
        while let Some(due) = self.dues.pop() {
            let mut meeting = Meeting::new(self.of, due);
            start(move || {
                let of = meeting.of;
                let meet = meeting.due.as_mut().and_then(|due| due.meet.take());
                meet.into_iter().for_each(|meet| meet());
                drop(meeting);
                destroy(of);
                watch(of);
            })?;
        }
        Ok(())
    }
}

impl Drop for Active {
    fn drop(&mut self) {
        let mut process = self.of.process.lock();
        process.active.retain(|place| !self.places.contains(place));
        // In the order of their ends.
        process.due.splice(0..0, self.dues.drain(..));
        drop(process);
        self.of.changed.notify_all();
    }
}

/// A communicator that waits for other processes. Dropped, it is due again.
struct Meeting {
    of: &'static Ends,
    due: Option<Due>,
}

impl Meeting {
    fn new(of: &'static Ends, due: Due) -> Self {
        of.process.lock().meeting.push(due.place);
        Self { of, due: Some(due) }
    }
}

impl Drop for Meeting {
    fn drop(&mut self) {
        let mut process = self.of.process.lock();
        if let Some(due) = self.due.take() {
            process.meeting.retain(|place| *place != due.place);
            process.due.push(due);
        }
        drop(process);
        self.of.changed.notify_all();
    }
}

fn start(run: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let run = move || {
        error::ours();
        own_thread::begin();
        run();
    };
    std::thread::Builder::new().name("NCCL destroy".to_owned()).spawn(run).map(drop)
}

/// Starts a thread for communicators that are left, unless there is one.
fn watch(of: &'static Ends) {
    let mut process = of.process.lock();
    if process.is_watched || !process.has_more() {
        return;
    }
    process.is_watched = true;
    drop(process);
    if let Err(error) = start(move || run(of)) {
        log::warn!(
            "no thread to destroy communicators, which wait for the next one's end: {error}"
        );
        of.process.lock().is_watched = false;
    }
}

fn run(of: &'static Ends) {
    loop {
        std::thread::sleep(REST);
        destroy(of);
        let mut process = of.process.lock();
        if !process.has_more() {
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

    fn on(of: &'static Ends, ordinal: u32, comm: u64, rank: usize) -> Tenant {
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
        static OF: Ends = Ends::new();
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
        static OF: Ends = Ends::new();
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
        static OF: Ends = Ends::new();
        let (own, child) = (on(&OF, 0, 1, 0), on(&OF, 0, 2, 0));
        child.end(|| false, None, move || destroy.send(()).expect("it is received"));
        assert_eq!(destroyed.try_iter().count(), 1);
        drop(own);
    }

    #[test]
    fn a_busy_gpu_is_waited_for_elsewhere_and_in_order() {
        let (destroy, destroyed) = channel();
        static OF: Ends = Ends::new();
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
        assert_eq!(OF.process.lock().put_off, [1, 2], "nobody waits for them");
        end(1, 3);
        assert_eq!(destroyed.try_iter().collect::<Vec<_>>(), [3]);
        BUSY.store(false, Relaxed);
        let next = || destroyed.recv_timeout(Duration::from_secs(20)).expect("it is destroyed");
        assert_eq!([next(), next()], [1, 2]);
    }

    #[test]
    fn what_waits_for_other_processes_is_destroyed_when_its_gpu_is_idle_again() {
        static OF: Ends = Ends::new();
        static BUSY: AtomicBool = AtomicBool::new(false);
        let (come, others) = channel();
        let (destroy, destroyed) = channel();
        let meet: Job = Box::new(move || others.recv().expect("it is sent"));
        let told = move || destroy.send(()).expect("it is received");
        on(&OF, 0, 1, 0).end(|| BUSY.load(Relaxed), Some(meet), told);
        assert_eq!(OF.process.lock().meeting.len(), 1, "its end waits for a moment only");
        BUSY.store(true, Relaxed);
        come.send(()).expect("it is received");
        while !OF.process.lock().meeting.is_empty() {
            std::thread::sleep(REST);
        }
        assert!(destroyed.recv_timeout(REST * 4).is_err());
        BUSY.store(false, Relaxed);
        destroyed.recv_timeout(Duration::from_secs(20)).expect("it is destroyed");
    }

    /// NCCL frees the memory of both GPUs with the last one's end.
    #[test]
    fn the_ranks_of_a_process_are_destroyed_together() {
        static OF: Ends = Ends::new();
        static BUSY: AtomicBool = AtomicBool::new(true);
        let (destroy, destroyed) = channel();
        let (first, second) = (on(&OF, 0, 1, 0), on(&OF, 1, 1, 1));
        let end = |tenant: Tenant, is_busy: fn() -> bool| {
            let destroy = destroy.clone();
            let rank = tenant.place.rank;
            tenant.end(is_busy, None, move || destroy.send(rank).expect("it is received"));
        };
        std::thread::scope(|scope| {
            scope.spawn(|| end(first, || BUSY.load(Relaxed)));
            while OF.process.lock().due.is_empty() {
                std::thread::sleep(REST);
            }
            end(second, || false);
        });
        assert!(destroyed.try_recv().is_err(), "the first one's GPU is at work");
        BUSY.store(false, Relaxed);
        let next = || destroyed.recv_timeout(Duration::from_secs(20)).expect("it is destroyed");
        assert_eq!([next(), next()], [0, 1]);
    }

    /// A rank launches between the answer of its GPU and NCCL's call, and waits for the other rank.
    #[test]
    fn a_rank_does_not_wait_for_an_end_that_waits_for_work() {
        static OF: Ends = Ends::new();
        static BUSY: AtomicBool = AtomicBool::new(false);
        let (go, gone) = channel::<()>();
        let end = || {
            on(&OF, 0, 1, 0).end(
                || BUSY.load(Relaxed),
                None,
                move || {
                    BUSY.store(true, Relaxed);
                    gone.recv().expect("it is sent");
                },
            );
        };
        end();
        assert_eq!(OF.process.lock().active.len(), 1);
        go.send(()).expect("it is received");
    }

    #[test]
    fn who_is_given_away_holds_up_nobody() {
        static OF: Ends = Ends::new();
        let (destroy, destroyed) = channel();
        let (given, left) = (on(&OF, 0, 1, 0), on(&OF, 1, 1, 1));
        left.end(|| false, None, move || destroy.send(()).expect("it is received"));
        assert!(destroyed.try_recv().is_err(), "the other may still use it");
        given.give_away();
        destroyed.recv_timeout(Duration::from_secs(20)).expect("it is destroyed");
    }
}
