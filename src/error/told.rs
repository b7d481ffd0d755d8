//! What this thread was told that other ranks caused, for who asks which rank is the cause.

use std::cell::{Cell, RefCell};
use std::sync::OnceLock;

use super::Error;

/// How much of what other ranks did a rank was told.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Heard {
    Nothing,
    /// What it may go on from: another rank refused its part.
    Report,
    /// That ranks are lost.
    Loss,
}

thread_local! {
    static TOLD: RefCell<Option<Error>> = const { RefCell::new(None) };
    static OURS: Cell<bool> = const { Cell::new(false) };
}

/// Who is told what the threads of this process are told.
static LISTENER: OnceLock<fn(Heard)> = OnceLock::new();

/// Has `listener` hear what any thread is told from here on. There is one.
#[cfg(all(feature = "cuda", unix))]
pub(crate) fn listen(listener: fn(Heard)) {
    // It is always the same.
    let _ = LISTENER.set(listener);
}

/// What this thread is told, the program is not: it is the library's own.
pub(crate) fn ours() {
    OURS.set(true);
}

/// Notes that this thread gets to see `error`.
pub(crate) fn told(error: Error) -> Error {
    let heard = error.heard();
    if heard != Heard::Nothing && !OURS.get() {
        // None at the end of the thread, which returns nothing any more.
        let _ = TOLD.try_with(|told| {
            let told = &mut *told.borrow_mut();
            if told.as_ref().is_none_or(|old| old.heard() <= heard) {
                *told = Some(error.clone());
            }
        });
        if let Some(listener) = LISTENER.get() {
            listener(heard);
        }
    }
    error
}

/// This thread goes on, with those who live: what it was told is past.
pub(crate) fn goes_on() {
    let _ = TOLD.try_with(|told| *told.borrow_mut() = None);
    if let Some(listener) = LISTENER.get().filter(|_| !OURS.get()) {
        listener(Heard::Nothing);
    }
}

/// The worst that this thread was told.
pub(crate) fn was_told() -> Option<Error> {
    TOLD.try_with(|told| told.borrow().clone()).ok().flatten()
}

impl Error {
    /// What whoever gets it has been told of other ranks.
    pub(crate) fn heard(&self) -> Heard {
        match self {
            Self::Excluded(_) => Heard::Loss,
            error if error.is_peer_failure() => Heard::Loss,
            Self::Refused(_) => Heard::Report,
            _ => Heard::Nothing,
        }
    }
}
