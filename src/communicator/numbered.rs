//! Numbers the calls of work on one thread, so that they have keys.

use std::cell::RefCell;

thread_local! {
    /// The work that this thread is in, the innermost last.
    static WORK: RefCell<Vec<Numbered>> = const { RefCell::new(Vec::new()) };
}

/// Work of one [`Ordered`](super::Ordered).
pub(super) struct Numbered {
    of: usize,
    key: String,
    calls: u64,
}

impl Numbered {
    /// Begins work on this thread, which lasts until the returned value is dropped.
    pub(super) fn enter(of: usize, key: String) -> Entered {
        WORK.with_borrow_mut(|work| work.push(Self { of, key, calls: 0 }));
        Entered
    }

    /// The key of the next call; `None` outside of work.
    pub(super) fn next(of: usize) -> Option<String> {
        WORK.with_borrow_mut(|work| {
            let work = work.iter_mut().rev().find(|work| work.of == of)?;
            let key = format!("{}/{}", work.key, work.calls);
            work.calls += 1;
            Some(key)
        })
    }
}

/// Work that has begun on this thread.
pub(super) struct Entered;

impl Drop for Entered {
    fn drop(&mut self) {
        WORK.with_borrow_mut(|work| drop(work.pop()));
    }
}
