//! Records the errors shown to a rank, to find the rank that caused a failure.

use std::cell::Cell;
use std::mem;
use std::sync::{Arc, OnceLock};

use super::Error;
use crate::lock::{Mutex, MutexGuard};

/// How serious the errors are that other ranks caused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Heard {
    Nothing,
    /// An error that the rank can continue after: another rank refused its part.
    Report,
    /// The loss of ranks.
    Loss,
}

/// The most serious error that a rank was shown: on its own thread, or on others through
/// communicators that its thread created.
#[derive(Clone, Default, Debug)]
pub(crate) struct WorstReport(Arc<Mutex<Option<Error>>>);

thread_local! {
    static TOLD: WorstReport = WorstReport::default();
    static OURS: Cell<bool> = const { Cell::new(false) };
}

/// Called with the severity of errors shown to any thread of this process.
static LISTENER: OnceLock<fn(Heard)> = OnceLock::new();

/// Sets the process's only listener.
#[cfg(unix)]
pub(crate) fn listen(listener: fn(Heard)) {
    // Every call passes the same listener.
    let _ = LISTENER.set(listener);
}

/// Marks this thread as the library's own: errors on it are not shown to the program.
pub(crate) fn ours() {
    OURS.set(true);
}

/// Whether this thread is the library's own.
#[cfg(feature = "cuda")]
pub(crate) fn is_ours() -> bool {
    // Unavailable at the end of a thread, which may be a rank's.
    OURS.try_with(Cell::get).unwrap_or(false)
}

impl WorstReport {
    /// The record of this thread.
    pub(crate) fn here() -> Self {
        // Unavailable at the end of the thread, which returns no more errors.
        TOLD.try_with(Self::clone).unwrap_or_default()
    }

    fn lock(&self) -> MutexGuard<'_, Option<Error>> {
        self.0.lock()
    }

    /// Records that a thread is shown `error`.
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

    /// Clears the record, because the rank continues with the survivors.
    pub(crate) fn clear(&self) {
        let old = mem::take(&mut *self.lock());
        drop(old);
    }

    pub(crate) fn worst(&self) -> Option<Error> {
        self.lock().clone()
    }
}

/// Records that this thread is shown `error`.
pub(crate) fn reported(error: Error) -> Error {
    let heard = error.heard();
    if heard != Heard::Nothing && !OURS.get() {
        WorstReport::here().note(&error);
        if let Some(listener) = LISTENER.get() {
            listener(heard);
        }
    }
    error
}

/// Records that this thread continues with the survivors.
pub(crate) fn goes_on() {
    WorstReport::here().clear();
    if let Some(listener) = LISTENER.get().filter(|_| !OURS.get()) {
        listener(Heard::Nothing);
    }
}

impl Error {
    /// How serious it is, if other ranks caused it.
    pub(crate) fn heard(&self) -> Heard {
        match self {
            Self::Excluded(_) => Heard::Loss,
            error if error.is_peer_failure() => Heard::Loss,
            Self::Refused(_) => Heard::Report,
            _ => Heard::Nothing,
        }
    }
}
