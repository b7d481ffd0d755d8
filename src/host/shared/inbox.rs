//! The log's reading side. A peer's memory may hold anything, and change at any time.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::fence;

use super::header::{Header, LEFT, PENDING, RING};
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
    #[error("it took this process for dead")]
    Forgotten,
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

    /// Begins to read, if the peer still waits for that.
    pub(super) fn begin(&self, header: &Header) -> Result<(), Broken> {
        let cursor = &header.cursors[self.place.slot].0;
        let begun = cursor.compare_exchange(PENDING, self.place.cursor, Release, Relaxed);
        begun.map(drop).map_err(|_| Broken::Forgotten)
    }

    /// Reads no more. The peer need not wait for us. An error if it does not wait any longer.
    pub(super) fn end(&mut self, header: &Header) -> Result<(), Broken> {
        self.ended = true;
        self.moves_to(header, LEFT)
    }

    /// Whether the peer waits for this reader no longer.
    pub(super) fn is_forgotten(&self, header: &Header) -> bool {
        header.cursors[self.place.slot].0.load(Relaxed) != self.place.cursor
    }

    /// Whether nothing more will be read: it has ended, or the peer does not wait for it.
    pub(super) fn is_over(&self, header: &Header) -> bool {
        self.ended || self.is_forgotten(header)
    }

    /// Where the log ends now, if there is anything to read. A reader that was forgotten finds out
    /// here too: the peer may say nothing more.
    pub(super) fn news(&self, header: &Header) -> Result<Option<u64>, Broken> {
        if self.ended {
            return Ok(None);
        }
        if self.is_forgotten(header) {
            return Err(Broken::Forgotten);
        }
        let end = header.head.0.load(Acquire);
        Ok((end != self.place.cursor).then_some(end))
    }

    /// Reads the next record before `end`. False if there is none.
    pub(super) fn next(
        &mut self,
        header: &Header,
        end: u64,
        record: &mut Vec<u8>,
    ) -> Result<bool, Broken> {
        let read = self.read(header, end, record);
        // Whoever is not waited for may find anything.
        read.map_err(|broken| if self.is_forgotten(header) { Broken::Forgotten } else { broken })
    }

    fn read(&mut self, header: &Header, end: u64, record: &mut Vec<u8>) -> Result<bool, Broken> {
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
            let number = header.word(start + 1).load(Relaxed);
            let ours = number >= self.place.number;
            if ours {
                self.copy(header, start + HEAD, length)?;
            }
            // What was copied is whole if the writer still waited for this reader afterwards.
            fence(Acquire);
            self.moves_to(header, start + size)?;
            if ours && !more {
                record.clear();
                std::mem::swap(record, &mut self.partial);
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Moves the cursor, unless the slot is no longer this reader's.
    fn moves_to(&mut self, header: &Header, to: u64) -> Result<(), Broken> {
        let cursor = &header.cursors[self.place.slot].0;
        let moved = cursor.compare_exchange(self.place.cursor, to, Release, Relaxed);
        self.place.cursor = moved.map(|_| to).map_err(|_| Broken::Forgotten)?;
        Ok(())
    }

    fn copy(&mut self, header: &Header, start: u64, length: usize) -> Result<(), Broken> {
        let (before, padded) = (self.partial.len(), length.next_multiple_of(8));
        self.partial.try_reserve(padded).map_err(|_| Broken::Large)?;
        self.partial.resize(before + padded, 0);
        let (bytes, _) = self.partial[before..].as_chunks_mut::<8>();
        let words = header.words(start, bytes.len());
        for (bytes, word) in bytes.iter_mut().zip(words.into_iter().flatten()) {
            *bytes = word.load(Relaxed).to_ne_bytes();
        }
        self.partial.truncate(before + length);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering::Relaxed;
    use std::time::{Duration, Instant};

    use super::super::arena::Arena;
    use super::super::header::{Header, LEFT, PENDING, READERS, RING};
    use super::super::log::{Log, Place};
    use super::super::map;
    use super::super::process::Process;
    use super::{Broken, Inbox};

    fn arena() -> Arena {
        map::sized(64 << 20).and_then(Arena::new).expect("there is memory")
    }

    fn admit(log: &mut Log, header: &Header, id: u64) -> Place {
        log.admit(header, id, Process::new(0)).expect("there is a place")
    }

    /// A reader that has begun.
    fn open(header: &Header, place: Place) -> Inbox {
        let inbox = Inbox::new(place);
        inbox.begin(header).expect("it is waited for");
        inbox
    }

    /// All that there is to read.
    fn read(inbox: &mut Inbox, header: &Header) -> Result<Vec<Vec<u8>>, Broken> {
        let (mut all, mut record) = (Vec::new(), Vec::new());
        let end = inbox.news(header)?.unwrap_or(inbox.place.cursor);
        while inbox.next(header, end, &mut record)? {
            all.push(record.clone());
        }
        Ok(all)
    }

    #[test]
    fn a_reader_gets_what_is_sent_from_then_on() {
        let arena = arena();
        let (header, mut log) = (arena.header(), Log::new());
        let first = open(header, admit(&mut log, header, 1));
        let large = vec![7; 3 << 20];
        log.append(header, &large);
        assert!(log.waits());
        log.append(header, b"before");
        let mut second = open(header, admit(&mut log, header, 2));
        log.append(header, b"after");
        log.append(header, b"");
        let (mut first, mut of_first, mut of_second) = (first, Vec::new(), Vec::new());
        for _ in 0..10 {
            of_first.extend(read(&mut first, header).expect("it is whole"));
            of_second.extend(read(&mut second, header).expect("it is whole"));
            log.flush(header);
        }
        assert!(of_first == [&large, &b"before"[..], b"after", b""]);
        assert_eq!(of_second, [&b"after"[..], b""]);
    }

    #[test]
    fn a_reader_that_has_left_or_was_forgotten_or_counts_wrong_is_not_waited_for() {
        let arena = arena();
        let (header, mut log) = (arena.header(), Log::new());
        let mut slow = open(header, admit(&mut log, header, 1));
        let mut sent = 0;
        let full = |log: &mut Log, sent: &mut usize| {
            while !log.waits() {
                log.append(header, &[1; 1000]);
                *sent += 1;
            }
        };
        let mut left = open(header, admit(&mut log, header, 2));
        full(&mut log, &mut sent);
        left.end(header).expect("it is waited for");
        assert_eq!(header.cursors[1].0.load(Relaxed), LEFT);
        admit(&mut log, header, 3);
        let wrong = admit(&mut log, header, 4);
        header.cursors[wrong.slot].0.store(1 << 62, Relaxed);
        log.forget(header, 3);
        let mut got = 0;
        while log.waits() {
            got += read(&mut slow, header).expect("it is whole").len();
            log.flush(header);
        }
        got += read(&mut slow, header).expect("it is whole").len();
        assert_eq!(got, sent);
    }

    #[test]
    fn a_reader_that_was_forgotten_gets_no_torn_record() {
        for lapped in [false, true] {
            let arena = arena();
            let (header, mut log) = (arena.header(), Log::new());
            let place = admit(&mut log, header, 1);
            log.append(header, &[1; 1000]);
            let (mut inbox, mut record) = (open(header, place), Vec::new());
            let end = inbox.news(header).ok().flatten().expect("there is a record");
            log.forget(header, 1);
            admit(&mut log, header, 2);
            if lapped {
                // The writer is a record ahead of where the reader believes it to be.
                let wait = RING / 125;
                (0..wait).for_each(|_| log.append(header, &[2; 1000]));
                assert!(log.waits());
                log.forget(header, 2);
                assert!(log.flush(header));
            }
            let read = inbox.next(header, end, &mut record);
            assert_eq!((read, record.len()), (Err(Broken::Forgotten), 0), "lapped: {lapped}");
            assert!(inbox.is_forgotten(header));
            assert_eq!(inbox.end(header), Err(Broken::Forgotten));
            assert_eq!(header.cursors[place.slot].0.load(Relaxed), LEFT);
        }
    }

    #[test]
    fn a_visitor_that_gives_up_holds_up_nobody_for_long() {
        let arena = arena();
        let (header, mut log) = (arena.header(), Log::new());
        let gives_up = Inbox::new(admit(&mut log, header, 1));
        let mut reads = open(header, admit(&mut log, header, 2));
        let (mut sent, mut got) = (0, 0);
        while !log.waits() {
            log.append(header, &[1; 1000]);
            sent += 1;
            got += read(&mut reads, header).expect("it is whole").len();
        }
        assert_eq!(got, sent - 1);
        let deadline = Instant::now() + Duration::from_secs(20);
        while log.waits() {
            assert!(Instant::now() < deadline, "the visitor is waited for");
            std::thread::sleep(Duration::from_millis(5));
            log.flush(header);
        }
        assert_eq!(read(&mut reads, header).map(|last| last.len()), Ok(1));
        assert_eq!(gives_up.begin(header), Err(Broken::Forgotten));
    }

    #[test]
    fn a_reader_that_was_forgotten_learns_it_without_news_and_one_that_ended_is_over() {
        let arena = arena();
        let (header, mut log) = (arena.header(), Log::new());
        let forgotten = open(header, admit(&mut log, header, 1));
        let mut ended = open(header, admit(&mut log, header, 2));
        assert_eq!([&forgotten, &ended].map(|inbox| inbox.news(header)), [Ok(None), Ok(None)]);
        log.forget(header, 1);
        assert_eq!(forgotten.news(header), Err(Broken::Forgotten));
        ended.end(header).expect("it is waited for");
        assert!(ended.is_over(header) && !ended.is_forgotten(header));
        assert_eq!(ended.news(header), Ok(None));
    }

    #[test]
    fn a_place_that_is_taken_back_is_nobodys() {
        let arena = arena();
        let (header, mut log) = (arena.header(), Log::new());
        let place = admit(&mut log, header, 1);
        log.leave(header, place);
        assert_eq!(Inbox::new(place).begin(header), Err(Broken::Forgotten));
    }

    #[test]
    fn readers_that_leave_no_room_are_named() {
        let arena = arena();
        let (header, mut log) = (arena.header(), Log::new());
        let [mut slow, mut reads] = [1, 2].map(|id| open(header, admit(&mut log, header, id)));
        let (none, long) = (Duration::ZERO, Duration::from_secs(60));
        log.append(header, &[1; 1000]);
        assert!(log.stalled(header, none).is_empty(), "there is room");
        while !log.waits() {
            log.append(header, &[1; 1000]);
            read(&mut reads, header).expect("it is whole");
        }
        assert_eq!(log.stalled(header, none), [1]);
        assert!(log.stalled(header, long).is_empty());
        let short = Duration::from_millis(200);
        std::thread::sleep(short);
        assert_eq!(log.stalled(header, short), [1]);
        let (end, mut record) = (slow.news(header).ok().flatten(), Vec::new());
        assert_eq!(slow.next(header, end.expect("there is a lot"), &mut record), Ok(true));
        assert!(log.stalled(header, short).is_empty(), "it reads");
        read(&mut slow, header).expect("it is whole");
        assert!(log.flush(header));
        assert!(log.stalled(header, none).is_empty());
    }

    #[test]
    fn places_run_out_and_come_back() {
        let arena = arena();
        let (header, mut log) = (arena.header(), Log::new());
        for id in 0..READERS as u64 {
            admit(&mut log, header, id);
        }
        assert!(log.admit(header, 1, Process::new(0)).is_none());
        log.forget(header, 77);
        assert_eq!(admit(&mut log, header, 1).slot, 77);
    }

    #[test]
    fn any_bytes_are_records_or_an_error() {
        let arena = arena();
        let (header, mut state) = (arena.header(), 1_u64);
        let mut random = move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 20) as u32
        };
        let mut broken = 0;
        for round in 0..2000_u64 {
            let cursor = [0, RING - 3, u64::MAX / 2 - 1][round as usize % 3];
            for word in 0..64 {
                // Half of the words look like heads.
                let head = u64::from(random() % 300) | u64::from(random() % 2) << 32;
                let any = u64::from(random()) << 32 | u64::from(random());
                let value = if random() % 2 == 0 { head } else { any };
                header.word(cursor + word).store(value, Relaxed);
            }
            let end = cursor.wrapping_add(u64::from(random() % 64));
            let end = if random() % 50 == 0 { u64::from(random()) << 32 } else { end };
            header.head.0.store(end, Relaxed);
            let place = Place { slot: READERS - 1, cursor, number: 0 };
            header.cursors[place.slot].0.store(PENDING, Relaxed);
            broken += usize::from(read(&mut open(header, place), header).is_err());
        }
        assert!((1..2000).contains(&broken), "{broken}");
    }

    #[test]
    fn what_is_wrong_with_a_log_is_told() {
        let arena = arena();
        let header = arena.header();
        let read = |head, end| {
            header.word(0).store(head, Relaxed);
            header.head.0.store(end, Relaxed);
            let place = Place { slot: 0, cursor: 0, number: 0 };
            header.cursors[place.slot].0.store(PENDING, Relaxed);
            read(&mut open(header, place), header)
        };
        assert_eq!(read(0, RING + 1), Err(Broken::End(RING + 1)));
        assert_eq!(read(0, 1), Err(Broken::Record(0, 1)));
        assert_eq!(read(8, 2), Err(Broken::Record(8, 2)));
        assert_eq!(read(1 << 33, 2), Err(Broken::Record(1 << 33, 2)));
        assert_eq!(read(0, 2), Ok(vec![vec![]]));
    }
}
