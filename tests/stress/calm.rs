//! Host waits among closures that panic on purpose.

use std::collections::HashSet;
use std::sync::{LazyLock, Mutex, PoisonError};

use typed_nccl::error::WindowsDiffer;
use typed_nccl::{Error, Result};

/// The prefix of a planned panic's message, followed by its number.
pub(crate) const PLANNED: &str = "planned panic ";

static TOLD: LazyLock<Mutex<HashSet<u64>>> = LazyLock::new(Mutex::default);

/// Repeats the wait until it reports no more planned panics. Each is reported once.
pub(crate) fn calm<T>(mut wait: impl FnMut() -> Result<T>) -> Result<T> {
    loop {
        let outcome = wait();
        let panicked = match &outcome {
            Err(Error::Panicked(panicked)) => panicked,
            Err(Error::WindowsDiffer(differ)) if is_told_elsewhere(differ) => continue,
            _ => return outcome,
        };
        let number = panicked.message.strip_prefix(PLANNED).and_then(|text| text.parse().ok());
        let Some(number) = number else { return outcome };
        let is_new = TOLD.lock().unwrap_or_else(PoisonError::into_inner).insert(number);
        assert!(is_new, "told twice: {}", panicked.message);
    }
}

/// Whether ranks could not close their windows because they had to report a planned panic.
fn is_told_elsewhere(differ: &WindowsDiffer) -> bool {
    let refused = |part: &&String| part.starts_with("none (");
    let mut why = differ.parts.iter().filter(refused).peekable();
    differ.closing && why.peek().is_some() && why.all(|why| why.contains(PLANNED))
}
