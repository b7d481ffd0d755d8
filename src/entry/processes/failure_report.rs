//! A process's report of its failure: a line in a pipe between it and its launcher.

use std::fmt;
use std::io::{self, BufRead as _, BufReader, PipeReader};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::process::Command;
use std::sync::mpsc::Sender;
use std::{fs, thread};

use super::super::cause::Origin;
use super::inherit::inherit;
use crate::launcher::TELLS;

/// A process's report. The last one counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::entry) struct FailureReport {
    /// The origin of its failure, or of the failure if it ended now without another report.
    pub(in crate::entry) origin: Origin,
    /// The exit code that it is about to end with; `None` while it runs.
    pub(in crate::entry) code: Option<u8>,
}

impl FailureReport {
    /// Nothing is wrong.
    pub(in crate::entry) const RUNS: Self = Self { origin: Origin::Own, code: None };

    fn read(line: &str) -> Option<Self> {
        let (origin, code) = line.split_once(' ')?;
        let origins = [Origin::Own, Origin::Unsure, Origin::Others];
        let origin = origins.into_iter().find(|known| name(*known) == origin)?;
        let code = if code == RUNS { None } else { Some(code.parse().ok()?) };
        Some(Self { origin, code })
    }
}

const RUNS: &str = "runs";

fn name(origin: Origin) -> &'static str {
    match origin {
        Origin::Own => "own",
        Origin::Unsure => "unsure",
        Origin::Others => "others",
    }
}

impl fmt::Display for FailureReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.code {
            Some(code) => writeln!(f, "{} {code}", name(self.origin)),
            None => writeln!(f, "{} {RUNS}", name(self.origin)),
        }
    }
}

/// An event of a process.
pub(super) enum ProcessEvent {
    FailureReport(FailureReport),
    /// It has ended, or has closed the pipe.
    Closed,
}

/// Gives a process a pipe for its reports.
pub(super) fn give(command: &mut Command) -> io::Result<PipeReader> {
    let (reader, writer) = io::pipe()?;
    let writer = fs::File::from(OwnedFd::from(writer));
    command.env(TELLS, format!("{}:{}", writer.as_raw_fd(), writer.metadata()?.ino()));
    inherit(command, writer.into());
    Ok(reader)
}

/// Passes on the reports of rank `rank`, on a separate thread.
pub(super) fn hear(
    rank: usize,
    from: PipeReader,
    to: Sender<(usize, ProcessEvent)>,
) -> io::Result<()> {
    let run = move || {
        let lines = BufReader::new(from).lines().map_while(Result::ok);
        for word in lines.filter_map(|line| FailureReport::read(&line)) {
            // Once the receiver is gone, everything is over.
            let _ = to.send((rank, ProcessEvent::FailureReport(word)));
        }
        let _ = to.send((rank, ProcessEvent::Closed));
    };
    thread::Builder::new().name(format!("words of rank {rank}")).spawn(run).map(drop)
}

#[cfg(test)]
mod tests {
    use super::{FailureReport, Origin};

    #[test]
    fn a_word_reads_as_it_was_said() {
        for origin in [Origin::Own, Origin::Unsure, Origin::Others] {
            for code in [None, Some(1), Some(101)] {
                let word = FailureReport { origin, code };
                assert_eq!(FailureReport::read(word.to_string().trim_end()), Some(word));
            }
        }
        for no_word in ["", "own", "own 256", "mine 1", "others -1", "own runs "] {
            assert_eq!(FailureReport::read(no_word), None, "{no_word}");
        }
    }
}
