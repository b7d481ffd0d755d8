//! What a message says of itself. Ranks that call different things do not notice: they wait.

/// Which call a message is of.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) kind: i32,
    pub(crate) datatype: i32,
    /// For those that reduce.
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

    /// What comes after the header of a message, if it is this header.
    pub(crate) fn strip(self, mut message: Vec<u8>) -> Option<Vec<u8>> {
        if !message.starts_with(&self.to_bytes()) {
            return None;
        }
        message.drain(..BYTES);
        Some(message)
    }
}
