//! The order that the ranks of a communicator establish among each other.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use typed_nccl_match::{Clock, When};

use super::by::{By, Put};
use super::line::Line;
use super::{Clash, StreamOrder, used};
use crate::Rank;
use crate::backend::Slot;
use crate::error::{Call, CollectiveName, Operation, Site};
use crate::host::block::Touch;
use crate::host::moves::Local;

/// How many unawaited signals of a kind keep their own clock. Beyond that, the oldest get the next
/// one's clock, which hides mistakes and invents none.
const RAISED: usize = 256;

/// The clocks of a communicator.
#[derive(Default)]
pub(in crate::host) struct CommOrder {
    /// The clock after each rank's last group: groups of one rank run in order, on any streams.
    groups: HashMap<usize, Clock>,
    /// Puts, by sender, receiver and context. A wait for a signal also covers the earlier puts of
    /// its line.
    puts: HashMap<(usize, usize, u32), Line>,
    /// The clock of each signal not awaited yet, by sender, receiver and slot.
    raised: HashMap<(usize, usize, Slot), VecDeque<(u64, Clock)>>,
    /// Ranks of which a call did not happen that might have established an order.
    lost: HashSet<usize>,
    /// Set before its waits are released: they order nothing from then on.
    pub(in crate::host) broken: Arc<AtomicBool>,
}

impl CommOrder {
    /// `None` if the order of uses is not checked.
    pub(in crate::host) fn open() -> Option<Box<Self>> {
        super::is_on().then(Box::default)
    }

    /// Records that the communicator ended before its work did.
    pub(in crate::host) fn breaks(&self) {
        self.broken.store(true, Ordering::Release);
    }

    /// Records that a rank's stream has reached a group of communicator `id`.
    pub(in crate::host) fn group_starts(&mut self, rank: usize, stream: &StreamOrder, id: u64) {
        if let Some(clock) = self.groups.get(&rank) {
            stream.clock(|own| own.join(clock));
        }
        if self.lost.remove(&rank) {
            stream.clock(|own| own.lose_order(id));
        }
    }

    /// Records that a call of a rank did not happen: what the rank does next is compared with
    /// nothing.
    pub(in crate::host) fn loses(&mut self, rank: usize) {
        self.lost.insert(rank);
    }

    /// Records that the stream has completed the group.
    pub(in crate::host) fn group_ends(&mut self, rank: usize, stream: &StreamOrder) {
        let clock = self.groups.entry(rank).or_default();
        stream.clock(|own| clock.clone_from(own));
    }

    /// Records that the host has seen a rank's groups completed.
    pub(in crate::host) fn idle(&self, rank: usize) {
        if let Some(clock) = self.groups.get(&rank) {
            super::known::learn(|known| known.join_arrived(clock));
        }
    }

    /// Records a put: a read here now, and a write at the peer that is over when a signal says so.
    pub(in crate::host) fn put(
        &mut self,
        stream: &StreamOrder,
        (put, context): (Put, u32),
        from: Option<&Touch<'_>>,
        to: &Touch<'_>,
    ) {
        let when = stream.at_step();
        if let Some(from) = from {
            used(from, By::Owner(put.call.site), &when).into_iter().for_each(Clash::tell);
        }
        let line =
            self.puts.entry((put.from.index(), put.to.index(), context)).or_insert_with(Line::open);
        line.last += 1;
        let when = When { line: line.id, event: line.last, ..when };
        used(to, By::Put(put), &when).into_iter().for_each(Clash::tell);
        stream.clock(|own| own.send(when.line, when.event));
        stream.step();
    }

    /// Records a rank's signal `number` of a kind. Without a stream, the host raised it.
    pub(in crate::host) fn raise(
        &mut self,
        stream: Option<&StreamOrder>,
        (from, to, slot): (usize, usize, Slot),
        number: u64,
    ) {
        let Some(stream) = stream else { return };
        let mut clock = stream.clock(|own| own.clone());
        if let Some(line) = self.puts.get(&(from, to, slot.context)) {
            clock.arrived(line.id);
        }
        let raised = self.raised.entry((from, to, slot)).or_default();
        if raised.len() == RAISED {
            raised.pop_front();
            if let Some((oldest, _)) = raised.front_mut() {
                *oldest = 0;
            }
        }
        raised.push_back((number, clock));
    }

    /// Records that a wait consumed the signals of a kind before number `consumed`.
    pub(in crate::host) fn consume(
        &mut self,
        stream: &StreamOrder,
        kind: (usize, usize, Slot),
        consumed: u64,
    ) {
        let Some(raised) = self.raised.get_mut(&kind) else { return };
        while raised.front().is_some_and(|(number, _)| *number < consumed) {
            if let Some((_, clock)) = raised.pop_front() {
                stream.clock(|own| own.join(&clock));
            }
        }
    }
}

/// Records what an operation reads and writes on this rank.
pub(in crate::host) fn operates(
    stream: &StreamOrder,
    call: &Call,
    read: Option<Touch<'_>>,
    written: Option<Touch<'_>>,
) {
    let by = || By::Owner(call.site);
    if let Some(read) = read {
        used(&read, by(), &stream.at_step()).into_iter().for_each(Clash::tell);
        stream.step();
    }
    for written in written.into_iter().flat_map(|written| without(written, read, call.operation)) {
        used(&written, by(), &stream.at_task()).into_iter().for_each(Clash::tell);
    }
}

/// Records what work on one rank's memory reads and writes.
pub(in crate::host) fn local(stream: &StreamOrder, work: &Local, site: Site) {
    for touch in work.uses().filter(|touch| touch.block.is_shared()) {
        used(&touch, By::Owner(site), &stream.at_task()).into_iter().for_each(Clash::tell);
    }
}

/// A moving collective in place does not write the range that it reads.
fn without<'b>(
    written: Touch<'b>,
    read: Option<Touch<'b>>,
    operation: Operation,
) -> Vec<Touch<'b>> {
    let moves = match operation {
        Operation::Collective(name) => !name.reduces(),
        Operation::SendTo
        | Operation::RecvFrom
        | Operation::PutSignal
        | Operation::Signal
        | Operation::WaitSignal => false,
    };
    let Some(read) = read.filter(|read| moves && std::ptr::eq(read.block, written.block)) else {
        return vec![written];
    };
    let (end, read_end) = (written.start + written.bytes, read.start + read.bytes);
    let before = Touch { bytes: read.start.clamp(written.start, end) - written.start, ..written };
    let start = read_end.clamp(written.start, end);
    vec![before, Touch { start, bytes: end - start, ..written }]
}

/// Records a complete collective: receivers learn what the senders know. If that is all of each
/// other, communicator `id` has regained the order that calls before it lost.
pub(in crate::host) fn collective(
    name: CollectiveName,
    root: Option<Rank>,
    ranks: &[(usize, &StreamOrder)],
    id: Option<u64>,
) {
    let root = root.map(Rank::index);
    let spec = name.spec();
    let mut all = Clock::default();
    for (_, stream) in ranks.iter().filter(|(rank, _)| spec.send.is_on(Some(*rank) == root)) {
        stream.clock(|own| all.join_arrived(own));
    }
    for (_, stream) in ranks.iter().filter(|(rank, _)| spec.recv.is_on(Some(*rank) == root)) {
        stream.clock(|own| own.join(&all));
    }
    if let (Some(id), None) = (id, root) {
        ranks.iter().for_each(|(_, stream)| stream.clock(|own| own.regain_order(id)));
    }
}

/// Records a message: its receiver learns what its sender knows.
pub(in crate::host) fn message(from: &StreamOrder, to: &StreamOrder) {
    let clock = from.clock(|own| own.clone());
    to.clock(|own| own.join_arrived(&clock));
}
