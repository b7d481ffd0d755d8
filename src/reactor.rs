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
        // Wakers are cloned and dropped by a runtime's code, so not under the lock.
        let waker = waker.clone();
        let earlier = self.0.waker.lock().replace(waker);
        if earlier.is_some() {
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
    /// Whether to wake the task: also after a panic, which it then meets by itself.
    fn is_due(&self) -> bool {
        contain("the look at a task's work", || (self.is_due)()).unwrap_or(true)
    }

    /// Wakers run a runtime's code, so they are called without the lock.
    fn wake(&self) {
        let waker = self.waker.lock().take();
        contain("a task's waker", || waker.into_iter().for_each(Waker::wake));
    }
}

/// Runs code of one task; its panic is not the other tasks'.
fn contain<R>(what: &str, work: impl FnOnce() -> R) -> Option<R> {
    match unwind::catch(work) {
        Ok(result) => Some(result),
        Err(panic) => {
            log::error!("{what} panicked: {}", panic.message());
            panic.end();
            None
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
            let is_due = entry.is_due();
            if is_due {
                entry.wake();
                wakes = true;
            }
            // The last one drops the program's values.
            contain("a task's value", move || drop(entry));
            !is_due
        };
        listed.retain(still);
        if let Some(pending) = &mut *PENDING.lock() {
            pending.append(&mut listed);
        }
        rest = if wakes { LEAST_REST } else { MOST_REST.min(rest * 2) };
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::task::Wake;

    use super::*;

    struct Task(Mutex<Sender<()>>);

    impl Wake for Task {
        fn wake(self: Arc<Self>) {
            let _ = self.0.lock().send(());
        }
    }

    fn task() -> (Waker, Receiver<()>) {
        let (woken, hears) = channel();
        (Arc::new(Task(Mutex::new(woken))).into(), hears)
    }

    /// Panics when it is dropped, which is after a look at it.
    struct Dropped;

    impl Drop for Dropped {
        fn drop(&mut self) {
            panic!("a task's value");
        }
    }

    #[test]
    fn a_task_that_panics_is_woken_and_keeps_no_other_from_it() {
        let ((bad, hears_bad), (good, hears_good)) = (task(), task());
        let panics = Registration::new(|| panic!("the look"));
        let (looked, hears_look) = channel();
        let (looked, value) = (Mutex::new(looked), Dropped);
        let drops = Registration::new(move || {
            let _ = (&value, looked.lock().send(()));
            thread::sleep(Duration::from_millis(50));
            false
        });
        let is_due = Arc::new(std::sync::atomic::AtomicBool::new(false));
        let due = is_due.clone();
        let fine = Registration::new(move || due.load(std::sync::atomic::Ordering::Relaxed));
        drops.wakes(&bad);
        panics.wakes(&bad);
        fine.wakes(&good);
        let limit = Duration::from_secs(20);
        hears_bad.recv_timeout(limit).expect("the one that panicked is woken");
        hears_look.recv_timeout(limit).expect("it is looked at");
        // The thread that looks is the last to have it, unless this one is slow.
        if let Err(panic) = unwind::catch(move || drop(drops)) {
            panic.end();
        }
        is_due.store(true, std::sync::atomic::Ordering::Relaxed);
        hears_good.recv_timeout(limit).expect("the thread goes on");
    }
}
