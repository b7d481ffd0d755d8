//! How long host waits may take: the communicator's deadline, or one for some of its calls.

use std::sync::Arc;
use std::time::Duration;

use crate::error::Deadline;
use crate::lock::Mutex;

/// The limit of a host wait, and where it comes from.
#[derive(Clone, Copy, Debug)]
pub struct Limit {
    /// The time.
    pub time: Duration,
    /// Whose deadline it is.
    pub of: Deadline,
}

/// The limit of a communicator's waits, which its replacements share.
pub struct Limits {
    deadline: Duration,
    within: Mutex<Option<Limit>>,
}

impl Limits {
    pub(crate) fn new(deadline: Duration) -> Arc<Self> {
        Arc::new(Self { deadline, within: Mutex::default() })
    }

    /// The limit of a wait now.
    pub(crate) fn now(&self) -> Limit {
        self.or(self.deadline)
    }

    /// The limit of a wait now, with another default than the communicator's deadline.
    pub(crate) fn or(&self, deadline: Duration) -> Limit {
        self.within.lock().unwrap_or(Limit { time: deadline, of: Deadline::Configured })
    }

    /// Sets the limit of waits from here on; gives the one before.
    pub(crate) fn replace(&self, limit: Option<Limit>) -> Option<Limit> {
        std::mem::replace(&mut *self.within.lock(), limit)
    }
}
