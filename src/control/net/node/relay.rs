//! Messages of backends that a neighbour may lack.
//!
//! A neighbour that leaves or dies may not have passed on what it was sent, so each node keeps what
//! it has sent and passed on lately, and sends it to every new neighbour. Numbers tell which of it
//! is new there. What is for all takes every link, so each neighbour brings all of a sender's from some
//! number on, in order, and the last number known is enough. What is for one rank takes every link
//! only once a rank has left, so some of it is lost if two on its way die one after the other.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use super::super::message::Tell;

/// The most bytes that are kept.
const MOST_BYTES: usize = 1 << 26;

/// The overhead of a kept message.
const EACH: usize = 64;

/// A sender, and its receiver, or `None` if that is every other rank.
type Route = (u32, Option<u32>);

#[derive(Default)]
pub(super) struct Relay {
    /// The number of each route's last message.
    last: HashMap<Route, u64>,
    kept: VecDeque<(Instant, Tell<'static>)>,
    bytes: usize,
}

impl Relay {
    /// The number of a rank's next message.
    pub(super) fn next(&self, from: u32, to: Option<u32>) -> u64 {
        self.last.get(&(from, to)).unwrap_or(&0) + 1
    }

    /// Whether a message is new.
    pub(super) fn is_new(&mut self, tell: &Tell<'_>) -> bool {
        let last = self.last.entry((tell.from, tell.to)).or_default();
        let is_new = tell.number > *last;
        *last = tell.number.max(*last);
        is_new
    }

    /// Keeps a message.
    pub(super) fn keep(&mut self, tell: &Tell<'_>, now: Instant) {
        self.bytes += tell.bytes.len() + EACH;
        self.kept.push_back((now, tell.clone().into_owned()));
        while self.bytes > MOST_BYTES {
            self.drop_first();
        }
    }

    /// Whether there are messages that were kept for so long.
    pub(super) fn has_older(&self, age: Duration, now: Instant) -> bool {
        self.kept.front().is_some_and(|(since, _)| now - *since > age)
    }

    /// Keeps messages no longer than this.
    pub(super) fn drop_older(&mut self, age: Duration, now: Instant) {
        while self.has_older(age, now) {
            self.drop_first();
        }
    }

    /// What a new neighbour may lack, in order.
    pub(super) fn kept(&self) -> impl Iterator<Item = &Tell<'static>> {
        self.kept.iter().map(|(_, tell)| tell)
    }

    fn drop_first(&mut self) {
        if let Some((_, tell)) = self.kept.pop_front() {
            self.bytes -= tell.bytes.len() + EACH;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;
    use std::time::{Duration, Instant};

    use super::{EACH, MOST_BYTES, Relay};
    use crate::control::net::message::Tell;

    fn tell(from: u32, to: Option<u32>, number: u64, bytes: &[u8]) -> Tell<'_> {
        Tell { from, to, channel: 0, number, bytes: Cow::Borrowed(bytes) }
    }

    #[test]
    fn what_came_before_is_not_new() {
        let mut relay = Relay::default();
        let came = [1, 1, 2, 4, 3, 4].map(|number| relay.is_new(&tell(3, None, number, b"")));
        assert_eq!(came, [true, false, true, true, false, false]);
        assert_eq!(relay.next(3, None), 5);
        assert_eq!(relay.next(3, Some(1)), 1, "routes are counted by themselves");
    }

    #[test]
    fn messages_are_kept_for_a_time_and_up_to_a_size() {
        let (mut relay, start) = (Relay::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        (1..=4).for_each(|number| relay.keep(&tell(0, None, number, b"x"), at(number)));
        relay.drop_older(Duration::from_secs(2), at(5));
        assert_eq!(relay.kept().map(|tell| tell.number).collect::<Vec<_>>(), [3, 4]);
        let large = vec![0; MOST_BYTES - 3 * EACH];
        relay.keep(&tell(0, None, 5, &large), at(5));
        assert_eq!(relay.kept().map(|tell| tell.number).collect::<Vec<_>>(), [4, 5]);
    }
}
