//! A thread that looks now and then: for ranks whose thread does not come back from NCCL, and for memory
//! that nobody needs any more.
//!
//! The first operations of a communicator connect the ranks, and NCCL holds up their caller until the
//! others are there. Nothing frees that thread, and it cannot tell anybody. When a call takes longer than the communicator's deadline, it says so in the log and
//! poisons the communicator, which tells the other ranks.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, Once, PoisonError};
use std::time::{Duration, Instant};

use super::family;
use crate::backend::Allocation;
use crate::cuda::{CudaBackend, CudaStream};

/// How often it looks.
const EVERY: Duration = Duration::from_secs(1);

/// Memory of communicators that are over, until what their members enqueued is.
static BURIED: Mutex<Vec<Grave>> = Mutex::new(Vec::new());

struct Grave {
    _memory: Vec<Arc<Allocation<CudaBackend>>>,
    /// Peers' too: their puts are copies on their own streams.
    streams: Vec<Arc<CudaStream>>,
}

/// Keeps memory until all of these streams are idle.
pub(super) fn bury(memory: Vec<Arc<Allocation<CudaBackend>>>, streams: Vec<Arc<CudaStream>>) {
    let mut buried = BURIED.lock().unwrap_or_else(PoisonError::into_inner);
    buried.push(Grave { _memory: memory, streams });
}

fn exhume() {
    let lock = || BURIED.lock().unwrap_or_else(PoisonError::into_inner);
    // The driver is asked without the lock: it may not answer.
    let mut graves = std::mem::take(&mut *lock());
    graves.retain(|grave| grave.streams.iter().any(|stream| !stream.is_idle()));
    lock().append(&mut graves);
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
    let mut stays = Stays::default();
    loop {
        std::thread::sleep(EVERY);
        exhume();
        let families = family::all();
        let now = Instant::now();
        let inside = families.iter().flat_map(|family| {
            let id = Arc::as_ptr(family).addr();
            family.stays().map(move |(rank, stay, limit)| Stay { who: (id, rank), stay, limit })
        });
        for ((id, rank), waited) in stays.overdue(now, inside.collect()) {
            let stuck = families.iter().find(|family| Arc::as_ptr(family).addr() == id);
            if let Some(family) = stuck {
                family.is_stuck(rank, waited);
            }
        }
    }
}

/// A family and a rank.
type Who = (usize, usize);

/// A thread that is inside NCCL.
struct Stay {
    who: Who,
    stay: u64,
    limit: Duration,
}

/// Since when each stay lasts, and whether that was told.
#[derive(Default)]
struct Stays(HashMap<Who, (u64, Instant, bool)>);

impl Stays {
    /// Those that last longer than they may, each once.
    fn overdue(&mut self, now: Instant, inside: Vec<Stay>) -> Vec<(Who, Duration)> {
        self.0.retain(|who, (stay, ..)| inside.iter().any(|s| s.who == *who && s.stay == *stay));
        let mut overdue = Vec::new();
        for Stay { who, stay, limit } in inside {
            let (_, since, told) = self.0.entry(who).or_insert((stay, now, false));
            let waited = now.saturating_duration_since(*since);
            if waited >= limit && !*told {
                *told = true;
                overdue.push((who, waited));
            }
        }
        overdue
    }
}

#[cfg(test)]
mod tests {
    use super::{Stay, Stays};
    use std::time::{Duration, Instant};

    #[test]
    fn a_stay_that_lasts_is_told_once() {
        let (mut stays, start) = (Stays::default(), Instant::now());
        let limit = Duration::from_secs(3);
        let at = |seconds| start + Duration::from_secs(seconds);
        let inside = |stay| vec![Stay { who: (1, 0), stay, limit }];
        assert!(stays.overdue(at(0), inside(1)).is_empty());
        assert!(stays.overdue(at(2), inside(1)).is_empty());
        // Another call: it starts anew.
        assert!(stays.overdue(at(3), inside(3)).is_empty());
        assert!(stays.overdue(at(5), inside(3)).is_empty());
        assert_eq!(stays.overdue(at(6), inside(3)), [((1, 0), limit)]);
        assert!(stays.overdue(at(7), inside(3)).is_empty());
        assert!(stays.overdue(at(8), Vec::new()).is_empty());
        assert!(stays.0.is_empty());
    }
}
