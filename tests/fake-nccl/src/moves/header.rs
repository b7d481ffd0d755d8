//! The header of a message. Ranks with different calls do not notice; they wait.

use std::ops::Deref;

use super::room::Message;

/// The call that a message belongs to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) kind: i32,
    pub(crate) datatype: i32,
    /// For reductions.
    pub(crate) op: i32,
    pub(crate) root: i32,
    pub(crate) count: u64,
}

const BYTES: usize = 24;

impl Header {
    pub(crate) fn to_bytes(self) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        let numbers = [self.kind, self.datatype, self.op, self.root];
        for (place, number) in bytes.chunks_exact_mut(4).zip(numbers) {
            place.copy_from_slice(&number.to_ne_bytes());
        }
        bytes[16..].copy_from_slice(&self.count.to_ne_bytes());
        bytes
    }

    /// The body of a message, if it has this header.
    pub(super) fn strip(self, message: Message) -> Option<Body> {
        message.starts_with(&self.to_bytes()).then_some(Body(message))
    }
}

/// The data that a rank sent.
pub(super) struct Body(Message);

impl Deref for Body {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0[BYTES..]
    }
}
