//! A background thread that looks for ranks whose thread does not return from NCCL, and for memory
//! that can be freed.
//!
//! A communicator's first operations connect the ranks, and NCCL holds up their caller until the
//! others call too. The caller's thread cannot detect that they never will, so this one checks on
//! its behalf whether they left, refused the call or made a different one. If a call exceeds the
//! communicator's deadline, this thread logs it and poisons the communicator, which informs the
//! other ranks. A thread inside NCCL with a poisoned communicator is freed by `ncclCommRevoke`
//! (2.28.7); the communicator stays until its rank ends it. A thread that NCCL does not release is
//! reported on standard error.

use std::collections::HashMap;
use std::io::Write as _;
use std::sync::{Arc, Once};
use std::time::{Duration, Instant};

use typed_nccl_plan::releases::FREES_THREADS;

use super::api::version_of;
use super::family::{self, Family};
use crate::backend::{Allocation, Streams};
use crate::cuda::{CudaBackend, CudaStream, Recorded};
use crate::error;
use crate::lock::Mutex;
use crate::own_thread;

/// How often it checks.
const EVERY: Duration = Duration::from_millis(250);

/// Memory of ended communicators, kept until their members' enqueued work is over.
static QUARANTINE: Mutex<Vec<Quarantined>> = Mutex::new(Vec::new());

struct Quarantined {
    _memory: Vec<Arc<Allocation<CudaBackend>>>,
    /// Peers' streams too: their puts are copies on their own streams.
    streams: Vec<Arc<CudaStream>>,
    points: Vec<Recorded>,
}

impl Quarantined {
    fn is_lost(&self) -> bool {
        self.streams.iter().any(|stream| stream.is_lost())
    }

    fn is_over(&self) -> bool {
        // After a fault nothing runs any more.
        self.streams.iter().all(|stream| stream.is_idle())
            && self.points.iter().all(|point| CudaBackend::reached(point).unwrap_or(true))
    }
}

/// Keeps memory until all of these streams are idle.
pub(super) fn quarantine(memory: Vec<Arc<Allocation<CudaBackend>>>, streams: Vec<Arc<CudaStream>>) {
    let mut quarantine = QUARANTINE.lock();
    quarantine.push(Quarantined { _memory: memory, streams, points: Vec::new() });
}

/// Keeps memory until all of these points are reached.
pub(super) fn quarantine_until(memory: Vec<Arc<Allocation<CudaBackend>>>, points: Vec<Recorded>) {
    let mut quarantine = QUARANTINE.lock();
    quarantine.push(Quarantined { _memory: memory, streams: Vec::new(), points });
}

/// Frees memory whose work is over, and returns whether that was all. Memory of lost streams counts
/// only with `lost_too`.
pub(super) fn release_quarantined(lost_too: bool) -> bool {
    static ASKING: Mutex<()> = Mutex::new(());
    let lock = || QUARANTINE.lock();
    let Some(_asking) = ASKING.try_lock() else { return false };
    // The driver may not answer, so it is polled without the lock.
    let mut entries = std::mem::take(&mut *lock());
    entries.retain(|entry| !entry.is_over());
    let none = entries.iter().all(|entry| !lost_too && entry.is_lost());
    lock().append(&mut entries);
    none
}

/// Starts the thread, once.
pub(super) fn start() {
    static STARTED: Once = Once::new();
    STARTED.call_once(|| {
        let thread = std::thread::Builder::new().name("typed-nccl watch".to_owned());
        if let Err(error) = thread.spawn(run) {
            log::warn!("no thread to watch over calls of NCCL: {error}");
        }
    });
}

fn run() {
    error::ours();
    own_thread::begin();
    let mut pending = PendingCalls::default();
    loop {
        std::thread::sleep(EVERY);
        release_quarantined(true);
        let families = family::all();
        let now = Instant::now();
        let inside = families.iter().flat_map(|family| {
            let id = Arc::as_ptr(family).addr();
            family.pending_calls().map(move |(rank, serial, limit)| {
                let poisoned = family.is_poisoned(rank);
                PendingCall { who: (id, rank), serial, limit, poisoned }
            })
        });
        let due = pending.due(now, inside.collect());
        // A thread held up by NCCL cannot check for itself.
        for (id, rank) in pending.lasting(now) {
            if let Some(family) = families.iter().find(|family| Arc::as_ptr(family).addr() == id) {
                family.look(rank);
            }
        }
        for ((id, rank), waited, due) in due {
            let Some(family) = families.iter().find(|family| Arc::as_ptr(family).addr() == id)
            else {
                continue;
            };
            match due {
                Due::Tell => {
                    family.is_stuck(rank, waited, &pending.others((id, rank), now, &families));
                }
                Due::Free if family.free(rank) => {}
                Due::Free | Due::GiveUp => give_up(family, rank, waited),
            }
        }
    }
}

/// Reports a thread that NCCL does not release to the user.
fn give_up(family: &Family, rank: usize, waited: Duration) {
    let inside = family.inside(rank);
    let version =
        super::library::version().map_or_else(|_| String::new(), |version| version.to_string());
    // Standard error may be closed.
    let _ = writeln!(
        std::io::stderr(),
        "typed-nccl: a thread has been inside NCCL {version} for {waited:.0?}, which does not let it go ({} and later can be told to): {inside}; {}",
        version_of(FREES_THREADS),
        family.report()
    );
}

/// A family and a rank.
type Who = (usize, usize);

/// A thread inside NCCL.
struct PendingCall {
    who: Who,
    serial: u64,
    limit: Duration,
    /// The communicator is poisoned, so the call cannot succeed.
    poisoned: bool,
}

/// What is due for a stay; each happens once, in this order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Due {
    /// It exceeds its deadline.
    Tell,
    /// Its communicator is poisoned.
    Free,
    /// It was freed, and is still there.
    GiveUp,
}

/// What is known of a stay.
struct Known {
    serial: u64,
    since: Instant,
    done: Option<(Due, Instant)>,
}

/// How long a stay on a poisoned communicator may last. A regular call is shorter.
const VOID: Duration = Duration::from_millis(500);

/// How long NCCL may take to release a thread.
const FREED: Duration = Duration::from_secs(10);

#[derive(Default)]
struct PendingCalls(HashMap<Who, Known>);

impl PendingCalls {
    /// What is due, for which thread, after how long.
    fn due(&mut self, now: Instant, inside: Vec<PendingCall>) -> Vec<(Who, Duration, Due)> {
        self.0
            .retain(|who, known| inside.iter().any(|s| s.who == *who && s.serial == known.serial));
        let mut all = Vec::new();
        for PendingCall { who, serial, limit, poisoned } in inside {
            let known = self.0.entry(who).or_insert(Known { serial, since: now, done: None });
            let since = |then| now.saturating_duration_since(then);
            let waited = since(known.since);
            let due = match known.done {
                None | Some((Due::Tell, _)) if poisoned && waited >= VOID => Due::Free,
                None if !poisoned && waited >= limit => Due::Tell,
                Some((Due::Free, then)) if since(then) >= FREED => Due::GiveUp,
                _ => continue,
            };
            known.done = Some((due, now));
            all.push((who, waited, due));
        }
        all
    }

    /// Threads inside NCCL for longer than a regular call takes.
    fn lasting(&self, now: Instant) -> Vec<Who> {
        let lasts = |known: &Known| now.saturating_duration_since(known.since) >= VOID;
        self.0.iter().filter(|(_, known)| lasts(known)).map(|(who, _)| *who).collect()
    }

    /// The other threads that have been inside NCCL for a while.
    fn others(&self, but: Who, now: Instant, families: &[Arc<Family>]) -> Vec<String> {
        let others = self.0.iter().filter(|(who, known)| **who != but && known.since < now);
        let inside = others.filter_map(|((id, rank), _)| {
            let family = families.iter().find(|family| Arc::as_ptr(family).addr() == *id)?;
            Some(family.inside(*rank))
        });
        inside.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::{Due, FREED, PendingCall, PendingCalls, VOID};
    use std::time::{Duration, Instant};

    const LIMIT: Duration = Duration::from_secs(3);

    fn inside(serial: u64, poisoned: bool) -> Vec<PendingCall> {
        vec![PendingCall { who: (1, 0), serial, limit: LIMIT, poisoned }]
    }

    #[test]
    fn a_call_that_lasts_is_told_once() {
        let (mut pending, start) = (PendingCalls::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        assert!(pending.due(at(0), inside(1, false)).is_empty());
        assert!(pending.due(at(2), inside(1, false)).is_empty());
        // Another call starts a new stay.
        assert!(pending.due(at(3), inside(3, false)).is_empty());
        assert!(pending.due(at(5), inside(3, false)).is_empty());
        assert_eq!(pending.due(at(6), inside(3, false)), [((1, 0), LIMIT, Due::Tell)]);
        assert!(pending.due(at(7), inside(3, false)).is_empty());
        assert!(pending.due(at(8), Vec::new()).is_empty());
        assert!(pending.0.is_empty());
    }

    #[test]
    fn a_call_on_a_poisoned_communicator_is_freed_once() {
        let (mut pending, start) = (PendingCalls::default(), Instant::now());
        let mut due = |after, poisoned| {
            let due = pending.due(start + after, inside(1, poisoned));
            due.first().map(|(_, _, due)| *due)
        };
        assert_eq!((due(Duration::ZERO, false), due(VOID / 2, true)), (None, None));
        assert_eq!((due(VOID, true), due(2 * VOID, true)), (Some(Due::Free), None));
        let long = VOID + FREED;
        assert_eq!((due(long, true), due(2 * long, true)), (Some(Due::GiveUp), None));
    }

    #[test]
    fn a_call_that_was_told_is_freed() {
        let (mut pending, start) = (PendingCalls::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        pending.due(at(0), inside(1, false));
        assert_eq!(pending.due(at(3), inside(1, false))[0].2, Due::Tell);
        assert_eq!(pending.due(at(4), inside(1, true))[0].2, Due::Free);
    }
}
