//! Why streams wait for each other, each reason once.

use std::collections::HashSet;

use super::events::Waits;
use super::schedule::WhyWait;
use super::words::Words;
use crate::check::LocalReason;
use crate::ir::{Location, StreamId};
use crate::program::{Program, Span};

pub(super) struct Why<'a> {
    program: &'a Program,
    words: &'a Words<'a>,
    /// The waits that were looked at. Most are of a few kinds, which need no sentence each.
    seen: HashSet<(Location, Location, bool, LocalReason)>,
    told: HashSet<(Location, Location, bool, String)>,
    found: Vec<WhyWait>,
}

impl<'a> Why<'a> {
    pub(super) fn new(program: &'a Program, words: &'a Words<'a>) -> Self {
        let (seen, told) = (HashSet::new(), HashSet::new());
        Self { program, words, seen, told, found: Vec::new() }
    }

    /// Adds the waits of a rank.
    pub(super) fn add(&mut self, rank: usize, waits: &Waits) {
        let begin = self.program.of_rank(rank).start;
        for (unit, waits) in waits.of.iter().enumerate() {
            for wait in waits {
                let (unit, other) = (begin + unit, begin + wait.unit as usize);
                let (waiter, recorder) = (self.program.at(unit), self.program.at(other));
                if !self.seen.insert((waiter, recorder, wait.carried, about(wait.why))) {
                    continue;
                }
                let why = self.sentence(rank, wait.why);
                if self.told.insert((waiter, recorder, wait.carried, why.clone())) {
                    let stream = |unit: usize| StreamId(self.program.units[unit].stream.into());
                    let (stream, other) = (stream(unit), stream(other));
                    let carried = wait.carried;
                    self.found.push(WhyWait { waiter, recorder, stream, other, carried, why });
                }
            }
        }
    }

    pub(super) fn finish(self) -> Vec<WhyWait> {
        self.found
    }

    fn sentence(&self, rank: usize, why: LocalReason) -> String {
        match why {
            LocalReason::After(stream) => {
                format!("it is `after` stream `{}`", self.words.stream(stream))
            }
            LocalReason::Memory(both) => {
                let name = self.words.span(self.program, both);
                match self.program.objects.all[both.object as usize].len.same() == Some(both.len())
                {
                    true => format!("both use {name}"),
                    false => format!("both use {name}, on rank {rank}"),
                }
            }
            LocalReason::Signals => "it uses a window after a wait for signals".to_owned(),
            LocalReason::Stream(_) | LocalReason::Communicator(_) => {
                "it is issued later".to_owned()
            }
        }
    }
}

/// A reason but for the elements, which differ from rank to rank and from turn to turn.
fn about(why: LocalReason) -> LocalReason {
    match why {
        LocalReason::Memory(both) => LocalReason::Memory(Span { start: 0, end: 0, ..both }),
        why => why,
    }
}
