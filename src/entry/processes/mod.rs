//! Processes that are ranks: started together, told apart by what they print, ended together.
//!
//! Guarantees:
//!
//! * A line that a process prints is one line here, prefixed with its rank. Output without a
//!   newline is printed when the process's output ends.
//! * When one fails, the others are asked to end, then killed; or they continue, if requested. When
//!   this process is killed, so are they (on Linux).
//! * The process that failed first is named, and its exit code is this process's. The order is that
//!   of causes: each process reports whether another caused its failure ([`FailureReport`]);
//!   one that reports nothing is a cause.
//! * Each process leads a group of its own, so that its children end with it, and so that a signal
//!   reaches it once: through [`Watch::watch`].
//!
//! Nothing here depends on the purpose of a rank.

mod child;
mod failure_report;
mod failures;
mod inherit;
mod output;
mod signals;

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails with what it did not expect")]
mod tests;

use std::io;
use std::process::Command;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

pub(super) use failure_report::FailureReport;
pub(super) use inherit::inherit;
pub(super) use output::Sink;
pub(super) use signals::Signals;

use super::others::Others;
use child::Child;
use failure_report::ProcessEvent;
use failures::Failures;

/// The time for the other processes to end by themselves after a failure, which they learn of and
/// report.
const GRACE: Duration = Duration::from_secs(2);

/// The time for them to end after they are asked to.
const KILL: Duration = Duration::from_secs(5);

/// The time for the last output of an ended process: a process that left its group may hold the
/// pipe.
const LAST: Duration = Duration::from_secs(1);

/// The polling interval.
const REST: Duration = Duration::from_millis(10);

/// The last step taken.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    /// None: they run.
    Run,
    /// One has failed.
    Failed,
    /// Asked to end.
    Asked,
    /// Killed.
    Killed,
}

/// The processes of one job, by rank.
pub(super) struct Watch {
    children: Vec<Child>,
    sink: Sink,
    step: Step,
    /// When the next step is due.
    due: Instant,
    failures: Failures,
    /// Their reports.
    news: Receiver<(usize, ProcessEvent)>,
    /// The process that failed first, once it is reported.
    first: Option<usize>,
    others: Others,
    /// Whether one has succeeded.
    well: bool,
    /// Whether a terminating signal has been passed on.
    told: bool,
    /// That signal, if no process had failed before.
    cause: Option<i32>,
}

impl Watch {
    /// Starts them. If one cannot be started, the ones before it are killed.
    pub(super) fn start(commands: Vec<Command>, sink: Sink, others: Others) -> io::Result<Self> {
        let children = Vec::with_capacity(commands.len());
        let (tell, news) = channel();
        let mut watch = Self {
            children,
            sink,
            step: Step::Run,
            due: Instant::now(),
            failures: Failures::of(commands.len()),
            news,
            first: None,
            others,
            well: false,
            told: false,
            cause: None,
        };
        for (rank, command) in commands.into_iter().enumerate() {
            match Child::start(rank, command, &watch.sink, &tell) {
                Ok(child) => watch.children.push(child),
                Err(error) => {
                    watch.end_all();
                    return Err(error);
                }
            }
        }
        Ok(watch)
    }

    /// Waits for all of them and passes on incoming signals. Returns the exit code: that of the
    /// process that failed first, or 0 if others continued and one of them succeeded.
    pub(super) fn watch(mut self, mut signals: impl FnMut() -> Vec<i32>) -> i32 {
        while !self.look() {
            for signal in signals() {
                self.pass_on(signal);
            }
            if self.step != Step::Run && Instant::now() >= self.due {
                self.next_step();
            }
            self.hear(REST);
        }
        if self.others == Others::End || !self.well {
            self.name_the_first();
        }
        self.end_all();
        self.first.map_or(0, |first| self.failures.code(first))
    }

    /// Records reports that are there or arrive within `time`.
    fn hear(&mut self, time: Duration) {
        if let Ok((rank, news)) = self.news.recv_timeout(time) {
            self.failures.hear(rank, &news);
        }
        self.hear_arrived();
    }

    /// Records reports that are there.
    fn hear_arrived(&mut self) {
        for (rank, news) in self.news.try_iter() {
            self.failures.hear(rank, &news);
        }
    }

    /// Whether all have ended.
    fn look(&mut self) -> bool {
        let ended: Vec<_> = self.children.iter_mut().filter_map(Child::look).collect();
        // A report that arrived before an end was seen counts first.
        self.hear_arrived();
        self.well |= ended.iter().any(|status| status.code == 0);
        let is_over = self.children.iter().all(Child::has_ended);
        let was_asked = matches!(self.step, Step::Asked | Step::Killed);
        for status in ended {
            if status.code != 0 && self.others == Others::GoOn {
                let go_on = !is_over && self.cause.is_none();
                let others = if go_on { "; the others go on" } else { "" };
                self.sink.say(&format!("{status}{others}"));
            } else if status.code != 0 && self.step == Step::Run {
                (self.step, self.due) = (Step::Failed, Instant::now() + GRACE);
            }
            self.failures.ended(status, was_asked);
        }
        is_over
    }

    /// Reports once which process failed first, if one has.
    fn name_the_first(&mut self) {
        let until = Instant::now() + LAST;
        while !self.failures.is_heard() && Instant::now() < until {
            self.hear(REST);
        }
        if self.first.is_some() {
            return;
        }
        self.first = self.failures.first();
        let Some(first) = self.first else { return };
        let status = self.failures.status(first);
        let mut who = self.children[first].name();
        if let Some(status) = status {
            who += &format!(", {}", status.how());
        }
        let others = match self.children.iter().all(Child::has_ended) {
            true => "",
            false => "; the others are ended too",
        };
        let line = match (self.cause, self.others, self.children.len()) {
            (Some(signal), ..) => {
                let how = match status {
                    Some(status) if status.signal == Some(signal) => String::new(),
                    // It may have failed before.
                    _ if self.others == Others::GoOn => String::new(),
                    _ => format!("; the first to fail after that was {who}"),
                };
                format!("the launcher was told to end by signal {signal}, and told its ranks{how}")
            }
            (None, Others::GoOn, _) => format!("no rank ended well; the first to fail was {who}"),
            (None, Others::End, 1) => match status {
                Some(status) => status.to_string(),
                None => format!("{who} failed"),
            },
            (None, Others::End, _) => format!("the first to fail was {who}{others}"),
        };
        self.sink.say(&line);
    }

    fn next_step(&mut self) {
        let (signal, step) = match self.step {
            Step::Run | Step::Failed => (libc::SIGTERM, Step::Asked),
            Step::Asked | Step::Killed => (libc::SIGKILL, Step::Killed),
        };
        if self.step == Step::Failed {
            self.name_the_first();
        }
        self.signal(signal);
        (self.step, self.due) = (step, Instant::now() + KILL);
    }

    /// A second terminating signal ends the processes, however they handle it.
    fn pass_on(&mut self, signal: i32) {
        let ends = matches!(signal, libc::SIGINT | libc::SIGTERM | libc::SIGHUP | libc::SIGQUIT);
        if ends && std::mem::replace(&mut self.told, true) {
            return self.next_step();
        }
        if ends && (self.others == Others::GoOn || self.failures.first().is_none()) {
            self.cause = Some(signal);
        }
        self.signal(signal);
    }

    fn signal(&self, signal: i32) {
        self.children.iter().for_each(|child| child.signal(signal));
    }

    /// Kills the rest of their groups, and waits for their output.
    fn end_all(&mut self) {
        self.children.iter_mut().for_each(Child::kill);
        self.children.iter_mut().for_each(Child::drain);
    }
}
