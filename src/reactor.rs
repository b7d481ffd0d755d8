//! The thread that wakes tasks. Neither NCCL, nor CUDA, nor the control plane reports progress by
//! an event, so while any future of the process is pending, one thread looks at short intervals.

use std::sync::{Arc, Weak};
use std::task::Waker;
use std::thread;
use std::time::Duration;

use crate::lock::Mutex;
use crate::{own_thread, unwind};

/// The interval after a task was woken. It doubles while none is.
const LEAST_REST: Duration = Duration::from_micros(50);
const MOST_REST: Duration = Duration::from_millis(1);

/// A task that waits. It is looked at until it is woken or this is dropped.
pub(crate) struct Registration(Arc<Entry>);

struct Entry {
    /// `None` once the task was woken.
    waker: Mutex<Option<Waker>>,
    is_due: Box<dyn Fn() -> bool + Send + Sync>,
}

/// The pending tasks; `None` while no thread runs.
static PENDING: Mutex<Option<Vec<Weak<Entry>>>> = Mutex::new(None);

impl Registration {
    /// `is_due` says, without blocking, whether to wake the task.
    pub(crate) fn new(is_due: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(Entry { waker: Mutex::new(None), is_due: Box::new(is_due) }))
    }

    /// Wakes the task once it is due. Its last waker counts.
    pub(crate) fn wakes(&self, waker: &Waker) {
        let is_listed = self.0.waker.lock().replace(waker.clone()).is_some();
        if is_listed {
            return;
        }
        let entry = Arc::downgrade(&self.0);
        let mut pending = PENDING.lock();
        if let Some(pending) = &mut *pending {
            return pending.push(entry);
        }
        let thread = thread::Builder::new().name("typed-nccl tasks".to_owned());
        match thread.spawn(wake_all) {
            Ok(_) => *pending = Some(vec![entry]),
            Err(_) => {
                drop(pending);
                // Without a thread, the task looks again right away.
                self.0.wake();
            }
        }
    }
}

impl Entry {
    /// Wakers run a runtime's code, so they are called without the lock, and a panic of one is not
    /// the other tasks'.
    fn wake(&self) {
        let waker = self.waker.lock().take();
        if let Err(panic) = unwind::catch(|| waker.into_iter().for_each(Waker::wake)) {
            log::error!("a task's waker panicked: {}", panic.message());
            panic.end();
        }
    }
}

/// Wakes tasks that are due, until none is pending.
fn wake_all() {
    own_thread::begin();
    let mut rest = LEAST_REST;
    loop {
        thread::sleep(rest);
        let mut listed = match &mut *PENDING.lock() {
            Some(pending) if !pending.is_empty() => std::mem::take(pending),
            none => {
                *none = None;
                return;
            }
        };
        let mut wakes = false;
        let still = |entry: &Weak<Entry>| {
            let Some(entry) = entry.upgrade() else { return false };
            let is_due = (entry.is_due)();
            if is_due {
                entry.wake();
                wakes = true;
            }
            !is_due
        };
        listed.retain(still);
        if let Some(pending) = &mut *PENDING.lock() {
            pending.append(&mut listed);
        }
        rest = if wakes { LEAST_REST } else { MOST_REST.min(rest * 2) };
    }
}
