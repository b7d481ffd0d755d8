//! The log's reading side. A peer's memory may hold anything, and change at any time.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use super::header::{Header, LEFT, RING};
use super::log::{CHUNK, HEAD, MORE, Place};

/// Why a peer's log cannot be read.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Broken {
    #[error("it ends {0} words after where it is read, and its ring has {RING}")]
    End(u64),
    #[error("a record's head is {0:#x} with {1} words to read")]
    Record(u64, u64),
    #[error("a record is too large for this process's memory")]
    Large,
}

pub(super) struct Inbox {
    place: Place,
    /// The start of a record whose other chunks have not come.
    partial: Vec<u8>,
    ended: bool,
}

impl Inbox {
    pub(super) fn new(place: Place) -> Self {
        Self { place, partial: Vec::new(), ended: false }
    }

    /// Reads no more. The peer need not wait for us.
    pub(super) fn end(&mut self, header: &Header) {
        self.ended = true;
        header.cursors[self.place.slot].0.store(LEFT, Release);
    }

    /// Where the log ends now, if there is anything to read.
    pub(super) fn news(&self, header: &Header) -> Option<u64> {
        let end = header.head.0.load(Acquire);
        (!self.ended && end != self.place.cursor).then_some(end)
    }

    /// Reads the next record for `own` before `end`. False if there is none.
    pub(super) fn next(
        &mut self,
        header: &Header,
        own: u64,
        end: u64,
        record: &mut Vec<u8>,
    ) -> Result<bool, Broken> {
        while !self.ended && end != self.place.cursor {
            let start = self.place.cursor;
            let words = end.wrapping_sub(start);
            if words > RING {
                return Err(Broken::End(words));
            }
            let head = header.word(start).load(Relaxed);
            let (length, more) = ((head & !MORE) as usize, head & MORE != 0);
            let size = HEAD + length.div_ceil(8) as u64;
            if length > CHUNK || size > words {
                return Err(Broken::Record(head, words));
            }
            let target = header.word(start + 1).load(Relaxed);
            let number = header.word(start + 2).load(Relaxed);
            let ours = (target == 0 || target == own) && number >= self.place.number;
            if ours {
                self.copy(header, start + HEAD, length)?;
            }
            self.place.cursor = start + size;
            header.cursors[self.place.slot].0.store(self.place.cursor, Release);
            if ours && !more {
                record.clear();
                std::mem::swap(record, &mut self.partial);
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn copy(&mut self, header: &Header, start: u64, length: usize) -> Result<(), Broken> {
        let (before, padded) = (self.partial.len(), length.next_multiple_of(8));
        self.partial.try_reserve(padded).map_err(|_| Broken::Large)?;
        self.partial.resize(before + padded, 0);
        for (position, bytes) in (start..).zip(self.partial[before..].chunks_exact_mut(8)) {
            bytes.copy_from_slice(&header.word(position).load(Relaxed).to_ne_bytes());
        }
        self.partial.truncate(before + length);
        Ok(())
    }
}
