//! Reports on what keeps a stream from proceeding.

use super::active_group::{Booked, HostOp, Phase};
use super::comm::MemberId;
use super::meeting::{Meeting, Which, any_call};
use super::state::State;
use super::stream::{Current, Point, Task};
use super::window::Window;
use crate::backend::form::{Put, Transfer};
use crate::backend::{Blame, Culprit, Wait};

/// How many streams a report follows.
const DEPTH: usize = 8;

/// How many ranks in the same state a report names.
const RANKS: usize = 64;

impl State {
    /// The communicator to blame, by its health's id, and a report.
    pub(super) fn blame(&mut self, point: &Point) -> Option<Blame> {
        let mut key = point.stream().key;
        for _ in 0..DEPTH {
            let stream = self.streams.get(key)?;
            match (&stream.current, stream.queue.front()) {
                (Some(Current::Group { place }), _) => {
                    let place = *place;
                    return self.blame_group(place);
                }
                (Some(Current::Launch { site, at: Some(at), .. }), _) => {
                    let report = self.tell_barrier(at, *site)?;
                    let health = self.seen_member(at.of.place)?.health.as_ref()?;
                    return Some(Blame { culprit: Culprit::Known(health.id()), report });
                }
                (Some(Current::Launch { site, .. }), _) => {
                    // No communicator is to blame: the closure is the program's.
                    let report = format!("the closure launched at {} is not over", site);
                    return Some(Blame { culprit: Culprit::Program, report });
                }
                (Some(Current::Local { site }), _) => {
                    let report = format!("the work enqueued at {site} is not over");
                    return Some(Blame { culprit: Culprit::Program, report });
                }
                (None, Some(Task::Wait(other))) => key = other.stream().key,
                (None, Some(Task::Group { place, .. })) => {
                    // Not its turn: an earlier group of this rank is on another stream.
                    let place = *place;
                    return self.blame_group(place);
                }
                _ => return None,
            }
        }
        None
    }

    /// Describes what a rank's group waits for.
    fn blame_group(&mut self, place: MemberId) -> Option<Blame> {
        let comm = self.comm(place)?;
        let name = comm.name;
        let member = &comm.members[place.rank];
        let culprit = Culprit::Known(member.health.as_ref()?.id());
        let blame = |report| Some(Blame { culprit, report });
        let Some(active) = &member.active else { return blame(String::new()) };
        let report = match active.phase {
            // A put advances to the next operation when its data begins to move.
            Phase::OneSided(at) if active.left > 0 => match active.ops.get(at.wrapping_sub(1)) {
                Some(HostOp { op: Booked::Put(Put { call, peer, to, .. }), .. }) => {
                    let window = comm.windows.get(&to.window);
                    let at =
                        |window: &Window| window.closure_at(peer.index(), to.offset, call.bytes());
                    match window.and_then(at) {
                        Some(site) => format!(
                            "{call}, on {name}, waits for the closure that rank {peer} launched at {}, which has the memory",
                            site
                        ),
                        None => format!("{call}, on {name}, is not over"),
                    }
                }
                _ => String::new(),
            },
            Phase::OneSided(at) => match active.wait_at(at) {
                Some(Wait { call, peer, slot, .. }) => {
                    let peer = peer.index();
                    let arrived = comm.signals.count(place.rank, peer, *slot);
                    let last = last_seen(comm, peer);
                    format!("{call}, on {name}: {arrived} arrived; rank {peer} {last}")
                }
                None => String::new(),
            },
            Phase::Collectives => {
                let mut rounds = comm.rounds.from(0);
                let is_own = |round: &Meeting| round.is_waiting() && !round.lacks(place.rank);
                let (number, round) = rounds.find(|(_, round)| is_own(round))?;
                let call = any_call(round).map(|call| call.to_string()).unwrap_or_default();
                let mut report = format!("collective #{number} on {name} ({call}); arrived:");
                let ranks = 0..comm.members.len();
                let arrived = ranks.clone().filter(|&rank| !round.lacks(rank));
                some(&mut report, arrived, |rank| format!(" {rank}"));
                some(&mut report, ranks.filter(|&rank| round.lacks(rank)), |rank| {
                    match comm.members[rank].collectives > number {
                        true => format!("; rank {rank} enqueued it behind work that is not over"),
                        false => format!("; rank {rank} {}", last_seen(comm, rank)),
                    }
                });
                report
            }
            Phase::Transfers => {
                let waiting = active.ops.iter().find_map(|op| match op {
                    HostOp { index, op: Booked::Transfer(one), .. } if one.span.is_some() => {
                        Some((*index, one))
                    }
                    _ => None,
                });
                let (index, &Transfer { half, call, peer, .. }) = waiting?;
                let (which, own) = Which::of(place.rank, peer, half);
                let (issued, peer) = (comm.issued(which, 1 - own), peer.index());
                let what = match issued > index {
                    true => "enqueued its part behind work that is not over".to_owned(),
                    false => last_seen(comm, peer),
                };
                format!("{call}, on {name}: rank {peer} {what}")
            }
        };
        blame(report)
    }
}

/// Describes the first of these ranks and counts the rest, as each of many ranks gets its own
/// report.
pub(super) fn some(
    report: &mut String,
    mut ranks: impl Iterator<Item = usize>,
    words: impl Fn(usize) -> String,
) {
    ranks.by_ref().take(RANKS).for_each(|rank| *report += &words(rank));
    match ranks.count() {
        0 => {}
        more => *report += &format!(" and {more} more"),
    }
}

/// The last call of a rank that is waited for.
fn last_seen(comm: &super::comm::CommState, rank: usize) -> String {
    match &comm.members[rank].last {
        Some(call) => format!("has not called it, its last call was {call}"),
        None => "made no call yet".to_owned(),
    }
}
