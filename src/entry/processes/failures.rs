//! Which process failed first: not the one that ended first, but the one that no other one made fail.

use super::child::Status;
use super::word::{News, Word};

/// What is known of each process, by rank.
pub(super) struct Failures {
    known: Vec<Known>,
    /// How much has come.
    news: u64,
}

struct Known {
    word: Word,
    status: Option<Status>,
    /// It was asked to end before it did.
    was_asked: bool,
    /// When the first of it came.
    since: Option<u64>,
    /// It tells nothing any more.
    closed: bool,
}

impl Failures {
    pub(super) fn of(size: usize) -> Self {
        let known = || Known {
            word: Word::RUNS,
            status: None,
            was_asked: false,
            since: None,
            closed: false,
        };
        Self { known: (0..size).map(|_| known()).collect(), news: 0 }
    }

    fn news(&mut self, rank: usize) -> Option<(&mut Known, u64)> {
        self.news += 1;
        Some((self.known.get_mut(rank)?, self.news))
    }

    /// A process said something, or will say no more.
    pub(super) fn hear(&mut self, rank: usize, news: &News) {
        let Some((known, now)) = self.news(rank) else { return };
        match *news {
            News::Word(Word::RUNS) => (known.word, known.since) = (Word::RUNS, None),
            News::Word(word) => {
                known.word = word;
                known.since.get_or_insert(now);
            }
            News::Closed => {
                known.closed = true;
                known.since.get_or_insert(now);
            }
        }
    }

    /// A process has ended.
    pub(super) fn ended(&mut self, status: Status, was_asked: bool) {
        let Some((known, now)) = self.news(status.rank) else { return };
        (known.status, known.was_asked) = (Some(status), was_asked);
        known.since.get_or_insert(now);
    }

    /// Whether all that has ended has said all that it had to say.
    pub(super) fn is_heard(&self) -> bool {
        self.known.iter().all(|known| known.closed || known.status.is_none())
    }

    /// The rank that failed first.
    pub(super) fn first(&self) -> Option<usize> {
        let failed = self.known.iter().enumerate().filter(|(_, known)| known.has_failed());
        let first = failed.min_by_key(|(_, known)| {
            let is_asked = known.was_asked && known.word.code.is_none();
            (is_asked, known.word.origin, known.since)
        });
        first.map(|(rank, _)| rank)
    }

    /// How a rank ended, if it has.
    pub(super) fn status(&self, rank: usize) -> Option<&Status> {
        self.known.get(rank)?.status.as_ref()
    }

    /// The exit code of a rank that failed: the one that it said, where it was ended on its way out.
    pub(super) fn code(&self, rank: usize) -> i32 {
        let Some(Known { status, word, was_asked, .. }) = self.known.get(rank) else { return 1 };
        let said = word.code.map(i32::from);
        match status {
            Some(status) if *was_asked && status.signal.is_some() => said.unwrap_or(status.code),
            Some(status) => status.code,
            None => said.unwrap_or(1),
        }
    }
}

impl Known {
    fn has_failed(&self) -> bool {
        match &self.status {
            Some(status) => status.code != 0,
            None => self.word.code.is_some(),
        }
    }
}
