//! Reports the engine's events to the check of order: which tasks follow which, and what memory
//! they touch.
//!
//! Without the check a communicator has no clocks, and none of this happens.

use std::sync::{Arc, Weak};

use super::active_group::Booked;
use super::comm::{CommState, MemberId};
use super::meeting::Which;
use super::state::State;
use super::stream::StreamState;
use crate::Rank;
use crate::backend::Slot;
use crate::backend::form::Put;
use crate::host::hazards::{self, CommOrder, StreamOrder};
use crate::host::moves::Entry;

/// The clock of a stream.
fn clock(stream: Option<&StreamState>) -> Option<&StreamOrder> {
    stream?.progress.order()
}

impl State {
    /// A communicator of which the order of uses is checked.
    fn ordered(&self, place: MemberId) -> Option<&CommState> {
        self.seen_comm(place).filter(|comm| comm.order.is_some())
    }

    /// The clock of the stream that executes a rank's group.
    fn clock_of(&self, comm: &CommState, rank: usize) -> Option<&StreamOrder> {
        clock(self.streams.get(comm.members[rank].active.as_ref()?.stream))
    }

    /// The clocks of a communicator, and of the stream that executes a rank's group.
    fn clocks(&mut self, place: MemberId) -> Option<(&mut CommOrder, Option<&StreamOrder>)> {
        let Self { comms, streams, .. } = self;
        let comm = comms.get_mut(place.comm).filter(|comm| comm.id == place.id)?;
        let order = comm.order.as_deref_mut()?;
        let active = comm.members[place.rank].active.as_ref();
        Some((order, active.and_then(|active| clock(streams.get(active.stream)))))
    }

    pub(super) fn order_group_start(&mut self, place: MemberId) {
        if let Some((order, Some(stream))) = self.clocks(place) {
            order.group_starts(place.rank, stream, place.id);
        }
    }

    /// Records that a call of a rank did not happen, which might have established an order: now, if
    /// its group runs, and for its next group.
    pub(super) fn order_lost(&mut self, place: MemberId) {
        if let Some((order, stream)) = self.clocks(place) {
            order.loses(place.rank);
            if let Some(stream) = stream {
                stream.clock(|own| own.lose_order(place.id));
            }
        }
    }

    /// Records that the stream completed the rank's group as its last task.
    pub(super) fn order_group_end(&mut self, place: MemberId, stream: usize) {
        let Self { comms, streams, .. } = self;
        let comm = comms.get_mut(place.comm).filter(|comm| comm.id == place.id);
        if let Some(order) = comm.and_then(|comm| comm.order.as_deref_mut())
            && let Some(stream) = clock(streams.get(stream))
        {
            order.group_ends(place.rank, stream);
        }
    }

    /// Records that the host has seen a rank idle.
    pub(super) fn order_idle(&mut self, place: MemberId) {
        if let Some((order, _)) = self.clocks(place) {
            order.idle(place.rank);
        }
    }

    /// Records that a put begins, if operation `at` of the rank's group is one.
    pub(super) fn order_put(&mut self, place: MemberId, at: usize) {
        let Self { comms, streams, .. } = self;
        let comm = comms.get_mut(place.comm).filter(|comm| comm.id == place.id);
        let Some(comm) = comm else { return };
        let Some(order) = comm.order.as_deref_mut() else { return };
        let active = comm.members[place.rank].active.as_ref();
        let Some(active) = active.filter(|active| active.refused.is_none()) else { return };
        // Of another process's put the source may not be known.
        let Booked::Put(Put { call, peer, span, to, slot }) = &active.ops[at].op else { return };
        let (peer, window) = (peer.index(), comm.windows.get(&to.window));
        let to = window.and_then(|window| window.held(peer, to.offset, call.bytes()));
        let (Some(to), Some(stream)) = (to, clock(streams.get(active.stream))) else { return };
        let source = span.as_ref().map(|from| from.whole(false));
        let ranks = [place.rank, peer];
        let health = |rank: usize| comm.members[rank].health.as_ref();
        let [health, owner] = ranks.map(|rank| health(rank).map_or_else(Weak::new, Arc::downgrade));
        let ([from, to_rank], broken) = (ranks.map(Rank::at), order.broken.clone());
        let (call, name) = (*call, comm.name);
        let put = hazards::Put { call, from, to: to_rank, name, health, owner, broken };
        order.put(stream, (put, slot.context), source.as_ref(), &to.whole(true));
    }

    /// Records a raised signal. If `refused`, the stream did not raise it, as its put did not
    /// happen.
    pub(super) fn order_raised(
        &mut self,
        place: MemberId,
        (to, slot): (usize, Slot),
        number: u64,
        refused: bool,
    ) {
        if let Some((order, stream)) = self.clocks(place) {
            order.raise(stream.filter(|_| !refused), (place.rank, to, slot), number);
        }
    }

    /// Records that a rank's wait consumed the signals of `from` before number `consumed`.
    pub(super) fn order_consumed(
        &mut self,
        place: MemberId,
        (from, slot): (usize, Slot),
        consumed: u64,
    ) {
        if let Some((order, Some(stream))) = self.clocks(place) {
            order.consume(stream, (from, place.rank, slot), consumed);
        }
    }

    /// Records that a rank's group has reached a collective or a transfer.
    pub(super) fn order_operates(&self, place: MemberId, at: usize) {
        let Some(comm) = self.ordered(place) else { return };
        let active = comm.members[place.rank].active.as_ref();
        let Some(active) = active.filter(|active| active.refused.is_none()) else { return };
        let Some(stream) = self.clock_of(comm, place.rank) else { return };
        let op = &active.ops[at].op;
        let (read, written) = op.sides();
        let read = read.and_then(Option::as_ref).map(|held| held.whole(false));
        let written = written.and_then(Option::as_ref).map(|held| held.whole(true));
        hazards::operates(stream, &op.call(), read, written);
    }

    /// Records that all ranks have reached a collective and its data begins to move.
    pub(super) fn order_collective(&self, place: MemberId, index: u64, entry: &Entry) {
        let Some(comm) = self.ordered(place) else { return };
        let clocks = (0..comm.size()).filter_map(|rank| {
            comm.at(Which::Collectives, index, rank)?;
            Some((rank, self.clock_of(comm, rank)?))
        });
        let clocks: Vec<_> = clocks.collect();
        let id = (clocks.len() == comm.size()).then_some(comm.id);
        hazards::collective(entry.name, entry.call.root, &clocks, id);
    }

    /// Records that both sides of a message are present and its data begins to move.
    pub(super) fn order_message(&self, place: MemberId, from: usize, to: usize) {
        let Some(comm) = self.ordered(place) else { return };
        if let [Some(from), Some(to)] = [from, to].map(|rank| self.clock_of(comm, rank)) {
            hazards::message(from, to);
        }
    }
}
