//! When a device did something.

use std::time::Duration;

use super::Streams;
use crate::Result;

/// When a device did something.
///
/// # Safety
/// The point that `timed` gives keeps what [`Streams::point`] promises of its own.
pub unsafe trait Timing: Streams {
    /// The device's time at a point, once it is reached.
    type Time: Clone + Send + Sync + 'static;

    /// The point after everything enqueued so far, and the time there.
    ///
    /// # Errors
    /// The device reports one.
    fn timed(stream: &Self::Stream) -> Result<(Self::Point, Self::Time)>;

    /// How long it took from one point to another of the same device; zero where the second was reached
    /// first, and none until both are. Never blocks.
    ///
    /// # Errors
    /// The device reports one.
    fn between(start: &Self::Time, end: &Self::Time) -> Result<Option<Duration>>;
}
