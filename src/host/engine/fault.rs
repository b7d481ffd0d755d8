//! Faults: departed ranks, and the operations that cannot happen without them.

use super::active_group::Phase;
use super::comm::{CommState, Gone, MemberId, MemberState};
use super::meeting::{Which, any_call, holds};
use super::state::{Out, State, Step};
use super::window::Window;
use crate::Rank;
use crate::backend::{Departure, Half};
use crate::error::{Departed, Error, Revocation};

/// What a rank waits for if it has started nothing.
const NEXT: &str = "the next operation";

impl CommState {
    /// The operation for which a rank's group waits for another rank.
    fn waits_for(&self, rank: usize, other: usize) -> Option<String> {
        let active = self.members[rank].active.as_ref()?;
        if let Phase::OneSided(at) = active.phase {
            let wait = active.wait_at(at)?;
            return (wait.peer.index() == other).then(|| wait.call.to_string());
        }
        let waits = |which, own, missing, noun| {
            let mut calls = self.seen_calls(which)?.from(0);
            let (index, meeting) = calls.find(|(_, one)| holds(one, own) && one.lacks(missing))?;
            Some(format!("{noun} #{index} ({})", any_call(meeting)?))
        };
        let transfer = |half: Half| {
            let (which, own) = Which::of(rank, Rank::at(other), half);
            waits(which, own, 1 - own, "transfer")
        };
        waits(Which::Collectives, rank, other, "collective")
            .or_else(|| transfer(Half::SendTo))
            .or_else(|| transfer(Half::RecvFrom))
    }
}

impl State {
    /// Records that a rank issues nothing more. If it leaves at once, the communicator ends for
    /// all.
    pub(super) fn depart(&mut self, place: MemberId, why: &str, how: Departure, out: &mut Out) {
        let Some(comm) = self.comm(place) else { return };
        if how == Departure::Survives {
            let (name, by, why) = (comm.name, Rank::at(place.rank), why.to_owned());
            let error = Error::Revocation(Box::new(Revocation { name, by, why }));
            return self.end(place, &[], &|_| error.clone(), out);
        }
        let order = comm.gone;
        let finished = how == Departure::Finished;
        let gone = &mut comm.members[place.rank].gone;
        comm.gone += usize::from(gone.is_none());
        // A rank that had finished was not done after all.
        if gone.as_ref().is_none_or(|known| known.finished) {
            *gone = Some(Gone { why: why.to_owned(), finished, order });
        }
        if comm.broken {
            return;
        }
        match how {
            Departure::AtOnce => self.take_down(place, out),
            _ => self.check_departed(place, out),
        }
    }

    /// Records that a rank of another process left because its communicator had ended for others'
    /// reasons. Those others are lost, not this rank.
    pub(super) fn depart_after_others(&mut self, place: MemberId, why: &str, out: &mut Out) {
        let Some(comm) = self.comm(place) else { return };
        if comm.broken || !comm.members.iter().any(MemberState::is_lost) {
            return self.depart(place, why, Departure::AtOnce, out);
        }
        let order = comm.gone;
        let gone = &mut comm.members[place.rank].gone;
        if gone.is_none() {
            comm.gone += 1;
            *gone = Some(Gone { why: why.to_owned(), finished: true, order });
        }
        self.take_down(place, out);
    }

    /// Ends the communicator because of the ranks that have left without having finished.
    fn take_down(&mut self, place: MemberId, out: &mut Out) {
        let Some(comm) = self.comm(place) else { return };
        let lost: Vec<usize> =
            (0..comm.size()).filter(|rank| comm.members[*rank].is_lost()).collect();
        let waits = |rank| lost.iter().find_map(|&lost| comm.waits_for(rank, lost));
        let during: Vec<_> = (0..comm.size()).map(waits).collect();
        // A rank alone harms no other, but its own group must still be taken down.
        self.break_up(place, lost, &|rank| during[rank].as_deref(), out);
    }

    /// Ends the communicator if a rank waits for something that a departed rank never issues.
    pub(super) fn check_departed(&mut self, place: MemberId, out: &mut Out) {
        let Some(comm) = self.comm(place) else { return };
        if comm.broken || comm.members[place.rank].gone.is_none() {
            return;
        }
        let waiting = comm.rounds.from(0).filter(|(_, round)| round.is_waiting());
        let waiting: Vec<u64> = waiting.map(|(index, _)| index).collect();
        // A rank that waits for a transfer or a signal is in a group.
        let peers = if comm.active_groups > 0 { comm.size() } else { 0 };
        for index in waiting {
            self.check_round(place, index, out);
        }
        for peer in 0..peers {
            self.check_pair(place, place.rank, peer, out);
            self.check_pair(place, peer, place.rank, out);
            self.check_wait(place.of(peer), out);
        }
        self.check_barriers(place, out);
    }

    pub(super) fn check_round(&mut self, place: MemberId, index: u64, out: &mut Out) {
        let Some(comm) = self.comm(place) else { return };
        let Some(round) = comm.rounds.get(index) else { return };
        if !round.is_waiting() || comm.gone == 0 {
            return;
        }
        let is_lost = |&rank: &usize| {
            let member = &comm.members[rank];
            round.lacks(rank) && member.gone.is_some() && member.collectives <= index
        };
        let lost: Vec<usize> = (0..comm.members.len()).filter(is_lost).collect();
        let during = match any_call(round) {
            Some(call) => format!("collective #{index} ({call})"),
            None => format!("collective #{index}"),
        };
        self.lose(place, lost, &during, out);
    }

    /// Checks a transfer between two ranks, one of which may have left.
    pub(super) fn check_pair(&mut self, place: MemberId, from: usize, to: usize, out: &mut Out) {
        let Some(comm) = self.comm(place) else { return };
        if comm.gone == 0 {
            return;
        }
        let Some(pairs) = comm.seen_pairs(from, to) else { return };
        let Some((index, end, call)) = pairs.unanswered() else { return };
        let missing = [to, from][end];
        if comm.members[missing].gone.is_some() {
            self.lose(place, vec![missing], &format!("transfer #{index} ({call})"), out);
        }
    }

    /// Checks a wait for signals of a rank that may have left and whose issued work is over.
    pub(super) fn check_wait(&mut self, place: MemberId, out: &mut Out) {
        let Some(comm) = self.comm(place) else { return };
        let Some(active) = comm.members[place.rank].active.as_ref() else { return };
        let Phase::OneSided(at) = active.phase else { return };
        let Some(wait) = active.wait_at(at) else { return };
        let (call, peer, left) = (wait.call, wait.peer.index(), active.left);
        // It may not have looked since the last signals came.
        let has_all = comm.signals.count(place.rank, peer, wait.slot) >= u64::from(wait.count);
        let member = &comm.members[peer];
        let itself = peer == place.rank;
        if left == 0 && !has_all && member.gone.is_some() && (member.is_idle() || itself) {
            self.lose(place, vec![peer], &call.to_string(), out);
        }
    }

    pub(super) fn lose(&mut self, place: MemberId, lost: Vec<usize>, during: &str, out: &mut Out) {
        if !lost.is_empty() {
            self.break_up(place, lost, &|_| Some(during), out);
        }
    }

    /// Ends the communicator: operations that are not moving data yet are void on every rank.
    /// `during` describes what a rank waits for.
    fn break_up<'d>(
        &mut self,
        place: MemberId,
        lost: Vec<usize>,
        during: &dyn Fn(usize) -> Option<&'d str>,
        out: &mut Out,
    ) {
        let Some(comm) = self.comm(place) else { return };
        let gone = |&rank: &usize| Some((rank, comm.members[rank].gone.as_ref()?));
        let mut left: Vec<_> = lost.iter().filter_map(gone).collect();
        left.sort_by_key(|(_, gone)| (gone.finished, gone.order));
        let left: Vec<_> = left.iter().map(|(rank, gone)| (Rank::at(*rank), &*gone.why)).collect();
        let departed = Departed::each(&left);
        let error = |during: &str| departed.clone().error(comm.name, during.to_owned());
        let during = |rank| during(rank).unwrap_or(NEXT);
        let errors: Vec<_> = (0..comm.size()).map(|rank| error(during(rank))).collect();
        self.end(place, &lost, &|rank| errors[rank].clone(), out);
    }

    /// Ends the communicator with an error for each rank. Lost ranks have a more precise one.
    pub(super) fn end(
        &mut self,
        place: MemberId,
        lost: &[usize],
        error: &dyn Fn(usize) -> Error,
        out: &mut Out,
    ) {
        let Some(comm) = self.comm(place) else { return };
        if comm.broken {
            return;
        }
        self.say_void(place);
        let Some(comm) = self.comm(place) else { return };
        comm.broken = true;
        if comm.remote.is_some() {
            comm.windows.values().for_each(Window::expose);
        }
        if let Some(order) = &comm.order {
            order.breaks();
        }
        for (rank, member) in comm.members.iter_mut().enumerate() {
            member.fault.get_or_insert_with(|| error(rank));
            if let Some(health) = &member.health
                && !lost.contains(&rank)
                && member.gone.is_none()
                && health.poison(error(rank))
            {
                out.poisoned.push(health.clone());
            }
        }
        self.leave_barriers(place, out);
        self.void_waiting(place);
        let Self { comms, todo, .. } = self;
        let Some(comm) = comms.get_mut(place.comm) else { return };
        let size = comm.size();
        let blocked = comm.members.iter_mut().flat_map(|member| member.blocked.drain());
        todo.extend(blocked.map(|(_, stream)| Step::Stream(stream)));
        for rank in 0..size {
            let Some(member) = self.member(place.of(rank)) else { return };
            if let Some(active) = &mut member.active {
                active.void = true;
                // The rank that is the cause has a more precise error.
                let own = member.health.as_ref().and_then(|health| health.fault());
                let (stream, health) = (active.stream, member.health.clone());
                self.void(stream, health, own.unwrap_or_else(|| error(rank)));
                self.todo.push(Step::Member(place.of(rank)));
            }
        }
        self.end_moving(place, out);
    }
}
