//! What a process does last, after the other ranks know that it ends.

use crate::lock::Mutex;

static LAST: Mutex<Vec<fn()>> = Mutex::new(Vec::new());

/// Has this called when the process exits.
#[cfg(all(feature = "mpi", target_os = "linux"))]
pub(crate) fn at_last(call: fn()) {
    LAST.lock().push(call);
}

/// Calls what was asked for.
pub(crate) fn last() {
    let calls = std::mem::take(&mut *LAST.lock());
    calls.into_iter().for_each(|call| call());
}
