//! Finds the process that failed first: not the one that ended first, but the one whose failure no
//! other one caused.

use super::child::Status;
use super::failure_report::{FailureReport, ProcessEvent};

/// The reports about each process, by rank.
pub(super) struct Failures {
    known: Vec<Known>,
    /// The number of reports so far.
    news: u64,
}

struct Known {
    word: FailureReport,
    status: Option<Status>,
    /// Whether it was asked to end before it did.
    was_asked: bool,
    /// When its first report arrived.
    since: Option<u64>,
    /// Whether it sends no further reports.
    closed: bool,
}

impl Failures {
    pub(super) fn of(size: usize) -> Self {
        let known = || Known {
            word: FailureReport::RUNS,
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

    /// Records a report of a process, or the end of its reports.
    pub(super) fn hear(&mut self, rank: usize, news: &ProcessEvent) {
        let Some((known, now)) = self.news(rank) else { return };
        match *news {
            ProcessEvent::FailureReport(FailureReport::RUNS) => {
                (known.word, known.since) = (FailureReport::RUNS, None)
            }
            ProcessEvent::FailureReport(word) => {
                known.word = word;
                known.since.get_or_insert(now);
            }
            ProcessEvent::Closed => {
                known.closed = true;
                known.since.get_or_insert(now);
            }
        }
    }

    /// Records the end of a process.
    pub(super) fn ended(&mut self, status: Status, was_asked: bool) {
        let Some((known, now)) = self.news(status.rank) else { return };
        (known.status, known.was_asked) = (Some(status), was_asked);
        known.since.get_or_insert(now);
    }

    /// Whether every process that ended has also ended its reports.
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

    /// The exit code of a failed rank. If it was killed while it was ending, that is the code it
    /// reported.
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
