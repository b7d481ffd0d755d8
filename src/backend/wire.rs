//! What a backend says to its peers in other processes.

use std::sync::Weak;

use serde::Serialize;

use crate::Rank;
use crate::error::Error;

/// Carries a backend's messages between ranks that do not share memory.
pub trait Wire: Send + Sync {
    /// To one rank, or to every other one. Does not wait. The messages of one rank arrive in their
    /// order, each at least once, unless a rank dies. A message to this rank itself is not delivered.
    fn tell(&self, to: Option<Rank>, message: Vec<u8>);

    /// Who is told of messages and of deaths. What came before is kept, and delivered first; a rank
    /// that sends more than a bounded number of messages before that is taken for broken.
    fn listen(&self, listener: Weak<dyn Listener>);
}

impl dyn Wire {
    /// [`tell`](Self::tell) with a value. One that does not encode is not sent.
    pub(crate) fn send(&self, to: Option<Rank>, message: &impl Serialize) {
        match postcard::to_stdvec(message) {
            Ok(bytes) => self.tell(to, bytes),
            Err(error) => log::error!("a message to other ranks does not encode: {error}"),
        }
    }
}

/// Hears what comes over a [`Wire`], on the thread that carries the messages of the whole process: it
/// must not block.
pub trait Listener: Send + Sync {
    /// All that came before has been told.
    fn caught_up(&self) {}

    /// A message. It is whatever the peer sent.
    fn message(&self, from: Rank, message: &[u8]);

    /// A rank will say nothing more: its process, its connection or its communicator has ended.
    fn died(&self, rank: Rank, why: &str);

    /// The others took this rank for dead, and go on without it.
    fn left_out(&self, why: &str) {
        let _ = why;
    }

    /// The ranks that have met cannot be one communicator.
    fn failed(&self, error: &Error) {
        let _ = error;
    }

    /// A rank's communicator is poisoned: nothing more comes of it, and the rank lives.
    fn stopped(&self, rank: Rank, why: &str) {
        self.died(rank, why);
    }
}
