//! Panics of the program's code in the middle of a call.
//!
//! Whoever catches such a panic further up goes on with the communicator: the call has to take its
//! turn before the panic leaves it.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// A panic on its way.
pub(crate) struct Panic(Box<dyn Any + Send>);

/// Runs code of the program's.
pub(crate) fn catch<R>(work: impl FnOnce() -> R) -> Result<R, Panic> {
    // What it left half-done is not used again.
    catch_unwind(AssertUnwindSafe(work)).map_err(Panic)
}

impl Panic {
    /// What it said.
    pub(crate) fn message(&self) -> String {
        message(&*self.0)
    }

    /// It ends here. What was thrown may panic when it is dropped, which is nobody's business
    /// either.
    pub(crate) fn end(self) {
        std::mem::forget(catch(move || drop(self.0)));
    }

    /// Lets it go on.
    pub(crate) fn resume(self) -> ! {
        resume_unwind(self.0)
    }
}

/// What a panic said.
pub(crate) fn message(panic: &(dyn Any + Send)) -> String {
    panic
        .downcast_ref::<&str>()
        .map(|&text| text.to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "it gave no message".to_owned())
}
