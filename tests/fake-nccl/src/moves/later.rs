//! Work of a call after it has checked its arguments and released every lock.

use std::cell::RefCell;

use crate::state::Answer;

type Work = Box<dyn FnOnce() -> Answer>;

thread_local! {
    static LATER: RefCell<Option<Work>> = const { RefCell::new(None) };
}

/// Makes the call that runs on this thread do this once every lock is released, and answer with its
/// result.
pub(crate) fn later(work: impl FnOnce() -> Answer + 'static) -> Answer {
    LATER.with_borrow_mut(|later| *later = Some(Box::new(work)));
    Ok(())
}

/// The remaining work of the call, if there is any.
pub(crate) fn take() -> Option<Work> {
    LATER.take()
}
