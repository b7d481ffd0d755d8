//! Reports: what keeps a stream from going on.

use super::comm::Place;
use super::state::State;
use super::stream::{Current, Point, Task};
use crate::error::At;

/// How many streams a report follows.
const DEPTH: usize = 8;

impl State {
    /// The communicator to blame, by its health's id, and what is known.
    pub(super) fn blame(&mut self, point: &Point) -> Option<(u64, String)> {
        let mut key = point.stream().key;
        for _ in 0..DEPTH {
            let stream = self.streams.get(key)?;
            match (&stream.current, stream.queue.front()) {
                (Some(Current::Collective { place, seq, call }), _) => {
                    let (place, seq, call) = (*place, *seq, *call);
                    return self.blame_round(place, seq, &call.to_string());
                }
                (Some(Current::Launch { site }), _) => {
                    let health = 0;
                    let report = format!("the closure launched at {} is not over", At(site));
                    return Some((health, report));
                }
                (None, Some(Task::Wait(other))) => key = other.stream().key,
                (None, Some(Task::Collective { place, seq, entry })) => {
                    let (place, seq, call) = (*place, *seq, entry.call.to_string());
                    return self.blame_round(place, seq, &format!("{call}, not its turn yet"));
                }
                _ => return None,
            }
        }
        None
    }

    fn blame_round(&mut self, place: Place, seq: u64, call: &str) -> Option<(u64, String)> {
        let comm = self.comm(place)?;
        let health = comm.members[place.rank].health.as_ref()?.id();
        let round = seq.checked_sub(comm.base).and_then(|i| comm.rounds.get(i as usize));
        let mut report = format!("operation #{seq} on {} ({call}); arrived:", comm.name);
        let here = |rank: usize| round.is_some_and(|round| round.has(rank));
        for rank in (0..comm.members.len()).filter(|&rank| here(rank)) {
            report += &format!(" {rank}");
        }
        for rank in (0..comm.members.len()).filter(|&rank| !here(rank)) {
            let member = &comm.members[rank];
            report += &match (&member.last, member.issued > seq) {
                (_, true) => format!("; rank {rank} enqueued it behind work that is not over"),
                (Some(call), false) => {
                    format!(
                        "; rank {rank} has not called it, its last call was #{} ({call})",
                        member.issued - 1
                    )
                }
                (None, false) => format!("; rank {rank} made no call yet"),
            };
        }
        Some((health, report))
    }
}
