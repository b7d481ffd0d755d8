//! Received messages of backends: delivered to a listener, or buffered until there is one.

use std::collections::{HashMap, VecDeque};
use std::sync::Weak;

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

enum Event {
    Message(u32, Vec<u8>),
    Died(u32, String),
    Stopped(u32, String),
    LeftOut(String),
    Failed(Error),
    CaughtUp,
}

impl Call {
    pub(super) fn make(self) {
        let Some(listener) = self.listener.upgrade() else { return };
        match self.event {
            Event::Message(from, bytes) => listener.message(Rank(from), &bytes),
            Event::Died(rank, why) => listener.died(Rank(rank), &why),
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
            let event = Event::Message(from, bytes.to_vec());
            return Ok(Some(Call { listener: listener.clone(), event }));
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
        let message =
            |(from, bytes)| Call { listener: listener.clone(), event: Event::Message(from, bytes) };
        buffered.into_iter().map(message).collect()
    }

    /// The calls that report a rank that is gone.
    pub(super) fn died(&self, rank: u32, why: &str) -> impl Iterator<Item = Call> {
        self.listeners().map(move |listener| Self::death(listener, rank, why))
    }

    /// The calls that report a rank whose communicator is poisoned.
    pub(super) fn stopped(&self, rank: u32, why: &str) -> impl Iterator<Item = Call> {
        self.listeners().map(move |listener| Call {
            listener: listener.clone(),
            event: Event::Stopped(rank, why.to_owned()),
        })
    }

    /// The calls that report that the others took this rank for dead.
    pub(super) fn left_out(&self, why: &str) -> impl Iterator<Item = Call> {
        self.listeners().map(move |listener| Self::leave_out(listener, why))
    }

    /// The calls that report that the ranks cannot form a communicator.
    pub(super) fn failed(&self, error: &Error) -> impl Iterator<Item = Call> {
        self.listeners().map(|listener| Call {
            listener: listener.clone(),
            event: Event::Failed(error.clone()),
        })
    }

    fn listeners(&self) -> impl Iterator<Item = &Weak<dyn Listener>> {
        self.all.values().filter_map(|channel| channel.listener.as_ref())
    }

    pub(super) fn death(listener: &Weak<dyn Listener>, rank: u32, why: &str) -> Call {
        Call { listener: listener.clone(), event: Event::Died(rank, why.to_owned()) }
    }

    pub(super) fn leave_out(listener: &Weak<dyn Listener>, why: &str) -> Call {
        Call { listener: listener.clone(), event: Event::LeftOut(why.to_owned()) }
    }

    pub(super) fn caught_up(listener: &Weak<dyn Listener>) -> Call {
        Call { listener: listener.clone(), event: Event::CaughtUp }
    }
}

impl Channel {
    fn is_alive(&self) -> bool {
        !self.buffered.is_empty()
            || self.listener.as_ref().is_some_and(|listener| listener.strong_count() > 0)
    }
}
