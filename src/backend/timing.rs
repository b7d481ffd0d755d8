//! Timestamps of a device.

use std::time::Duration;

use super::Streams;
use crate::Result;

/// Timestamps of a device.
///
/// # Safety
/// The point from `timed` keeps the promises of one from [`Streams::point`].
pub unsafe trait Timing: Streams {
    /// The device's time at a point, available once the point is reached.
    type Time: Clone + Send + Sync + 'static;

    /// Returns the point after everything enqueued so far, and the time there.
    ///
    /// # Errors
    /// The device reports an error.
    fn timed(stream: &Self::Stream) -> Result<(Self::Point, Self::Time)>;

    /// The time from one point to another of the same device: zero if the second was reached first,
    /// `None` until both are reached. Never blocks.
    ///
    /// # Errors
    /// The device reports an error.
    fn between(start: &Self::Time, end: &Self::Time) -> Result<Option<Duration>>;
}
