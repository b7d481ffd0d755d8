//! What a rank was told that other ranks caused, for who asks which rank is the cause.

use std::cell::Cell;
use std::mem;
use std::sync::{Arc, OnceLock};

use super::Error;
use crate::lock::{Mutex, MutexGuard};

/// How much of what other ranks did a rank was told.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Heard {
    Nothing,
    /// What it may go on from: another rank refused its part.
    Report,
    /// That ranks are lost.
    Loss,
}

/// The worst that a rank was told: what its thread was, and what other threads were by communicators that the
/// rank's thread made.
#[derive(Clone, Default, Debug)]
pub(crate) struct Told(Arc<Mutex<Option<Error>>>);

thread_local! {
    static TOLD: Told = Told::default();
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

impl Told {
    /// What this thread was told.
    pub(crate) fn here() -> Self {
        // None at the end of the thread, which returns nothing any more.
        TOLD.try_with(Self::clone).unwrap_or_default()
    }

    fn lock(&self) -> MutexGuard<'_, Option<Error>> {
        self.0.lock()
    }

    /// Notes that a thread gets to see `error`.
    pub(crate) fn note(&self, error: &Error) {
        let heard = error.heard();
        if heard == Heard::Nothing || OURS.get() {
            return;
        }
        let mut worst = self.lock();
        let is_worst = worst.as_ref().is_none_or(|old| old.heard() <= heard);
        let old = is_worst.then(|| worst.replace(error.clone()));
        drop(worst);
        drop(old);
    }

    /// The rank goes on, with those who live: what it was told is past.
    pub(crate) fn clear(&self) {
        let old = mem::take(&mut *self.lock());
        drop(old);
    }

    pub(crate) fn worst(&self) -> Option<Error> {
        self.lock().clone()
    }
}

/// Notes that this thread gets to see `error`.
pub(crate) fn told(error: Error) -> Error {
    let heard = error.heard();
    if heard != Heard::Nothing && !OURS.get() {
        Told::here().note(&error);
        if let Some(listener) = LISTENER.get() {
            listener(heard);
        }
    }
    error
}

/// This thread goes on, with those who live.
pub(crate) fn goes_on() {
    Told::here().clear();
    if let Some(listener) = LISTENER.get().filter(|_| !OURS.get()) {
        listener(Heard::Nothing);
    }
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
