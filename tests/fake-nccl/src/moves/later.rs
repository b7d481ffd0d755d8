//! What a call does when it has found its arguments right and holds no lock any more.

use std::cell::RefCell;

use crate::state::Answer;

type Work = Box<dyn FnOnce() -> Answer>;

thread_local! {
    static LATER: RefCell<Option<Work>> = const { RefCell::new(None) };
}

/// The call that runs on this thread does this when nothing is locked any more, and answers with it.
pub(crate) fn later(work: impl FnOnce() -> Answer + 'static) -> Answer {
    LATER.with_borrow_mut(|later| *later = Some(Box::new(work)));
    Ok(())
}

/// What the call has to do, if anything.
pub(crate) fn take() -> Option<Work> {
    LATER.take()
}
