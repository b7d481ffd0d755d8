//! The log's writing side.
//!
//! A record is one chunk or several, each a head of two words and its bytes. The position where
//! the log ends is stored with Release after the words, and readers load it with Acquire, so they
//! see whole chunks. A reader stores its cursor with Release after it has copied, and the writer
//! loads it with Acquire before it writes over those words. The words themselves are relaxed
//! atomics: a peer that breaks the rules changes values, and no more.
//!
//! A reader that is forgotten may be alive, and even in the middle of a copy. Its cursor says so
//! before its words are written over, and it looks at its cursor after it has copied.

use std::collections::VecDeque;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU64, fence};
use std::time::{Duration, Instant};

use super::header::{Header, LEFT, PENDING, READERS, RING};
use super::process::Process;

/// The most bytes of a chunk.
pub(super) const CHUNK: usize = 64 << 10;

/// Words before a chunk's bytes: length and flags, the record's number.
pub(super) const HEAD: u64 = 2;

/// How long a reader may take to begin. One that gave up meanwhile asks again, as another reader.
const BEGINS: Duration = Duration::from_secs(3);

/// The flag of a chunk that others of the same record follow.
pub(super) const MORE: u64 = 1 << 32;

pub(super) struct Log {
    /// Where it ends: what the header says is for readers, and not trusted here.
    head: u64,
    /// No reader is before this.
    floor: u64,
    /// The number of the last record.
    number: u64,
    readers: Vec<Option<Reader>>,
    /// Chunks that wait for room in the ring.
    overflow: VecDeque<Chunk>,
}

struct Reader {
    id: u64,
    /// Where it was when last looked at.
    cursor: u64,
    process: Process,
    /// When it was admitted, or last seen to read or to have read all.
    since: Instant,
}

struct Chunk {
    number: u64,
    more: bool,
    bytes: Vec<u8>,
}

/// A reader's place in a log.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub(super) slot: usize,
    /// Where it begins to read.
    pub(super) cursor: u64,
    /// The first record that is for it. What waited for room before that comes later, and is not.
    pub(super) number: u64,
}

impl Log {
    pub(super) const fn new() -> Self {
        let overflow = VecDeque::new();
        Self { head: 0, floor: 0, number: 0, readers: Vec::new(), overflow }
    }

    /// Appends a record.
    pub(super) fn append(&mut self, header: &Header, mut bytes: &[u8]) {
        self.flush(header);
        self.number += 1;
        let number = self.number;
        if self.readers.is_empty() {
            return;
        }
        loop {
            let (chunk, rest) = bytes.split_at(bytes.len().min(CHUNK));
            let more = !rest.is_empty();
            if !self.overflow.is_empty() || !self.put(header, number, more, chunk) {
                self.overflow.push_back(Chunk { number, more, bytes: chunk.to_vec() });
            }
            if !more {
                return;
            }
            bytes = rest;
        }
    }

    /// Moves what waits into the ring. Returns whether anything was moved.
    pub(super) fn flush(&mut self, header: &Header) -> bool {
        let mut moved = false;
        while let Some(chunk) = self.overflow.pop_front() {
            if !self.put(header, chunk.number, chunk.more, &chunk.bytes) {
                self.overflow.push_front(chunk);
                break;
            }
            moved = true;
        }
        moved
    }

    /// Gives a process a place. `None` if there are none left.
    pub(super) fn admit(&mut self, header: &Header, id: u64, process: Process) -> Option<Place> {
        // A slot is used again as late as possible: an earlier reader could still write to it.
        let slot = match self.readers.len() < READERS {
            true => self.readers.len(),
            false => {
                self.bury(header);
                self.readers.iter().position(Option::is_none)?
            }
        };
        let cursor = self.head;
        header.cursors[slot].0.store(PENDING, Relaxed);
        let reader = Some(Reader { id, cursor, process, since: Instant::now() });
        match self.readers.get_mut(slot) {
            Some(free) => *free = reader,
            None => self.readers.push(reader),
        }
        Some(Place { slot, cursor, number: self.number + 1 })
    }

    /// Waits for this process no longer.
    pub(super) fn forget(&mut self, header: &Header, id: u64) {
        self.retain(header, |reader| reader.id != id);
    }

    /// Waits no longer for processes that have ended.
    pub(super) fn bury(&mut self, header: &Header) {
        self.retain(header, |reader| !reader.process.has_ended());
    }

    /// The readers that have ended.
    pub(super) fn ended(&self) -> Vec<u64> {
        let readers = self.readers.iter().flatten();
        readers.filter(|reader| reader.process.has_ended()).map(|reader| reader.id).collect()
    }

    /// Takes a place back that nobody took.
    pub(super) fn leave(&mut self, header: &Header, place: Place) {
        if let Some(reader) = self.readers.get_mut(place.slot) {
            header.cursors[place.slot].0.store(LEFT, Relaxed);
            *reader = None;
        }
    }

    /// The readers that leave no room for what waits, and have read nothing for so long, as far as
    /// was seen. To be called now and then, also before something waits.
    pub(super) fn stalled(&mut self, header: &Header, long: Duration) -> Vec<u64> {
        self.look(header);
        let is_full = self.waits();
        let stalls = |reader: &&Reader| {
            is_full && reader.cursor == self.floor && reader.since.elapsed() >= long
        };
        self.readers.iter().flatten().filter(stalls).map(|reader| reader.id).collect()
    }

    /// Whether something waits for room.
    pub(super) fn waits(&self) -> bool {
        !self.overflow.is_empty()
    }

    fn retain(&mut self, header: &Header, keep: impl Fn(&Reader) -> bool) {
        for (reader, cursor) in self.readers.iter_mut().zip(&header.cursors) {
            if reader.as_ref().is_some_and(|reader| !keep(reader)) {
                cursor.0.store(LEFT, Relaxed);
                *reader = None;
            }
        }
    }

    /// Writes a chunk, if there is room.
    fn put(&mut self, header: &Header, number: u64, more: bool, bytes: &[u8]) -> bool {
        let end = self.head + HEAD + bytes.len().div_ceil(8) as u64;
        if end - self.floor > RING {
            self.look(header);
            if end - self.floor > RING {
                return false;
            }
        }
        // A reader that sees one of the words below also sees that it was forgotten before.
        fence(Release);
        let flags = if more { MORE } else { 0 };
        for (position, word) in (self.head..).zip([bytes.len() as u64 | flags, number]) {
            header.word(position).store(word, Relaxed);
        }
        let [first, second] = header.words(self.head + HEAD, bytes.len().div_ceil(8));
        let (before, after) = bytes.split_at(bytes.len().min(first.len() * 8));
        write(first, before);
        write(second, after);
        self.head = end;
        header.head.0.store(end, Release);
        true
    }

    /// Finds the slowest reader.
    fn look(&mut self, header: &Header) {
        self.floor = self.head;
        for (reader, cursor) in self.readers.iter_mut().zip(&header.cursors) {
            let Some(known) = reader else { continue };
            let mut at = cursor.0.load(Acquire);
            let is_pending = at == PENDING;
            if is_pending {
                at = match known.since.elapsed() < BEGINS {
                    true => known.cursor,
                    // Unless it begins just now.
                    false => cursor
                        .0
                        .compare_exchange(PENDING, LEFT, Acquire, Acquire)
                        .unwrap_or_else(|begun| begun),
                };
            }
            if (known.cursor..=self.head).contains(&at) {
                if !is_pending && (at != known.cursor || at == self.head) {
                    known.since = Instant::now();
                }
                known.cursor = at;
                self.floor = self.floor.min(at);
            } else {
                // It has left, or it counts wrong and must not hold up others.
                cursor.0.store(LEFT, Relaxed);
                *reader = None;
            }
        }
    }
}

/// Writes bytes into just as many words as they need.
fn write(words: &[AtomicU64], bytes: &[u8]) {
    let (whole, rest) = bytes.as_chunks::<8>();
    for (word, bytes) in words.iter().zip(whole) {
        word.store(u64::from_ne_bytes(*bytes), Relaxed);
    }
    if let (Some(word), false) = (words.last(), rest.is_empty()) {
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        word.store(u64::from_ne_bytes(last), Relaxed);
    }
}
