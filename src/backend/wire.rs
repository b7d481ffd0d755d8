//! Messages of a backend to its peers in other processes.

use std::sync::Weak;

use serde::Serialize;

use crate::Rank;
use crate::error::Error;

/// Carries a backend's messages between ranks that do not share memory.
pub trait Wire: Send + Sync {
    /// Sends to one rank, or to all others with `None`. Does not wait. Messages of one rank
    /// to all arrive in order and once, whichever other ranks leave or die meanwhile, and so do
    /// those to one receiver, unless two ranks on their way die one after the other. A message to
    /// this rank itself is not delivered.
    fn tell(&self, to: Option<Rank>, message: Vec<u8>);

    /// Sets the listener for messages and deaths. Earlier events are queued and delivered first. A
    /// rank that sends more than a bounded number of messages before then is treated as broken.
    fn listen(&self, listener: Weak<dyn Listener>);
}

impl dyn Wire {
    /// [`tell`](Self::tell) for a serializable value. A value that fails to encode is not sent.
    pub(crate) fn send(&self, to: Option<Rank>, message: &impl Serialize) {
        match postcard::to_stdvec(message) {
            Ok(bytes) => self.tell(to, bytes),
            Err(error) => log::error!("a message to other ranks does not encode: {error}"),
        }
    }
}

/// Receives events of a [`Wire`] on the thread that carries the messages of the whole process, so
/// it must not block.
pub trait Listener: Send + Sync {
    /// All earlier events have been delivered.
    fn caught_up(&self) {}

    /// A message arrived. Its contents are untrusted.
    fn message(&self, from: Rank, message: &[u8]);

    /// A rank will send nothing more: its process, its connection or its communicator has ended.
    fn died(&self, rank: Rank, why: &str);

    /// The process of a rank that [`died`](Self::died) has ended, or the ranks continue without it
    /// as if it had.
    fn process_died(&self, rank: Rank, why: &str) {
        let _ = (rank, why);
    }

    /// The other ranks took this one for dead, and continue without it.
    fn left_out(&self, why: &str) {
        let _ = why;
    }

    /// The ranks that have met cannot form a communicator.
    fn failed(&self, error: &Error) {
        let _ = error;
    }

    /// A rank's communicator is poisoned. It sends nothing more, but is alive.
    fn stopped(&self, rank: Rank, why: &str) {
        self.died(rank, why);
    }
}
