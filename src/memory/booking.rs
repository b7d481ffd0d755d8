//! Booking: how an operation enters a stream, and its uses of memory the headers.
//!
//! 1. All operands are checked. A refusal has touched no header and no stream.
//! 2. [`Booking::new`] makes the stream wait for the earlier uses of all operands. From here on the
//!    headers of memory to be written name this stream, as far as its waits: that holds whether or
//!    not an operation follows. If two threads use memory, the operation has a turn at it until 4
//!    (`turn`).
//! 3. The operation is enqueued.
//! 4. Dropping the [`Booking`] numbers the operation and writes the number into all headers. It
//!    also does so when enqueueing fails or panics, since part of the operation may be in the
//!    stream by then. A number with nothing behind it is harmless: waiting for it waits for what
//!    came before.
//!
//! The guarantee: **a number that a header shows is already in its stream.** A stream that waited
//! for it never has to again, and a mark with this number or a later one was made after it. Only
//! the stream's owner counts, and no other thread reads its counter.
//!
//! A captured operation runs when its graph is launched: the launch is recorded, with all of the
//! graph's memory. Memory that the graph does not keep is refused.
//!
//! `On::run` and kernel launches take a short cut when the stream is alone in every header and
//! there is nothing to wait for.

use super::order::Order;
use super::turn::{Patience, Turn};
use crate::Result;
use crate::backend::Streams;
use crate::error::Error;
use crate::stream::StreamCore;

/// The memory that an operation uses.
pub(crate) trait Uses<B: Streams> {
    /// Calls `each` with every header, and whether its memory is written.
    fn each(&self, each: impl FnMut(&Order<B>, bool) -> Result<()>) -> Result<()>;
}

/// One header, and whether its memory is written.
impl<B: Streams> Uses<B> for (&Order<B>, bool) {
    fn each(&self, mut each: impl FnMut(&Order<B>, bool) -> Result<()>) -> Result<()> {
        each(self.0, self.1)
    }
}

/// An operation about to be enqueued: it comes after all earlier uses of its memory, and is
/// recorded when this is dropped.
#[must_use = "dropping it books the operation, which is enqueued by then"]
pub(crate) struct Booking<'s, B: Streams, U: Uses<B>> {
    stream: &'s StreamCore<B>,
    uses: U,
    turn: Turn,
}

impl<'s, B: Streams, U: Uses<B>> Booking<'s, B, U> {
    /// Makes `stream` wait for the earlier uses of all the memory.
    #[inline]
    pub(crate) fn new(stream: &'s StreamCore<B>, uses: U) -> Result<Self> {
        Self::in_turn(stream, uses, Turn::default())
    }

    /// [`new`](Self::new) for a launch of a graph, which does not borrow the memory.
    pub(crate) fn of_graph(stream: &'s StreamCore<B>, uses: U) -> Result<Self> {
        Self::in_turn(stream, uses, Turn::of_graph())
    }

    #[inline]
    fn in_turn(stream: &'s StreamCore<B>, uses: U, mut turn: Turn) -> Result<Self> {
        match stream.is_captured() {
            true => uses.each(|order, _| stream.captures(order))?,
            false => {
                if let Err(error) = uses.each(|order, write| order.wait(stream, write, &mut turn)) {
                    wait_again(stream, &uses, &mut turn, error)?;
                }
            }
        }
        Ok(Self { stream, uses, turn })
    }

    /// [`new`](Self::new) when `stream` is alone in every header and there is nothing to wait for.
    pub(crate) fn of_known(stream: &'s StreamCore<B>, uses: U) -> Self {
        Self { stream, uses, turn: Turn::default() }
    }
}

/// Gives turns back and waits until all can be had, if that is why it failed.
#[cold]
#[inline(never)]
fn wait_again<B: Streams, U: Uses<B>>(
    stream: &StreamCore<B>,
    uses: &U,
    turn: &mut Turn,
    mut error: Error,
) -> Result<()> {
    let mut patience = Patience::new();
    loop {
        // Giving back never fails.
        let _ = uses.each(|order, _| {
            order.end_turn(turn);
            Ok(())
        });
        if !turn.must_wait() {
            return Err(error);
        }
        patience.rest(&stream.shared().users())?;
        match uses.each(|order, write| order.wait(stream, write, turn)) {
            Ok(()) => return Ok(()),
            Err(again) => error = again,
        }
    }
}

impl<B: Streams, U: Uses<B>> Drop for Booking<'_, B, U> {
    fn drop(&mut self) {
        let number = self.stream.number();
        if self.stream.is_captured() {
            return;
        }
        // Recording never fails.
        let _ = self.uses.each(|order, write| {
            order.book(self.stream, number, write, &self.turn);
            Ok(())
        });
    }
}
