//! What host threads know to be over.
//!
//! The program's threads communicate in ways that are invisible here (a channel, a join, a barrier
//! of the standard library). So what one thread has observed (by a host wait, a reached mark, or
//! its own access) counts as known to everything that any thread enqueues later. This hides
//! mistakes and invents none.
//!
//! The ranks of `launch!`, where it starts them itself, learn of each other through the library
//! alone. Their threads have their own knowledge, and the exchanges of the control plane carry it
//! from rank to rank. As processes, their peers know what was known here at the last exchange that
//! they completed.

mod line;

pub(crate) use line::Line;

use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};

use typed_nccl_match::{Clock, When};

use crate::lock::Mutex;
use line::HOST;

/// How many exchanges are remembered. What the ranks knew at earlier ones counts as known to all.
const EXCHANGES: usize = 256;

#[derive(Default)]
struct Shared {
    /// What all threads know.
    common: Arc<Clock>,
    /// What ranks with their own knowledge know. Their other threads may have heard of it.
    ranks: Clock,
    /// The last access by a thread without its own knowledge.
    last: u64,
    /// What the ranks knew at an exchange, by the meeting and the number.
    exchanges: VecDeque<((u64, u64), Clock)>,
    /// What the ranks in other processes may know of this one. `None` if the processes may have
    /// ways of their own to tell each other.
    told: Option<Told>,
}

#[derive(Default)]
struct Told {
    clock: Arc<Clock>,
    /// What was known here at exchanges that no peer has completed, by number.
    posted: VecDeque<(u64, Arc<Clock>)>,
}

impl Told {
    /// Some peer has completed the exchanges before this number.
    fn completes(&mut self, number: u64) {
        while self.posted.front().is_some_and(|(posted, _)| *posted < number)
            && let Some((_, known)) = self.posted.pop_front()
        {
            Arc::make_mut(&mut self.clock).join(&known);
        }
    }

    fn posts(&mut self, number: u64, known: Arc<Clock>) {
        if self.posted.len() == EXCHANGES {
            self.completes(self.posted[0].0 + 1);
        }
        self.posted.push_back((number, known));
    }
}

static SHARED: LazyLock<Mutex<Shared>> = LazyLock::new(Mutex::default);

/// How often `common` has changed.
static CHANGES: AtomicU64 = AtomicU64::new(0);

/// How many threads have their own knowledge.
static APART: AtomicUsize = AtomicUsize::new(0);

/// The knowledge of one rank's thread.
struct Own {
    clock: Arc<Clock>,
    line: Line,
    /// The `CHANGES` up to which it includes `common`.
    seen: u64,
}

impl Own {
    fn look(&mut self) {
        let changes = CHANGES.load(Ordering::Acquire);
        if self.seen != changes {
            Arc::make_mut(&mut self.clock).join(&SHARED.lock().common);
            self.seen = changes;
        }
    }
}

thread_local! {
    static OWN: RefCell<Option<Own>> = const { RefCell::new(None) };
}

/// Accesses this thread's own knowledge, if it has any.
fn own<T>(with: impl FnOnce(&mut Own) -> T) -> Option<T> {
    if APART.load(Ordering::Relaxed) == 0 {
        return None;
    }
    OWN.try_with(|own| own.borrow_mut().as_mut().map(with)).ok().flatten()
}

/// Runs a rank that hears of other ranks through the library alone.
pub(crate) fn apart<T>(rank: impl FnOnce() -> T) -> T {
    /// Ends it, whether the rank returns or panics.
    struct Ends;

    impl Drop for Ends {
        fn drop(&mut self) {
            drop(OWN.take());
            APART.fetch_sub(1, Ordering::Relaxed);
        }
    }

    let seen = CHANGES.load(Ordering::Acquire);
    let clock = SHARED.lock().common.clone();
    APART.fetch_add(1, Ordering::Relaxed);
    OWN.set(Some(Own { clock, line: Line::open(), seen }));
    let _ends = Ends;
    rank()
}

/// From now on this process's rank hears of the others through the library alone.
pub(crate) fn is_apart() {
    let mut shared = SHARED.lock();
    let clock = shared.common.clone();
    shared.told = Some(Told { clock, ..Told::default() });
}

/// From now on the ranks may hear of each other in ways that are not followed.
pub(crate) fn is_together() {
    SHARED.lock().told = None;
}

/// A rank in another process has completed the exchanges before this number.
pub(crate) fn completes(number: u64) {
    SHARED.lock().told.iter_mut().for_each(|told| told.completes(number));
}

/// What ranks in other processes may know now.
pub(crate) fn of_peers() -> Arc<Clock> {
    let shared = SHARED.lock();
    shared.told.as_ref().map_or(&shared.common, |told| &told.clock).clone()
}

/// What this thread knows now.
pub(crate) fn now() -> Arc<Clock> {
    let own = own(|own| {
        own.look();
        own.clock.clone()
    });
    own.unwrap_or_else(|| {
        let shared = SHARED.lock();
        if APART.load(Ordering::Relaxed) == 0 {
            return shared.common.clone();
        }
        let mut all = Clock::clone(&shared.common);
        all.join(&shared.ranks);
        Arc::new(all)
    })
}

/// Records that this thread has learnt something.
pub(crate) fn learn(what: impl Fn(&mut Clock)) {
    let own = own(|own| what(Arc::make_mut(&mut own.clock)));
    let mut shared = SHARED.lock();
    if own.is_some() {
        return what(&mut shared.ranks);
    }
    what(Arc::make_mut(&mut shared.common));
    CHANGES.fetch_add(1, Ordering::Release);
}

/// Tells all threads what this one knows, where its rank meets others in a way that is not
/// followed.
pub(crate) fn tell_all() {
    let own = own(|own| own.clock.clone());
    let mut shared = SHARED.lock();
    if let Some(clock) = own {
        Arc::make_mut(&mut shared.common).join(&clock);
        CHANGES.fetch_add(1, Ordering::Release);
    }
    let Shared { common, told, .. } = &mut *shared;
    told.iter_mut().for_each(|told| told.clock = common.clone());
}

/// Begins an access by the host itself.
pub(crate) fn begins() -> When {
    let own = own(|own| {
        own.look();
        own.line.last += 1;
        When { line: own.line.id, event: own.line.last, after: Clock::clone(&own.clock) }
    });
    own.unwrap_or_else(|| {
        let after = Clock::clone(&now());
        let mut shared = SHARED.lock();
        shared.last += 1;
        When { line: HOST, event: shared.last, after }
    })
}

/// Ends the access.
pub(crate) fn ends(access: &When) {
    learn(|known| known.learn(access.line, access.event));
}

/// Records that this thread's rank takes part in an exchange.
pub(crate) fn posts(meeting: u64, number: u64) {
    if APART.load(Ordering::Relaxed) == 0 {
        let mut shared = SHARED.lock();
        let Shared { common, told, .. } = &mut *shared;
        return told.iter_mut().for_each(|told| told.posts(number, common.clone()));
    }
    let now = now();
    let mut shared = SHARED.lock();
    let Shared { common, exchanges, .. } = &mut *shared;
    let key = (meeting, number);
    if let Some((_, all)) = exchanges.iter_mut().rev().find(|(other, _)| *other == key) {
        return all.join(&now);
    }
    exchanges.push_back((key, Clock::clone(&now)));
    if exchanges.len() > EXCHANGES
        && let Some((_, oldest)) = exchanges.pop_front()
    {
        Arc::make_mut(common).join(&oldest);
        CHANGES.fetch_add(1, Ordering::Release);
    }
}

/// Records that this thread has seen the exchange complete.
pub(crate) fn collects(meeting: u64, number: u64) {
    if APART.load(Ordering::Relaxed) == 0 {
        return;
    }
    let shared = SHARED.lock();
    let exchange = shared.exchanges.iter().rev().find(|(key, _)| *key == (meeting, number));
    let Some(clock) = exchange.map(|(_, clock)| clock.clone()) else { return };
    drop(shared);
    learn(|known| known.join(&clock));
}
