//! Deadlocks across processes: circles in what ranks have said of their next calls, and telling the
//! other processes of one.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use typed_nccl_match::Graph;

use super::super::comm::MemberId;
use super::super::state::{Out, State};
use super::super::story::{HELP, Ranks};
use super::blocked::{LINES, Next, Until};
use super::packet::Event;
use crate::Rank;
use crate::error::{Deadlock, Error};

/// A deadlock that a process has found.
#[derive(Serialize, Deserialize)]
pub(in crate::host::engine) struct Found {
    /// The ranks of the communicator that it is of.
    ends: Vec<u32>,
    /// The ranks that its report names.
    ranks: Vec<u32>,
    circle: bool,
    story: Vec<String>,
    /// By its number.
    help: usize,
}

/// A rank's call in a communicator of this process, and what comes before it.
type Step<'s> = (MemberId, &'s Until);

impl State {
    /// Ends the communicators of ranks that wait for one another in a circle.
    pub(super) fn end_circle(&mut self, out: &mut Out) -> bool {
        let Some(mut steps) = self.circle() else { return false };
        let lowest = (0..steps.len()).min_by_key(|&at| steps[at].0.rank).unwrap_or(0);
        steps.rotate_left(lowest);
        let mut ranks = Ranks::new();
        let mut lines = Vec::new();
        let mut all_transfers = true;
        // Each step leads to the rank of the next one.
        for (place, until) in &steps {
            ranks.entry((place.id, place.comm)).or_default().insert(place.rank);
            for &(id, rank) in &until.ranks {
                let Some(&comm) = self.by_id.get(&id) else { continue };
                if (rank as usize) < self.comms[comm].size() {
                    ranks.entry((id, comm)).or_default().insert(rank as usize);
                }
            }
            lines.extend(until.lines.iter().cloned());
            all_transfers &= until.all_transfers;
        }
        lines.truncate(LINES);
        self.end_circle_of(ranks, lines, all_transfers, out);
        true
    }

    /// A circle of calls, each of which comes after the next one.
    fn circle(&self) -> Option<Vec<Step<'_>>> {
        let mut all: Vec<(MemberId, Next, &Vec<Until>)> = Vec::new();
        for (comm, state) in &self.comms {
            let Some(remote) = state.remote.as_ref().filter(|_| !state.broken) else { continue };
            let of = |rank| MemberId { comm, id: state.id, rank };
            all.extend(remote.blocked.iter().map(|(key, (next, until))| (of(key.0), *next, until)));
        }
        // The same on every rank.
        all.sort_by_key(|(place, next, _)| (place.id, place.rank, next.is_exchange()));
        let leads = |until: &Until| {
            all.iter().position(|(place, next, _)| {
                (place.id, place.rank) == (until.comm, until.rank as usize)
                    && next.is_before(until.next)
            })
        };
        let mut steps = Vec::new();
        for (from, (_, _, until)) in (0..).zip(&all) {
            steps.extend(
                until.iter().filter_map(|until| Some(((from, leads(until)? as u32), until))),
            );
        }
        let graph =
            Graph::new(all.len(), |edge| steps.iter().for_each(|((from, to), _)| edge(*from, *to)));
        let circuit = graph.circuit();
        let next = circuit.iter().cycle().skip(1);
        let step = |(from, to): (&u32, &u32)| {
            let (_, until) = steps.iter().find(|(way, _)| *way == (*from, *to))?;
            Some((all[*from as usize].0, *until))
        };
        let steps: Vec<_> = circuit.iter().zip(next).filter_map(step).collect();
        (!steps.is_empty()).then_some(steps)
    }

    /// Tells the other processes of a deadlock that this one has found, before they hear what its
    /// ranks do because of it.
    pub(in crate::host::engine) fn say_deadlock(
        &mut self,
        place: MemberId,
        ranks: &BTreeSet<usize>,
        error: &Error,
    ) {
        let Error::Deadlock(deadlock) = error else { return };
        let Some(comm) = self.comm(place).filter(|comm| !comm.broken) else { return };
        let Some(by) = comm.remote.as_ref().and_then(|remote| remote.first()) else { return };
        let number = |rank: &Rank| rank.index() as u32;
        let found = Found {
            ends: ranks.iter().map(|&rank| rank as u32).collect(),
            ranks: deadlock.ranks.iter().map(number).collect(),
            circle: deadlock.circle,
            story: deadlock.story.clone(),
            help: HELP.iter().position(|help| *help == deadlock.help).unwrap_or(0),
        };
        comm.say(by, &Event::Deadlock(found), &[]);
    }

    /// Takes in a deadlock that another process has found.
    pub(super) fn hear_deadlock(&mut self, place: MemberId, found: Found, out: &mut Out) {
        let Some(comm) = self.comm(place).filter(|comm| !comm.broken) else { return };
        let (name, size) = (comm.name, comm.size());
        let ends = found.ends.iter().map(|&rank| rank as usize).filter(|&rank| rank < size);
        let ends: BTreeSet<usize> = ends.collect();
        let mut story = found.story;
        story.truncate(LINES);
        let error = Error::Deadlock(Box::new(Deadlock {
            ranks: found.ranks.iter().map(|&rank| Rank(rank)).collect(),
            circle: found.circle,
            story,
            help: HELP.get(found.help).copied().unwrap_or(HELP[0]),
        }));
        self.end_by(place, name, &ends, &error, out);
    }
}
