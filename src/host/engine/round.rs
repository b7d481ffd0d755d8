//! Rounds: one collective, from its first arrival to its end on all ranks.

use super::Entry;
use super::comm::Place;
use super::job::Job;
use super::state::{Out, State};
use crate::Rank;
use crate::error::{Call, Error, Mismatch, Refused};

/// One operation of a communicator.
pub(super) struct Round {
    parts: Vec<Part>,
    phase: Phase,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Not every rank has arrived.
    Waiting,
    /// Data moves.
    Moving,
    /// Every rank is done with it.
    Over,
}

/// A rank's part.
enum Part {
    Missing,
    /// Its stream has reached the operation.
    Here {
        stream: usize,
        entry: Box<Entry>,
    },
    /// It moves nothing and went on at once (NCCL drops an operation of no elements).
    Empty {
        call: Call,
    },
    /// It refused its call.
    Refused {
        reason: Error,
    },
    /// Its entry was handed to the job, or its task is over.
    Taken {
        stream: usize,
    },
}

impl Round {
    fn new(size: usize) -> Self {
        Self { parts: (0..size).map(|_| Part::Missing).collect(), phase: Phase::Waiting }
    }

    pub(super) fn is_waiting(&self) -> bool {
        self.phase == Phase::Waiting && !self.parts.iter().all(|p| matches!(p, Part::Missing))
    }

    pub(super) fn is_moving(&self) -> bool {
        self.phase == Phase::Moving
    }

    pub(super) fn has(&self, rank: usize) -> bool {
        !matches!(self.parts[rank], Part::Missing)
    }

    pub(super) fn any_call(&self) -> Option<Call> {
        self.parts.iter().find_map(Part::call)
    }

    fn is_complete(&self) -> bool {
        self.parts.iter().all(|part| !matches!(part, Part::Missing))
    }

    /// Takes the entries of the ranks that wait in it: rank, stream, entry.
    pub(super) fn void(&mut self) -> Vec<(usize, usize, Box<Entry>)> {
        if self.phase != Phase::Waiting {
            return Vec::new();
        }
        self.take_entries()
    }

    fn take_entries(&mut self) -> Vec<(usize, usize, Box<Entry>)> {
        let mut entries = Vec::with_capacity(self.parts.len());
        for (rank, part) in self.parts.iter_mut().enumerate() {
            if let Part::Here { stream, .. } = *part
                && let Part::Here { entry, .. } = std::mem::replace(part, Part::Taken { stream })
            {
                entries.push((rank, stream, entry));
            }
        }
        entries
    }

    /// Each rank's call, where they are not one collective.
    fn mismatch(&self) -> Option<Vec<(Rank, Call)>> {
        let calls: Vec<(Rank, Call)> = self
            .parts
            .iter()
            .enumerate()
            .filter_map(|(rank, part)| Some((Rank::at(rank), part.call()?)))
            .collect();
        let (_, first) = calls.first()?;
        if calls.iter().all(|(_, call)| call.matches(first)) { None } else { Some(calls) }
    }

    fn refusal(&self) -> Option<(Rank, Error)> {
        self.parts.iter().enumerate().find_map(|(rank, part)| match part {
            Part::Refused { reason } => Some((Rank::at(rank), reason.clone())),
            _ => None,
        })
    }
}

impl Part {
    fn call(&self) -> Option<Call> {
        match self {
            Self::Here { entry, .. } => Some(entry.call),
            Self::Empty { call } => Some(*call),
            _ => None,
        }
    }
}

impl State {
    /// A rank's stream has reached operation `seq`.
    pub(super) fn arrive(
        &mut self,
        place: Place,
        seq: u64,
        stream: usize,
        entry: Box<Entry>,
        todo: &mut Vec<usize>,
        out: &mut Out,
    ) {
        let Some(comm) = self.comm(place) else {
            out.void.push(entry);
            return self.task_done(stream, todo, out);
        };
        let member = &comm.members[place.rank];
        if let Some(fault) = &member.fault {
            member.pend(fault.clone());
            out.void.push(entry);
            return self.task_done(stream, todo, out);
        }
        if entry.call.count == 0 {
            self.part(place, seq, Part::Empty { call: entry.call });
            out.void.push(entry);
            self.take_turn(place, seq, todo);
            self.task_done(stream, todo, out);
        } else {
            self.part(place, seq, Part::Here { stream, entry });
        }
        self.settle(place.comm, seq, todo, out);
    }

    /// A rank refused its operation `seq`.
    pub(super) fn refuse(&mut self, place: Place, seq: u64, reason: Error, out: &mut Out) {
        let mut todo = Vec::new();
        if self.comm(place).is_some_and(|comm| !comm.broken) {
            self.part(place, seq, Part::Refused { reason });
            self.book_refusal(place, seq, &mut todo);
            self.settle(place.comm, seq, &mut todo, out);
        }
        for stream in todo {
            self.advance(stream, out);
        }
    }

    fn part(&mut self, place: Place, seq: u64, part: Part) {
        let Some(comm) = self.comm(place) else { return };
        let size = comm.members.len();
        if comm.rounds.is_empty() {
            comm.base = seq;
        }
        while seq < comm.base {
            comm.rounds.push_front(Round::new(size));
            comm.base -= 1;
        }
        let index = usize::try_from(seq - comm.base).unwrap_or(usize::MAX);
        while comm.rounds.len() <= index {
            comm.rounds.push_back(Round::new(size));
        }
        comm.rounds[index].parts[place.rank] = part;
    }

    fn round(&mut self, comm: usize, seq: u64) -> Option<&mut Round> {
        let comm = self.comms.get_mut(comm)?;
        comm.rounds.get_mut(usize::try_from(seq.checked_sub(comm.base)?).ok()?)
    }

    /// Decides what happens once every rank has arrived.
    fn settle(&mut self, comm: usize, seq: u64, todo: &mut Vec<usize>, out: &mut Out) {
        let Some(round) = self.round(comm, seq) else {
            return;
        };
        if !round.is_complete() {
            return self.check_lost(comm, seq, out);
        }
        if let Some((by, reason)) = round.refusal() {
            let reason = Verdict::Refused { by, reason };
            return self.void_round(comm, seq, &reason, todo, out);
        }
        if let Some(calls) = round.mismatch() {
            return self.void_round(comm, seq, &Verdict::Differs { calls }, todo, out);
        }
        round.phase = Phase::Moving;
        let entries = round.take_entries();
        if entries.is_empty() {
            self.close_round(comm, seq);
        } else {
            let parts = entries.into_iter().map(|(_, _, entry)| entry).collect();
            out.jobs.push(Job::new(comm, seq, parts));
        }
    }

    /// The operation does not happen; every rank that made a call is told at its next wait.
    fn void_round(
        &mut self,
        comm: usize,
        seq: u64,
        verdict: &Verdict,
        todo: &mut Vec<usize>,
        out: &mut Out,
    ) {
        let Some(state) = self.comms.get_mut(comm) else {
            return;
        };
        let Some(round) = seq
            .checked_sub(state.base)
            .and_then(|index| state.rounds.get_mut(usize::try_from(index).ok()?))
        else {
            return;
        };
        for (rank, part) in round.parts.iter().enumerate() {
            if let Some(call) = part.call() {
                state.members[rank].pend(verdict.error(state.name, seq, call));
            }
        }
        for (_, _, entry) in round.take_entries() {
            out.void.push(entry);
        }
        self.round_done(comm, seq, Some(todo), out);
    }

    /// Every rank is done with operation `seq`.
    pub(super) fn round_done(
        &mut self,
        comm: usize,
        seq: u64,
        todo: Option<&mut Vec<usize>>,
        out: &mut Out,
    ) {
        let mut own = Vec::new();
        let advance = todo.is_none();
        let todo = todo.unwrap_or(&mut own);
        let streams: Vec<(usize, usize)> = match self.round(comm, seq) {
            Some(round) => {
                let taken = |(rank, part): (usize, &Part)| match part {
                    Part::Taken { stream } => Some((rank, *stream)),
                    _ => None,
                };
                round.parts.iter().enumerate().filter_map(taken).collect()
            }
            None => return,
        };
        self.close_round(comm, seq);
        let Some(id) = self.comms.get(comm).map(|state| state.id()) else {
            return;
        };
        for (rank, stream) in streams {
            self.take_turn(Place { comm, id, rank }, seq, todo);
            self.task_done(stream, todo, out);
        }
        if advance {
            for stream in own {
                self.advance(stream, out);
            }
        }
    }

    fn close_round(&mut self, comm: usize, seq: u64) {
        if let Some(round) = self.round(comm, seq) {
            round.phase = Phase::Over;
        }
        let Some(state) = self.comms.get_mut(comm) else {
            return;
        };
        while state.rounds.front().is_some_and(|round| round.phase == Phase::Over) {
            state.rounds.pop_front();
            state.base += 1;
        }
        self.sweep(comm);
    }
}

/// Why a complete round does not happen.
enum Verdict {
    Refused { by: Rank, reason: Error },
    Differs { calls: Vec<(Rank, Call)> },
}

impl Verdict {
    fn error(&self, name: &'static str, seq: u64, call: Call) -> Error {
        match self {
            Self::Refused { by, reason } => Error::Refused(Box::new(Refused {
                name,
                seq,
                call,
                by: *by,
                reason: reason.clone(),
            })),
            Self::Differs { calls } => {
                Error::Mismatch(Box::new(Mismatch { name, seq, calls: calls.clone() }))
            }
        }
    }
}
