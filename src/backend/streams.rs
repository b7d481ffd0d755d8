//! Streams and points in them.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use super::Memory;
use crate::Result;
use crate::error::{Error, Unsupported};

/// Keeps another library's stream alive.
pub type Keeps = Arc<dyn Any + Send + Sync>;

/// Streams and points in them.
///
/// # Safety
/// `reached` is true only if everything enqueued on the stream before `point` was called has
/// completed and its writes are visible to the calling thread. Work enqueued after `wait_for` runs
/// after the point.
pub unsafe trait Streams: Memory {
    /// Whether the end of a communicator can let points be reached without its work, because
    /// kernels are told to stop.
    const ENDS_REACH_POINTS: bool = false;

    /// Whether all work that uses memory is numbered, because nobody else can enqueue any. Data of
    /// an operation that was over is then there, without another look.
    const NUMBERS_ALL: bool = false;

    /// A queue of work.
    type Stream: Clone + Send + Sync + 'static;

    /// A position in a stream.
    type Point: Clone + Send + Sync + 'static;

    /// Takes in what other processes have said so far, at each look of a host wait: what a rank did
    /// before a host-side exchange is known to all after it.
    fn hear() {}

    /// Opens a stream.
    ///
    /// # Errors
    /// The device reports an error.
    fn open(ordinal: u32) -> Result<Self::Stream>;

    /// Wraps another library's stream, given its handle and what keeps it alive, if anything has to.
    ///
    /// # Errors
    /// The backend does not support it.
    ///
    /// # Safety
    /// The handle is a stream of the device of that ordinal, and lives as long as it is used, or as
    /// `keeps`.
    unsafe fn theirs(ordinal: u32, handle: usize, keeps: Option<Keeps>) -> Result<Self::Stream> {
        let _ = (ordinal, handle, keeps);
        Err(Unsupported::error(
            "a stream of somebody else's",
            "a GPU",
            format!("`{}` has none", Self::KIND),
        ))
    }

    /// Whether the stream is capturing or may be, in which case enqueued work does not run.
    ///
    /// # Errors
    /// The device reports an error.
    fn captures(stream: &Self::Stream) -> Result<bool> {
        let _ = stream;
        Ok(false)
    }

    /// Returns the point after everything enqueued so far.
    ///
    /// # Errors
    /// The device reports an error.
    fn point(stream: &Self::Stream) -> Result<Self::Point>;

    /// Makes work enqueued later on `stream` wait for `point`; the host does not wait.
    ///
    /// # Errors
    /// The device reports an error.
    fn wait_for(stream: &Self::Stream, point: &Self::Point) -> Result<()>;

    /// Whether the point is reached; never blocks.
    ///
    /// # Errors
    /// The device reports an error.
    fn reached(point: &Self::Point) -> Result<bool>;

    /// Blocks or helps with work until the point may be reached, for `at_most` this long.
    fn pause(point: &Self::Point, at_most: Duration);

    /// Returns what prevents the point from being reached, if known. Called when a deadline has
    /// passed.
    fn blame(point: &Self::Point) -> Option<Blame>;

    /// Takes the error of work without a communicator on this point's stream.
    fn take_error(point: &Self::Point) -> Option<Error>;

    /// Whether all enqueued work has completed. Called before a communicator ends, if ends reach
    /// points.
    fn is_drained(stream: &Self::Stream) -> bool {
        Self::point(stream).and_then(|point| Self::reached(&point)).unwrap_or(true)
    }

    /// Why operations before a reached point did not happen: their communicator ended. Unlike
    /// `take_error` this leaves the error in place, for each thread that wants the data.
    fn undone(point: &Self::Point) -> Option<Error> {
        let _ = point;
        None
    }
}

/// What blocks a stream.
#[derive(Clone, Debug)]
pub struct Blame {
    /// What is at fault.
    pub culprit: Culprit,
    /// Which rank waits for which, as far as known.
    pub report: String,
}

/// What is at fault if a stream makes no progress.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Culprit {
    /// This communicator, by [`Health::id`](crate::communicator::Health::id).
    Known(u64),
    /// One of the communicators that used the stream.
    Unknown,
    /// No communicator, but the program's own work.
    Program,
}
