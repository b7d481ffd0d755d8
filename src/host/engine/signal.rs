//! Signals: raised by puts and signals, consumed by waits.

use std::collections::{HashMap, VecDeque};

use super::comm::MemberId;
use super::sparse::Sparse;
use super::state::{State, Step};
use crate::Rank;
use crate::backend::Slot;
use crate::error::{Error, Site, Surplus};

/// The signals that each rank has received, by sender and slot.
pub(super) struct Signals {
    size: usize,
    slots: Slot,
    cells: Sparse<Cell>,
    /// How many were consumed in each slot.
    consumed: Vec<u64>,
    /// Signals that their sender refused, by cell. The wait that consumes one gets the error.
    refused: HashMap<usize, VecDeque<Refused>>,
}

/// Signals refused for the same reason, by number.
struct Refused {
    first: u64,
    last: u64,
    reason: Error,
}

/// How many reasons are kept for signals that are never awaited. The last one applies to all later
/// signals.
const REASONS: usize = 16;

#[derive(Default)]
struct Cell {
    signals: typed_nccl_match::Signals,
    /// Where the last one was raised.
    last: Option<Site>,
}

impl Signals {
    pub(super) fn new(size: usize, slots: Slot) -> Self {
        // Twice as many, as graphs have signals of their own.
        let per_pair = 2 * slots.context as usize * slots.index as usize;
        let (cells, consumed) = (Sparse::new(size * size * per_pair), vec![0; per_pair]);
        Self { size, slots, cells, consumed, refused: HashMap::new() }
    }

    /// The typed layer only hands out slots that exist.
    fn cell(&self, to: usize, from: usize, slot: Slot) -> usize {
        let per_pair = 2 * self.slots.context as usize * self.slots.index as usize;
        (to * self.size + from) * per_pair + self.number(slot)
    }

    /// Whether there is such a slot.
    pub(super) fn has(&self, slot: Slot) -> bool {
        slot.context < self.slots.context && slot.index < self.slots.index
    }

    fn number(&self, slot: Slot) -> usize {
        let (contexts, indexes) = (self.slots.context as usize, self.slots.index as usize);
        let context = usize::from(slot.captured) * contexts + slot.context as usize;
        context * indexes + slot.index as usize
    }

    /// How many arrived and were not consumed.
    pub(super) fn count(&self, to: usize, from: usize, slot: Slot) -> u64 {
        self.cells.get(self.cell(to, from, slot)).map_or(0, |cell| cell.signals.left())
    }

    /// Consumes signals if there are enough. Returns how many in this slot were consumed so far.
    pub(super) fn consume(
        &mut self,
        to: usize,
        from: usize,
        slot: Slot,
        count: u64,
    ) -> Option<u64> {
        let (cell, number) = (self.cell(to, from, slot), self.number(slot));
        let consumed = self.cells.take(cell).signals.consume(count)?;
        self.consumed[number] += count;
        Some(consumed.end)
    }

    /// Signals that reached rank `to`, were not refused and were never consumed: in the first slot,
    /// and in slots where some rank consumed any.
    pub(super) fn unawaited(&self, to: usize) -> Vec<Surplus> {
        if self.cells.is_empty() {
            return Vec::new();
        }
        let (contexts, indexes) = (self.slots.context, self.slots.index);
        let slots = (0..contexts)
            .flat_map(|context| (0..indexes).map(move |index| Slot::at(context, index)));
        let mut found = Vec::new();
        for slot in slots {
            if slot != Slot::default() && self.consumed[self.number(slot)] == 0 {
                continue;
            }
            for from in 0..self.size {
                let at = self.cell(to, from, slot);
                let Some(cell) = self.cells.get(at) else { continue };
                let refused = self.refused.get(&at).into_iter().flatten();
                let refused: u64 = refused.map(|many| many.last - many.first + 1).sum();
                let count = cell.signals.left().saturating_sub(refused);
                if let Some(last) = cell.last.filter(|_| count > 0) {
                    let (from, Slot { context, index, .. }) = (Rank::at(from), slot);
                    found.push(Surplus { from, context, index, count, last });
                }
            }
        }
        found
    }

    /// The first refusal among the signals consumed last.
    pub(super) fn take_refusal(&mut self, to: usize, from: usize, slot: Slot) -> Option<Error> {
        if self.refused.is_empty() {
            return None;
        }
        let cell = self.cell(to, from, slot);
        let consumed = self.cells.get(cell)?.signals.consumed();
        let refused = self.refused.get_mut(&cell)?;
        let reason = refused.front().filter(|front| front.first < consumed)?.reason.clone();
        while let Some(front) = refused.front_mut().filter(|front| front.first < consumed) {
            if front.last >= consumed {
                front.first = consumed;
                break;
            }
            refused.pop_front();
        }
        Some(reason)
    }

    fn refuse(&mut self, cell: usize, number: u64, reason: Error) {
        let refused = self.refused.entry(cell).or_default();
        let full = refused.len() >= REASONS;
        match refused.back_mut() {
            Some(back) if full || (back.last + 1 == number && back.reason == reason) => {
                back.last = number;
            }
            _ => refused.push_back(Refused { first: number, last: number, reason }),
        }
    }
}

impl State {
    /// Delivers a signal from `place` to `to`: where it was raised, or why it was refused.
    pub(super) fn raise(
        &mut self,
        place: MemberId,
        to: usize,
        slot: Slot,
        how: Result<Site, Error>,
    ) {
        let Some(comm) = self.comm(place) else { return };
        let cell = comm.signals.cell(to, place.rank, slot);
        let at = comm.signals.cells.take(cell);
        let number = at.signals.raise();
        let is_refused = how.is_err();
        match how {
            Ok(site) => at.last = Some(site),
            Err(reason) => comm.signals.refuse(cell, number, reason),
        }
        if comm.members[to].active.is_some() {
            self.todo.push(Step::Member(place.of(to)));
        }
        self.order_raised(place, (to, slot), number, is_refused);
    }
}
