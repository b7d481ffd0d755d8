//! Received messages of backends: delivered to a listener, or buffered until there is one.

use std::collections::{HashMap, VecDeque};
use std::sync::Weak;

use super::message::Left;
use crate::Rank;
use crate::backend::Listener;
use crate::error::Error;

/// The most bytes in the buffers.
const MOST_BYTES: usize = 1 << 26;

/// The most channels without a listener.
const MOST_CHANNELS: usize = 1 << 10;

/// The overhead of a buffered message.
const EACH: usize = 64;

#[derive(Default)]
pub(super) struct Channels {
    all: HashMap<u64, Channel>,
    buffered: usize,
}

#[derive(Default)]
struct Channel {
    listener: Option<Weak<dyn Listener>>,
    buffered: VecDeque<(u32, Vec<u8>)>,
}

/// A call of a listener, to be made when no state of the control plane is borrowed.
pub(super) struct Call {
    listener: Weak<dyn Listener>,
    event: Event,
}

#[derive(Clone)]
pub(super) enum Event {
    Message(u32, Vec<u8>),
    Died(Left),
    Stopped(u32, String),
    LeftOut(String),
    Failed(Error),
    CaughtUp,
}

impl Call {
    pub(super) fn new(listener: &Weak<dyn Listener>, event: Event) -> Self {
        Self { listener: listener.clone(), event }
    }

    pub(super) fn make(self) {
        let Some(listener) = self.listener.upgrade() else { return };
        match self.event {
            Event::Message(from, bytes) => listener.message(Rank(from), &bytes),
            Event::Died(left) => {
                listener.died(Rank(left.rank), &left.why);
                if left.died {
                    listener.process_died(Rank(left.rank), &left.why);
                }
            }
            Event::Stopped(rank, why) => listener.stopped(Rank(rank), &why),
            Event::LeftOut(why) => listener.left_out(&why),
            Event::Failed(error) => listener.failed(&error),
            Event::CaughtUp => listener.caught_up(),
        }
    }
}

/// The peer exceeded a buffer limit.
pub(super) struct Overflow;

impl Channels {
    pub(super) fn handle_message(
        &mut self,
        channel: u64,
        from: u32,
        bytes: &[u8],
    ) -> Result<Option<Call>, Overflow> {
        if !self.all.contains_key(&channel) && self.all.len() >= MOST_CHANNELS {
            self.all.retain(|_, channel| channel.is_alive());
            if self.all.len() >= MOST_CHANNELS {
                return Err(Overflow);
            }
        }
        let to = self.all.entry(channel).or_default();
        if let Some(listener) = &to.listener {
            return Ok(Some(Call::new(listener, Event::Message(from, bytes.to_vec()))));
        }
        self.buffered += bytes.len() + EACH;
        if self.buffered > MOST_BYTES {
            return Err(Overflow);
        }
        to.buffered.push_back((from, bytes.to_vec()));
        Ok(None)
    }

    /// Adds a listener; the calls that deliver the buffered messages.
    pub(super) fn listen(&mut self, channel: u64, listener: &Weak<dyn Listener>) -> Vec<Call> {
        let to = self.all.entry(channel).or_default();
        to.listener = Some(listener.clone());
        let buffered = std::mem::take(&mut to.buffered);
        self.buffered -= buffered.iter().map(|(_, bytes)| bytes.len() + EACH).sum::<usize>();
        let message = |(from, bytes)| Call::new(listener, Event::Message(from, bytes));
        buffered.into_iter().map(message).collect()
    }

    /// The calls that report an event to every listener.
    pub(super) fn report(&self, event: &Event) -> impl Iterator<Item = Call> {
        let listeners = self.all.values().filter_map(|channel| channel.listener.as_ref());
        listeners.map(|listener| Call::new(listener, event.clone()))
    }
}

impl Channel {
    fn is_alive(&self) -> bool {
        !self.buffered.is_empty()
            || self.listener.as_ref().is_some_and(|listener| listener.strong_count() > 0)
    }
}
