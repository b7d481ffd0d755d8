//! Streams and points in them.

use std::time::Duration;

use super::Memory;
use crate::Result;
use crate::error::{Error, Unsupported};

/// Streams and points in them.
///
/// # Safety
/// `reached` is true only when everything enqueued on the stream before `point` was called is over
/// and its writes are visible to the calling thread; what is enqueued after `wait_for` runs after
/// the point.
pub unsafe trait Streams: Memory {
    /// Whether points can be reached because a communicator ended, without its work: kernels that were
    /// told to stop.
    const ENDS_REACH_POINTS: bool = false;

    /// A queue of work.
    type Stream: Clone + Send + Sync + 'static;

    /// A place in a stream's order.
    type Point: Clone + Send + Sync + 'static;

    /// Opens a stream.
    ///
    /// # Errors
    /// The device cannot.
    fn open(ordinal: u32) -> Result<Self::Stream>;

    /// The stream of another library that has this handle.
    ///
    /// # Errors
    /// It has no such streams.
    ///
    /// # Safety
    /// It is a stream of the device of that ordinal, and stays for as long as it is used.
    unsafe fn theirs(ordinal: u32, handle: usize) -> Result<Self::Stream> {
        let _ = (ordinal, handle);
        Err(Error::from(Unsupported {
            what: "a stream of somebody else's".to_owned(),
            needs: "a GPU".to_owned(),
            found: format!("`{}` has none", Self::KIND),
        }))
    }

    /// Whether it is captured, or may be: what is enqueued on it does not run then.
    ///
    /// # Errors
    /// The device reports one.
    fn captures(stream: &Self::Stream) -> Result<bool> {
        let _ = stream;
        Ok(false)
    }

    /// The point after everything enqueued so far.
    ///
    /// # Errors
    /// The device reports one.
    fn point(stream: &Self::Stream) -> Result<Self::Point>;

    /// Makes what is enqueued later on `stream` wait for `point`; the host does not wait.
    ///
    /// # Errors
    /// The device reports one.
    fn wait_for(stream: &Self::Stream, point: &Self::Point) -> Result<()>;

    /// Whether the point is reached; never blocks.
    ///
    /// # Errors
    /// The device reports one.
    fn reached(point: &Self::Point) -> Result<bool>;

    /// Lets the calling thread rest, or help, until the point may be reached, `at_most` this long.
    fn pause(point: &Self::Point, at_most: Duration);

    /// What keeps the point from being reached, as far as it is known. Asked when a deadline passed.
    fn blame(point: &Self::Point) -> Option<Blame>;

    /// Takes the error that work without a communicator left on the stream of this point.
    fn take_error(point: &Self::Point) -> Option<Error>;

    /// Whether everything that was enqueued is over. Asked where ends reach points, before one.
    fn is_drained(stream: &Self::Stream) -> bool {
        Self::point(stream).and_then(|point| Self::reached(&point)).unwrap_or(true)
    }

    /// Why operations before the point, which is reached, did not happen: their communicator ended.
    /// Unlike an error that is taken it stays, for each thread that wants the data.
    fn undone(point: &Self::Point) -> Option<Error> {
        let _ = point;
        None
    }
}

/// What holds up a stream.
#[derive(Clone, Debug)]
pub struct Blame {
    /// Whose fault it is.
    pub culprit: Culprit,
    /// Who waits for whom, as far as it is known.
    pub report: String,
}

/// Whose fault it is that a stream does not go on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Culprit {
    /// A communicator's, by [`Health::id`](crate::communicator::Health::id).
    Known(u64),
    /// One of those that used the stream.
    Unknown,
    /// No communicator's: work of the program's own.
    Program,
}
