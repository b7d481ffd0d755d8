//! Signals: raised by puts and signals, consumed by waits.

use std::collections::{HashMap, VecDeque};

use super::comm::Place;
use super::state::{State, Step};
use crate::backend::Slot;
use crate::error::Error;

/// The signals that each rank has received, by sender and slot.
pub(super) struct Signals {
    size: usize,
    slots: Slot,
    cells: Vec<Cell>,
    /// Signals that their sender refused to send, by cell: the wait that consumes one is told.
    refused: HashMap<usize, VecDeque<Refused>>,
}

/// Signals that were refused for one reason, by number.
struct Refused {
    first: u64,
    last: u64,
    reason: Error,
}

/// How many reasons are kept for signals that nobody awaits; the last one stands for what follows.
const REASONS: usize = 16;

#[derive(Clone, Copy, Default)]
struct Cell {
    raised: u64,
    consumed: u64,
}

impl Signals {
    pub(super) fn new(size: usize, slots: Slot) -> Self {
        let per_pair = slots.context as usize * slots.index as usize;
        let cells = vec![Cell::default(); size * size * per_pair];
        Self { size, slots, cells, refused: HashMap::new() }
    }

    /// The typed layer hands out slots that exist.
    fn cell(&self, to: usize, from: usize, slot: Slot) -> usize {
        let (contexts, indexes) = (self.slots.context as usize, self.slots.index as usize);
        let pair = to * self.size + from;
        (pair * contexts + slot.context as usize) * indexes + slot.index as usize
    }

    /// How many arrived and were not consumed.
    pub(super) fn count(&self, to: usize, from: usize, slot: Slot) -> u64 {
        let cell = self.cells.get(self.cell(to, from, slot)).copied().unwrap_or_default();
        cell.raised - cell.consumed
    }

    /// Consumes signals, if there are enough; how many of the kind were consumed so far.
    pub(super) fn consume(
        &mut self,
        to: usize,
        from: usize,
        slot: Slot,
        count: u64,
    ) -> Option<u64> {
        let cell = self.cell(to, from, slot);
        match self.cells.get_mut(cell) {
            Some(cell) if cell.raised - cell.consumed >= count => {
                cell.consumed += count;
                Some(cell.consumed)
            }
            _ => None,
        }
    }

    /// The first refusal among the signals that were consumed last.
    pub(super) fn take_refusal(&mut self, to: usize, from: usize, slot: Slot) -> Option<Error> {
        if self.refused.is_empty() {
            return None;
        }
        let cell = self.cell(to, from, slot);
        let consumed = self.cells.get(cell)?.consumed;
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
            Some(back) if full || (back.last + 1 == number && back.reason.says_what(&reason)) => {
                back.last = number;
            }
            _ => refused.push_back(Refused { first: number, last: number, reason }),
        }
    }
}

impl State {
    /// A signal from `place` arrives at `to`; with a reason if it was refused.
    pub(super) fn raise(&mut self, place: Place, to: usize, slot: Slot, refused: Option<Error>) {
        let Some(comm) = self.comm(place) else { return };
        let cell = comm.signals.cell(to, place.rank, slot);
        let Some(at) = comm.signals.cells.get_mut(cell) else { return };
        let number = at.raised;
        at.raised += 1;
        let is_refused = refused.is_some();
        if let Some(reason) = refused {
            comm.signals.refuse(cell, number, reason);
        }
        if comm.members[to].flight.is_some() {
            self.todo.push(Step::Member(place.of(to)));
        }
        self.order_raised(place, (to, slot), number, is_refused);
    }
}
